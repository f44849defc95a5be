/* SPDX-License-Identifier: Apache-2.0 */
/* bench_tune.c - one pass of introspection: gandiva with packing, migration and elastic sizes on 8,000 GPUs.
 *
 * 12,000 jobs of one GPU come to 1,000 servers of 8. Whatever is ordered is answered at once; every minute each running
 * job reports its speed, and a pass looks at all of them: turns end, pairs are made and judged. Reports say that two
 * jobs do 1.4 together, so that pairs stay, until 10,000 jobs and more run at a time. Milliseconds of CPU time a pass,
 * with all reports of that minute taken in; 10 is the limit.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "core/core.h"
#include "model/measure.h"
#include "policy/registry.h"
#include "wire/cluster.h"

enum { NODES = 1000, JOBS = 12000, MINUTES = 90, MEASURED = 30 };

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

int main(void)
{
    struct policy_setup setup;
    struct core_config config = { .limits = { .jobs = JOBS + 1 }, .seed = 1, .policies = &setup };
    struct cluster_spec cluster = { 0 };
    struct error err = { 0 };
    double worst = 0, sum = 0;
    uint32_t most = 0;
    struct core *core;

    if (policy_parse("gandiva", &setup, &err) < 0 || cluster_parse("racks:50 nodes:20 gpus:8", &cluster, &err) < 0 ||
        core_new(&cluster, &config, &core, &err) < 0)
        bench_fail("gandiva", &err);
    for (int64_t i = 0; i < JOBS; i++) {
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
    for (usec_t minute = 1; minute <= MINUTES; minute++) {
        const struct outbox *out;
        double cpu;

        report(core);
        cpu = bench_cpu_now();
        out = core_step(core, minute * USEC_MIN);
        cpu = (bench_cpu_now() - cpu) * 1e3;
        settle(core, out, minute * USEC_MIN);
        most = core_running(core) > most ? core_running(core) : most;
        if (minute <= MINUTES - MEASURED)
            continue;
        sum += cpu;
        worst = cpu > worst ? cpu : worst;
    }
    printf(
        "Introspection of 8,000 GPUs, up to %u jobs running: %.2f ms of CPU time a pass, %.2f ms the longest of %d\n",
        most, sum / MEASURED, worst, MEASURED);
    if (getenv("BENCH_TUNE_COUNTS"))
        for (int i = 0; i < 3; i++)
            printf("%s %lld\n", setup.tune[0]->counters[i], (long long)((int64_t *)core_vc(core, 0)->tune[0].state)[i]);
    core_free(core);
    cluster_spec_done(&cluster);
    return sum / MEASURED > 10;
}
