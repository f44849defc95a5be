/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* gen.h - made-up workloads, the same bytes for the same seed on every machine.
 *
 * Everything is drawn with the integer generator of base/rng.h and the integer logarithm of world_math.h; no libm.
 * What each shape looks like and where its numbers come from: docs/world-model.md.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/units.h"
#include "model/cluster.h"
#include "model/trace.h"

#define GEN_JOBS_MAX ((size_t)10000000)

struct gen_config {
    size_t jobs; /* 1..GEN_JOBS_MAX; 0 = the shape's default */
    uint64_t seed;
    int32_t gpus;    /* of the cluster it should load; 0 = the shape's default. r1 takes none */
    ppm_t deadlines; /* part of the jobs that have one */
    ppm_t load;      /* GPU-time asked for / GPU-time there is while jobs arrive; 0 = the shape's default */
};

struct gen_shape {
    const char *name, *summary;
    size_t jobs;  /* defaults */
    int32_t gpus; /* 0 = not scaled to a cluster */
    ppm_t load;
    int (*fill)(const struct gen_config *config, struct trace *trace, struct error *err);
};

/* The shapes, closed by one without a name. */
extern const struct gen_shape gen_shapes[];

/* NULL: no such shape. */
const struct gen_shape *gen_shape_find(const char *name);

/* Makes a workload, sorted by (submit, id). *ret_trace is empty before, and filled only on success.
 * -EINVAL: no such shape, or a number out of its range; -ENOMEM. */
int gen_trace(const char *shape, const struct gen_config *config, struct trace *ret_trace, struct error *err);
