/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* check.h - whether what a store has is all that it had. Changes nothing. */
#include "store/db.h"
#include "store/mark.h"

/* The head, the snapshot and the batches of the database; db->head is filled. -EBADMSG in words. */
int check_log(struct db *db, struct error *err);
/* Every finished job, and how many. */
int check_history(struct db *db, struct error *err);
/* Where a log ends, against what is known of it. */
int check_mark(enum mark_state state, const struct mark *mark, const struct log_place *end, struct error *err);

/* What a write-ahead log holds that is whole, and where it breaks off. */
struct wal_look {
    bool there;
    uint32_t frames;    /* up to the last commit that can be read */
    int64_t size;       /* of the file */
    int64_t damaged_at; /* where it breaks off though it goes on behind; -1: nowhere */
};
void check_wal(const char *path, struct wal_look *ret);
