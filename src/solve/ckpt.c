/* SPDX-License-Identifier: Apache-2.0 */
/* ckpt.c - see ckpt.h. */
#include "solve/ckpt.h"

int64_t ckpt_bytes(const struct ckpt_job *job, bool later)
{
    return job->shards * job->shard + job->workers * (later ? job->host / CKPT_LATER : job->host);
}

int64_t ckpt_bytes_plain(const struct ckpt_job *job)
{
    return job->workers * (job->shard + job->host);
}

usec_t ckpt_move(int64_t bytes, int64_t rate, usec_t fixed)
{
    return fixed + 2 * muldiv_ceil(bytes, USEC_SEC, rate);
}
