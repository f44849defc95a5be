/* SPDX-License-Identifier: Apache-2.0 */
/* order_sjf.c - shortest job first, by the whole estimated run time. It never changes, so it preempts nobody. */
#include "policy/list.h"

static void sjf_key(const struct order_ctx *ctx, const struct job *job, struct order_key *ret_key)
{
    (void)ctx;
    ret_key->value = job->spec.estimate ? job->spec.estimate : INT64_MAX / 2;
}

const struct order_ops order_sjf = {
    .name = "sjf",
    .summary = "shortest job first, by estimated run time",
    .key = sjf_key,
};
