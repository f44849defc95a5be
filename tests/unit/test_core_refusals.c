/* SPDX-License-Identifier: Apache-2.0 */
/* Policies that are wrong on purpose. Whatever they propose, the core refuses what it must, records it, and keeps every
 * invariant; a virtual cluster beside them has what it is owed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "core/plan.h"
#include "core/state.h"
#include "policy/registry.h"
#include "sim/driver.h"
#include "wire/cluster.h"

/* ---- one misdeed at a time ---- */

/* What the wrong planner does when it is asked; set by each test. */
static void (*misdeed)(struct planner_ctx *ctx, struct plan *plan);
static int misdeeds;

static void wrong_plan(struct planner_ctx *ctx, struct plan *plan)
{
    if (misdeed && !plan_borrows(plan)) {
        misdeed(ctx, plan);
        misdeeds++;
    }
}

static void wrong_timer(struct planner_ctx *ctx, struct plan *plan, uint32_t job)
{
    (void)ctx;
    (void)plan;
    (void)job;
}

static const struct planner_ops planner_wrong = {
    .name = "wrong", .summary = "does what it should not", .plan = wrong_plan, .timer = wrong_timer
};

struct bench {
    struct cluster_spec cluster;
    struct core *core;
    uint32_t honest, wrong; /* a job of each virtual cluster */
};

/* Node 0 and 1 have four GPUs of type T0, node 2 two of T1. Virtual cluster 0 is honest and owed four, 1 is wrong and
 * owed two. */
static void setup(struct bench *b)
{
    struct policy_setup policies[2];
    struct core_config config = { .limits = { .jobs = 16 }, .policies = policies };
    struct vc_spec *vcs = b->cluster.vcs;

    *b = (struct bench){ 0 };
    misdeed = NULL;
    misdeeds = 0;
    assert_int_equal(cluster_parse("2x4:T0 + 1x2:T1", &b->cluster, NULL), 0);
    vcs = b->cluster.vcs = mem_resize(b->cluster.vcs, 2, sizeof(*vcs));
    assert_non_null(vcs);
    b->cluster.vc_count = 2;
    vcs[0] = (struct vc_spec){ .policy = NAME_NONE, .quota = { 4 }, .borrow_max = -1 };
    vcs[1] = (struct vc_spec){ .policy = NAME_NONE, .quota = { 2, 1 }, .borrow_max = 1 };
    policy_setup(policy_find("fifo-skip"), &policies[0]);
    policy_setup(policy_find("fifo-skip"), &policies[1]);
    policies[1].planner = &planner_wrong;
    assert_int_equal(core_new(&b->cluster, &config, &b->core, NULL), 0);
}

static void teardown(struct bench *b)
{
    core_audit(b->core);
    core_free(b->core);
    cluster_spec_done(&b->cluster);
}

static uint32_t submit(struct bench *b, uint32_t vc, int32_t gpus, usec_t at)
{
    static int64_t id;
    struct jobspec spec = { .id = ++id,
                            .submit = at,
                            .estimate = USEC_HOUR,
                            .gpus = gpus,
                            .gpus_min = gpus,
                            .gpus_max = gpus,
                            .share = MGPU_ONE,
                            .sku_mask = 1 };
    struct event event = { .kind = EVENT_SUBMIT, .target = vc, .spec = &spec };
    struct job_ref ref;

    assert_int_equal(core_offer(b->core, &event, &ref, NULL), 0);
    return ref.index;
}

static uint32_t count_bad(const struct outbox *out)
{
    uint32_t bad = 0;

    for (size_t i = 0; i < out->decision_count; i++)
        bad += out->decisions[i].kind == DECISION_BAD;
    return bad;
}

/* Answers every order to launch at once. */
static void launch(struct bench *b, const struct outbox *out, usec_t at)
{
    struct {
        uint32_t job, gen;
    } started[16];
    size_t count = 0;

    for (size_t i = 0; i < out->effect_count; i++)
        if (out->effects[i].kind == EFFECT_START || out->effects[i].kind == EFFECT_RESUME) {
            started[count].job = out->effects[i].job;
            started[count++].gen = out->effects[i].gen;
        }
    for (size_t i = 0; i < count; i++) {
        struct event event = { .kind = EVENT_STARTED, .job = started[i].job, .gen = started[i].gen, .rate = PPM_ONE };

        assert_int_equal(core_offer(b->core, &event, NULL, NULL), 0);
    }
    (void)core_step(b->core, at);
}

static struct bench *bench_now; /* what the misdeeds below speak of */

/* The honest job runs on GPUs 0 to 3; the wrong one waits for two. Steps once with the misdeed; `bad` must be told. */
static void try_misdeed(void (*what)(struct planner_ctx *, struct plan *), uint32_t bad)
{
    struct bench b;
    const struct outbox *out;

    setup(&b);
    bench_now = &b;
    b.honest = submit(&b, 0, 4, 0);
    launch(&b, core_step(b.core, 0), 0);
    assert_int_equal(core_job(b.core, b.honest)->state, JOB_RUNNING);
    b.wrong = submit(&b, 1, 2, USEC_SEC);
    misdeed = what;
    out = core_step(b.core, USEC_SEC);
    assert_int_equal(misdeeds, 1);
    assert_int_equal(count_bad(out), bad);
    assert_int_equal(core_job(b.core, b.honest)->state, JOB_RUNNING);
    assert_int_equal(core_job(b.core, b.honest)->gpus, 4);
    teardown(&b);
}

static void start_on(struct plan *plan, uint32_t job, const uint32_t *gpus, uint32_t count, int expected)
{
    struct placement to = { gpus, count };

    assert_int_equal(plan_start(plan, job, &to), expected);
}

static void oversubscribe(struct planner_ctx *ctx, struct plan *plan)
{
    static const uint32_t held[] = { 3, 4 }, twice[] = { 4, 4 }, backwards[] = { 5, 4 }, beyond[] = { 4, 4000000 };

    (void)ctx;
    start_on(plan, bench_now->wrong, held, 2, -EBUSY);
    start_on(plan, bench_now->wrong, twice, 2, -EINVAL);
    start_on(plan, bench_now->wrong, backwards, 2, -EINVAL);
    start_on(plan, bench_now->wrong, beyond, 2, -EINVAL);
}

static void half_a_gang(struct planner_ctx *ctx, struct plan *plan)
{
    static const uint32_t gpus[] = { 4, 5, 6 };

    (void)ctx;
    start_on(plan, bench_now->wrong, gpus, 0, -EINVAL);
    start_on(plan, bench_now->wrong, gpus, 1, -EINVAL);
    start_on(plan, bench_now->wrong, gpus, 3, -EINVAL);
}

static void wrong_type(struct planner_ctx *ctx, struct plan *plan)
{
    static const uint32_t other[] = { 8, 9 }, mixed[] = { 7, 8 };

    (void)ctx;
    start_on(plan, bench_now->wrong, other, 2, -EINVAL);
    start_on(plan, bench_now->wrong, mixed, 2, -EINVAL);
}

static void foreign_jobs(struct planner_ctx *ctx, struct plan *plan)
{
    static const uint32_t gpus[] = { 4, 5, 6, 7 };
    struct placement to = { gpus, 4 };
    uint32_t other = bench_now->honest;

    (void)ctx;
    assert_int_equal(plan_stop(plan, other, STOP_REQUEUE), -EPERM);
    assert_int_equal(plan_keep(plan, other), -EPERM);
    assert_int_equal(plan_suspend(plan, other), -EPERM);
    assert_int_equal(plan_resume(plan, other), -EINVAL);
    assert_int_equal(plan_give_up(plan, other), -EINVAL);
    assert_int_equal(plan_move(plan, other, &to), -EINVAL);
    assert_int_equal(plan_start(plan, other, &to), -EINVAL);
    assert_int_equal(plan_enlist(plan, other, &to), -EINVAL);
    assert_int_equal(plan_reserve(plan, other, &to), -EINVAL);
    assert_null(plan_shape(plan, other));
    plan_unreserve(plan, other);
    plan_relax(plan, other, 1);
    plan_set_aside(plan, other, REASON_BACKOFF);
    plan_put_back(plan, other);
    plan_word(plan, other, 0, 1);
    plan_job_timer(plan, other, USEC_HOUR);
    plan_rekey(plan, other);
    assert_int_equal(core_job(bench_now->core, other)->word[0], 0);
}

static void nonsense(struct planner_ctx *ctx, struct plan *plan)
{
    uint32_t own = bench_now->wrong;
    struct placement to;

    (void)ctx;
    assert_int_equal(plan_stop(plan, own, STOP_REQUEUE), -EINVAL); /* it does not run */
    assert_int_equal(plan_keep(plan, own), -EINVAL);               /* it was not stopped */
    assert_int_equal(plan_suspend(plan, own), -EINVAL);            /* it does not run */
    plan_relax(plan, own, 7);                                      /* the placement knows no such locality */
    plan_set_aside(plan, own, REASON_NONE);                        /* without a reason */
    plan_set_aside(plan, own, REASON_PRIORITY);                    /* a reason of shapes, not of jobs */
    plan_put_back(plan, own);                                      /* it was not set aside */
    plan_word(plan, own, POLICY_WORDS, 1);                         /* there is no such word */
    plan_set_aside(plan, own, REASON_BACKOFF);                     /* all right */
    assert_null(plan_shape(plan, own));                            /* it has no shape now */
    assert_int_equal(plan_find(plan, NULL, &to), -EINVAL);
    plan_put_back(plan, own); /* all right */
}

static void beyond_the_quota(struct planner_ctx *ctx, struct plan *plan)
{
    static const uint32_t two[] = { 4, 5 }, three[] = { 4, 5, 6 };
    struct placement to = { three, 3 };
    uint32_t wide = bench_now->wrong + 1;

    (void)ctx;
    /* Three are more than it is owed; while what is owed is handed out that is an ordinary answer. */
    start_on(plan, wide, three, 3, -EDQUOT);
    assert_int_equal(plan_reserve(plan, wide, &to), -EDQUOT);
    start_on(plan, bench_now->wrong, two, 2, 0);
    to.count = 1;
    assert_int_equal(plan_reserve(plan, wide, &to), -EBUSY); /* held since a moment ago: bad */
}

static void flood(struct planner_ctx *ctx, struct plan *plan)
{
    static const uint32_t held[] = { 0, 1 };

    (void)ctx;
    for (int i = 0; i < 100000; i++)
        start_on(plan, bench_now->wrong, held, 2, -EBUSY);
}

static void refusals(void **state)
{
    (void)state;
    try_misdeed(oversubscribe, 4);
    try_misdeed(half_a_gang, 3);
    try_misdeed(wrong_type, 2);
    try_misdeed(foreign_jobs, 17);
    try_misdeed(nonsense, 9);
}

static void quotas_hold(void **state)
{
    struct bench b;

    (void)state;
    setup(&b);
    bench_now = &b;
    b.wrong = submit(&b, 1, 2, 0);
    assert_int_equal(submit(&b, 1, 3, 0), b.wrong + 1);
    misdeed = beyond_the_quota;
    assert_int_equal(count_bad(core_step(b.core, 0)), 1);
    assert_int_equal(core_vc(b.core, 1)->used[0], 2 * MGPU_ONE);
    teardown(&b);
}

/* A policy that does nothing but nonsense does not crowd out the record, or bring the core down. */
static void floods(void **state)
{
    struct bench b;
    const struct outbox *out;

    (void)state;
    setup(&b);
    bench_now = &b;
    b.honest = submit(&b, 0, 4, 0);
    b.wrong = submit(&b, 1, 2, 0);
    misdeed = flood;
    out = core_step(b.core, 0);
    assert_true(count_bad(out) > 0);
    assert_true(out->decision_count < out->decision_capacity);
    assert_int_equal(core_job(b.core, b.honest)->gpus, 4);
    teardown(&b);
}

/* ---- everything at random ---- */

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

static const struct planner_ops planner_chaos = {
    .name = "chaos", .summary = "proposes anything", .plan = chaos_plan, .timer = wrong_timer
};

struct chaos {
    uint64_t bad, starts;
};

static void note(void *arg, const struct core *core, const struct decision *decision, const uint32_t *gpus)
{
    struct chaos *chaos = arg;

    (void)core;
    (void)gpus;
    chaos->bad += decision->kind == DECISION_BAD;
    chaos->starts += decision->kind == DECISION_START && decision->vc == 1;
}

static void audit(void *arg, const struct core *core)
{
    (void)arg;
    core_audit(core);
    /* The honest one, inside its quota, has what it is owed whenever an instant is settled. */
    for (uint32_t i = 0; i < core->job_top; i++)
        if (core->jobs[i].vc == 0 && job_waits(core->jobs[i].state))
            assert_true(core->vcs[0].used[0] + job_demand(&core->jobs[i]) > core->vcs[0].quota[0]);
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
                                        .on_instant = audit };
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
}

/* ---- a policy that never comes to an end ---- */

static void wakes_again(struct planner_ctx *ctx, struct plan *plan)
{
    plan_wake(plan, view_now(ctx->view) + 1);
}

/* It asks for another pass in every pass: a thousand follow each other, then there is one a second. */
static void endless(void **state)
{
    struct bench b;
    usec_t at = 0;
    int before;

    (void)state;
    setup(&b);
    misdeed = wakes_again;
    (void)submit(&b, 1, 2, 0);
    for (int i = 0; i < CHAIN_MAX + 100 && at != USEC_NEVER && at < USEC_HOUR; i++) {
        (void)core_step(b.core, at);
        at = core_next_wake(b.core);
    }
    assert_true(misdeeds >= CHAIN_MAX);
    assert_true(at >= 40 * USEC_SEC); /* of the last hundred steps every other one only puts it off */
    before = misdeeds;
    while (at < USEC_HOUR) {
        (void)core_step(b.core, at);
        at = core_next_wake(b.core);
    }
    assert_in_range(misdeeds - before, 1, 3600);
    teardown(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals), cmocka_unit_test(quotas_hold), cmocka_unit_test(floods),
        cmocka_unit_test(chaos),    cmocka_unit_test(endless),
    };

    return cmocka_run_group_tests_name("core_refusals", tests, NULL, NULL);
}
