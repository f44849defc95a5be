/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* clocks.h - what slows a GPU down that nobody on it did.
 *
 * Heat, a power supply in need or another GPU that it keeps step with lower its clocks, and the guaranteed job's steps
 * become longer without any neighbour's doing. While that lasts, and half a second beyond, its steps say nothing: they
 * are neither what it is alone nor what its neighbours cost it, and shares stay as they are. A GPU that draws all the
 * power it may is another matter: beside a neighbour that is the neighbour's doing too.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/gpu.h"

#define CLOCKS_LOOK_NS 250000000ULL
#define CLOCKS_SETTLE_NS 500000000ULL
#define CLOCKS_FOREIGN (GPU_THROTTLE_THERMAL | GPU_THROTTLE_BRAKE | GPU_THROTTLE_SYNC)

struct clocks {
    struct gpu_clocks now;
    uint64_t foreign_ns; /* when such a reason was last seen; 0 = never */
    uint32_t power_w;
    uint8_t util, temp;
    bool known;   /* NVML has told of this GPU */
    char ill[64]; /* what is wrong with it; "" */
};

struct node;

/* What was seen now. */
void clocks_note(struct clocks *clocks, const struct gpu_clocks *seen, uint64_t now);
/* Do the steps made now say anything? */
bool clocks_judged(const struct clocks *clocks, uint64_t now);
void clocks_turn(struct node *node, uint64_t now);
/* Lines for people; members of a JSON array. How many characters. */
size_t clocks_text(const struct node *node, char *text, size_t size);
size_t clocks_json(const struct node *node, uint64_t now, char *text, size_t size);
