/* SPDX-License-Identifier: Apache-2.0 */
/* store_mem.c - a store that lasts as long as its process: for tests and for trying things out.
 *
 * Keeps what it is given in lists. Finished jobs are looked through from the newest; there is no index.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "store/store_ops.h"

enum { MEM_BATCHES_MAX = 1 << 24, MEM_JOBS_MAX = 1 << 22 };

struct block {
    char *data;
    size_t size;
    uint64_t seq;
};

struct kept {
    struct store_job job; /* strings point into text */
    char *text;
};

struct store_mem {
    struct store base;
    struct block snapshot;
    struct block *batches;
    size_t batch_count, batch_capacity;
    struct kept *jobs;
    size_t job_count, job_capacity;
};

static int block_set(struct block *block, uint64_t seq, const char *data, size_t size)
{
    char *copy = mem_zalloc(size + 1, 1);

    if (!copy)
        return -ENOMEM;
    memcpy(copy, data, size);
    mem_free(block->data);
    *block = (struct block){ .data = copy, .size = size, .seq = seq };
    return 0;
}

static const char *text_add(char **at, const char *text)
{
    size_t size = strlen(text ? text : "") + 1;
    char *out = *at;

    memcpy(out, text ? text : "", size);
    *at += size;
    return out;
}

static size_t text_size(const char *text)
{
    return strlen(text ? text : "") + 1;
}

static int kept_set(struct kept *kept, const struct store_job *job)
{
    size_t size =
        text_size(job->user) + text_size(job->vc) + text_size(job->state) + text_size(job->name) + text_size(job->json);
    char *text = mem_zalloc(size, 1), *at = text;

    if (!text)
        return -ENOMEM;
    mem_free(kept->text);
    kept->text = text;
    kept->job = *job;
    kept->job.user = text_add(&at, job->user);
    kept->job.vc = text_add(&at, job->vc);
    kept->job.state = text_add(&at, job->state);
    kept->job.name = text_add(&at, job->name);
    kept->job.json = text_add(&at, job->json);
    return 0;
}

static int job_put(struct store_mem *mem, const struct store_job *job)
{
    void *block = mem->jobs;
    int r;

    for (size_t i = mem->job_count; i-- > 0;)
        if (mem->jobs[i].job.id == job->id)
            return kept_set(&mem->jobs[i], job);
    r = mem_grow(&block, &mem->job_capacity, mem->job_count + 1, MEM_JOBS_MAX, sizeof(*mem->jobs));
    mem->jobs = block;
    if (r < 0)
        return r;
    mem->jobs[mem->job_count] = (struct kept){ 0 };
    r = kept_set(&mem->jobs[mem->job_count], job);
    if (r == 0)
        mem->job_count++;
    return r;
}

static void drop_batches(struct store_mem *mem, uint64_t up_to)
{
    size_t keep = 0;

    for (size_t i = 0; i < mem->batch_count; i++) {
        if (mem->batches[i].seq <= up_to)
            mem_free(mem->batches[i].data);
        else
            mem->batches[keep++] = mem->batches[i];
    }
    mem->batch_count = keep;
}

static int mem_commit(struct store *store, const struct store_write *write, struct error *err)
{
    struct store_mem *mem = (struct store_mem *)store;
    void *block = mem->batches;
    int r = 0;

    if (write->batch) {
        r = mem_grow(&block, &mem->batch_capacity, mem->batch_count + 1, MEM_BATCHES_MAX, sizeof(*mem->batches));
        mem->batches = block;
        if (r == 0) {
            mem->batches[mem->batch_count] = (struct block){ 0 };
            r = block_set(&mem->batches[mem->batch_count], write->seq, write->batch, write->batch_size);
        }
        if (r == 0)
            mem->batch_count++;
    }
    for (size_t i = 0; r == 0 && i < write->job_count; i++)
        r = job_put(mem, &write->jobs[i]);
    if (r == 0 && write->snapshot) {
        r = block_set(&mem->snapshot, write->snapshot_seq, write->snapshot, write->snapshot_size);
        if (r == 0)
            drop_batches(mem, write->snapshot_seq);
    }
    return r == 0 ? 0 : error_set(err, r, "store: no memory");
}

static int mem_load(struct store *store, store_batch_fn snapshot, store_batch_fn batch, void *arg, struct error *err)
{
    struct store_mem *mem = (struct store_mem *)store;
    int r = 0;

    if (mem->snapshot.data)
        r = snapshot(arg, mem->snapshot.seq, mem->snapshot.data, mem->snapshot.size, err);
    for (size_t i = 0; r == 0 && i < mem->batch_count; i++)
        r = batch(arg, mem->batches[i].seq, mem->batches[i].data, mem->batches[i].size, err);
    return r;
}

static bool same(const char *want, const char *have)
{
    return !want || strcmp(want, have) == 0;
}

/* Whether the word is among those of a list with commas; a list that is NULL has all. */
static bool among(const char *list, const char *word)
{
    size_t size = strlen(word);

    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, word, size) == 0 && (at[size] == ',' || at[size] == '\0'))
            return true;
    return !list;
}

static int mem_history(struct store *store, const struct store_query *query, store_job_fn each, void *arg,
                       struct error *err)
{
    struct store_mem *mem = (struct store_mem *)store;
    uint32_t left = query->limit ? query->limit : UINT32_MAX;
    int64_t bound = query->before_id ? query->before_id : INT64_MAX;
    int r = 0;

    while (r == 0 && left > 0) {
        const struct store_job *next = NULL;

        for (size_t i = 0; i < mem->job_count; i++) {
            const struct store_job *job = &mem->jobs[i].job;

            if (job->id < bound && (!next || job->id > next->id) && same(query->user, job->user) &&
                same(query->vc, job->vc) && among(query->state, job->state) && same(query->name, job->name) &&
                (!query->find || strcasestr(job->name, query->find)) && job->end >= query->since &&
                (!query->until || job->end < query->until))
                next = job;
        }
        if (!next)
            break;
        bound = next->id;
        left--;
        r = each(arg, next, err);
    }
    return r;
}

static int mem_history_get(struct store *store, int64_t id, store_job_fn each, void *arg, struct error *err)
{
    struct store_mem *mem = (struct store_mem *)store;

    for (size_t i = mem->job_count; i-- > 0;)
        if (mem->jobs[i].job.id == id)
            return each(arg, &mem->jobs[i].job, err);
    return -ENOENT;
}

static void mem_close(struct store *store)
{
    struct store_mem *mem = (struct store_mem *)store;

    drop_batches(mem, UINT64_MAX);
    for (size_t i = 0; i < mem->job_count; i++)
        mem_free(mem->jobs[i].text);
    mem_free(mem->jobs);
    mem_free(mem->batches);
    mem_free(mem->snapshot.data);
    mem_free(mem);
}

static const struct store_ops store_mem_ops = {
    .name = "mem",
    .close = mem_close,
    .commit = mem_commit,
    .load = mem_load,
    .history = mem_history,
    .history_get = mem_history_get,
};

int store_mem_open(struct store **ret_store, struct error *err)
{
    struct store_mem *mem = mem_zalloc(1, sizeof(*mem));

    if (!mem)
        return error_set(err, -ENOMEM, "store: no memory");
    mem->base.ops = &store_mem_ops;
    *ret_store = &mem->base;
    return 0;
}
