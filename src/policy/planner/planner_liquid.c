/* SPDX-License-Identifier: Apache-2.0 */
/* planner_liquid.c - first come, and successors launched early (Liquid, spec section 6.1).
 *
 * Walks the order and starts what fits, strictly or with skipping. With prestart=on, when the cluster is loaded and no
 * GPU is vacant, a waiting job of one GPU is launched behind a running one that is about to end by its predicted times:
 * once it has run longer than total - save - launch of the new job - extra. The new job loads its program and data and
 * waits at a gate (plan_prepare). The gate opens when the GPU is seen idle, while the predecessor still saves its
 * result (plan_yield), or when the predecessor is gone.
 *
 * A wrong prediction costs the successor nothing but waiting: it stands at its gate no longer than gate-timeout, and a
 * GPU that falls free elsewhere is given to it at once, as if it had never been launched.
 */
#include <errno.h>

#include "core/contract/plan.h"
#include "core/contract/view.h"
#include "core/planning/gang_parts.h"
#include "model/event.h"
#include "model/measure.h"
#include "policy/list.h"
#include "solve/demand.h"

enum { P_MODE, P_PRESTART, P_LOAD, P_EXTRA, P_TIMEOUT };
enum { MODE_STRICT, MODE_SKIP };
enum { GATES_MAX = 1024 };

/* Words of a job: when it last gave up at a gate; whether its GPUs were seen idle, and what it had of their memory then
 * (MiB; 0 = not told). */
enum { WORD_GAVE_UP, WORD_IDLE, WORD_HAD };

/* A job at its gate, and whom it waits for. */
struct gate {
    uint32_t job, gen, after, after_gen;
    int64_t since;
};

struct liquid {
    struct gate gates[GATES_MAX];
    uint32_t gate_count;
    uint32_t unused;
    /* Of a pass. */
    bool hopeless[SHAPES_MAX];
};

/* ---- the walk ---- */

static uint32_t first_waiting(const struct planner_ctx *ctx)
{
    const struct liquid *l = ctx->state;
    const struct queue *queue = &ctx->vc->queue;
    const struct tree_node *tree = view_tree(ctx->view);
    uint32_t best = TREE_NONE;

    for (uint32_t i = 0; i < queue->live_count; i++) {
        uint32_t cls = queue->live[i], job;

        if (l->hopeless[cls])
            continue;
        job = tree_first(tree, queue->shapes[cls].root);
        if (job != TREE_NONE && (best == TREE_NONE || rank_before(&tree[job].rank, &tree[best].rank)))
            best = job;
    }
    return best;
}

static int try_start(struct plan *plan, uint32_t job)
{
    struct placement to;
    int r = plan_find(plan, plan_shape(plan, job), &to);

    if (r < 0 && r != -EDQUOT && !plan_borrows(plan))
        r = plan_reclaim(plan, job, &to);
    return r < 0 ? r : plan_start(plan, job, &to);
}

static void walk(struct planner_ctx *ctx, struct plan *plan)
{
    struct liquid *l = ctx->state;
    const struct queue *queue = &ctx->vc->queue;
    uint32_t job;

    for (uint32_t i = 0; i < queue->live_count; i++)
        l->hopeless[queue->live[i]] = !plan_considers(plan, &queue->shapes[queue->live[i]]);
    while ((job = first_waiting(ctx)) != TREE_NONE) {
        if (try_start(plan, job) == 0)
            continue;
        if (ctx->params[P_MODE] == MODE_STRICT)
            return;
        l->hopeless[view_job(ctx->view, job)->shape] = true;
    }
}

/* ---- gates ---- */

static bool is_there(const struct planner_ctx *ctx, uint32_t job, uint32_t gen)
{
    const struct job *j = view_job(ctx->view, job);

    return j->gen == gen && j->state != JOB_FREE;
}

static void forget_gate(struct liquid *l, uint32_t at)
{
    for (uint32_t i = at + 1; i < l->gate_count; i++)
        l->gates[i - 1] = l->gates[i];
    l->gate_count--;
}

static struct demand_stages stages(const struct job *job)
{
    return demand_stages(job->spec.launch, job->spec.save, job->spec.launch + job->spec.estimate + job->spec.save);
}

/* Whether both fit in the memory of a GPU, where it is told: the predecessor may hold its own until it has ended. Where
 * that was measured, who does not tell what it wants is taken to want nearly all. */
static bool memory_fits(const struct planner_ctx *ctx, const struct job *before, const struct job *job)
{
    int64_t size = view_ledger(ctx->view)->topo.sku_memory[before->sku], had = before->word[WORD_HAD];
    int64_t wants = job->spec.memory_mib ? job->spec.memory_mib : had ? size - size / 8 : 0;

    had = had ? had : before->spec.memory_mib;
    return size == 0 || had == 0 || wants == 0 || had + wants <= size;
}

/* Opens the gate if it can be; else says whether the job goes on waiting at it. */
static bool keep_gate(struct planner_ctx *ctx, struct plan *plan, const struct gate *gate)
{
    const struct job *job = view_job(ctx->view, gate->job), *before = view_job(ctx->view, gate->after);
    bool there = is_there(ctx, gate->after, gate->after_gen);

    if (!is_there(ctx, gate->job, gate->gen) || job->state != JOB_SUSPENDED || !job->prepared)
        return false; /* cancelled, or its node is gone */
    if (there && before->state == JOB_RUNNING && before->word[WORD_IDLE] && memory_fits(ctx, before, job))
        (void)plan_yield(plan, gate->after);
    if (!there || before->state != JOB_RUNNING) {
        if (plan_resume(plan, gate->job) == 0)
            return false;
        if (there && before->yields)
            return true; /* no budget in this phase */
    }
    if (there && before->state == JOB_RUNNING && view_now(ctx->view) - gate->since < ctx->params[P_TIMEOUT] &&
        view_free(ctx->view, job->sku) == 0)
        return true;
    if (!plan_borrows(plan) && there && before->state != JOB_RUNNING && before->state != JOB_SUSPENDED)
        return true; /* it is being stopped or moved: the next pass knows */
    plan_word(plan, gate->job, WORD_GAVE_UP, view_now(ctx->view));
    (void)plan_give_up(plan, gate->job);
    return false;
}

static void open_gates(struct planner_ctx *ctx, struct plan *plan)
{
    struct liquid *l = ctx->state;

    for (uint32_t i = 0; i < l->gate_count;)
        if (keep_gate(ctx, plan, &l->gates[i]))
            i++;
        else
            forget_gate(l, i);
}

static bool guarded(const struct liquid *l, uint32_t job)
{
    for (uint32_t i = 0; i < l->gate_count; i++)
        if (l->gates[i].after == job)
            return true;
    return false;
}

/* When a successor with this launch time may be put behind the job; USEC_NEVER. */
static usec_t ready_at(const struct planner_ctx *ctx, uint32_t index, const struct job *next)
{
    const struct job *job = view_job(ctx->view, index);
    const struct ledger *ledger = view_ledger(ctx->view);
    uint32_t share = view_shares(ctx->view, index);
    struct demand_stages s = stages(job);
    usec_t now = view_now(ctx->view), left;

    if (!job_holds(job->state) || job_held(job) != 1 || job->spec.share != MGPU_ONE || job->spec.estimate == 0 ||
        share == SHARE_NONE || ledger->shares[share].role != ROLE_OWNER ||
        ledger->gpus[ledger->shares[share].gpu].guests || guarded(ctx->state, index) ||
        !(ctx->vc->queue.shapes[next->shape].shape.sku_mask >> job->sku & 1))
        return USEC_NEVER;
    if (job->state != JOB_RUNNING || job->planned) { /* nothing goes behind it before it runs */
        usec_t at = job->last_start + demand_start_after(&s, next->spec.launch, ctx->params[P_EXTRA]);

        return at > now ? at + 1 : now + USEC_SEC;
    }
    /* One that was launched early has its launch behind it as well: progress tells, not the clock. */
    left = demand_start_after(&s, next->spec.launch, ctx->params[P_EXTRA]) - s.launch - job_progress(job, now);
    return now + (left > 0 && job->rate > 0 ? muldiv_ceil(left, PPM_ONE, job->rate) : left) + 1;
}

/* Puts the job behind the running one that is ready for the longest. Returns when another will be, if none is. */
static usec_t prestart_one(struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    struct liquid *l = ctx->state;
    const struct job *job = view_job(ctx->view, index);
    usec_t now = view_now(ctx->view), best_at = USEC_NEVER;
    uint32_t best = JOB_NONE, gpu;

    for (uint32_t i = ctx->vc->run_first; i != JOB_NONE; i = view_job(ctx->view, i)->next) {
        usec_t at = ready_at(ctx, i, job);

        if (at < best_at) {
            best = i;
            best_at = at;
        }
    }
    if (best == JOB_NONE || best_at > now || l->gate_count == GATES_MAX)
        return best_at > now ? best_at : USEC_NEVER;
    gpu = view_ledger(ctx->view)->shares[view_job(ctx->view, best)->shares].gpu;
    if (plan_enlist(plan, index, &(struct placement){ &gpu, 1 }) < 0 || plan_prepare(plan, index) < 0)
        return USEC_NEVER;
    l->gates[l->gate_count++] =
        (struct gate){ index, job->gen, best, view_job(ctx->view, best)->gen, view_now(ctx->view) };
    return now;
}

/* Jobs of one GPU, in order, while some running one is about to end. */
static void prestart(struct planner_ctx *ctx, struct plan *plan)
{
    struct liquid *l = ctx->state;
    const struct queue *queue = &ctx->vc->queue;
    usec_t wake = USEC_NEVER;
    uint32_t index;

    if (view_held(ctx->view) * PPM_ONE < view_capacity(ctx->view) * ctx->params[P_LOAD])
        return;
    for (uint32_t i = 0; i < queue->live_count; i++) {
        const struct shape *shape = &queue->shapes[queue->live[i]].shape;

        l->hopeless[queue->live[i]] = shape->gpus != 1 || shape->share != MGPU_ONE || shape->per_node ||
                                      shape->side_count || !plan_considers(plan, &queue->shapes[queue->live[i]]);
    }
    while ((index = first_waiting(ctx)) != TREE_NONE) {
        const struct job *job = view_job(ctx->view, index);
        uint32_t shape = job->shape;
        usec_t at;

        /* One that gave up at a gate is not sent to another before the time of a gate has gone by. */
        if (job->resumes ||
            (job->word[WORD_GAVE_UP] && view_now(ctx->view) - job->word[WORD_GAVE_UP] < ctx->params[P_TIMEOUT]))
            at = job->resumes ? USEC_NEVER : job->word[WORD_GAVE_UP] + ctx->params[P_TIMEOUT];
        else
            at = prestart_one(ctx, plan, index);
        if (at == view_now(ctx->view))
            continue;
        wake = at < wake ? at : wake;
        l->hopeless[shape] = true;
    }
    for (uint32_t i = 0; i < l->gate_count; i++)
        if (l->gates[i].since + ctx->params[P_TIMEOUT] < wake)
            wake = l->gates[i].since + ctx->params[P_TIMEOUT];
    if (wake != USEC_NEVER)
        plan_wake(plan, wake);
}

static void liquid_plan(struct planner_ctx *ctx, struct plan *plan)
{
    open_gates(ctx, plan);
    walk(ctx, plan);
    if (ctx->params[P_PRESTART] && !plan_for_guests(plan))
        prestart(ctx, plan);
}

/* Whoever comes back to the queue uses its GPUs anew when it has some. */
static void liquid_queued(struct planner_ctx *ctx, struct plan *plan, uint32_t job)
{
    (void)ctx;
    plan_word(plan, job, WORD_IDLE, 0);
    plan_word(plan, job, WORD_HAD, 0);
}

static void liquid_report(struct planner_ctx *ctx, struct plan *plan, uint32_t job, const struct report *report)
{
    const struct liquid *l = ctx->state;

    if (report->kind != MEASURE_IDLE || view_job(ctx->view, job)->state != JOB_RUNNING)
        return;
    plan_word(plan, job, WORD_IDLE, report->value[0] == 0);
    plan_word(plan, job, WORD_HAD, report->value[1] > 0 ? report->value[1] : 0);
    if (guarded(l, job))
        plan_wake(plan, view_now(ctx->view) + 1);
}

static const char *const mode_choices[] = { "strict", "skip", NULL };

static const struct param liquid_params[] = {
    [P_MODE] = { "mode", "at a job that does not fit: stop, or go on", PARAM_CHOICE, MODE_SKIP, 0, MODE_SKIP,
                 mode_choices },
    [P_PRESTART] = { "prestart", "launch successors before their GPU is free", PARAM_SWITCH, 0, 0, 1, NULL },
    [P_LOAD] = { "prestart-load", "part of the GPUs that must be held for that", PARAM_RATIO, 950000, 0, PPM_ONE,
                 NULL },
    [P_EXTRA] = { "prestart-extra", "launched so much earlier than predicted times tell", PARAM_TIME, 15 * USEC_SEC, 0,
                  USEC_DAY, NULL },
    [P_TIMEOUT] = { "gate-timeout", "a successor stands at its gate no longer", PARAM_TIME, 300 * USEC_SEC, USEC_SEC,
                    USEC_DAY, NULL },
    { 0 },
};

const struct planner_ops planner_liquid = {
    .name = "liquid",
    .summary = "walk the order and start what fits; launch successors early",
    .params = liquid_params,
    .state_size = sizeof(struct liquid),
    .kept_size = offsetof(struct liquid, hopeless),
    .by_rank = true,
    .sides = true,
    .plan = liquid_plan,
    .queued = liquid_queued,
    .report = liquid_report,
    .idles = true,
};
