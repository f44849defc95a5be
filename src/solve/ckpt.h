/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* ckpt.h - how much a transparent checkpoint of a job is, and how long it takes (Singularity, 2022).
 *
 * GPU memory is kept by content: replicas of a shard hold the same parameters and optimizer state at the end of a
 * mini-batch, so each shard is kept once, however many replicas there are. Host memory is kept for every worker, whole
 * the first time and as a difference later.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

#define CKPT_GIB ((int64_t)1 << 30)

/* What a later dump of host memory is of the first: a tenth. */
enum { CKPT_LATER = 10 };

struct ckpt_job {
    int32_t shards;  /* distinct: tensor-parallel ranks x pipeline stages */
    int32_t workers; /* the world */
    int64_t shard;   /* bytes of GPU memory of each */
    int64_t host;    /* bytes of host memory of a worker, at its first dump */
};

/* Bytes of the first dump, or of a later one. */
int64_t ckpt_bytes(const struct ckpt_job *job, bool later);

/* Bytes if every replica were kept: what deduplication saves. */
int64_t ckpt_bytes_plain(const struct ckpt_job *job);

/* Barrier, dump and restore in `fixed`, and the bytes there and back at `rate` a second. */
usec_t ckpt_move(int64_t bytes, int64_t rate, usec_t fixed);
