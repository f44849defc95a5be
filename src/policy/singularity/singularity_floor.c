/* SPDX-License-Identifier: Apache-2.0 */
/* singularity_floor.c - who is promised what, and whether it was kept.
 *
 * A premium or standard job is taken in as such while all that is promised in its home stays within a part of the
 * capacity; one for which there is no room is offered to run as basic, and is given what it asked for when there is.
 * GPU-time over the size of the world is what a job has done: the core counts it, so a window is the difference of two
 * readings.
 */
#include "policy/singularity/singularity.h"

/* The same as long as the policy is; found once. */
static const struct tier_rules *floor_rules(const struct planner_ctx *ctx)
{
    struct singularity *s = ctx->state;

    if (s->rules.window == 0)
        s->rules = (struct tier_rules){ .window = ctx->params[P_WINDOW],
                                        .tau = { ctx->params[P_PREMIUM], ctx->params[P_STANDARD], 0 },
                                        .load = ctx->params[P_LOAD],
                                        .turns = muldiv_floor(ctx->params[P_TURNS] * ctx->params[P_OUTAGE], PPM_ONE,
                                                              ctx->params[P_WINDOW]) };
    return &s->rules;
}

/* GPU types it may use, as a mask of the cluster's. */
static uint32_t types_of(const struct planner_ctx *ctx, const struct job *job)
{
    if (job->shape != UINT32_MAX)
        return ctx->vc->queue.shapes[job->shape].shape.sku_mask;
    return job->spec.sku_mask ? job->spec.sku_mask : UINT32_MAX;
}

static struct tier_ask ask_of(const struct planner_ctx *ctx, const struct jobspec *spec, enum job_tier tier)
{
    return (struct tier_ask){ tier, spec->gpus,
                              spec->gpus - (spec->gpus > 1 ? size_fit(ctx, spec, spec->gpus - 1) : 0) };
}

/* What they could lend to each other follows from whom something was promised: after a start or a snapshot it is added
 * up again. */
static const struct tier_lent *lent_of(const struct planner_ctx *ctx)
{
    struct singularity *s = ctx->state;

    for (uint32_t i = 0; !s->lent_known && i < core_job_top(ctx->view->core); i++) {
        const struct job *job = view_job(ctx->view, i);
        struct tier_ask ask = ask_of(ctx, &job->spec, (enum job_tier)job->spec.tier);

        if (job->state != JOB_FREE && core_vc(ctx->view->core, job->vc) == ctx->vc && floor_promised(job))
            tier_lend(floor_rules(ctx), &s->lent[job->word[WORD_HOME] - 1], &ask, 1);
    }
    s->lent_known = true;
    return s->lent;
}

/* The home with most room for such a promise; HOME_NONE. A job that stands somewhere has its home there. */
static int32_t find_home(const struct planner_ctx *ctx, uint32_t index, enum job_tier tier)
{
    const struct singularity *s = ctx->state;
    const struct job *job = view_job(ctx->view, index);
    const struct tier_rules *rules = floor_rules(ctx);
    const struct tier_lent *lent = lent_of(ctx);
    struct tier_ask ask = ask_of(ctx, &job->spec, tier);
    int64_t best = -1;
    int32_t stands = job->gpus > 0 ? home_of(ctx, index) : HOME_NONE, found = HOME_NONE;

    for (int32_t home = 0; home < (int32_t)home_count(ctx); home++) {
        int32_t capacity = home_capacity(ctx, home);
        int64_t left = rules->load * capacity - s->sums[home].claimed;

        if (!(types_of(ctx, job) >> home_sku(ctx, home) & 1) || job->spec.gpus > capacity ||
            (stands != HOME_NONE && stands != home) || !tier_admits(rules, &s->sums[home], &lent[home], &ask, capacity))
            continue;
        if (left > best) {
            best = left;
            found = home;
        }
    }
    return found;
}

static void promise(struct planner_ctx *ctx, struct plan *plan, uint32_t index, int32_t home)
{
    struct singularity *s = ctx->state;
    const struct job *job = view_job(ctx->view, index);
    const struct tier_rules *rules = floor_rules(ctx);
    struct tier_ask ask = ask_of(ctx, &job->spec, (enum job_tier)job->spec.tier);
    usec_t now = view_now(ctx->view);

    (void)lent_of(ctx);
    tier_lend(rules, &s->lent[home], &ask, 1);
    s->sums[home].claimed += tier_claim(rules, (enum job_tier)job->spec.tier, job->spec.gpus);
    s->sums[home].worlds += job->spec.gpus;
    plan_word(plan, index, WORD_HOME, 1 + home);
    plan_word(plan, index, WORD_BEGIN, now);
    plan_word(plan, index, WORD_BASE, job_attained(job, now));
    plan_tier(plan, index, (enum job_tier)job->spec.tier);
}

void floor_admit(struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    struct singularity *s = ctx->state;
    const struct job *job = view_job(ctx->view, index);
    int32_t home;

    if (job->word[WORD_HOME] != 0 || job->spec.gpus < 1)
        return;
    plan_word(plan, index, WORD_HOME, -1);
    plan_word(plan, index, WORD_SAVED, view_now(ctx->view));
    if (job->spec.tier == TIER_BASIC)
        return;
    home = job->klass == CLASS_OPPORTUNISTIC || job->spec.share < MGPU_ONE
               ? HOME_NONE
               : find_home(ctx, index, (enum job_tier)job->spec.tier);
    if (home != HOME_NONE) {
        promise(ctx, plan, index, home);
        return;
    }
    s->declined[job->spec.tier]++;
    s->offers++;
    plan_tier(plan, index, TIER_BASIC);
}

/* Whether it asked for a promise of the tier and has none. */
static bool declined(const struct job *job, enum job_tier tier)
{
    return job->word[WORD_HOME] < 0 && job->spec.tier == tier && job->klass != CLASS_OPPORTUNISTIC &&
           job->spec.share == MGPU_ONE;
}

static bool older(const struct planner_ctx *ctx, uint32_t a, uint32_t b)
{
    const struct jobspec *x = &view_job(ctx->view, a)->spec, *y = &view_job(ctx->view, b)->spec;

    return x->submit != y->submit ? x->submit < y->submit : x->id < y->id;
}

/* Jobs of one shape are promised alike, so the first of them tells whether there is room for any; the first that asked
 * for the tier is its candidate. Promised ones come before it in the tree; basic ones may. */
static uint32_t first_of_shape(const struct planner_ctx *ctx, const struct shape_class *cls, enum job_tier tier)
{
    const struct tree_node *tree = view_tree(ctx->view);
    uint32_t i = tree_first(tree, cls->root);

    if (cls->shape.klass == CLASS_OPPORTUNISTIC || cls->shape.share < MGPU_ONE || i == TREE_NONE ||
        find_home(ctx, i, tier) == HOME_NONE)
        return JOB_NONE;
    while (i != TREE_NONE && !declined(view_job(ctx->view, i), tier))
        i = tree_after(tree, cls->root, &tree[i].rank);
    return i == TREE_NONE ? JOB_NONE : i;
}

/* Who came first of those that were not promised the tier, and now could be. */
static uint32_t first_declined(const struct planner_ctx *ctx, enum job_tier tier)
{
    const struct queue *queue = &ctx->vc->queue;
    uint32_t best = JOB_NONE;

    for (uint32_t i = ctx->vc->run_first; i != JOB_NONE; i = view_job(ctx->view, i)->next)
        if (view_job(ctx->view, i)->state == JOB_RUNNING && declined(view_job(ctx->view, i), tier) &&
            (best == JOB_NONE || older(ctx, i, best)) && view_owner(ctx->view, i) &&
            find_home(ctx, i, tier) != HOME_NONE)
            best = i;
    for (uint32_t k = 0; k < queue->live_count; k++) {
        uint32_t i = first_of_shape(ctx, &queue->shapes[queue->live[k]], tier);

        if (i != JOB_NONE && (best == JOB_NONE || older(ctx, i, best)))
            best = i;
    }
    return best;
}

void floor_upgrade(struct planner_ctx *ctx, struct plan *plan)
{
    struct singularity *s = ctx->state;

    for (enum job_tier tier = TIER_PREMIUM; s->look && tier < TIER_BASIC; tier++)
        while (s->declined[tier] > 0) {
            uint32_t job = first_declined(ctx, tier);

            if (job == JOB_NONE)
                break;
            promise(ctx, plan, job, find_home(ctx, job, tier));
            s->declined[tier]--;
            s->upgrades++;
        }
    s->look = false;
}

/* GPU-time it had attained at an instant that may lie a little back. A job that is over had all its GPUs until now:
 * else a pass would have been asked for when its window was. */
static svc_t attained_at(const struct planner_ctx *ctx, const struct job *job, usec_t at)
{
    usec_t now = view_now(ctx->view), since = job->state == JOB_DONE || job->since <= at ? at : job->since;
    int64_t gpus = job->state == JOB_DONE ? job->spec.gpus : job->state == JOB_RUNNING ? job->gpus : 0;

    return job_attained(job, now) - svc_of(gpus * MGPU_ONE, now - since);
}

/* Whether a window of it is over: its end, and what it had then. */
static bool judge(struct planner_ctx *ctx, const struct job *job, usec_t *begin, svc_t *base)
{
    struct singularity *s = ctx->state;
    const struct tier_rules *rules = floor_rules(ctx);
    usec_t end = *begin + rules->window, slack;
    svc_t attained;

    if (!floor_promised(job) || view_now(ctx->view) < end)
        return false;
    attained = attained_at(ctx, job, end);
    slack = tier_slack(rules, (enum job_tier)job->tier, tier_done(attained - *base, job->spec.gpus), rules->window);
    s->windows++;
    /* Half a thousandth of a second is rounding. */
    if (slack < -USEC_MSEC / 2) {
        s->windows_below++;
        s->below_work -= slack / USEC_SEC;
    }
    *begin = end;
    *base = attained;
    return true;
}

void floor_roll(struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    const struct job *job = view_job(ctx->view, index);
    usec_t begin = job->word[WORD_BEGIN];
    svc_t base = job->word[WORD_BASE];

    while (judge(ctx, job, &begin, &base)) {
        plan_word(plan, index, WORD_BEGIN, begin);
        plan_word(plan, index, WORD_BASE, base);
    }
}

void floor_release(struct planner_ctx *ctx, uint32_t index)
{
    struct singularity *s = ctx->state;
    const struct job *job = view_job(ctx->view, index);
    const struct tier_rules *rules = floor_rules(ctx);

    if (floor_promised(job)) {
        struct tier_sum *sum = &s->sums[job->word[WORD_HOME] - 1];
        struct tier_ask ask = ask_of(ctx, &job->spec, (enum job_tier)job->spec.tier);

        usec_t begin = job->word[WORD_BEGIN];
        svc_t base = job->word[WORD_BASE];

        while (job->state == JOB_DONE && judge(ctx, job, &begin, &base))
            continue;
        (void)lent_of(ctx);
        tier_lend(rules, &s->lent[job->word[WORD_HOME] - 1], &ask, -1);
        sum->claimed -= tier_claim(rules, (enum job_tier)job->spec.tier, job->spec.gpus);
        sum->worlds -= job->spec.gpus;
        s->look = true;
    } else if (job->word[WORD_HOME] < 0 && job->spec.tier != TIER_BASIC) {
        s->declined[job->spec.tier]--;
    }
}

static usec_t done_of(const struct planner_ctx *ctx, const struct job *job)
{
    return tier_done(job_attained(job, view_now(ctx->view)) - job->word[WORD_BASE], job->spec.gpus);
}

void floor_left(const struct planner_ctx *ctx, const struct job *job, usec_t *ret_slack, usec_t *ret_spare)
{
    const struct tier_rules *rules = floor_rules(ctx);
    usec_t done, age = view_now(ctx->view) - job->word[WORD_BEGIN];

    *ret_slack = *ret_spare = USEC_NEVER;
    if (!floor_promised(job))
        return;
    done = done_of(ctx, job);
    *ret_slack = tier_slack(rules, (enum job_tier)job->tier, done, age);
    *ret_spare = tier_spare(rules, (enum job_tier)job->tier, done, age);
}
