/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* gga.h - placing a batch of jobs together: a grouping genetic algorithm (Liquid, section 5.2; Falkenauer 1996).
 *
 * An individual maps every task of the batch to a node; its groups are the nodes with their tasks. Crossover carries
 * whole groups over, mutation dissolves groups, and what is displaced is placed again. Plans that break a hard limit
 * (GPUs, GPU memory, bandwidth of a node) never enter a population: a child that cannot be repaired is thrown away.
 *
 * The search runs on islands: populations that exchange their best now and then. An island depends on the problem, the
 * parameters and its number, and islands meet only in gga_migrate(), so any number of threads gives the same result.
 * Nothing here reads a clock: whoever has a time budget looks at it between two epochs.
 */
#include <stddef.h>

#include "base/rng.h"
#include "solve/net_score.h"

struct gga_problem {
    const struct net_map *map;
    const uint16_t *used; /* GPUs of each node that are taken before the batch */
    const struct net_job *jobs;
    const uint8_t *is_server; /* of each task */
    const uint32_t *job_of;   /* of each task */
    const double *room;       /* bandwidth each node has left; NULL: not limited */
    const uint32_t *memory;   /* MiB of a GPU of each node; NULL: not limited */
    const uint8_t *open;      /* nodes that may be used at all; NULL: all */
    uint32_t job_count, task_count;
};

struct gga_params {
    uint64_t seed;
    uint32_t islands;
    uint32_t population;          /* of an island; 0: (30 + T/2) / islands, 16 to 64 */
    uint32_t epoch;               /* generations between two migrations */
    uint32_t crossover, mutation; /* percent of children that undergo it */
    uint32_t survivors;           /* percent of a generation that lives on whatever it is worth */
};

struct gga_params gga_params_default(void);

struct gga_island;

/* Bytes of memory one island needs. */
size_t gga_island_size(const struct gga_problem *problem, const struct gga_params *params);

/* Makes island `number` in that memory, with its first population: the plan of best fit in the order of the jobs, best
 * fit, first fit and random fit in shuffled orders. NULL: no valid plan was found. The problem is borrowed. */
struct gga_island *gga_island_new(const struct gga_problem *problem, const struct gga_params *params, uint32_t number,
                                  void *memory);

/* So many generations. */
void gga_island_run(struct gga_island *island, uint32_t generations);

/* The best of each island goes to the next one, in a ring, in place of its worst. Those that are NULL are passed over.
 */
void gga_migrate(struct gga_island *const *islands, uint32_t count);

/* What the best plan so far is worth (smaller is better), and the plan: a node for each task. Borrowed until the next
 * run. */
double gga_best(const struct gga_island *island, const uint32_t **ret_place);

/* The objective from its definition: the sum of all scores, where a task's load counts the tasks of the batch that come
 * before it on its node, and nodes used over tasks. INFINITY for a plan that breaks a limit. `work`: task_count numbers
 * and gga_work_size() bytes behind them. */
double gga_objective(const struct gga_problem *problem, const uint32_t *place, void *work);
size_t gga_work_size(const struct gga_problem *problem);

/* Jobs one after another by best fit in the order of the batch. -1: one has no place. `work` as above. */
int gga_best_fit(const struct gga_problem *problem, uint32_t *ret_place, void *work);
