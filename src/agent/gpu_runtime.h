/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* gpu_runtime.h - the GPU runtime for the tasks of a node: the library in front of their driver, and its node side.
 *
 * Tasks that share GPUs, or that are to leave them while they live, are started with libmuster_gpu.so, and a node side
 * that serves every user (gpurt/door.h) runs while there are any. Like a shepherd it outlives the agent: a job that was
 * taken off its GPU would come back by itself when nobody claims it. The next agent finds it by its socket.
 *
 * Nothing of this is there on emulated nodes, on AMD's GPUs, or where the library is not installed.
 */
#include <stdbool.h>
#include <sys/types.h>

#include "base/units.h"

struct agent;
struct launch;
struct task;

/* Which tasks with GPUs have it. */
enum gpu_runtime_use {
    GPU_RUNTIME_SHARED, /* those the controller says share GPUs or leave them */
    GPU_RUNTIME_ALL,
    GPU_RUNTIME_OFF,
    GPU_RUNTIME_USES
};

struct gpu_runtime; /* what was found on this node */

const char *gpu_runtime_name(enum gpu_runtime_use use);
int gpu_runtime_find(const char *name); /* -ENOENT */

/* Looks once, when the GPUs are known; agent->runtime stays NULL where it cannot be had, and the log says why. */
void gpu_runtime_open(struct agent *agent);
void gpu_runtime_close(struct agent *agent);

/* Is such a task to have it here? */
bool gpu_runtime_for(const struct agent *agent, const struct launch *launch);

/* What the task may have of its GPUs, for the node side to find by its control group; taken back when it is removed. */
void gpu_runtime_grant(const struct task *task);
void gpu_runtime_ungrant(const struct task *task);

/* The node side is started unless one answers. Does not wait for it. */
void gpu_runtime_start(struct agent *agent);
void gpu_runtime_turn(struct agent *agent); /* now and then: while tasks have it, one is there */

/* gpu_steps.c: mini-batches that it has counted, to the tasks whose they are; what is under way is given up. */
void gpu_steps_look(struct agent *agent);
void gpu_steps_close(struct agent *agent);

/* What a task is given: paths, the same inside a container. `python` may be "". */
struct gpu_runtime_paths {
    const char *library, *python, *socket, *place; /* place: the folder of the socket */
};
struct gpu_runtime_paths gpu_runtime_paths(const struct agent *agent);
