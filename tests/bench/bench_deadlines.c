/* SPDX-License-Identifier: Apache-2.0 */
/* bench_deadlines.c - deadlines: how long an admission takes beside the exact solver, and what Chronus makes of its own
 * inputs and of ElasticFlow's beside what their authors' programs make of them.
 *
 * Admissions: a core with 500 promised jobs over 60 leases takes one job more, again and again; the whole step is
 * timed. Limits: half of them below 100 us, 99 of 100 below 50 ms. Inputs are those of MUSTER_SHARED/traces, with the
 * lease and the costs of the artifact; limits are its miss rates and 10 s of CPU each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "bench.h"
#include "io/file.h"
#include "sim/driver/driver.h"
#include "sim/gen/gen.h"
#include "sim/metrics/metrics.h"
#include "wire/cluster/cluster.h"
#include "wire/trace/import.h"
#include "work/lease_milp.h"

enum { PLANNED = 500, TRIES = 4000, LEASES = 60, GPUS = 176, EXACT_TASKS = 100 };

static int missed_limits;

static void limit(bool kept, const char *what)
{
    if (kept)
        return;
    printf("  MISSED: %s\n", what);
    missed_limits++;
}

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static struct jobspec draw(struct rng *rng, int64_t id, usec_t now)
{
    int64_t last = 2 + (int64_t)rng_below(rng, LEASES - 2),
            need = 1 + (int64_t)rng_below(rng, (uint64_t)(last / 4 + 1));
    int32_t gpus = 1 << rng_below(rng, 4);

    return (struct jobspec){ .id = id,
                             .submit = now,
                             .estimate = need * 18 * USEC_MIN,
                             .user = NAME_NONE,
                             .vc = NAME_NONE,
                             .model = NAME_NONE,
                             .gpus = gpus,
                             .share = MGPU_ONE,
                             .gpus_min = gpus,
                             .gpus_max = gpus,
                             .slo = SLO_STRICT,
                             .deadline_count = 1,
                             .deadlines = { { now + last * 20 * USEC_MIN, 10 } } };
}

/* Offers and steps; the answers of the world are not needed. Whether it was promised. */
static bool submit(struct core *core, struct rng *rng, int64_t id, double *ret_us, struct job_ref *ret_job)
{
    struct jobspec spec = draw(rng, id, core_now(core));
    struct event event = { .kind = EVENT_SUBMIT, .spec = &spec };
    const struct outbox *out;
    double begin = now_us();
    bool promised = false;

    if (core_offer(core, &event, ret_job, NULL) < 0)
        exit(1);
    out = core_step(core, core_now(core) + USEC_SEC / 100);
    *ret_us = now_us() - begin;
    for (size_t i = 0; i < out->decision_count; i++)
        promised |= out->decisions[i].kind == DECISION_PROMISE && out->decisions[i].id == id;
    return promised;
}

static void cancel(struct core *core, struct job_ref job)
{
    struct event event = { .kind = EVENT_CANCEL, .job = job.index, .gen = job.gen };

    if (core_offer(core, &event, NULL, NULL) == 0)
        (void)core_step(core, core_now(core) + USEC_SEC / 100);
}

static void bench_admission(void)
{
    static double took[TRIES];
    struct policy_setup setup;
    struct cluster_spec cluster = { 0 };
    struct core_config config = { .limits = { .jobs = PLANNED + 2000 }, .policies = &setup };
    struct core *core = NULL;
    struct job_ref job;
    struct rng rng;
    double us;
    int planned = 0, promised = 0;

    rng_seed(&rng, 1);
    policy_setup(policy_find("chronus"), &setup);
    if (cluster_parse("22x8", &cluster, NULL) < 0 || core_new(&cluster, &config, &core, NULL) < 0)
        exit(1);
    for (int64_t id = 0; planned < PLANNED && id < 2000; id++) {
        if (submit(core, &rng, id, &us, &job))
            planned++;
        else
            cancel(core, job);
    }
    for (int i = 0; i < TRIES; i++) {
        promised += submit(core, &rng, 10000 + i, &took[i], &job);
        cancel(core, job);
    }
    qsort(took, TRIES, sizeof(*took), ascending);
    printf("admission beside %d promised jobs over %d leases on %d GPUs, the whole step (%d of %d promised):\n",
           planned, LEASES, GPUS, promised, TRIES);
    printf("  p50 %.1f us, p99 %.1f us, longest %.1f us\n", took[TRIES / 2], took[TRIES * 99 / 100], took[TRIES - 1]);
    limit(took[TRIES / 2] < 100, "p50 below 100 us");
    limit(took[TRIES * 99 / 100] < 50000, "p99 below 50 ms");
    core_free(core);
    cluster_spec_done(&cluster);
}

/* ---- the exact solver ---- */

static void bench_exact(void)
{
    static struct lease_task tasks[PLANNED];
    static int32_t capacity[LEASES], used[LEASES], step[PLANNED], order[2 * PLANNED];
    static uint64_t bits[PLANNED];
    static int64_t request[1 << 13], words[1 << 13];
    struct lease_plan plan = { bits, used, step };
    struct work_answer answer = { words, 0, 1 << 13 };
    struct lease_problem problem = { tasks, EXACT_TASKS, LEASES, capacity, -1 };
    double begin;
    bool found;
    struct rng rng;

    rng_seed(&rng, 1);
    for (int l = 0; l < LEASES; l++)
        capacity[l] = 64;
    for (int i = 0; i < EXACT_TASKS; i++) {
        int32_t last = 2 + (int32_t)rng_below(&rng, LEASES - 2);

        tasks[i] = (struct lease_task){ .id = i,
                                        .size = 1 << rng_below(&rng, 4),
                                        .need = 1 + (int32_t)rng_below(&rng, (uint64_t)(last / 4 + 1)),
                                        .steps = 1,
                                        .last = { last },
                                        .value = { 10 } };
    }
    begin = now_us();
    found = lease_greedy(&problem, &plan, order);
    printf("a whole plan of %d jobs over %d leases: quickly %.0f us (%s)", EXACT_TASKS, LEASES, now_us() - begin,
           found ? "found" : "not found");
    lease_request(&problem, 100, request);
    begin = now_us();
    if (work_run(SOLVE_LEASES, request, lease_request_size(&problem), &answer, NULL) < 0)
        exit(1);
    printf(", by CBC %.0f ms (%s, gap %.2f %%)\n", (now_us() - begin) / 1e3,
           words[0] == LEASE_OPTIMAL ? "optimal"
           : words[0] == LEASE_LIMIT ? "limit"
                                     : "no plan",
           (double)words[1] / 1e4);
}

/* ---- inputs ---- */

static void read_input(const char *file, const char *format, int64_t modulo, struct trace *ret_trace)
{
    struct trace all = { 0 };
    struct import_notes notes = { 0 };
    struct bytes bytes = { 0 };
    struct error err = { 0 };
    char path[1024];

    snprintf(path, sizeof(path), "%s/%s", bench_traces(), file);
    if (file_read(path, 0, &bytes, &err) < 0 || import_trace(format, path, &bytes, &all, &notes, &err) < 0)
        bench_fail(path, &err);
    *ret_trace = all;
    if (modulo > 1) {
        size_t kept = 0;

        for (size_t i = 0; i < all.count; i++)
            if (all.jobs[i].spec.id % modulo == 0)
                ret_trace->jobs[kept++] = all.jobs[i];
        ret_trace->count = kept;
    }
    bytes_done(&bytes);
}

static void simulate(const char *cluster_text, struct trace *trace, const struct setting *settings, size_t count,
                     struct summary *ret_summary, double *ret_cpu)
{
    struct scenario_request request = { "chronus", settings, count };
    struct cluster_spec cluster = { 0 };
    struct scenario scenario = { 0 };
    struct run_result result = { 0 };
    struct error err = { 0 };
    double begin;

    if (cluster_parse(cluster_text, &cluster, &err) < 0 ||
        scenario_init(&scenario, &cluster, trace, &request, &err) < 0)
        bench_fail(cluster_text, &err);
    begin = bench_cpu_now();
    if (scenario_run(&scenario, 1, &result, &err) < 0)
        bench_fail(cluster_text, &err);
    *ret_cpu = bench_cpu_now() - begin;
    *ret_summary = result.summary;
    run_result_done(&result);
    scenario_done(&scenario);
    cluster_spec_done(&cluster);
}

static void bench_chronus(void)
{
    static const struct {
        const char *name, *cluster;
        int64_t modulo;
        double miss, best_effort; /* the artifact's; minutes */
    } inputs[] = {
        { "MIX1", "15x8", 8, 0.0380, 490.9 },  { "SLO", "15x8", 8, 0.0857, 0 },  { "MIX2", "15x8", 8, 0.0461, 272.8 },
        { "MIX1", "120x8", 1, 0.0384, 377.6 }, { "SLO", "120x8", 1, 0.1490, 0 }, { "MIX2", "120x8", 1, 0.0640, 370.0 },
    };
    char table[1024], file[128];

    snprintf(table, sizeof(table), "%s/chronus/placement_slowdown.json", bench_traces());
    printf("Chronus' inputs, its lease and costs (the artifact's figures in brackets):\n");
    for (size_t i = 0; i < sizeof(inputs) / sizeof(*inputs); i++) {
        struct setting settings[] = { { "costs", "chronus" }, { "speed", table } };
        struct trace trace = { 0 };
        struct summary s;
        double cpu;

        snprintf(file, sizeof(file), "chronus/trace_job_Philly_%s.csv.gz", inputs[i].name);
        read_input(file, "chronus", inputs[i].modulo, &trace);
        simulate(inputs[i].cluster, &trace, settings, 2, &s, &cpu);
        printf("  %-4s on %-5s missed %.2f %% (%.1f %%)  best effort %.0f min (%.0f)  broken %llu  %.2f s of CPU\n",
               inputs[i].name, inputs[i].cluster, 100 * s.deadline_miss, 100 * inputs[i].miss,
               inputs[i].best_effort > 0 ? s.best_effort_jct / 60 : 0.0, inputs[i].best_effort,
               (unsigned long long)s.broken_promises, cpu);
        limit(s.deadline_miss <= inputs[i].miss / 2, "half of the artifact's misses");
        limit(inputs[i].best_effort == 0 || s.best_effort_jct / 60 <= inputs[i].best_effort, "best-effort JCT");
        limit(s.broken_promises == 0, "no promise broken");
        limit(cpu < 10, "below 10 s");
        trace_done(&trace);
    }
}

static void bench_elastic(void)
{
    static const struct {
        const char *cluster;
        int mss, once; /* ElasticFlow's own; EDF with admission */
    } sizes[] = { { "nodes:4 gpus:8 sku:A100", 726, 362 },
                  { "nodes:8 gpus:8 sku:A100", 775, 393 },
                  { "nodes:16 gpus:8 sku:A100", 788, 581 } };
    static const char *const ways[] = { "off", "once", "mss" };
    char table[1024];

    snprintf(table, sizeof(table), "%s/elasticflow", bench_traces());
    printf(
        "ElasticFlow's input, deadlines met of 876 (sizes as asked for, chosen once, elastic; its own and EDF's):\n");
    for (int i = 0; i < 3; i++) {
        int met[3];

        for (int w = 0; w < 3; w++) {
            struct setting settings[] = { { "speed", table }, { "elastic", ways[w] }, { "safety", "1" } };
            struct trace trace = { 0 };
            struct summary s;
            double cpu;

            read_input("elasticflow/philly_103959.csv", "elasticflow", 1, &trace);
            simulate(sizes[i].cluster, &trace, settings, 3, &s, &cpu);
            met[w] = (int)(876 * (1 - s.deadline_miss) + 0.5);
            limit(s.broken_promises == 0, "no promise broken");
            trace_done(&trace);
        }
        printf("  %-24s off %d  once %d  mss %d  (ElasticFlow %d, EDF with admission %d)\n", sizes[i].cluster, met[0],
               met[1], met[2], sizes[i].mss, sizes[i].once);
        limit(met[2] >= sizes[i].mss, "as many as ElasticFlow");
        limit(met[1] > sizes[i].once, "more than EDF with admission");
    }
}

int main(void)
{
    bench_admission();
    bench_exact();
    if (bench_traces()) {
        bench_chronus();
        bench_elastic();
    } else {
        printf("SKIP the inputs of Chronus and ElasticFlow: MUSTER_SHARED is not set\n");
    }
    return missed_limits > 0;
}
