/* SPDX-License-Identifier: Apache-2.0 */
/* chronus_admit.c - whether a deadline is promised.
 *
 * Several ways, the quickest first. Beside the plan as it is: leases with room, from the latest backwards; this answers
 * nearly always, in microseconds. A proof that nothing helps: the first leases cannot hold what cannot be put later.
 * The whole plan made anew by lease_greedy() and lease_backward(). A search, for few jobs; and at last CBC,
 * outside of the step (exact): the job goes on without a promise until the answer comes.
 *
 * Who is refused is told the earliest deadline that could have been promised, and is tried again at every lease.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "policy/chronus/chronus.h"
#include "solve/lease_words.h"

void chronus_become(struct plan *plan, const struct planner_ctx *ctx, uint32_t job, enum chronus_status status)
{
    const struct job *j = view_job(ctx->view, job);

    if (chronus_status(j) == status)
        return;
    plan_word(plan, job, WORD_STATUS, status);
    if (job_holds(j->state) || (job_waits(j->state) && j->shape != UINT32_MAX))
        plan_rekey(plan, job);
}

static struct wish wish_of(const struct planner_ctx *ctx, const struct job *job, uint16_t sku)
{
    const struct chronus *c = ctx->state;
    struct lease_times times = chronus_times(ctx);

    return (struct wish){ .left = chronus_left(ctx, job),
                          .size = lease_round_up(job->spec.gpus, (int32_t)c->unit[sku]),
                          .sku = sku,
                          .cost = lease_cost(&times, job->spec.gpus) };
}

static bool allowed(const struct planner_ctx *ctx, const struct job *job, uint32_t sku)
{
    return chronus_types(ctx, job) >> sku & 1;
}

/* ---- overload ---- */

/* What arrived fades with this; and how much has to be seen before it is believed. */
#define LOAD_FADES (2 * USEC_DAY)
enum { LOAD_LEAST = 64 };

/* GPU-seconds. */
static int64_t service_of(const struct job *job, int32_t size)
{
    return job->spec.estimate / USEC_SEC * size;
}

/* Four to a factor of two. */
static int bucket_of(int64_t service)
{
    int bits = service > 0 ? 63 - __builtin_clzll((uint64_t)service) : 0, quarter;

    quarter = bits >= 2 ? (int)(service >> (bits - 2) & 3) : 0;
    return bits * 4 + quarter < CHRONUS_BUCKETS ? bits * 4 + quarter : CHRONUS_BUCKETS - 1;
}

static void fade(struct planner_ctx *ctx)
{
    struct chronus *c = ctx->state;
    usec_t now = view_now(ctx->view), span = now - c->load_at;

    if (span < 10 * USEC_MIN)
        return;
    if (span > LOAD_FADES / 2)
        span = LOAD_FADES / 2;
    for (int i = 0; i < CHRONUS_BUCKETS; i++)
        c->load[i] -= muldiv_floor(c->load[i], span, LOAD_FADES);
    c->load_span += now - c->load_at - muldiv_floor(c->load_span, span, LOAD_FADES);
    c->load_at = now;
}

static void note_arrival(struct planner_ctx *ctx, const struct job *job)
{
    struct chronus *c = ctx->state;
    int64_t service = service_of(job, job->spec.gpus);

    if (!c->load_count++)
        c->load_at = view_now(ctx->view);
    fade(ctx);
    c->load[bucket_of(service)] += service;
}

/* GPUs that jobs with less service than this have kept busy lately; and all. */
static int64_t demand_below(const struct planner_ctx *ctx, int64_t service, int64_t *ret_all)
{
    const struct chronus *c = ctx->state;
    int64_t below = 0, all = 0, span = (c->load_span + view_now(ctx->view) - c->load_at) / USEC_SEC;
    int bucket = bucket_of(service);

    *ret_all = 0;
    if (c->load_count < LOAD_LEAST || span < 6 * 3600)
        return 0;
    for (int i = 0; i < CHRONUS_BUCKETS; i++) {
        all += c->load[i];
        below += i < bucket ? c->load[i] : 0;
    }
    *ret_all = all / span;
    return below / span;
}

/* In overload somebody must be refused. Jobs that need much leave room for as many GPUs as those that need less have
 * kept busy lately: one large job refused is many small ones served. */
static void spare(struct planner_ctx *ctx, const struct job *job, struct wish *wish)
{
    struct chronus *c = ctx->state;
    int64_t service = service_of(job, wish->size), all, below = demand_below(ctx, service, &all);

    if (!ctx->params[P_SELECT] || all * 10 < (int64_t)c->capacity[wish->sku] * 9)
        return;
    wish->others = c->large;
    wish->spared = (int32_t)(below < c->capacity[wish->sku] ? below : c->capacity[wish->sku]);
    /* For one job's next deadline, or one like it, nothing has changed. */
    if (c->large_sku == wish->sku && c->large_bucket == bucket_of(service / 2) + 1 && c->large_version == c->version)
        return;
    c->large_sku = wish->sku;
    c->large_bucket = bucket_of(service / 2) + 1;
    c->large_version = c->version;
    memset(c->large, 0, sizeof(c->large));
    for (uint32_t i = 0; i < c->task_top; i++) {
        const struct task *t = &c->tasks[i];

        if (!t->live || t->sku != wish->sku || t->bucket + 1 < c->large_bucket)
            continue;
        for (int w = 0; w < CHRONUS_WORDS; w++)
            for (uint64_t left = t->bits[w]; left; left &= left - 1)
                c->large[w * 64 + __builtin_ctzll(left)] += t->size;
    }
}

/* ---- the ways ---- */

static void promise(struct planner_ctx *ctx, struct plan *plan, uint32_t job, const struct wish *wish,
                    const uint64_t *bits)
{
    const struct job *j = view_job(ctx->view, job);
    struct task *task = task_add(ctx, plan, job, wish, bits);
    int step = 0;

    assert(task);
    task->bucket = (uint16_t)bucket_of(service_of(j, wish->size));
    while (j->spec.deadlines[step].at < wish->due)
        step++;
    task->step = (uint8_t)step;
    chronus_become(plan, ctx, job, STATUS_PROMISED);
    plan_promise(plan, job, j->spec.deadlines[j->spec.deadline_count - 1].at);
}

static bool quick(struct planner_ctx *ctx, const struct wish *wish, uint64_t *bits)
{
    struct chronus *c = ctx->state;

    if (!plan_wish_fill(ctx, wish, bits))
        return false;
    c->quick++;
    return true;
}

/* The whole plan anew, from the next lease on. */
static bool anew(struct planner_ctx *ctx, const struct wish *wish, uint64_t *bits)
{
    struct chronus *c = ctx->state;
    struct lease_problem problem;
    struct lease_plan plan = { c->plan_bits, c->plan_used, c->plan_step };
    int32_t count = plan_problem(ctx, wish, wish->sku, &problem);

    if (count < 1 || problem.leases > CHRONUS_LEASES || (int64_t)count * problem.leases > ctx->params[P_SEARCH])
        return false;
    if (lease_greedy(&problem, &plan, c->order) ||
        lease_backward(&problem, &plan, c->order, c->order + 2 * CHRONUS_TASKS)) {
        c->rebuilt++;
    } else if (lease_search(&problem, ctx->params[P_SEARCH], &plan) == 1) {
        c->searched++;
    } else {
        return false;
    }
    plan_accept(ctx, &problem, c->plan_bits, bits);
    return true;
}

/* Has CBC look for a plan, outside of the step. The job goes on without a promise until the answer comes. */
static void ask(struct planner_ctx *ctx, struct plan *plan, uint32_t job, const struct wish *wish)
{
    struct chronus *c = ctx->state;
    const struct job *j = view_job(ctx->view, job);
    struct lease_problem problem;
    int32_t count = plan_problem(ctx, wish, wish->sku, &problem);

    if (count < 1 || count > ctx->params[P_EXACT] || (int64_t)count * problem.leases > LEASE_MILP_CELLS ||
        lease_request_size(&problem) > CHRONUS_SOLVE || lease_answer_size(&problem) > CHRONUS_SOLVE)
        return;
    lease_request(&problem, ctx->params[P_NODES], c->words);
    if (plan_solve(plan, SOLVE_LEASES, c->words, lease_request_size(&problem)) < 0)
        return;
    c->asked++;
    c->asked_for = (struct job_ref){ job, j->gen };
    c->asked_sku = wish->sku;
    for (c->asked_step = 0; j->spec.deadlines[c->asked_step].at < wish->due;)
        c->asked_step++;
}

static bool try_deadline(struct planner_ctx *ctx, struct plan *plan, uint32_t job, struct wish *wish)
{
    struct chronus *c = ctx->state;
    const struct job *j = view_job(ctx->view, job);
    uint64_t bits[CHRONUS_WORDS];
    bool waits = job_waits(j->state);

    if (c->task_count == CHRONUS_TASKS || c->capacity[wish->sku] < wish->size)
        return false;
    wish->now = waits && (wish->size == 1 || room_possible(ctx, wish->sku, wish->size, j->spec.kept));
    if (!quick(ctx, wish, bits)) {
        if (wish->others)
            return false;
        if (plan_impossible(ctx, wish)) {
            c->proved++;
            return false;
        }
        if (!anew(ctx, wish, bits)) {
            ask(ctx, plan, job, wish);
            return false;
        }
    }
    promise(ctx, plan, job, wish, bits);
    return true;
}

static bool try_promise(struct planner_ctx *ctx, struct plan *plan, uint32_t job, usec_t *ret_offer)
{
    const struct job *j = view_job(ctx->view, job);

    for (int p = 0; p < j->spec.deadline_count; p++)
        for (uint32_t sku = 0; sku < view_sku_count(ctx->view); sku++) {
            struct wish wish;

            if (!allowed(ctx, j, sku))
                continue;
            wish = wish_of(ctx, j, (uint16_t)sku);
            wish.due = j->spec.deadlines[p].at;
            spare(ctx, j, &wish);
            if (wish.due > view_now(ctx->view) && try_deadline(ctx, plan, job, &wish))
                return true;
            if (ret_offer && p + 1 == j->spec.deadline_count) {
                usec_t offer = plan_earliest(ctx, &wish);

                *ret_offer = offer < *ret_offer ? offer : *ret_offer;
            }
        }
    return false;
}

/* Whether a deadline can still be kept, by the job's own estimate. */
static bool in_time(const struct planner_ctx *ctx, const struct job *job)
{
    usec_t now = view_now(ctx->view);

    return job->spec.deadline_count &&
           now + chronus_remaining(ctx, job) <= job->spec.deadlines[job->spec.deadline_count - 1].at;
}

static void remember(struct planner_ctx *ctx, uint32_t job)
{
    struct chronus *c = ctx->state;

    if (c->unsure_count < CHRONUS_UNSURE)
        c->unsure[c->unsure_count++] = (struct job_ref){ job, view_job(ctx->view, job)->gen };
}

void admit_job(struct planner_ctx *ctx, struct plan *plan, uint32_t job)
{
    const struct job *j = view_job(ctx->view, job);
    struct chronus *c = ctx->state;
    usec_t offer = USEC_NEVER;

    note_arrival(ctx, j);
    if (!j->spec.deadline_count) {
        chronus_become(plan, ctx, job, STATUS_BEST_EFFORT);
        return;
    }
    if (chronus_promisable(j) && try_promise(ctx, plan, job, &offer))
        return;
    c->refused++;
    plan_decline(plan, job, offer);
    chronus_become(plan, ctx, job, in_time(ctx, j) || !j->spec.estimate ? STATUS_UNSURE : STATUS_HOPELESS);
    if (chronus_status(j) == STATUS_UNSURE)
        remember(ctx, job);
}

void admit_again(struct planner_ctx *ctx, struct plan *plan)
{
    struct chronus *c = ctx->state;
    uint32_t kept = 0, count = c->unsure_count;

    for (uint32_t i = 0; i < count; i++) {
        struct job_ref ref = c->unsure[i];
        const struct job *j = view_job(ctx->view, ref.index);

        if (j->gen != ref.gen || chronus_status(j) != STATUS_UNSURE)
            continue;
        if ((job_waits(j->state) || job_holds(j->state)) && !j->planned && chronus_promisable(j) &&
            try_promise(ctx, plan, ref.index, NULL))
            continue;
        if (!in_time(ctx, j)) {
            chronus_become(plan, ctx, ref.index, STATUS_HOPELESS);
            continue;
        }
        c->unsure[kept++] = ref;
    }
    c->unsure_count = kept;
}

/* The answer is held against the plan as it is now: jobs may have come and gone since it was asked for. */
void admit_solved(struct planner_ctx *ctx, struct plan *plan, const struct solution *solution)
{
    struct chronus *c = ctx->state;
    const struct job *j = view_job(ctx->view, c->asked_for.index);
    struct lease_plan found = { c->plan_bits, c->plan_used, c->plan_step };
    struct lease_problem problem;
    uint64_t bits[CHRONUS_WORDS];
    struct wish wish;

    if (solution->kind != SOLVE_LEASES || solution->count < LEASE_ANSWER_HEAD || j->gen != c->asked_for.gen ||
        chronus_status(j) != STATUS_UNSURE || !(job_waits(j->state) || job_holds(j->state)) ||
        c->task_count == CHRONUS_TASKS)
        return;
    wish = wish_of(ctx, j, c->asked_sku);
    wish.due = j->spec.deadlines[c->asked_step].at;
    if (plan_problem(ctx, &wish, wish.sku, &problem) < 1 ||
        !lease_answer(&problem, solution->words, solution->count, &found))
        return;
    c->gap = solution->words[1];
    c->solved++;
    plan_accept(ctx, &problem, c->plan_bits, bits);
    promise(ctx, plan, c->asked_for.index, &wish, bits);
}
