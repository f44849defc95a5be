/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* world_internal.h - what the files of the world share with each other, and with nobody else. */
#include "sim/world/world.h"
#include "sim/world/world_table.h"

enum { WORLD_LABEL_MAX = 96 };

struct fault_clock; /* world_fault.c */

enum { WORLD_HARMS = 401 };

/* What a coordinator makes of a pair whose owner would suffer so much; see world_coord.c. */
struct world_harm {
    bool known;
    ppm_t owner; /* its rate */
    ppm_t found; /* of its idle time, by the guest */
};

struct world {
    const struct trace *trace;
    const struct cluster_spec *cluster;
    struct world_config config;
    struct fault_clock *faults;      /* NULL = nothing breaks */
    struct world_tables tables;      /* world_speed.c */
    struct world_harm *harms;        /* [WORLD_HARMS]; world_coord.c */
    uint16_t *skews;                 /* by model of the trace, thousandths; world_skew.c. NULL = no file */
    int32_t node_gpus_max[SKUS_MAX]; /* of the largest node of each SKU; 0 = none has it */
    int32_t node_gpus_largest;
};

/* How messages call a job: its number, or the text it had in its file. */
const char *world_job_label(const struct world *world, size_t job, char text[WORLD_LABEL_MAX]);

/* May the job use this SKU of the cluster? Traces speak of GPU types by their own numbers. */
bool world_sku_allowed(const struct world *world, size_t job, uint16_t sku);

/* Checks that the costs chosen know every job. */
int world_cost_check(const struct world *world, struct error *err);

/* Builds the stream of faults from the config. */
int world_fault_init(struct world *world, struct error *err);
void world_fault_done(struct world *world);

/* Loads the tables named in the config and binds every job to its rows. */
int world_speed_init(struct world *world, struct error *err);
void world_speed_done(struct world *world);

/* Reads the sizes of tensors, if a file has them. */
int world_skew_init(struct world *world, struct error *err);
void world_skew_done(struct world *world);

/* The fewest nodes that could hold so many GPUs; sku SKUS_MAX = any. */
int32_t world_nodes_fewest(const struct world *world, int32_t gpus, uint16_t sku);
