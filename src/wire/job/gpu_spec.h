/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* gpu_spec.h - GPUs as people ask for them: [SELECTOR:]COUNT.
 *
 * COUNT is "8", "4..16" (elastic) or "0.5" (a share of one GPU, thousandths). SELECTOR is a type, "H100|A100" (any of
 * them), or "40G.." (at least that much memory). "gpu:h100:8" and "gpu:8" are read as Slurm means them. Types are
 * matched without regard to case.
 */
#include "base/buf.h"
#include "base/units.h"
#include "model/cluster.h"

enum { GPU_SELECTOR_MAX = 128 };

struct gpu_spec {
    char selector[GPU_SELECTOR_MAX]; /* "": any */
    int32_t count, count_max;
    mgpu_t share; /* MGPU_ONE, or below it with a count of one */
};

/* -EINVAL with words that say what was expected. */
int gpu_spec_parse(const char *text, size_t length, struct gpu_spec *ret_spec, struct error *err);

/* Reads back to the same. */
void gpu_spec_put(struct buf *out, const struct gpu_spec *spec);

/* Types of the cluster that the selector means, bit i = SKU i; 0 when it means none. "" and NULL: all. */
uint32_t gpu_selector_mask(const char *selector, const struct cluster_spec *cluster);
