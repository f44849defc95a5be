/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* world.h - the simulated world: how fast a job runs where, what things cost, what breaks.
 *
 * Only the driver of a simulation asks here; no policy can. Everything is a function of (trace, cluster, config,
 * seed): no clock, no state but the position in the stream of faults. Rules, units and file formats:
 * docs/world-model.md.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/units.h"
#include "model/cluster.h"
#include "model/trace.h"
#include "sim/world/world_fault.h"

/* What a job with parameter servers among its GPUs has on one node. */
struct world_role {
    uint16_t servers, workers;
};

enum { WORLD_PARTS_MAX = 16, WORLD_ROLES_MAX = 16 };

/* A placement as the world sees it: how many GPUs on which nodes. */
struct world_shape {
    int32_t gpus;
    uint16_t nodes, racks;
    uint16_t sku;                         /* index into cluster_spec.skus; of the slowest, where they differ */
    int32_t node_gpus_max, node_gpus_min; /* of the nodes used */
    uint8_t parts[WORLD_PARTS_MAX];       /* GPUs on each node, most first; of the first nodes, where there are more */
    uint16_t role_count; /* nodes of a job with such servers, more than there is room for too; else 0 */
    struct world_role roles[WORLD_ROLES_MAX];
    int32_t servers;           /* parameter servers that hold no GPU; 0 = none */
    bool spliced, dumped, far; /* its workers take turns; it was saved whole before; it comes from another region */
    usec_t away;               /* since it was saved; 0 where it has not left yet */
};

/* As it is kept in `parts`. */
static inline uint8_t world_part(int32_t gpus)
{
    return (uint8_t)(gpus < UINT8_MAX ? gpus : UINT8_MAX);
}

enum world_beside { BESIDE_PEER, BESIDE_FELLOW /* both are guests */, BESIDE_GUEST, BESIDE_OWNER };

/* Another job that shares a GPU with the one asked about. */
struct world_neighbour {
    uint32_t job; /* index into the trace */
    mgpu_t share;
    uint8_t is; /* enum world_beside: what it is to the one asked about */
};

enum world_cost {
    WORLD_START,      /* first start */
    WORLD_RESUME,     /* every later one: it held no GPU in between */
    WORLD_STOP,       /* checkpoint when preempted, while it still holds its GPUs */
    WORLD_MIGRATE,    /* from one placement to another without leaving the cluster */
    WORLD_CHECKPOINT, /* one periodic checkpoint */
    WORLD_COST_COUNT
};

/* clang-format off */
enum world_costs { COSTS_NONE, COSTS_LUCID, COSTS_MURI, COSTS_MURI_SIM, COSTS_POLLUX, COSTS_CHRONUS, COSTS_GANDIVA,
                   COSTS_SINGULARITY, COSTS_COUNT };
/* clang-format on */
enum world_slowdown { SLOWDOWN_NONE, SLOWDOWN_PHILLY, SLOWDOWN_COUNT };
enum world_keep { KEEP_ALL, KEEP_CHECKPOINT, KEEP_NONE, KEEP_COUNT };

#include "sim/world/world_config.h"

struct world;

/* What becomes of a move. */
enum world_move { MOVE_WELL, MOVE_UNSAVED, MOVE_UNRESTORED };

/* Borrows trace and cluster until freed. NULL: *err says why (a table that cannot be read, a job whose model no
 * table knows, ...). */
struct world *world_new(const struct trace *trace, const struct cluster_spec *cluster,
                        const struct world_config *config, struct error *err);
void world_free(struct world *world);
DEFINE_CLEANUP(struct world *, world_free)

/* Run time alone on the requested GPUs in the best placement: what progress is counted in. > 0. */
usec_t world_work(const struct world *world, uint32_t job);
double world_batch_speed(const struct world *world, uint32_t job); /* mini-batches a second alone; 1: not told */

/* Progress per unit of time; PPM_ONE = nominal, 0 = these do not fit together. `shape` NULL = best placement. */
ppm_t world_rate(const struct world *world, uint32_t job, const struct world_shape *shape,
                 const struct world_neighbour *neighbours, size_t neighbour_count);

/* The placement of so many GPUs that a job would like best on this SKU: the fewest nodes. */
struct world_shape world_shape_best(const struct world *world, int32_t gpus, uint16_t sku);

/* Time for which the job holds its GPUs without progress. */
usec_t world_cost(const struct world *world, uint32_t job, enum world_cost kind, const struct world_shape *shape);
usec_t world_cost_inside(const struct world *world, uint32_t job, const struct world_shape *shape); /* on one node */
usec_t world_cost_elsewhere(const struct world *world, uint32_t job, const struct world_shape *shape);

/* True progress of a job where it is counted otherwise than in nominal run time: in epochs of training. */
struct world_pace {
    double progress; /* as the table counts it */
    int32_t epoch;
    int32_t batch;    /* samples of one step where the job stands */
    double step_time; /* seconds of one step there */
};

/* Whether this world counts progress so. Then rates are nominal, and these say when a job ends. */
bool world_paces(const struct world *world);

/* The job stands there from now on. */
void world_pace_place(const struct world *world, uint32_t job, const struct world_shape *shape,
                      struct world_pace *pace);

/* Runs it from one instant to another. True: it is done before that, at *ret_done. */
bool world_pace_run(const struct world *world, uint32_t job, struct world_pace *pace, const usec_t span[2],
                    usec_t *ret_done);

/* Of such a world: seconds of a step with so many GPUs at best, and steps left to the end. */
double world_step_time(const struct world *world, uint32_t job, int32_t gpus);
double world_steps_left(const struct world *world, uint32_t job, const struct world_pace *pace);

/* Time that every running job loses at each event of the cluster, as the simulator of Muri has it; 0 = none. */
usec_t world_event_cost(const struct world *world, uint32_t job);

/* Progress that survives a stop: planned (told to stop, and it saved itself) or a crash. What an earlier planned stop
 * has saved is not lost by a later crash; the driver keeps that larger number. */
usec_t world_kept(const struct world *world, uint32_t job, usec_t progress, bool planned);

/* Work that a planned stop adds, to be done again before the job goes on: less progress is kept by so much. */
usec_t world_rework(const struct world *world, uint32_t job);

/* Of the n-th move of a job: fixed by (seed, job, n). Of those that fail, half do so before the job is saved. */
enum world_move world_move_fate(const struct world *world, uint32_t job, uint32_t nth);

/* What the user says the job will take: its work, wrong by the configured error, fixed by (seed, job). */
usec_t world_estimate(const struct world *world, uint32_t job);

/* What is predicted of a stage (launch, or save) that takes so long; fixed by (seed, job). */
usec_t world_stage(const struct world *world, uint32_t job, usec_t truth, bool save);

/* The skew a profiler would find, in thousandths: largest tensor / all parameters; 0 = nothing is known. */
uint16_t world_skew(const struct world *world, uint32_t job);

/* How fast a GPU of the cluster is: PPM_ONE, or less for one that is slow for no reason anybody sees. By its number and
 * the seed. */
ppm_t world_gpu_speed(const struct world *world, uint32_t gpu);

/* The next change of health, in order of time, ties by (node, gpu); one that lies before `from` is given at `from`.
 * Each call takes one. False: nothing more will break. */
bool world_next_fault(struct world *world, usec_t from, struct world_fault *ret_fault);
