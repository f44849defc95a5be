/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* ledger_internal.h - the inside of the ledger, for ledger*.c only: what is given away of each GPU is counted here. */
#include "core/ledger/host_resources.h"
#include "core/ledger/ledger.h"

/* A share out of the pool, which must have one. */
uint32_t ledger_share_new(struct ledger *ledger);

/* The share of an owner, or of one packed beside it, begins (sign 1) or ceases (-1) to count. */
void ledger_count_share(struct ledger *ledger, const struct share *share, int sign);

/* A guest more (sign 1) or less (-1). */
void ledger_count_guest(struct ledger *ledger, uint32_t gpu, int sign);

/* Whether CPUs or memory count here and the job asks for some. */
static inline bool ledger_asks(const struct ledger *ledger, const struct job *job)
{
    return ledger->hosts && host_asks(&job->spec);
}

/* It counts on its nodes; where others have not left yet it waits for them. Returns how many GPUs more are waited for.
 */
uint32_t ledger_take_hosts(struct ledger *ledger, const struct job *job);
