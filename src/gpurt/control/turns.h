/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* turns.h - of several neighbours one harvests at a time: together they would fill a gap twice.
 *
 * Turns are as long as shares are to one another (`set share=`, all of them without one): twenty milliseconds for a
 * whole share, and no turn shorter than ten or longer than two hundred.
 */
#include <stdint.h>

#define TURN_NS 20000000ULL
#define TURN_LEAST_NS 10000000ULL
#define TURN_MOST_NS 200000000ULL

/* Of one with `share` permille, where the smallest of those that take turns is `least`. 0 = all. */
uint64_t turn_length(uint32_t share, uint32_t least);

struct node;
/* Whose turn it is on GPU `index`, which so many neighbours share. */
void turns_rotate(struct node *node, int index, uint32_t neighbours, uint64_t now);
