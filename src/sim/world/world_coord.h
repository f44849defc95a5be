/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* world_coord.h - jobs that share a GPU with a coordinator between them. */
#include "sim/world/world.h"

/* Rates of the owner of a GPU, jobs[0], and of an opportunistic job beside it, jobs[1], one of so many, as the node's
 * coordinator makes them; parts per million of each alone. */
void world_beside(const struct world *world, const uint32_t jobs[2], const struct world_shape *shape, size_t guests,
                  ppm_t ret_rates[2]);

/* Percent of its GPUs that the job uses when it runs alone; 0 = not told. */
uint32_t world_use(const struct world *world, uint32_t job);
