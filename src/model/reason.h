/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* reason.h - why a job waits: the stable codes people, scripts and metrics see.
 *
 * Recorded by the code that took the decision. First match wins, in this order, which goes from "never" over
 * "not yet allowed" to "no room" and "under way".
 */
#define REASONS(X)                                                                                                     \
    X(NONE, "None", "not waiting")                                                                                     \
    X(HELD, "Held", "held by a person")                                                                                \
    X(BACKOFF, "Backoff", "gave back a partial gang and waits before the next try")                                    \
    X(PROFILING, "Profiling", "being measured before it is scheduled")                                                 \
    X(VC_LIMIT, "VcLimit", "it asks for more than is left of its virtual cluster's guarantee")                         \
    X(BORROW_LIMIT, "BorrowLimit", "it asks for more than its virtual cluster may still borrow")                       \
    X(INSUFFICIENT_GPUS, "InsufficientGpus", "fewer GPUs are free than it asks for")                                   \
    X(FRAGMENTED, "Fragmented", "enough GPUs are free, but not in the shape it asks for")                              \
    X(NODES_UNHEALTHY, "NodesUnhealthy", "would fit if nodes that are down came back")                                 \
    X(RESERVED, "ReservedForJob", "free GPUs are kept for a job ahead of it")                                          \
    X(PRIORITY, "Priority", "would fit, but jobs ahead of it go first")                                                \
    X(SUSPENDED, "Suspended", "keeps its place on GPUs that it shares in turns with others")                           \
    X(PREEMPTING, "Preempting", "waits for others to leave the GPUs it was given")                                     \
    X(ACQUIRING, "Acquiring", "holds part of its gang and waits for the rest")                                         \
    X(SCHEDULING, "Scheduling", "not looked at yet")                                                                   \
    X(USER_LIMIT, "UserLimit", "its user holds as many GPUs as one may have in this virtual cluster")                  \
    X(CPU_MEM, "InsufficientCpuMem", "enough GPUs are free, but not with the CPUs or the memory it asks for")          \
    X(TOPOLOGY, "TopologyUnsatisfied", "enough GPUs are free, but not near each other as it asks")                     \
    X(LICENSE_LIMIT, "LicenseLimit", "others hold the licences it asks for")

enum reason {
#define X(code, name, text) REASON_##code,
    REASONS(X)
#undef X
        REASON_COUNT
};

/* "InsufficientGpus". */
const char *reason_name(enum reason reason);

/* The one-line explanation. */
const char *reason_text(enum reason reason);
