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
#include "core/contract/plan.h"
#include "core/core_internal.h"
#include "policy/registry.h"
#include "sim/driver/driver.h"
#include "wire/cluster/cluster.h"

/* ---- one misdeed at a time ---- */

/* What the wrong planner does when it is asked; set by each test. */
static void (*misdeed)(struct planner_ctx *ctx, struct plan *plan);
static void (*misdeed_late)(struct planner_ctx *ctx, struct plan *plan); /* beyond what is owed */
static void (*review)(struct planner_ctx *ctx, struct plan *plan);       /* before anybody's turn */
static int misdeeds;

static void wrong_plan(struct planner_ctx *ctx, struct plan *plan)
{
    if (misdeed && !plan_borrows(plan)) {
        misdeed(ctx, plan);
        misdeeds++;
    }
    if (misdeed_late && plan_borrows(plan))
        misdeed_late(ctx, plan);
}

static void wrong_tune(struct planner_ctx *ctx, struct plan *plan)
{
    (void)ctx;
    (void)plan;
}

static void wrong_review(struct planner_ctx *ctx, struct plan *plan)
{
    if (review)
        review(ctx, plan);
}

static const struct tune_ops tune_wrong = {
    .name = "wrong", .summary = "does what it should not", .tune = wrong_tune, .review = wrong_review
};

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
    misdeed = misdeed_late = review = NULL;
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
    policies[1].tune[policies[1].tune_count++] = &tune_wrong;
    assert_int_equal(core_new(&b->cluster, &config, &b->core, NULL), 0);
}

static void teardown(struct bench *b)
{
    core_audit(b->core);
    core_free(b->core);
    cluster_spec_done(&b->cluster);
}

static uint32_t submit_as(struct bench *b, uint32_t vc, int32_t gpus, usec_t at, enum job_class klass)
{
    static int64_t id;
    struct jobspec spec = { .id = ++id,
                            .submit = at,
                            .estimate = USEC_HOUR,
                            .gpus = gpus,
                            .gpus_min = gpus,
                            .gpus_max = gpus,
                            .share = MGPU_ONE,
                            .klass = (uint8_t)klass,
                            .sku_mask = 1 };
    struct event event = { .kind = EVENT_SUBMIT, .target = vc, .spec = &spec };
    struct job_ref ref;

    assert_int_equal(core_offer(b->core, &event, &ref, NULL), 0);
    return ref.index;
}

static uint32_t submit(struct bench *b, uint32_t vc, int32_t gpus, usec_t at)
{
    return submit_as(b, vc, gpus, at, CLASS_GUARANTEED);
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

/* ---- what is given back, or moved, after others had their turn ---- */

static void keep_two(struct planner_ctx *ctx, struct plan *plan)
{
    static const uint32_t two[] = { 4, 5 };
    struct placement what = { two, 2 };

    (void)ctx;
    assert_int_equal(plan_reserve(plan, bench_now->wrong, &what), 0);
}

static void give_back(struct planner_ctx *ctx, struct plan *plan)
{
    (void)ctx;
    if (plan_for_guests(plan))
        plan_unreserve(plan, bench_now->wrong);
}

/* Keeps two GPUs beside those the honest one wants, and gives them back when it had its turn: it is looked at again. */
static void given_back(void **state)
{
    struct bench b;
    uint32_t waits;

    (void)state;
    setup(&b);
    bench_now = &b;
    b.honest = submit(&b, 0, 4, 0);
    launch(&b, core_step(b.core, 0), 0);
    b.wrong = submit(&b, 1, 2, USEC_SEC);
    waits = submit(&b, 0, 4, USEC_SEC);
    misdeed = keep_two;
    (void)core_step(b.core, USEC_SEC);
    assert_int_equal(core_reason(b.core, waits), REASON_RESERVED);
    misdeed = NULL;
    misdeed_late = give_back;
    (void)submit_as(&b, 1, 2, 2 * USEC_SEC, CLASS_OPPORTUNISTIC);
    (void)core_step(b.core, 2 * USEC_SEC);
    assert_int_equal(core_job(b.core, b.wrong)->state, JOB_PENDING);
    assert_int_equal(core_reason(b.core, waits), REASON_SCHEDULING);
    assert_int_equal(core_next_wake(b.core), 2 * USEC_SEC + 1);
    launch(&b, core_step(b.core, 2 * USEC_SEC + 1), 2 * USEC_SEC + 1);
    assert_int_equal(core_job(b.core, waits)->state, JOB_RUNNING);
    teardown(&b);
}

static uint32_t lent; /* a job of the wrong one, beyond what that is owed */

static void start_first(struct planner_ctx *ctx, struct plan *plan)
{
    static const uint32_t two[] = { 0, 1 };

    (void)ctx;
    start_on(plan, bench_now->wrong, two, 2, 0);
}

static void start_lent(struct planner_ctx *ctx, struct plan *plan)
{
    static const uint32_t one[] = { 2 };

    (void)ctx;
    if (!plan_for_guests(plan))
        start_on(plan, lent, one, 1, 0);
}

static void move_lent(struct planner_ctx *ctx, struct plan *plan)
{
    static const uint32_t one[] = { 2 };
    struct placement where = { one, 1 };

    (void)ctx;
    if (core_job(bench_now->core, lent)->disturbed < 0)
        assert_int_equal(plan_move(plan, lent, &where), 0);
}

/* Whoever is owed the GPU of a job that the pass itself has moved gets it back in the next one. */
static void moved_first(void **state)
{
    struct event down = { .kind = EVENT_NODE, .target = 1 };
    struct bench b;
    uint32_t waits;

    (void)state;
    setup(&b);
    bench_now = &b;
    assert_int_equal(core_offer(b.core, &down, NULL, NULL), 0);
    b.wrong = submit(&b, 1, 2, 0);
    lent = submit(&b, 1, 1, 0);
    misdeed = start_first;
    misdeed_late = start_lent;
    launch(&b, core_step(b.core, 0), 0);
    misdeed = misdeed_late = NULL;
    b.honest = submit(&b, 0, 1, USEC_SEC);
    launch(&b, core_step(b.core, USEC_SEC), USEC_SEC);
    waits = submit(&b, 0, 1, 2 * USEC_SEC);
    (void)submit(&b, 1, 1, 2 * USEC_SEC);
    review = move_lent;
    (void)core_step(b.core, 2 * USEC_SEC);
    assert_true(job_waits(core_job(b.core, waits)->state));
    assert_int_equal(core_next_wake(b.core), 2 * USEC_SEC + 1);
    (void)core_step(b.core, 2 * USEC_SEC + 1);
    assert_int_equal(core_job(b.core, waits)->state, JOB_CLAIMING);
    assert_int_equal(core_job(b.core, lent)->state, JOB_STOPPING);
    teardown(&b);
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

/* What a gang on several types may not be is refused in words, and so is what its virtual cluster could never have. */
static void sides(void **state)
{
    const struct jobspec good = { .id = 77,
                                  .gpus = 4,
                                  .gpus_min = 4,
                                  .gpus_max = 4,
                                  .share = MGPU_ONE,
                                  .sku_mask = 1,
                                  .side_count = 1,
                                  .sides = { { .gpus = 2, .per_node = 2, .sku_mask = 2 } } };
    struct jobspec bad[8];
    struct error err = { 0 };
    struct job_ref ref;
    struct bench b;

    (void)state;
    setup(&b);
    for (size_t i = 0; i < 8; i++)
        bad[i] = good;
    bad[0].sides[0].sku_mask = 3;
    bad[1].sides[0].per_node = 0;
    bad[2].sides[0].gpus = 3;
    bad[3].gpus_min = 1;
    bad[4].sku_mask = 0;
    bad[5].within = WITHIN_RACK;
    bad[6].side_count = SIDES_MAX + 1;
    bad[7].sides[0].sku_mask = 0;
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(core_offer(b.core, &(struct event){ .kind = EVENT_SUBMIT, .spec = &bad[i] }, &ref, &err),
                         -EINVAL);
    assert_string_equal(err.text, "job 77: the parts of a gang on several types have no type in common");
    bad[0] = good;
    bad[0].sides[0].gpus = 4; /* two nodes of 2 there are not */
    assert_int_equal(core_offer(b.core, &(struct event){ .kind = EVENT_SUBMIT, .spec = &bad[0] }, &ref, &err), -ERANGE);
    assert_string_equal(err.text, "job 77 asks for 2 nodes with 2 GPUs each; there are fewer [Infeasible.NodeSize]");
    bad[0] = good;
    bad[0].gpus = bad[0].gpus_min = bad[0].gpus_max = 3; /* one more than it is owed of each: borrows one in all */
    assert_int_equal(
        core_offer(b.core, &(struct event){ .kind = EVENT_SUBMIT, .target = 1, .spec = &bad[0] }, &ref, &err), -ERANGE);
    assert_non_null(strstr(err.text, "places gangs of one")); /* this planner does not say that it may */
    assert_int_equal(core_offer(b.core, &(struct event){ .kind = EVENT_SUBMIT, .spec = &good }, &ref, &err), 0);
    launch(&b, core_step(b.core, 0), 0);
    assert_int_equal(core_job(b.core, ref.index)->state, JOB_RUNNING);
    assert_int_equal(core_job(b.core, ref.index)->gpus, 4);
    assert_int_equal(core_vc(b.core, 0)->used[1], 2 * MGPU_ONE);
    teardown(&b);
}

/* A node without GPUs has CPUs and is one machine by itself; else there is no core of such a cluster. */
static void clusters_that_are_wrong(void **state)
{
    struct policy_setup policy;
    struct core_config config = { .limits = { .jobs = 4 }, .policies = &policy };

    (void)state;
    policy_setup(policy_find("fifo"), &policy);
    for (int wrong = 0; wrong < 4; wrong++) {
        struct cluster_spec cluster = { 0 };
        struct error err = { 0 };
        struct core *core = NULL;

        assert_int_equal(cluster_parse("1x4 cpus:8 + nodes:1 gpus:0 cpus:8", &cluster, &err), 0);
        assert_int_equal(cluster.bare_count, 1);
        if (wrong == 1)
            cluster.nodes[1].cpus = 0;
        if (wrong == 2)
            cluster.nodes[1].gpus = 4;
        if (wrong == 3)
            cluster.nodes[1].twin = 1;
        assert_int_equal(core_new(&cluster, &config, &core, &err), wrong ? -EINVAL : 0);
        if (wrong)
            assert_string_equal(err.text, "node 1: a node without GPUs has CPUs");
        else
            core_free(core);
        cluster_spec_done(&cluster);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals),    cmocka_unit_test(quotas_hold),
        cmocka_unit_test(floods),      cmocka_unit_test(given_back),
        cmocka_unit_test(moved_first), cmocka_unit_test(endless),
        cmocka_unit_test(sides),       cmocka_unit_test(clusters_that_are_wrong),
    };

    return cmocka_run_group_tests_name("core_refusals", tests, NULL, NULL);
}
