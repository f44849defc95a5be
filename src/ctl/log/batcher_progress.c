/* SPDX-License-Identifier: Apache-2.0 */
/* batcher_progress.c - how far running jobs are, as agents say it: remembered for people, and now and then for the log.
 *
 * A node is believed about its own tasks alone, and a job about itself. Rows that make no sense are passed over: what
 * they hold comes from a program of a user.
 */
#include <errno.h>

#include "base/alloc.h"
#include "ctl/log/batcher_internal.h"
#include "ctl/state/registry.h"
#include "ctl/state/state_internal.h"
#include "wire/agent/progress.h"

#define MEASURE_EVERY USEC_MIN
/* Rows within the span that a change of the rate may make: a job that swings back and forth is not heard more often. */
enum { CHANGES_A_SPAN = 3 };

/* Where things are in a row of an agent. */
enum {
    AT_JOB,
    AT_ATTEMPT,
    AT_RANK,
    AT_STATE,
    AT_SOURCE,
    AT_STEP,
    AT_RATE,
    AT_EPOCH,
    AT_TOTAL,
    AT_UTIL,
    AT_MEMORY,
    AT_LOSS,
    AT_COUNT
};

static int64_t number_at(const json_t *row, size_t at, int64_t least, int64_t most, int64_t otherwise)
{
    const json_t *value = json_array_get(row, at);
    int64_t number = json_integer_value(value);

    return json_is_integer(value) && number >= least && number <= most ? number : otherwise;
}

/* The task's job, where this is its node and its attempt goes on. */
static struct ctl_job *job_of(struct batcher *batcher, uint32_t node, const json_t *row)
{
    struct ctl_job *job = registry_get(ctl_registry_mut(batcher->ctl), number_at(row, AT_JOB, 1, INT64_MAX, 0));
    int64_t attempt = number_at(row, AT_ATTEMPT, 0, UINT32_MAX, -1), rank = number_at(row, AT_RANK, 0, UINT32_MAX, -1);
    const struct ctl_attempt *last = job ? attempt_last(job) : NULL;

    if (!last || phase_over(job->phase) || last->number != attempt || rank < 0 || rank >= last->task_count ||
        last->tasks[rank].node != node)
        return NULL;
    return job;
}

static void row_take(struct ctl_job *job, const json_t *from, usec_t now)
{
    struct ctl_progress *p = &job->progress;
    const struct ctl_attempt *last = attempt_last(job);
    uint32_t rank = (uint32_t)number_at(from, AT_RANK, 0, UINT32_MAX, 0);

    if (p->heard && p->attempt == last->number && rank > p->rank)
        return; /* of several tasks the first is believed */
    if (!p->heard || p->attempt != last->number)
        *p = (struct ctl_progress){ .attempt = last->number };
    p->rank = rank;
    p->heard = now;
    p->state = (uint8_t)number_at(from, AT_STATE, CTL_PROGRESS_MOVES, CTL_PROGRESS_STALLED, CTL_PROGRESS_MOVES);
    p->source = (uint8_t)number_at(from, AT_SOURCE, CTL_PROGRESS_SOCKET, CTL_PROGRESS_EMULATED, CTL_PROGRESS_SOCKET);
    p->row[COLUMN_JOB] = job->id;
    p->row[COLUMN_ATTEMPT] = last->number;
    p->row[COLUMN_STEP] = number_at(from, AT_STEP, 0, PROGRESS_COUNT_MAX, -1);
    p->row[COLUMN_RATE] = number_at(from, AT_RATE, 0, PROGRESS_COUNT_MAX, 0);
    p->row[COLUMN_EPOCH] = number_at(from, AT_EPOCH, 0, 1000 * PROGRESS_EPOCH_MAX, -1);
    p->row[COLUMN_TOTAL] = number_at(from, AT_TOTAL, 1, PROGRESS_COUNT_MAX, -1);
    p->row[COLUMN_UTIL] = number_at(from, AT_UTIL, 0, 100, 0);
    p->row[COLUMN_MEMORY] = number_at(from, AT_MEMORY, 0, UINT32_MAX, 0);
    p->row[COLUMN_LOSS] = number_at(from, AT_LOSS, -PROGRESS_LOSS_MAX, PROGRESS_LOSS_MAX, MEASURES_NO_LOSS);
}

static bool is_due(const struct ctl_progress *p, usec_t now, usec_t every)
{
    int64_t rate = p->row[COLUMN_RATE], away = rate > p->kept_rate ? rate - p->kept_rate : p->kept_rate - rate;

    if (!p->kept)
        return rate > 0 || p->row[COLUMN_LOSS] != MEASURES_NO_LOSS;
    if (now - p->kept >= every || (p->kept_rate == 0 && rate > 0))
        return true;
    return (p->state != p->kept_state || away > p->kept_rate / 10) && now - p->kept >= every / CHANGES_A_SPAN;
}

static void row_keep(struct ctl_progress *p, usec_t now, struct number_list *rows)
{
    for (int i = 0; i < MEASURES_ROW; i++)
        rows->items[rows->count++] = p->row[i];
    p->kept = now;
    p->kept_rate = p->row[COLUMN_RATE];
    p->kept_state = p->state;
}

int batcher_progress(struct batcher *batcher, uint32_t node, const json_t *from)
{
    usec_t now = batcher->host.now(batcher->host.arg);
    usec_t every = batcher->config.ctl.measure_every ? batcher->config.ctl.measure_every : MEASURE_EVERY;
    size_t count = json_array_size(from);
    struct entry entry = { .kind = ENTRY_MEASURES };
    struct number_list *rows = &entry.measures.rows;

    if (count == 0 || count > AGENT_TASKS_MAX)
        return 0;
    rows->items = mem_zalloc(count * MEASURES_ROW, sizeof(*rows->items));
    if (!rows->items)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(from, i);
        struct ctl_job *job = json_array_size(row) == AT_COUNT ? job_of(batcher, node, row) : NULL;

        if (!job)
            continue;
        row_take(job, row, now);
        if (is_due(&job->progress, now, every))
            row_keep(&job->progress, now, rows);
    }
    if (rows->count == 0) {
        entry_done(&entry);
        return 0;
    }
    return batcher_push_report(batcher, &entry);
}
