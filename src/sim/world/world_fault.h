/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* world_fault.h - a change of health in the simulated world; see world.h. */
#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

/* Where a node or one of its GPUs goes down or comes back. */
#define WORLD_WHOLE_NODE UINT32_MAX
struct world_fault {
    usec_t at;
    uint32_t node; /* index into cluster_spec.nodes */
    uint32_t gpu;  /* on that node, or WORLD_WHOLE_NODE */
    bool up;       /* false: goes down */
};
