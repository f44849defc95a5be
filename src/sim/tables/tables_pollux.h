/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* tables_pollux.h - the files of Pollux and Sia, for the two families that read them: `pollux` (tables_pollux.c) and
 * `pollux-sim` (tables_pollux_sim.c). */
#include "base/error.h"
#include "sim/world/world_table.h"
#include "wire/text/csv.h"

enum pollux_kind { POLLUX_PLACEMENTS, POLLUX_SCALABILITY, POLLUX_VALIDATION };

struct pollux_file {
    const char *path, *model, *type; /* type: of GPUs; "aws" where the name tells none */
    enum pollux_kind kind;
    long batch; /* VALIDATION: the global batch size in its name */
};

typedef int (*pollux_file_fn)(void *arg, const struct pollux_file *file, struct error *err);

/* Calls `fn` for every file below the folders, joined by '+', that have the models or a folder `traces` with them: by
 * model and then by name. */
int pollux_files(const char *paths, pollux_file_fn fn, void *arg, struct error *err);

/* What the authors allow a GPU though more was measured; a large number for most models. */
double pollux_local_max(const char *model);

/* Columns of a file of measured steps. */
enum { C_LOCAL, C_STEP, C_SYNC, C_PLACEMENT, C_NODES, C_GPUS, C_COUNT };

/* One measured step: x local batch size, y[0] and y[1] its time and that of its exchange; the row is the callee's. */
typedef int (*pollux_step_fn)(void *arg, const struct csv *csv, const struct csv_column *columns, struct grid_row row,
                              struct error *err);

/* Calls `fn` for every row of a file of steps; `row` is what they have in common. */
int pollux_steps(const struct pollux_file *file, struct grid_row row, pollux_step_fn fn, void *arg, struct error *err);
