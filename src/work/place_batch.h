/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* place_batch.h - SOLVE_PLACE: a batch of gangs placed together, by the search of work/search.h.
 *
 * Request, all numbers: version (1), seed, rounds, far, racks, domains, nodes N, jobs J; then for each node its rack,
 * its domain, GPUs, GPUs used, bandwidth left in thousandths (-1: not limited); for each rack and then each domain the
 * price of a hop inside it; for each job servers, workers, bandwidth. Answer: a node for each task, jobs in order, the
 * tasks of a job interleaved as net_interleave() has them. None: no plan has a place for all of them.
 */
#include "work/work.h"

enum { PLACE_VERSION = 1, PLACE_HEAD = 8, PLACE_NODE = 5, PLACE_JOB = 3 };
enum { PLACE_NODES_MAX = 4096, PLACE_JOBS_MAX = 1024, PLACE_TASKS_MAX = 8192 };

int place_batch(const int64_t *words, uint32_t count, struct work_answer *answer, struct error *err);
