/* SPDX-License-Identifier: Apache-2.0 */
/* store_sqlite.c - the store of one controller: DIRECTORY/muster.db.
 *
 * Batches are synced to the tail of the log (tail.h) and go into the database several at once: with the finished jobs a
 * few times a second, with a snapshot, or when the tail is full. The database has a write-ahead log and a real sync at
 * every commit. Checkpoints are ours, between commits, so that none falls into one. A lock file keeps a second
 * controller out: two would each believe in their own next number.
 *
 * A directory is proved before anything in it is written: the chain from the snapshot through the database and the tail
 * must reach at least as far as the mark (mark.h) and the tail say that it had come. Only then is the tail's content
 * moved, and the next generation begun.
 */
#include "store/store_sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "store/wal_file.h"

enum { CHECKPOINT_PAGES = 1000 };

static void mark_now(struct store_sqlite *s)
{
    mark_set(s->mark, &(struct mark){ s->head.end.generation, s->end.seq, s->end.chain });
}

static int tail_batch(void *arg, uint64_t seq, const struct digest *chain, const char *data, size_t size,
                      struct error *err)
{
    return db_put_batch(arg, seq, chain, data, size, err);
}

/* What a scrub has counted already changes under it. */
static void scrub_adjust(struct scrub *scrub, int64_t id, const struct db_change *change)
{
    if (scrub->part != SCRUB_HISTORY || id >= scrub->next)
        return;
    scrub->jobs += !change->replaced;
    scrub->sum += (uint64_t)change->now - (uint64_t)change->old;
}

/* All of a write but the end of its transaction. */
static int write_put(struct store_sqlite *s, const struct store_write *write, const struct digest *chain,
                     struct scrub *scrub, struct error *err)
{
    int r = tail_each(s->tail, tail_batch, &s->db, err);

    if (r == 0 && write->batch)
        r = db_put_batch(&s->db, write->seq, chain, write->batch, write->batch_size, err);
    for (size_t i = 0; r == 0 && i < write->job_count; i++) {
        struct db_change change;

        r = db_put_job(&s->db, &write->jobs[i], &change, err);
        if (r == 0)
            scrub_adjust(scrub, write->jobs[i].id, &change);
    }
    if (r == 0 && write->snapshot)
        r = db_put_snapshot(&s->db, write->snapshot_seq, write->snapshot, write->snapshot_size, err);
    return r;
}

static int database_commit(struct store_sqlite *s, const struct store_write *write, const struct digest *chain,
                           bool in_use, struct error *err)
{
    struct scrub scrub = s->scrub;
    int r = db_begin(&s->db, err);

    if (r < 0)
        return r;
    r = write_put(s, write, chain, &scrub, err);
    s->db.head.in_use = in_use;
    if (r == 0)
        r = db_commit(&s->db, err);
    if (r < 0) {
        db_rollback(&s->db, &s->head);
        return r;
    }
    s->scrub = scrub;
    s->head = s->db.head;
    s->end = s->head.end;
    tail_clear(s->tail, s->head.end.generation);
    mark_now(s);
    if (write->snapshot || s->wal_pages > CHECKPOINT_PAGES)
        atomic_store(&s->base.due, true);
    return 0;
}

static int sqlite_commit(struct store *store, const struct store_write *write, struct error *err)
{
    struct store_sqlite *s = (struct store_sqlite *)store;
    struct digest chain = { 0 };

    if (write->batch &&
        digest_next(s->digester, &s->end.chain, write->seq, write->batch, write->batch_size, &chain) < 0)
        return error_set(err, -ENOMEM, "store: no memory");
    if (write->batch && !write->job_count && !write->snapshot && tail_add(s->tail, write->seq, &chain, write) == 0) {
        s->end.seq = write->seq;
        s->end.chain = chain;
        if (!write->lazy)
            mark_now(s);
        return 0;
    }
    return database_commit(s, write, &chain, true, err);
}

/* The mark does not follow before the next commit, for this may be another thread. */
static int sqlite_sync(struct store *store, struct error *err)
{
    struct store_sqlite *s = (struct store_sqlite *)store;
    int r = tail_sync(s->tail);

    return r < 0 ? error_set(err, r, "store: sync: %s", strerror(-r)) : 0;
}

/* Moves what can be moved; readers or a full disk only mean that it is tried again later. */
static void sqlite_tidy(struct store *store)
{
    struct store_sqlite *s = (struct store_sqlite *)store;

    mark_sync(s->mark);
    (void)sqlite3_wal_checkpoint_v2(s->db.sql, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    s->wal_pages = 0;
}

/* Each row of (seq, data) to the function. */
static int each_block(struct store_sqlite *s, const char *sql, store_batch_fn fn, void *arg, struct error *err)
{
    sqlite3_stmt *st = NULL;
    int r = 0, step;

    if (sqlite3_prepare_v2(s->db.sql, sql, -1, &st, NULL) != SQLITE_OK)
        return db_fail(&s->db, err, "read");
    while (r == 0 && (step = sqlite3_step(st)) != SQLITE_DONE) {
        const char *data = NULL;

        if (step != SQLITE_ROW) {
            r = db_fail(&s->db, err, "read");
            break;
        }
        data = sqlite3_column_blob(st, 1);
        r = fn(arg, (uint64_t)sqlite3_column_int64(st, 0), data ? data : "", (size_t)sqlite3_column_bytes(st, 1), err);
    }
    sqlite3_finalize(st);
    return r;
}

struct plain {
    store_batch_fn fn;
    void *arg;
};

static int plain_batch(void *arg, uint64_t seq, const struct digest *chain, const char *data, size_t size,
                       struct error *err)
{
    struct plain *plain = arg;

    (void)chain;
    return plain->fn(plain->arg, seq, data, size, err);
}

static int sqlite_load(struct store *store, store_batch_fn snapshot, store_batch_fn batch, void *arg, struct error *err)
{
    struct store_sqlite *s = (struct store_sqlite *)store;
    struct plain plain = { batch, arg };
    int r = each_block(s, "SELECT seq, data FROM snapshot", snapshot, arg, err);

    if (r == 0)
        r = each_block(s, "SELECT seq, data FROM log ORDER BY seq", batch, arg, err);
    return r == 0 ? tail_each(s->tail, plain_batch, &plain, err) : r;
}

static int each_job(struct store_sqlite *s, sqlite3_stmt *st, store_job_fn each, void *arg, struct error *err)
{
    struct store_job job;
    int r = 0, step = SQLITE_DONE;

    while (r == 0 && (step = sqlite3_step(st)) == SQLITE_ROW) {
        r = db_row_job(&s->db, st, &job, err);
        if (r == 0)
            r = each(arg, &job, err);
    }
    return r == 0 && step != SQLITE_DONE ? db_fail(&s->db, err, "history") : r;
}

static int sqlite_history(struct store *store, const struct store_query *query, store_job_fn each, void *arg,
                          struct error *err)
{
    static const char sql[] =
        "SELECT " DB_JOB_COLUMNS " FROM history "
        "WHERE id < ?1 AND ended >= ?2 AND ended < ?3 AND (?4 IS NULL OR user = ?4) AND "
        "(?5 IS NULL OR vc = ?5) AND (?6 IS NULL OR instr(',' || ?6 || ',', ',' || state || ',')) AND "
        "(?7 IS NULL OR name = ?7) AND (?9 IS NULL OR instr(lower(name), lower(?9))) "
        "ORDER BY id DESC LIMIT ?8";
    struct store_sqlite *s = (struct store_sqlite *)store;
    sqlite3_stmt *st = NULL;
    int r;

    if (sqlite3_prepare_v2(s->db.sql, sql, -1, &st, NULL) != SQLITE_OK)
        return db_fail(&s->db, err, "history");
    sqlite3_bind_int64(st, 1, query->before_id ? query->before_id : INT64_MAX);
    sqlite3_bind_int64(st, 2, query->since);
    sqlite3_bind_int64(st, 3, query->until ? query->until : INT64_MAX);
    sqlite3_bind_text(st, 4, query->user, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 5, query->vc, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 6, query->state, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 7, query->name, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 9, query->find, -1, SQLITE_STATIC);
    sqlite3_bind_int64(st, 8, query->limit ? (sqlite3_int64)query->limit : -1);
    r = each_job(s, st, each, arg, err);
    sqlite3_finalize(st);
    return r;
}

static int sqlite_history_get(struct store *store, int64_t id, store_job_fn each, void *arg, struct error *err)
{
    struct store_sqlite *s = (struct store_sqlite *)store;
    sqlite3_stmt *st = s->db.statements[DB_GET];
    struct store_job job;
    int r = -ENOENT, step;

    sqlite3_bind_int64(st, 1, id);
    step = sqlite3_step(st);
    if (step == SQLITE_ROW) {
        r = db_row_job(&s->db, st, &job, err);
        if (r == 0)
            r = each(arg, &job, err);
    } else if (step != SQLITE_DONE) {
        r = db_fail(&s->db, err, "history");
    }
    sqlite3_reset(st);
    return r;
}

int store_sqlite_move(struct store_sqlite *s, bool in_use, struct error *err)
{
    return database_commit(s, &(struct store_write){ 0 }, NULL, in_use, err);
}

/* The copy of a store that is in use is of one that is not. */
static int backup_finish(struct store_sqlite *s, const char *part, struct error *err)
{
    struct db copy;
    int r = db_open(part, &copy, s->digester, err);

    if (r == 0)
        r = db_run(&copy, "PRAGMA journal_mode=DELETE; UPDATE head SET in_use = 0", err);
    db_close(&copy);
    return r == 0 ? store_file_check(part, err) : r;
}

static int backup_copy(struct store_sqlite *s, const char *part, struct error *err)
{
    sqlite3_backup *backup = NULL;
    sqlite3 *copy = NULL;
    int fd = open(part, O_RDWR | O_CREAT | O_CLOEXEC, 0600), r = 0;

    if (fd < 0)
        return error_set(err, -errno, "store: backup: %s: %s", part, strerror(errno));
    (void)close(fd);
    if (sqlite3_open_v2(part, &copy, SQLITE_OPEN_READWRITE, wal_file_vfs()) != SQLITE_OK ||
        !(backup = sqlite3_backup_init(copy, "main", s->db.sql, "main")))
        r = error_set(err, -EIO, "store: backup to %s: %s", part, sqlite3_errmsg(copy));
    if (r == 0) {
        int step = sqlite3_backup_step(backup, -1), end = sqlite3_backup_finish(backup);

        if (step != SQLITE_DONE || end != SQLITE_OK)
            r = error_set(err, -EIO, "store: backup to %s: %s", part, sqlite3_errmsg(copy));
    }
    (void)sqlite3_close(copy);
    return r;
}

/* To a file of its own beside the target, read again, then renamed: a broken copy never has the target's name. */
static int sqlite_backup(struct store *store, const char *to, struct error *err)
{
    struct store_sqlite *s = (struct store_sqlite *)store;
    char part[DB_PATH];
    int r = store_sqlite_move(s, true, err);

    if (r < 0)
        return r;
    if ((size_t)snprintf(part, sizeof(part), "%s.part", to) >= sizeof(part))
        return error_set(err, -ENAMETOOLONG, "store: backup: the name is too long");
    (void)unlink(part);
    r = backup_copy(s, part, err);
    if (r == 0) {
        r = backup_finish(s, part, err);
        if (r < 0)
            (void)error_prefix(err, r, "the backup, read again");
    }
    if (r == 0 && rename(part, to) < 0)
        r = error_set(err, -errno, "store: backup: %s: %s", to, strerror(errno));
    if (r < 0)
        (void)unlink(part);
    return r;
}

static void sqlite_close(struct store *store)
{
    struct store_sqlite *s = (struct store_sqlite *)store;

    if (s->proved) {
        (void)store_sqlite_move(s, false, NULL); /* if it cannot, the next process finds it where it is */
        mark_sync(s->mark);
    }
    db_close(&s->db);
    tail_close(s->tail);
    mark_close(s->mark);
    digester_free(s->digester);
    if (s->lock >= 0)
        (void)close(s->lock);
    mem_free(s);
}

static const char *sqlite_worn(struct store *store)
{
    struct store_sqlite *s = (struct store_sqlite *)store;

    return s->worn[0] ? s->worn : NULL;
}

const struct store_ops store_sqlite_ops = {
    .name = "sqlite",
    .close = sqlite_close,
    .commit = sqlite_commit,
    .sync = sqlite_sync,
    .tidy = sqlite_tidy,
    .load = sqlite_load,
    .history = sqlite_history,
    .history_get = sqlite_history_get,
    .backup = sqlite_backup,
    .scrub = store_sqlite_scrub,
    .worn = sqlite_worn,
};
