/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* store_ops.h - what one kind of store fills in; see store.h for what each call promises. */
#include <stdatomic.h>

#include "store/store.h"

struct store_ops {
    const char *name;
    void (*close)(struct store *store);
    int (*commit)(struct store *store, const struct store_write *write, struct error *err);
    int (*sync)(struct store *store, struct error *err); /* NULL: no commit is lazy */
    void (*tidy)(struct store *store);                   /* may be NULL; asked for by `due` */
    int (*load)(struct store *store, store_batch_fn snapshot, store_batch_fn batch, void *arg, struct error *err);
    int (*history)(struct store *store, const struct store_query *query, store_job_fn each, void *arg,
                   struct error *err);
    int (*history_get)(struct store *store, int64_t id, store_job_fn each, void *arg, struct error *err);
    int (*backup)(struct store *store, const char *to, struct error *err);
    int (*scrub)(struct store *store, struct error *err); /* NULL: there is nothing on a disk */
    const char *(*worn)(struct store *store);             /* may be NULL */
};

struct store {
    const struct store_ops *ops;
    uint64_t seq;    /* of the last batch */
    atomic_bool due; /* a backup at work may set it */
};

int store_mem_open(struct store **ret_store, struct error *err);
int store_sqlite_open(const char *directory, struct store **ret_store, struct error *err);
int store_sqlite_restore(const char *from, const char *directory, struct error *err);

/* Keeps a second controller out: the descriptor that does, or -EBUSY. */
int store_lock(const char *directory, struct error *err);
/* A file that root has made belongs to whom its folder belongs to: the controller need not be root. */
void store_own(const char *path, int fd);
/* Whether `directory` has a database of the former version; it is made one of this version, and kept beside it. */
int store_upgrade(const char *directory, struct error *err);
/* Makes what is new in a directory last. */
int store_directory_sync(const char *directory, struct error *err);
/* A backup, or a copy of a state: all of it. */
int store_file_check(const char *path, struct error *err);
