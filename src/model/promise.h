/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* promise.h - why a deadline that was promised is not kept.
 *
 * A policy that promises deadlines says so when it does, and says so when it finds that it cannot keep one. Where it
 * stays silent the core speaks: a job that ends after its promise is a broken promise, whatever the policy thinks.
 */
#define BREACHES(X)                                                                                                    \
    X(NONE, "None", "kept, or not due yet")                                                                            \
    X(HARDWARE, "NodeLoss", "GPUs it ran on, or was planned on, were lost")                                            \
    X(FAILURE, "Failure", "an attempt of the job failed")                                                              \
    X(OVERRUN, "Overrun", "the job needed more than its estimate and the margin on it")                                \
    X(PERSON, "Person", "a person held the job or took GPUs from its virtual cluster")                                 \
    X(PLAN, "Plan", "none of these: the plan did not hold")

enum breach {
#define X(code, name, text) BREACH_##code,
    BREACHES(X)
#undef X
        BREACH_COUNT
};

/* "NodeLoss"; and the one-line explanation. */
const char *breach_name(enum breach breach);
const char *breach_text(enum breach breach);
