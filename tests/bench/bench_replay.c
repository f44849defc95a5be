/* SPDX-License-Identifier: Apache-2.0 */
/* bench_replay.c - how fast whole traces replay, beside the simulator that was written for them.
 *
 * Philly 6c71a0, 9,953 jobs on 6x8: there the Tiresias simulator did 154.7 jobs a second under fifo and 50.1 under
 * shortest-gpu (srsf). Philly 6214e9, 41,226 jobs, on 6x8 (mean demand 38 of 48 GPUs). Helios Venus, 77,573 jobs, on
 * 64x8 (mean demand 290 to 550 of 512 GPUs). Where these files are not at hand, generated ones of the same size.
 *
 * Fails when a job takes 1 KiB of memory or more; times are printed and judged by the reader.
 */
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "io/file.h"
#include "sim/gen/gen.h"
#include "wire/trace/import.h"

enum { BYTES_A_JOB_MAX = 1024 };

struct input {
    const char *name, *file, *format, *cluster;
    const char *shape; /* made up instead */
    size_t jobs;
    int32_t gpus;
};

static const struct input inputs[] = {
    { "Philly 6c71a0", "philly/vc/philly-vc-6c71a0.csv.gz", "tiresias", "6x8", "philly", 9953, 48 },
    { "Philly 6214e9", "philly/vc/philly-vc-6214e9.csv.gz", "tiresias", "6x8", "philly", 41226, 48 },
    { "Helios Venus", "helios-venus/venus-gpujobs-2020-03-18_2020-07-31.csv.gz", "helios", "64x8", "helios", 77573,
      512 },
};

static const struct {
    const char *policy;
    double jobs_per_second; /* of the Tiresias simulator on the first input */
} policies[] = { { "fifo", 154.7 }, { "srsf", 50.1 }, { "las", 92.2 } };

static void load(const void *arg, struct trace *ret_trace)
{
    const struct input *input = arg;
    struct error err = { 0 };
    struct import_notes notes = { 0 };
    struct bytes bytes = { 0 };
    char path[4352];

    if (!bench_traces()) {
        struct gen_config config = { .jobs = input->jobs, .seed = 1, .gpus = input->gpus };

        if (gen_trace(input->shape, &config, ret_trace, &err) < 0)
            bench_fail(input->shape, &err);
        return;
    }
    snprintf(path, sizeof(path), "%s/%s", bench_traces(), input->file);
    if (file_read(path, 0, &bytes, &err) < 0 || import_trace(input->format, path, &bytes, ret_trace, &notes, &err) < 0)
        bench_fail(path, &err);
    bytes_done(&bytes);
}

/* The same jobs, each of them content with one GPU and able to use twice what it asks for. */
static void load_elastic(const void *arg, struct trace *ret_trace)
{
    load(arg, ret_trace);
    for (size_t i = 0; i < ret_trace->count; i++) {
        struct jobspec *spec = &ret_trace->jobs[i].spec;

        spec->gpus_min = 1;
        spec->gpus_max = 2 * spec->gpus < 16 ? 2 * spec->gpus : 16;
    }
}

/* Every policy on the 41,226 jobs of the second input. */
static void every_policy(void)
{
    const struct input *input = &inputs[1];

    printf("\nEvery policy on %s (%s); under 2 s each is wanted\n\n%-28s %9s %9s %11s\n",
           bench_traces() ? input->name : input->shape, input->cluster, "", "CPU s", "wall s", "us/job");
    for (size_t p = 0; p <= 13; p++) {
        static const char *const names[] = { "fifo",    "fifo-skip",     "sjf",
                                             "srtf",    "srsf",          "las",
                                             "gittins", "backfill-easy", "backfill-conservative",
                                             "yarn-cs", "antman",        "singularity",
                                             "optimus", "optimus" };
        bool elastic = p == 13;
        struct bench_run run = {
            .cluster = input->cluster, .policy = names[p], .load = elastic ? load_elastic : load, .load_arg = input
        };
        struct bench_figures f = bench_run(&run);
        char name[64];

        snprintf(name, sizeof(name), "%s%s", names[p], elastic ? ", elastic jobs" : "");
        printf("%-28s %9.3f %9.3f %11.2f\n", name, f.cpu_seconds, f.wall_seconds, f.cpu_seconds / (double)f.jobs * 1e6);
    }
}

int main(void)
{
    bool fat = false;

    printf("Replay of whole traces%s\n\n", bench_traces() ? "" : " (generated: the public ones are not at hand)");
    printf("%-14s %-7s %-5s %8s %9s %9s %9s %11s %12s %7s\n", "input", "cluster", "", "jobs", "read s", "CPU s",
           "wall s", "jobs/s", "x Tiresias*", "B/job");
    for (size_t i = 0; i < sizeof(inputs) / sizeof(*inputs); i++)
        for (size_t p = 0; p < sizeof(policies) / sizeof(*policies); p++) {
            struct bench_run run = {
                .cluster = inputs[i].cluster, .policy = policies[p].policy, .load = load, .load_arg = &inputs[i]
            };
            struct bench_figures f = bench_run(&run);
            double rate = (double)f.jobs / f.cpu_seconds;
            uint64_t bytes = f.bytes / f.jobs;
            char jobs[32], speed[32], ratio[32];

            printf("%-14s %-7s %-5s %8s %9.3f %9.3f %9.3f %11s %12s %7llu\n",
                   bench_traces() ? inputs[i].name : inputs[i].shape, run.cluster, run.policy,
                   bench_number(f.jobs, jobs), f.load_seconds, f.cpu_seconds, f.wall_seconds,
                   bench_number((uint64_t)rate, speed),
                   bench_number((uint64_t)(rate / policies[p].jobs_per_second), ratio), (unsigned long long)bytes);
            fat |= bytes >= BYTES_A_JOB_MAX;
        }
    printf("\n* jobs a second of CPU time over the 154.7 (fifo), 50.1 (srsf) and 92.2 (las) a second that the Tiresias "
           "simulator\n"
           "  did on the first input; 1,000 is wanted there, and under 1 s for the others. B/job: peak memory, all of "
           "it,\n"
           "  with the trace as read; %d is the limit.\n",
           BYTES_A_JOB_MAX);
    every_policy();
    if (fat)
        printf("FAIL: too much memory a job\n");
    return fat ? 1 : 0;
}
