/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* split.h - several jobs into the holes that are left, each on one node or spread over some (Chronus' local search).
 *
 * What a job is worth in a way is its speed there times its GPUs. Jobs that lose most by a bad place come first. For
 * the first of them all combinations of ways are tried, as many as there may be; the others take the best way that is
 * left. The best total is kept. Integers only.
 */
#include <stdbool.h>
#include <stdint.h>

enum { SPLIT_JOBS = 64, SPLIT_WAYS = 3, SPLIT_PARTS = 64 };

struct split_job {
    int32_t gpus;
    int64_t worth[SPLIT_WAYS]; /* on one node, on two, on more; 0 = not so */
};

/* Where a job is put: so many GPUs of hole number `hole`. */
struct split_part {
    int32_t hole, gpus;
};

struct split_place {
    int32_t count; /* of parts; 0 = nowhere */
    struct split_part parts[SPLIT_PARTS];
};

struct split_holes {
    const int32_t *free; /* GPUs of each node */
    int32_t *room;       /* as many numbers to work with */
    int32_t count;
};

/* Trying at most so many combinations. At most SPLIT_JOBS jobs. Returns the total. */
int64_t split_jobs(const struct split_holes *holes, const struct split_job *jobs, int32_t job_count, int64_t tries,
                   struct split_place *out);
