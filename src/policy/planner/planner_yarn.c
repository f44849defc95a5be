/* SPDX-License-Identifier: Apache-2.0 */
/* planner_yarn.c - capacity queues as Microsoft's Philly ran them (Jeon et al., ATC'19): "YARN-CS".
 *
 * A job asks for its whole gang at the strictest locality. While it tries it may hold what it has gathered; when the
 * gang is not complete after `acquire` it gives everything back and waits for `backoff`. After `relax` failed tries at
 * one locality it is content with the next looser one. Jobs that cannot be placed do not block later ones.
 *
 * What is lent beyond a quota comes back by preemption only while at least `preempt` of the cluster is in use; below
 * that the locality relaxes soon enough. The clock of a try runs only while the virtual cluster could take the job: a
 * job that waits for its fair share has not failed to find GPUs.
 *
 * A job that is content with any locality, where its virtual cluster may have all there is to see (its cells, or a
 * cluster that it has for itself), tries and backs off in turns for as long as it waits, and nothing comes of it but
 * whether it is its turn. So it has no timers: its phase is computed when a pass comes to it. Whether it backs off
 * matters only then, and only then is it set aside; until then its reason is that of its shape. Otherwise a long line
 * would wake the planner every few milliseconds.
 *
 * Ours: one gang a virtual cluster gathers at a time, the first in line, inside its quota; otherwise gangs that hold
 * parts of each other's GPUs would starve everyone until their clocks run out. And getting back what was lent takes
 * the best locality there is, for the job was owed its GPUs.
 */
#include <errno.h>
#include <stddef.h>

#include "core/contract/plan.h"
#include "core/contract/view.h"
#include "policy/list.h"

enum { P_MODE, P_ACQUIRE, P_BACKOFF, P_RELAX, P_PREEMPT, P_HOLD };
enum { MODE_STRICT, MODE_SKIP };
enum { WORD_FAILS, WORD_BACKS_OFF, WORD_BASE };

struct yarn {
    uint32_t holder; /* job + 1 that gathers, 0 = none */
    uint32_t gen;
    bool hopeless[SHAPES_MAX];
    uint32_t gpus[]; /* scratch: every GPU of a node or rack */
};

enum { HOLD_MAX = 4096 };

/* Whether nothing but GPUs can be lacking: the virtual cluster has a cluster of its own, in cells or in truth, and may
 * have all of it. */
static bool unlimited(const struct planner_ctx *ctx)
{
    const struct vc *vc = ctx->vc;
    const struct topo *topo = &view_ledger(ctx->view)->topo;

    if (vc->own)
        return true;
    for (uint32_t s = 0; vc->borrow_max >= 0 && s < topo->sku_count; s++)
        if (vc->quota[s] < (int64_t)topo->sku_gpus[s] * MGPU_ONE)
            return false;
    return core_vc_count(ctx->view->core) == 1;
}

/* Whether the job can only try and back off in turns from now on, and nobody else waits for its try to end. */
static bool settled(const struct planner_ctx *ctx, const struct job *job)
{
    bool last = job->level + 1 >= ctx->vc->policy.place->levels, skips = ctx->params[P_MODE] == MODE_SKIP;

    if (job->spec.license_count)
        return false; /* it may lack more than GPUs */
    if (job->klass == CLASS_OPPORTUNISTIC)
        return last && skips && (ctx->vc->own || core_vc_count(ctx->view->core) == 1);
    return last && skips && ctx->vc->user_max == 0 && unlimited(ctx);
}

/* A try begins. */
static void begin_try(struct planner_ctx *ctx, struct plan *plan, uint32_t job)
{
    usec_t now = view_now(ctx->view);

    plan_word(plan, job, WORD_BASE, now);
    plan_job_timer(plan, job, settled(ctx, view_job(ctx->view, job)) ? USEC_NEVER : now + ctx->params[P_ACQUIRE]);
}

/* How far into its turn of a try and a back-off a settled job is. */
static usec_t phase_of(const struct planner_ctx *ctx, const struct job *job)
{
    return (view_now(ctx->view) - job->word[WORD_BASE]) % (ctx->params[P_ACQUIRE] + ctx->params[P_BACKOFF]);
}

/* Whether it is not the turn of the job that a pass has come to; then it is set aside until it is. */
static bool backs_off(const struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    const struct job *job = view_job(ctx->view, index);
    usec_t phase;

    if (!settled(ctx, job))
        return false;
    phase = phase_of(ctx, job);
    if (phase < ctx->params[P_ACQUIRE])
        return false;
    plan_word(plan, index, WORD_BACKS_OFF, 1);
    plan_set_aside(plan, index, REASON_BACKOFF);
    plan_job_timer(plan, index, view_now(ctx->view) + ctx->params[P_ACQUIRE] + ctx->params[P_BACKOFF] - phase);
    return true;
}

static void yarn_queued(struct planner_ctx *ctx, struct plan *plan, uint32_t job)
{
    plan_word(plan, job, WORD_FAILS, 0);
    plan_word(plan, job, WORD_BACKS_OFF, 0);
    if (view_job(ctx->view, job)->level)
        plan_relax(plan, job, 0);
    begin_try(ctx, plan, job);
}

/* Whether it may take so much of one of the types. */
static bool may_take(const struct planner_ctx *ctx, uint32_t mask, int64_t amount)
{
    const struct vc *vc = ctx->vc;

    for (uint32_t s = 0; s < view_sku_count(ctx->view); s++)
        if (mask >> s & 1 && vc->used[s] + amount <= vc->quota[s] + vc->borrow_max - vc->borrowed)
            return true;
    return false;
}

/* Whether the virtual cluster may take the job at all now, beyond its quota or not. */
static bool entitled(const struct planner_ctx *ctx, const struct job *job)
{
    const struct vc *vc = ctx->vc;
    bool may = true;

    if (job->reason == REASON_USER_LIMIT || job->reason == REASON_LICENSE_LIMIT)
        return false;
    if (vc->borrow_max < 0 || job->klass == CLASS_OPPORTUNISTIC || unlimited(ctx))
        return true;
    for (uint32_t i = 0; i < job->spec.side_count; i++)
        may &= may_take(ctx, job->spec.sides[i].sku_mask, (int64_t)job->spec.sides[i].gpus * MGPU_ONE);
    return may && may_take(ctx, job->spec.sku_mask ? job->spec.sku_mask : UINT32_MAX, job_demand(job));
}

/* A try has lasted `acquire`, or a back-off `backoff`. */
static void yarn_timer(struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    const struct job *job = view_job(ctx->view, index);
    usec_t now = view_now(ctx->view);
    int64_t fails = job->word[WORD_FAILS] + 1;

    if (job->word[WORD_BACKS_OFF]) {
        plan_word(plan, index, WORD_BACKS_OFF, 0);
        (void)plan_put_back(plan, index);
        begin_try(ctx, plan, index);
        return;
    }
    if (!entitled(ctx, job)) {
        plan_job_timer(plan, index, now + ctx->params[P_ACQUIRE]);
        return;
    }
    plan_word(plan, index, WORD_BACKS_OFF, 1);
    plan_set_aside(plan, index, REASON_BACKOFF);
    if (fails >= ctx->params[P_RELAX] && job->level + 1 < ctx->vc->policy.place->levels) {
        plan_relax(plan, index, (uint8_t)(job->level + 1));
        fails = 0;
    }
    plan_word(plan, index, WORD_FAILS, fails);
    plan_job_timer(plan, index, now + ctx->params[P_BACKOFF]);
}

static bool busy_enough(const struct planner_ctx *ctx)
{
    int64_t capacity = view_capacity(ctx->view);

    return capacity == 0 || view_held(ctx->view) >= muldiv_ceil(capacity, ctx->params[P_PREEMPT], PPM_ONE);
}

static int try_start(const struct planner_ctx *ctx, struct plan *plan, uint32_t job)
{
    struct placement to;
    int r = plan_find(plan, plan_shape(plan, job), &to);

    if (r < 0 && r != -EDQUOT && !plan_borrows(plan) && busy_enough(ctx))
        r = plan_reclaim(plan, job, &to);
    return r < 0 ? r : plan_start(plan, job, &to);
}

static void gather_node(const struct ledger *ledger, uint32_t node, struct yarn *yarn, uint32_t *count, uint32_t need)
{
    const struct node *n = &ledger->topo.nodes[node];

    for (uint32_t g = n->first_gpu; g < n->first_gpu + n->gpus && *count < need; g++)
        if (ledger_whole(ledger, g))
            yarn->gpus[(*count)++] = g;
}

/* What the job would gather at its locality: the emptiest server, the emptiest rack, or whatever is free. */
static uint32_t gather(const struct planner_ctx *ctx, struct yarn *yarn, const struct job *job, uint32_t sku)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct topo *topo = &ledger->topo;
    const struct pool *pool = &topo->pools[topo->sku_pools[sku]];
    uint32_t need = (uint32_t)job->spec.gpus < HOLD_MAX ? (uint32_t)job->spec.gpus : HOLD_MAX, count = 0,
             rack = TREE_NONE, node;

    if (job->level == 0 && need <= pool->gpus_max) {
        node = pool_emptiest(pool);
        if (node != BITS_NONE)
            gather_node(ledger, node, yarn, &count, need);
        return count;
    }
    if (job->level < 2)
        pool = topo_next_zone(topo, ZONE_RACK, sku, &rack);
    for (uint32_t n = pool->first_node; n < pool->first_node + pool->node_count && count < need; n++)
        if (topo->nodes[n].sku == sku && topo->nodes[n].up)
            gather_node(ledger, n, yarn, &count, need);
    return count;
}

/* The first in line that is inside its quota keeps what it can use, until its try is over. What would be kept of one
 * type for a gang on several, the others may never complete. */
static void hold(const struct planner_ctx *ctx, struct plan *plan, struct yarn *yarn, uint32_t index)
{
    const struct job *job = view_job(ctx->view, index);

    if (job->spec.share < MGPU_ONE || job->spec.side_count)
        return;
    for (uint32_t sku = 0; sku < view_sku_count(ctx->view); sku++) {
        struct placement what = { yarn->gpus, 0 };

        if (!(plan_shape(plan, index)->shape.sku_mask >> sku & 1) ||
            plan_budget(plan, sku, job->klass) < job_demand(job))
            continue;
        what.count = gather(ctx, yarn, job, sku);
        if (what.count && plan_reserve(plan, index, &what) == 0) {
            yarn->holder = index + 1;
            yarn->gen = job->gen;
            /* What it holds it gives back when its try is over. */
            if (settled(ctx, job))
                plan_job_timer(plan, index, view_now(ctx->view) + ctx->params[P_ACQUIRE] - phase_of(ctx, job));
        }
        return;
    }
}

static void unhold(const struct planner_ctx *ctx, struct plan *plan, struct yarn *yarn)
{
    if (yarn->holder && view_job(ctx->view, yarn->holder - 1)->gen == yarn->gen)
        plan_unreserve(plan, yarn->holder - 1);
    yarn->holder = 0;
}

/* Whether a pass can change nothing: no GPU is free or kept, nothing is owed that could be got back, and no share may
 * fit beside another. A long line under a full cluster wakes the planner far more often than a GPU does. */
static bool pointless(const struct planner_ctx *ctx, const struct plan *plan, const struct yarn *yarn)
{
    const struct queue *queue = &ctx->vc->queue;

    if (yarn->holder)
        return false;
    for (uint32_t sku = 0; sku < view_sku_count(ctx->view); sku++)
        if (view_free(ctx->view, sku) || (!plan_borrows(plan) && plan_budget(plan, sku, CLASS_GUARANTEED) > 0))
            return false;
    for (uint32_t i = 0; i < queue->live_count; i++)
        if (queue->shapes[queue->live[i]].shape.share < MGPU_ONE)
            return false;
    return true;
}

static void yarn_plan(struct planner_ctx *ctx, struct plan *plan)
{
    struct yarn *yarn = ctx->state;
    bool strict = ctx->params[P_MODE] == MODE_STRICT, held = plan_borrows(plan) || !ctx->params[P_HOLD];

    if (pointless(ctx, plan, yarn))
        return;
    for (uint32_t i = 0; i < ctx->vc->queue.live_count; i++)
        yarn->hopeless[ctx->vc->queue.live[i]] = !plan_considers(plan, &ctx->vc->queue.shapes[ctx->vc->queue.live[i]]);
    if (!plan_borrows(plan))
        unhold(ctx, plan, yarn);
    for (;;) {
        uint32_t job = view_first_waiting(ctx->view, ctx->vc, yarn->hopeless);

        if (job == TREE_NONE)
            break;
        if (backs_off(ctx, plan, job) || try_start(ctx, plan, job) == 0)
            continue;
        /* Before anybody behind it looks at them. */
        if (!held)
            hold(ctx, plan, yarn, job);
        held = true;
        if (strict)
            break;
        yarn->hopeless[view_job(ctx->view, job)->shape] = true;
    }
}

static const char *const mode_choices[] = { "strict", "skip", NULL };

static const struct param yarn_params[] = {
    [P_MODE] = { "mode", "at a job that does not fit: stop, or go on", PARAM_CHOICE, MODE_SKIP, 0, 1, mode_choices },
    [P_ACQUIRE] = { "acquire", "how long a try lasts", PARAM_TIME, 150 * USEC_SEC, USEC_SEC, USEC_DAY, NULL },
    [P_BACKOFF] = { "backoff", "pause after a failed try", PARAM_TIME, 120 * USEC_SEC, USEC_SEC, USEC_DAY, NULL },
    [P_RELAX] = { "relax", "failed tries before the next looser locality; inf = never", PARAM_COUNTER, 3, 1, PARAM_MAX,
                  NULL },
    [P_PREEMPT] = { "preempt", "share of GPUs in use from which lent ones are taken back", PARAM_RATIO, 900000, 0,
                    2 * PPM_ONE, NULL },
    [P_HOLD] = { "hold", "whether a gang keeps what it has gathered while it tries", PARAM_SWITCH, 1, 0, 1, NULL },
    { 0 },
};

const struct planner_ops planner_yarn = {
    .name = "yarn",
    .summary = "capacity queues, locality that relaxes with failed tries, back-off",
    .params = yarn_params,
    .kept_size = offsetof(struct yarn, hopeless),
    .state_size = sizeof(struct yarn) + HOLD_MAX * sizeof(uint32_t),
    .by_rank = true,
    .sides = true,
    .plan = yarn_plan,
    .queued = yarn_queued,
    .timer = yarn_timer,
};
