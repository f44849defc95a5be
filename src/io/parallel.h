/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* parallel.h - the same work on many items, by all cores.
 *
 * Items are handed out one by one to whoever is free, so nothing that an item computes may depend on which worker does
 * it or on what the others have done: then the result is the same for any number of threads.
 */
#include <stdint.h>

enum { PARALLEL_MAX = 64 };

/* Cores this process may use, at most PARALLEL_MAX. */
unsigned parallel_cores(void);

/* Calls fn(arg, item, worker) once for each item below `count`; worker is below `threads`. With one thread, or where
 * no other can be started, the caller does all of it. Returns when all are done. threads 0: parallel_cores(). */
void parallel_run(unsigned threads, uint32_t count, void (*fn)(void *arg, uint32_t item, unsigned worker), void *arg);
