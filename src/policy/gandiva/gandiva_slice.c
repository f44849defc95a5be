/* SPDX-License-Identifier: Apache-2.0 */
/* gandiva_slice.c - turns on a server with more jobs than GPUs: weighted round robin, gangs together.
 *
 * The jobs of a server stand in a ring. Whose turn is over goes to its end; then, from its head, everybody runs who
 * fits in what those leave whose turn is not over; a wide job that does not fit is passed over, and comes to the head
 * by itself. A job that comes back may get other GPUs of the server than it had. A turn lasts a quantum, or as many as
 * the job weighs. When a job ends, the GPUs it leaves are handed on at once, for a whole turn.
 *
 * With turns=least there is no ring: whoever has had the least GPU time comes first (so narrow jobs have more turns
 * than wide ones).
 *
 * A pair that was packed has one place in the ring, and is suspended and comes back together.
 */
#include "policy/gandiva/gandiva.h"

static uint32_t node_of(const struct ledger *ledger, uint32_t share)
{
    return ledger->gpus[ledger->shares[share].gpu].node;
}

/* GPU time it has had; of two that shared GPUs each has had half. */
static svc_t had(const struct planner_ctx *ctx, const struct job *job)
{
    return job_attained(job, view_now(ctx->view)) - job->word[J_SHARED];
}

/* Whether a's turn comes before b's. */
bool gandiva_before(const struct planner_ctx *ctx, const struct job *a, const struct job *b)
{
    if (gandiva_turns(ctx) == TURNS_NARROW && a->gpus != b->gpus)
        return a->gpus < b->gpus;
    if (gandiva_turns(ctx) != TURNS_RING && had(ctx, a) != had(ctx, b))
        return had(ctx, a) < had(ctx, b);
    return a->word[J_RING] < b->word[J_RING];
}

/* Those that have a place on the server, whose first node it is, by their place in the ring. Pairs by their owner. */
static uint32_t gather(struct planner_ctx *ctx, uint32_t node)
{
    struct gandiva *g = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct node *n = &ledger->topo.nodes[node];
    uint32_t count = 0;

    for (uint32_t gpu = n->first_gpu; gpu < n->first_gpu + n->gpus; gpu++)
        for (uint32_t s = ledger->gpus[gpu].shares; s != SHARE_NONE; s = ledger->shares[s].next_of_gpu) {
            uint32_t index = ledger->shares[s].job, at;
            const struct job *job = view_job(ctx->view, index);

            if (view_shares(ctx->view, index) != s || job->vc != ctx->vc->index || job->packed ||
                job->spec.share != MGPU_ONE || !job_plain(job) ||
                (!job_holds(job->state) && job->state != JOB_SUSPENDED) || job->yields || count == SERVER_JOBS_MAX)
                continue;
            for (at = count++; at > 0 && gandiva_before(ctx, job, view_job(ctx->view, g->jobs[at - 1])); at--)
                g->jobs[at] = g->jobs[at - 1];
            g->jobs[at] = index;
        }
    return count;
}

/* Its turn is over: others may have its GPUs. Of a new pair it is not before it was seen what the two do together. */
bool gandiva_over(const struct planner_ctx *ctx, const struct job *job)
{
    if (job->mate != JOB_NONE &&
        (view_job(ctx->view, job->mate)->planned || view_now(ctx->view) - job->disturbed < 3 * ctx->params[G_QUANTUM]))
        return false;
    return job->state == JOB_RUNNING && !job->planned && job->word[J_UNTIL] <= view_now(ctx->view) && job_plain(job);
}

/* Those whose turn is over go to the end of the ring, in their order. */
static void rotate(struct planner_ctx *ctx, struct plan *plan, uint32_t count)
{
    struct gandiva *g = ctx->state;
    uint32_t tail[SERVER_JOBS_MAX], tails = 0, kept = 0;

    for (uint32_t i = 0; i < count; i++)
        if (gandiva_turns(ctx) == TURNS_RING && gandiva_over(ctx, view_job(ctx->view, g->jobs[i])))
            tail[tails++] = g->jobs[i];
        else
            g->jobs[kept++] = g->jobs[i];
    for (uint32_t i = 0; i < tails; i++) {
        uint32_t at = kept++;

        plan_word(plan, tail[i], J_RING, ++g->ring);
        for (; at > 0 && gandiva_before(ctx, view_job(ctx->view, tail[i]), view_job(ctx->view, g->jobs[at - 1])); at--)
            g->jobs[at] = g->jobs[at - 1];
        g->jobs[at] = tail[i];
    }
}

/* GPUs of the job on this node; of one that is wider, those here. */
static int64_t gpus_here(const struct planner_ctx *ctx, uint32_t index, uint32_t node)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    int64_t count = 0;

    for (uint32_t s = view_shares(ctx->view, index); s != SHARE_NONE; s = ledger->shares[s].next_of_job)
        count += node_of(ledger, s) == node;
    return count;
}

static int64_t whole_here(const struct ledger *ledger, uint32_t node)
{
    const struct node *n = &ledger->topo.nodes[node];
    int64_t count = 0;

    for (uint32_t g = n->first_gpu; g < n->first_gpu + n->gpus; g++)
        count += ledger_whole(ledger, g);
    return count;
}

/* Both of a pair leave and remember each other. */
void gandiva_suspend(struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    struct gandiva *g = ctx->state;
    uint32_t mate = view_job(ctx->view, index)->mate;

    if (mate != JOB_NONE && view_job(ctx->view, mate)->state != JOB_RUNNING)
        return;
    if (mate != JOB_NONE && (!plan_rested(plan, mate) || plan_suspend(plan, mate) < 0))
        return;
    if (plan_suspend(plan, index) < 0) {
        if (mate != JOB_NONE)
            (void)plan_keep(plan, mate);
        return;
    }
    g->turns++;
    plan_word(plan, index, J_PAIR, mate == JOB_NONE ? 0 : (int64_t)mate + 1);
    if (mate == JOB_NONE)
        return;
    plan_word(plan, mate, J_PAIR, (int64_t)index + 1);
    plan_word(plan, mate, J_RING, ++g->ring);
}

/* With whom it was packed when it was suspended, if that one still waits for it as well; JOB_NONE. */
static uint32_t pair_of(const struct planner_ctx *ctx, uint32_t index)
{
    const struct job *job = view_job(ctx->view, index), *mate;
    int64_t pair = job->word[J_PAIR];

    if (pair == 0 || pair > view_job_top(ctx->view))
        return JOB_NONE;
    mate = view_job(ctx->view, (uint32_t)(pair - 1));
    return mate->state == JOB_SUSPENDED && mate->vc == ctx->vc->index && mate->word[J_PAIR] == (int64_t)index + 1 &&
                   !mate->planned && mate->gpus == job->gpus && view_shows(ctx->view, (uint32_t)(pair - 1))
               ? (uint32_t)(pair - 1)
               : JOB_NONE;
}

bool gandiva_along(const struct planner_ctx *ctx, uint32_t index)
{
    uint32_t mate;

    if (view_job(ctx->view, index)->state != JOB_SUSPENDED)
        return false;
    mate = pair_of(ctx, index);
    return mate != JOB_NONE && mate < index;
}

uint32_t gandiva_resume_mate(struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    uint32_t mate = pair_of(ctx, index);

    plan_word(plan, index, J_PAIR, 0);
    if (mate == JOB_NONE)
        return JOB_NONE;
    /* On another type than it had it may be where its mate cannot follow: that one has turns of its own from now on. */
    if (view_allows(ctx->view, mate, view_job(ctx->view, index)->sku) && plan_pack(plan, mate, index) == 0)
        plan_word(plan, mate, J_UNTIL, view_job(ctx->view, index)->word[J_UNTIL]);
    plan_word(plan, mate, J_PAIR, 0);
    return mate;
}

/* On free GPUs of the nodes it has its place on, as many on each. False: there are not enough now. */
static bool resume(struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    struct gandiva *g = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct job *job = view_job(ctx->view, index);
    uint32_t count = 0;

    for (uint32_t s = view_shares(ctx->view, index); s != SHARE_NONE;) {
        uint32_t node = node_of(ledger, s), want = 0;

        for (; s != SHARE_NONE && node_of(ledger, s) == node; s = ledger->shares[s].next_of_job)
            want++;
        count = gandiva_free(ledger, node, want, g->gpus, count);
    }
    if ((int32_t)count != job->gpus || plan_resume_at(plan, index, &(struct placement){ g->gpus, count }) < 0)
        return false;
    plan_word(plan, index, J_UNTIL, view_now(ctx->view) + gandiva_turn(ctx, job));
    (void)gandiva_resume_mate(ctx, plan, index);
    return true;
}

/* Whether the one it was packed with is chosen already, and brings it along. */
static bool comes_along(const struct planner_ctx *ctx, const bool *chosen, uint32_t at)
{
    const struct gandiva *g = ctx->state;
    const struct job *job = view_job(ctx->view, g->jobs[at]);

    for (uint32_t i = 0; i < at && job->state == JOB_SUSPENDED && job->word[J_PAIR]; i++)
        if (chosen[i] && job->word[J_PAIR] == (int64_t)g->jobs[i] + 1 &&
            view_job(ctx->view, g->jobs[i])->word[J_PAIR] == (int64_t)g->jobs[at] + 1)
            return true;
    return false;
}

/* From the head of the ring on: who fits has a turn, or another one. The others leave, if their turn is over. */
static void deal(struct planner_ctx *ctx, struct plan *plan, uint32_t node, uint32_t count)
{
    struct gandiva *g = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    int64_t room = whole_here(ledger, node);
    bool chosen[SERVER_JOBS_MAX];

    for (uint32_t i = 0; i < count; i++)
        if (gandiva_over(ctx, view_job(ctx->view, g->jobs[i])))
            room += gpus_here(ctx, g->jobs[i], node);
    for (uint32_t i = 0; i < count; i++) {
        const struct job *job = view_job(ctx->view, g->jobs[i]);
        int64_t need = gpus_here(ctx, g->jobs[i], node);

        chosen[i] =
            (job->state == JOB_SUSPENDED || gandiva_over(ctx, job)) && need <= room && !comes_along(ctx, chosen, i);
        room -= chosen[i] ? need : 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct job *job = view_job(ctx->view, g->jobs[i]);

        if (!gandiva_over(ctx, job))
            continue;
        if (chosen[i])
            plan_word(plan, g->jobs[i], J_UNTIL, view_now(ctx->view) + gandiva_turn(ctx, job));
        else
            gandiva_suspend(ctx, plan, g->jobs[i]);
    }
    for (uint32_t i = 0; i < count; i++)
        if (chosen[i] && view_job(ctx->view, g->jobs[i])->state == JOB_SUSPENDED)
            (void)resume(ctx, plan, g->jobs[i]);
}

/* When the next turn ends; those that could not be disturbed yet are asked again when they can. */
static usec_t next_end(struct planner_ctx *ctx, struct plan *plan, uint32_t count)
{
    const struct gandiva *g = ctx->state;
    usec_t next = USEC_NEVER, now = view_now(ctx->view);

    for (uint32_t i = 0; i < count; i++) {
        const struct job *job = view_job(ctx->view, g->jobs[i]);
        usec_t at = job->word[J_UNTIL];

        if (!job_holds(job->state))
            continue;
        if (at <= now)
            at = plan_rested(plan, g->jobs[i]) ? now + USEC_SEC : job->disturbed + 60 * USEC_SEC;
        next = at < next ? at : next;
    }
    return next;
}

void gandiva_slice(struct planner_ctx *ctx, struct plan *plan)
{
    const struct topo *topo = &view_ledger(ctx->view)->topo;
    usec_t next = USEC_NEVER;

    if (gandiva_any(ctx) && ctx->vc->suspended)
        gandiva_pool(ctx, plan);
    for (uint32_t n = 0; n < topo->node_count; n++) {
        uint32_t count;
        usec_t end;

        if (gandiva_node(ctx, plan, n)[N_SUSPENDED] == 0)
            continue;
        count = gather(ctx, n);
        rotate(ctx, plan, count);
        deal(ctx, plan, n, count);
        end = next_end(ctx, plan, count);
        next = end < next ? end : next;
    }
    if (next != USEC_NEVER)
        plan_wake(plan, next);
}
