/* SPDX-License-Identifier: Apache-2.0 */
/* store.c - see store.h: which kind of store a name means, and the checks that all kinds share. */
#include "store/store.h"

#include <errno.h>
#include <string.h>

#include "store/store_ops.h"

int store_open(const char *where, struct store **ret_store, struct error *err)
{
    if (strcmp(where, "mem:") == 0)
        return store_mem_open(ret_store, err);
    return store_sqlite_open(where, ret_store, err);
}

void store_close(struct store *store)
{
    if (store)
        store->ops->close(store);
}

int store_commit(struct store *store, const struct store_write *write, struct error *err)
{
    int r;

    if (write->batch && write->seq != store->seq + 1)
        return error_set(err, -EINVAL, "store: batch %llu does not follow %llu", (unsigned long long)write->seq,
                         (unsigned long long)store->seq);
    if (write->batch && write->batch_size > STORE_BATCH_MAX)
        return error_set(err, -E2BIG, "store: a batch of %zu bytes is beyond %zu", write->batch_size, STORE_BATCH_MAX);
    r = store->ops->commit(store, write, err);
    if (r == 0 && write->batch)
        store->seq = write->seq;
    return r;
}

int store_sync(struct store *store, struct error *err)
{
    return store->ops->sync ? store->ops->sync(store, err) : 0;
}

bool store_due(const struct store *store)
{
    return store->due;
}

void store_tidy(struct store *store)
{
    store->due = false;
    if (store->ops->tidy)
        store->ops->tidy(store);
}

int store_load(struct store *store, store_batch_fn snapshot, store_batch_fn batch, void *arg, struct error *err)
{
    return store->ops->load(store, snapshot, batch, arg, err);
}

int store_history(struct store *store, const struct store_query *query, store_job_fn each, void *arg, struct error *err)
{
    return store->ops->history(store, query, each, arg, err);
}

int store_history_get(struct store *store, int64_t id, store_job_fn each, void *arg, struct error *err)
{
    return store->ops->history_get(store, id, each, arg, err);
}

const char *store_worn(struct store *store)
{
    return store->ops->worn ? store->ops->worn(store) : NULL;
}

int store_scrub(struct store *store, struct error *err)
{
    return store->ops->scrub ? store->ops->scrub(store, err) : 0;
}

int store_backup(struct store *store, const char *to, struct error *err)
{
    if (!store->ops->backup)
        return error_set(err, -ENOTSUP, "store: one in memory cannot be backed up");
    return store->ops->backup(store, to, err);
}

int store_restore(const char *from, const char *where, struct error *err)
{
    return store_sqlite_restore(from, where, err);
}
