/* SPDX-License-Identifier: Apache-2.0 */
/* test_report.c - the report as text: its size, its escapes, the numbers in its data. What a browser makes of it is
 * tests/web/check_report.sh's affair. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "model/cluster.h"
#include "model/trace.h"
#include "sim/metrics/metrics.h"
#include "sim/output/report.h"

#define EVIL "</script><script>alert('x')</script><!-- \" & \x01\xff"

struct page {
    char *text;
    size_t size;
    json_t *data; /* what the script draws from */
};

static void page_write(struct page *page, const struct run_result *const *runs, size_t count,
                       const struct cluster_spec *cluster)
{
    FILE *out = open_memstream(&page->text, &page->size);
    const char *mark = "id=\"data\">", *begin, *end;
    json_error_t where;

    assert_non_null(out);
    assert_int_equal(report_write(out, runs, count, NULL, cluster, NULL), 0);
    fclose(out);
    begin = strstr(page->text, mark);
    assert_non_null(begin);
    begin += strlen(mark);
    end = strstr(begin, "</script>");
    assert_non_null(end);
    page->data = json_loadb(begin, (size_t)(end - begin), JSON_REJECT_DUPLICATES, &where);
    if (!page->data)
        fail_msg("%s at %d", where.text, where.position);
}

static void page_done(struct page *page)
{
    json_decref(page->data);
    free(page->text);
}

/* A run of `count` jobs whose times are drawn at random. */
static void run_make(struct run_result *run, size_t count, const char *policy)
{
    struct rng rng;
    usec_t at = 0;

    rng_seed(&rng, count);
    *run = (struct run_result){
        .trace_name = "t", .cluster_name = "32x8", .gpu_count = 256, .node_count = 32, .job_count = count
    };
    snprintf(run->policy, sizeof(run->policy), "%s", policy);
    run->jobs = mem_zalloc(count, sizeof(*run->jobs));
    assert_non_null(run->jobs);
    for (size_t i = 0; i < count; i++) {
        usec_t wait = (usec_t)rng_below(&rng, 36000) * USEC_SEC, length = (usec_t)(1 + rng_below(&rng, 90000000000));

        at += (usec_t)rng_below(&rng, 20 * USEC_SEC);
        run->jobs[i] = (struct job_result){ .id = (int64_t)i,
                                            .submit = at,
                                            .start = at + wait,
                                            .end = at + wait + length,
                                            .alone = length,
                                            .run = length,
                                            .gpus = 1 + (int32_t)rng_below(&rng, 16),
                                            .share = MGPU_ONE,
                                            .outcome = OUTCOME_DONE,
                                            .user = NAME_NONE,
                                            .vc = NAME_NONE,
                                            .model = NAME_NONE,
                                            .deadline_met = -1 };
        run->jobs[i].waited[1 + rng_below(&rng, REASON_COUNT - 1)] = wait;
        for (int k = 0; k < 3; k++) {
            struct sample sample = { .at = at + k,
                                     .mgpu_held = (int64_t)rng_below(&rng, 256001),
                                     .mgpu_total = 256000,
                                     .waiting = (uint32_t)rng_below(&rng, 5000) };
            struct span span = { .from = at,
                                 .to = at + length,
                                 .job = (uint32_t)i,
                                 .gpu = (uint32_t)rng_below(&rng, 256),
                                 .share = MGPU_ONE };

            assert_int_equal(run_result_sample(run, &sample), 0);
            assert_int_equal(run_result_span(run, &span), 0);
        }
    }
    assert_int_equal(metrics_compute(run), 0);
}

static void large_runs_stay_small(void **state)
{
    struct run_result runs[2];
    struct page page;
    const json_t *first;

    (void)state;
    run_make(&runs[0], 100000, "one");
    run_make(&runs[1], 100000, "two");
    page_write(&page, (const struct run_result *const[]){ &runs[0], &runs[1] }, 2, NULL);
    assert_true(page.size < 2 << 20);
    assert_int_equal(json_array_size(json_object_get(page.data, "runs")), 2);
    first = json_array_get(json_object_get(page.data, "runs"), 0);
    assert_in_range(json_array_size(json_object_get(first, "jct")), 1000, 2000);
    assert_in_range(json_array_size(json_object_get(json_object_get(first, "time"), "held")), TIMEBINS / 2, TIMEBINS);
    assert_in_range(json_array_size(json_object_get(json_object_get(first, "gantt"), "bars")), 9000, 9 * 6000);
    page_done(&page);
    run_result_done(&runs[0]);
    run_result_done(&runs[1]);
}

/* The last point of a distribution is the longest job, with all jobs below it; counts never fall. */
static void distributions_are_exact(void **state)
{
    static const size_t counts[] = { 1, 2, 799, 800, 801, 1600, 5003 };

    (void)state;
    for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
        struct run_result run;
        struct page page;
        const json_t *jct;
        size_t size;

        run_make(&run, counts[k], "p");
        page_write(&page, (const struct run_result *const[]){ &run }, 1, NULL);
        jct = json_object_get(json_array_get(json_object_get(page.data, "runs"), 0), "jct");
        size = json_array_size(jct);
        assert_int_equal(json_integer_value(json_array_get(jct, size - 1)), counts[k]);
        assert_true(fabs(json_number_value(json_array_get(jct, size - 2)) - run.summary.max_jct) < 0.001);
        for (size_t i = 2; i < size; i += 2) {
            assert_true(json_number_value(json_array_get(jct, i)) > json_number_value(json_array_get(jct, i - 2)));
            assert_true(json_integer_value(json_array_get(jct, i + 1)) >
                        json_integer_value(json_array_get(jct, i - 1)));
        }
        page_done(&page);
        run_result_done(&run);
    }
}

static void names_cannot_break_out(void **state)
{
    struct run_result runs[2];
    struct trace trace = { 0 };
    struct page page;
    uint32_t index;
    int scripts = 0;

    (void)state;
    assert_int_equal(names_put(&trace.vcs, EVIL, strlen(EVIL), &index), 0);
    assert_int_equal(names_put(&trace.vcs, "b", 1, &index), 0);
    assert_int_equal(names_put(&trace.ids, EVIL, strlen(EVIL), &index), 0);
    assert_int_equal(names_put(&trace.users, EVIL, strlen(EVIL), &index), 0);
    for (int i = 0; i < 2; i++) {
        run_make(&runs[i], 20, i ? "a" : EVIL);
        snprintf(runs[i].trace_name, sizeof(runs[i].trace_name), "%s", EVIL);
        snprintf(runs[i].cluster_name, sizeof(runs[i].cluster_name), "%s", EVIL);
        snprintf(runs[i].settings, sizeof(runs[i].settings), "a=%s b=%d", EVIL, i);
        for (int k = 0; k < 20; k++) {
            runs[i].jobs[k].vc = (uint32_t)k % 2;
            runs[i].jobs[k].user = 0;
        }
        runs[i].trace = &trace;
    }
    page_write(&page, (const struct run_result *const[]){ &runs[0], &runs[1] }, 2, NULL);
    for (const char *at = page.text; (at = strstr(at, "<script")); at++)
        scripts++;
    assert_int_equal(scripts, 2); /* the data and our own */
    assert_null(strstr(page.text, "alert('x')</script>"));
    assert_null(strstr(page.text, "<!--"));
    assert_null(strchr(page.text, '\xff'));
    assert_null(strchr(page.text, '\x01'));
    page_done(&page);
    run_result_done(&runs[0]);
    run_result_done(&runs[1]);
    trace_done(&trace);
}

/* Many runs with names as long as may be: less is drawn, the tables have them all, the limit holds. */
static void many_runs_leave_detail_out(void **state)
{
    static struct run_result runs[40];
    const struct run_result *list[40];
    struct trace trace = { 0 };
    struct page page;
    char name[NAME_LENGTH_MAX + 1] = { 0 };
    uint32_t index;

    (void)state;
    memset(name, '<', NAME_LENGTH_MAX - 8);
    for (int i = 0; i < 1500; i++) {
        snprintf(name + NAME_LENGTH_MAX - 8, 9, "%08d", i);
        assert_int_equal(names_put(&trace.ids, name, strlen(name), &index), 0);
        assert_int_equal(names_put(&trace.users, name, strlen(name), &index), 0);
        assert_int_equal(names_put(&trace.vcs, name, strlen(name), &index), 0);
    }
    for (int i = 0; i < 40; i++) {
        run_make(&runs[i], 1500, "p");
        snprintf(runs[i].policy, sizeof(runs[i].policy), "policy-%d-", i);
        runs[i].trace = &trace;
        for (uint32_t k = 0; k < 1500; k++)
            runs[i].jobs[k].vc = runs[i].jobs[k].user = k;
        list[i] = &runs[i];
    }
    page_write(&page, list, 40, NULL);
    assert_true(page.size < REPORT_BYTES_MAX);
    assert_in_range(json_array_size(json_object_get(page.data, "runs")), 1, 24);
    assert_int_equal(json_array_size(json_object_get(page.data, "runs")) +
                         (size_t)json_integer_value(json_object_get(page.data, "left")),
                     40);
    assert_non_null(strstr(page.text, "policy-39-"));
    page_done(&page);
    for (int i = 0; i < 40; i++)
        run_result_done(&runs[i]);
    trace_done(&trace);
}

static void gangs_are_one_bar(void **state)
{
    struct run_result run;
    struct page page;
    const json_t *bars;

    (void)state;
    run_make(&run, 1, "p");
    run.span_count = 0;
    run.gpu_count = 8;
    run.node_count = 2;
    for (uint32_t gpu = 1; gpu < 7; gpu++) /* three GPUs on each of two nodes: two bars */
        assert_int_equal(run_result_span(&run, &(struct span){ .from = run.jobs[0].submit,
                                                               .to = run.jobs[0].submit + USEC_SEC,
                                                               .gpu = gpu,
                                                               .share = MGPU_ONE }),
                         0);
    assert_int_equal(run_result_span(&run, &(struct span){ .to = 1, .gpu = 99, .share = MGPU_ONE }), 0); /* none such */
    page_write(&page, (const struct run_result *const[]){ &run }, 1, NULL);
    bars = json_object_get(json_object_get(json_array_get(json_object_get(page.data, "runs"), 0), "gantt"), "bars");
    assert_int_equal(json_array_size(bars), 2 * 9);
    assert_int_equal(json_number_value(json_array_get(bars, 0)), 0);
    assert_int_equal(json_number_value(json_array_get(bars, 1)), 1);
    assert_int_equal(json_integer_value(json_array_get(bars, 2)), 1);
    assert_int_equal(json_integer_value(json_array_get(bars, 3)), 3);
    assert_int_equal(json_integer_value(json_array_get(bars, 9 + 2)), 4);
    page_done(&page);
    run_result_done(&run);
}

/* Nothing finished, nothing sampled, or nothing at all: still a page. */
static void empty_runs_have_a_page(void **state)
{
    struct run_result none = { .policy = "none" }, stuck;
    struct page page;
    struct error err;

    (void)state;
    assert_int_equal(metrics_compute(&none), 0);
    page_write(&page, (const struct run_result *const[]){ &none }, 1, NULL);
    page_done(&page);
    run_make(&stuck, 3, "stuck");
    for (int i = 0; i < 3; i++) {
        stuck.jobs[i].outcome = OUTCOME_WAITING;
        stuck.jobs[i].start = stuck.jobs[i].end = -1;
    }
    assert_int_equal(metrics_compute(&stuck), 0);
    page_write(&page, (const struct run_result *const[]){ &stuck, &none }, 2, NULL);
    assert_null(strstr(page.text, ">nan"));
    assert_null(strstr(page.text, " nan"));
    assert_null(strstr(page.text, "\"nan"));
    page_done(&page);
    run_result_done(&stuck);
    assert_int_equal(report_write(stdout, NULL, 0, NULL, NULL, &err), -EINVAL);
}

static void failed_allocations_are_told(void **state)
{
    struct run_result run;

    (void)state;
    run_make(&run, 50, "p");
    for (size_t nth = 1; nth < 1000; nth++) {
        char *text;
        size_t size;
        FILE *out = open_memstream(&text, &size);
        int r;

        mem_fail_at(nth);
        r = report_write(out, (const struct run_result *const[]){ &run }, 1, NULL, NULL, NULL);
        mem_fail_at(0);
        fclose(out);
        assert_true(r == 0 || r == -ENOMEM);
        assert_true(r == 0 || size == 0); /* nothing half-written */
        free(text);
        if (r == 0) {
            assert_true(nth > 10);
            run_result_done(&run);
            return;
        }
    }
    fail_msg("never written");
}

/* Queues over a long run stay few samples, and means over time are kept; predictions are held against what came. */
static void policies_tell(void **state)
{
    struct run_result run = { 0 };
    const struct run_result *runs[] = { &run };
    struct told_summary sum;
    struct page page;
    json_t *levels;

    (void)state;
    run_make(&run, 10, "las");
    run.told.levels = 3;
    run.told.promotions = 5;
    for (usec_t t = 0; t < 10000; t++) {
        struct level_sample sample = { .at = t * USEC_SEC, .jobs = { 2, t < 5000 ? 4 : 0, 7 } };

        if (told_due(&run.told, sample.at))
            assert_int_equal(told_levels(&run.told, &sample), 0);
    }
    assert_in_range(run.told.sample_count, TOLD_SAMPLES / 4, TOLD_SAMPLES);
    run.tally.last.at = 10000 * USEC_SEC;
    run.jobs[0] = (struct job_result){ .start = 0, .end = 100 * USEC_SEC, .outcome = OUTCOME_DONE, .deadline_met = -1 };
    run.jobs[1].outcome = OUTCOME_FAILED;
    for (int i = 0; i < 4; i++) {
        usec_t at = (10 + 25 * i) * USEC_SEC;
        struct prediction p = { .job = 0, .at = at, .left = 100 * USEC_SEC - at + 8 * USEC_SEC }, failed = { .job = 1 };

        assert_int_equal(told_predicted(&run.told, &p), 0);
        assert_int_equal(told_predicted(&run.told, &failed), 0);
    }
    told_summarize(&run, &sum);
    assert_int_equal(sum.predictions, 4);
    assert_true(fabs(sum.error - 0.08) < 1e-9 && fabs(sum.error_quarter[3] - 0.08) < 1e-9);
    assert_true(fabs(sum.mean_jobs[0] - 2) < 1e-9 && fabs(sum.mean_jobs[1] - 2) < 0.05);
    assert_int_equal(sum.max_jobs[2], 7);
    page_write(&page, runs, 1, NULL);
    levels = json_object_get(json_array_get(json_object_get(page.data, "runs"), 0), "levels");
    assert_int_equal(json_integer_value(json_object_get(levels, "promotions")), 5);
    assert_int_equal(json_array_size(json_object_get(levels, "jobs")), 3);
    assert_int_equal(json_array_size(json_object_get(levels, "at")), run.told.sample_count);
    levels = json_object_get(json_array_get(json_object_get(page.data, "runs"), 0), "predictions");
    assert_int_equal(json_array_size(json_object_get(levels, "points")), 8);
    page_done(&page);
    run_result_done(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_runs_stay_small),       cmocka_unit_test(distributions_are_exact),
        cmocka_unit_test(names_cannot_break_out),      cmocka_unit_test(many_runs_leave_detail_out),
        cmocka_unit_test(gangs_are_one_bar),           cmocka_unit_test(empty_runs_have_a_page),
        cmocka_unit_test(failed_allocations_are_told), cmocka_unit_test(policies_tell),
    };

    return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
