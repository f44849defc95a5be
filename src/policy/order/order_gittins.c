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
#include <stddef.h>

#include "core/contract/view.h"
#include "policy/list.h"
#include "policy/order/las.h"
#include "solve/gittins.h"

enum { P_KNOB, P_QUEUES };
enum { STEPS = 8 };

/* Where a queue's index was computed, and what an end costs from there on: the smaller, the better. */
struct table {
    int64_t count;
    svc_t from[STEPS + 1];
    svc_t cost[STEPS + 1];
};

/* The largest cost that is told apart; beyond it, by first start. */
#define COST_MAX ((int64_t)1 << 55)

struct gittins_state {
    struct las_history history;
    struct table tables[PARAM_TIMES_MAX];
    struct las_sorted sorted; /* not kept */
};

static const struct param gittins_params[] = {
    [P_KNOB] = { "knob", "promote what has waited so many times as long as it has run; 0 = never", PARAM_RATIO, 0, 0,
                 1000000 * PPM_ONE, NULL },
    [P_QUEUES] = { "queues", "service that ends each queue but the last, in GPU-seconds", PARAM_TIMES, 3600 * USEC_SEC,
                   1, PARAM_TIMES_MAX, NULL },
    { 0 },
};

static void make_table(const struct gittins_state *own, struct table *table, svc_t low, svc_t high)
{
    const svc_t *sorted = own->sorted.sample;
    size_t count = (size_t)own->history.count;
    size_t first = gittins_up_to(sorted, count, low), end = gittins_up_to(sorted, count, high - 1);

    *table = (struct table){ .count = 1, .from = { low } };
    for (size_t k = 1; k <= STEPS; k++) {
        /* All samples of the queue, or STEPS of them. */
        size_t at = end - first <= STEPS ? first + k - 1 : first + (end - first) * k / STEPS - 1;

        if (at < end && sorted[at] > table->from[table->count - 1])
            table->from[table->count++] = sorted[at];
    }
    for (int64_t k = 0; k < table->count; k++)
        table->cost[k] = gittins_cost(gittins_index(sorted, own->sorted.sums, count, table->from[k], high), COST_MAX);
}

static void make_tables(const struct order_ctx *ctx)
{
    const int64_t *queues = &ctx->params[P_QUEUES];
    struct gittins_state *own = ctx->state;

    las_sort(&own->history, &own->sorted);
    for (int64_t q = 0; q < queues[0]; q++)
        make_table(own, &own->tables[q], q ? queues[q] : 0, queues[1 + q]);
}

static void gittins_learn(struct order_ctx *ctx, const svc_t *services, size_t count)
{
    struct gittins_state *own = ctx->state;

    las_learn(&own->history, services, count);
    if (own->history.count)
        make_tables(ctx);
}

static bool gittins_ended(struct order_ctx *ctx, const struct job *job)
{
    struct gittins_state *own = ctx->state;

    las_learn(&own->history, &job->attained, 1);
    if (!las_grown(&own->history, ctx))
        return false;
    make_tables(ctx);
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
    const struct gittins_state *own = ctx->state;
    const struct table *table;
    usec_t started = job->first_start >= 0 ? job->first_start : COST_MAX - 1, at;
    struct las_level level;
    int64_t step;

    las_level(ctx, job, ctx->params[P_KNOB], &ctx->params[P_QUEUES], ret_key, &level);
    table = level.queue < ctx->params[P_QUEUES] ? &own->tables[level.queue] : NULL;
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

static void gittins_level(const struct order_ctx *ctx, const struct job *job, struct order_level *ret_level)
{
    las_tell(ctx, job, ctx->params[P_KNOB], ctx->params[P_QUEUES], ret_level);
}

const struct order_ops order_gittins = {
    .name = "gittins",
    .summary = "attained service in discrete queues, and in them the likeliest to end soon",
    .params = gittins_params,
    .state_size = sizeof(struct gittins_state),
    .kept_size = offsetof(struct gittins_state, sorted),
    .key = gittins_key,
    .ended = gittins_ended,
    .learn = gittins_learn,
    .level = gittins_level,
};
