/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* trace_columns.h - the columns of the native trace, in the order in which they are written. */
#include "model/jobspec.h"

#define TRACE_COLUMNS(X)                                                                                               \
    X(ID, "id", true)                                                                                                  \
    X(SUBMIT, "submit", true)                                                                                          \
    X(DURATION, "duration", false)                                                                                     \
    X(ITERATIONS, "iterations", false)                                                                                 \
    X(GPUS, "gpus", true)                                                                                              \
    X(SHARE, "share", false)                                                                                           \
    X(PER_NODE, "per_node", false)                                                                                     \
    X(CELLS, "cells", false)                                                                                           \
    X(TOPOLOGY, "topology", false)                                                                                     \
    X(TASKS, "tasks", false)                                                                                           \
    X(CPUS, "cpus", false)                                                                                             \
    X(HOST_MEMORY, "host_memory_mib", false)                                                                           \
    X(GPUS_MIN, "gpus_min", false)                                                                                     \
    X(GPUS_MAX, "gpus_max", false)                                                                                     \
    X(SERVERS, "servers", false)                                                                                       \
    X(GPU_SERVERS, "gpu_servers", false)                                                                               \
    X(BANDWIDTH, "bandwidth", false)                                                                                   \
    X(LAUNCH, "launch", false)                                                                                         \
    X(SAVE, "save", false)                                                                                             \
    X(USER, "user", false)                                                                                             \
    X(VC, "vc", false)                                                                                                 \
    X(MODEL, "model", false)                                                                                           \
    X(CLASS, "class", false)                                                                                           \
    X(TIER, "tier", false)                                                                                             \
    X(PRIORITY, "priority", false)                                                                                     \
    X(SLO, "slo", false)                                                                                               \
    X(DEADLINES, "deadlines", false)                                                                                   \
    X(MEMORY, "memory_mib", false)                                                                                     \
    X(MEMORY_PEAK, "memory_peak_mib", false)                                                                           \
    X(UTILISATION, "utilisation", false)                                                                               \
    X(BATCH, "batch", false)                                                                                           \
    X(SKEW, "skew", false)                                                                                             \
    X(TP, "tp", false)                                                                                                 \
    X(PP, "pp", false)                                                                                                 \
    X(SPLICE_MAX, "splice_max", false)                                                                                 \
    X(ESTIMATE, "estimate", false)                                                                                     \
    X(LIMIT, "limit", false)                                                                                           \
    X(SKU, "sku", false)                                                                                               \
    X(SIDES, "sides", false)                                                                                           \
    X(LICENSES, "licenses", false)                                                                                     \
    X(PREEMPT, "preempt", false)                                                                                       \
    X(MIN_RUNTIME, "min_runtime", false)                                                                               \
    X(RETRIES, "retries", false)                                                                                       \
    X(RETRY_ON, "retry_on", false)                                                                                     \
    X(FAIL, "fail", false)                                                                                             \
    X(EXIT, "exit", false)                                                                                             \
    X(FAIL_AFTER, "fail_after", false)                                                                                 \
    X(FAIL_TIMES, "fail_times", false)

enum trace_column {
#define X(code, name, required) COLUMN_##code,
    TRACE_COLUMNS(X)
#undef X
        COLUMN_COUNT
};

enum {
    FAIL_TIMES_ALL = 255,
    RETRIES_MAX = 255,
    MEMORY_MIB_MAX = 1 << 24,
    BATCH_MAX = 1 << 30,
    BANDWIDTH_MAX = 1 << 20
};
#define ITERATIONS_MAX ((int64_t)1000000000000000)
