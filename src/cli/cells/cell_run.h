/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cell_run.h - a cell allocator driven by pods with names, as a replay script and a command line know them. */
#include "base/buf.h"
#include "cell/cells.h"
#include "wire/hived/hived_bind.h"
#include "wire/hived/hived_config.h"
#include "wire/hived/hived_spec.h"

enum run_result { RUN_BIND, RUN_WAIT, RUN_PREEMPT, RUN_USER_ERROR, RUN_INTERNAL };

struct run_pod {
    struct hived_spec *spec; /* of the last time it asked; NULL: not known, or gone */
    struct bytes bind;       /* its annotation while it is placed; kept when it ended, for those compared with it */
    bool placed;
    uint64_t order; /* of placement */
};

/* Reads the cells that a name stands for. `warnings` may be NULL. */
typedef int (*cell_load_fn)(void *context, const char *name, struct cell_spec *ret_spec,
                            struct hived_warnings *warnings, struct error *err);

struct cell_run {
    cell_load_fn load;
    void *context;
    bool literal; /* as HiveD itself: cells_limits */
    struct cells *cells;
    struct names pods, groups;
    struct run_pod *list; /* by name */
    size_t list_capacity;
    uint64_t placed_count;
    struct hived_namer namer;
    struct hived_places places;
    uint64_t *suggested;
    struct cell_pod_group tree[HIVED_GROUPS_MAX]; /* of the request at hand */
    struct cell_member members[HIVED_GROUPS_MAX];
    uint32_t leaves; /* devices of all configurations so far */
};

struct run_answer {
    enum run_result result;
    struct cell_answer cell;
    uint32_t node;
    const struct cell_leaf_place *leaves; /* of the pod; borrowed until the next call */
    uint32_t leaf_count;
    struct error err; /* why it waits or was refused */
};

/* The cluster of that name, and everything healthy. `run` is zero but for load, context and literal. */
int cell_run_open(struct cell_run *run, const char *cluster, struct hived_warnings *warnings, struct error *err);
void cell_run_close(struct cell_run *run);

/* Another cluster; placed pods are adopted in the order in which they were placed. */
int cell_run_reconfigure(struct cell_run *run, const char *cluster, struct error *err);

struct run_ask {
    const char *pod;
    struct bytes spec; /* annotation */
    enum cell_phase phase;
    const uint64_t *suggested; /* NULL: all */
    bool commit;
};
void cell_run_schedule(struct cell_run *run, const struct run_ask *ask, struct run_answer *ret_answer);

/* The record of a pod; NULL: never seen, or gone. */
struct run_pod *cell_run_pod(struct cell_run *run, const char *name);

/* Whether the pod was ever asked for. */
bool cell_run_asked(const struct cell_run *run, const char *name);

/* Where a pod is, or was last: its annotation. NULL: it never was anywhere. */
const struct bytes *cell_run_last(struct cell_run *run, const char *name);
int cell_run_release(struct cell_run *run, const char *name);
void cell_run_cancel(struct cell_run *run, const char *name);
const char *cell_run_pod_name(const struct cell_run *run, uint64_t pod);
