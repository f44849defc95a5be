/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* ranks.h - processes that wait for one another. Included by node.h. */
#include <stdbool.h>
#include <stdint.h>

struct client;
struct gpu_arena;
struct node;

bool ranks_many(const struct node *node, const struct client *client);
void ranks_gate(struct node *node, struct client *client, bool open); /* open, or closed after the same step */
/* Does one on this GPU still run on to the step it closes after? */
bool ranks_leaving(const struct node *node, const struct gpu_arena *gpu, uint64_t now);
uint64_t rank_step_newest(const struct client *c, uint64_t *ret_span); /* when it ended; it took so long, ns */
void rank_boundary(struct client *c, uint64_t latest);                 /* the step to stop after */
