/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - see bench.h. */
#include "bench.h"
#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "wire/cluster/cluster.h"
#include "wire/cluster/cluster_cells.h"

static double clock_now(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double bench_cpu_now(void)
{
    return clock_now(CLOCK_PROCESS_CPUTIME_ID);
}

void bench_fail(const char *what, const struct error *err)
{
    fprintf(stderr, "bench: %s%s%s\n", what, err ? ": " : "", err ? err->text : "");
    exit(1);
}

const char *bench_traces(void)
{
    static char path[4096];
    const char *given = getenv("MUSTER_SHARED"), *source = getenv("MUSTER_SOURCE");
    struct stat st;

    if (given)
        snprintf(path, sizeof(path), "%s/traces", given);
    else
        snprintf(path, sizeof(path), "%s/../shared/traces", source ? source : ".");
    return stat(path, &st) == 0 ? path : NULL;
}

const char *bench_number(uint64_t value, char text[32])
{
    char plain[32];
    int digits = snprintf(plain, sizeof(plain), "%llu", (unsigned long long)value), out = 0;

    for (int i = 0; i < digits; i++) {
        if (i && (digits - i) % 3 == 0)
            text[out++] = ',';
        text[out++] = plain[i];
    }
    text[out] = '\0';
    return text;
}

static uint64_t peak_bytes(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss * 1024;
}

/* Divides the cluster among virtual clusters, and the jobs. */
static void divide(const struct bench_run *run, struct cluster_spec *cluster, struct trace *trace)
{
    struct vc_spec *vcs = mem_zalloc((size_t)run->vcs, sizeof(*vcs));
    int32_t gpus = 0;
    uint32_t name;
    char text[16];

    for (uint32_t n = 0; n < cluster->node_count; n++)
        gpus += cluster->nodes[n].gpus;
    for (int v = 0; vcs && v < run->vcs; v++) {
        vcs[v] = (struct vc_spec){ .policy = NAME_NONE, .borrow_max = 0, .quota = { gpus / run->vcs } };
        (void)snprintf(text, sizeof(text), "v%d", v);
        if (names_put(&cluster->names, text, strlen(text), &vcs[v].name) < 0 ||
            names_put(&trace->vcs, text, strlen(text), &name) < 0)
            bench_fail("no memory", NULL);
    }
    mem_free(cluster->vcs);
    cluster->vcs = vcs;
    cluster->vc_count = (uint32_t)run->vcs;
    cluster->cells = run->cells ? mem_zalloc(1, sizeof(*cluster->cells)) : NULL;
    if (!vcs || (run->cells && (!cluster->cells || cluster_cells(cluster, cluster->cells, NULL, NULL, NULL) < 0)))
        bench_fail("no cells", NULL);
    for (size_t i = 0; i < trace->count; i++)
        trace->jobs[i].spec.vc = (uint32_t)(i % (size_t)run->vcs);
}

static void child(const struct bench_run *run, struct bench_figures *f)
{
    struct cluster_spec cluster = { 0 };
    struct trace trace = { 0 };
    struct run_result result = { 0 };
    struct scenario_request request = { run->policy, run->settings, run->setting_count };
    struct scenario scenario;
    struct error err = { 0 };
    uint64_t empty = peak_bytes();
    double cpu = bench_cpu_now(), wall;

    if (cluster_parse(run->cluster, &cluster, &err) < 0)
        bench_fail(run->cluster, &err);
    run->load(run->load_arg, &trace);
    if (run->vcs)
        divide(run, &cluster, &trace);
    f->load_seconds = bench_cpu_now() - cpu;
    if (scenario_init(&scenario, &cluster, &trace, &request, &err) < 0)
        bench_fail(run->policy, &err);
    cpu = bench_cpu_now();
    wall = clock_now(CLOCK_MONOTONIC);
    if (scenario_run(&scenario, 1, &result, &err) < 0)
        bench_fail(run->policy, &err);
    f->cpu_seconds = bench_cpu_now() - cpu;
    f->wall_seconds = clock_now(CLOCK_MONOTONIC) - wall;
    f->bytes = peak_bytes() - empty;
    f->jobs = result.summary.jobs;
    f->decisions = result.summary.decisions;
    f->digest = result.summary.digest;
    f->avg_queue_seconds = result.summary.avg_queue;
    f->utilization = result.summary.gpu_utilization;
    run_result_done(&result);
    scenario_done(&scenario);
    cluster_spec_done(&cluster);
    trace_done(&trace);
}

static struct bench_figures run_child(const struct bench_run *run)
{
    struct bench_figures figures = { 0 };
    int ends[2], status = 0;
    pid_t pid;

    fflush(stdout);
    if (pipe(ends) < 0)
        bench_fail("pipe", NULL);
    pid = fork();
    if (pid < 0)
        bench_fail("fork", NULL);
    if (pid == 0) {
        child(run, &figures);
        if (write(ends[1], &figures, sizeof(figures)) != sizeof(figures))
            _exit(1);
        exit(0);
    }
    close(ends[1]);
    if (read(ends[0], &figures, sizeof(figures)) != sizeof(figures))
        figures.jobs = 0;
    close(ends[0]);
    if (waitpid(pid, &status, 0) < 0 || status != 0 || figures.jobs == 0)
        bench_fail("a run failed", NULL);
    return figures;
}

static void load_one(const void *arg, struct trace *ret_trace)
{
    struct trace_job job;

    (void)arg;
    trace_job_init(&job);
    job.truth.duration = USEC_SEC;
    if (trace_add(ret_trace, &job) < 0)
        bench_fail("no memory", NULL);
}

struct bench_figures bench_run(const struct bench_run *run)
{
    struct bench_run one = *run;
    struct bench_figures figures, least;

    one.load = load_one;
    least = run_child(&one);
    figures = run_child(run);
    figures.bytes -= figures.bytes < least.bytes ? figures.bytes : least.bytes;
    return figures;
}
