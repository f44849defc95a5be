/* SPDX-License-Identifier: Apache-2.0 */
/* store_sqlite.c - the store of one controller: DIRECTORY/muster.db.
 *
 * Batches are synced to the tail of the log (tail.h) and go into the database several at once: with the finished jobs a
 * few times a second, with a snapshot, or when the tail is full. The database has a write-ahead log and a real sync at
 * every commit. Checkpoints are ours, between commits, so that none falls into one. A lock file keeps a second
 * controller out: two would each believe in their own next number.
 */
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "store/store_ops.h"
#include "store/tail.h"
#include "store/wal_file.h"

enum { CHECKPOINT_PAGES = 1000, PATH_SIZE = 4096, WAL_BYTES = 5 << 20 };

enum statement { S_BEGIN, S_COMMIT, S_BATCH, S_DROP, S_SNAPSHOT, S_JOB, S_GET, S_COUNT };

static const char insert_job[] =
    "INSERT OR REPLACE INTO history(id, submit, ended, user, vc, state, name, gpu_seconds, json) "
    "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)";

static const char *const statements[S_COUNT] = {
    [S_BEGIN] = "BEGIN IMMEDIATE",
    [S_COMMIT] = "COMMIT",
    [S_BATCH] = "INSERT INTO log(seq, data) VALUES(?, ?)",
    [S_DROP] = "DELETE FROM log WHERE seq <= ?",
    [S_SNAPSHOT] = "INSERT OR REPLACE INTO snapshot(one, seq, data) VALUES(1, ?, ?)",
    [S_JOB] = insert_job,
    [S_GET] = "SELECT id, submit, ended, user, vc, state, name, gpu_seconds, json FROM history WHERE id = ?",
};

const char store_sqlite_schema[] =
    "CREATE TABLE IF NOT EXISTS log(seq INTEGER PRIMARY KEY, data BLOB NOT NULL);"
    "CREATE TABLE IF NOT EXISTS snapshot(one INTEGER PRIMARY KEY, seq INTEGER NOT NULL, "
    "data BLOB NOT NULL);"
    "CREATE TABLE IF NOT EXISTS history(id INTEGER PRIMARY KEY, submit INTEGER, ended "
    "INTEGER, user TEXT, vc TEXT, state TEXT, name TEXT, gpu_seconds INTEGER, json TEXT);"
    "CREATE INDEX IF NOT EXISTS history_ended ON history(ended);"
    "CREATE INDEX IF NOT EXISTS history_user ON history(user, id);";

struct store_sqlite {
    struct store base;
    sqlite3 *db;
    sqlite3_stmt *statements[S_COUNT];
    int lock;
    int wal_pages;
    struct tail *tail; /* batches that the database does not have yet */
};

static int fail(struct store_sqlite *s, struct error *err, const char *what)
{
    int code = sqlite3_errcode(s->db);

    return error_set(err,
                     code == SQLITE_FULL      ? -ENOSPC
                     : code == SQLITE_CORRUPT ? -EBADMSG
                                              : -EIO,
                     "store: %s: %s", what, sqlite3_errmsg(s->db));
}

static int run_sql(struct store_sqlite *s, const char *sql, struct error *err)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : fail(s, err, sql);
}

/* Runs a prepared statement that gives no rows, and makes it ready for the next time. */
static int run_statement(struct store_sqlite *s, enum statement which, struct error *err)
{
    int r = sqlite3_step(s->statements[which]);
    int failed = r == SQLITE_DONE ? 0 : fail(s, err, "write");

    sqlite3_reset(s->statements[which]);
    sqlite3_clear_bindings(s->statements[which]);
    return failed;
}

static int put_batch(void *arg, uint64_t seq, const char *data, size_t size, struct error *err)
{
    struct store_sqlite *s = arg;
    sqlite3_stmt *st = s->statements[S_BATCH];

    sqlite3_bind_int64(st, 1, (sqlite3_int64)seq);
    sqlite3_bind_blob64(st, 2, data, size, SQLITE_STATIC);
    return run_statement(s, S_BATCH, err);
}

static int put_snapshot(struct store_sqlite *s, const struct store_write *write, struct error *err)
{
    sqlite3_stmt *st = s->statements[S_SNAPSHOT];
    int r;

    sqlite3_bind_int64(st, 1, (sqlite3_int64)write->snapshot_seq);
    sqlite3_bind_blob64(st, 2, write->snapshot, write->snapshot_size, SQLITE_STATIC);
    r = run_statement(s, S_SNAPSHOT, err);
    if (r < 0)
        return r;
    sqlite3_bind_int64(s->statements[S_DROP], 1, (sqlite3_int64)write->snapshot_seq);
    return run_statement(s, S_DROP, err);
}

static int put_job(struct store_sqlite *s, const struct store_job *job, struct error *err)
{
    sqlite3_stmt *st = s->statements[S_JOB];

    sqlite3_bind_int64(st, 1, job->id);
    sqlite3_bind_int64(st, 2, job->submit);
    sqlite3_bind_int64(st, 3, job->end);
    sqlite3_bind_text(st, 4, job->user, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 5, job->vc, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 6, job->state, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 7, job->name, -1, SQLITE_STATIC);
    sqlite3_bind_int64(st, 8, job->gpu_seconds);
    sqlite3_bind_text(st, 9, job->json, -1, SQLITE_STATIC);
    return run_statement(s, S_JOB, err);
}

static int sqlite_commit(struct store *store, const struct store_write *write, struct error *err)
{
    struct store_sqlite *s = (struct store_sqlite *)store;
    int r;

    if (write->batch && !write->job_count && !write->snapshot &&
        tail_add(s->tail, write->seq, write->batch, write->batch_size, write->lazy) == 0)
        return 0;
    r = run_statement(s, S_BEGIN, err);
    if (r < 0)
        return r;
    r = tail_each(s->tail, put_batch, s, err);
    if (r == 0 && write->batch)
        r = put_batch(s, write->seq, write->batch, write->batch_size, err);
    for (size_t i = 0; r == 0 && i < write->job_count; i++)
        r = put_job(s, &write->jobs[i], err);
    if (r == 0 && write->snapshot)
        r = put_snapshot(s, write, err);
    if (r == 0)
        r = run_statement(s, S_COMMIT, err);
    if (r < 0) {
        (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
        return r;
    }
    tail_clear(s->tail);
    if (write->snapshot || s->wal_pages > CHECKPOINT_PAGES)
        atomic_store(&s->base.due, true);
    return 0;
}

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

    (void)sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    s->wal_pages = 0;
}

/* Each row of (seq, data) to the function; the last number seen is the store's. */
static int each_block(struct store_sqlite *s, const char *sql, store_batch_fn fn, void *arg, struct error *err)
{
    sqlite3_stmt *st = NULL;
    int r = 0, step;

    if (sqlite3_prepare_v2(s->db, sql, -1, &st, NULL) != SQLITE_OK)
        return fail(s, err, "read");
    while (r == 0 && (step = sqlite3_step(st)) != SQLITE_DONE) {
        const char *data = NULL;
        size_t size;

        if (step != SQLITE_ROW) {
            r = fail(s, err, "read");
            break;
        }
        s->base.seq = (uint64_t)sqlite3_column_int64(st, 0);
        data = sqlite3_column_blob(st, 1);
        size = (size_t)sqlite3_column_bytes(st, 1);
        r = fn(arg, s->base.seq, data ? data : "", size, err);
    }
    sqlite3_finalize(st);
    return r;
}

static int seq_take(void *arg, uint64_t seq, const char *data, size_t size, struct error *err)
{
    struct store_sqlite *s = arg;

    (void)data;
    (void)size;
    (void)err;
    s->base.seq = seq;
    return 0;
}

static int sqlite_load(struct store *store, store_batch_fn snapshot, store_batch_fn batch, void *arg, struct error *err)
{
    struct store_sqlite *s = (struct store_sqlite *)store;
    int r;

    s->base.seq = 0;
    r = each_block(s, "SELECT seq, data FROM snapshot", snapshot, arg, err);
    if (r == 0)
        r = each_block(s, "SELECT seq, data FROM log WHERE seq > coalesce((SELECT seq FROM snapshot), 0) ORDER BY seq",
                       batch, arg, err);
    if (r == 0)
        r = tail_load(s->tail, s->base.seq, err);
    if (r == 0)
        r = tail_each(s->tail, batch, arg, err);
    if (r == 0)
        r = tail_each(s->tail, seq_take, s, err);
    return r;
}

static const char *column_text(sqlite3_stmt *st, int column)
{
    const char *text = (const char *)sqlite3_column_text(st, column);

    return text ? text : "";
}

static struct store_job row_job(sqlite3_stmt *st)
{
    return (struct store_job){ .id = sqlite3_column_int64(st, 0),
                               .submit = sqlite3_column_int64(st, 1),
                               .end = sqlite3_column_int64(st, 2),
                               .user = column_text(st, 3),
                               .vc = column_text(st, 4),
                               .state = column_text(st, 5),
                               .name = column_text(st, 6),
                               .gpu_seconds = sqlite3_column_int64(st, 7),
                               .json = column_text(st, 8) };
}

static int sqlite_history(struct store *store, const struct store_query *query, store_job_fn each, void *arg,
                          struct error *err)
{
    static const char sql[] =
        "SELECT id, submit, ended, user, vc, state, name, gpu_seconds, json FROM history "
        "WHERE id < ?1 AND ended >= ?2 AND ended < ?3 AND (?4 IS NULL OR user = ?4) AND "
        "(?5 IS NULL OR vc = ?5) AND (?6 IS NULL OR instr(',' || ?6 || ',', ',' || state || ',')) AND "
        "(?7 IS NULL OR name = ?7) AND (?9 IS NULL OR instr(lower(name), lower(?9))) "
        "ORDER BY id DESC LIMIT ?8";
    struct store_sqlite *s = (struct store_sqlite *)store;
    sqlite3_stmt *st = NULL;
    int r = 0, step = SQLITE_DONE;

    if (sqlite3_prepare_v2(s->db, sql, -1, &st, NULL) != SQLITE_OK)
        return fail(s, err, "history");
    sqlite3_bind_int64(st, 1, query->before_id ? query->before_id : INT64_MAX);
    sqlite3_bind_int64(st, 2, query->since);
    sqlite3_bind_int64(st, 3, query->until ? query->until : INT64_MAX);
    sqlite3_bind_text(st, 4, query->user, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 5, query->vc, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 6, query->state, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 7, query->name, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 9, query->find, -1, SQLITE_STATIC);
    sqlite3_bind_int64(st, 8, query->limit ? (sqlite3_int64)query->limit : -1);
    while (r == 0 && (step = sqlite3_step(st)) == SQLITE_ROW) {
        struct store_job job = row_job(st);

        r = each(arg, &job, err);
    }
    if (r == 0 && step != SQLITE_DONE)
        r = fail(s, err, "history");
    sqlite3_finalize(st);
    return r;
}

static int sqlite_history_get(struct store *store, int64_t id, store_job_fn each, void *arg, struct error *err)
{
    struct store_sqlite *s = (struct store_sqlite *)store;
    sqlite3_stmt *st = s->statements[S_GET];
    int r = -ENOENT;

    sqlite3_bind_int64(st, 1, id);
    if (sqlite3_step(st) == SQLITE_ROW) {
        struct store_job job = row_job(st);

        r = each(arg, &job, err);
    }
    sqlite3_reset(st);
    return r;
}

/* For its owner alone, and so are the journals SQLite makes beside it: hashes of tokens and everybody's jobs are in it.
 */
static void file_make(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (fd >= 0)
        (void)close(fd);
}

/* A commit of nothing: what is in the tail goes into the database. */
static int tail_move(struct store_sqlite *s, struct error *err)
{
    return sqlite_commit(&s->base, &(struct store_write){ 0 }, err);
}

/* To a file of its own beside the target, then renamed: a broken copy never has the target's name. */
static int sqlite_backup(struct store *store, const char *to, struct error *err)
{
    struct store_sqlite *s = (struct store_sqlite *)store;
    char part[PATH_SIZE];
    sqlite3 *copy = NULL;
    sqlite3_backup *backup = NULL;
    int r = tail_move(s, err);

    if (r < 0)
        return r;
    if ((size_t)snprintf(part, sizeof(part), "%s.part", to) >= sizeof(part))
        return error_set(err, -ENAMETOOLONG, "store: backup: the name is too long");
    (void)unlink(part);
    file_make(part);
    if (sqlite3_open(part, &copy) != SQLITE_OK)
        r = error_set(err, -EIO, "store: backup to %s: %s", part, sqlite3_errmsg(copy));
    if (r == 0 && !(backup = sqlite3_backup_init(copy, "main", s->db, "main")))
        r = error_set(err, -EIO, "store: backup to %s: %s", part, sqlite3_errmsg(copy));
    if (r == 0) {
        int step = sqlite3_backup_step(backup, -1), end = sqlite3_backup_finish(backup);

        if (step != SQLITE_DONE || end != SQLITE_OK)
            r = error_set(err, -EIO, "store: backup to %s: %s", part, sqlite3_errmsg(copy));
    }
    (void)sqlite3_close(copy);
    if (r == 0 && rename(part, to) < 0)
        r = error_set(err, -errno, "store: backup: %s: %s", to, strerror(errno));
    if (r < 0)
        (void)unlink(part);
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

static void sqlite_close(struct store *store)
{
    struct store_sqlite *s = (struct store_sqlite *)store;

    if (s->tail)
        (void)tail_move(s, NULL); /* if it cannot, the next process finds it where it is */
    for (int i = 0; i < S_COUNT; i++)
        sqlite3_finalize(s->statements[i]);
    (void)sqlite3_close(s->db);
    tail_close(s->tail);
    if (s->lock >= 0)
        (void)close(s->lock);
    mem_free(s);
}

static const struct store_ops store_sqlite_ops = {
    .name = "sqlite",
    .close = sqlite_close,
    .commit = sqlite_commit,
    .sync = sqlite_sync,
    .tidy = sqlite_tidy,
    .load = sqlite_load,
    .history = sqlite_history,
    .history_get = sqlite_history_get,
    .backup = sqlite_backup,
};

static int lock_directory(struct store_sqlite *s, const char *directory, struct error *err)
{
    char path[PATH_SIZE];

    if (mkdir(directory, 0700) < 0 && errno != EEXIST)
        return error_set(err, -errno, "store: %s: %s", directory, strerror(errno));
    if ((size_t)snprintf(path, sizeof(path), "%s/lock", directory) >= sizeof(path))
        return error_set(err, -ENAMETOOLONG, "store: %s: the name is too long", directory);
    s->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (s->lock < 0)
        return error_set(err, -errno, "store: %s: %s", path, strerror(errno));
    if (flock(s->lock, LOCK_EX | LOCK_NB) < 0)
        return error_set(err, -EBUSY, "store: %s is in use by another controller", directory);
    return 0;
}

static int schema_version(struct store_sqlite *s)
{
    sqlite3_stmt *st = NULL;
    int version = -1;

    if (sqlite3_prepare_v2(s->db, "PRAGMA user_version", -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW)
        version = sqlite3_column_int(st, 0);
    sqlite3_finalize(st);
    return version;
}

static int prepare(struct store_sqlite *s, const char *path, struct error *err)
{
    int version, r;

    file_make(path); /* what is wrong with it SQLite says below */
    if (sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, wal_file_vfs()) != SQLITE_OK)
        return fail(s, err, path);
    sqlite3_wal_hook(s->db, wal_hook, s);
    /* Nobody else opens it while we have the lock: no shared memory, no locks around each commit. */
    r = run_sql(s,
                "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; "
                "PRAGMA temp_store=MEMORY;",
                NULL);
    if (r < 0)
        return fail(s, err, path);
    version = schema_version(s);
    if (version != 0 && version != STORE_SCHEMA_VERSION)
        return error_set(err, -EPROTONOSUPPORT, "store: %s was written by another version (schema %d, this is %d)",
                         path, version, STORE_SCHEMA_VERSION);
    r = run_sql(s, store_sqlite_schema, err);
    if (r == 0 && version == 0)
        r = run_sql(s, "PRAGMA user_version=1", err);
    for (int i = 0; r == 0 && i < S_COUNT; i++)
        if (sqlite3_prepare_v3(s->db, statements[i], -1, SQLITE_PREPARE_PERSISTENT, &s->statements[i], NULL) !=
            SQLITE_OK)
            r = fail(s, err, path);
    return r;
}

/* Writes the write-ahead log once in the length it is going to have. A sync of a file that grows writes its length too,
 * elsewhere on the disk; of one that does not, only what was committed. What is behind the last frame means nothing. */
static void wal_prepare(struct store_sqlite *s)
{
    static const char zeros[65536];
    sqlite3_file *file = NULL;
    sqlite3_int64 size = 0;

    (void)sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_RESTART, NULL, NULL);
    if (sqlite3_file_control(s->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file) != SQLITE_OK || !file ||
        !file->pMethods || file->pMethods->xFileSize(file, &size) != SQLITE_OK)
        return;
    for (; size < WAL_BYTES; size += (sqlite3_int64)sizeof(zeros))
        if (file->pMethods->xWrite(file, zeros, (int)sizeof(zeros), size) != SQLITE_OK)
            return;
    (void)file->pMethods->xSync(file, SQLITE_SYNC_NORMAL);
}

int store_sqlite_open(const char *directory, struct store **ret_store, struct error *err)
{
    struct store_sqlite *s = mem_zalloc(1, sizeof(*s));
    char path[PATH_SIZE];
    int r;

    if (!s)
        return error_set(err, -ENOMEM, "store: no memory");
    s->base.ops = &store_sqlite_ops;
    s->lock = -1;
    r = lock_directory(s, directory, err);
    if (r == 0) {
        (void)snprintf(path, sizeof(path), "%s/muster.db", directory);
        r = prepare(s, path, err);
    }
    if (r == 0)
        r = tail_open(directory, &s->tail, err);
    if (r < 0) {
        sqlite_close(&s->base);
        return r;
    }
    wal_prepare(s);
    *ret_store = &s->base;
    return 0;
}
