/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* memory.h - the memory of one GPU between its jobs: coord/caps.h and coord/trial.h, fed from the processes' pages.
 *
 * Once a second, and at once when a guaranteed job found the card full: what it has asked for in the last minute and a
 * margin is its; the others divide the rest, those above their part spill, those below it come home a piece at a time,
 * and one that cannot even have what it cannot move is evicted until it can. A guaranteed job that is movable is held
 * to its cap too: what it asks for beyond goes to host memory first, the others shrink, then its cap is raised and it
 * comes home. Where opportunistic jobs together want more than there is, units of memory are moved between them by
 * trial, judged by their launches a second.
 *
 * Nobody is limited by this while there is enough: without a guaranteed job, and without one that lies in host memory,
 * the limits are those the programs were started with.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "coord/caps.h"
#include "coord/trial.h"

enum { MEMORY_MARGIN_PART = 16, MEMORY_UNIT_PART = 32, MEMORY_GRAIN_PART = 64, MEMORY_GRAIN_MIB = 256 };

struct memory {
    struct caps caps;
    struct trial trial;
    bool managed, trying;
    pid_t rg, pid[CAPS_JOBS];       /* whom it is about; the jobs are in the order of caps.job */
    uint64_t work[CAPS_JOBS];       /* launches of each when the split that is tried began */
    uint64_t first_rate[CAPS_JOBS]; /* of the first split, a second: what later ones are compared with */
    uint64_t turned_ns, tried_ns;
    uint32_t reserve_mib; /* others' and the driver's, rounded up */
    uint32_t seen_mib;    /* in use at the last look, by whomever; 0 = nobody told */
};

struct node;
struct client;

/* One turn of GPU `index`; `now` in ns. Does nothing until a second has passed since the last. */
void memory_turn(struct node *node, int index, uint64_t now);
/* A guaranteed job found the card full, on its GPU number `gpu`: a neighbour makes room at once. */
void memory_need(struct node *node, const struct client *client, uint32_t gpu, uint64_t bytes);
/* Of every GPU together, in bytes: an eviction takes all of it. `host` is what lies in host memory, saved or not. */
struct memory_sum {
    uint64_t used, movable, saved, host, context;
};
struct memory_sum memory_all(const struct client *client);
/* Is there host memory for all it would move out, and a twentieth more? -ENOMEM with what to do. */
int memory_host(const struct client *client, struct error *err);
/* Host memory that can be had for it, in bytes: of the machine, and of its cgroup. */
uint64_t memory_host_free(const struct client *client);
/* What its own limit of host memory leaves; UINT64_MAX: it has none. */
uint64_t memory_host_told(const struct client *client);
/* The driver says that so much of it is in use, by whomever. */
void memory_seen(struct node *node, int index, uint64_t used_mib);
