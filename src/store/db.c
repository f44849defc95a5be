/* SPDX-License-Identifier: Apache-2.0 */
#include "store/db.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "store/page_file.h"
#include "store/wal_file.h"

static const char *const statements[DB_COUNT] = {
    [DB_BEGIN] = "BEGIN IMMEDIATE",
    [DB_COMMIT] = "COMMIT",
    [DB_BATCH] = "INSERT INTO log(seq, chain, data) VALUES(?, ?, ?)",
    [DB_DROP] = "DELETE FROM log WHERE seq <= ?",
    [DB_SNAPSHOT] = "INSERT OR REPLACE INTO snapshot(one, seq, chain, sum, data) VALUES(1, ?, ?, ?, ?)",
    [DB_JOB] = "INSERT OR REPLACE INTO history(" DB_JOB_COLUMNS ") VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [DB_HEAD] = "INSERT OR REPLACE INTO head(one, generation, seq, chain, jobs, jobs_sum, in_use) "
                "VALUES(1, ?, ?, ?, ?, ?, ?)",
    [DB_CHAIN] = "SELECT chain FROM log WHERE seq = ?1 UNION ALL SELECT chain FROM snapshot WHERE seq = ?1",
    [DB_OLD] = "SELECT sum FROM history WHERE id = ?",
    [DB_GET] = "SELECT " DB_JOB_COLUMNS " FROM history WHERE id = ?",
};

const char db_schema[] =
    "CREATE TABLE head(one INTEGER PRIMARY KEY, generation INTEGER NOT NULL, seq INTEGER NOT NULL, "
    "chain BLOB NOT NULL, jobs INTEGER NOT NULL, jobs_sum INTEGER NOT NULL, in_use INTEGER NOT NULL);"
    "CREATE TABLE log(seq INTEGER PRIMARY KEY, chain BLOB NOT NULL, data BLOB NOT NULL);"
    "CREATE TABLE snapshot(one INTEGER PRIMARY KEY, seq INTEGER NOT NULL, chain BLOB NOT NULL, sum BLOB NOT NULL, "
    "data BLOB NOT NULL);"
    "CREATE TABLE history(id INTEGER PRIMARY KEY, submit INTEGER, ended "
    "INTEGER, user TEXT, vc TEXT, state TEXT, name TEXT, gpu_seconds INTEGER, json TEXT, sum INTEGER NOT NULL);"
    "CREATE INDEX history_ended ON history(ended);"
    "CREATE INDEX history_user ON history(user, id);";

const char db_schema_v1[] = "CREATE TABLE IF NOT EXISTS log(seq INTEGER PRIMARY KEY, data BLOB NOT NULL);"
                            "CREATE TABLE IF NOT EXISTS snapshot(one INTEGER PRIMARY KEY, seq INTEGER NOT NULL, "
                            "data BLOB NOT NULL);"
                            "CREATE TABLE IF NOT EXISTS history(id INTEGER PRIMARY KEY, submit INTEGER, ended "
                            "INTEGER, user TEXT, vc TEXT, state TEXT, name TEXT, gpu_seconds INTEGER, json TEXT);"
                            "CREATE INDEX IF NOT EXISTS history_ended ON history(ended);"
                            "CREATE INDEX IF NOT EXISTS history_user ON history(user, id);";

int db_fail(const struct db *db, struct error *err, const char *what)
{
    int code = sqlite3_extended_errcode(db->sql);
    bool damaged = code == SQLITE_IOERR_DATA || code == SQLITE_IOERR_SHORT_READ || (code & 255) == SQLITE_CORRUPT ||
                   (code & 255) == SQLITE_NOTADB;

    if (code == SQLITE_IOERR_DATA)
        return error_set(err, -EBADMSG, "store: %s: a page of the database is damaged", what);
    return error_set(err,
                     code == SQLITE_FULL ? -ENOSPC
                     : damaged           ? -EBADMSG
                                         : -EIO,
                     "store: %s: %s", what, sqlite3_errmsg(db->sql));
}

int db_run(struct db *db, const char *sql, struct error *err)
{
    return sqlite3_exec(db->sql, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : db_fail(db, err, sql);
}

int64_t db_number(sqlite3 *sql, const char *query)
{
    sqlite3_stmt *st = NULL;
    int64_t number = -1;

    if (sqlite3_prepare_v2(sql, query, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW)
        number = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return number;
}

/* Nobody else opens it while we have the lock: no shared memory, no locks around each commit. */
int db_open(const char *path, struct db *db, struct digester *digester, struct error *err)
{
    *db = (struct db){ .digester = digester };
    if (sqlite3_open_v2(path, &db->sql, SQLITE_OPEN_READWRITE, wal_file_vfs()) != SQLITE_OK)
        return db_fail(db, err, path);
    db_keep_wal(db, true);
    if (sqlite3_exec(db->sql,
                     "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; "
                     "PRAGMA temp_store=MEMORY;",
                     NULL, NULL, NULL) != SQLITE_OK)
        return db_fail(db, err, path);
    return 0;
}

void db_keep_wal(struct db *db, bool keep)
{
    (void)sqlite3_db_config(db->sql, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep ? 1 : 0, NULL);
}

int db_prepare(struct db *db, struct error *err)
{
    for (int i = 0; i < DB_COUNT; i++)
        if (sqlite3_prepare_v3(db->sql, statements[i], -1, SQLITE_PREPARE_PERSISTENT, &db->statements[i], NULL) !=
            SQLITE_OK)
            return db_fail(db, err, "muster.db");
    return 0;
}

/* For its owner alone, and so are the journals SQLite makes beside it: hashes of tokens and everybody's jobs are in it.
 */
static void file_make(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (fd >= 0)
        (void)close(fd);
}

int db_make(const char *path, struct db *db, struct digester *digester, struct error *err)
{
    int spare = PAGE_SPARE, r;

    *db = (struct db){ .digester = digester };
    (void)unlink(path);
    file_make(path); /* what is wrong with it SQLite says below */
    if (sqlite3_open_v2(path, &db->sql, SQLITE_OPEN_READWRITE, wal_file_vfs()) != SQLITE_OK ||
        sqlite3_exec(db->sql, "PRAGMA page_size=4096; PRAGMA synchronous=FULL; PRAGMA temp_store=MEMORY;", NULL, NULL,
                     NULL) != SQLITE_OK ||
        sqlite3_file_control(db->sql, "main", SQLITE_FCNTL_RESERVE_BYTES, &spare) != SQLITE_OK)
        return db_fail(db, err, path);
    r = db_run(db, db_schema, NULL);
    if (r == 0)
        r = db_run(db, "PRAGMA user_version=2", NULL);
    _Static_assert(STORE_SCHEMA_VERSION == 2, "and above");
    return r == 0 ? db_prepare(db, err) : db_fail(db, err, path);
}

void db_close(struct db *db)
{
    for (int i = 0; i < DB_COUNT; i++)
        sqlite3_finalize(db->statements[i]);
    (void)sqlite3_close(db->sql);
    *db = (struct db){ 0 };
}

/* Runs a prepared statement that gives no rows, and makes it ready for the next time. */
static int run_statement(struct db *db, enum db_statement which, struct error *err)
{
    int r = sqlite3_step(db->statements[which]);
    int failed = r == SQLITE_DONE ? 0 : db_fail(db, err, "write");

    sqlite3_reset(db->statements[which]);
    sqlite3_clear_bindings(db->statements[which]);
    return failed;
}

int db_begin(struct db *db, struct error *err)
{
    return run_statement(db, DB_BEGIN, err);
}

int db_commit(struct db *db, struct error *err)
{
    sqlite3_stmt *st = db->statements[DB_HEAD];
    int r;

    db->head.end.generation++;
    sqlite3_bind_int64(st, 1, (sqlite3_int64)db->head.end.generation);
    sqlite3_bind_int64(st, 2, (sqlite3_int64)db->head.end.seq);
    sqlite3_bind_blob(st, 3, db->head.end.chain.bytes, DIGEST_BYTES, SQLITE_STATIC);
    sqlite3_bind_int64(st, 4, db->head.jobs);
    sqlite3_bind_int64(st, 5, (sqlite3_int64)db->head.jobs_sum);
    sqlite3_bind_int(st, 6, db->head.in_use);
    r = run_statement(db, DB_HEAD, err);
    return r == 0 ? run_statement(db, DB_COMMIT, err) : r;
}

void db_rollback(struct db *db, const struct db_head *head)
{
    (void)sqlite3_exec(db->sql, "ROLLBACK", NULL, NULL, NULL);
    db->head = *head;
}

int db_put_batch(struct db *db, uint64_t seq, const struct digest *chain, const char *data, size_t size,
                 struct error *err)
{
    sqlite3_stmt *st = db->statements[DB_BATCH];
    int r;

    sqlite3_bind_int64(st, 1, (sqlite3_int64)seq);
    sqlite3_bind_blob(st, 2, chain->bytes, DIGEST_BYTES, SQLITE_STATIC);
    sqlite3_bind_blob64(st, 3, data, size, SQLITE_STATIC);
    r = run_statement(db, DB_BATCH, err);
    if (r == 0) {
        db->head.end.seq = seq;
        db->head.end.chain = *chain;
    }
    return r;
}

/* The digest of a batch that the database has, or has a snapshot of. */
static int chain_find(struct db *db, uint64_t seq, struct digest *ret, struct error *err)
{
    sqlite3_stmt *st = db->statements[DB_CHAIN];
    int r = 0;

    if (seq == db->head.end.seq) {
        *ret = db->head.end.chain;
        return 0;
    }
    sqlite3_bind_int64(st, 1, (sqlite3_int64)seq);
    if (sqlite3_step(st) == SQLITE_ROW && sqlite3_column_bytes(st, 0) == DIGEST_BYTES)
        memcpy(ret->bytes, sqlite3_column_blob(st, 0), DIGEST_BYTES);
    else
        r = error_set(err, -EINVAL, "store: a snapshot of batch %llu, which is not there", (unsigned long long)seq);
    sqlite3_reset(st);
    return r;
}

int db_put_snapshot(struct db *db, uint64_t seq, const char *data, size_t size, struct error *err)
{
    sqlite3_stmt *st = db->statements[DB_SNAPSHOT];
    struct digest chain, sum;
    int r = chain_find(db, seq, &chain, err);

    if (r < 0)
        return r;
    if (digest_snapshot(db->digester, &chain, seq, data, size, &sum) < 0)
        return error_set(err, -ENOMEM, "store: no memory");
    sqlite3_bind_int64(st, 1, (sqlite3_int64)seq);
    sqlite3_bind_blob(st, 2, chain.bytes, DIGEST_BYTES, SQLITE_STATIC);
    sqlite3_bind_blob(st, 3, sum.bytes, DIGEST_BYTES, SQLITE_STATIC);
    sqlite3_bind_blob64(st, 4, data, size, SQLITE_STATIC);
    r = run_statement(db, DB_SNAPSHOT, err);
    if (r < 0)
        return r;
    sqlite3_bind_int64(db->statements[DB_DROP], 1, (sqlite3_int64)seq);
    return run_statement(db, DB_DROP, err);
}

static void job_old(struct db *db, int64_t id, struct db_change *change)
{
    sqlite3_stmt *st = db->statements[DB_OLD];

    sqlite3_bind_int64(st, 1, id);
    change->replaced = sqlite3_step(st) == SQLITE_ROW;
    change->old = change->replaced ? sqlite3_column_int64(st, 0) : 0;
    sqlite3_reset(st);
}

int db_put_job(struct db *db, const struct store_job *job, struct db_change *ret_change, struct error *err)
{
    const char *const texts[] = { job->user, job->vc, job->state, job->name };
    sqlite3_stmt *st = db->statements[DB_JOB];
    int r;

    if (digest_job(db->digester, job, &ret_change->now) < 0)
        return error_set(err, -ENOMEM, "store: no memory");
    job_old(db, job->id, ret_change);
    sqlite3_bind_int64(st, 1, job->id);
    sqlite3_bind_int64(st, 2, job->submit);
    sqlite3_bind_int64(st, 3, job->end);
    for (int i = 0; i < 4; i++)
        sqlite3_bind_text(st, 4 + i, texts[i], -1, SQLITE_STATIC);
    sqlite3_bind_int64(st, 8, job->gpu_seconds);
    sqlite3_bind_text(st, 9, job->json, -1, SQLITE_STATIC);
    sqlite3_bind_int64(st, 10, ret_change->now);
    r = run_statement(db, DB_JOB, err);
    if (r == 0) {
        db->head.jobs += !ret_change->replaced;
        db->head.jobs_sum += (uint64_t)ret_change->now - (uint64_t)ret_change->old;
    }
    return r;
}

static const char *column_text(sqlite3_stmt *st, int column)
{
    const char *text = (const char *)sqlite3_column_text(st, column);

    return text ? text : "";
}

int db_row_job(struct db *db, sqlite3_stmt *row, struct store_job *ret_job, struct error *err)
{
    int64_t sum;

    *ret_job = (struct store_job){ .id = sqlite3_column_int64(row, 0),
                                   .submit = sqlite3_column_int64(row, 1),
                                   .end = sqlite3_column_int64(row, 2),
                                   .user = column_text(row, 3),
                                   .vc = column_text(row, 4),
                                   .state = column_text(row, 5),
                                   .name = column_text(row, 6),
                                   .gpu_seconds = sqlite3_column_int64(row, 7),
                                   .json = column_text(row, 8) };
    if (digest_job(db->digester, ret_job, &sum) < 0)
        return error_set(err, -ENOMEM, "store: no memory");
    if (sum != sqlite3_column_int64(row, 9))
        return error_set(err, -EBADMSG, "store: the record of the finished job %lld is damaged",
                         (long long)ret_job->id);
    return 0;
}
