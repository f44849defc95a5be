/* SPDX-License-Identifier: Apache-2.0 */
/* planner_tiresias_sim.c - least attained service just as the public simulator of Tiresias does it (`dlas`,
 * `dlas-gpu`).
 *
 * For comparing job by job, mistakes included; the correct policy is `las`. At each event, in this order:
 *
 *   arrivals go to the tail of the first queue;
 *   a running job that has passed the limit of its queue goes to the tail of the next: one queue an event, in the order
 *   of arrival, whenever something happens and not when the limit is passed;
 *   the queues are walked, and who fits in what is left runs;
 *   in each queue running jobs come before waiting ones, each in the order they had.
 *
 * The next event may be a timer: the earliest, over running jobs, of (limit - run time) / GPUs from now, rounded down.
 * It should be limit / GPUs - run time; so jobs of several GPUs sink late. It is computed anew at every event and moves
 * away as they come. The simulator of Muri has grown from this one and has that put right (timer=exact).
 *
 * A queue is kept as keys (the ordering just reads them): running jobs count up from 1 as they join; waiting ones lie
 * around MIDDLE, arrivals after it, counting up, and stopped ones before it: later stops further forward, those of one
 * event in the order they ran. A job that starts keeps its key until the next event, as the walk must see it there.
 *
 * An event costs what the walk costs plus a look at each running job.
 */
#include <assert.h>

#include "core/contract/plan.h"
#include "core/contract/view.h"
#include "policy/list.h"
#include "policy/order/las.h"
#include "policy/planner/planner_list.h"

enum { P_ATTAINED, P_TIMER, P_QUEUES };
enum { ATTAINED_SERVICE, ATTAINED_TIME };
enum { TIMER_LATE, TIMER_EXACT };
enum { W_KEY };

/* Positions inside a queue; see above. RUN_BITS for what counts running jobs, the rest for passes. */
enum { RUN_BITS = 28 };
#define RUN_END ((int64_t)1 << RUN_BITS)
#define PASSES_END ((int64_t)1 << 27)
#define MIDDLE ((int64_t)1 << 56)

struct kept {
    int64_t run_last, tail_last; /* numbers given so far */
    int64_t passes;
    usec_t planned_at;
};

struct tiresias {
    struct kept kept;
    struct walk walk;
};

static const char *const timer_choices[] = { "late", "exact", NULL };
static const char *const attained_choices[] = { "service", "time", NULL };

static const struct param tiresias_params[] = {
    [P_ATTAINED] = { "attained", "what is held against the limits: GPU-time or time", PARAM_CHOICE, 0, 0, 1,
                     attained_choices },
    [P_TIMER] = { "timer", "when queues are looked at: late, in whole seconds, or when a limit is passed", PARAM_CHOICE,
                  TIMER_LATE, 0, 1, timer_choices },
    [P_QUEUES] = { "queues", "service that ends each queue but the last, in GPU-seconds", PARAM_TIMES, 3250 * USEC_SEC,
                   1, PARAM_TIMES_MAX, NULL },
    { 0 },
};

static int64_t queue_of(const struct job *job)
{
    return job->word[W_KEY] >> LAS_QUEUE_SHIFT;
}

static int64_t position_of(const struct job *job)
{
    return job->word[W_KEY] & LAS_NEVER_STARTED;
}

static void put(struct plan *plan, uint32_t job, int64_t queue, int64_t position)
{
    plan_word(plan, job, W_KEY, las_value(queue, position));
    plan_rekey(plan, job);
}

/* How long the job has run; whole seconds, where the timer is late. */
static usec_t ran_of(const struct planner_ctx *ctx, const struct job *job)
{
    usec_t ran = job->ran + (job->state == JOB_RUNNING ? view_now(ctx->view) - job->since : 0);

    return ctx->params[P_TIMER] == TIMER_LATE ? ran - ran % USEC_SEC : ran;
}

/* The limit of the job's queue; 0 in the last. */
static int64_t limit_of(const struct planner_ctx *ctx, const struct job *job)
{
    const int64_t *queues = &ctx->params[P_QUEUES];

    return queue_of(job) < queues[0] ? queues[1 + queue_of(job)] : 0;
}

static int64_t width_of(const struct planner_ctx *ctx, const struct job *job)
{
    return ctx->params[P_ATTAINED] == ATTAINED_SERVICE ? job->spec.gpus : 1;
}

static void tiresias_queued(struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    struct tiresias *own = ctx->state;
    const struct job *job = view_job(ctx->view, index);

    if (job->word[W_KEY] == 0)
        put(plan, index, 0, MIDDLE + ++own->kept.tail_last);
    else if (position_of(job) < RUN_END)
        put(plan, index, queue_of(job), MIDDLE - own->kept.passes * RUN_END + position_of(job));
}

/* Jobs that began to run at the event before, or sank and ran on, join the end of the running ones. */
static void join_running(struct planner_ctx *ctx, struct plan *plan)
{
    struct tiresias *own = ctx->state;

    for (;;) {
        uint32_t best = JOB_NONE;

        for (uint32_t i = ctx->vc->run_first; i != JOB_NONE; i = view_job(ctx->view, i)->next) {
            const struct job *job = view_job(ctx->view, i);

            if (position_of(job) >= RUN_END &&
                (best == JOB_NONE || job->word[W_KEY] < view_job(ctx->view, best)->word[W_KEY]))
                best = i;
        }
        if (best == JOB_NONE)
            return;
        assert(own->kept.run_last + 1 < RUN_END);
        put(plan, best, queue_of(view_job(ctx->view, best)), ++own->kept.run_last);
    }
}

/* One queue each, in the order of arrival. All running jobs have positions of running ones now, so those that sank can
 * be told from those that have not. */
static void sink(struct planner_ctx *ctx, struct plan *plan)
{
    struct tiresias *own = ctx->state;

    for (;;) {
        const struct job *best = NULL;
        uint32_t best_index = JOB_NONE;

        for (uint32_t i = ctx->vc->run_first; i != JOB_NONE; i = view_job(ctx->view, i)->next) {
            const struct job *job = view_job(ctx->view, i);
            int64_t limit = limit_of(ctx, job);

            if (!limit || position_of(job) >= RUN_END || ran_of(ctx, job) * width_of(ctx, job) < limit)
                continue;
            if (!best || job->spec.submit < best->spec.submit ||
                (job->spec.submit == best->spec.submit && job->spec.id < best->spec.id)) {
                best = job;
                best_index = i;
            }
        }
        if (!best)
            return;
        put(plan, best_index, queue_of(best) + 1, MIDDLE + ++own->kept.tail_last);
    }
}

/* From now until the queue of a running job is looked at: at the whole second after it passes its limit; or late. */
static usec_t timer_of(const struct planner_ctx *ctx, const struct job *job, int64_t limit)
{
    int64_t width = width_of(ctx, job);

    if (ctx->params[P_TIMER] == TIMER_EXACT)
        return (limit + width * USEC_SEC - 1) / (width * USEC_SEC) * USEC_SEC - ran_of(ctx, job);
    return (limit - ran_of(ctx, job)) / USEC_SEC / width * USEC_SEC;
}

static void set_timer(struct planner_ctx *ctx, struct plan *plan)
{
    usec_t at = USEC_NEVER, now = view_now(ctx->view);

    for (uint32_t i = ctx->vc->run_first; i != JOB_NONE; i = view_job(ctx->view, i)->next) {
        const struct job *job = view_job(ctx->view, i);
        int64_t limit = limit_of(ctx, job);
        usec_t jump = limit ? now + timer_of(ctx, job, limit) : now;

        if (jump > now && jump < at)
            at = jump;
    }
    plan_wake(plan, USEC_NEVER);
    plan_wake(plan, at);
}

static void tiresias_plan(struct planner_ctx *ctx, struct plan *plan)
{
    static const int64_t walk_params[] = { MODE_PREEMPT, UNPLACED_PASS };
    struct tiresias *own = ctx->state;
    struct planner_ctx walk = { .view = ctx->view, .vc = ctx->vc, .params = walk_params, .state = &own->walk };

    if (own->kept.planned_at != view_now(ctx->view) + 1) {
        own->kept.planned_at = view_now(ctx->view) + 1;
        assert(own->kept.passes + 1 < PASSES_END);
        own->kept.passes++;
        join_running(ctx, plan);
        sink(ctx, plan);
    }
    planner_list_preempt.plan(&walk, plan);
    set_timer(ctx, plan);
}

const struct planner_ops planner_tiresias_sim = {
    .name = "tiresias-sim",
    .summary = "queues of attained service as the simulator of Tiresias keeps them",
    .params = tiresias_params,
    .state_size = sizeof(struct tiresias),
    .kept_size = sizeof(struct kept),
    .run_order = RUN_BY_KEY,
    .plan = tiresias_plan,
    .queued = tiresias_queued,
};
