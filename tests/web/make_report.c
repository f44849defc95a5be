/* SPDX-License-Identifier: Apache-2.0 */
/* make_report.c - a report to look at: make_report OUT.html [JOBS [SEEDS [POLICIES [SHAPE]]]].
 *
 * A toy scheduler (one event at a time, whole GPUs, jobs in order of a key) makes results of a generated trace. They
 * are plausible, not right: the report is what is tested, and it must not depend on the simulator. One virtual
 * cluster has a name that would break out of a careless page.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "model/cluster.h"
#include "sim/gen/gen.h"
#include "sim/metrics/metrics.h"
#include "sim/output/output.h"
#include "sim/output/report.h"

enum { NODES = 8, NODE_GPUS = 8, GPUS = NODES * NODE_GPUS, VCS = 3 };

static const char *const vc_names[VCS] = { "language", "</script><img src=x onerror=alert(1)>", "vision" };

enum toy { TOY_FIFO, TOY_SKIP, TOY_SJF, TOY_SRTF, TOY_COUNT };
static const char *const toy_names[TOY_COUNT] = { "fifo", "fifo-skip", "sjf", "srtf" };

struct toy_job {
    usec_t left, since; /* since: instant of the last start, -1 = not running */
    bool arrived, done;
    uint64_t gpus; /* bit g: holds GPU g */
};

struct toy_sim {
    const struct trace *trace;
    struct run_result *run;
    struct toy_job *jobs;
    enum toy toy;
    usec_t now;
    uint64_t busy;
};

static void must(int r)
{
    if (r < 0) {
        fprintf(stderr, "make_report: %s\n", strerror(-r));
        exit(1);
    }
}

/* The node with the fewest free GPUs that are enough, else GPUs from the first on. */
static uint64_t place(uint64_t busy, int gpus)
{
    int best = -1, best_free = NODE_GPUS + 1;
    uint64_t taken = 0;

    for (int node = 0; node < NODES; node++) {
        int idle = NODE_GPUS - __builtin_popcountll((busy >> (node * NODE_GPUS)) & 0xff);

        if (idle >= gpus && idle < best_free) {
            best = node;
            best_free = idle;
        }
    }
    for (int gpu = best < 0 ? 0 : best * NODE_GPUS; gpus > 0; gpu++)
        if (!(busy >> gpu & 1)) {
            taken |= 1ULL << gpu;
            gpus--;
        }
    return taken;
}

static void stop(struct toy_sim *sim, uint32_t i)
{
    struct toy_job *job = &sim->jobs[i];
    struct job_result *result = &sim->run->jobs[i];

    if (job->since < 0)
        return;
    for (uint32_t gpu = 0; gpu < GPUS; gpu++)
        if (job->gpus >> gpu & 1)
            must(run_result_span(
                sim->run,
                &(struct span){ .from = job->since, .to = sim->now, .job = i, .gpu = gpu, .share = MGPU_ONE }));
    result->run += sim->now - job->since;
    job->left -= sim->now - job->since;
    job->since = -1;
    sim->busy &= ~job->gpus;
    job->gpus = 0;
}

static void start(struct toy_sim *sim, uint32_t i)
{
    struct toy_job *job = &sim->jobs[i];

    job->gpus = place(sim->busy, sim->run->jobs[i].gpus);
    job->since = sim->now;
    sim->busy |= job->gpus;
    sim->run->jobs[i].attempts++;
    if (sim->run->jobs[i].start < 0)
        sim->run->jobs[i].start = sim->now;
}

static usec_t left_now(const struct toy_sim *sim, uint32_t i)
{
    const struct toy_job *job = &sim->jobs[i];

    return job->since < 0 ? job->left : job->left - (sim->now - job->since);
}

/* The next job in order among those not yet looked at; running ones first unless they can be preempted. */
static int64_t next_of(const struct toy_sim *sim, const bool *seen)
{
    int64_t best = -1;
    usec_t best_key = 0;

    for (uint32_t i = 0; i < sim->trace->count; i++) {
        const struct toy_job *job = &sim->jobs[i];
        usec_t key = sim->toy == TOY_SRTF ? left_now(sim, i) : sim->toy == TOY_SJF ? job->left : (usec_t)i;

        if (!job->arrived || job->done || seen[i])
            continue;
        if (sim->toy != TOY_SRTF && job->since >= 0)
            key = -1;
        if (best < 0 || key < best_key) {
            best = i;
            best_key = key;
        }
    }
    return best;
}

static void plan(struct toy_sim *sim, bool *seen, bool *keep)
{
    int room = GPUS;
    bool blocked = false;

    memset(seen, 0, sim->trace->count);
    memset(keep, 0, sim->trace->count);
    for (int64_t i = next_of(sim, seen); i >= 0; i = next_of(sim, seen)) {
        int gpus = sim->run->jobs[i].gpus;

        seen[i] = true;
        keep[i] = gpus <= room && !blocked;
        if (keep[i])
            room -= gpus;
        else
            blocked |= sim->toy == TOY_FIFO;
    }
    for (uint32_t i = 0; i < sim->trace->count; i++)
        if (sim->jobs[i].since >= 0 && !keep[i]) {
            stop(sim, i);
            sim->run->jobs[i].preemptions++;
        }
    for (uint32_t i = 0; i < sim->trace->count; i++)
        if (keep[i] && sim->jobs[i].since < 0)
            start(sim, i);
}

static void note(struct toy_sim *sim, usec_t until)
{
    struct sample sample = { .at = sim->now, .mgpu_total = GPUS * MGPU_ONE };
    int64_t held[VCS] = { 0 };

    for (uint32_t i = 0; i < sim->trace->count; i++) {
        struct job_result *result = &sim->run->jobs[i];

        if (!sim->jobs[i].arrived || sim->jobs[i].done)
            continue;
        if (sim->jobs[i].since >= 0) {
            held[result->vc] += (int64_t)result->gpus * MGPU_ONE;
            sample.running++;
            continue;
        }
        sample.waiting++;
        sample.mgpu_waiting += (int64_t)result->gpus * MGPU_ONE;
        result->waited[__builtin_popcountll(sim->busy) + result->gpus > GPUS ? REASON_INSUFFICIENT_GPUS
                       : i % 3                                               ? REASON_PRIORITY
                                                                             : REASON_FRAGMENTED] += until - sim->now;
        *(i % 3 ? &result->fair_share : &result->fragmentation) += until - sim->now;
    }
    for (uint32_t vc = 0; vc < VCS; vc++) {
        sample.mgpu_held += held[vc];
        must(run_result_vc_sample(sim->run, &(struct vc_sample){ .at = sim->now, .vc = vc, .mgpu_held = held[vc] }));
    }
    must(run_result_sample(sim->run, &sample));
}

static void simulate(struct toy_sim *sim)
{
    const struct trace *trace = sim->trace;
    bool *seen = mem_zalloc(trace->count, 1), *keep = mem_zalloc(trace->count, 1);
    size_t left = trace->count;

    while (left) {
        usec_t next = INT64_MAX;

        for (uint32_t i = 0; i < trace->count; i++) {
            struct toy_job *job = &sim->jobs[i];

            if (job->since >= 0 && left_now(sim, i) <= 0) {
                stop(sim, i);
                job->done = true;
                sim->run->jobs[i].end = sim->now;
                sim->run->jobs[i].outcome = OUTCOME_DONE;
                left--;
            }
            job->arrived |= trace->jobs[i].spec.submit <= sim->now;
        }
        plan(sim, seen, keep);
        for (uint32_t i = 0; i < trace->count; i++) {
            usec_t at = sim->jobs[i].since >= 0 ? sim->now + left_now(sim, i) : trace->jobs[i].spec.submit;

            if ((sim->jobs[i].since >= 0 || !sim->jobs[i].arrived) && at < next)
                next = at;
        }
        note(sim, next == INT64_MAX ? sim->now : next);
        sim->now = next;
        sim->run->summary.decisions++;
    }
    mem_free(seen);
    mem_free(keep);
}

static void run_toy(struct run_result *run, const struct trace *trace, enum toy toy, uint64_t seed)
{
    struct toy_sim sim = { .trace = trace, .run = run, .toy = toy };

    *run = (struct run_result){ .trace_name = "busy week & more.csv",
                                .cluster_name = "8x8",
                                .settings = "place=consolidate",
                                .seed = seed,
                                .gpu_count = GPUS,
                                .node_count = NODES,
                                .vc_count = VCS,
                                .job_count = trace->count,
                                .trace = trace };
    snprintf(run->policy, sizeof(run->policy), "%s", toy_names[toy]);
    run->jobs = mem_zalloc(trace->count, sizeof(*run->jobs));
    sim.jobs = mem_zalloc(trace->count, sizeof(*sim.jobs));
    sim.now = trace->jobs[0].spec.submit;
    for (size_t i = 0; i < trace->count; i++) {
        const struct trace_job *job = &trace->jobs[i];

        run->jobs[i] = (struct job_result){ .id = job->spec.id,
                                            .submit = job->spec.submit,
                                            .start = -1,
                                            .end = -1,
                                            .alone = job->truth.duration,
                                            .gpus = job->spec.gpus,
                                            .share = MGPU_ONE,
                                            .user = NAME_NONE,
                                            .vc = (uint32_t)(i * i % 7 % VCS),
                                            .model = NAME_NONE,
                                            .deadline_met = -1 };
        sim.jobs[i] = (struct toy_job){ .left = job->truth.duration, .since = -1 };
    }
    simulate(&sim);
    mem_free(sim.jobs);
    run->summary.digest = 0x5eed00 + seed;
    run->summary.wall_seconds = 0.125;
    run->summary.decisions_per_second = (double)run->summary.decisions * 8;
    must(metrics_compute(run));
}

static uint32_t name_in(struct names *names, const char *text)
{
    uint32_t index;

    must(names_put(names, text, strlen(text), &index));
    return index;
}

static void make_cluster(struct cluster_spec *cluster)
{
    *cluster = (struct cluster_spec){
        .sku_count = 1, .node_count = NODES, .rack_count = 1, .domain_count = 1, .vc_count = VCS
    };
    cluster->nodes = mem_zalloc(NODES, sizeof(*cluster->nodes));
    cluster->vcs = mem_zalloc(VCS, sizeof(*cluster->vcs));
    cluster->skus[0].name = name_in(&cluster->names, "V100");
    for (int i = 0; i < NODES; i++) {
        char name[16];

        snprintf(name, sizeof(name), "gpu%02d", i + 1);
        cluster->nodes[i] = (struct node_spec){ .name = name_in(&cluster->names, name), .gpus = NODE_GPUS };
    }
    for (int i = 0; i < VCS; i++) {
        cluster->vcs[i].name = name_in(&cluster->names, vc_names[i]);
        cluster->vcs[i].quota[0] = i ? 16 : 32;
    }
}

int main(int argc, char **argv)
{
    size_t jobs = argc > 2 ? strtoul(argv[2], NULL, 10) : 400, seeds = argc > 3 ? strtoul(argv[3], NULL, 10) : 1;
    size_t policies = argc > 4 ? strtoul(argv[4], NULL, 10) : TOY_COUNT, count = 0;
    const char *shape = argc > 5 ? argv[5] : "philly";
    struct cluster_spec cluster;
    struct trace traces[8] = { 0 };
    struct run_result runs[8 * TOY_COUNT] = { 0 };
    const struct run_result *list[8 * TOY_COUNT];
    struct error err = { 0 };
    FILE *out;

    if (argc < 2 || jobs < 1 || jobs > 100000 || seeds < 1 || seeds > 8 || policies < 1 || policies > TOY_COUNT) {
        fputs("usage: make_report OUT.html [JOBS [SEEDS [POLICIES [SHAPE]]]]\n", stderr);
        return 2;
    }
    make_cluster(&cluster);
    for (size_t seed = 0; seed < seeds; seed++) {
        struct gen_config config = { .jobs = jobs, .seed = seed + 1, .gpus = shape[0] == 'r' ? 0 : GPUS };

        must(gen_trace(shape, &config, &traces[seed], &err));
        names_done(&traces[seed].vcs);
        for (int i = 0; i < VCS; i++)
            (void)name_in(&traces[seed].vcs, vc_names[i]);
        for (size_t i = 0; i < traces[seed].count; i++)
            if (traces[seed].jobs[i].spec.gpus > GPUS)
                traces[seed].jobs[i].spec.gpus = GPUS;
        for (size_t toy = 0; toy < policies; toy++, count++) {
            run_toy(&runs[count], &traces[seed], (enum toy)toy, seed + 1);
            list[count] = &runs[count];
        }
    }
    out = fopen(argv[1], "w");
    if (!out) {
        perror(argv[1]);
        return 1;
    }
    must(report_write(out, list, count, NULL, &cluster, &err));
    if (fclose(out) != 0) {
        perror(argv[1]);
        return 1;
    }
    must(output_table(stdout, list, count, false));
    for (size_t i = 0; i < count; i++)
        run_result_done(&runs[i]);
    for (size_t i = 0; i < seeds; i++)
        trace_done(&traces[i]);
    cluster_spec_done(&cluster);
    return 0;
}
