/* SPDX-License-Identifier: Apache-2.0 */
/* test_gantt.c - what was done to running jobs is in the report's chart: moves, sizes, pairs, guests, limits, splices.
 *
 * Each on a small run whose decisions a golden story has; then, on several seeds, that bars and marks tell the whole
 * run and nothing else: no GPU has more than one GPU's worth of bars, none of a job's time is missing, and there are as
 * many marks of a kind as --json counts. How it looks is tests/web/check_report.sh's affair.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/rng.h"
#include "core/core.h"
#include "policy_play.h"
#include "sim/output/report.h"

enum { BAR = 9, MARK = 5 };

static json_t *gantt_of(const struct run_result *run)
{
    const char *mark = "id=\"data\">", *begin, *end;
    struct cluster_spec none = { 0 };
    char *text = NULL;
    size_t size = 0;
    json_t *data, *gantt;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    assert_int_equal(report_write(out, &run, 1, NULL, &none, NULL), 0);
    fclose(out);
    begin = strstr(text, mark);
    assert_non_null(begin);
    begin += strlen(mark);
    end = strstr(begin, "</script>");
    assert_non_null(end);
    data = json_loadb(begin, (size_t)(end - begin), 0, NULL);
    assert_non_null(data);
    gantt = json_incref(json_object_get(json_array_get(json_object_get(data, "runs"), 0), "gantt"));
    assert_non_null(gantt);
    json_decref(data);
    free(text);
    return gantt;
}

static double number(const json_t *gantt, const char *list, size_t at)
{
    return json_number_value(json_array_get(json_object_get(gantt, list), at));
}

/* The marks, as text: "60 e size 2 4; ..." with jobs by their ids. */
static void told(const json_t *gantt, char *out, size_t size)
{
    static const char *const names[] = { "move", "size", "splice", "pack", "unpack", "limit" };
    size_t count = json_array_size(json_object_get(gantt, "marks")), used = 0;

    out[0] = 0;
    for (size_t i = 0; i < count && used < size; i += MARK)
        used += (size_t)snprintf(out + used, size - used, "%s%g %s %s %g %g", i ? "; " : "", number(gantt, "marks", i),
                                 json_string_value(json_array_get(json_object_get(gantt, "jobs"),
                                                                  4 * (size_t)number(gantt, "marks", i + 1))),
                                 names[(size_t)number(gantt, "marks", i + 2)], number(gantt, "marks", i + 3),
                                 number(gantt, "marks", i + 4));
}

/* The bars of a job, as text: "from+length:GPU[xGPUs]/share" and how it has them. */
static void drawn(const json_t *gantt, size_t job, char *out, size_t size)
{
    size_t count = json_array_size(json_object_get(gantt, "bars")), used = 0;

    out[0] = 0;
    for (size_t i = 0; i < count && used < size; i += BAR)
        if ((size_t)number(gantt, "bars", i + 4) == job)
            used +=
                (size_t)snprintf(out + used, size - used, "%s%g+%g:%gx%g/%g %g%s%s%s%s", used ? "; " : "",
                                 number(gantt, "bars", i), number(gantt, "bars", i + 1), number(gantt, "bars", i + 2),
                                 number(gantt, "bars", i + 3), number(gantt, "bars", i + 6),
                                 number(gantt, "bars", i + 8), number(gantt, "bars", i + 5) > 0 ? " starting" : "",
                                 (int)number(gantt, "bars", i + 7) & SPAN_PAIR ? " pair" : "",
                                 (int)number(gantt, "bars", i + 7) & SPAN_GUEST ? " guest" : "",
                                 (int)number(gantt, "bars", i + 7) & SPAN_SPLICED ? " spliced" : "");
}

static void expect(const struct play *p, struct trace *trace, const char *marks, const char *const *bars)
{
    struct run_result result = play(p, trace);
    json_t *gantt = gantt_of(&result);
    char text[2048];

    told(gantt, text, sizeof(text));
    assert_string_equal(text, marks);
    for (size_t i = 0; bars[i]; i++) {
        drawn(gantt, i, text, sizeof(text));
        assert_string_equal(text, bars[i]);
    }
    json_decref(gantt);
    run_result_done(&result);
    trace_done(trace);
}

/* Golden story gandiva_g8, with what a move costs: an elastic job grows, gives back, grows by what is left. */
static void sizes(void **unused)
{
    static const char *const bars[] = {
        "0+60:0x2/1000 2; 60+9:0x4/1000 4 starting; 69+31:0x4/1000 4; 100+5:0x2/1000 2 starting; "
        "105+55:0x2/1000 2; 160+7:0x2/1000 3 starting; 160+7:3x1/1000 3 starting; "
        "167+493:0x2/1000 3; 167+493:3x1/1000 3; 660+9:0x4/1000 4 starting; "
        "669+41.75:0x4/1000 4",
        "100+500:2x1/1000 1", NULL
    };
    struct play p = { .cluster = "1x4", .policy = "gandiva", .world = { { "costs", "gandiva" } }, .bars = true };
    struct trace trace = { 0 };

    (void)unused;
    add_job(&trace, 0, 2, 1000)->spec.gpus_max = 4;
    add_job(&trace, 100, 1, 500);
    expect(&p, &trace, "60 0 size 2 4; 100 0 size 4 2; 160 0 size 2 3; 660 0 size 3 4", bars);
}

/* A gang that had to lie on two servers comes together when others have ended. */
static void moves(void **unused)
{
    static const int64_t run[] = { 100, 100, 100, 1, 1, 100, 900, 900 };
    static const char *const bars[] = { "0+100:0x1/1000 1",
                                        "0+100:1x1/1000 1",
                                        "0+100:2x1/1000 1",
                                        "0+1:3x1/1000 1",
                                        "0+1:4x1/1000 1",
                                        "0+100:5x1/1000 1",
                                        "0+900:6x1/1000 1",
                                        "0+900:7x1/1000 1",
                                        "1+99:3x1/1000 2; 1+99:4x1/1000 2; 100+10:4x2/1000 2 starting; "
                                        "110+401:4x2/1000 2",
                                        NULL };
    struct play p = { .cluster = "2x4",
                      .policy = "fifo",
                      .settings = { { "optimise", "migrate" } },
                      .world = { { "costs", "gandiva" } },
                      .bars = true };
    struct trace trace = { 0 };

    (void)unused;
    for (int i = 0; i < 8; i++)
        add_job(&trace, 0, 1, run[i]);
    add_job(&trace, 0, 2, 500);
    expect(&p, &trace, "100 8 move 2 2", bars);
}

/* G6: two jobs share a GPU, half of it each in the chart; they are apart again, for together they do less than turns.
 */
static void pairs(void **unused)
{
    static const char *const bars[] = {
        "0+130:0x1/1000 1; 130+120:1x1/500 1 pair; 310+822:1x1/1000 1",
        "0+130:1x1/1000 1; 130+120:1x1/500 1 pair; 250+60:1x1/1000 1; 310+120:0x1/500 1 pair; "
        "650+765:0x1/1000 1",
        "130+180:0x1/1000 1; 310+120:0x1/500 1 pair; 430+220:0x1/1000 1", NULL
    };
    char path[] = "/tmp/muster-pairs-XXXXXX";
    struct play p = { .cluster = "1x2", .policy = "fifo-skip+pack", .world = { { "pairs", path } }, .bars = true };
    struct trace trace = { 0 };
    FILE *file = fdopen(mkstemp(path), "w");

    (void)unused;
    assert_non_null(file);
    assert_true(fputs("model_a,model_b,rate_a,rate_b\na,b,0.4,0.375\na,c,0,0\nb,c,0,0\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    for (int i = 0; i < 3; i++) {
        struct trace_job *job = add_job(&trace, i / 2 * 10, 1, i < 2 ? 1000 : 400);

        assert_int_equal(names_put(&trace.models, &"abc"[i], 1, &job -> spec.model), 0);
    }
    expect(&p, &trace, "130 0 pack 1 0; 250 0 unpack 1 0; 310 1 pack 2 0; 430 1 unpack 2 0", bars);
    (void)unlink(path);
}

/* An opportunistic job has an idle GPU; when its owner comes it stays, with a tenth of the time. */
static void guests(void **unused)
{
    static const char *const bars[] = { "0+10:0x1/1000 1 guest; 10+50:0x1/500 1 guest; 60+10:0x1/1000 1 guest",
                                        "10+50:0x1/500 1", NULL };
    struct play p = { .cluster = "1x1", .policy = "antman", .until = 70, .bars = true };
    struct trace trace = { 0 };
    struct trace_job *job;

    (void)unused;
    job = add_job(&trace, 0, 1, 100);
    job->spec.klass = CLASS_OPPORTUNISTIC;
    job->spec.utilisation = 40;
    job = add_job(&trace, 10, 1, 50);
    job->spec.utilisation = 50;
    expect(&p, &trace, "10 0 limit 0 10; 60 0 limit 0 100", bars);
}

/* The beginning of golden story singularity_turns: workers take turns on half the GPUs, and have all of them later. */
static void splices(void **unused)
{
    static const char *const bars[] = {
        "0+3000:0x8/1000 8", "0+2100:8x8/1000 8; 2100+45:8x4/1000 4 starting spliced; 2145+855:8x4/1000 4 spliced",
        "60+2043:16x4/1000 4 spliced; 2103+45:12x8/1000 8 starting; 2148+852:12x8/1000 8", NULL
    };
    struct play p = { .cluster = "1x20",
                      .policy = "singularity",
                      .settings = { { "save-every", "0" }, { "turns", "0" } },
                      .world = { { "costs", "singularity" } },
                      .until = 3000,
                      .bars = true };
    struct trace trace = { 0 };

    (void)unused;
    for (int i = 0; i < 3; i++)
        add_job(&trace, i / 2 * 60, 8, 9000)->spec.tier = TIER_STANDARD;
    expect(&p, &trace, "2100 1 splice 8 4; 2103 2 splice 4 8", bars);
}

/* ---- the whole run and nothing else ---- */

static void draw_jobs(struct trace *trace, uint64_t seed)
{
    static const char models[] = "abc";
    struct rng rng;

    rng_seed(&rng, seed);
    for (int i = 0, at = 0; i < 60; i++, at += (int)rng_below(&rng, 120)) {
        struct trace_job *job = add_job(trace, at, 1 << rng_below(&rng, 3), 200 + (int64_t)rng_below(&rng, 2000));

        job->spec.gpus_max = job->spec.gpus << rng_below(&rng, 2);
        job->spec.klass = rng_below(&rng, 3) ? CLASS_GUARANTEED : CLASS_OPPORTUNISTIC;
        job->spec.tier = (uint8_t)rng_below(&rng, TIER_COUNT);
        job->spec.utilisation = (uint16_t)(20 + rng_below(&rng, 60));
        assert_int_equal(names_put(&trace->models, &models[rng_below(&rng, 3)], 1, &job->spec.model), 0);
    }
}

static int by_gpu(const void *left, const void *right)
{
    const struct span *a = left, *b = right;

    if (a->gpu != b->gpu)
        return a->gpu < b->gpu ? -1 : 1;
    return a->from < b->from ? -1 : a->from > b->from;
}

/* At no instant do bars of running jobs come to more than a GPU. */
static void never_too_high(struct run_result *run)
{
    qsort(run->spans, run->span_count, sizeof(*run->spans), by_gpu);
    for (size_t i = 0; i < run->span_count; i++) {
        mgpu_t sum = 0;

        for (size_t k = i + 1; k-- > 0 && run->spans[k].gpu == run->spans[i].gpu;)
            if (run->spans[k].to > run->spans[i].from && run->spans[k].kind == 0)
                sum += run->spans[k].share;
        assert_true(run->spans[i].kind || sum <= MGPU_ONE);
    }
}

/* A job's bars are as long as it ran, on as many GPUs. */
static void never_missing(const struct run_result *run)
{
    for (uint32_t j = 0; j < run->job_count; j++) {
        const struct job_result *job = &run->jobs[j];
        int64_t seen = 0, had = job->service ? job->service : svc_of((int64_t)job->gpus * job->share, job->run);

        for (size_t i = 0; i < run->span_count; i++)
            if (run->spans[i].job == j && run->spans[i].kind == 0)
                seen += run->spans[i].to - run->spans[i].from;
        assert_in_range(seen - had + 1000, 0, 2000); /* to a millisecond */
    }
}

/* As many as --json counts. */
static void never_miscounted(const struct run_result *run)
{
    uint64_t by_kind[MARK_LIMIT + 1] = { 0 };

    for (size_t i = 0; i < run->mark_count; i++) {
        by_kind[run->marks[i].kind]++;
        assert_true(i == 0 || run->marks[i].at >= run->marks[i - 1].at);
    }
    assert_int_equal(by_kind[MARK_MOVE], run->reshaped[RESHAPE_MIGRATE].count);
    assert_int_equal(by_kind[MARK_SIZE] + by_kind[MARK_SPLICE], run->reshaped[RESHAPE_RESIZE].count);
    assert_true(run->reshaped[RESHAPE_RESIZE].gain >= 0 && run->reshaped[RESHAPE_RESIZE].left >= 0);
    assert_int_equal(by_kind[MARK_PACK], run->reshaped[RESHAPE_PACK].count);
    assert_int_equal(by_kind[MARK_LIMIT], run->shared.limits);
}

static void whole_runs(void **unused)
{
    static const char *const policies[] = { "gandiva", "antman", "singularity", "srtf+pack+migrate+grow" };
    uint64_t kinds[RESHAPE_KINDS] = { 0 }, limits = 0;

    (void)unused;
    for (size_t k = 0; k < sizeof(policies) / sizeof(policies[0]); k++)
        for (uint64_t seed = 1; seed <= 6; seed++) {
            struct play p = { .cluster = "3x4",
                              .policy = policies[k],
                              .world = { { "costs", k == 2 ? "singularity" : "gandiva" } },
                              .seed = seed,
                              .bars = true };
            struct trace trace = { 0 };
            struct run_result run;

            draw_jobs(&trace, seed);
            run = play(&p, &trace);
            assert_int_equal(run.spans_until, 0);
            never_too_high(&run);
            never_missing(&run);
            never_miscounted(&run);
            for (int i = 0; i < RESHAPE_KINDS; i++)
                kinds[i] += run.reshaped[i].count;
            limits += run.shared.limits;
            run_result_done(&run);
            trace_done(&trace);
        }
    assert_true(kinds[RESHAPE_PACK] > 10 && kinds[RESHAPE_MIGRATE] > 10 && kinds[RESHAPE_RESIZE] > 10 && limits > 10);
}

/* With more marks than a chart can have it ends there, and says so. */
static void too_many(void **unused)
{
    struct run_result run = { .gpu_count = 1, .node_count = 1 };

    (void)unused;
    for (int i = 0; i <= RUN_MARKS_MAX; i++)
        assert_int_equal(run_result_mark(&run, &(struct mark){ .at = i }), 0);
    assert_int_equal(run.mark_count, RUN_MARKS_MAX);
    assert_int_equal(run.spans_until, RUN_MARKS_MAX);
    assert_int_equal(run_result_span(&run, &(struct span){ .from = RUN_MARKS_MAX, .to = RUN_MARKS_MAX + 1 }), 0);
    assert_int_equal(run.span_count, 0);
    run_result_done(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),   cmocka_unit_test(moves),      cmocka_unit_test(pairs),    cmocka_unit_test(guests),
        cmocka_unit_test(splices), cmocka_unit_test(whole_runs), cmocka_unit_test(too_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
