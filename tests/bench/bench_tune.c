/* SPDX-License-Identifier: Apache-2.0 */
/* bench_tune.c - one pass of introspection: gandiva with packing, migration and elastic sizes on 8,000 GPUs, and what
 * ten times the servers and jobs make of it.
 *
 * 12 jobs of one GPU for each server of 8; 100 and 1,000 servers. Whatever is ordered is answered at once; every minute
 * each running job reports its speed, and a pass looks at all of them: turns end, pairs are made and judged. Reports
 * say that two jobs do 1.4 together, so that pairs stay, until 10,000 jobs and more run at a time on 1,000 servers.
 * Milliseconds of CPU time a pass, with all reports of that minute taken in; 10 is the limit. The exponent is log10 of
 * the growth: 1.00 is what a look at every job costs at least.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "core/core.h"
#include "model/measure.h"
#include "policy/registry.h"
#include "wire/cluster/cluster.h"

enum { JOBS_A_NODE = 12, JOBS = 12000, MINUTES = 90, MEASURED = 30 };

static void offer(struct core *core, const struct event *event)
{
    struct error err = { 0 };

    if (core_offer(core, event, NULL, &err) < 0)
        bench_fail("offer", &err);
}

/* Answers what was ordered until nothing more comes. */
static void settle(struct core *core, const struct outbox *out, usec_t at)
{
    static struct event answers[4 * JOBS];

    for (;;) {
        size_t count = 0;

        for (size_t i = 0; i < out->effect_count; i++) {
            const struct effect *effect = &out->effects[i];
            enum effect_kind kind = effect->kind;

            if (kind == EFFECT_START || kind == EFFECT_RESUME || kind == EFFECT_MIGRATE || kind == EFFECT_STOP)
                answers[count++] = (struct event){ .kind = kind == EFFECT_STOP ? EVENT_STOPPED : EVENT_STARTED,
                                                   .job = effect->job,
                                                   .gen = effect->gen,
                                                   .rate = PPM_ONE,
                                                   .progress = PROGRESS_OWN };
        }
        if (count == 0)
            return;
        for (size_t i = 0; i < count; i++)
            offer(core, &answers[i]);
        out = core_step(core, at);
    }
}

static void report(struct core *core)
{
    for (uint32_t i = 0; i < core_job_top(core); i++) {
        const struct job *job = core_job(core, i);
        int64_t rate = job->mate == JOB_NONE ? 1000000 : 700000;

        if (job->state == JOB_RUNNING)
            offer(core, &(struct event){ .kind = EVENT_REPORT,
                                         .job = i,
                                         .gen = job->gen,
                                         .report = { MEASURE_BATCH, { rate, 20 + i % 60, 4000 } } });
    }
}

struct figures {
    double mean, worst; /* ms of CPU time a pass */
    uint32_t most;      /* jobs that ran at a time */
};

static void submit(struct core *core, int64_t jobs)
{
    for (int64_t i = 0; i < jobs; i++) {
        struct jobspec spec = { .id = i,
                                .gpus = 1,
                                .gpus_min = 1,
                                .gpus_max = 1,
                                .share = MGPU_ONE,
                                .user = NAME_NONE,
                                .vc = NAME_NONE,
                                .model = (uint32_t)(i % 20) };

        offer(core, &(struct event){ .kind = EVENT_SUBMIT, .spec = &spec });
    }
    settle(core, core_step(core, 0), 0);
}

static struct figures measure(const char *shape, uint32_t nodes)
{
    uint32_t jobs = nodes * JOBS_A_NODE;
    struct policy_setup setup;
    struct core_config config = { .limits = { .jobs = jobs + 1 }, .seed = 1, .policies = &setup };
    struct cluster_spec cluster = { 0 };
    struct figures f = { 0 };
    struct error err = { 0 };
    struct core *core;

    if (policy_parse("gandiva", &setup, &err) < 0 || cluster_parse(shape, &cluster, &err) < 0 ||
        core_new(&cluster, &config, &core, &err) < 0)
        bench_fail("gandiva", &err);
    submit(core, jobs);
    for (usec_t minute = 1; minute <= MINUTES; minute++) {
        const struct outbox *out;
        double cpu;

        report(core);
        cpu = bench_cpu_now();
        out = core_step(core, minute * USEC_MIN);
        cpu = (bench_cpu_now() - cpu) * 1e3;
        settle(core, out, minute * USEC_MIN);
        f.most = core_running(core) > f.most ? core_running(core) : f.most;
        if (minute <= MINUTES - MEASURED)
            continue;
        f.mean += cpu / MEASURED;
        f.worst = cpu > f.worst ? cpu : f.worst;
    }
    if (getenv("BENCH_TUNE_COUNTS"))
        for (int i = 0; i < 3; i++)
            printf("%s %lld\n", setup.tune[0]->counters[i], (long long)((int64_t *)core_vc(core, 0)->tune[0].state)[i]);
    core_free(core);
    cluster_spec_done(&cluster);
    return f;
}

int main(void)
{
    static const struct {
        const char *shape;
        uint32_t nodes;
    } sizes[] = { { "racks:5 nodes:20 gpus:8", 100 }, { "racks:50 nodes:20 gpus:8", JOBS / JOBS_A_NODE } };
    struct figures last = { 0 };

    printf("Introspection, a pass over all running jobs, ms of CPU time\n\n%8s %8s %8s %8s %10s %9s\n", "GPUs",
           "running", "mean", "longest", "x smaller", "exponent");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        struct figures f = measure(sizes[i].shape, sizes[i].nodes);
        char gpus[32], running[32];

        printf("%8s %8s %8.2f %8.2f", bench_number(sizes[i].nodes * 8ULL, gpus), bench_number(f.most, running), f.mean,
               f.worst);
        if (i)
            printf(" %10.1f %9.2f", f.mean / last.mean, log10(f.mean / last.mean));
        printf("\n");
        last = f;
    }
    return last.mean > 10;
}
