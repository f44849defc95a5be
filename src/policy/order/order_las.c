/* SPDX-License-Identifier: Apache-2.0 */
/* order_las.c - least attained service in discrete queues (Tiresias, NSDI'19, two-dimensional LAS).
 *
 * Needs no estimate of run times. What a job has attained is its GPUs times the time it has run; it sinks one queue
 * each time that passes a threshold. Inside a queue those that started first come first, and those that never ran last:
 * a few wide queues keep equal jobs from preempting each other in turns.
 *
 * Starvation: a job below the first queue that has waited `knob` times as long as it has run goes back to the first
 * queue, and both counts begin anew. Waiting counts once it has run.
 *
 * With learn=on the thresholds, as many as are given, are moved to where the jobs that ended here before would have had
 * the same share of their service in each queue.
 *
 * With quantum=Q there are queues of one width without end, for comparison: the smaller Q, the more equal jobs take
 * turns and the later all of them end.
 *
 * Thresholds are passed, and promotions happen, at whole seconds: the next one after the exact instant.
 */
#include "core/contract/view.h"
#include "policy/list.h"
#include "policy/order/las.h"

enum { P_KNOB, P_LEARN, P_QUANTUM, P_QUEUES };

static const struct param las_params[] = {
    [P_KNOB] = { "knob", "promote what has waited so many times as long as it has run; 0 = never", PARAM_RATIO, 0, 0,
                 1000000 * PPM_ONE, NULL },
    [P_LEARN] = { "learn", "move the thresholds so that all queues get the same share of the service", PARAM_SWITCH, 0,
                  0, 1, NULL },
    [P_QUANTUM] = { "quantum", "instead of queues: as many as it takes, each so wide in GPU-seconds; 0 = off",
                    PARAM_TIME, 0, 0, PARAM_MAX, NULL },
    [P_QUEUES] = { "queues", "service that ends each queue but the last, in GPU-seconds", PARAM_TIMES, 3600 * USEC_SEC,
                   1, PARAM_TIMES_MAX, NULL },
    { 0 },
};

struct las_state {
    struct las_history history;
    int64_t queues[PARAM_TIMES_MAX + 1]; /* learned; how many, then they; 0 = nothing yet */
    struct las_sorted sorted;            /* not kept */
};

/* The whole second of service at which all jobs together have had `share` of what they needed; they have had sums[i] +
 * (count - i) * x when i of them have ended at x. */
static svc_t limit_at(const struct las_state *own, __int128 share)
{
    const struct las_sorted *sorted = &own->sorted;
    int64_t count = own->history.count, low = 0, high = count;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;

        if (sorted->sums[middle] + (__int128)sorted->sample[middle] * (count - middle) < share)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == count)
        return sorted->sample[count - 1];
    return (svc_t)((share - sorted->sums[low]) / (count - low)) / USEC_SEC * USEC_SEC;
}

static void learn_queues(const struct order_ctx *ctx)
{
    struct las_state *own = ctx->state;
    int64_t wanted = ctx->params[P_QUEUES];

    las_sort(&own->history, &own->sorted);
    own->queues[0] = 0;
    for (int64_t i = 1; i <= wanted; i++) {
        svc_t limit = limit_at(own, own->sorted.sums[own->history.count] * i / (wanted + 1));

        if (limit > (own->queues[0] ? own->queues[own->queues[0]] : 0))
            own->queues[++own->queues[0]] = limit;
    }
}

static void las_history(struct order_ctx *ctx, const svc_t *services, size_t count)
{
    struct las_state *own = ctx->state;

    las_learn(&own->history, services, count);
    if (ctx->params[P_LEARN] && own->history.count)
        learn_queues(ctx);
}

static bool las_ended(struct order_ctx *ctx, const struct job *job)
{
    struct las_state *own = ctx->state;

    if (!ctx->params[P_LEARN])
        return false;
    las_learn(&own->history, &job->attained, 1);
    if (!las_grown(&own->history, ctx))
        return false;
    learn_queues(ctx);
    return true;
}

/* Queues of one width, without end: what priorities are before they are made few (the paper's reason for doing so). No
 * promotions: nobody starves, as everybody who waits is overtaken by those who run. */
static void quantum_key(const struct order_ctx *ctx, const struct job *job, struct order_key *ret_key)
{
    enum { START_BITS = 40 }; /* milliseconds */
    int64_t quantum = ctx->params[P_QUANTUM];
    svc_t attained = job_attained(job, view_now(ctx->view));
    int64_t level = attained / quantum, most = ((int64_t)1 << (62 - START_BITS)) - 1;
    int64_t never = ((int64_t)1 << START_BITS) - 1, started = job->first_start >= 0 ? job->first_start / 1000 : never;

    if (job->state == JOB_RUNNING)
        ret_key->change_at =
            las_crossing(view_now(ctx->view), (level + 1) * quantum - attained, (int64_t)job->gpus * job->spec.share);
    ret_key->value = ((level < most ? level : most) << START_BITS) + (started < never ? started : never);
}

static void las_key(const struct order_ctx *ctx, const struct job *job, struct order_key *ret_key)
{
    const struct las_state *own = ctx->state;
    const int64_t *queues = own->queues[0] ? own->queues : &ctx->params[P_QUEUES];
    struct las_level level;

    if (ctx->params[P_QUANTUM]) {
        quantum_key(ctx, job, ret_key);
        return;
    }
    las_level(ctx, job, ctx->params[P_KNOB], queues, ret_key, &level);
    ret_key->value = las_value(level.queue, job->first_start >= 0 ? job->first_start : LAS_NEVER_STARTED);
}

static void las_level_of(const struct order_ctx *ctx, const struct job *job, struct order_level *ret_level)
{
    const struct las_state *own = ctx->state;

    if (ctx->params[P_QUANTUM])
        return; /* without end */
    las_tell(ctx, job, ctx->params[P_KNOB], own->queues[0] ? own->queues[0] : ctx->params[P_QUEUES], ret_level);
}

const struct order_ops order_las = {
    .name = "las",
    .summary = "least attained service in discrete queues",
    .params = las_params,
    .state_size = sizeof(struct las_state),
    .kept_size = offsetof(struct las_state, sorted),
    .key = las_key,
    .ended = las_ended,
    .learn = las_history,
    .level = las_level_of,
};
