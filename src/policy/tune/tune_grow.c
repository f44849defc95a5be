/* SPDX-License-Identifier: Apache-2.0 */
/* tune_grow.c - elastic jobs grow on idle GPUs and give them back at once (Gandiva, OSDI'18, section 3.2).
 *
 * GPUs that have been idle for a quantum on a node that holds all of an elastic job go to that job, as many as it may
 * have; of several jobs on a node the one that started first. Whoever waits comes before: as soon as somebody who waits
 * could use them, those that have grown go back to the size they asked for, the newest first. That is a move within a
 * node, at the next step of the job.
 *
 * Each node has two words: how many of its GPUs have been idle, and since when.
 */
#include "policy/gandiva/grow.h"
#include "policy/list.h"

enum { P_IDLE, P_SIZES };

enum { SIZES_ANY, SIZES_DOUBLE };

enum { N_IDLE, N_SINCE, N_WORDS };

/* The job's GPUs in ascending order; UINT32_MAX where they lie on more nodes than one, else the node. */
static uint32_t gpus_of(const struct planner_ctx *ctx, uint32_t index, uint32_t *out)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    uint32_t node = UINT32_MAX, count = 0;

    for (uint32_t s = view_shares(ctx->view, index); s != SHARE_NONE; s = ledger->shares[s].next_of_job) {
        uint32_t here = ledger->gpus[ledger->shares[s].gpu].node;

        if (count == NODE_GPUS_MAX || (count && here != node))
            return UINT32_MAX;
        node = here;
        out[count++] = ledger->shares[s].gpu;
    }
    return node;
}

static bool grown(const struct planner_ctx *ctx, uint32_t index)
{
    const struct job *job = view_job(ctx->view, index);

    return job->state == JOB_RUNNING && !job->planned && job->gpus > job->spec.gpus && view_shows(ctx->view, index);
}

uint32_t grow_give_back(const struct planner_ctx *ctx, struct plan *plan, uint32_t sku, uint32_t node, uint32_t need)
{
    uint32_t freed = 0, gpus[NODE_GPUS_MAX];

    for (uint32_t i = ctx->vc->run_last, prev; i != JOB_NONE && freed < need; i = prev) {
        const struct job *job = view_job(ctx->view, i);
        uint32_t more = (uint32_t)(job->gpus - job->spec.gpus), here;

        prev = job->prev;
        if (!grown(ctx, i) || job->sku != sku)
            continue;
        here = gpus_of(ctx, i, gpus);
        if (here == UINT32_MAX || (node != GROW_ANYWHERE && here != node))
            continue;
        if (plan_move(plan, i, &(struct placement){ gpus, (uint32_t)job->spec.gpus }) == 0)
            freed += more;
    }
    return freed;
}

/* Whoever waits and would fit if those that have grown had not: of each shape the GPUs it lacks. */
static bool give_back_to_waiting(const struct planner_ctx *ctx, struct plan *plan)
{
    const struct queue *queue = &ctx->vc->queue;
    bool any = false;

    for (uint32_t i = 0; i < queue->live_count; i++) {
        const struct shape *shape = &queue->shapes[queue->live[i]].shape;

        for (uint32_t sku = 0; view_counts(ctx->view, shape) && sku < view_sku_count(ctx->view); sku++)
            if (shape->sku_mask >> sku & 1 && plan_budget(plan, sku, shape->klass) >= 0)
                any |= grow_give_back(ctx, plan, sku, GROW_ANYWHERE, (uint32_t)shape->gpus) > 0;
    }
    return any;
}

static int32_t size_allowed(const struct planner_ctx *ctx, const struct job *job, uint32_t idle)
{
    int32_t size = job->gpus + (int32_t)idle, doubled = job->spec.gpus;

    size = size < job->spec.gpus_max ? size : job->spec.gpus_max;
    if (ctx->params[P_SIZES] == SIZES_ANY)
        return size;
    while (doubled * 2 <= size)
        doubled *= 2;
    return doubled;
}

/* Adds whole free GPUs of the node to the list, in order. */
static uint32_t add_free(const struct ledger *ledger, uint32_t node, uint32_t *gpus, uint32_t count, uint32_t want)
{
    const struct node *n = &ledger->topo.nodes[node];

    for (uint32_t g = n->first_gpu; g < n->first_gpu + n->gpus && count < want; g++)
        if (ledger_idle(ledger, g)) {
            uint32_t at = count++;

            for (; at > 0 && gpus[at - 1] > g; at--)
                gpus[at] = gpus[at - 1];
            gpus[at] = g;
        }
    return count;
}

/* How many GPUs of the node have been idle long enough; asks to be called when that may change. */
static uint32_t idle_long(const struct planner_ctx *ctx, struct plan *plan, uint32_t node)
{
    uint32_t free = view_ledger(ctx->view)->topo.nodes[node].free;
    int64_t *words = plan_node(ctx, plan, node);
    usec_t now = view_now(ctx->view);

    if (free == 0 || !view_ledger(ctx->view)->topo.nodes[node].up) {
        words[N_IDLE] = 0;
        return 0;
    }
    if (words[N_IDLE] == 0)
        words[N_SINCE] = now;
    if (words[N_IDLE] == 0 || words[N_IDLE] > free)
        words[N_IDLE] = free;
    if (now - words[N_SINCE] >= ctx->params[P_IDLE])
        return (uint32_t)words[N_IDLE];
    plan_wake(plan, words[N_SINCE] + ctx->params[P_IDLE]);
    return 0;
}

static void grow_one(const struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    const struct job *job = view_job(ctx->view, index);
    uint32_t gpus[NODE_GPUS_MAX], idle, count, node;
    int32_t size;

    if (!job_holds(job->state) || job->mate != JOB_NONE || job->gpus >= job->spec.gpus_max ||
        job->gpus < job->spec.gpus || job->spec.share != MGPU_ONE || !view_shows(ctx->view, index) ||
        !view_owner(ctx->view, index) || !job_shapeless(job))
        return;
    node = gpus_of(ctx, index, gpus);
    idle = node == UINT32_MAX ? 0 : idle_long(ctx, plan, node);
    if (idle == 0)
        return;
    if (job->state != JOB_RUNNING || job->planned) {
        plan_wake(plan, view_now(ctx->view) + USEC_SEC); /* it has only just been given GPUs */
        return;
    }
    size = size_allowed(ctx, job, idle);
    if (size <= job->gpus)
        return;
    count = add_free(view_ledger(ctx->view), node, gpus, (uint32_t)job->gpus, (uint32_t)size);
    if ((int32_t)count == size && plan_move(plan, index, &(struct placement){ gpus, count }) == 0)
        plan_node(ctx, plan, node)[N_IDLE] = 0;
    else if (!plan_rested(plan, index))
        plan_wake(plan, job->disturbed + ctx->params[P_IDLE]);
}

static void grow_tune(struct planner_ctx *ctx, struct plan *plan)
{
    if (view_queued(ctx->view, ctx->vc) && give_back_to_waiting(ctx, plan))
        return;
    if (view_queued(ctx->view, ctx->vc))
        return; /* idle GPUs are for whoever waits */
    /* One that cannot grow after all is last in the list then: each is looked at once. */
    for (uint32_t i = ctx->vc->run_first, left = view_job_top(ctx->view), next; i != JOB_NONE && left > 0;
         i = next, left--) {
        next = view_job(ctx->view, i)->next;
        grow_one(ctx, plan, i);
    }
}

static const char *const sizes_choices[] = { "any", "double", NULL };

static const struct param grow_params[] = {
    [P_IDLE] = { "grow_after", "GPUs idle for so long are given to elastic jobs of their node", PARAM_TIME,
                 60 * USEC_SEC, 60 * USEC_SEC, PARAM_MAX, NULL },
    [P_SIZES] = { "grow_sizes", "sizes a job may grow to: any, or doubles of what it asked for", PARAM_CHOICE,
                  SIZES_ANY, 0, 1, sizes_choices },
    { 0 },
};

const struct tune_ops tune_grow = {
    .name = "grow",
    .summary = "elastic jobs grow on idle GPUs of their node and give them back at once",
    .params = grow_params,
    .node_words = N_WORDS,
    .tune = grow_tune,
};
