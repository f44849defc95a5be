/* SPDX-License-Identifier: Apache-2.0 */
/* policies.c - see policies.h. */
#include "policies.h"

#include <errno.h>
#include <string.h>

#include "core/contract/plan.h"
#include "core/contract/view.h"
#include "policy/place/place_pick.h"

static uint32_t first_waiting(const struct planner_ctx *ctx)
{
    const struct queue *queue = &ctx->vc->queue;
    const struct tree_node *tree = view_tree(ctx->view);
    uint32_t best = TREE_NONE;

    for (uint32_t i = 0; i < queue->live_count; i++) {
        uint32_t job = tree_first(tree, queue->shapes[queue->live[i]].root);

        if (best == TREE_NONE || rank_before(&tree[job].rank, &tree[best].rank))
            best = job;
    }
    return best;
}

static void start_all_that_fit(struct planner_ctx *ctx, struct plan *plan)
{
    uint32_t job;
    struct placement to;

    while ((job = first_waiting(ctx)) != TREE_NONE && plan_find(plan, plan_shape(plan, job), &to) == 0)
        if (plan_start(plan, job, &to) < 0)
            return;
}

/* ---- leases: everybody's time on the GPUs ends at multiples of the lease; who has run longest goes last ---- */

enum { LEASE = 100 };

static void lease_plan(struct planner_ctx *ctx, struct plan *plan)
{
    usec_t now = view_now(ctx->view), length = LEASE * USEC_SEC;

    if (now % length == 0)
        for (uint32_t i = ctx->vc->run_first, next; i != JOB_NONE; i = next) {
            next = view_job(ctx->view, i)->next;
            if (view_job(ctx->view, i)->state == JOB_RUNNING)
                (void)plan_stop(plan, i, STOP_CHECKPOINT);
        }
    start_all_that_fit(ctx, plan);
    plan_wake(plan, now - now % length + length);
}

const struct planner_ops planner_lease = {
    .name = "lease",
    .summary = "test: leases of fixed length",
    .plan = lease_plan,
};

/* ---- slices: jobs of one node take turns by the quantum (Gandiva's round robin, on node 0 only) ---- */

enum { QUANTUM = 60, SLICED_MAX = 64 };

struct slices {
    uint32_t ring[SLICED_MAX], gens[SLICED_MAX];
    uint32_t count;
    usec_t next;
};

static bool ring_valid(const struct planner_ctx *ctx, const struct slices *s, uint32_t i)
{
    const struct job *job = view_job(ctx->view, s->ring[i]);

    return job->gen == s->gens[i] && job->state != JOB_FREE;
}

static void ring_clean(const struct planner_ctx *ctx, struct slices *s)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < s->count; i++)
        if (ring_valid(ctx, s, i)) {
            s->ring[kept] = s->ring[i];
            s->gens[kept++] = s->gens[i];
        }
    s->count = kept;
}

static void slices_plan(struct planner_ctx *ctx, struct plan *plan)
{
    struct slices *s = ctx->state;
    const struct node *node = &view_ledger(ctx->view)->topo.nodes[0];
    usec_t now = view_now(ctx->view);
    uint32_t job, gpus[16];
    bool on[SLICED_MAX] = { false };

    ring_clean(ctx, s);
    while (s->count < SLICED_MAX && (job = first_waiting(ctx)) != TREE_NONE) {
        struct placement to = { gpus, (uint32_t)view_job(ctx->view, job)->spec.gpus };

        /* Every job gets fixed GPUs: the next ones round the node. */
        for (uint32_t k = 0; k < to.count; k++)
            gpus[k] = node->first_gpu + (s->count * to.count + k) % node->gpus;
        s->gens[s->count] = view_job(ctx->view, job)->gen;
        s->ring[s->count++] = job;
        if (plan_enlist(plan, job, &to) < 0)
            return;
    }
    if (now >= s->next) {
        /* Those that run go to the end of the ring, in order; then the head of the ring may run. */
        uint32_t order[SLICED_MAX], gens[SLICED_MAX], n = 0;

        for (int running = 0; running < 2; running++)
            for (uint32_t i = 0; i < s->count; i++)
                if (job_holds(view_job(ctx->view, s->ring[i])->state) == running) {
                    order[n] = s->ring[i];
                    gens[n++] = s->gens[i];
                }
        memcpy(s->ring, order, sizeof(order));
        memcpy(s->gens, gens, sizeof(gens));
        s->next = now + QUANTUM * USEC_SEC;
        {
            uint64_t taken = 0;

            for (uint32_t i = 0; i < s->count; i++) {
                const struct job *j = view_job(ctx->view, s->ring[i]);
                uint64_t mask = 0;

                for (uint32_t x = j->shares; x != SHARE_NONE; x = view_ledger(ctx->view)->shares[x].next_of_job)
                    mask |= 1ULL << view_ledger(ctx->view)->shares[x].gpu;
                on[i] = !(taken & mask);
                taken |= on[i] ? mask : 0;
            }
        }
        for (uint32_t i = 0; i < s->count; i++)
            if (!on[i] && view_job(ctx->view, s->ring[i])->state == JOB_RUNNING)
                (void)plan_suspend(plan, s->ring[i]);
    }
    for (uint32_t i = 0; i < s->count; i++)
        if (view_job(ctx->view, s->ring[i])->state == JOB_SUSPENDED)
            (void)plan_resume(plan, s->ring[i]);
    if (s->count)
        plan_wake(plan, s->next);
}

const struct planner_ops planner_slices = {
    .name = "slices",
    .summary = "test: turns on the same GPUs",
    .state_size = sizeof(struct slices),
    .kept_size = sizeof(struct slices),
    .plan = slices_plan,
};

/* ---- shrink: an elastic job starts as large as it may and moves to fewer GPUs when somebody waits ---- */

static int take_free(const struct planner_ctx *ctx, uint32_t need, uint32_t *out)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    uint32_t count = 0;

    for (uint32_t g = 0; g < ledger->topo.gpu_count && count < need; g++)
        if (ledger_whole(ledger, g))
            out[count++] = g;
    return count == need ? 0 : -EBUSY;
}

static void shrink_plan(struct planner_ctx *ctx, struct plan *plan)
{
    uint32_t job, gpus[256];

    while ((job = first_waiting(ctx)) != TREE_NONE) {
        const struct job *j = view_job(ctx->view, job);
        int32_t size = j->spec.gpus_max;

        while (size >= j->spec.gpus_min && take_free(ctx, (uint32_t)size, gpus) < 0)
            size--;
        if (size < j->spec.gpus_min)
            break;
        if (plan_start(plan, job, &(struct placement){ gpus, (uint32_t)size }) < 0)
            return;
    }
    if (job == TREE_NONE)
        return;
    /* Somebody waits: the first job that can spare GPUs keeps its lowest ones. */
    for (uint32_t i = ctx->vc->run_first; i != JOB_NONE; i = view_job(ctx->view, i)->next) {
        const struct job *j = view_job(ctx->view, i);
        uint32_t count = 0;

        if (j->state != JOB_RUNNING || j->gpus <= j->spec.gpus_min || j->planned)
            continue;
        for (uint32_t x = j->shares; x != SHARE_NONE && (int32_t)count < j->spec.gpus_min;
             x = view_ledger(ctx->view)->shares[x].next_of_job)
            gpus[count++] = view_ledger(ctx->view)->shares[x].gpu;
        if (plan_move(plan, i, &(struct placement){ gpus, count }) == 0)
            plan_wake(plan, view_now(ctx->view) + USEC_SEC);
        return;
    }
}

const struct planner_ops planner_shrink = {
    .name = "shrink",
    .summary = "test: elastic sizes",
    .plan = shrink_plan,
};

/* ---- pairs: an opportunistic job beside an owner, sent away when the owner reports that it is slow ---- */

static void pairs_tune(struct planner_ctx *ctx, struct plan *plan)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    uint32_t job = first_waiting(ctx);

    if (job == TREE_NONE || view_job(ctx->view, job)->klass != CLASS_OPPORTUNISTIC ||
        view_job(ctx->view, job)->spec.gpus != 1)
        return;
    for (uint32_t g = 0; g < ledger->topo.gpu_count; g++)
        if (ledger->gpus[g].used == MGPU_ONE && ledger->gpus[g].guests == 0 && ledger->gpus[g].leaving == 0) {
            (void)plan_start_guest(plan, job, &(struct placement){ &g, 1 });
            return;
        }
}

static void pairs_report(struct planner_ctx *ctx, struct plan *plan, uint32_t job, const struct report *report)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    uint32_t share = view_job(ctx->view, job)->shares;

    if (report->kind != REPORT_SPEED || report->value[0] >= 950000 || share == SHARE_NONE)
        return;
    for (uint32_t s = ledger->gpus[ledger->shares[share].gpu].shares; s != SHARE_NONE;
         s = ledger->shares[s].next_of_gpu)
        if (ledger->shares[s].role == ROLE_GUEST)
            plan_word(plan, ledger->shares[s].job, 0, 1); /* to be sent away in the next pass */
    plan_wake(plan, view_now(ctx->view) + 1);
}

static void pairs_all(struct planner_ctx *ctx, struct plan *plan)
{
    for (uint32_t i = ctx->vc->run_first, next; i != JOB_NONE; i = next) {
        next = view_job(ctx->view, i)->next;
        if (view_job(ctx->view, i)->word[0] && view_job(ctx->view, i)->state == JOB_RUNNING) {
            plan_word(plan, i, 0, 0);
            (void)plan_stop(plan, i, STOP_REQUEUE);
            return;
        }
    }
    pairs_tune(ctx, plan);
}

const struct tune_ops tune_pairs = {
    .name = "pairs",
    .summary = "test: guests beside owners",
    .tune = pairs_all,
    .report = pairs_report,
};

/* ---- picky: refuses jobs of more than four GPUs; "auto" becomes opportunistic ---- */

static enum admit_verdict picky_admit(struct planner_ctx *ctx, struct plan *plan, uint32_t job)
{
    const struct job *j = view_job(ctx->view, job);

    if (j->spec.gpus > 4)
        return ADMIT_REFUSE;
    if (j->klass == CLASS_AUTO)
        plan_classify(plan, job, CLASS_OPPORTUNISTIC);
    return ADMIT_ACCEPT;
}

const struct admit_ops admit_picky = {
    .name = "picky",
    .summary = "test: refuses and reclassifies",
    .admit = picky_admit,
};

/* ---- thinker: has a number computed elsewhere before it starts anybody, and believes only what it asked for ---- */

enum { THOUGHT_MAX = 4 };

struct thinker {
    int64_t allowed, answers;
};

static void thinker_plan(struct planner_ctx *ctx, struct plan *plan)
{
    struct thinker *t = ctx->state;
    int64_t words[THOUGHT_MAX] = { ctx->vc->queue.waiting, view_now(ctx->view) };

    if (t->allowed > 0) {
        t->allowed = 0;
        start_all_that_fit(ctx, plan);
    } else if (ctx->vc->queue.waiting && view_free(ctx->view, 0) && !plan_borrows(plan)) {
        (void)plan_solve(plan, SOLVE_ECHO, words, 2);
    }
}

static void thinker_solved(struct planner_ctx *ctx, struct plan *plan, const struct solution *solution)
{
    struct thinker *t = ctx->state;

    (void)plan;
    if (solution->kind != SOLVE_ECHO || solution->count != 2 || solution->words[1] != view_now(ctx->view))
        return;
    t->allowed = solution->words[0];
    t->answers++;
}

const struct planner_ops planner_thinker = {
    .name = "thinker",
    .summary = "test: starts jobs when an answer has come",
    .state_size = sizeof(struct thinker),
    .kept_size = sizeof(struct thinker),
    .plan = thinker_plan,
    .solved = thinker_solved,
    .solve_words = THOUGHT_MAX,
};
