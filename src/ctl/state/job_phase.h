/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* job_phase.h - the states of a job that people see. */
#include <stdbool.h>

/* States people see (muster-states in the manual), with Slurm's letters. */
#define PHASES(X)                                                                                                      \
    X(PENDING, "PENDING", "PD")                                                                                        \
    X(STARTING, "STARTING", "ST")                                                                                      \
    X(RUNNING, "RUNNING", "R")                                                                                         \
    X(SUSPENDED, "SUSPENDED", "S")                                                                                     \
    X(COMPLETING, "COMPLETING", "CG")                                                                                  \
    X(COMPLETED, "COMPLETED", "CD")                                                                                    \
    X(FAILED, "FAILED", "F")                                                                                           \
    X(CANCELLED, "CANCELLED", "CA")                                                                                    \
    X(TIMEOUT, "TIMEOUT", "TO")                                                                                        \
    X(PREEMPTED, "PREEMPTED", "PR")                                                                                    \
    X(NODE_FAIL, "NODE_FAIL", "NF")                                                                                    \
    X(OUT_OF_MEMORY, "OUT_OF_MEMORY", "OOM")                                                                           \
    X(DEADLINE, "DEADLINE", "DL")

enum phase_of_job {
#define X(code, name, letters) PHASE_JOB_##code,
    PHASES(X)
#undef X
        PHASE_JOB_COUNT
};

const char *phase_name(enum phase_of_job phase);
const char *phase_letters(enum phase_of_job phase);
int phase_find(const char *name); /* name or letters, any case; -ENOENT */
static inline bool phase_over(enum phase_of_job phase)
{
    return phase >= PHASE_JOB_COMPLETED;
}
