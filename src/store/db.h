/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* db.h - the database of a store: its tables, and what is written to them.
 *
 * Batches carry the digest that chains them, a snapshot the digest of the batch it stands for and one of its own, a
 * finished job a sum of its columns. One row, the head, says what there must be: so rows that are gone are missed.
 */
#include <sqlite3.h>

#include "store/tail.h"

enum { DB_PATH = 4096 };

/* What a database of ours is made of, and the number it carries. Version 1 had neither digests nor sums. */
enum { STORE_SCHEMA_VERSION = 2 };
extern const char db_schema[], db_schema_v1[];

struct db_head {
    struct log_place end; /* the last batch in the database; its generation counts commits */
    int64_t jobs;         /* finished jobs, and the sum of their sums */
    uint64_t jobs_sum;
    bool in_use; /* there may be batches behind it, in the tail */
};

enum db_statement {
    DB_BEGIN,
    DB_COMMIT,
    DB_BATCH,
    DB_DROP,
    DB_SNAPSHOT,
    DB_JOB,
    DB_HEAD,
    DB_CHAIN,
    DB_OLD,
    DB_GET,
    DB_COUNT
};

struct db {
    sqlite3 *sql;
    sqlite3_stmt *statements[DB_COUNT];
    struct digester *digester; /* borrowed */
    struct db_head head;       /* as it will be with the commit */
};

/* Opens what is there. `name` is for words, in place of the path; NULL: the path. */
int db_open(const char *path, struct db *db, struct digester *digester, struct error *err);
/* Nothing is moved from the write-ahead log into the database when it is closed; so it is after db_open(). */
void db_keep_wal(struct db *db, bool keep);
/* A new one, of one file; to be written to between db_begin() and db_commit(), and renamed when it is closed. */
int db_make(const char *path, struct db *db, struct digester *digester, struct error *err);
int db_prepare(struct db *db, struct error *err);
void db_close(struct db *db);

/* The code of what SQLite last said; in words. -EBADMSG: what is there is damaged. */
int db_fail(const struct db *db, struct error *err, const char *what);
int db_run(struct db *db, const char *sql, struct error *err);
/* The first number of the first row; -1 without one. */
int64_t db_number(sqlite3 *sql, const char *query);

int db_begin(struct db *db, struct error *err);
/* As db->head says, which has one more generation then. After an error db_rollback(). */
int db_commit(struct db *db, struct error *err);
void db_rollback(struct db *db, const struct db_head *head);

int db_put_batch(struct db *db, uint64_t seq, const struct digest *chain, const char *data, size_t size,
                 struct error *err);
/* And drops the batches that it stands for. */
int db_put_snapshot(struct db *db, uint64_t seq, const char *data, size_t size, struct error *err);
/* *ret_old: the sum of the row it replaces; *ret_new: its own. */
struct db_change {
    bool replaced;
    int64_t old, now;
};
int db_put_job(struct db *db, const struct store_job *job, struct db_change *ret_change, struct error *err);

/* A row of "SELECT " DB_JOB_COLUMNS; -EBADMSG where its sum is not what it was. */
#define DB_JOB_COLUMNS "id, submit, ended, user, vc, state, name, gpu_seconds, json, sum"
int db_row_job(struct db *db, sqlite3_stmt *row, struct store_job *ret_job, struct error *err);
