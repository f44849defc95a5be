/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* bench.h - what the benchmarks share: one run in a process of its own, its CPU time and its memory.
 *
 * CPU time is what is compared: a machine that has other things to do changes the wall time and not (much) that.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/trace.h"
#include "sim/scenario.h"

struct bench_run {
    const char *cluster; /* "6x8" */
    const char *policy;
    struct setting settings[4];
    size_t setting_count;
    /* Fills the trace; exits the process with a message when it cannot. */
    void (*load)(const void *arg, struct trace *ret_trace);
    const void *load_arg;
    int vcs;    /* the cluster is divided among so many; jobs go round. 0: one that owns all */
    bool cells; /* in cells, not in counts */
};

struct bench_figures {
    uint64_t jobs, decisions, digest;
    double cpu_seconds, wall_seconds; /* of the replay alone: not of reading or making the trace */
    double load_seconds;              /* CPU time of reading or making it */
    uint64_t bytes;                   /* peak memory less that of a run of one job: trace, core and results */
    double avg_queue_seconds, utilization;
};

/* Runs it in a child process. Exits with a message when it fails. */
struct bench_figures bench_run(const struct bench_run *run);

double bench_cpu_now(void);

/* The folder of public traces, or NULL where there is none. */
const char *bench_traces(void);

/* 1234567 as "1,234,567". */
const char *bench_number(uint64_t value, char text[32]);

/* Ends the program. */
void bench_fail(const char *what, const struct error *err) __attribute__((noreturn));
