/* SPDX-License-Identifier: Apache-2.0 */
/* A policy that proposes anything at all, beside one that is honest: the core keeps every invariant, and the honest one
 * has what it is owed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/contract/plan.h"
#include "core/core_internal.h"
#include "core/ledger/guest.h"
#include "policy/registry.h"
#include "sim/driver/driver.h"
#include "wire/cluster/cluster.h"

static void draw_gpus(const struct view *view, uint32_t *gpus, struct placement *ret)
{
    *ret = (struct placement){ gpus, (uint32_t)view_random(view, 4) };
    for (uint32_t i = 0; i < ret->count; i++)
        gpus[i] = i && view_random(view, 4) ? gpus[i - 1] + 1 : (uint32_t)view_random(view, 12);
}

static void propose(struct planner_ctx *ctx, struct plan *plan, uint32_t job)
{
    const struct view *view = ctx->view;
    uint32_t gpus[4];
    struct placement to;

    draw_gpus(view, gpus, &to);
    switch (view_random(view, 21)) {
    case 0:
        (void)plan_stop(plan, job, (enum stop_step)view_random(view, 5));
        break;
    case 1:
        (void)plan_keep(plan, job);
        break;
    case 2:
        (void)plan_move(plan, job, &to);
        break;
    case 3:
        (void)plan_reserve(plan, job, &to);
        break;
    case 4:
        plan_unreserve(plan, job);
        break;
    case 5:
        plan_relax(plan, job, (uint8_t)view_random(view, 4));
        break;
    case 6:
        plan_set_aside(plan, job, (enum reason)view_random(view, REASON_USER_LIMIT));
        break;
    case 7:
        plan_put_back(plan, job);
        break;
    case 8:
        plan_job_timer(plan, job, view_now(view) + (usec_t)view_random(view, 100) * USEC_SEC - 50 * USEC_SEC);
        break;
    case 9:
        plan_word(plan, job, (int)view_random(view, 8) - 2, 7);
        break;
    case 10:
        (void)plan_start_guest(plan, job, &to);
        break;
    case 11:
        (void)plan_suspend(plan, job);
        break;
    case 12:
        (void)plan_resume(plan, job);
        break;
    case 13:
        (void)plan_give_up(plan, job);
        break;
    case 14:
        (void)plan_enlist(plan, job, &to);
        break;
    case 15:
        if (plan_shape(plan, job) && plan_reclaim(plan, job, &to) == 0)
            (void)plan_start(plan, job, &to);
        break;
    case 16:
        if (plan_find(plan, plan_shape(plan, job), &to) == 0)
            (void)plan_start(plan, job, &to);
        break;
    case 18:
        plan_rekey(plan, job);
        break;
    case 17:
        plan_wake(plan, view_now(view) + (usec_t)view_random(view, 60) * USEC_SEC);
        break;
    default:
        (void)plan_start(plan, job, &to);
        break;
    }
}

static void chaos_plan(struct planner_ctx *ctx, struct plan *plan)
{
    uint64_t count = view_random(ctx->view, 30);

    for (uint64_t i = 0; i < count && ctx->view->core->job_top; i++)
        propose(ctx, plan, (uint32_t)view_random(ctx->view, ctx->view->core->job_top));
}

static void no_timer(struct planner_ctx *ctx, struct plan *plan, uint32_t job)
{
    (void)ctx;
    (void)plan;
    (void)job;
}

static const struct planner_ops planner_chaos = {
    .name = "chaos", .summary = "proposes anything", .plan = chaos_plan, .timer = no_timer
};

struct chaos {
    uint64_t bad, starts, never, kept; /* never, kept: jobs with such terms that were started */
    usec_t started[80];
    uint32_t looks; /* instants in a row that the honest one waits for what it is owed */
};

/* Whatever is proposed, nobody is a victim against his own terms. Counted from decisions, not asked of the core. */
static void note_terms(struct chaos *chaos, const struct core *core, const struct decision *decision)
{
    const struct jobspec *spec = &core_job(core, decision->job)->spec;

    switch ((int)decision->kind) {
    case DECISION_START:
    case DECISION_RESUME:
        chaos->started[decision->id] = decision->at;
        chaos->never += spec->preempt == PREEMPT_NEVER;
        chaos->kept += spec->min_runtime > 0;
        break;
    case DECISION_STOP:
    case DECISION_SUSPEND:
        assert_int_not_equal(spec->preempt, PREEMPT_NEVER);
        assert_true(decision->at - chaos->started[decision->id] >= spec->min_runtime);
        break;
    case DECISION_MIGRATE:
        assert_int_not_equal(spec->preempt, PREEMPT_NEVER);
        break;
    default:
        break;
    }
}

static void note(void *arg, const struct core *core, const struct decision *decision, const uint32_t *gpus)
{
    struct chaos *chaos = arg;

    (void)gpus;
    note_terms(chaos, core, decision);
    chaos->bad += decision->kind == DECISION_BAD;
    chaos->starts += decision->kind == DECISION_START && decision->vc == 1;
}

/* Whether one GPU could be had by whoever is owed it: it is free, or held by one that may be stopped for that. A gang
 * whose loss would leave its virtual cluster with less than it is owed may not. */
static bool could_have(const struct core *core)
{
    const struct vc *other = &core->vcs[1];

    if (view_free(&core->view, 0) > 0)
        return true;
    for (uint32_t i = 0; i < core->job_top; i++) {
        const struct job *job = &core->jobs[i];

        if (job->vc != 1 || (job->state != JOB_RUNNING && job->state != JOB_STARTING) || guest_is(core, job))
            continue;
        if (job->spec.preempt == PREEMPT_NEVER || job->spec.min_runtime)
            continue;
        if (job->klass == CLASS_OPPORTUNISTIC || other->used[0] - job_amount(job) >= other->quota[0])
            return true;
    }
    return other->kept[0] > 0 && other->used[0] + (int64_t)other->kept[0] * MGPU_ONE > other->quota[0];
}

enum { LOOKS_MAX = 8 };

static void audit(void *arg, const struct core *core)
{
    struct chaos *chaos = arg;
    bool owed = false;

    core_audit(core);
    /* The honest one, inside its quota, has what it is owed whenever an instant is settled; or, where the other gave it
     * back or moved it after its turn, is looked at a microsecond on, and has it soon. */
    for (uint32_t i = 0; i < core->job_top; i++)
        owed |= core->jobs[i].vc == 0 && job_waits(core->jobs[i].state) && could_have(core) &&
                core->vcs[0].used[0] + job_demand(&core->jobs[i]) <= core->vcs[0].quota[0];
    chaos->looks = owed ? chaos->looks + 1 : 0;
    assert_true(chaos->looks <= LOOKS_MAX);
    if (owed)
        assert_true(core_next_wake(core) <= core->now + 1);
}

static void draw_chaos(struct rng *rng, struct trace *trace, uint32_t *vcs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct trace_job job;

        trace_job_init(&job);
        job.spec.id = i;
        job.spec.submit = (usec_t)i * 20 * USEC_SEC;
        vcs[i] = rng_below(rng, 3) != 0;
        if (vcs[i] && rng_below(rng, 3) == 0)
            job.spec.klass = CLASS_OPPORTUNISTIC;
        if (vcs[i] && rng_below(rng, 3) == 0)
            job.spec.gpus_max = 3;
        if (job.spec.klass != CLASS_OPPORTUNISTIC && rng_below(rng, 6) == 0)
            job.spec.preempt = PREEMPT_NEVER;
        else if (job.spec.klass != CLASS_OPPORTUNISTIC && rng_below(rng, 6) == 0)
            job.spec.min_runtime = (usec_t)(1 + rng_below(rng, 100)) * USEC_SEC;
        job.truth.duration = (usec_t)(1 + rng_below(rng, 300)) * USEC_SEC;
        assert_int_equal(trace_add(trace, &job), 0);
    }
}

static void chaos(void **state)
{
    struct chaos seen = { 0 };

    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct policy_setup policies[2];
        uint32_t vcs[80];
        struct trace trace = { 0 };
        struct run_result result = { 0 };
        struct cluster_spec cluster = { 0 };
        struct error err = { 0 };
        struct vc_spec two[2] = { { .policy = NAME_NONE, .quota = { 4 }, .borrow_max = -1 },
                                  { .policy = NAME_NONE, .quota = { 4 }, .borrow_max = -1 } };
        struct driver_config config = { .trace = &trace,
                                        .cluster = &cluster,
                                        .policies = policies,
                                        .job_vcs = vcs,
                                        .seed = seed,
                                        .until = 3 * USEC_HOUR,
                                        .on_decision = note,
                                        .on_decision_arg = &seen,
                                        .on_instant = audit,
                                        .on_instant_arg = &seen };
        struct vc_spec *own;
        struct rng rng;

        rng_seed(&rng, seed);
        assert_int_equal(cluster_parse("2x4", &cluster, NULL), 0);
        own = cluster.vcs;
        cluster.vcs = two;
        cluster.vc_count = 2;
        world_config_init(&config.world);
        policy_setup(policy_find("fifo-skip"), &policies[0]);
        policy_setup(policy_find("fifo-skip"), &policies[1]);
        policies[1].planner = &planner_chaos;
        draw_chaos(&rng, &trace, vcs, 80);
        seen.looks = 0;
        if (driver_run(&config, &result, &err) < 0)
            fail_msg("seed %d: %s", (int)seed, err.text);
        for (uint32_t i = 0; i < 80; i++)
            if (vcs[i] == 0)
                assert_int_equal(result.jobs[i].outcome, OUTCOME_DONE);
        run_result_done(&result);
        trace_done(&trace);
        cluster.vcs = own;
        cluster_spec_done(&cluster);
    }
    assert_true(seen.bad > 1000);
    assert_true(seen.starts > 100);
    assert_true(seen.never > 100);
    assert_true(seen.kept > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(chaos) };

    return cmocka_run_group_tests_name("core_chaos", tests, NULL, NULL);
}
