/* SPDX-License-Identifier: Apache-2.0 */
/* planner_backfill.c - first come, first served, with later jobs in the gaps, on what users say their jobs will take.
 *
 * EASY (Lifka 1995): the first job that does not fit gets a reservation at the earliest instant at which enough running
 * jobs will have reached their limits; a later job may start now if it ends by then, or takes only what that
 * reservation leaves over. Conservative: every waiting job, in order, is given the earliest slot that delays nobody
 * before it, and those whose slot is now start; at most `depth` jobs are looked at.
 *
 * A job's limit is its time limit, or its estimate where it has none; a job with neither is taken to run for ever. A
 * job that outlives its limit is taken to end at any moment. Reservations count GPUs of a type, and of each type of a
 * gang on several; whether a shape can be placed is asked when the job starts.
 */
#include <errno.h>
#include <string.h>

#include "core/contract/plan.h"
#include "core/contract/view.h"
#include "core/planning/gang_parts.h"
#include "policy/list.h"

enum { P_DEPTH };
enum { STEPS_MAX = 8192 };

/* Free thousandths of one type from an instant on, until the next step. */
struct step {
    usec_t at;
    int64_t free;
};

struct profile {
    struct step steps[STEPS_MAX];
    uint32_t count;
};

struct backfill {
    struct profile profiles[SKUS_MAX];
    uint32_t cursor[SHAPES_MAX];
    bool hopeless[SHAPES_MAX];
};

static int64_t amount_of(const struct job *job)
{
    return (int64_t)job->gpus * job->spec.share;
}

/* What the virtual cluster may take of a type now: what is free, and what was lent of what it is owed. */
static int64_t room_now(const struct planner_ctx *ctx, const struct plan *plan, uint32_t sku)
{
    int64_t free = view_free_mgpu(ctx->view, sku) + (plan_borrows(plan) ? 0 : view_lent(ctx->view, ctx->vc, sku));
    int64_t budget = plan_budget(plan, sku, CLASS_GUARANTEED);

    return free < budget ? free : budget;
}

static usec_t end_of(const struct planner_ctx *ctx, const struct rank *rank)
{
    usec_t now = view_now(ctx->view);

    return rank->key > now ? (usec_t)rank->key : now + 1;
}

/* Shapes whose turn it is not are given up beforehand. */
static void begin(const struct planner_ctx *ctx, const struct plan *plan, struct backfill *state)
{
    const struct queue *queue = &ctx->vc->queue;

    for (uint32_t i = 0; i < queue->live_count; i++)
        state->hopeless[queue->live[i]] = !plan_considers(plan, &queue->shapes[queue->live[i]]);
}

/* Starts the job if there is room for it, getting back what was lent if it is owed room. */
static int try_start(struct plan *plan, uint32_t job)
{
    struct placement to;
    int r = plan_find(plan, plan_shape(plan, job), &to);

    if (r < 0 && r != -EDQUOT && !plan_borrows(plan))
        r = plan_reclaim(plan, job, &to);
    return r < 0 ? r : plan_start(plan, job, &to);
}

/* Opportunistic jobs delay nobody, for they go when they have to: whoever fits starts. */
static void guests_plan(struct planner_ctx *ctx, struct plan *plan, struct backfill *state)
{
    uint32_t job;

    while ((job = view_first_waiting(ctx->view, ctx->vc, state->hopeless)) != TREE_NONE) {
        uint32_t cls = view_job(ctx->view, job)->shape;

        if (try_start(plan, job) < 0)
            state->hopeless[cls] = true;
    }
}

/* ---- gangs on several types ---- */

/* The types that a part of the shape may be on (0: the first, then its sides), and what it needs there. */
static uint32_t part_of(const struct shape *shape, uint32_t part, int64_t *ret_need)
{
    if (part == 0) {
        *ret_need = (int64_t)shape->gpus * shape->share;
        return shape->sku_mask;
    }
    *ret_need = (int64_t)shape->sides[part - 1].gpus * MGPU_ONE;
    return shape->sides[part - 1].sku_mask;
}

/* The most that a job of the shape may take of a type; its parts have none in common. */
static int64_t takes(const struct shape *shape, uint32_t sku)
{
    int64_t need = 0;

    for (uint32_t part = 0; part <= shape->side_count; part++)
        if (part_of(shape, part, &need) >> sku & 1)
            return need;
    return 0;
}

/* The next running job, from `job` on, that has GPUs of the type on a side: its trees tell of its first part alone. */
static uint32_t next_side(const struct planner_ctx *ctx, uint32_t sku, uint32_t job)
{
    for (; job != JOB_NONE; job = view_job(ctx->view, job)->next) {
        const struct job *j = view_job(ctx->view, job);

        if (j->spec.side_count && j->sku != sku && job_on(j, sku) && j->klass != CLASS_OPPORTUNISTIC &&
            view_shows(ctx->view, job))
            return job;
    }
    return JOB_NONE;
}

static uint32_t first_side(const struct planner_ctx *ctx, uint32_t sku)
{
    return ctx->vc->sided ? next_side(ctx, sku, ctx->vc->run_first) : JOB_NONE;
}

/* ---- EASY ---- */

struct shadow {
    uint32_t sku;
    usec_t at;     /* when the head can start */
    int64_t extra; /* what is left over then */
};

/* Of each part of the head; it starts when all can. */
struct date {
    usec_t at;
    uint32_t count;
    struct shadow parts[1 + SIDES_MAX];
};

/* When enough jobs of one type will have reached their limits for `need`. */
static struct shadow shadow_on(const struct planner_ctx *ctx, const struct plan *plan, uint32_t sku, int64_t need)
{
    struct shadow shadow = { .sku = sku, .at = USEC_NEVER };
    int64_t room = room_now(ctx, plan, sku);
    struct rank rank;

    for (uint32_t job = view_running_next(ctx->view, ctx->vc, sku, NULL); job != JOB_NONE;
         job = view_running_next(ctx->view, ctx->vc, sku, &rank)) {
        rank = view_tree(ctx->view)[job].rank;
        if (room >= need && (shadow.at == USEC_NEVER || end_of(ctx, &rank) != shadow.at))
            break; /* those that end with the last one needed leave their GPUs over */
        room += amount_of(view_job(ctx->view, job));
        shadow.at = end_of(ctx, &rank);
    }
    /* What others have on a side is there when the last of them has ended. */
    for (uint32_t job = room < need ? first_side(ctx, sku) : JOB_NONE; job != JOB_NONE;
         job = next_side(ctx, sku, view_job(ctx->view, job)->next)) {
        usec_t end = end_of(ctx, &view_tree(ctx->view)[job].rank);

        room += job_amount_on(view_job(ctx->view, job), sku);
        shadow.at = shadow.at == USEC_NEVER || end > shadow.at ? end : shadow.at;
    }
    if (room < need)
        shadow.at = USEC_NEVER;
    shadow.extra = room > need ? room - need : 0;
    return shadow;
}

/* A part of the head on the type where it has room first. */
static struct shadow shadow_part(const struct planner_ctx *ctx, const struct plan *plan, const struct shape *shape,
                                 uint32_t part)
{
    struct shadow best = { .at = USEC_NEVER, .sku = SKUS_MAX };
    int64_t need;
    uint32_t mask = part_of(shape, part, &need);

    for (uint32_t sku = 0; sku < view_sku_count(ctx->view); sku++) {
        struct shadow here;

        if (!(mask >> sku & 1))
            continue;
        here = shadow_on(ctx, plan, sku, need);
        if (shape->side_count && room_now(ctx, plan, sku) >= need)
            here.at = view_now(ctx->view); /* it is another part that lacks room */
        if (best.sku == SKUS_MAX || here.at < best.at)
            best = here;
    }
    return best;
}

/* What a part that has room before the head can start leaves over then. */
static int64_t extra_at(const struct planner_ctx *ctx, const struct plan *plan, uint32_t sku, int64_t need, usec_t at)
{
    int64_t room = room_now(ctx, plan, sku);
    struct rank rank;

    for (uint32_t job = view_running_next(ctx->view, ctx->vc, sku, NULL); job != JOB_NONE;
         job = view_running_next(ctx->view, ctx->vc, sku, &rank)) {
        rank = view_tree(ctx->view)[job].rank;
        if (end_of(ctx, &rank) > at)
            break;
        room += amount_of(view_job(ctx->view, job));
    }
    return room > need ? room - need : 0;
}

static struct date date_of(const struct planner_ctx *ctx, const struct plan *plan, uint32_t head)
{
    const struct shape *shape = &ctx->vc->queue.shapes[view_job(ctx->view, head)->shape].shape;
    struct date date = { .count = 1u + shape->side_count };

    for (uint32_t part = 0; part < date.count; part++) {
        date.parts[part] = shadow_part(ctx, plan, shape, part);
        date.at = date.parts[part].at > date.at ? date.parts[part].at : date.at;
    }
    if (date.at <= view_now(ctx->view))
        date.at = USEC_NEVER; /* room for all, but not as the shape wants it: nobody can say when */
    for (uint32_t part = 0; part < date.count && date.at != USEC_NEVER; part++)
        if (date.parts[part].at < date.at) {
            int64_t need;

            (void)part_of(shape, part, &need);
            date.parts[part].extra = extra_at(ctx, plan, date.parts[part].sku, need, date.at);
        }
    return date;
}

/* Whether a job of the shape leaves the head what it needs, however long it runs. */
static bool fits_beside(const struct shape *shape, const struct date *date)
{
    for (uint32_t part = 0; part < date->count; part++)
        if (takes(shape, date->parts[part].sku) > date->parts[part].extra)
            return false;
    return true;
}

/* The first job after the head that may start now without delaying it. */
static uint32_t easy_candidate(const struct planner_ctx *ctx, const struct backfill *state, const struct date *date,
                               uint32_t head)
{
    const struct queue *queue = &ctx->vc->queue;
    const struct tree_node *tree = view_tree(ctx->view);
    usec_t window = date->at == USEC_NEVER ? USEC_NEVER - 1 : date->at - view_now(ctx->view);
    uint32_t best = TREE_NONE;

    for (uint32_t i = 0; i < queue->live_count; i++) {
        uint32_t cls = queue->live[i], job;
        bool beside;

        if (state->hopeless[cls] || cls == view_job(ctx->view, head)->shape)
            continue;
        beside = fits_beside(&queue->shapes[cls].shape, date);
        job = beside ? tree_first(tree, queue->shapes[cls].root)
                     : tree_first_aux(tree, queue->shapes[cls].root, NULL, window);
        if (job != TREE_NONE && (best == TREE_NONE || rank_before(&tree[job].rank, &tree[best].rank)))
            best = job;
    }
    return best;
}

static void easy_plan(struct planner_ctx *ctx, struct plan *plan)
{
    struct backfill *state = ctx->state;
    struct date date;
    uint32_t head, job;

    begin(ctx, plan, state);
    if (plan_for_guests(plan)) {
        guests_plan(ctx, plan, state);
        return;
    }
    while ((head = view_first_waiting(ctx->view, ctx->vc, state->hopeless)) != TREE_NONE)
        if (try_start(plan, head) < 0)
            break;
    if (head == TREE_NONE)
        return;
    date = date_of(ctx, plan, head);
    while ((job = easy_candidate(ctx, state, &date, head)) != TREE_NONE) {
        uint32_t cls = view_job(ctx->view, job)->shape;
        int64_t span = view_tree(ctx->view)[job].aux;

        if (try_start(plan, job) < 0) {
            state->hopeless[cls] = true;
            continue;
        }
        for (uint32_t part = 0; part < date.count; part++)
            if (date.at != USEC_NEVER && span > date.at - view_now(ctx->view))
                date.parts[part].extra -= job_amount_on(view_job(ctx->view, job), date.parts[part].sku);
    }
}

/* ---- conservative ---- */

/* The step in force at `at`, made if there is none that begins there. Returns its index, or STEPS_MAX when full. */
static uint32_t profile_cut(struct profile *p, usec_t at)
{
    uint32_t low = 0, high = p->count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (p->steps[middle].at <= at)
            low = middle + 1;
        else
            high = middle;
    }
    if (p->steps[low - 1].at == at)
        return low - 1;
    if (p->count == STEPS_MAX)
        return STEPS_MAX;
    memmove(&p->steps[low + 1], &p->steps[low], (p->count - low) * sizeof(*p->steps));
    p->steps[low] = (struct step){ at, p->steps[low - 1].free };
    p->count++;
    return low;
}

/* Adds `amount` (may be below 0) from `from` until `to`. */
static void profile_add(struct profile *p, usec_t from, usec_t to, int64_t amount)
{
    uint32_t first = profile_cut(p, from);
    uint32_t end = to == USEC_NEVER ? p->count : profile_cut(p, to);

    if (first == STEPS_MAX || end == STEPS_MAX)
        return; /* full: an end that is left out makes later slots seem busier than they are, never freer */
    for (uint32_t i = first; i < end; i++)
        p->steps[i].free += amount;
}

/* The earliest instant, not before `least`, from which `need` stays free for `span`. */
static usec_t profile_slot(const struct profile *p, int64_t need, usec_t span, usec_t least)
{
    uint32_t i = 0;

    while (i < p->count) {
        usec_t from = p->steps[i].at > least ? p->steps[i].at : least;
        usec_t end = span >= USEC_NEVER - from ? USEC_NEVER : from + span;
        uint32_t k = i;

        if (i + 1 < p->count && p->steps[i + 1].at <= from) {
            i++;
            continue;
        }
        while (k < p->count && p->steps[k].at < end && p->steps[k].free >= need)
            k++;
        if (k == p->count || p->steps[k].at >= end)
            return from;
        i = k + 1;
    }
    return USEC_NEVER;
}

static void profile_build(const struct planner_ctx *ctx, const struct plan *plan, uint32_t sku, struct profile *p)
{
    struct rank rank;

    p->count = 1;
    p->steps[0] = (struct step){ view_now(ctx->view), room_now(ctx, plan, sku) };
    for (uint32_t job = view_running_next(ctx->view, ctx->vc, sku, NULL); job != JOB_NONE && p->count < STEPS_MAX / 2;
         job = view_running_next(ctx->view, ctx->vc, sku, &rank)) {
        rank = view_tree(ctx->view)[job].rank;
        if (rank.key >= USEC_NEVER)
            break;
        profile_add(p, end_of(ctx, &rank), USEC_NEVER, amount_of(view_job(ctx->view, job)));
    }
    for (uint32_t job = first_side(ctx, sku); job != JOB_NONE && p->count < STEPS_MAX / 2;
         job = next_side(ctx, sku, view_job(ctx->view, job)->next)) {
        rank = view_tree(ctx->view)[job].rank;
        if (rank.key < USEC_NEVER)
            profile_add(p, end_of(ctx, &rank), USEC_NEVER, job_amount_on(view_job(ctx->view, job), sku));
    }
}

/* The type on which a part has a slot first, not before `least`. */
static uint32_t part_slot(const struct planner_ctx *ctx, const struct backfill *state, const struct shape *shape,
                          uint32_t part, int64_t span, usec_t *at)
{
    usec_t least = *at;
    uint32_t best = 0;
    int64_t need;
    uint32_t mask = part_of(shape, part, &need);

    *at = USEC_NEVER;
    for (uint32_t sku = 0; sku < view_sku_count(ctx->view); sku++)
        if (mask >> sku & 1) {
            usec_t here = profile_slot(&state->profiles[sku], need, span, least);

            if (here < *at) {
                *at = here;
                best = sku;
            }
        }
    return best;
}

enum { SLOT_TRIES = 64 };

/* The earliest slot of all parts of a job together, and their types. One that is not found soon has none. */
static usec_t best_slot(const struct planner_ctx *ctx, const struct backfill *state, const struct shape *shape,
                        int64_t span, uint32_t *skus)
{
    usec_t at = view_now(ctx->view);

    for (int tries = 0; tries < SLOT_TRIES; tries++) {
        usec_t first = at;

        for (uint32_t part = 0; part <= shape->side_count && at != USEC_NEVER; part++)
            skus[part] = part_slot(ctx, state, shape, part, span, &at);
        if (at == first || at == USEC_NEVER || shape->side_count == 0)
            return at;
    }
    return USEC_NEVER;
}

/* Every waiting job in order, one a call: the shapes' lists merged. state->cursor holds the next of each shape. */
static uint32_t take_waiting(const struct planner_ctx *ctx, struct backfill *state)
{
    const struct queue *queue = &ctx->vc->queue;
    const struct tree_node *tree = view_tree(ctx->view);
    uint32_t best = TREE_NONE, from = 0;

    for (uint32_t i = 0; i < queue->live_count; i++) {
        uint32_t job = state->cursor[queue->live[i]];

        if (job == TREE_NONE || (best != TREE_NONE && !rank_before(&tree[job].rank, &tree[best].rank)))
            continue;
        best = job;
        from = queue->live[i];
    }
    if (best != TREE_NONE)
        state->cursor[from] = tree_after(tree, queue->shapes[from].root, &tree[best].rank);
    return best;
}

/* Whether a slot may begin now: all there is to decide, for later ones are found anew when their time comes. */
static bool profiles_open(const struct planner_ctx *ctx, const struct backfill *state)
{
    for (uint32_t sku = 0; sku < view_sku_count(ctx->view); sku++)
        if (state->profiles[sku].steps[0].free > 0)
            return true;
    return false;
}

static bool conservative_begin(const struct planner_ctx *ctx, const struct plan *plan, struct backfill *state)
{
    const struct queue *queue = &ctx->vc->queue;
    bool any = false;

    for (uint32_t sku = 0; sku < view_sku_count(ctx->view); sku++)
        any |= room_now(ctx, plan, sku) > 0;
    if (!any)
        return false;
    for (uint32_t sku = 0; sku < view_sku_count(ctx->view); sku++)
        profile_build(ctx, plan, sku, &state->profiles[sku]);
    for (uint32_t i = 0; i < queue->live_count; i++)
        state->cursor[queue->live[i]] = state->hopeless[queue->live[i]]
                                            ? TREE_NONE
                                            : tree_first(view_tree(ctx->view), queue->shapes[queue->live[i]].root);
    return true;
}

/* The job has its slot: nobody behind it can have that. */
static void slots_take(struct backfill *state, const struct shape *shape, const uint32_t *skus, usec_t at, int64_t span)
{
    for (uint32_t part = 0; part <= shape->side_count; part++) {
        int64_t need;

        (void)part_of(shape, part, &need);
        profile_add(&state->profiles[skus[part]], at, span >= USEC_NEVER - at ? USEC_NEVER : at + span, -need);
    }
}

static void conservative_plan(struct planner_ctx *ctx, struct plan *plan)
{
    struct backfill *state = ctx->state;

    begin(ctx, plan, state);
    if (plan_for_guests(plan)) {
        guests_plan(ctx, plan, state);
        return;
    }
    if (!conservative_begin(ctx, plan, state))
        return;
    for (int64_t i = 0; i < ctx->params[P_DEPTH] && profiles_open(ctx, state); i++) {
        uint32_t index = take_waiting(ctx, state), skus[1 + SIDES_MAX];
        const struct job *job = index == TREE_NONE ? NULL : view_job(ctx->view, index);
        struct shape shape;
        int64_t span;
        usec_t at;

        if (!job)
            return;
        span = view_tree(ctx->view)[index].aux;
        shape = ctx->vc->queue.shapes[job->shape].shape; /* which is gone when its last job starts */
        at = best_slot(ctx, state, &shape, span, skus);
        if (at == USEC_NEVER)
            continue;
        if (at == view_now(ctx->view) && try_start(plan, index) == 0)
            for (uint32_t part = 0; part <= shape.side_count; part++)
                skus[part] = part ? job->side_sku[part - 1] : job->sku;
        slots_take(state, &shape, skus, at, span);
    }
}

static const struct param conservative_params[] = {
    [P_DEPTH] = { "depth", "waiting jobs that are given a slot", PARAM_COUNTER, 200, 1, 2000, NULL },
    { 0 },
};

const struct planner_ops planner_backfill_easy = {
    .name = "backfill-easy",
    .summary = "later jobs may start if the first in line is not delayed",
    .state_size = sizeof(struct backfill),
    .run_order = RUN_BY_END,
    .by_rank = true,
    .sides = true,
    .plan = easy_plan,
};

const struct planner_ops planner_backfill_conservative = {
    .name = "backfill-conservative",
    .summary = "later jobs may start if nobody before them is delayed",
    .params = conservative_params,
    .state_size = sizeof(struct backfill),
    .run_order = RUN_BY_END,
    .by_rank = true,
    .sides = true,
    .plan = conservative_plan,
};
