/* SPDX-License-Identifier: Apache-2.0 */
/* test_output.c - JSON, CSV and table of a run, byte by byte or read back by another program's parser. */
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
#include "model/trace.h"
#include "sim/metrics/metrics_share.h"
#include "sim/output/output.h"
#include "sim/output/output_text.h"

/* What a function writes, as a string to free(). */
struct sink {
    FILE *out;
    char *text;
    size_t size;
};

static void sink_open(struct sink *sink)
{
    *sink = (struct sink){ 0 };
    sink->out = open_memstream(&sink->text, &sink->size);
    assert_non_null(sink->out);
}

static const char *sink_text(struct sink *sink)
{
    fclose(sink->out);
    return sink->text;
}

#define WRITES(expected, call)                                                                                         \
    do {                                                                                                               \
        struct sink sink;                                                                                              \
        sink_open(&sink);                                                                                              \
        call;                                                                                                          \
        assert_string_equal(sink_text(&sink), expected);                                                               \
        free(sink.text);                                                                                               \
    } while (0)

static void numbers_are_exact_and_short(void **state)
{
    (void)state;
    WRITES("0", text_usec(sink.out, 0));
    WRITES("90", text_usec(sink.out, 90 * USEC_SEC));
    WRITES("0.000001", text_usec(sink.out, 1));
    WRITES("1.5", text_usec(sink.out, 1500000));
    WRITES("-1.25", text_usec(sink.out, -1250000));
    WRITES("9223372036854.775807", text_usec(sink.out, INT64_MAX));
    WRITES("-9223372036854.775808", text_usec(sink.out, INT64_MIN));
    WRITES("12514491", text_real(sink.out, 12514491));
    WRITES("26071.85625", text_real(sink.out, 26071.85625));
    WRITES("0.333333", text_real(sink.out, 1.0 / 3));
    WRITES("0", text_real(sink.out, -1e-9));
    WRITES("null", text_real(sink.out, (double)NAN));
    WRITES("null", text_real(sink.out, (double)INFINITY));
    WRITES("1000000000000000000000", text_real(sink.out, 1e21));
}

static void strings_cannot_break_out(void **state)
{
    (void)state;
    WRITES("[\"\\u003c/script\\u003e\\u0026\"]", text_script_json(sink.out, "[\"</script>&\"]", 14));
    WRITES("\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd!", text_html(sink.out, "\xc3\xa9\xc3\xff!"));
    WRITES("&lt;b a=&quot;&#39;&quot;&gt;&amp;\xef\xbf\xbd", text_html(sink.out, "<b a=\"'\">&\x01"));
    WRITES("plain", text_csv(sink.out, "plain"));
    WRITES("\"a,\"\"b\"\"\"", text_csv(sink.out, "a,\"b\""));
    WRITES("\"two\nlines\"", text_csv(sink.out, "two\nlines"));
    WRITES("a/b.csv", text_html_shell(sink.out, "a/b.csv"));
    WRITES("&#39;x &lt;y&#39;\\&#39;&#39;z&#39;", text_html_shell(sink.out, "x <y'z"));
    WRITES("&#39;&#39;", text_html_shell(sink.out, ""));
}

static void spans_read_well(void **state)
{
    static const struct {
        double seconds;
        const char *text;
    } cases[] = { { 0, "0s" },         { 0.0421, "42.1ms" },  { 1, "1.0s" },     { 99.94, "99.9s" },
                  { 99.96, "1m40s" },  { 3600, "60m00s" },    { 6000, "1h40m" }, { 26071.86, "7h15m" },
                  { 172800, "2d00h" }, { 286966, "3d08h" },   { -90, "-90.0s" }, { (double)NAN, "-" },
                  { 5999.6, "1h40m" }, { 172780.0, "2d00h" }, { 0.9996, "1.0s" } };
    char buffer[40];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(text_span(buffer, sizeof(buffer), cases[i].seconds), cases[i].text);
    assert_string_equal(text_count(buffer, sizeof(buffer), 1234567), "1,234,567");
    assert_string_equal(text_count(buffer, sizeof(buffer), 999), "999");
    assert_string_equal(text_count(buffer, sizeof(buffer), UINT64_MAX), "18,446,744,073,709,551,615");
}

static uint32_t put(struct names *names, const char *text)
{
    uint32_t index;

    assert_int_equal(names_put(names, text, strlen(text), &index), 0);
    return index;
}

static const struct job_result fixture_jobs[] = {
    { .id = 0,
      .submit = 1500000,
      .start = 2 * USEC_SEC,
      .end = 12 * USEC_SEC,
      .run = 10 * USEC_SEC,
      .alone = 10 * USEC_SEC,
      .gpus = 3,
      .share = MGPU_ONE,
      .preemptions = 2,
      .migrations = 1,
      .attempts = 3,
      .nodes = 1,
      .outcome = OUTCOME_DONE,
      .user = 0,
      .vc = 0,
      .model = NAME_NONE,
      .deadline_met = -1,
      .waited = { [REASON_PRIORITY] = 500000 },
      .fragmentation = 500000,
      .overhead = 1,
      .lost = 250000 },
    { .id = 1,
      .submit = 3 * USEC_SEC,
      .start = 3 * USEC_SEC,
      .end = -1,
      .gpus = 1,
      .share = 500,
      .attempts = 1,
      .outcome = OUTCOME_RUNNING,
      .user = 0,
      .vc = 1,
      .model = 0,
      .deadline_met = -1,
      .locality = 2,
      .nodes = 1 },
    { .id = 2,
      .submit = 4 * USEC_SEC,
      .start = -1,
      .end = -1,
      .gpus = 64,
      .share = MGPU_ONE,
      .outcome = OUTCOME_REFUSED,
      .user = NAME_NONE,
      .vc = NAME_NONE,
      .model = NAME_NONE,
      .deadline_met = -1 },
};

/* Three jobs on four GPUs: one done, one half a GPU wide and still running, one refused. */
static void fixture(struct run_result *run, struct trace *trace)
{
    *run = (struct run_result){ .policy = "fifo",
                                .trace_name = "t.csv",
                                .cluster_name = "1x4",
                                .seed = 7,
                                .settings = "place=count",
                                .gpu_count = 4,
                                .node_count = 1,
                                .job_count = 3 };
    *trace = (struct trace){ 0 };
    run->jobs = mem_zalloc(3, sizeof(fixture_jobs[0]));
    assert_non_null(run->jobs);
    memcpy(run->jobs, fixture_jobs, sizeof(fixture_jobs));
    put(&trace->users, "alice");
    put(&trace->vcs, "nlp");
    put(&trace->vcs, "c,v");
    put(&trace->models, "bert");
    run->summary.digest = 0xabcdef;
    run->summary.decisions = 3;
    run->summary.wall_seconds = 0.25;
    run->summary.decisions_per_second = 12;
    run->summary.peak_rss_bytes = 4096;
    assert_int_equal(metrics_compute(run), 0);
}

static void csv_has_every_job(void **state)
{
    struct run_result run;
    struct trace trace;

    (void)state;
    fixture(&run, &trace);
    WRITES(
        "job_id,gpus,submit_seconds,start_seconds,end_seconds,preemptions,migrations,attempts,outcome,vc,user,"
        "model,run_seconds,overhead_seconds,lost_seconds,queue_seconds,fair_share_seconds,fragmentation_seconds,"
        "nodes,locality,wait_Held_seconds,wait_Backoff_seconds,wait_Profiling_seconds,wait_VcLimit_seconds,"
        "wait_BorrowLimit_seconds,wait_InsufficientGpus_seconds,wait_Fragmented_seconds,"
        "wait_NodesUnhealthy_seconds,wait_ReservedForJob_seconds,wait_Priority_seconds,wait_Suspended_seconds,"
        "wait_Preempting_seconds,wait_Acquiring_seconds,wait_Scheduling_seconds,wait_UserLimit_seconds,"
        "wait_InsufficientCpuMem_seconds,wait_TopologyUnsatisfied_seconds,wait_LicenseLimit_seconds,promise_seconds,"
        "offer_seconds,breach\n"
        "0,3,1.5,2,12,2,1,3,done,nlp,alice,,10,0.000001,0.25,0.5,0,0.5,1,0,0,0,0,0,0,0,0,0,0,0.5,0,0,0,0,0,0,0,0,,,\n"
        "1,0.5,3,3,,0,0,1,running,\"c,v\",alice,bert,0,0,0,,0,0,1,2,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,,,\n"
        "2,64,4,,,0,0,0,refused,,,,0,0,0,,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,,,\n",
        output_jobs_csv(sink.out, &run, &trace));
    trace_done(&trace);
    run_result_done(&run);
}

static void csv_gives_text_ids_back(void **state)
{
    struct run_result run;
    struct trace trace;
    struct sink sink;

    (void)state;
    fixture(&run, &trace);
    put(&trace.ids, "application_1");
    put(&trace.ids, "=2+\"x\"");
    sink_open(&sink);
    output_jobs_csv(sink.out, &run, &trace);
    sink_text(&sink);
    assert_non_null(strstr(sink.text, "\napplication_1,3,1.5,"));
    assert_non_null(strstr(sink.text, "\n\"=2+\"\"x\"\"\",0.5,"));
    free(sink.text);
    sink_open(&sink);
    output_jobs_csv(sink.out, &run, NULL); /* without names the rest still stands */
    sink_text(&sink);
    assert_non_null(strstr(sink.text, "\n0,3,1.5,2,12,2,1,3,done,,,,10,"));
    free(sink.text);
    trace_done(&trace);
    run_result_done(&run);
}

static const char *const promised[] = {
    "jobs",
    "finished",
    "avg_jct_seconds",
    "p50_jct_seconds",
    "p95_jct_seconds",
    "p99_jct_seconds",
    "max_jct_seconds",
    "sum_jct_seconds",
    "makespan_seconds",
    "avg_queue_seconds",
    "gpu_utilization_ratio",
    "fragmentation_ratio",
    "preemptions",
    "migrations",
    "deadline_miss_ratio",
    "weighted_miss_ratio",
    "broken_promises",
    "admitted",
    "refused",
    "planner",
    "decisions",
    "decisions_per_second",
    "wall_seconds",
    "peak_rss_bytes",
    "digest",
    "policy",
    "cluster",
    "trace",
    "seed",
    "settings",
    "failed",
    "refused",
    "lost_gpu_seconds",
    "overhead_gpu_seconds",
    "avg_fair_share_seconds",
    "avg_fragmentation_seconds",
    "wait_seconds_by_reason",
    "by_size",
    "p95_queue_seconds",
    "by_vc",
};

/* Two users: one is slowed by 1 and 3 (mean 2), the other by 4. (2+4)^2 / (2 (4+16)) = 0.9. */
static void shares_and_series(void **state)
{
    struct job_result jobs[] = {
        { .id = 1, .submit = 0, .end = 10 * USEC_SEC, .alone = 10 * USEC_SEC, .user = 0, .vc = 0, .gpus = 1 },
        { .id = 2, .submit = 0, .end = 30 * USEC_SEC, .alone = 10 * USEC_SEC, .user = 0, .vc = 1, .gpus = 1 },
        { .id = 3, .submit = 0, .end = 40 * USEC_SEC, .alone = 10 * USEC_SEC, .user = 1, .vc = 1, .gpus = 1 },
    };
    struct run_result run = { .jobs = jobs, .job_count = 3 };
    struct shares shares;
    struct sink sink;
    json_t *root, *list;

    (void)state;
    for (int i = 0; i < 3; i++) {
        jobs[i].outcome = OUTCOME_DONE;
        jobs[i].share = MGPU_ONE;
        jobs[i].run = 10 * USEC_SEC;
    }
    assert_int_equal(shares_init(&shares, &run), 0);
    assert_true(fabs(shares.fairness - 0.9) < 1e-12);
    assert_int_equal(shares.vc_count, 2);
    assert_true(shares.vcs[1].avg_queue == 25 && shares.vcs[1].avg_slowdown == 3.5 && shares.vcs[1].gpu_seconds == 20);
    assert_true(shares.p50_queue == 20 && shares.p95_queue == 30);
    shares_done(&shares);
    run.job_count = 2; /* one user: nothing to be fair between */
    assert_int_equal(shares_init(&shares, &run), 0);
    assert_true(isnan(shares.fairness));
    shares_done(&shares);
    for (int i = 0; i < 8; i++)
        assert_int_equal(run_result_sample(&run, &(struct sample){ .at = i * USEC_SEC,
                                                                   .mgpu_held = (int64_t)i * MGPU_ONE,
                                                                   .mgpu_total = 8 * MGPU_ONE,
                                                                   .waiting = 2 }),
                         0);
    sink_open(&sink);
    assert_int_equal(output_json(sink.out, &run, 3), 0);
    root = json_loads(sink_text(&sink), JSON_REJECT_DUPLICATES, NULL);
    list = json_object_get(json_object_get(root, "series"), "gpus_used_total_jobs_waiting");
    assert_in_range(json_array_size(list), 1, 3);
    assert_true(json_number_value(json_array_get(json_array_get(list, 0), 1)) == 8);
    assert_int_equal(json_array_size(json_object_get(root, "queue_seconds_by_percentile")), 101);
    assert_true(json_number_value(json_array_get(json_object_get(root, "jct_seconds_by_percentile"), 100)) == 30);
    json_decref(root);
    free(sink.text);
    run.jobs = NULL; /* not its own */
    run_result_done(&run);
}

static void json_reads_back(void **state)
{
    struct run_result run;
    struct trace trace;
    struct sink sink;
    json_t *root;

    (void)state;
    fixture(&run, &trace);
    snprintf(run.trace_name, sizeof(run.trace_name), "\"odd\"\n\xff.csv");
    sink_open(&sink);
    assert_int_equal(output_json(sink.out, &run, 0), 0);
    root = json_loads(sink_text(&sink), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    for (size_t i = 0; i < sizeof(promised) / sizeof(promised[0]); i++)
        assert_non_null(json_object_get(root, promised[i]));
    assert_string_equal(json_string_value(json_object_get(root, "digest")), "0000000000abcdef");
    assert_string_equal(json_string_value(json_object_get(root, "trace")), "\"odd\"\n\xef\xbf\xbd.csv");
    assert_true(json_is_null(json_object_get(root, "deadline_miss_ratio")));
    assert_true(json_is_integer(json_object_get(root, "makespan_seconds")) == 0); /* 10.5 */
    assert_true(json_real_value(json_object_get(root, "makespan_seconds")) == 10.5);
    assert_int_equal(json_integer_value(json_object_get(root, "decisions")), 3);
    assert_true(json_number_value(json_object_get(json_object_get(root, "wait_seconds_by_reason"), "Priority")) == 0.5);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(json_object_get(root, "by_size"), ">8"), "jobs")), 1);
    assert_non_null(strstr(sink.text, "\n  \"p50_jct_seconds\": 10.5,\n"));
    json_decref(root);
    free(sink.text);
    trace_done(&trace);
    run_result_done(&run);
}

static void json_list_holds_all(void **state)
{
    struct run_result run;
    struct trace trace;
    struct sink sink;
    json_t *root;

    (void)state;
    fixture(&run, &trace);
    sink_open(&sink);
    assert_int_equal(output_json_list(sink.out, (const struct run_result *const[]){ &run, &run }, 2, 0), 0);
    root = json_loads(sink_text(&sink), 0, NULL);
    assert_non_null(root);
    assert_int_equal(json_array_size(json_object_get(root, "items")), 2);
    json_decref(root);
    free(sink.text);
    sink_open(&sink);
    mem_fail_at(1);
    assert_int_equal(output_json(sink.out, &run, 0), -ENOMEM);
    mem_fail_at(0);
    assert_string_equal(sink_text(&sink), ""); /* nothing half-written */
    free(sink.text);
    trace_done(&trace);
    run_result_done(&run);
}

static void json_list_of_none(void **state)
{
    (void)state;
    WRITES("{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"SimRunList\",\n  \"items\": [],\n  \"next\": null\n}\n",
           assert_int_equal(output_json_list(sink.out, NULL, 0, 0), 0));
}

static struct run_result row(const char *policy, uint64_t seed, double avg, double util, uint64_t preemptions)
{
    struct run_result run = { .seed = seed, .trace_name = "t", .cluster_name = "c" };

    snprintf(run.policy, sizeof(run.policy), "%s", policy);
    run.summary = (struct summary){ .jobs = 480,
                                    .finished = 480,
                                    .avg_jct = avg,
                                    .p50_jct = avg / 2,
                                    .p95_jct = 3 * avg,
                                    .max_jct = 10 * avg,
                                    .avg_queue = avg / 4,
                                    .makespan = 90000,
                                    .gpu_utilization = util,
                                    .fragmentation = 0.1,
                                    .deadline_miss = (double)NAN,
                                    .preemptions = preemptions };
    return run;
}

static void table_compares(void **state)
{
    struct run_result a = row("fifo", 1, 24000, 0.5, 0), b = row("srtf", 1, 6000, 0.75, 777);

    (void)state;
    WRITES("POLICY  DONE  AVG-JCT  P50-JCT  P95-JCT  MAX-JCT  AVG-QUEUE  MAKESPAN   UTIL   FRAG  PREEMPT  SPEEDUP\n"
           "fifo     480    6h40m    3h20m   20h00m    2d19h      1h40m    25h00m  50.0%  10.0%        0    1.00x\n"
           "srtf     480    1h40m*  50m00s*   5h00m*  16h40m*    25m00s*   25h00m  75.0%* 10.0%      777    4.00x\n"
           "* best; SPEEDUP is average JCT against the first line\n",
           assert_int_equal(output_table(sink.out, (const struct run_result *const[]){ &a, &b }, 2, false), 0));
}

static void table_warns_of_unequal_runs(void **state)
{
    struct run_result a = row("fifo", 1, 24000, 0.5, 0), b = row("srtf", 1, 6000, 0.75, 777);
    struct sink sink;

    (void)state;
    b.summary.finished = 479;
    sink_open(&sink);
    assert_int_equal(output_table(sink.out, (const struct run_result *const[]){ &a, &b }, 2, false), 0);
    assert_non_null(
        strstr(sink_text(&sink), "\nnot all finished the same number of jobs: means are over different jobs\n"));
    free(sink.text);
}

/* Ended before anything had: means over nothing are not the best, nor a measure of others. */
static void table_that_finished_nothing(void **state)
{
    struct run_result a = row("fifo", 1, 0, 0, 0), b = row("srtf", 1, 6000, 0.75, 777);
    const struct run_result *const runs[] = { &a, &b };
    struct sink sink;
    char *line;

    (void)state;
    a.summary.finished = 0;
    a.summary.avg_queue = a.summary.makespan = 0;
    sink_open(&sink);
    assert_int_equal(output_table(sink.out, runs, 2, false), 0);
    line = strstr(sink_text(&sink), "\nfifo ");
    assert_non_null(line);
    *strchr(line + 1, '\n') = '\0';
    assert_null(strstr(line, "0s"));
    assert_null(strchr(line, '*'));
    assert_null(strchr(line, '%'));
    assert_null(strstr(line + strlen(line) + 1, "0.00x"));
    free(sink.text);
}

static void table_compares_trace_by_trace(void **state)
{
    struct run_result runs[] = { row("fifo", 1, 100, 0.5, 0), row("srtf", 1, 50, 0.5, 0), row("fifo", 1, 20, 0.5, 0),
                                 row("srtf", 1, 40, 0.5, 0) };
    struct sink sink;

    (void)state;
    strcpy(runs[2].trace_name, "easy");
    strcpy(runs[3].trace_name, "easy");
    sink_open(&sink);
    assert_int_equal(
        output_table(sink.out, (const struct run_result *const[]){ &runs[0], &runs[1], &runs[2], &runs[3] }, 4, false),
        0);
    sink_text(&sink);
    assert_non_null(strstr(sink.text, "srtf, t      480    50.0s* "));
    assert_non_null(strstr(sink.text, "fifo, easy   480    20.0s* "));
    assert_non_null(strstr(sink.text, "2.00x\n"));
    assert_non_null(strstr(sink.text, "0.50x\n"));
    assert_null(strstr(sink.text, "5.00x"));
    assert_non_null(strstr(sink.text, "* best of its trace; "));
    free(sink.text);
}

static void table_takes_seeds_together(void **state)
{
    struct run_result runs[] = { row("fifo", 1, 10, 0.5, 0), row("srtf", 1, 5, 0.5, 1), row("fifo", 2, 30, 0.5, 0),
                                 row("srtf", 2, 5, 0.5, 3) };
    struct sink sink;

    (void)state;
    sink_open(&sink);
    assert_int_equal(
        output_table(sink.out, (const struct run_result *const[]){ &runs[0], &runs[1], &runs[2], &runs[3] }, 4, false),
        0);
    sink_text(&sink);
    assert_non_null(strstr(sink.text, "POLICY  SEEDS  OF    DONE  AVG-JCT  "));
    assert_non_null(strstr(sink.text, "fifo        2  min    480    10.0s  "));
    assert_non_null(strstr(sink.text, "fifo        2  mean   480    20.0s  "));
    assert_non_null(strstr(sink.text, "fifo        2  max    480    30.0s  "));
    assert_non_null(strstr(sink.text, "srtf        2  mean   480     5.0s* "));
    assert_non_null(strstr(sink.text, "  1    2.00x\n")); /* least speedup of srtf... */
    assert_non_null(strstr(sink.text, "4.00x\n"));        /* ...mean of 2 and 6, seed by seed */
    assert_non_null(strstr(sink.text, "6.00x\n"));
    free(sink.text);
}

static void table_of_one_is_a_list(void **state)
{
    struct run_result run;
    struct trace trace;
    struct sink sink;

    (void)state;
    fixture(&run, &trace);
    sink_open(&sink);
    assert_int_equal(output_table(sink.out, (const struct run_result *const[]){ &run }, 1, false), 0);
    sink_text(&sink);
    assert_non_null(strstr(sink.text, "AVG-JCT             10.5s  (10.5 s)\n"));
    assert_non_null(strstr(sink.text, "REFUSED                 1\n"));
    assert_non_null(strstr(sink.text, "DIGEST   0000000000abcdef\n"));
    assert_non_null(strstr(sink.text, "Priority                 500ms  100.0%\n"));
    assert_null(strstr(sink.text, "MISSED"));
    free(sink.text);
    trace_done(&trace);
    run_result_done(&run);
}

static void table_survives_odd_names(void **state)
{
    struct run_result a = row("a\x1b[31m", 1, 10, 0.5, 0), b = row("b", 1, 20, 0.5, 0);
    struct sink sink;

    (void)state;
    memset(b.settings, 'x', sizeof(b.settings) - 1);
    sink_open(&sink);
    assert_int_equal(output_table(sink.out, (const struct run_result *const[]){ &a, &b }, 2, false), 0);
    sink_text(&sink);
    assert_null(strchr(sink.text, '\x1b'));
    assert_non_null(strstr(sink.text, "a?[31m"));
    assert_non_null(strstr(sink.text, "xxx…  "));
    free(sink.text);
    for (size_t nth = 1; nth <= 3; nth++) {
        sink_open(&sink);
        mem_fail_at(nth);
        assert_int_equal(output_table(sink.out, (const struct run_result *const[]){ &a, &b }, 2, false), -ENOMEM);
        mem_fail_at(0);
        assert_string_equal(sink_text(&sink), "");
        free(sink.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_exact_and_short),
        cmocka_unit_test(strings_cannot_break_out),
        cmocka_unit_test(spans_read_well),
        cmocka_unit_test(csv_has_every_job),
        cmocka_unit_test(csv_gives_text_ids_back),
        cmocka_unit_test(shares_and_series),
        cmocka_unit_test(json_reads_back),
        cmocka_unit_test(json_list_holds_all),
        cmocka_unit_test(json_list_of_none),
        cmocka_unit_test(table_compares),
        cmocka_unit_test(table_that_finished_nothing),
        cmocka_unit_test(table_compares_trace_by_trace),
        cmocka_unit_test(table_warns_of_unequal_runs),
        cmocka_unit_test(table_takes_seeds_together),
        cmocka_unit_test(table_of_one_is_a_list),
        cmocka_unit_test(table_survives_odd_names),
    };

    return cmocka_run_group_tests_name("output", tests, NULL, NULL);
}
