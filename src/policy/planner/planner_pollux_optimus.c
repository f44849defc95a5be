/* SPDX-License-Identifier: Apache-2.0 */
/* planner_pollux_optimus.c - sizes by marginal gain just as the simulator of Pollux (OSDI'21) has Optimus.
 *
 * For comparing job by job; the correct policy is `optimus`. It is told the truth: the time of a step at each size on
 * the fewest nodes (MEASURE_STEP) and the steps left after the epoch under way (MEASURE_LEFT). Every interval:
 *
 *   each job gets a GPU, in the order of arrival, while there are any;
 *   the others go one by one to the job whose remaining time falls most, the earlier one where they tie;
 *   whoever has another number than before leaves, and all without GPUs are placed, the small ones first and in the
 *   order of arrival: all of the emptiest node, then of the next.
 *
 * Leaving and being placed anew happen at one instant, in two passes: the ordering asks for the second.
 */
#include <errno.h>

#include "core/contract/plan.h"
#include "core/contract/view.h"
#include "model/measure.h"
#include "policy/list.h"
#include "policy/place/place_pick.h"

enum { P_INTERVAL };
enum { W_KEY, W_AGAIN, W_LEFT, W_WANT };
enum { JOBS_MAX = 4096, KINDS_MAX = 256, SIZES_MAX = 64 };

/* Jobs of one model and batch size take the same steps. */
struct kind {
    uint32_t model, batch;
    int64_t step[SIZES_MAX + 1]; /* femtoseconds; 0 = not told */
};

struct pollux_optimus {
    /* kept in snapshots */
    int64_t tail;
    usec_t allocated_at;
    uint32_t kind_count;
    struct kind kinds[KINDS_MAX];
    /* scratch */
    struct candidate {
        uint32_t job, kind;
        int64_t key;
        int32_t gpus, most;
        double gain;
    } candidates[JOBS_MAX];
    uint32_t count;
    uint32_t gpus[SIZES_MAX];
};

static const struct param optimus_params[] = {
    [P_INTERVAL] = { "interval", "time between two allocations", PARAM_TIME, 60 * USEC_SEC, USEC_SEC, USEC_DAY, NULL },
    { 0 },
};

static struct kind *kind_of(struct pollux_optimus *o, const struct job *job, bool add)
{
    for (uint32_t i = 0; i < o->kind_count; i++)
        if (o->kinds[i].model == job->spec.model && o->kinds[i].batch == job->spec.batch)
            return &o->kinds[i];
    if (!add || o->kind_count == KINDS_MAX)
        return NULL;
    o->kinds[o->kind_count] = (struct kind){ .model = job->spec.model, .batch = job->spec.batch };
    return &o->kinds[o->kind_count++];
}

static void optimus_report(struct planner_ctx *ctx, struct plan *plan, uint32_t index, const struct report *report)
{
    struct kind *kind = kind_of(ctx->state, view_job(ctx->view, index), report->kind == MEASURE_STEP);

    if (report->kind == MEASURE_LEFT && report->value[0] > 0)
        plan_word(plan, index, W_LEFT, report->value[0]);
    else if (report->kind == MEASURE_STEP && kind && report->value[0] >= 1 && report->value[0] <= SIZES_MAX &&
             report->value[1] > 0)
        kind->step[report->value[0]] = report->value[1];
}

static void optimus_queued(struct planner_ctx *ctx, struct plan *plan, uint32_t job)
{
    struct pollux_optimus *o = ctx->state;

    if (view_job(ctx->view, job)->word[W_KEY])
        return;
    plan_word(plan, job, W_KEY, ++o->tail);
    plan_rekey(plan, job);
}

/* Keeps them in the order of arrival, or of another number. */
static void insert(struct pollux_optimus *o, struct candidate c)
{
    uint32_t at = o->count;

    if (o->count == JOBS_MAX)
        return;
    for (; at > 0 && o->candidates[at - 1].key > c.key; at--)
        o->candidates[at] = o->candidates[at - 1];
    o->candidates[at] = c;
    o->count++;
}

static void gather(struct planner_ctx *ctx, bool running)
{
    struct pollux_optimus *o = ctx->state;
    const struct queue *queue = &ctx->vc->queue;
    const struct tree_node *tree = view_tree(ctx->view);

    o->count = 0;
    for (uint32_t i = running ? ctx->vc->run_first : JOB_NONE; i != JOB_NONE; i = view_job(ctx->view, i)->next)
        if (view_job(ctx->view, i)->state == JOB_RUNNING)
            insert(o, (struct candidate){ .job = i, .key = view_job(ctx->view, i)->word[W_KEY] });
    for (uint32_t i = 0; i < queue->live_count; i++) {
        uint32_t root = queue->shapes[queue->live[i]].root;

        for (uint32_t job = tree_first(tree, root); job != TREE_NONE; job = tree_after(tree, root, &tree[job].rank))
            insert(o, (struct candidate){ .job = job, .key = view_job(ctx->view, job)->word[W_KEY] });
    }
}

/* What one GPU more would save, in steps times femtoseconds. */
static double gain_of(const struct planner_ctx *ctx, const struct candidate *c)
{
    const struct kind *kind = kind_of(ctx->state, view_job(ctx->view, c->job), false);

    if (!kind || c->gpus + 1 > c->most || !kind->step[c->gpus] || !kind->step[c->gpus + 1])
        return 0;
    return (double)(kind->step[c->gpus] - kind->step[c->gpus + 1]) *
           ((double)view_job(ctx->view, c->job)->word[W_LEFT] / 1e6);
}

static void share_out(struct planner_ctx *ctx, int64_t gpus)
{
    struct pollux_optimus *o = ctx->state;

    for (uint32_t i = 0; i < o->count; i++) {
        struct candidate *c = &o->candidates[i];
        int32_t most = view_job(ctx->view, c->job)->spec.gpus_max;

        c->most = most < SIZES_MAX ? most : SIZES_MAX;
        c->gpus = gpus > 0 ? 1 : 0;
        gpus -= c->gpus;
        c->gain = c->gpus ? gain_of(ctx, c) : 0;
    }
    while (gpus > 0) {
        struct candidate *best = NULL;

        for (uint32_t i = 0; i < o->count; i++)
            if (o->candidates[i].gain > 0 && (!best || o->candidates[i].gain > best->gain))
                best = &o->candidates[i];
        if (!best)
            return;
        best->gpus++;
        best->gain = gain_of(ctx, best);
        gpus--;
    }
}

/* Sets everybody's number; whoever has another leaves. Whether anybody did. */
static bool allocate(struct planner_ctx *ctx, struct plan *plan)
{
    struct pollux_optimus *o = ctx->state;
    bool any = false;

    gather(ctx, true);
    share_out(ctx, view_total(ctx->view, 0));
    for (uint32_t i = 0; i < o->count; i++) {
        const struct candidate *c = &o->candidates[i];

        plan_word(plan, c->job, W_WANT, c->gpus);
        if (view_job(ctx->view, c->job)->gpus == 0 || view_job(ctx->view, c->job)->gpus == c->gpus)
            continue;
        plan_word(plan, c->job, W_AGAIN, view_now(ctx->view) + 1);
        any |= plan_stop(plan, c->job, STOP_CHECKPOINT) == 0;
    }
    return any;
}

/* All of the emptiest node, then of the next. */
static int place(struct planner_ctx *ctx, struct plan *plan, uint32_t job, int32_t need)
{
    struct pollux_optimus *o = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    struct place_ctx out = { .ledger = ledger, .out = o->gpus };
    struct pick pick = { .ctx = &out };
    struct placement to = { o->gpus, (uint32_t)need };

    if (pick_emptiest(&pick, pick_pool(&out, 0), (uint32_t)need) < 0)
        return -EBUSY;
    return plan_start(plan, job, &to);
}

static void place_all(struct planner_ctx *ctx, struct plan *plan)
{
    struct pollux_optimus *o = ctx->state;

    gather(ctx, false);
    for (uint32_t size = 1; size <= SIZES_MAX; size++)
        for (uint32_t i = 0; i < o->count; i++)
            if (view_job(ctx->view, o->candidates[i].job)->word[W_WANT] == size)
                (void)place(ctx, plan, o->candidates[i].job, (int32_t)size);
}

static void optimus_plan(struct planner_ctx *ctx, struct plan *plan)
{
    struct pollux_optimus *o = ctx->state;
    usec_t now = view_now(ctx->view), interval = ctx->params[P_INTERVAL];
    bool left = false;

    if (plan_borrows(plan))
        return;
    if (o->allocated_at != now + 1) {
        o->allocated_at = now + 1;
        left = allocate(ctx, plan);
    }
    if (!left)
        place_all(ctx, plan);
    if (ctx->vc->running || ctx->vc->queue.waiting)
        plan_wake(plan, now - now % interval + interval);
}

const struct planner_ops planner_pollux_optimus = {
    .name = "pollux-optimus",
    .summary = "sizes by true gain as the simulator of Pollux gives them",
    .params = optimus_params,
    .sizes = true,
    .state_size = sizeof(struct pollux_optimus),
    .kept_size = offsetof(struct pollux_optimus, candidates),
    .plan = optimus_plan,
    .queued = optimus_queued,
    .report = optimus_report,
};
