/* SPDX-License-Identifier: Apache-2.0 */
/* The plain data all layers share: the order of a trace, and codes of reasons that scripts rely on. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "model/cluster.h"
#include "model/reason.h"
#include "model/trace.h"

static void jobs_come_by_submission_then_id(void **state)
{
    struct trace trace = { 0 };
    struct rng rng;

    (void)state;
    trace_sort(&trace); /* an empty one is sorted */
    rng_seed(&rng, 5);
    for (int64_t i = 0; i < 1000; i++) {
        struct trace_job job = { .spec.id = (i * 7) % 1000, .spec.submit = (usec_t)rng_below(&rng, 50) * USEC_SEC };

        assert_int_equal(trace_add(&trace, &job), 0);
    }
    trace_sort(&trace);
    for (size_t i = 1; i < trace.count; i++) {
        const struct jobspec *a = &trace.jobs[i - 1].spec, *b = &trace.jobs[i].spec;

        assert_true(a->submit < b->submit || (a->submit == b->submit && a->id < b->id));
    }
    trace_done(&trace);
    assert_int_equal(trace.count, 0);
    assert_null(trace.jobs);
}

static void a_job_that_finds_no_room_changes_nothing(void **state)
{
    struct trace trace = { 0 };
    struct trace_job job = { .spec.id = 1 };

    (void)state;
    while (trace.count == 0 || trace.count < trace.capacity)
        assert_int_equal(trace_add(&trace, &job), 0);
    mem_fail_at(1);
    assert_int_equal(trace_add(&trace, &job), -ENOMEM);
    mem_fail_at(0);
    assert_int_equal(trace.count, trace.capacity);
    assert_int_equal(trace.jobs[trace.count - 1].spec.id, 1);
    trace_done(&trace);
}

static void reasons_have_distinct_names_and_words(void **state)
{
    (void)state;
    for (enum reason a = 0; a < REASON_COUNT; a++) {
        assert_true(strlen(reason_name(a)) > 0 && strlen(reason_text(a)) > 0);
        assert_null(strchr(reason_name(a), ' ')); /* a code, not a phrase */
        for (enum reason b = 0; b < a; b++) {
            assert_string_not_equal(reason_name(a), reason_name(b));
            assert_string_not_equal(reason_text(a), reason_text(b));
        }
    }
    assert_string_equal(reason_name(REASON_INSUFFICIENT_GPUS), "InsufficientGpus");
    assert_string_equal(reason_name(REASON_NONE), "None");
}

static void a_cluster_gives_everything_back(void **state)
{
    struct cluster_spec spec = { 0 };
    uint32_t index;

    (void)state;
    assert_int_equal(names_put(&spec.names, "A100", 4, &index), 0);
    spec.nodes = mem_zalloc(2, sizeof(*spec.nodes));
    spec.vcs = mem_zalloc(1, sizeof(*spec.vcs));
    spec.node_count = 2;
    cluster_spec_done(&spec); /* what it forgets, the leak checker reports */
    assert_null(spec.nodes);
    assert_null(spec.vcs);
    assert_int_equal(spec.node_count, 0);
    cluster_spec_done(&spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_come_by_submission_then_id),
        cmocka_unit_test(a_job_that_finds_no_room_changes_nothing),
        cmocka_unit_test(reasons_have_distinct_names_and_words),
        cmocka_unit_test(a_cluster_gives_everything_back),
    };

    return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
