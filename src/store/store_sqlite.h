/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* store_sqlite.h - the inside of the store in a directory, shared by its files alone. */
#include "store/check.h"
#include "store/store_ops.h"

/* How far a scrub is. */
struct scrub {
    enum { SCRUB_BEGIN, SCRUB_FILE, SCRUB_HISTORY } part;
    int64_t next; /* page, or id */
    int64_t jobs;
    uint64_t sum;
};

struct store_sqlite {
    struct store base;
    char directory[DB_PATH];
    struct db db;
    struct db_head head;  /* as the database has it */
    struct log_place end; /* with what is in the tail */
    struct digester *digester;
    int lock;
    int wal_pages;
    struct tail *tail; /* batches that the database does not have yet */
    struct mark_file *mark;
    struct scrub scrub;
    char worn[200];
    bool proved;
};

extern const struct store_ops store_sqlite_ops;

/* A commit of nothing: what is in the tail goes into the database. */
int store_sqlite_move(struct store_sqlite *s, bool in_use, struct error *err);
int store_sqlite_scrub(struct store *store, struct error *err);
