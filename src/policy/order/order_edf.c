/* SPDX-License-Identifier: Apache-2.0 */
/* order_edf.c - earliest deadline first; jobs without one come after, first come, first served.
 *
 * Plain: a deadline that has gone still counts, so in overload late jobs hold up those that could be in time. Where
 * deadlines are promised (edf-admit) only promised ones count.
 */
#include "policy/chronus/edf.h"
#include "policy/list.h"

#define AFTER_ALL ((int64_t)1 << 60)

static void edf_key(const struct order_ctx *ctx, const struct job *job, struct order_key *ret_key)
{
    (void)ctx;
    if (job->spec.deadline_count && job->word[EDF_WORD] != EDF_DECLINED)
        ret_key->value = job->spec.deadlines[0].at;
    else
        ret_key->value = AFTER_ALL + job->spec.submit;
}

const struct order_ops order_edf = {
    .name = "edf",
    .summary = "earliest deadline first, jobs without one last",
    .key = edf_key,
};
