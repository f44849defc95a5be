/* SPDX-License-Identifier: Apache-2.0 */
/* repair.c - a new database of what is left.
 *
 * The log begins at a snapshot that is whole: the database's, else the backup's, else at its first batch. Then comes
 * batch by batch whatever any source has of it: database, backup, tail. Each is proved by the digest of the one before,
 * so nothing comes in that was not there. Where the chain ends, the state ends. Finished jobs are taken one by one, by
 * their sums. Nothing is deleted: the old files go into a folder.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "store/fsck.h"
#include "store/page_file.h"
#include "store/wal_file.h"

enum { BATCHES_MAX = 1 << 20, FOLDERS_MAX = 1000 };

struct found {
    uint64_t seq;
    struct digest chain;
    char *data;
    size_t size;
};

struct repair {
    struct fsck *fsck;
    struct db made;
    sqlite3 *backup;
    struct found *tail; /* batches of the tail, in the order of finding */
    size_t tail_count, tail_capacity;
    int64_t jobs_bad;
};

static int tail_keep(void *arg, uint64_t seq, const struct digest *chain, const char *data, size_t size,
                     struct error *err)
{
    struct repair *repair = arg;
    void *block = repair->tail;
    char *copy = mem_zalloc(size + 1, 1);
    int r = copy ? mem_grow(&block, &repair->tail_capacity, repair->tail_count + 1, BATCHES_MAX, sizeof(*repair->tail))
                 : -ENOMEM;

    repair->tail = block;
    if (r < 0) {
        mem_free(copy);
        return error_set(err, r, "no memory");
    }
    memcpy(copy, data, size);
    repair->tail[repair->tail_count++] = (struct found){ seq, *chain, copy, size };
    return 0;
}

static bool column_digest(sqlite3_stmt *st, int column, struct digest *ret)
{
    if (sqlite3_column_bytes(st, column) != DIGEST_BYTES)
        return false;
    memcpy(ret->bytes, sqlite3_column_blob(st, column), DIGEST_BYTES);
    return true;
}

/* The snapshot of a source, if it is whole. */
static int snapshot_take(struct repair *repair, sqlite3 *from, struct error *err)
{
    struct log_place *end = &repair->made.head.end;
    sqlite3_stmt *st = NULL;
    struct digest sum, want, chain;
    int r = -ENOENT;

    if (from && sqlite3_prepare_v2(from, "SELECT seq, chain, sum, data FROM snapshot", -1, &st, NULL) == SQLITE_OK &&
        sqlite3_step(st) == SQLITE_ROW && column_digest(st, 1, &chain) && column_digest(st, 2, &want)) {
        uint64_t seq = (uint64_t)sqlite3_column_int64(st, 0);
        const void *data = sqlite3_column_blob(st, 3);
        size_t size = (size_t)sqlite3_column_bytes(st, 3);

        if (data && digest_snapshot(repair->made.digester, &chain, seq, data, size, &sum) == 0 &&
            digest_same(&sum, &want)) {
            end->seq = seq;
            end->chain = chain;
            r = db_put_snapshot(&repair->made, seq, data, size, err);
        }
    }
    sqlite3_finalize(st);
    return r;
}

/* Whether these bytes are the batch that follows. */
static int batch_try(struct repair *repair, const struct digest *want, const void *data, size_t size, struct error *err)
{
    const struct log_place *end = &repair->made.head.end;
    uint64_t seq = end->seq + 1;
    struct digest chain;

    if (digest_next(repair->made.digester, &end->chain, seq, data, size, &chain) < 0)
        return error_set(err, -ENOMEM, "no memory");
    if (!digest_same(&chain, want))
        return 0;
    return db_put_batch(&repair->made, seq, &chain, data, size, err) < 0 ? -EIO : 1;
}

/* 1: the next batch was there. */
static int batch_from_database(struct repair *repair, sqlite3 *from, struct error *err)
{
    sqlite3_stmt *st = NULL;
    struct digest want;
    int r = 0;

    if (!from || sqlite3_prepare_v2(from, "SELECT chain, data FROM log WHERE seq = ?", -1, &st, NULL) != SQLITE_OK)
        return 0;
    sqlite3_bind_int64(st, 1, (sqlite3_int64)repair->made.head.end.seq + 1);
    if (sqlite3_step(st) == SQLITE_ROW && column_digest(st, 0, &want)) {
        const void *data = sqlite3_column_blob(st, 1);

        r = batch_try(repair, &want, data ? data : "", (size_t)sqlite3_column_bytes(st, 1), err);
    }
    sqlite3_finalize(st);
    return r;
}

static int batch_from_tail(struct repair *repair, struct error *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < repair->tail_count; i++) {
        const struct found *found = &repair->tail[i];

        if (found->seq == repair->made.head.end.seq + 1)
            r = batch_try(repair, &found->chain, found->data, found->size, err);
    }
    return r;
}

static int log_take(struct repair *repair, struct error *err)
{
    int r = snapshot_take(repair, repair->fsck->db.sql, err);

    if (r == -ENOENT)
        r = snapshot_take(repair, repair->backup, err);
    else if (r == 0)
        fsck_say(repair->fsck, "repair: from the snapshot of batch %llu",
                 (unsigned long long)repair->made.head.end.seq);
    if (r < 0 && r != -ENOENT)
        return r;
    do {
        r = batch_from_database(repair, repair->fsck->db.sql, err);
        if (r == 0)
            r = batch_from_tail(repair, err);
        if (r == 0)
            r = batch_from_database(repair, repair->backup, err);
    } while (r == 1);
    if (r == 0 && repair->made.head.end.seq == 0 && repair->fsck->known > 0)
        return error_set(err, -EBADMSG, "nothing can be read that the log could begin with; try --backup FILE");
    return r;
}

/* What can be read of the finished jobs of a source, from one end or the other. -EBADMSG: not all. */
static int jobs_take(struct repair *repair, sqlite3 *from, bool backwards, struct error *err)
{
    struct db source = { .sql = from, .digester = repair->made.digester };
    sqlite3_stmt *st = NULL;
    int step = SQLITE_ERROR, r = 0;
    bool damaged = false;

    if (from && sqlite3_prepare_v2(from,
                                   backwards ? "SELECT " DB_JOB_COLUMNS " FROM history ORDER BY id DESC"
                                             : "SELECT " DB_JOB_COLUMNS " FROM history ORDER BY id",
                                   -1, &st, NULL) == SQLITE_OK)
        while (r == 0 && (step = sqlite3_step(st)) == SQLITE_ROW) {
            struct db_change change;
            struct store_job job;
            char query[80];

            if (db_row_job(&source, st, &job, NULL) < 0) {
                damaged = true;
                if (!backwards && ++repair->jobs_bad <= 20)
                    fsck_say(repair->fsck, "repair: the record of the finished job %lld cannot be read",
                             (long long)job.id);
                continue;
            }
            (void)snprintf(query, sizeof(query), "SELECT 1 FROM history WHERE id = %lld", (long long)job.id);
            if (db_number(repair->made.sql, query) != 1)
                r = db_put_job(&repair->made, &job, &change, err);
        }
    sqlite3_finalize(st);
    return r < 0 ? r : damaged || step != SQLITE_DONE ? -EBADMSG : 0;
}

static int history_take(struct repair *repair, struct error *err)
{
    const struct db_head *head = &repair->fsck->db.head;
    int r = jobs_take(repair, repair->fsck->db.sql, false, err);

    if (r == -EBADMSG)
        r = jobs_take(repair, repair->fsck->db.sql, true, err);
    if (repair->backup && (r == 0 || r == -EBADMSG))
        r = jobs_take(repair, repair->backup, false, err);
    if (r < 0 && r != -EBADMSG)
        return r;
    if (repair->made.head.jobs < head->jobs)
        fsck_say(repair->fsck, "repair: lost: the records of %lld of %lld finished jobs",
                 (long long)(head->jobs - repair->made.head.jobs), (long long)head->jobs);
    return 0;
}

/* Root repairs the state of a controller that is not root: what is made belongs to whom the folder belongs to. */
static int owner_keep(const char *directory, const char *made, struct error *err)
{
    struct stat st;

    if (geteuid() != 0)
        return 0;
    if (stat(directory, &st) < 0 || chown(made, st.st_uid, st.st_gid) < 0)
        return error_set(err, -errno, "%s: %s", made, strerror(errno));
    return 0;
}

/* Old files into a folder of their own, the new one in their place. At each moment there is a database, and where the
 * machine stops in between, one that is refused: never one that takes another's write-ahead log for its own. */
static int files_change(struct repair *repair, const char *made, struct error *err)
{
    static const char *const names[] = { "muster.db-wal", "muster.db", "log-tail", "log-map", "mark" };
    const char *directory = repair->fsck->directory;
    char folder[DB_PATH + 32], from[DB_PATH + 32], to[DB_PATH + 64];
    int n = 1, r;

    r = owner_keep(directory, made, err);
    if (r < 0)
        return r;
    do
        (void)snprintf(folder, sizeof(folder), "%s/damaged-%d", directory, n);
    while (mkdir(folder, 0700) < 0 && errno == EEXIST && ++n < FOLDERS_MAX);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(from, sizeof(from), "%s/%s", directory, names[i]);
        (void)snprintf(to, sizeof(to), "%s/%s", folder, names[i]);
        if (link(from, to) < 0 && errno != ENOENT)
            return error_set(err, -errno, "%s: %s", to, strerror(errno));
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(from, sizeof(from), "%s/%s", directory, names[i]);
        if (strcmp(names[i], "muster.db") == 0 ? rename(made, from) < 0 : unlink(from) < 0 && errno != ENOENT)
            return error_set(err, -errno, "%s: %s", from, strerror(errno));
    }
    fsck_say(repair->fsck, "repair: the files as they were are in %s", folder);
    return store_directory_sync(directory, err);
}

static void losses_say(struct repair *repair)
{
    const struct fsck *fsck = repair->fsck;
    uint64_t end = repair->made.head.end.seq;

    if (fsck->known <= end) {
        fsck_say(repair->fsck, "repair: all batches are there, to %llu", (unsigned long long)end);
        return;
    }
    fsck_say(repair->fsck, "repair: lost: batches %llu to %llu, and whatever was asked for with them",
             (unsigned long long)end + 1, (unsigned long long)fsck->known);
    for (size_t i = 0; fsck->how->lost && i < repair->tail_count; i++)
        if (repair->tail[i].seq > end)
            (void)fsck->how->lost(fsck->how->arg, repair->tail[i].seq, repair->tail[i].data, repair->tail[i].size,
                                  NULL);
}

static int content_make(struct repair *repair, struct error *err)
{
    int r = db_begin(&repair->made, err);

    if (r == 0)
        r = log_take(repair, err);
    if (r == 0)
        r = history_take(repair, err);
    if (r == 0) {
        repair->made.head.end.generation = repair->fsck->generation + 1;
        repair->made.head.in_use = false;
        r = db_commit(&repair->made, err);
    }
    return r;
}

static int backup_open(struct repair *repair, const char *path, struct error *err)
{
    int r = path ? store_file_check(path, err) : 0;

    if (r < 0)
        return error_prefix(err, r, "the backup");
    if (path && sqlite3_open_v2(path, &repair->backup, SQLITE_OPEN_READONLY, wal_file_vfs()) != SQLITE_OK)
        return error_set(err, -EIO, "%s: %s", path, sqlite3_errmsg(repair->backup));
    return 0;
}

int fsck_repair(struct fsck *fsck, struct error *err)
{
    struct repair repair = { .fsck = fsck };
    char made[DB_PATH + 32];
    int r;

    (void)snprintf(made, sizeof(made), "%s/muster.db.new", fsck->directory);
    r = backup_open(&repair, fsck->how->backup, err);
    if (r == 0 && fsck->tail)
        r = tail_salvage(fsck->tail, tail_keep, &repair, err);
    page_file_trusting(true); /* from here on each row is judged by itself */
    if (r == 0)
        r = db_make(made, &repair.made, fsck->digester, err);
    if (r == 0)
        r = content_make(&repair, err);
    page_file_trusting(false);
    if (r == 0)
        losses_say(&repair);
    db_close(&repair.made);
    if (r == 0)
        r = store_file_check(made, err);
    if (r == 0)
        r = files_change(&repair, made, err);
    if (r < 0)
        (void)unlink(made);
    for (size_t i = 0; i < repair.tail_count; i++)
        mem_free(repair.tail[i].data);
    mem_free(repair.tail);
    (void)sqlite3_close(repair.backup);
    return r;
}
