/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* off_gpu.h - taking a task's programs off their GPUs, and back, through the runtime library.
 *
 * Only programs that run with libmuster_gpu.so can be moved; others keep their memory on the GPU while they sleep.
 */
#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

/* Starts a child process that asks the GPU runtime's node side for each of them (it takes seconds) and ends. Its pid; 0
 * when none of them has the library; -errno. "gpu_socket" of the plan: the node side of a task that the agent has
 * started with the library; without it each says itself whose it is, and is asked with the rights of the task's user.
 * Programs that use no GPU are not registered there, and are done. */
pid_t off_gpu_start(const json_t *plan, const pid_t *pids, int count, bool off);

/* The same for what each may have of its GPUs: MiB (0 = all it likes) and percent of their time (0 = paused). Those
 * without the library cannot be held back, and are not. */
pid_t limit_gpu_start(const json_t *plan, const pid_t *pids, int count, int64_t memory_mib, int64_t percent);
