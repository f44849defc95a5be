/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* fsck.h - the inside of store_fsck(): looking (fsck.c) and mending (repair.c). */
#include "store/check.h"
#include "store/store_ops.h"

struct fsck {
    const struct store_fsck *how;
    const char *directory;
    char copy[DB_PATH]; /* of the database, to be opened: what lies in the directory is not touched */
    struct digester *digester;
    struct db db; /* the copy; sql is NULL where it could not be opened */
    struct tail *tail;
    enum mark_state mark_state;
    struct mark mark;
    struct log_place end; /* as far as all is proved */
    uint64_t known;       /* the highest batch that anything tells of */
    uint64_t generation;  /* and the highest commit */
    unsigned found;       /* faults */
};

void fsck_say(struct fsck *fsck, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Says it, and counts it. */
void fsck_fault(struct fsck *fsck, const struct error *err);
void fsck_know(struct fsck *fsck, uint64_t seq, uint64_t generation);

/* Makes a store of what can be read, and puts the rest aside. */
int fsck_repair(struct fsck *fsck, struct error *err);
