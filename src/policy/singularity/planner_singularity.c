/* SPDX-License-Identifier: Apache-2.0 */
/* planner_singularity.c - service tiers over elastic jobs that never notice (Singularity, Shukla et al., 2022).
 *
 * Premium and standard jobs are promised a part of their GPUs' time in every window; basic jobs use what is left. A job
 * can run on fewer GPUs than it has workers (splice.h), be stopped and go on, without losing work; so capacity is moved
 * to where a promise needs it. The publication says little of how; the rules are ours:
 *
 *   1  a promised job whose slack has fallen to `guard` must run with all its GPUs: they are taken from basic jobs,
 * then from promised ones with more slack 2  promised jobs that wait start with all their GPUs, taken from basic jobs;
 * where that is not enough a premium job takes from standard ones, and a standard one shares with other standard ones:
 * it starts smaller, and nobody is brought below the part that it gets 3  promised jobs below their size grow, those
 * with the smallest part first 4  basic jobs: everybody who waits gets its least size in order of arrival, then they
 * grow in that order
 *
 * Within a tier sizes are brought together rather than filled up one after the other. Where all that may be promised is
 * promised, standard jobs that are filled up in turn leave others with hardly anything until their slack is gone, all
 * at the same time, and then there is not enough for all of them (docs/policies/singularity.md counts an example).
 *
 * A job that waits to grow has its GPUs earmarked until those who had them have left. Jobs that were resized are let
 * alone for `rest`, unless a promise is at stake.
 */
#include <errno.h>

#include "model/splice.h"
#include "policy/list.h"
#include "policy/singularity/singularity.h"

#define SAVE_EARLY 8 /* by up to this part of the time between two */
#define LOOK_AGAIN USEC_SEC
#define RESTS_IN_VAIN 5 /* until room is made again for a job that could not use it */

static usec_t earlier(usec_t a, usec_t b)
{
    return a < b ? a : b;
}

/* ---- what there is ---- */

static void add_item(struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    struct singularity *s = ctx->state;
    const struct job *job = view_job(ctx->view, index);
    struct item *item;

    if (s->item_count == ITEMS_MAX)
        return;
    if (floor_promised(job))
        floor_roll(ctx, plan, index);
    item = &s->items[s->item_count++];
    *item = (struct item){ .job = index,
                           .at = job,
                           .home = job->gpus > 0 ? home_of(ctx, index) : (int32_t)job->word[WORD_HOME] - 1,
                           .gpus = job->gpus,
                           .world = job->spec.gpus,
                           .tier = job->tier,
                           .idle = job->state == JOB_RUNNING && !job->planned && !job->sheds };
    floor_left(ctx, job, &item->slack, &item->spare);
}

/* Jobs that hold GPUs, and promised ones that wait; those come first in the queue. */
static void gather(struct planner_ctx *ctx, struct plan *plan)
{
    struct singularity *s = ctx->state;
    const struct queue *queue = &ctx->vc->queue;
    const struct tree_node *tree = view_tree(ctx->view);

    s->item_count = 0;
    s->vain.need = 0;
    s->soon = s->taken = false;
    /* What was earmarked when that was given out which is owed stays so when the rest is lent in the same pass; inside
     * a guarantee GPUs have other numbers. */
    if (!plan_borrows(plan) || s->pass != view_pass(ctx->view) || ctx->vc->own) {
        for (uint32_t h = 0; h < home_count(ctx); h++)
            s->earmarked[h] = 0;
        stand_forget(ctx);
    }
    s->pass = view_pass(ctx->view);
    for (uint32_t i = ctx->vc->run_first; i != JOB_NONE;) {
        const struct job *job = view_job(ctx->view, i);

        if (job->word[WORD_HOME] == 0)
            floor_admit(ctx, plan, i);
        if (job->spec.share == MGPU_ONE && view_shows(ctx->view, i) && view_owner(ctx->view, i))
            add_item(ctx, plan, i);
        i = job->next;
    }
    for (uint32_t k = 0; k < queue->live_count; k++) {
        uint32_t root = queue->shapes[queue->live[k]].root;

        for (uint32_t i = tree_first(tree, root); i != TREE_NONE && view_job(ctx->view, i)->tier != TIER_BASIC;
             i = tree_after(tree, root, &tree[i].rank))
            if (floor_promised(view_job(ctx->view, i)))
                add_item(ctx, plan, i);
    }
}

/* ---- giving ---- */

int stand_start(struct planner_ctx *ctx, struct plan *plan, struct item *item, int32_t gpus)
{
    struct singularity *s = ctx->state;
    const struct jobspec *spec = &item->at->spec;
    struct placement to;
    int r;

    if (job_plain(item->at))
        r = stand_find(ctx, spec, item->home, gpus, &to);
    else /* as the core finds it, or not at all */
        r = plan_find(plan, plan_shape(plan, item->job), &to);
    if (r == 0)
        r = plan_start(plan, item->job, &to);
    if (r < 0)
        return r;
    s->vain.need = 0;
    s->starts_spliced += gpus < item->world;
    item->gpus = gpus;
    item->done = true;
    return 0;
}

/* The job gets larger, now or as soon as those who have its GPUs have left them. */
int stand_grow(struct planner_ctx *ctx, struct plan *plan, struct item *item, int32_t gpus)
{
    struct singularity *s = ctx->state;
    struct placement to;
    int r = stand_more(ctx, item->job, gpus, false, &to);

    if (r < 0 && stand_more(ctx, item->job, gpus, true, &to) == 0) {
        stand_keep(ctx, &to);
        s->earmarked[item->home] += gpus - item->gpus;
        s->soon |= s->taken;
        item->done = true;
        return 0;
    }
    if (r == 0)
        r = plan_splice(plan, item->job, &to);
    if (r < 0)
        return r;
    s->vain.need = 0;
    s->grows++;
    item->gpus = gpus;
    item->idle = false;
    item->done = true;
    return 0;
}

/* GPUs of a type that the virtual cluster holds beyond what it is owed: as many must go before anything is gained. */
static int32_t beyond(const struct planner_ctx *ctx, uint32_t sku)
{
    int64_t over = ctx->vc->used[sku] - ctx->vc->lent[sku] - ctx->vc->quota[sku];

    return over > 0 ? (int32_t)((over + MGPU_ONE - 1) / MGPU_ONE) : 0;
}

/* What is made smaller for somebody stays so in this pass, even if that was of no use: GPUs were left where the job
 * cannot stand. It is not tried again for a while, or the two would change sizes by turns for ever. */
static bool may_ask(const struct planner_ctx *ctx, struct plan *plan, const struct item *item)
{
    return view_now(ctx->view) >= *plan_words(ctx, plan, item->job);
}

static void note_try(struct planner_ctx *ctx, struct plan *plan, const struct item *item, bool in_vain)
{
    struct singularity *s = ctx->state;
    usec_t pause = RESTS_IN_VAIN * (ctx->params[P_REST] > USEC_MIN ? ctx->params[P_REST] : USEC_MIN);

    s->in_vain += in_vain;
    *plan_words(ctx, plan, item->job) = in_vain ? view_now(ctx->view) + pause : 0;
}

/* The largest size above what it has for which there is, or can be made, room. `fair`: promised jobs are not brought
 * below the part it would have. */
static bool enlarge(struct planner_ctx *ctx, struct plan *plan, struct item *item, struct reclaim_rules rules,
                    bool fair)
{
    struct singularity *s = ctx->state;
    const struct job *job = item->at;
    int32_t least = item->gpus;

    /* A step on the way costs as much as the last one: close to the guard it would use up what is left. */
    if (item->gpus > 0 && item->spare > ctx->params[P_GUARD] &&
        item->spare <= ctx->params[P_GUARD] + ctx->params[P_OUTAGE])
        least = item->world - 1;
    for (int32_t n = item->world; n > least; n = size_fit(ctx, &job->spec, n - 1)) {
        int32_t more = n - item->gpus, need[2] = { more, more - home_room(ctx, plan, item->home, job->klass) };
        int64_t shrinks = s->shrinks;
        int r;

        rules.floor_gpus = fair ? n : 0;
        rules.floor_world = fair ? item->world : 0;
        s->stopped_count = 0;
        s->taken = false;
        if (need[1] > 0)
            need[1] += beyond(ctx, home_sku(ctx, item->home));
        r = need[1] <= 0 || may_ask(ctx, plan, item) ? take_room(ctx, plan, item, need, &rules) : -EBUSY;
        if (r == 0)
            r = item->gpus > 0 ? stand_grow(ctx, plan, item, n) : stand_start(ctx, plan, item, n);
        if (r == -EAGAIN) { /* in the next pass; until then nobody else has them */
            s->earmarked[item->home] += more;
            s->soon |= s->taken;
            item->done = true;
        }
        if (r == 0 || r == -EAGAIN) {
            note_try(ctx, plan, item, false);
            s->taken = false;
            return true;
        }
        take_back(ctx, plan);
        if (s->shrinks != shrinks)
            note_try(ctx, plan, item, true);
    }
    s->taken = false;
    return false;
}

/* ---- the four rules ---- */

static bool before_in(const struct item *a, const struct item *b, bool by_part)
{
    const struct jobspec *x = &a->at->spec, *y = &b->at->spec;
    int64_t part = (int64_t)a->gpus * b->world - (int64_t)b->gpus * a->world;

    if (a->tier != b->tier)
        return a->tier < b->tier;
    if (by_part && part != 0)
        return part < 0;
    if (a->slack != b->slack)
        return a->slack < b->slack;
    return x->submit != y->submit ? x->submit < y->submit : x->id < y->id;
}

/* Numbers of items into s->order, sorted. */
void order_sort(struct planner_ctx *ctx, uint32_t count, bool by_part)
{
    struct singularity *s = ctx->state;

    for (uint32_t gap = count / 2; gap; gap /= 2)
        for (uint32_t i = gap; i < count; i++) {
            uint32_t moved = s->order[i], at = i;

            for (; at >= gap && before_in(&s->items[moved], &s->items[s->order[at - gap]], by_part); at -= gap)
                s->order[at] = s->order[at - gap];
            s->order[at] = moved;
        }
}

static bool has_turn(const struct planner_ctx *ctx, const struct item *item, enum turn turn)
{
    const struct job *job = item->at;

    if (item->tier == TIER_BASIC || item->done || item->gpus >= item->world || (item->gpus > 0 && !item->idle))
        return false;
    switch (turn) {
    case TURN_ALARM:
        return item->spare <= ctx->params[P_GUARD];
    case TURN_ARRIVAL:
        return item->gpus == 0;
    case TURN_GROW:
        return item->gpus > 0 && rested(ctx, job);
    }
    return false;
}

/* What a job of the tier may take from whom. */
static struct reclaim_rules rules_of(const struct planner_ctx *ctx, const struct item *item, enum turn turn)
{
    struct reclaim_rules rules = { .outage = 2 * ctx->params[P_OUTAGE] + ctx->params[P_GUARD], .lowest = TIER_BASIC };

    if (turn == TURN_ALARM) {
        rules.outage = ctx->params[P_OUTAGE] + ctx->params[P_GUARD];
        rules.lowest = item->tier;
        rules.stops = true;
    } else if (item->tier == TIER_PREMIUM) {
        rules.lowest = TIER_STANDARD;
        rules.stops = turn == TURN_ARRIVAL;
    } else if (turn == TURN_ARRIVAL) {
        rules.lowest = TIER_STANDARD;
    }
    return rules;
}

/* With all its GPUs where nothing was promised to it, as long as there is nothing where it was. */
static void start_elsewhere(struct planner_ctx *ctx, struct plan *plan, struct item *item)
{
    const struct job *job = item->at;
    uint32_t types = ctx->vc->queue.shapes[job->shape].shape.sku_mask;
    int32_t own = item->home;

    for (int32_t home = 0; item->gpus == 0 && home < (int32_t)home_count(ctx); home++) {
        item->home = home;
        if (home != own && types >> home_sku(ctx, home) & 1 && home_room(ctx, plan, home, job->klass) >= item->world)
            (void)stand_start(ctx, plan, item, item->world);
    }
    if (item->gpus == 0)
        item->home = own;
}

static void promised(struct planner_ctx *ctx, struct plan *plan, enum turn turn)
{
    struct singularity *s = ctx->state;
    uint32_t count = 0;

    for (uint32_t i = 0; i < s->item_count; i++)
        if (has_turn(ctx, &s->items[i], turn))
            s->order[count++] = i;
    order_sort(ctx, count, turn == TURN_GROW);
    for (uint32_t i = 0; i < count; i++) {
        struct item *item = &s->items[s->order[i]];

        if (!has_turn(ctx, item, turn))
            continue; /* it has had to give meanwhile */
        s->alarms += turn == TURN_ALARM;
        if (!enlarge(ctx, plan, item, rules_of(ctx, item, turn), turn == TURN_ARRIVAL && item->tier == TIER_STANDARD) &&
            item->gpus == 0)
            start_elsewhere(ctx, plan, item);
    }
}

/* ---- between passes ---- */

/* Checkpoints against crashes: when the job's next is due. A little early where there is a pass anyway, else most
 * passes would be for that alone. */
static usec_t save(struct planner_ctx *ctx, struct plan *plan, const struct item *item)
{
    struct singularity *s = ctx->state;
    const struct job *job = item->at;
    usec_t every = ctx->params[P_SAVE], now = view_now(ctx->view);
    usec_t saved = job->word[WORD_SAVED] > settled_since(job) ? job->word[WORD_SAVED] : settled_since(job);

    if (!every || !job_holds(job->state))
        return USEC_NEVER;
    if (item->idle && !job->planned && now - saved >= every - every / SAVE_EARLY) {
        plan_save(plan, item->job);
        plan_word(plan, item->job, WORD_SAVED, saved = now);
        s->saves++;
    }
    return saved + every > now ? saved + every : USEC_NEVER;
}

/* Whether somebody is without what it was promised, to whom others may have something to give when their windows begin
 * anew: a standard job that waits is given what others can do without only, one that was stopped none of it. */
enum unmet { UNMET_NONE, UNMET_SHRINKS, UNMET_STOPS };

static enum unmet unmet(const struct planner_ctx *ctx)
{
    const struct singularity *s = ctx->state;
    enum unmet found = UNMET_NONE;

    for (uint32_t i = 0; i < s->item_count; i++) {
        const struct item *item = &s->items[i];

        if (item->tier == TIER_BASIC || item->gpus >= item->world)
            continue;
        if (item->slack <= ctx->params[P_GUARD] || (item->gpus == 0 && item->tier == TIER_PREMIUM))
            return UNMET_STOPS;
        if (item->gpus == 0)
            found = UNMET_SHRINKS;
    }
    return found;
}

/* When a promise is to be looked at. Whoever has all its GPUs needs nobody to. */
static usec_t promise_due(const struct planner_ctx *ctx, const struct item *item, enum unmet others)
{
    const struct job *job = item->at;
    usec_t alarm = tier_alarm(item->slack, ctx->params[P_GUARD], job->gpus, item->world), next = USEC_NEVER;

    if (!item->idle || job->gpus < item->world || others == UNMET_STOPS || (others == UNMET_SHRINKS && item->world > 1))
        next = job->word[WORD_BEGIN] + ctx->params[P_WINDOW];
    if (alarm > 0 && alarm != USEC_NEVER)
        next = earlier(next, view_now(ctx->view) + alarm);
    else if (alarm == 0 && job->gpus < item->world && job_holds(job->state) && !item->idle)
        next = earlier(next, view_now(ctx->view) + LOOK_AGAIN); /* its turn is when it runs again */
    return next;
}

/* The next instant at which something is to be looked at. */
static void look_ahead(struct planner_ctx *ctx, struct plan *plan)
{
    const struct singularity *s = ctx->state;
    usec_t now = view_now(ctx->view), next = USEC_NEVER;
    enum unmet others = unmet(ctx);

    for (uint32_t i = 0; i < s->item_count; i++) {
        const struct item *item = &s->items[i];
        const struct job *job = item->at;

        next = earlier(next, save(ctx, plan, item));
        if (floor_promised(job))
            next = earlier(next, promise_due(ctx, item, others));
        if (*plan_words(ctx, plan, item->job) > now)
            next = earlier(next, *plan_words(ctx, plan, item->job));
        if (others && item->tier == TIER_BASIC && job_holds(job->state) && now - job->last_start < YOUNG)
            next = earlier(next, job->last_start + YOUNG);
        if (job_holds(job->state) && job->gpus < item->world && !rested(ctx, job))
            next = earlier(next, settled_since(job) + ctx->params[P_REST]);
    }
    if (s->soon) /* who is told to leave may do so at this very instant, and that alone brings no other pass */
        next = now + 1;
    if (next != USEC_NEVER)
        plan_wake(plan, next > now ? next : now + 1);
}

static void singularity_plan(struct planner_ctx *ctx, struct plan *plan)
{
    if (plan_borrows(plan)) {
        gather(ctx, plan);
        if (!plan_for_guests(plan))
            promised(ctx, plan, TURN_ARRIVAL);
        basics_start(ctx, plan);
        return;
    }
    floor_upgrade(ctx, plan);
    gather(ctx, plan);
    for (enum turn turn = TURN_ALARM; turn <= TURN_GROW; turn++)
        promised(ctx, plan, turn);
    basics_start(ctx, plan);
    basics_grow(ctx, plan);
    look_ahead(ctx, plan);
}

static void singularity_queued(struct planner_ctx *ctx, struct plan *plan, uint32_t job)
{
    floor_admit(ctx, plan, job);
}

static void singularity_ended(struct planner_ctx *ctx, struct plan *plan, uint32_t job)
{
    (void)plan;
    floor_release(ctx, job);
}

/* A job that fits no region whole would wait for ever. */
static int singularity_check(struct planner_ctx *ctx, const struct jobspec *spec, struct error *err)
{
    uint32_t most = 0;

    for (int32_t home = 0; home < (int32_t)home_count(ctx); home++) {
        const struct pool *pool = home_pool(ctx, home);

        if (pool && pool->total > most)
            most = pool->total;
    }
    if (size_least(ctx, spec) <= (int32_t)most || most == 0)
        return 0;
    return error_set(err, -ERANGE, "job %lld needs %d GPUs at least; no region has more than %u [Infeasible.Region]",
                     (long long)spec->id, size_least(ctx, spec), most);
}

static const struct param singularity_params[] = {
    [P_WINDOW] = { "window", "in each of which the promises of tiers are kept", PARAM_TIME, USEC_HOUR, USEC_MIN,
                   USEC_DAY, NULL },
    [P_PREMIUM] = { "premium", "part of its GPUs' time a premium job is promised", PARAM_RATIO, 950000, 1, PPM_ONE,
                    NULL },
    [P_STANDARD] = { "standard", "the same of a standard job", PARAM_RATIO, 700000, 1, PPM_ONE, NULL },
    [P_LOAD] = { "promise", "part of the capacity that may be promised", PARAM_RATIO, 950000, 0, PPM_ONE, NULL },
    [P_GUARD] = { "guard", "slack at which a promised job must have all its GPUs", PARAM_TIME, 60 * USEC_SEC, 0,
                  USEC_HOUR, NULL },
    [P_OUTAGE] = { "outage", "expected time that stopping or resizing a job costs it; none is touched with less slack",
                   PARAM_TIME, 60 * USEC_SEC, 0, USEC_HOUR, NULL },
    [P_TURNS] = { "turns", "outages of a job a window, reckoned with where what is promised does not fit side by side",
                  PARAM_COUNTER, 4, 0, 60, NULL },
    [P_REST] = { "rest", "between two resizes of one job", PARAM_TIME, 120 * USEC_SEC, 0, USEC_DAY, NULL },
    [P_SAVE] = { "save-every", "between two checkpoints of a job against crashes; 0: none", PARAM_TIME, 30 * USEC_MIN,
                 0, PARAM_MAX, NULL },
    [P_SPLICE] = { "splice", "jobs may run on fewer GPUs than they have workers", PARAM_SWITCH, 1, 0, 1, NULL },
    [P_SPAN] = { "span", "a job may lie in several regions (domains)", PARAM_SWITCH, 0, 0, 1, NULL },
    { 0 },
};

static const char *const singularity_counters[] = { "windows",
                                                    "windows_below_floor",
                                                    "seconds_below_floor",
                                                    "offered_basic",
                                                    "upgrades",
                                                    "floor_alarms",
                                                    "shrinks",
                                                    "grows",
                                                    "reclaim_stops",
                                                    "spliced_starts",
                                                    "saves",
                                                    "in_vain",
                                                    NULL };

const struct planner_ops planner_singularity = {
    .name = "singularity",
    .summary = "service tiers kept by resizing, stopping and moving jobs that lose nothing by it",
    .params = singularity_params,
    .sizes = true,
    .state_size = sizeof(struct singularity),
    .kept_size = offsetof(struct singularity, item_count),
    .run_order = RUN_UNORDERED,
    .plan = singularity_plan,
    .check = singularity_check,
    .queued = singularity_queued,
    .ended = singularity_ended,
    .splices = true,
    .words = 1, /* the instant before which nobody is made smaller for the job */
    .counters = singularity_counters,
};
