/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cgroup.h - groups of processes of version 2: to find all of a task, to freeze and to kill them, to limit them.
 *
 * What the machine offers is found out, never assumed: a hybrid layout has a version 2 tree without controllers, where
 * killing and freezing work and limits do not; an ordinary user may have no writable group at all. Paths are absolute.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum { CGROUP_PATH_MAX = 512 };

enum { MAJOR_NVIDIA = 195, MAJOR_DRM = 226 }; /* devices of GPUs */

enum cgroup_fence {
    FENCE_KILL = 1,
    FENCE_FREEZE = 2,
    FENCE_CPU = 4,
    FENCE_CPUSET = 8,
    FENCE_MEMORY = 16,
    FENCE_PIDS = 32,
    FENCE_DEVICES = 64,
};

struct cgroup_tree {
    char path[CGROUP_PATH_MAX]; /* parent of the tasks' groups; "": there are none */
    unsigned int fences;        /* enum cgroup_fence */
    char why[160];              /* what is not enforced, and why; "" */
};

/* Makes the parent below the version 2 tree (`parent` NULL), or below the directory named; "": none. Never fails: what
 * cannot be is in `why`. */
void cgroup_find(const char *parent, const char *name, struct cgroup_tree *ret_tree);

/* Notes whose state the group of an agent belongs to. With `sweep` the empty ones beside it are removed whose state is
 * gone: their agents were killed. */
void cgroup_own(const char *path, const char *state, bool sweep);

struct cgroup_limits {
    uint64_t memory;       /* bytes; 0 = none */
    uint32_t cpus;         /* 0 = none */
    const char *cpuset;    /* "0-3,8"; NULL = none */
    const char *mems;      /* memory nodes; NULL */
    uint32_t pids;         /* 0 = none */
    int gpu_major;         /* MAJOR_DRM; else MAJOR_NVIDIA */
    const int *gpu_minors; /* allowed of it; NULL with fence_gpus: none of them */
    uint32_t gpu_count;
    bool fence_gpus;
};

/* Limits the tree does not have are left out. */
int cgroup_make(const char *path, unsigned int fences, const struct cgroup_limits *limits, struct error *err);
int cgroup_enter(const char *path); /* this process; slow: the kernel stops everybody for it */
/* As fork(), the child born in the group. -ENOSYS where the kernel cannot: fork, then enter. One thread only. */
pid_t cgroup_fork(const char *path);
/* As vfork(): child(arg) runs in our memory, on a stack of its own, while we wait until it has exec'd or left; no page
 * is copied. path "": in no group. -ENOSYS where that is not to be had. One thread only, no two at a time. */
pid_t cgroup_spawn(const char *path, void (*child)(void *arg), void *arg);
int cgroup_kill(const char *path); /* everything in it; -ENOSYS where the kernel has no cgroup.kill */
int cgroup_freeze(const char *path, bool frozen);
int cgroup_remove(const char *path);
/* 1 when a process is in it or below, 0, -errno. */
int cgroup_busy(const char *path);
/* Processes in it and below; returns how many there are, fills at most `max`. */
int cgroup_pids(const char *path, pid_t *ret_pids, int max);
/* A number of a file: "memory.events" "oom_kill"; key NULL: the file is one number. -1 when it is not there. */
int64_t cgroup_number(const char *path, const char *file, const char *key);
