/* SPDX-License-Identifier: Apache-2.0 */
/* antman_guest.c - opportunistic jobs: where they may go, and what they have there to begin with.
 *
 * They own nothing. A GPU is a candidate while what was measured of the jobs on it over the last seconds stays below
 * `below`, few guests are there, and its memory has room for what the newcomer cannot do without. Of the candidates the
 * most idle are taken. A GPU whose owner was not measured yet is none, nor is one whose owner was promised an end.
 */
#include <errno.h>

#include "policy/antman.h"

/* Memory that a job takes of a GPU as far as is known. */
static uint32_t memory_of(const struct job *job)
{
    uint32_t told = job->spec.memory_peak_mib ? job->spec.memory_peak_mib : job->spec.memory_mib;

    return job->measured && job->used_mib > told ? job->used_mib : told;
}

/* What was measured of a GPU: hundredths of a percent, or -1 when it is not open to guests; and the memory in use. */
static int32_t use_of(const struct planner_ctx *ctx, uint32_t gpu, uint64_t *ret_memory)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    int32_t sum = 0;

    *ret_memory = 0;
    for (uint32_t s = ledger->gpus[gpu].shares; s != SHARE_NONE; s = ledger->shares[s].next_of_gpu) {
        const struct share *share = &ledger->shares[s];
        const struct job *job = view_job(ctx->view, share->job);

        if (share->off || share->leaving)
            continue;
        if (!job->measured)
            return -1;
        if (share->role == ROLE_OWNER && (job->promise || job->spec.slo == SLO_STRICT))
            return -1;
        sum += job->used_percent;
        *ret_memory += share->role == ROLE_OWNER ? memory_of(job) : job->spec.memory_mib;
    }
    return sum;
}

static bool candidate(const struct planner_ctx *ctx, const struct job *job, uint32_t gpu, uint32_t *ret_use)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct gpu *g = &ledger->gpus[gpu];
    const struct node *node = &ledger->topo.nodes[g->node];
    uint64_t memory, size = ledger->topo.sku_memory[node->sku];
    int32_t use;

    if (g->bad || !node->up || g->guests >= ctx->params[ANTMAN_GUESTS])
        return false;
    use = use_of(ctx, gpu, &memory);
    /* An idle GPU is always below. */
    if (use < 0 || (use > 0 && use * 100 >= ctx->params[ANTMAN_BELOW]))
        return false;
    if (size && g->used + g->guests > 0 && memory + job->spec.memory_mib + (uint64_t)ctx->params[ANTMAN_MARGIN] > size)
        return false;
    *ret_use = (uint32_t)use;
    return true;
}

/* Puts the `need` most idle of the candidates into picked[], ascending: how idle the last one is, found by counting. */
static bool most_idle(struct antman *state, uint32_t count, uint32_t need)
{
    uint32_t limit = 0, below = 0, picked = 0;

    if (count < need)
        return false;
    for (uint32_t low = 0, high = 1 << 20; low <= high;) { /* the least limit that enough are at or below */
        uint32_t middle = (low + high) / 2, n = 0;

        for (uint32_t i = 0; i < count; i++)
            n += state->idle[i] <= middle;
        if (n >= need) {
            limit = middle;
            if (middle == 0)
                break;
            high = middle - 1;
        } else {
            low = middle + 1;
        }
    }
    for (uint32_t i = 0; i < count; i++)
        below += state->idle[i] < limit;
    for (uint32_t i = 0; i < count; i++) {
        bool at = state->idle[i] == limit && below < need;

        if (state->idle[i] >= limit && !at)
            continue;
        below += at;
        state->picked[picked++] = state->gpus[i];
    }
    return picked == need;
}

static int start_guest(struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    struct antman *state = ctx->state;
    const struct job *job = view_job(ctx->view, index);
    const struct topo *topo = &view_ledger(ctx->view)->topo;
    uint32_t mask = plan_shape(plan, index)->shape.sku_mask;

    for (uint32_t sku = 0; sku < view_sku_count(ctx->view); sku++) {
        uint32_t count = 0;

        if (!(mask >> sku & 1) || plan_budget(plan, sku, job->klass) < job_demand(job))
            continue;
        for (uint32_t g = 0; g < topo->gpu_count && count < ANTMAN_GPUS; g++) {
            if (topo->nodes[view_ledger(ctx->view)->gpus[g].node].sku != sku)
                continue;
            if (candidate(ctx, job, g, &state->idle[count]))
                state->gpus[count++] = g;
        }
        if (most_idle(state, count, (uint32_t)job->spec.gpus))
            return plan_start_guest(plan, index, &(struct placement){ state->picked, (uint32_t)job->spec.gpus });
    }
    return -EBUSY;
}

void antman_guests(struct planner_ctx *ctx, struct plan *plan)
{
    struct antman *state = ctx->state;
    const struct queue *queue = &ctx->vc->queue;

    for (uint32_t i = 0; i < queue->live_count; i++)
        state->hopeless[queue->live[i]] = !plan_considers(plan, &queue->shapes[queue->live[i]]);
    for (;;) {
        uint32_t job = view_first_waiting(ctx->view, ctx->vc, state->hopeless);

        if (job == TREE_NONE)
            break;
        if (start_guest(ctx, plan, job) < 0)
            state->hopeless[view_job(ctx->view, job)->shape] = true;
    }
}

/* What the guest may have of one GPU: all of it where nobody owns it; beside an owner what that leaves of the memory,
 * after the margin and the guests that came before. UINT32_MAX: no owner; 0: nothing is left. */
static uint32_t memory_left(const struct planner_ctx *ctx, uint32_t guest, uint32_t gpu)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    uint32_t size = ledger->topo.sku_memory[ledger->topo.nodes[ledger->gpus[gpu].node].sku], owners = 0;
    uint64_t taken = 0;

    for (uint32_t s = ledger->gpus[gpu].shares; s != SHARE_NONE; s = ledger->shares[s].next_of_gpu) {
        const struct job *job = view_job(ctx->view, ledger->shares[s].job);

        if (ledger->shares[s].off || ledger->shares[s].leaving || ledger->shares[s].job == guest)
            continue;
        if (ledger->shares[s].role == ROLE_OWNER) {
            owners++;
            taken += memory_of(job) + (uint64_t)ctx->params[ANTMAN_MARGIN];
        } else {
            taken += job->spec.memory_mib;
        }
    }
    if (!owners)
        return UINT32_MAX;
    return size == 0 ? UINT32_MAX - 1 : size > taken ? (uint32_t)(size - taken) : 0;
}

void antman_limits(struct planner_ctx *ctx, struct plan *plan)
{
    const struct ledger *ledger = view_ledger(ctx->view);

    for (uint32_t i = ctx->vc->run_first; i != JOB_NONE; i = view_job(ctx->view, i)->next) {
        const struct job *job = view_job(ctx->view, i);
        uint32_t least = UINT32_MAX;

        if (job->klass != CLASS_OPPORTUNISTIC || ledger->shares[job->shares].role != ROLE_GUEST)
            continue;
        for (uint32_t s = job->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job) {
            uint32_t left = memory_left(ctx, i, ledger->shares[s].gpu);

            least = left < least ? left : least;
        }
        if (least == UINT32_MAX) /* nobody owns any of its GPUs */
            plan_limit(plan, i, 0, 100);
        else if (least == UINT32_MAX - 1) /* the cluster does not say how much there is */
            plan_limit(plan, i, 0, (uint32_t)ctx->params[ANTMAN_START]);
        else if (least == 0 || least < job->spec.memory_mib) /* it cannot run in that */
            plan_limit(plan, i, least, 0);
        else if (job->limit_percent == 100 || job->limit_percent == 0 || job->limit_mib != least)
            plan_limit(plan, i, least, (uint32_t)ctx->params[ANTMAN_START]);
    }
}
