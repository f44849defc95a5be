/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* starve.h - a process above its limit, and no host memory to move it to.
 *
 * Its last spill has said so. An opportunistic one is paused instead: it takes no more, and leaves the GPU's time to
 * those it takes the memory from. Every five seconds the move is tried again; as soon as it holds no more than its
 * limit, because it was moved or the limit was raised, it runs on. Whoever resumes it by hand has it run as it is. Not
 * paused: a guaranteed job, and one of several ranks, whose others would wait for it.
 */
#include <stdbool.h>
#include <stdint.h>

struct node;
struct client;

/* After a spill: true, it is being paused for want of host memory. */
bool starve_look(struct node *node, struct client *client);
/* It cannot even be evicted: paused, at the limit it has been given. */
void starve_pause(struct node *node, struct client *client);
/* Of one that is paused so: tries again, or lets it go. */
void starve_turn(struct node *node, struct client *client, uint64_t now);
