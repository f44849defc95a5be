/* SPDX-License-Identifier: Apache-2.0 */
/* fsck.c - a directory is looked through: what is there, what is damaged, how far the log goes.
 *
 * SQLite changes what it opens, so it is given a copy, which goes again.
 */
#include "store/fsck.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "store/page_file.h"

enum { COPY_BYTES = 1 << 18, LINE_BYTES = 512, PAGES_SAID = 8, SPARE_AT = 20 };

void fsck_say(struct fsck *fsck, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (fsck->how->say)
        fsck->how->say(fsck->how->arg, line);
}

void fsck_fault(struct fsck *fsck, const struct error *err)
{
    fsck->found++;
    fsck_say(fsck, "damaged: %s", err->text);
}

void fsck_know(struct fsck *fsck, uint64_t seq, uint64_t generation)
{
    fsck->known = seq > fsck->known ? seq : fsck->known;
    fsck->generation = generation > fsck->generation ? generation : fsck->generation;
}

static int copy_file(const char *from, const char *to, struct error *err)
{
    char *piece = mem_zalloc(COPY_BYTES, 1);
    int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), r = 0;
    ssize_t n = 0;

    if (!piece || in < 0 || out < 0)
        r = in < 0 && errno == ENOENT ? -ENOENT : -EIO;
    while (r == 0 && (n = read(in, piece, COPY_BYTES)) > 0)
        if (write(out, piece, (size_t)n) != n)
            r = -EIO;
    if (r == -EIO || n < 0)
        r = error_set(err, -EIO, "a copy of %s: %s", from, strerror(errno));
    if (in >= 0)
        (void)close(in);
    if (out >= 0)
        (void)close(out);
    mem_free(piece);
    return r;
}

static void path_of(const struct fsck *fsck, const char *name, char *out, size_t size)
{
    (void)snprintf(out, size, "%s/%s", fsck->directory, name);
}

static void copy_remove(const struct fsck *fsck)
{
    static const char *const names[] = { "muster.db", "muster.db-wal", "muster.db-journal" };
    char path[DB_PATH + 32];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", fsck->copy, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(fsck->copy);
}

static int copy_make(struct fsck *fsck, struct error *err)
{
    static const char *const names[] = { "muster.db", "muster.db-wal" };
    char from[DB_PATH + 32], to[DB_PATH + 32];
    int r = 0;

    copy_remove(fsck);
    if (mkdir(fsck->copy, 0700) < 0)
        return error_set(err, -errno, "%s: %s", fsck->copy, strerror(errno));
    for (size_t i = 0; r == 0 && i < 2; i++) {
        path_of(fsck, names[i], from, sizeof(from));
        (void)snprintf(to, sizeof(to), "%s/%s", fsck->copy, names[i]);
        r = copy_file(from, to, err);
        if (r == -ENOENT) {
            (void)unlink(to);
            r = 0;
        }
    }
    return r;
}

/* The pages as they lie there; those that the write-ahead log replaces are not looked at by anybody. */
static void pages_look(struct fsck *fsck)
{
    char path[DB_PATH + 32], page[PAGE_BYTES];
    uint32_t number = 1, bad = 0;
    struct error err;
    int fd;

    path_of(fsck, "muster.db", path, sizeof(path));
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        (void)error_set(&err, -errno, "muster.db: %s", errno == ENOENT ? "missing" : strerror(errno));
        fsck_fault(fsck, &err);
        return;
    }
    for (; pread(fd, page, sizeof(page), ((off_t)number - 1) * PAGE_BYTES) == PAGE_BYTES; number++) {
        if (page_whole(page, number) || ++bad > PAGES_SAID)
            continue;
        (void)error_set(&err, -EBADMSG, "muster.db: page %u, at byte %lld", number,
                        ((long long)number - 1) * PAGE_BYTES);
        fsck_fault(fsck, &err);
    }
    if (bad > PAGES_SAID)
        fsck_say(fsck, "damaged: muster.db: %u pages in all", bad);
    (void)close(fd);
}

static void wal_look(struct fsck *fsck)
{
    char path[DB_PATH + 32];
    struct wal_look look;

    path_of(fsck, "muster.db-wal", path, sizeof(path));
    check_wal(path, &look);
    if (!look.there)
        fsck_say(fsck, "muster.db-wal is not there, as it should be after a stop in order, and only then");
    else if (look.damaged_at >= 0)
        fsck_say(fsck, "muster.db-wal breaks off at byte %lld, though it goes on behind", (long long)look.damaged_at);
}

static void database_look(struct fsck *fsck)
{
    char path[DB_PATH + 32];
    struct error err;
    int r;

    (void)snprintf(path, sizeof(path), "%s/muster.db", fsck->copy);
    if (access(path, F_OK) < 0)
        return;
    r = db_open(path, &fsck->db, fsck->digester, &err);
    if (r == 0)
        r = check_log(&fsck->db, &err);
    if (r == 0) {
        fsck->end = fsck->db.head.end;
        fsck_say(fsck, "muster.db: whole to batch %llu, commit %llu", (unsigned long long)fsck->end.seq,
                 (unsigned long long)fsck->end.generation);
    } else {
        fsck_fault(fsck, &err);
    }
    fsck_know(fsck, fsck->db.head.end.seq, fsck->db.head.end.generation);
    r = check_history(&fsck->db, &err);
    if (r == 0)
        fsck_say(fsck, "muster.db: %lld finished jobs", (long long)fsck->db.head.jobs);
    else
        fsck_fault(fsck, &err);
}

static int batch_know(void *arg, uint64_t seq, const struct digest *chain, const char *data, size_t size,
                      struct error *err)
{
    struct fsck *fsck = arg;

    (void)chain;
    (void)data;
    (void)size;
    (void)err;
    fsck_know(fsck, seq, 0);
    return 0;
}

static void tail_look(struct fsck *fsck)
{
    struct error err;
    char path[DB_PATH + 32];

    path_of(fsck, "log-tail", path, sizeof(path));
    if (access(path, F_OK) < 0 && !fsck->db.head.in_use)
        return;
    if (tail_open(fsck->directory, false, &fsck->tail, &err) < 0) {
        fsck_fault(fsck, &err);
        return;
    }
    (void)tail_salvage(fsck->tail, batch_know, fsck, NULL);
    if (tail_load(fsck->tail, &fsck->db.head.end, fsck->digester, &fsck->end, &err) < 0)
        fsck_fault(fsck, &err);
    else
        fsck_say(fsck, "log-tail: whole to batch %llu", (unsigned long long)fsck->end.seq);
    if (tail_worn(fsck->tail))
        fsck_say(fsck, "%s", tail_worn(fsck->tail));
}

static void mark_look(struct fsck *fsck)
{
    struct error err;

    if (fsck->mark_state == MARK_READ) {
        fsck_say(fsck, "mark: batch %llu, commit %llu", (unsigned long long)fsck->mark.seq,
                 (unsigned long long)fsck->mark.generation);
        fsck_know(fsck, fsck->mark.seq, fsck->mark.generation);
    } else {
        fsck_say(fsck, "mark: %s; it is made anew at the next start",
                 fsck->mark_state == MARK_NONE ? "not there" : "damaged");
    }
    if (check_mark(fsck->mark_state, &fsck->mark, &fsck->end, &err) < 0)
        fsck_fault(fsck, &err);
}

static bool has_sums(const char *path)
{
    char head[SPARE_AT + 1] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool has = fd >= 0 && pread(fd, head, sizeof(head), 0) == (ssize_t)sizeof(head) && head[SPARE_AT] == PAGE_SPARE;

    if (fd >= 0)
        (void)close(fd);
    return has;
}

static int look(struct fsck *fsck, struct error *err)
{
    int r = copy_make(fsck, err);

    if (r < 0)
        return r;
    fsck->mark_state = mark_read(fsck->directory, &fsck->mark);
    pages_look(fsck);
    wal_look(fsck);
    database_look(fsck);
    tail_look(fsck);
    mark_look(fsck);
    if (fsck->found == 0) {
        fsck_say(fsck, "all is well: %llu batches, nothing is missing", (unsigned long long)fsck->end.seq);
        return 0;
    }
    if (!fsck->how->repair)
        return error_set(err, -EBADMSG, "%s: %u faults; nothing was changed", fsck->directory, fsck->found);
    return fsck_repair(fsck, err);
}

static int of_former_version(struct fsck *fsck, const char *path)
{
    char v2[DB_PATH + 32];

    path_of(fsck, "log-tail", v2, sizeof(v2));
    if (access(path, F_OK) < 0 || has_sums(path) || access(v2, F_OK) == 0)
        return 0;
    fsck_say(fsck,
             "the state is of the former version, which had no sums; musterd makes it one of this when it starts");
    return 1;
}

int store_fsck(const char *directory, const struct store_fsck *how, struct error *err)
{
    struct fsck fsck = { .how = how, .directory = directory };
    char path[DB_PATH + 32];
    int lock, r;

    if (access(directory, R_OK | W_OK | X_OK) < 0)
        return error_set(err, -errno, "%s: %s", directory, strerror(errno));
    lock = store_lock(directory, err);
    if (lock < 0)
        return lock;
    (void)snprintf(fsck.copy, sizeof(fsck.copy), "%s/fsck.tmp", directory);
    path_of(&fsck, "muster.db", path, sizeof(path));
    r = digester_new(&fsck.digester) < 0 ? error_set(err, -ENOMEM, "no memory") : of_former_version(&fsck, path);
    if (r == 0)
        r = look(&fsck, err);
    db_close(&fsck.db);
    tail_close(fsck.tail);
    copy_remove(&fsck);
    digester_free(fsck.digester);
    (void)close(lock);
    return r < 0 ? r : 0;
}
