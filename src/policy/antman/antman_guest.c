/* SPDX-License-Identifier: Apache-2.0 */
/* antman_guest.c - opportunistic jobs: where they may go, and what they have there to begin with.
 *
 * They own nothing. A GPU is a candidate while what was measured of the jobs on it over the last seconds stays below
 * `below`, few guests are there, and its memory has room for what the newcomer cannot do without. Of the candidates the
 * most idle are taken. A GPU whose owner was not measured yet is none, nor is one whose owner was promised an end.
 *
 * A guest that gets nothing beside its owner (their work, or their memory, does not go together) leaves; after three
 * such owners it goes only where there is none. One that gets little leaves when GPUs are idle.
 */
#include <errno.h>

#include "base/names.h"
#include "model/measure.h"
#include "policy/antman/antman.h"

#define WINDOW (10 * USEC_SEC)    /* what was measured is of where it is now */
#define TRIES 3                   /* owners it gets nothing beside, until it goes only where there is none */
#define RESIDENCY (60 * USEC_SEC) /* between two disturbances of a job */

/* A job that asks for no GPU is nobody's guest. Guests stand in the ledger of the cluster, whatever is looked at. */
static bool is_guest(const struct ledger *ledger, const struct job *job)
{
    return job->shares != SHARE_NONE && ledger->shares[job->shares].role == ROLE_GUEST;
}

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

/* What it comes to of what it would use alone, in parts per million; where nobody told that, of a tenth of a GPU. */
static ppm_t speed_of(const struct job *job)
{
    int64_t alone = job->spec.utilisation ? job->spec.utilisation * 100 : 1000;

    return job->used_percent * PPM_ONE / alone;
}

/* Where what was seen of two models is kept; NULL: one of them is not told. */
static uint16_t *seen_of(const struct planner_ctx *ctx, const struct job *owner, const struct job *guest)
{
    struct antman *state = ctx->state;

    if (owner->spec.model == NAME_NONE || guest->spec.model == NAME_NONE)
        return NULL;
    return &state->seen[owner->spec.model % ANTMAN_MODELS][guest->spec.model % ANTMAN_MODELS];
}

/* The only owner of the GPU, if there is one and no other guest either. */
static const struct job *only_owner(const struct planner_ctx *ctx, uint32_t gpu, uint32_t guest)
{
    const struct ledger *ledger = core_ledger(ctx->view->core);
    const struct job *owner = NULL;

    for (uint32_t s = ledger->gpus[gpu].shares; s != SHARE_NONE; s = ledger->shares[s].next_of_gpu) {
        if (ledger->shares[s].job == guest || ledger->shares[s].off || ledger->shares[s].leaving)
            continue;
        if (owner || ledger->shares[s].role != ROLE_OWNER)
            return NULL;
        owner = view_job(ctx->view, ledger->shares[s].job);
    }
    return owner;
}

/* How a guest gets on with its owner is remembered for others of their models. Guests stand in the cluster, also where
 * the virtual cluster has a guarantee to look at. */
void antman_report(struct planner_ctx *ctx, struct plan *plan, uint32_t index, const struct report *report)
{
    const struct ledger *ledger = core_ledger(ctx->view->core);
    const struct job *job = view_job(ctx->view, index);
    uint16_t *seen = NULL;

    (void)plan;
    if (report->kind != MEASURE_USE || !job->measured || job->state != JOB_RUNNING || !is_guest(ledger, job))
        return;
    for (uint32_t s = job->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job) {
        const struct job *owner = only_owner(ctx, ledger->shares[s].gpu, index);
        uint16_t *here = owner && owner->state == JOB_RUNNING ? seen_of(ctx, owner, job) : NULL;

        if (!here || (seen && here != seen))
            return; /* a gang of which nobody knows who held it up */
        seen = here;
    }
    *seen = (uint16_t)((speed_of(job) < PPM_ONE ? speed_of(job) : PPM_ONE) / 1000 + 1);
}

/* How much worse than its use tells a GPU is for this guest, by what was seen of such pairs; in hundredths of a
 * percent. Below 0: not worth trying. */
static int32_t worse(const struct planner_ctx *ctx, const struct job *job, uint32_t gpu, int32_t use)
{
    const struct job *owner = only_owner(ctx, gpu, JOB_NONE);
    const uint16_t *seen = owner ? seen_of(ctx, owner, job) : NULL;

    if (!seen || *seen == 0)
        return use;
    if ((*seen - 1) * 1000 < ctx->params[ANTMAN_WORTH])
        return -1;
    return (1001 - *seen) * 10;
}

/* Whether another guest is there with whom one of its model was tried in vain. */
static bool tried_in_vain(const struct planner_ctx *ctx, const struct job *job, uint32_t gpu)
{
    const struct antman *state = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);

    for (uint32_t s = ledger->gpus[gpu].shares; s != SHARE_NONE; s = ledger->shares[s].next_of_gpu) {
        const struct job *other = view_job(ctx->view, ledger->shares[s].job);

        if (ledger->shares[s].role == ROLE_GUEST && job->spec.model != NAME_NONE && other->spec.model != NAME_NONE &&
            state->vain[other->spec.model % ANTMAN_MODELS][job->spec.model % ANTMAN_MODELS])
            return true;
    }
    return false;
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
    if (job->word[WORD_ALONE] >= TRIES && (g->used || g->leaving || g->guests))
        return false;
    if (g->guests && tried_in_vain(ctx, job, gpu))
        return false;
    use = use_of(ctx, gpu, &memory);
    /* An idle GPU is always below. */
    if (use < 0 || (use > 0 && use * 100 >= ctx->params[ANTMAN_BELOW]))
        return false;
    if (size && g->used + g->guests > 0 && memory + job->spec.memory_mib + (uint64_t)ctx->params[ANTMAN_MARGIN] > size)
        return false;
    use = worse(ctx, job, gpu, use);
    /* Guests get in each other's way more than in an owner's: first where there is none. */
    *ret_use = (uint32_t)use + g->guests * 10000u;
    return use >= 0;
}

/* Puts the `need` most idle of the candidates first..first+count into picked[], ascending. How idle the last of them is
 * is found by counting; that is returned too, UINT32_MAX when there are too few. */
static uint32_t most_idle(struct antman *state, uint32_t first, uint32_t count, uint32_t need)
{
    const uint32_t *idle = state->idle + first;
    uint32_t limit = 0, below = 0, picked = 0;

    if (count < need)
        return UINT32_MAX;
    for (uint32_t low = 0, high = 1 << 20; low <= high;) { /* the least limit that enough are at or below */
        uint32_t middle = (low + high) / 2, n = 0;

        for (uint32_t i = 0; i < count; i++)
            n += idle[i] <= middle;
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
        below += idle[i] < limit;
    for (uint32_t i = 0; i < count; i++) {
        bool at = idle[i] == limit && below < need;

        if (idle[i] >= limit && !at)
            continue;
        below += at;
        state->picked[picked++] = state->gpus[first + i];
    }
    return limit;
}

/* A gang goes at the pace of its busiest GPU, and has fewer owners to get on with on one node. */
static bool pick(struct antman *state, const struct ledger *ledger, uint32_t count, uint32_t need)
{
    uint32_t best = UINT32_MAX, best_first = 0, best_count = 0;

    for (uint32_t first = 0, last; need > 1 && first < count; first = last) {
        uint32_t node = ledger->gpus[state->gpus[first]].node, limit;

        for (last = first + 1; last < count && ledger->gpus[state->gpus[last]].node == node;)
            last++;
        limit = most_idle(state, first, last - first, need);
        if (limit >= best)
            continue;
        best = limit;
        best_first = first;
        best_count = last - first;
    }
    return most_idle(state, best_first, best == UINT32_MAX ? count : best_count, need) != UINT32_MAX;
}

static int start_guest(struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    struct antman *state = ctx->state;
    const struct job *job = view_job(ctx->view, index);
    const struct topo *topo = &view_ledger(ctx->view)->topo;
    uint32_t mask = plan_shape(plan, index)->shape.sku_mask;

    if (job->spec.gpus == 0) { /* nobody is disturbed by it */
        struct placement to;
        int r = plan_find(plan, plan_shape(plan, index), &to);

        return r < 0 ? r : plan_start(plan, index, &to);
    }
    for (uint32_t sku = 0; sku < view_sku_count(ctx->view); sku++) {
        uint32_t count = 0;

        if (!(mask >> sku & 1) || plan_budget(plan, sku, job->klass) < job_demand(job))
            continue;
        for (uint32_t g = 0; g < topo->gpu_count && count < ANTMAN_GPUS; g++) {
            if (topo->nodes[view_ledger(ctx->view)->gpus[g].node].sku != sku)
                continue;
            if (!candidate(ctx, job, g, &state->idle[count]))
                continue;
            state->gpus[count++] = g;
            if (job->spec.gpus == 1 && state->idle[count - 1] == 0)
                break; /* none is more idle, and all others come later */
        }
        if (pick(state, view_ledger(ctx->view), count, (uint32_t)job->spec.gpus))
            return plan_start_guest(plan, index, &(struct placement){ state->picked, (uint32_t)job->spec.gpus });
    }
    return -EBUSY;
}

/* Jobs of one shape differ in memory and in whom they get on with, so when the first finds no place others may. */
static void shape_start(struct planner_ctx *ctx, struct plan *plan, uint32_t shape)
{
    const struct tree_node *tree = view_tree(ctx->view);
    const struct shape_class *cls = &ctx->vc->queue.shapes[shape];
    struct rank rank;
    uint32_t least = UINT32_MAX; /* memory of the smallest that found nothing */
    bool alone = false;

    for (uint32_t failed = 0, job = tree_first(tree, cls->root); job != TREE_NONE && failed < ANTMAN_DEPTH;
         job = cls->count ? tree_after(tree, cls->root, &rank) : TREE_NONE) {
        const struct job *j = view_job(ctx->view, job);
        bool picky = j->word[WORD_ALONE] >= TRIES;

        rank = tree[job].rank;
        if (picky ? alone : j->spec.memory_mib >= least)
            continue;
        if (start_guest(ctx, plan, job) == 0)
            continue;
        failed++;
        alone |= picky;
        least = picky ? least : j->spec.memory_mib;
        if (!picky && j->spec.memory_mib == 0)
            alone = true; /* what nobody finds, those who want more do not either */
    }
}

void antman_guests(struct planner_ctx *ctx, struct plan *plan)
{
    struct antman *state = ctx->state;
    const struct queue *queue = &ctx->vc->queue;

    for (uint32_t i = 0; i < queue->live_count; i++)
        state->hopeless[queue->live[i]] = !plan_considers(plan, &queue->shapes[queue->live[i]]);
    for (;;) {
        uint32_t job = view_first_waiting(ctx->view, ctx->vc, state->hopeless), shape;

        if (job == TREE_NONE)
            break;
        shape = view_job(ctx->view, job)->shape;
        state->hopeless[shape] = true;
        shape_start(ctx, plan, shape);
    }
}

/* Whether somebody owns one of its GPUs; *ret_fair: all such owners leave enough idle that it should get on there. */
static bool beside_owner(const struct planner_ctx *ctx, const struct job *job, bool *ret_fair)
{
    const struct ledger *ledger = core_ledger(ctx->view->core);
    bool any = false;

    *ret_fair = true;
    for (uint32_t s = job->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job)
        for (uint32_t o = ledger->gpus[ledger->shares[s].gpu].shares; o != SHARE_NONE;
             o = ledger->shares[o].next_of_gpu) {
            const struct job *owner = view_job(ctx->view, ledger->shares[o].job);

            if (ledger->shares[o].role != ROLE_OWNER || ledger->shares[o].off)
                continue;
            any = true;
            *ret_fair &= owner->measured && owner->used_percent * 100 < ctx->params[ANTMAN_BELOW];
        }
    return any;
}

/* A guest beside an owner that gets next to nothing there leaves; one that gets less than half leaves when there are
 * GPUs that nobody is on. Both are queued again, with what they have done. */
void antman_starved(struct planner_ctx *ctx, struct plan *plan)
{
    const struct ledger *ledger = core_ledger(ctx->view->core);
    struct antman *state = ctx->state;
    int64_t empty[SKUS_MAX];

    for (uint32_t k = 0; k < SKUS_MAX; k++)
        empty[k] = -1;
    for (uint32_t i = ctx->vc->run_first, next; i != JOB_NONE; i = next) {
        const struct job *job = view_job(ctx->view, i);
        usec_t there = view_now(ctx->view) - job->last_start;
        bool fair, starved;

        next = job->next;
        if (job->klass != CLASS_OPPORTUNISTIC || job->state != JOB_RUNNING || job->planned || !job->measured ||
            !is_guest(ledger, job) || !ctx->params[ANTMAN_WORTH] || speed_of(job) >= PPM_ONE / 2 ||
            !beside_owner(ctx, job, &fair))
            continue;
        starved = speed_of(job) < ctx->params[ANTMAN_WORTH] && there >= WINDOW;
        if (!starved && there < RESIDENCY)
            continue;
        if (!starved && empty[job->sku] < 0)
            empty[job->sku] = ledger_empty(ledger, job->sku);
        if (!starved && empty[job->sku] < job->gpus)
            continue;
        if (plan_stop(plan, i, STOP_CHECKPOINT) < 0)
            continue;
        empty[job->sku] -= starved ? 0 : job->gpus;
        state->moved++;
        if (starved && fair) /* nobody would have thought so: their work does not go together */
            plan_word(plan, i, WORD_ALONE, job->word[WORD_ALONE] + 1);
    }
}

/* What a guest came to on the GPU before another joined it: by what was seen of its model beside the owner, all where
 * there is none. -1: not known. */
static int64_t before_of(const struct planner_ctx *ctx, const struct job *guest, uint32_t gpu)
{
    const struct ledger *ledger = core_ledger(ctx->view->core);
    const struct job *owner = NULL;
    const uint16_t *seen;

    for (uint32_t s = ledger->gpus[gpu].shares; s != SHARE_NONE; s = ledger->shares[s].next_of_gpu)
        if (ledger->shares[s].role == ROLE_OWNER && !ledger->shares[s].off)
            owner = view_job(ctx->view, ledger->shares[s].job);
    if (!owner)
        return PPM_ONE;
    seen = seen_of(ctx, owner, guest);
    return seen && *seen ? (*seen - 1) * 1000 : -1;
}

static bool newer(const struct job *a, const struct job *b)
{
    return a->last_start != b->last_start ? a->last_start > b->last_start : a->spec.id > b->spec.id;
}

/* Whether what the last to come has is less than what it costs the other guests of its GPUs, who were there before. */
static bool joined_in_vain(struct planner_ctx *ctx, const struct job *job)
{
    struct antman *state = ctx->state;
    const struct ledger *ledger = core_ledger(ctx->view->core);
    const struct job *other = NULL;
    int64_t lost = 0;

    for (uint32_t s = job->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job) {
        uint32_t gpu = ledger->shares[s].gpu;

        for (uint32_t o = ledger->gpus[gpu].shares; o != SHARE_NONE; o = ledger->shares[o].next_of_gpu) {
            const struct job *j = view_job(ctx->view, ledger->shares[o].job);
            int64_t before;

            if (j == job || ledger->shares[o].role != ROLE_GUEST || ledger->shares[o].off || ledger->shares[o].leaving)
                continue;
            before = before_of(ctx, j, gpu);
            if (!newer(job, j) || j->state != JOB_RUNNING || !j->measured || before < 0)
                return false;
            lost += before > speed_of(j) ? before - speed_of(j) : 0;
            other = j;
        }
    }
    if (!other || speed_of(job) * job->gpus * 10 > lost * 11) /* by more than is measured wrong */
        return false;
    if (other->spec.model != NAME_NONE && job->spec.model != NAME_NONE)
        state->vain[other->spec.model % ANTMAN_MODELS][job->spec.model % ANTMAN_MODELS] = true;
    return true;
}

/* Several guests on a GPU are a trial: the last to come stays only if all of them together have more than before. */
void antman_trial(struct planner_ctx *ctx, struct plan *plan)
{
    const struct ledger *ledger = core_ledger(ctx->view->core);
    struct antman *state = ctx->state;

    for (uint32_t i = ctx->vc->run_first, next; i != JOB_NONE && ctx->params[ANTMAN_GUESTS] > 1; i = next) {
        const struct job *job = view_job(ctx->view, i);

        next = job->next;
        if (job->klass != CLASS_OPPORTUNISTIC || job->state != JOB_RUNNING || job->planned || !job->measured ||
            !is_guest(ledger, job) || view_now(ctx->view) - job->last_start < WINDOW || !joined_in_vain(ctx, job) ||
            plan_stop(plan, i, STOP_CHECKPOINT) < 0)
            continue;
        state->moved++;
        if (job->spec.model == NAME_NONE)
            plan_word(plan, i, WORD_ALONE, job->word[WORD_ALONE] + 1);
    }
}

/* What the guest may have of one GPU: all of it where nobody owns it; beside an owner what that leaves of the memory,
 * after the margin and the guests that came before. UINT32_MAX: no owner; 0: nothing is left. */
static uint32_t memory_left(const struct planner_ctx *ctx, uint32_t guest, uint32_t gpu)
{
    const struct ledger *ledger = core_ledger(ctx->view->core);
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
    const struct ledger *ledger = core_ledger(ctx->view->core);

    for (uint32_t i = ctx->vc->run_first; i != JOB_NONE; i = view_job(ctx->view, i)->next) {
        const struct job *job = view_job(ctx->view, i);
        uint32_t least = UINT32_MAX;

        if (job->klass != CLASS_OPPORTUNISTIC || !is_guest(ledger, job))
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
