/* SPDX-License-Identifier: Apache-2.0 */
/* planner_pollux_las.c - least attained service just as the simulator of Pollux (OSDI'21) has Tiresias.
 *
 * For comparing job by job; the correct policy is `las`. Every interval, in this order:
 *
 *   arrivals stand at the tail of the first queue, whenever they came;
 *   a job that has held its GPUs for the limit of the first queue, starting included, goes to the tail of the second;
 *   both queues are walked, and who fits in what is left runs. Waiting and running jobs keep the places they have.
 */
#include <assert.h>

#include "core/contract/plan.h"
#include "core/contract/view.h"
#include "policy/list.h"
#include "policy/order/las.h"
#include "policy/planner/planner_list.h"

enum { P_INTERVAL, P_QUEUES };
enum { W_KEY, W_AGAIN, W_HELD };

struct kept {
    int64_t tail; /* numbers given so far */
    usec_t planned_at;
};

struct pollux_las {
    struct kept kept;
    struct walk walk;
};

static const struct param las_params[] = {
    [P_INTERVAL] = { "interval", "time between two allocations", PARAM_TIME, 60 * USEC_SEC, USEC_SEC, USEC_DAY, NULL },
    [P_QUEUES] = { "queues", "service that ends each queue but the last, in GPU-seconds", PARAM_TIMES, 57600 * USEC_SEC,
                   1, PARAM_TIMES_MAX, NULL },
    { 0 },
};

static void put(struct planner_ctx *ctx, struct plan *plan, uint32_t job, int64_t queue)
{
    struct pollux_las *own = ctx->state;

    plan_word(plan, job, W_KEY, las_value(queue, ++own->kept.tail));
    plan_rekey(plan, job);
}

static void las_queued(struct planner_ctx *ctx, struct plan *plan, uint32_t job)
{
    if (view_job(ctx->view, job)->word[W_KEY] == 0)
        put(ctx, plan, job, 0);
}

static bool sinks(const struct planner_ctx *ctx, const struct job *job)
{
    const int64_t *queues = &ctx->params[P_QUEUES];
    int64_t queue = job->word[W_KEY] >> LAS_QUEUE_SHIFT;

    return queue < queues[0] && job->word[W_HELD] * job->spec.gpus >= queues[1 + queue];
}

/* One queue each, in the order of arrival. */
static void sink(struct planner_ctx *ctx, struct plan *plan)
{
    int64_t last = -1;

    for (;;) {
        uint32_t best = JOB_NONE;
        int64_t first = INT64_MAX;

        for (uint32_t i = ctx->vc->run_first; i != JOB_NONE; i = view_job(ctx->view, i)->next) {
            const struct job *job = view_job(ctx->view, i);

            if (job->spec.id > last && job->spec.id < first && sinks(ctx, job)) {
                first = job->spec.id;
                best = i;
            }
        }
        if (best == JOB_NONE)
            return;
        last = first;
        put(ctx, plan, best, (view_job(ctx->view, best)->word[W_KEY] >> LAS_QUEUE_SHIFT) + 1);
    }
}

static void las_plan(struct planner_ctx *ctx, struct plan *plan)
{
    /* All stops come before all starts: so those who start have the choice of all that is free. */
    static const int64_t walk_params[] = { MODE_PREEMPT, UNPLACED_HOLD };
    struct pollux_las *own = ctx->state;
    struct planner_ctx walk = { .view = ctx->view, .vc = ctx->vc, .params = walk_params, .state = &own->walk };
    usec_t now = view_now(ctx->view), interval = ctx->params[P_INTERVAL];

    if (own->kept.planned_at != now) {
        for (uint32_t i = ctx->vc->run_first; i != JOB_NONE; i = view_job(ctx->view, i)->next)
            plan_word(plan, i, W_HELD, view_job(ctx->view, i)->word[W_HELD] + now - own->kept.planned_at);
        own->kept.planned_at = now;
        sink(ctx, plan);
    }
    planner_list_preempt.plan(&walk, plan);
    if (ctx->vc->running || ctx->vc->queue.waiting)
        plan_wake(plan, now - now % interval + interval);
}

const struct planner_ops planner_pollux_las = {
    .name = "pollux-las",
    .summary = "queues of attained service as the simulator of Pollux keeps them",
    .params = las_params,
    .state_size = sizeof(struct pollux_las),
    .kept_size = sizeof(struct kept),
    .run_order = RUN_BY_KEY,
    .plan = las_plan,
    .queued = las_queued,
};
