/* SPDX-License-Identifier: Apache-2.0 */
/* open_sqlite.c - a directory is proved to be whole, and only then written to. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "store/store_sqlite.h"

enum { WAL_BYTES = 5 << 20 };

void store_own(const char *path, int fd)
{
    char folder[DB_PATH];
    const char *slash = strrchr(path, '/');
    struct stat st;

    if (geteuid() != 0 || !slash || slash == path || (size_t)(slash - path) >= sizeof(folder))
        return;
    (void)snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path);
    if (stat(folder, &st) == 0)
        (void)!fchown(fd, st.st_uid, st.st_gid);
}

int store_lock(const char *directory, struct error *err)
{
    char path[DB_PATH];
    int fd;

    if ((size_t)snprintf(path, sizeof(path), "%s/lock", directory) >= sizeof(path) - 64)
        return error_set(err, -ENAMETOOLONG, "store: %s: the name is too long", directory);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set(err, -errno, "store: %s: %s", path, strerror(errno));
    store_own(path, fd);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        (void)close(fd);
        return error_set(err, -EBUSY, "store: %s is in use by another controller", directory);
    }
    return fd;
}

int store_directory_sync(const char *directory, struct error *err)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = fd < 0 || fsync(fd) < 0 ? error_set(err, -errno, "store: %s: %s", directory, strerror(errno)) : 0;

    if (fd >= 0)
        (void)close(fd);
    return r;
}

static int64_t size_of(const struct store_sqlite *s, const char *name)
{
    char path[DB_PATH + 16];
    struct stat st;

    (void)snprintf(path, sizeof(path), "%s/%s", s->directory, name);
    return stat(path, &st) < 0 ? -1 : st.st_size;
}

/* An empty one. It has its name only when it is whole. */
static int database_make(struct store_sqlite *s, struct error *err)
{
    char made[DB_PATH + 32], path[DB_PATH + 16];
    struct db db;
    int r;

    (void)snprintf(path, sizeof(path), "%s/muster.db", s->directory);
    (void)snprintf(made, sizeof(made), "%s.new", path);
    r = db_make(made, &db, s->digester, err);
    if (r == 0)
        r = db_begin(&db, err);
    if (r == 0)
        r = db_commit(&db, err);
    db_close(&db);
    if (r == 0 && rename(made, path) < 0)
        r = error_set(err, -errno, "store: %s: %s", path, strerror(errno));
    return r == 0 ? store_directory_sync(s->directory, err) : r;
}

/* There is a database, if there was ever one. */
static int database_find(struct store_sqlite *s, struct error *err)
{
    static const char *const others[] = { "muster.db-wal", "log-tail", "mark", "tail" };
    int64_t size = size_of(s, "muster.db");

    if (size > 0)
        return 0;
    if (size == 0)
        return error_set(err, -EBADMSG, "muster.db is empty");
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (size_of(s, others[i]) > 0)
            return error_set(err, -EBADMSG, "muster.db is missing, though there is a %s", others[i]);
    return database_make(s, err);
}

static int version_check(struct store_sqlite *s, struct error *err)
{
    int64_t version = db_number(s->db.sql, "PRAGMA user_version");

    if (version < 0)
        return db_fail(&s->db, err, "muster.db");
    if (version == STORE_SCHEMA_VERSION)
        return 0;
    return error_set(err, -EPROTONOSUPPORT,
                     "store: %s/muster.db was written by another version (schema %lld, this is %d); the version that "
                     "wrote it reads it",
                     s->directory, (long long)version, STORE_SCHEMA_VERSION);
}

/* All that was acknowledged is there; nothing is changed. */
static int prove(struct store_sqlite *s, struct error *err)
{
    char path[DB_PATH + 16];
    struct mark mark;
    enum mark_state state = mark_read(s->directory, &mark);
    int r;

    (void)snprintf(path, sizeof(path), "%s/muster.db", s->directory);
    r = db_open(path, &s->db, s->digester, err);
    if (r == 0)
        r = version_check(s, err);
    if (r == 0)
        r = check_log(&s->db, err);
    if (r < 0)
        return r;
    s->head = s->db.head;
    r = tail_open(s->directory, !s->head.in_use, &s->tail, err);
    if (r == 0)
        r = tail_load(s->tail, &s->head.end, s->digester, &s->end, err);
    if (r == 0)
        r = check_mark(state, &mark, &s->end, err);
    if (r == 0 && s->head.in_use && state != MARK_READ)
        (void)snprintf(s->worn, sizeof(s->worn), "mark: %s; it was made anew",
                       state == MARK_NONE ? "missing" : "damaged");
    else if (r == 0 && tail_worn(s->tail))
        (void)snprintf(s->worn, sizeof(s->worn), "%s", tail_worn(s->tail));
    return r;
}

/* What is wrong with it, and what can be done. */
static int refuse(const struct store_sqlite *s, const struct wal_look *wal, int r, struct error *err)
{
    char more[128] = "";

    if (r != -EBADMSG || !err)
        return r;
    if (!wal->there && s->head.in_use)
        (void)snprintf(more, sizeof(more), "; muster.db-wal is missing");
    else if (wal->damaged_at >= 0)
        (void)snprintf(more, sizeof(more), "; muster.db-wal is damaged at byte %lld", (long long)wal->damaged_at);
    (void)error_prefix(err, r, "the state in %s is damaged", s->directory);
    (void)snprintf(err->text + strlen(err->text), sizeof(err->text) - strlen(err->text),
                   "%s. Nothing was changed; 'musterd fsck %s' says more, and with --repair mends what can be mended",
                   more, s->directory);
    return r;
}

static int wal_hook(void *arg, sqlite3 *db, const char *name, int pages)
{
    struct store_sqlite *s = arg;

    (void)db;
    (void)name;
    s->wal_pages = pages;
    return SQLITE_OK;
}

/* Writes the write-ahead log once in the length it is going to have. A sync of a file that grows writes its length too,
 * elsewhere on the disk; of one that does not, only what was committed. What is behind the last frame means nothing. */
static void wal_prepare(struct store_sqlite *s)
{
    static const char zeros[65536];
    sqlite3_file *file = NULL;
    sqlite3_int64 size = 0;

    (void)sqlite3_wal_checkpoint_v2(s->db.sql, NULL, SQLITE_CHECKPOINT_RESTART, NULL, NULL);
    if (sqlite3_file_control(s->db.sql, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file) != SQLITE_OK || !file ||
        !file->pMethods || file->pMethods->xFileSize(file, &size) != SQLITE_OK)
        return;
    for (; size < WAL_BYTES; size += (sqlite3_int64)sizeof(zeros))
        if (file->pMethods->xWrite(file, zeros, (int)sizeof(zeros), size) != SQLITE_OK)
            return;
    (void)file->pMethods->xSync(file, SQLITE_SYNC_NORMAL);
}

/* From here on it is ours. Where there is no room, what is in the tail stays there. */
static int take_over(struct store_sqlite *s, struct error *err)
{
    int r = mark_open(s->directory, &s->mark, err);

    if (r == 0)
        r = db_prepare(&s->db, err);
    if (r < 0)
        return r;
    s->proved = true;
    s->base.seq = s->end.seq;
    db_keep_wal(&s->db, false);
    sqlite3_wal_hook(s->db.sql, wal_hook, s);
    r = store_sqlite_move(s, true, err);
    if (r < 0 && r != -ENOSPC)
        return r;
    wal_prepare(s);
    return 0;
}

static int open_locked(struct store_sqlite *s, struct error *err)
{
    char path[DB_PATH + 16];
    struct wal_look wal = { .there = true, .damaged_at = -1 };
    int r = store_upgrade(s->directory, err);

    if (r == 0)
        r = database_find(s, err);
    if (r == 0) {
        (void)snprintf(path, sizeof(path), "%s/muster.db-wal", s->directory);
        check_wal(path, &wal);
        r = prove(s, err);
    }
    return r < 0 ? refuse(s, &wal, r, err) : take_over(s, err);
}

int store_sqlite_open(const char *directory, struct store **ret_store, struct error *err)
{
    struct store_sqlite *s = mem_zalloc(1, sizeof(*s));
    int r = 0;

    if (!s || digester_new(&s->digester) < 0) {
        mem_free(s);
        return error_set(err, -ENOMEM, "store: no memory");
    }
    s->base.ops = &store_sqlite_ops;
    s->lock = -1;
    (void)snprintf(s->directory, sizeof(s->directory), "%s", directory);
    if (mkdir(directory, 0700) < 0 && errno != EEXIST)
        r = error_set(err, -errno, "store: %s: %s", directory, strerror(errno));
    if (r == 0)
        r = s->lock = store_lock(directory, err);
    if (r >= 0)
        r = open_locked(s, err);
    if (r < 0) {
        store_sqlite_ops.close(&s->base);
        return r;
    }
    *ret_store = &s->base;
    return 0;
}
