/* SPDX-License-Identifier: Apache-2.0 */
/* test_contract.c - the contracts of the core, tried by policies that need what the first ones do not.
 *
 * Every run is audited after each step (checked builds), is the same when the core is saved and loaded after every
 * instant, and never has a proposal refused as a defect.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../unit/policy_play.h"
#include "policies.h"

struct seen {
    uint32_t by_kind[DECISION_COUNT];
};

static void note(void *arg, const struct core *core, const struct decision *decision, const uint32_t *gpus)
{
    struct seen *seen = arg;

    (void)core;
    (void)gpus;
    if (getenv("CONTRACT_LOG"))
        print_message("%lld %s %lld\n", (long long)(decision->at / USEC_SEC), decision_name(decision->kind),
                      (long long)decision->id);
    seen->by_kind[decision->kind]++;
}

static void add(struct trace *trace, int64_t submit, int32_t gpus, int64_t run, enum job_class klass)
{
    add_job(trace, submit, gpus, run)->spec.klass = (uint8_t)klass;
}

static struct run_result run(const char *cluster, struct trace *trace, const struct policy_setup *setup,
                             uint32_t reload, struct seen *seen)
{
    struct run_result result;

    memset(seen, 0, sizeof(*seen));
    result =
        play(&(struct play){ .cluster = cluster, .setup = setup, .reload = reload, .on_decision = note, .arg = seen },
             trace);
    assert_int_equal(seen->by_kind[DECISION_BAD], 0);
    return result;
}

/* Runs it as it is and with the core loaded again after every instant: the same decisions. */
static struct run_result run_both(const char *cluster, struct trace *trace, const struct policy_setup *setup,
                                  struct seen *seen)
{
    struct run_result again = run(cluster, trace, setup, 1, seen), result = run(cluster, trace, setup, 0, seen);

    assert_true(again.summary.digest == result.summary.digest);
    run_result_done(&again);
    return result;
}

static struct policy_setup with(const struct planner_ops *planner)
{
    struct policy_setup setup;

    policy_setup(policy_find("fifo-skip"), &setup);
    if (planner)
        setup.planner = planner;
    return setup;
}

static int64_t end_of(const struct run_result *result, size_t job)
{
    return result->jobs[job].end / USEC_SEC;
}

/* Two jobs of 250 s that both want the one GPU: stopped and started at every boundary, by a plan that wakes itself. */
static void leases(void **unused)
{
    struct policy_setup setup = with(&planner_lease);
    struct trace trace = { 0 };
    struct seen seen;
    struct run_result result;

    (void)unused;
    (void)policy_set(&setup, "requeue", "tail", NULL);
    add(&trace, 0, 1, 250, CLASS_GUARANTEED);
    add(&trace, 0, 1, 250, CLASS_GUARANTEED);
    result = run_both("1x1", &trace, &setup, &seen);
    assert_int_equal(end_of(&result, 0), 450);
    assert_int_equal(end_of(&result, 1), 500);
    assert_true(seen.by_kind[DECISION_STOP] >= 4);
    run_result_done(&result);
    trace_done(&trace);
}

/* Six jobs of 120 s on four GPUs in turns of 60 s. */
static void slices(void **unused)
{
    struct policy_setup setup = with(&planner_slices);
    struct trace trace = { 0 };
    struct seen seen;
    struct run_result result;
    int at_120 = 0, at_180 = 0, at_240 = 0;

    (void)unused;
    for (int i = 0; i < 6; i++)
        add(&trace, 0, 1, 120, CLASS_GUARANTEED);
    result = run_both("1x4", &trace, &setup, &seen);
    for (size_t i = 0; i < 6; i++) {
        at_120 += end_of(&result, i) == 120;
        at_180 += end_of(&result, i) == 180;
        at_240 += end_of(&result, i) == 240;
        assert_int_equal(result.jobs[i].preemptions, 0); /* a turn that ends is no preemption */
    }
    /* Places are fixed here: two jobs are alone on their GPUs, and two pairs take turns on theirs. */
    assert_int_equal(at_120, 2);
    assert_int_equal(at_180, 2);
    assert_int_equal(at_240, 2);
    assert_int_equal(seen.by_kind[DECISION_SUSPEND], 4);
    assert_int_equal(seen.by_kind[DECISION_RESUME], 4);
    run_result_done(&result);
    trace_done(&trace);
}

/* An elastic job has all four GPUs until somebody comes, then moves to two. */
static void shrinks(void **unused)
{
    struct policy_setup setup = with(&planner_shrink);
    struct trace trace = { 0 };
    struct seen seen;
    struct run_result result;

    (void)unused;
    add(&trace, 0, 2, 100, CLASS_GUARANTEED);
    trace.jobs[0].spec.gpus_max = 4;
    add(&trace, 10, 2, 50, CLASS_GUARANTEED);
    result = run_both("1x4", &trace, &setup, &seen);
    assert_int_equal(seen.by_kind[DECISION_MIGRATE], 1);
    assert_int_equal(result.jobs[0].migrations, 1);
    assert_int_equal(end_of(&result, 1), 60); /* started in the same pass, in what was left over */
    assert_int_equal(end_of(&result, 0), 90); /* ten seconds on four GPUs did the work of twenty on two */
    run_result_done(&result);
    trace_done(&trace);
}

/* A guest starts beside the owner of the only GPU. Nothing tells that the owner leaves any of it idle, so the node's
 * coordinator lets the guest have nothing until the owner has ended. */
static void pairs(void **unused)
{
    struct policy_setup setup = with(NULL);
    struct trace trace = { 0 };
    struct seen seen;
    struct run_result result;

    (void)unused;
    setup.tune[0] = &tune_pairs;
    setup.tune_count = 1;
    add(&trace, 0, 1, 100, CLASS_GUARANTEED);
    add(&trace, 10, 1, 30, CLASS_OPPORTUNISTIC);
    result = run_both("1x1", &trace, &setup, &seen);
    assert_int_equal(result.jobs[1].start / USEC_SEC, 10);
    assert_int_equal(end_of(&result, 1), 129); /* a millionth of its speed is what nothing comes to */
    assert_int_equal(end_of(&result, 0), 100);
    assert_int_equal(seen.by_kind[DECISION_START], 2);
    run_result_done(&result);
    trace_done(&trace);
}

/* Refused at the door; and "auto" turned into a guest, which runs in what is left over. */
static void picky(void **unused)
{
    struct policy_setup setup = with(NULL);
    struct trace trace = { 0 };
    struct seen seen;
    struct run_result result;

    (void)unused;
    setup.admit = &admit_picky;
    add(&trace, 0, 8, 10, CLASS_GUARANTEED);
    add(&trace, 0, 4, 10, CLASS_AUTO);
    result = run_both("1x8", &trace, &setup, &seen);
    assert_int_equal(seen.by_kind[DECISION_REFUSE], 1);
    assert_int_equal(result.jobs[0].start, -1);
    assert_int_equal(end_of(&result, 1), 10);
    run_result_done(&result);
    trace_done(&trace);
}

/* Nobody starts before the answer of a computation outside of the core has come; in a simulation that is at once. */
static void thinks(void **unused)
{
    struct policy_setup setup = with(&planner_thinker);
    struct trace trace = { 0 };
    struct seen seen;
    struct run_result result;

    (void)unused;
    for (int i = 0; i < 5; i++)
        add(&trace, 10 * i, 1, 15, CLASS_GUARANTEED);
    result = run_both("1x1", &trace, &setup, &seen);
    assert_int_equal(result.jobs[0].start, 1); /* one microsecond: the pass of the instant itself had asked */
    assert_int_equal(seen.by_kind[DECISION_END], 5);
    run_result_done(&result);
    trace_done(&trace);
}

/* The gate for answers: only the one that is waited for, once, within the limit; and none at all is an answer. */
static void answers_checked(void **unused)
{
    struct policy_setup setup = with(&planner_thinker);
    struct cluster_spec cluster = { 0 };
    struct core_config config = { .limits = { .jobs = 4 }, .policies = &setup };
    struct jobspec spec = { .id = 7, .gpus = 1, .share = MGPU_ONE, .gpus_min = 1, .gpus_max = 1 };
    struct event submit = { .kind = EVENT_SUBMIT, .spec = &spec };
    int64_t words[8] = { 1, 0 };
    struct event answer = { .kind = EVENT_SOLVED, .ticket = 1, .words = words, .word_count = 2 };
    const struct outbox *out;
    struct error err = { 0 };
    struct core *core;

    (void)unused;
    assert_int_equal(cluster_parse("1x1", &cluster, &err), 0);
    assert_int_equal(core_new(&cluster, &config, &core, &err), 0);
    assert_int_equal(core_offer(core, &answer, NULL, &err), -ENOENT);
    assert_string_equal(err.text, "virtual cluster 0 does not wait for answer 1");
    assert_int_equal(core_offer(core, &submit, NULL, &err), 0);
    out = core_step(core, 0);
    assert_int_equal(out->effect_count, 1);
    assert_int_equal(out->effects[0].kind, EFFECT_SOLVE);
    assert_int_equal(out->effects[0].ticket, 1);
    assert_int_equal(out->words[out->effects[0].word_first], 1);
    answer.ticket = 2;
    assert_int_equal(core_offer(core, &answer, NULL, &err), -ENOENT);
    answer.ticket = 1;
    answer.target = 9;
    assert_int_equal(core_offer(core, &answer, NULL, &err), -EINVAL);
    answer.target = 0;
    answer.word_count = 8;
    assert_int_equal(core_offer(core, &answer, NULL, &err), -ENOSPC);
    assert_string_equal(err.text, "virtual cluster 0: an answer of 8 numbers, the limit is 4");
    answer.word_count = 0; /* lost: it asks again */
    assert_int_equal(core_offer(core, &answer, NULL, &err), 0);
    (void)core_step(core, 0);
    out = core_step(core, core_next_wake(core));
    assert_int_equal(out->effects[0].kind, EFFECT_SOLVE);
    assert_int_equal(out->effects[0].ticket, 2);
    core_free(core);
    cluster_spec_done(&cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leases), cmocka_unit_test(slices), cmocka_unit_test(shrinks),         cmocka_unit_test(pairs),
        cmocka_unit_test(picky),  cmocka_unit_test(thinks), cmocka_unit_test(answers_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
