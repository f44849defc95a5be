/* SPDX-License-Identifier: Apache-2.0 */
/* planner_chronus.c - deadlines that are promised only when they can be kept (Chronus, Gao et al., SoCC'21).
 *
 * When a job with deadlines arrives it is promised one, or told the earliest that could have been (chronus_admit.c).
 * Time is cut into leases; promised jobs hold their GPUs in the leases of their plan (chronus_plan.c), on as few nodes
 * as possible (chronus_room.c). Everybody else, and promised jobs before their time, share what is left, shortest
 * remaining service first, reconsidered at every slot (chronus_rest.c).
 */
#include <errno.h>

#include "policy/chronus/chronus_mss.h"
#include "policy/list.h"

/* Whether nodes came or went since the plan was made. */
static bool health_changed(struct planner_ctx *ctx)
{
    struct chronus *c = ctx->state;
    const struct topo *topo = &view_ledger(ctx->view)->topo;
    uint64_t health = 0;

    for (uint32_t s = 0; s < topo->sku_count; s++)
        health = health * 1000003 + topo->pools[topo->sku_pools[s]].total + (uint64_t)ctx->vc->quota[s] * 31;
    if (health == c->health && c->lost == c->lost_seen)
        return false;
    c->health = health;
    c->lost_seen = c->lost;
    return true;
}

static void first_time(struct planner_ctx *ctx, struct plan *plan)
{
    struct chronus *c = ctx->state;

    if (c->unit[0])
        return;
    c->lease = view_now(ctx->view) / ctx->params[P_LEASE];
    c->recount_at = USEC_NEVER;
    plan_recount(ctx, plan);
    (void)health_changed(ctx);
}

static void lease_begins(struct planner_ctx *ctx, struct plan *plan)
{
    if (ctx->params[P_PROFILE])
        plan_recount(ctx, plan); /* the pool may have another size now */
    plan_advance(ctx, plan);
    admit_again(ctx, plan);
}

/* Elastic sizes: no leases, everything anew at every event. */
static void elastic_plan(struct planner_ctx *ctx, struct plan *plan)
{
    struct chronus *c = ctx->state;

    if (!plan_borrows(plan)) {
        first_time(ctx, plan);
        plan_recount(ctx, plan);
        profile_plan(ctx, plan);
        c->waits = mss_plan(ctx, plan);
    }
    /* What others are leaving for a promised job is not given to anybody else meanwhile. */
    if (!c->waits)
        rest_fill(ctx, plan);
    else
        plan_wake(plan, view_now(ctx->view) + USEC_SEC);
}

/* The next slot, or the next lease where that is no multiple of slots. */
static usec_t next_look(const struct planner_ctx *ctx)
{
    const struct chronus *c = ctx->state;
    usec_t lease = (c->lease + 1) * ctx->params[P_LEASE];

    return c->slot_at < lease ? c->slot_at : lease;
}

static void chronus_plan(struct planner_ctx *ctx, struct plan *plan)
{
    struct chronus *c = ctx->state;
    usec_t now = view_now(ctx->view), slot = ctx->params[P_SLOT];
    bool on_slot = now >= c->slot_at, moved = false, recounts = false;

    if (ctx->params[P_ELASTIC] != ELASTIC_OFF) {
        elastic_plan(ctx, plan);
        return;
    }
    if (!plan_borrows(plan)) {
        first_time(ctx, plan);
        if (health_changed(ctx))
            c->recount_at = now + 1; /* what was lost of jobs' progress is known then */
        if (now >= c->recount_at) {
            c->recount_at = USEC_NEVER;
            plan_recount(ctx, plan);
        }
        recounts =
            c->recount_at != USEC_NEVER; /* here, not beyond the guarantee: there it would be waited for in vain */
        if (now / ctx->params[P_LEASE] != c->lease) {
            lease_begins(ctx, plan);
            moved = room_pack(ctx, plan);
        }
        room_promised(ctx, plan);
        profile_plan(ctx, plan);
        if (on_slot && !moved)
            rest_slot(ctx, plan);
        if (on_slot)
            c->slot_at = now - now % slot + slot;
    }
    if (!moved)
        rest_fill(ctx, plan);
    if (ctx->vc->running || ctx->vc->queue.waiting)
        plan_wake(plan, moved || recounts ? now + 1 : next_look(ctx));
}

static void admit(struct planner_ctx *ctx, struct plan *plan, uint32_t job)
{
    if (ctx->params[P_ELASTIC] != ELASTIC_OFF)
        mss_admit(ctx, plan, job);
    else
        admit_job(ctx, plan, job);
}

static void chronus_timer(struct planner_ctx *ctx, struct plan *plan, uint32_t job)
{
    if (profile_over(ctx, plan, job))
        admit(ctx, plan, job);
}

static void chronus_queued(struct planner_ctx *ctx, struct plan *plan, uint32_t job)
{
    struct chronus *c = ctx->state;
    const struct job *j = view_job(ctx->view, job);

    c->vc = j->vc;
    first_time(ctx, plan);
    if (chronus_status(j) == STATUS_NEW) {
        if (!profile_wanted(ctx, plan, job))
            admit(ctx, plan, job);
        return;
    }
    if (chronus_status(j) == STATUS_PROFILING && !profile_wanted(ctx, plan, job))
        admit(ctx, plan, job);
    if (j->evictions > (uint32_t)j->word[WORD_NOTE]) {
        plan_word(plan, job, WORD_NOTE, j->evictions);
        c->lost++;
    }
}

static void chronus_ended(struct planner_ctx *ctx, struct plan *plan, uint32_t job)
{
    const struct job *j = view_job(ctx->view, job);

    struct chronus *c = ctx->state;

    (void)plan;
    c->filtered += chronus_status(j) == STATUS_PROFILING && j->first_start >= 0;
    mss_ended(ctx, job);
    if (chronus_status(j) == STATUS_PROMISED && ctx->params[P_ELASTIC] == ELASTIC_OFF)
        task_drop(ctx, chronus_task(ctx, j));
}

static void chronus_report(struct planner_ctx *ctx, struct plan *plan, uint32_t job, const struct report *report)
{
    mss_report(ctx, plan, job, report);
}

static const char *const elastic_choices[] = { "off", "mss", "once", NULL };

static const struct param chronus_params[] = {
    [P_LEASE] = { "lease", "how long a promised job holds its GPUs at least", PARAM_TIME, 20 * USEC_MIN, USEC_MIN,
                  USEC_DAY, NULL },
    [P_SLOT] = { "slot", "how often jobs without a promise are reconsidered", PARAM_TIME, 5 * USEC_MIN, USEC_SEC,
                 USEC_DAY, NULL },
    [P_SAFETY] = { "safety", "margin on estimates of run time", PARAM_RATIO, 1100000, PPM_ONE, 10 * PPM_ONE, NULL },
    [P_SAVE] = { "save", "time a job of one GPU takes to save its state", PARAM_TIME, 6 * USEC_SEC, 0, USEC_HOUR,
                 NULL },
    [P_RESTORE] = { "restore", "time it takes to go on from there", PARAM_TIME, 24 * USEC_SEC, 0, USEC_HOUR, NULL },
    [P_STAY] = { "stay", "how much less a running job without promise counts as having ahead of it", PARAM_RATIO,
                 200000, 0, PPM_ONE, NULL },
    [P_SEARCH] = { "search", "choices that may be tried inside a step", PARAM_COUNTER, 100000, 0, 100000000, NULL },
    [P_SPREAD] = { "spread", "least speed at which a job without promise may be spread over nodes; 1 = never",
                   PARAM_RATIO, PPM_ONE, 0, PPM_ONE, NULL },
    [P_SELECT] = { "select", "in overload, promise to jobs that need little before others", PARAM_SWITCH, 1, 0, 1,
                   NULL },
    [P_EXACT] = { "exact", "jobs up to which CBC is asked before a deadline is refused; 0 = never", PARAM_COUNTER, 32,
                  0, 500, NULL },
    [P_NODES] = { "nodes", "search nodes CBC may take", PARAM_COUNTER, 1000, 1, 1000000, NULL },
    [P_PROFILE] = { "profile", "how long a job is measured before it is admitted; 0 = not", PARAM_TIME, 0, 0, USEC_HOUR,
                    NULL },
    [P_POOL] = { "pool", "GPUs that jobs are measured on; 0 = by what arrives", PARAM_COUNTER, 0, 0, 1 << 20, NULL },
    [P_PER_USER] = { "per-user", "jobs of a user that are measured in an hour; 0 = any number", PARAM_COUNTER, 0, 0,
                     1000000, NULL },
    [P_ELASTIC] = { "elastic", "sizes: as asked for, by minimum satisfactory share, or so but chosen once",
                    PARAM_CHOICE, ELASTIC_OFF, 0, ELASTIC_ONCE, elastic_choices },
    [P_WORTH] = { "worth", "elastic: least gain of a GPU more, of what the first one gives", PARAM_RATIO, 100000, 0,
                  PPM_ONE, NULL },
    { 0 },
};

/* As struct chronus begins. */
static const char *const chronus_counters[] = { "promised_beside_plan",
                                                "promised_by_new_plan",
                                                "promised_by_search",
                                                "promised_exactly",
                                                "refusals_proved",
                                                "refused",
                                                "exact_asked",
                                                "exact_gap_ppm",
                                                "profiled",
                                                "filtered",
                                                NULL };

const struct planner_ops planner_chronus = {
    .name = "chronus",
    .summary = "leases for deadlines that were promised, the rest by shortest remaining service",
    .params = chronus_params,
    .sizes = true,
    .state_size = sizeof(struct chronus),
    .kept_size = offsetof(struct chronus, kept_end),
    .plan = chronus_plan,
    .check = profile_check,
    .queued = chronus_queued,
    .timer = chronus_timer,
    .ended = chronus_ended,
    .report = chronus_report,
    .profiles = true,
    .solved = admit_solved,
    .solve_words = CHRONUS_SOLVE,
    .counters = chronus_counters,
};
