/* SPDX-License-Identifier: Apache-2.0 */
/* order_gittins.c - queues of attained service, and inside them the Gittins index (Tiresias, NSDI'19, 2D-Gittins).
 *
 * The queues are those of order_las.c. Inside a queue the job comes first that is likeliest to end for the service it
 * will take, given what it has had: the index is computed from the total service of jobs that ended here before (or of
 * a history handed over at the start), never from anything told of this job. In the last queue, and where the history
 * knows nothing (nobody ended within the quantum), it is first started, first served.
 *
 * In queue i the quantum is its upper limit (the paper's discretisation). The index is computed at the values of the
 * sample, or, where a queue has many, at STEPS of them with equally many between; a job's key changes when it passes
 * one. So a job causes at most STEPS key changes a queue.
 *
 * The table is made again when the sample has grown by an eighth, or by an eighth of the jobs that wait if that is
 * more: all keys change then, and their cost is spread over the ends since. Until the first 16 jobs have ended it is
 * `las`.
 */
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "core/view.h"
#include "policy/las.h"
#include "policy/list.h"
#include "solve/gittins.h"

enum { P_KNOB, P_QUEUES };
enum { HISTORY_MAX = 4096, STEPS = 8, SAMPLES_MIN = 16 };

/* Where a queue's index was computed, and what an end costs from there on: the smaller, the better. */
struct table {
    int64_t count;
    svc_t from[STEPS + 1];
    svc_t cost[STEPS + 1];
};

/* The largest cost that is told apart; beyond it, by first start. */
#define COST_MAX ((int64_t)1 << 55)

struct history {
    int64_t count, next, since; /* samples; where the next goes; how many came since the table was made */
    svc_t sample[HISTORY_MAX];  /* the last ones, in a ring */
    struct table tables[PARAM_TIMES_MAX];
    /* Not kept: */
    svc_t sorted[HISTORY_MAX];
    __int128 sums[HISTORY_MAX + 1];
};

static const struct param gittins_params[] = {
    [P_KNOB] = { "knob", "promote what has waited so many times as long as it has run; 0 = never", PARAM_RATIO, 0, 0,
                 1000000 * PPM_ONE, NULL },
    [P_QUEUES] = { "queues", "service that ends each queue but the last, in GPU-seconds", PARAM_TIMES, 3600 * USEC_SEC,
                   1, PARAM_TIMES_MAX, NULL },
    { 0 },
};

static void make_table(struct history *h, struct table *table, svc_t low, svc_t high)
{
    size_t count = (size_t)h->count;
    size_t first = gittins_up_to(h->sorted, count, low), end = gittins_up_to(h->sorted, count, high - 1);

    *table = (struct table){ .count = 1, .from = { low } };
    for (size_t k = 1; k <= STEPS; k++) {
        /* All samples of the queue, or STEPS of them. */
        size_t at = end - first <= STEPS ? first + k - 1 : first + (end - first) * k / STEPS - 1;

        if (at < end && h->sorted[at] > table->from[table->count - 1])
            table->from[table->count++] = h->sorted[at];
    }
    for (int64_t k = 0; k < table->count; k++)
        table->cost[k] = gittins_cost(gittins_index(h->sorted, h->sums, count, table->from[k], high), COST_MAX);
}

static void make_tables(const struct order_ctx *ctx, struct history *h)
{
    const int64_t *queues = &ctx->params[P_QUEUES];

    memcpy(h->sorted, h->sample, (size_t)h->count * sizeof(*h->sorted));
    gittins_prepare(h->sorted, h->sums, (size_t)h->count);
    for (int64_t q = 0; q < queues[0]; q++)
        make_table(h, &h->tables[q], q ? queues[q] : 0, queues[1 + q]);
    h->since = 0;
}

static void add(struct history *h, svc_t service)
{
    h->sample[h->next] = service;
    h->next = (h->next + 1) % HISTORY_MAX;
    h->count += h->count < HISTORY_MAX;
    h->since++;
}

static void gittins_learn(struct order_ctx *ctx, const svc_t *services, size_t count)
{
    struct history *h = ctx->state;

    for (size_t i = 0; i < count; i++)
        if (services[i] > 0)
            add(h, services[i]);
    if (h->count)
        make_tables(ctx, h);
}

static bool gittins_ended(struct order_ctx *ctx, const struct job *job)
{
    struct history *h = ctx->state;
    int64_t waiting = core_waiting(ctx->view->core), grown = h->count > waiting ? h->count / 8 : waiting / 8;

    if (job->attained <= 0)
        return false;
    add(h, job->attained);
    if (h->since < SAMPLES_MIN || h->since < grown)
        return false;
    make_tables(ctx, h);
    return true;
}

/* The step of the table that what the job has had lies in. */
static int64_t step_of(const struct table *table, svc_t attained)
{
    int64_t step = 0;

    while (step + 1 < table->count && attained >= table->from[step + 1])
        step++;
    return step;
}

static void gittins_key(const struct order_ctx *ctx, const struct job *job, struct order_key *ret_key)
{
    const struct history *h = ctx->state;
    const struct table *table;
    usec_t started = job->first_start >= 0 ? job->first_start : COST_MAX - 1, at;
    struct las_level level;
    int64_t step;

    las_level(ctx, job, ctx->params[P_KNOB], &ctx->params[P_QUEUES], ret_key, &level);
    table = level.queue < ctx->params[P_QUEUES] ? &h->tables[level.queue] : NULL;
    if (!table || table->count == 0) {
        ret_key->value = las_value(level.queue, COST_MAX + started);
        return;
    }
    step = step_of(table, level.attained);
    ret_key->value = las_value(level.queue, table->cost[step] < COST_MAX ? table->cost[step] : COST_MAX + started);
    if (job->state != JOB_RUNNING || step + 1 >= table->count)
        return;
    at =
        las_crossing(view_now(ctx->view), table->from[step + 1] - level.attained, (int64_t)job->gpus * job->spec.share);
    if (at < ret_key->change_at)
        ret_key->change_at = at;
}

const struct order_ops order_gittins = {
    .name = "gittins",
    .summary = "attained service in discrete queues, and in them the likeliest to end soon",
    .params = gittins_params,
    .state_size = sizeof(struct history),
    .kept_size = offsetof(struct history, sorted),
    .key = gittins_key,
    .ended = gittins_ended,
    .learn = gittins_learn,
};
