/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* unruly.h - a guaranteed job that suffers although its neighbours' gates are closed.
 *
 * Any program can lengthen its own time slice or go past the library; a closed gate stops neither. When neighbours have
 * been closed for a second and sixteen steps of the guaranteed job are still three times the tolerance too long, they
 * are stopped by the kernel until the gate opens again: whoever kept to the gate loses nothing by it.
 * MUSTER_GPU_UNRULY=end ends them instead, MUSTER_GPU_UNRULY=off leaves them.
 *
 * The judgement is pure.
 */
#include <stdbool.h>
#include <stdint.h>

#include "coord/baseline.h"

#define UNRULY_STEPS 8u
#define UNRULY_STRIKES 2u
#define UNRULY_AFTER_NS 1000000000ULL /* work that was in flight has ended by then */

enum unruly_way { UNRULY_STOP, UNRULY_END, UNRULY_OFF };

struct unruly {
    uint64_t closed_ns; /* since when they are closed; 0 = they are not */
    uint32_t count, strikes;
    uint32_t launches[UNRULY_STEPS], wall_us[UNRULY_STEPS];
};

void unruly_step(struct unruly *unruly, uint32_t launches, uint32_t wall_us, uint64_t now);
/* Does it suffer? Asked every turn, with whether its neighbours are closed. */
bool unruly_turn(struct unruly *unruly, const struct baseline *alone, uint32_t eps, bool closed, uint64_t now);

struct node;
/* What is done to the neighbours on GPU `index`; or undone, when they may run again. */
void unruly_act(struct node *node, int index, bool suffers, bool closed);
enum unruly_way unruly_way(const char *text);
