/* SPDX-License-Identifier: Apache-2.0 */
/* planner_list.c - walk the order, start what fits. Serves most policies.
 *
 * strict     stop at the first job that does not fit
 * skip       go on past it
 * preempt    walk over running and waiting jobs alike: who fits in what those before it leave, runs; a running job that
 *            no longer fits is stopped (scan with skip)
 *
 * The preemptive walk counts GPUs; whether a chosen job can be placed is seen when it starts. One that cannot is passed
 * over, and a stop that helped nobody is taken back; or, with unplaced=hold, what it was chosen for stays free until it
 * can (as the simulator of Lucid has it).
 *
 * Waiting jobs of one shape are alike to a placement, so only the first of each shape can be the next to start: a step
 * costs the number of shapes, not of jobs.
 *
 * The preemptive walk does not start from the front either. Between two passes keys only fall for running jobs, so what
 * was right stays right: everybody who waits still does not fit in what those before it leave, and running jobs still
 * fit together. Only an arrival, an end or a key that jumped can make somebody wrong. The walk looks for the first who
 * is wrong (a waiting job that fits, or a running one that does not), puts it right, and goes on from there; everything
 * to the left of it is final. "What those before it leave" is one sum in the trees of running jobs.
 *
 * A gang on several types (core/planning/gang_parts.h) fits if each of its parts does, and goes if one of them does
 * not; either way all of it counts, on each type at the gang's place in the order.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "core/contract/plan.h"
#include "core/contract/view.h"
#include "core/planning/gang_parts.h"
#include "policy/list.h"
#include "policy/planner/planner_list.h"

enum { P_MODE, P_UNPLACED };

/* ---- without preemption ---- */

/* Starts the job if there is room for it, getting back what was lent if it is owed room. */
static int try_start(struct plan *plan, uint32_t job)
{
    struct placement to;
    int r = plan_find(plan, plan_shape(plan, job), &to);

    if (r < 0 && r != -EDQUOT && !plan_borrows(plan))
        r = plan_reclaim(plan, job, &to);
    return r < 0 ? r : plan_start(plan, job, &to);
}

static void walk_forward(struct planner_ctx *ctx, struct plan *plan, struct walk *walk, bool strict)
{
    for (;;) {
        uint32_t job = view_first_waiting(ctx->view, ctx->vc, walk->hopeless);

        if (job == TREE_NONE)
            return;
        if (try_start(plan, job) == 0)
            continue;
        if (strict)
            return;
        walk->hopeless[view_job(ctx->view, job)->shape] = true;
    }
}

/* ---- with preemption ---- */

static int64_t changes_before(const struct change *changes, uint32_t count, uint32_t sku, const struct rank *rank)
{
    int64_t sum = 0;

    for (uint32_t i = 0; i < count; i++)
        if (changes[i].sku == sku && rank_before(&changes[i].rank, rank))
            sum += changes[i].amount;
    return sum;
}

static int64_t changes_sum(const struct change *changes, uint32_t count, uint32_t sku)
{
    int64_t sum = 0;

    for (uint32_t i = 0; i < count; i++)
        if (changes[i].sku == sku)
            sum += changes[i].amount;
    return sum;
}

/* What those before `rank` hold of a type, with the changes so far. */
static int64_t held_before(const struct planner_ctx *ctx, const struct walk *walk, uint32_t sku,
                           const struct rank *rank)
{
    return view_running_before(ctx->view, ctx->vc, sku, rank) + changes_before(walk->in, walk->in_count, sku, rank) -
           changes_before(walk->out, walk->out_count, sku, rank);
}

static int64_t held_sum(const struct planner_ctx *ctx, const struct walk *walk, uint32_t sku)
{
    return view_running_sum(ctx->view, ctx->vc, sku) + changes_sum(walk->in, walk->in_count, sku) -
           changes_sum(walk->out, walk->out_count, sku);
}

/* All that this virtual cluster could hold of a type: what its jobs have and what is free for it, or lent. */
static int64_t capacity(const struct planner_ctx *ctx, const struct plan *plan, uint32_t sku, bool lent)
{
    int64_t free = view_free_mgpu(ctx->view, sku) + (lent ? view_lent(ctx->view, ctx->vc, sku) : 0);
    int64_t budget = plan_budget(plan, sku, CLASS_GUARANTEED);

    return view_running_sum(ctx->view, ctx->vc, sku) + (free < budget ? free : budget);
}

/* The first of the types on which so much fits in what those before the rank (NULL: all) leave; SKUS_MAX if there is
 * none. */
static uint32_t fits_on(const struct planner_ctx *ctx, const struct walk *walk, const int64_t *room, uint32_t sku_mask,
                        int64_t amount, const struct rank *rank)
{
    for (uint32_t sku = 0; sku < view_sku_count(ctx->view); sku++)
        if (sku_mask >> sku & 1 && amount <= room[sku] &&
            (rank ? held_before(ctx, walk, sku, rank) : held_sum(ctx, walk, sku)) + amount <= room[sku])
            return sku;
    return SKUS_MAX;
}

/* A waiting job of the shape as so many changes, one for each of its parts, or 0 if one of them does not fit. */
static uint32_t fits(const struct planner_ctx *ctx, const struct walk *walk, const int64_t *room,
                     const struct shape *shape, const struct rank *rank, struct change *ret)
{
    ret->amount = (int64_t)shape->gpus * shape->share;
    ret->sku = (uint16_t)fits_on(ctx, walk, room, shape->sku_mask, ret->amount, rank);
    if (ret->sku == SKUS_MAX)
        return 0;
    for (uint32_t i = 0; i < shape->side_count; i++) {
        const struct gang_side *side = &shape->sides[i];
        struct change *to = &ret[1 + i];

        *to = (struct change){ .job = ret->job, .beside = 1, .amount = (int64_t)side->gpus * MGPU_ONE };
        to->rank = ret->rank;
        to->sku = (uint16_t)fits_on(ctx, walk, room, side->sku_mask, to->amount, rank);
        if (to->sku == SKUS_MAX)
            return 0;
    }
    return 1u + shape->side_count;
}

/* The first waiting job, over all shapes, that fits in what those before it leave; returns of how many parts. Beyond
 * what its virtual cluster is owed a gang on several types stops nobody: what it borrows of one type may be wanted back
 * as soon as somebody was stopped for it on another, and so on in turns. */
static uint32_t next_in(const struct planner_ctx *ctx, const struct plan *plan, const struct walk *walk,
                        const int64_t *room, struct change *ret)
{
    const struct queue *queue = &ctx->vc->queue;
    const struct tree_node *tree = view_tree(ctx->view);
    uint32_t found = 0;

    for (uint32_t i = 0; i < queue->live_count; i++) {
        uint32_t cls = queue->live[i], job, parts;
        const struct shape *shape = &queue->shapes[cls].shape;
        struct change in[1 + SIDES_MAX];

        if (walk->hopeless[cls])
            continue;
        job = walk->passed[cls] ? tree_after(tree, queue->shapes[cls].root, &walk->after[cls])
                                : tree_first(tree, queue->shapes[cls].root);
        if (job == TREE_NONE || (found && rank_before(&ret->rank, &tree[job].rank)))
            continue;
        *in = (struct change){ .job = job, .rank = tree[job].rank };
        parts = fits(ctx, walk, room, shape, shape->side_count && plan_borrows(plan) ? NULL : &in->rank, in);
        if (parts) {
            memcpy(ret, in, parts * sizeof(*in));
            found = parts;
        }
    }
    return found;
}

static bool is_out(const struct walk *walk, uint32_t job)
{
    for (uint32_t i = 0; i < walk->out_count; i++)
        if (walk->out[i].job == job)
            return true;
    return false;
}

/* The first running job of a type that does not fit in what those before it leave, if the type is overfull. Found from
 * the end: as long as the type is overfull even without those passed so far, the one looked for is further left. */
static bool next_out(const struct planner_ctx *ctx, const struct plan *plan, const struct walk *walk, uint32_t sku,
                     int64_t room, struct change *ret)
{
    int64_t held = held_sum(ctx, walk, sku);
    const struct rank *bound = NULL;
    struct rank rank;

    while (held > room) {
        uint32_t job = view_running_last(ctx->view, ctx->vc, sku, bound);
        int64_t amount, chosen;

        if (job == JOB_NONE)
            return false;
        rank = view_rank(ctx->view, job);
        bound = &rank;
        if (is_out(walk, job))
            continue;
        amount = job_amount_on(view_job(ctx->view, job), sku);
        if (!plan_may_stop(plan, job)) {
            /* Started a moment ago with what it was owed, on its way elsewhere, or where nothing is handed out just
             * now: it stays, whoever comes before it by key. */
            held -= amount;
            room -= amount;
            continue;
        }
        /* Jobs chosen in this walk that come after it are held as well, further right. */
        chosen = changes_sum(walk->in, walk->in_count, sku) - changes_before(walk->in, walk->in_count, sku, &rank);
        if (held - chosen - amount <= room && held - chosen > room) {
            *ret = (struct change){ .job = job, .sku = (uint16_t)sku, .amount = amount, .rank = rank };
            return true;
        }
        held -= amount;
    }
    return false;
}

/* A job that goes, with all it has on other types. */
static void walk_out(const struct planner_ctx *ctx, struct walk *walk, const struct change *out)
{
    const struct job *job = view_job(ctx->view, out->job);

    walk->out[walk->out_count++] = *out;
    for (uint32_t i = 0; i <= job->spec.side_count && job->spec.side_count; i++) {
        struct change part = *out;

        part.sku = i ? job->side_sku[i - 1] : job->sku;
        part.amount = job_amount_on(job, part.sku);
        part.beside = 1;
        if (part.sku != out->sku)
            walk->out[walk->out_count++] = part;
    }
}

/* Tells all that are to go to. */
static void stop_all(struct plan *plan, const struct walk *walk)
{
    for (uint32_t i = 0; i < walk->out_count; i++)
        if (!walk->out[i].beside)
            (void)plan_stop(plan, walk->out[i].job, STOP_CHECKPOINT);
}

/* Carries the changes out: stops first, then starts in order; a stop that freed nothing anybody took is taken back,
 * unless it is to stay free for those that found no place. Returns whether a shape turned out to have none. */
static bool walk_apply(const struct planner_ctx *ctx, struct plan *plan, struct walk *walk)
{
    bool hold = ctx->params[P_UNPLACED] == UNPLACED_HOLD, unplaced = false;

    stop_all(plan, walk);
    /* Room was made for one that has no place: nobody behind it may take it before those who gave it up. */
    for (uint32_t i = 0; i < walk->in_count && (hold || !unplaced); i++) {
        uint32_t cls = view_job(ctx->view, walk->in[i].job)->shape;

        if (!walk->in[i].beside && !walk->hopeless[cls] && try_start(plan, walk->in[i].job) < 0)
            walk->hopeless[cls] = unplaced = true;
    }
    for (uint32_t i = 0; i < walk->out_count && !hold; i++)
        if (!walk->out[i].beside)
            (void)plan_keep(plan, walk->out[i].job);
    walk->in_count = walk->out_count = 0;
    return unplaced;
}

/* So many have to go that the list is full: they go now. What those before each of them hold is unchanged by it. */
static void walk_stop(struct plan *plan, struct walk *walk)
{
    stop_all(plan, walk);
    walk->out_count = 0;
}

/* The first running job, over all types, that does not fit in what those before it leave. */
static bool first_out(const struct planner_ctx *ctx, const struct plan *plan, const struct walk *walk,
                      const int64_t *room, struct change *ret)
{
    bool found = false;

    /* As long as nobody was chosen, everybody who runs still fits. */
    for (uint32_t sku = 0; sku < view_sku_count(ctx->view) && walk->in_count; sku++) {
        struct change c;

        if (next_out(ctx, plan, walk, sku, room[sku], &c) && (!found || rank_before(&c.rank, &ret->rank))) {
            *ret = c;
            found = true;
        }
    }
    return found;
}

/* Whether those that are chosen fit beside everybody. */
static bool to_spare(const struct planner_ctx *ctx, const struct walk *walk, const int64_t *room)
{
    for (uint32_t i = 0; i < walk->in_count; i++)
        if (held_sum(ctx, walk, walk->in[i].sku) > room[walk->in[i].sku])
            return false;
    return true;
}

/* One walk over everybody. Returns whether a job was chosen that cannot be placed: others may then fit after all. */
static bool walk_preempting(struct planner_ctx *ctx, struct plan *plan, struct walk *walk, bool lent)
{
    int64_t room[SKUS_MAX];
    bool unplaced = false;

    for (uint32_t sku = 0; sku < view_sku_count(ctx->view); sku++)
        room[sku] = capacity(ctx, plan, sku, lent);
    for (uint32_t i = 0; i < ctx->vc->queue.live_count; i++)
        walk->passed[ctx->vc->queue.live[i]] = false;
    for (;;) {
        struct change in[1 + SIDES_MAX], out;
        uint32_t parts = next_in(ctx, plan, walk, room, in), cls;
        bool any_out = first_out(ctx, plan, walk, room, &out);

        if (!parts && !any_out)
            break;
        if (walk->out_count + view_job(ctx->view, any_out ? out.job : in->job)->spec.side_count >= CHANGES_MAX)
            walk_stop(plan, walk);
        if (walk->in_count + (parts ? parts - 1 : 0) >= CHANGES_MAX) {
            unplaced |= walk_apply(ctx, plan, walk);
            continue;
        }
        if (any_out && (!parts || rank_before(&out.rank, &in->rank))) {
            walk_out(ctx, walk, &out);
            continue;
        }
        cls = view_job(ctx->view, in->job)->shape;
        walk->after[cls] = in->rank;
        walk->passed[cls] = true;
        memcpy(walk->in + walk->in_count, in, parts * sizeof(*in));
        walk->in_count += parts;
        /* Room to spare and nothing pending: no need to gather changes. */
        if (ctx->params[P_UNPLACED] == UNPLACED_PASS && walk->in_count == parts && walk->out_count == 0 &&
            to_spare(ctx, walk, room))
            unplaced |= walk_apply(ctx, plan, walk);
    }
    return walk_apply(ctx, plan, walk) || unplaced;
}

/* Shapes whose turn it is not are given up beforehand. */
static void walk_begin(const struct planner_ctx *ctx, const struct plan *plan, struct walk *walk)
{
    const struct queue *queue = &ctx->vc->queue;

    for (uint32_t i = 0; i < queue->live_count; i++)
        walk->hopeless[queue->live[i]] = !plan_considers(plan, &queue->shapes[queue->live[i]]);
}

static bool anything_lent(const struct planner_ctx *ctx, const struct plan *plan)
{
    for (uint32_t sku = 0; sku < view_sku_count(ctx->view) && !plan_borrows(plan); sku++)
        if (view_lent(ctx->view, ctx->vc, sku) > 0)
            return true;
    return false;
}

static void list_plan(struct planner_ctx *ctx, struct plan *plan)
{
    struct walk *walk = ctx->state;
    int64_t mode = ctx->params[P_MODE];

    walk_begin(ctx, plan, walk);
    if (mode != MODE_PREEMPT || plan_for_guests(plan)) {
        walk_forward(ctx, plan, walk, mode == MODE_STRICT);
        return;
    }
    /* What it is owed and was lent comes back first; then it makes room among its own. At most once a shape: each time
     * one more is given up. */
    if (anything_lent(ctx, plan)) {
        while (walk_preempting(ctx, plan, walk, true))
            ;
        walk_begin(ctx, plan, walk);
    }
    while (walk_preempting(ctx, plan, walk, false) && ctx->params[P_UNPLACED] == UNPLACED_PASS)
        ;
}

static bool list_overtakes(const struct planner_ctx *ctx)
{
    return ctx->params[P_MODE] != MODE_STRICT;
}

static const char *const mode_choices[] = { "strict", "skip", "preempt", NULL };

static const char *const unplaced_choices[] = { "pass", "hold", NULL };

/* Without trees of running jobs there is nobody to stop: only the first two modes. */
static const char *const forward_choices[] = { "strict", "skip", NULL };

static const struct param list_params[] = {
    [P_MODE] = { "mode", "at a job that does not fit: stop, or go on", PARAM_CHOICE, MODE_SKIP, 0, MODE_SKIP,
                 forward_choices },
    { 0 },
};

static const struct param preempt_params[] = {
    [P_MODE] = { "mode", "at a job that does not fit: stop, go on, or make room", PARAM_CHOICE, MODE_SKIP, 0,
                 MODE_PREEMPT, mode_choices },
    [P_UNPLACED] = { "unplaced", "a chosen job without a place: go on, or hold its GPUs free for it", PARAM_CHOICE,
                     UNPLACED_PASS, 0, 1, unplaced_choices },
    { 0 },
};

const struct planner_ops planner_list = {
    .name = "list",
    .summary = "walk the order and start what fits",
    .params = list_params,
    .state_size = sizeof(struct walk),
    .by_rank = true,
    .sides = true,
    .plan = list_plan,
    .overtakes = list_overtakes,
};

const struct planner_ops planner_list_preempt = {
    .name = "list-preempt",
    .summary = "walk the order over running and waiting jobs alike",
    .params = preempt_params,
    .state_size = sizeof(struct walk),
    .run_order = RUN_BY_KEY,
    .sides = true,
    .plan = list_plan,
    .overtakes = list_overtakes,
};
