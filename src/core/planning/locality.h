/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* locality.h - gangs that say how their GPUs are to lie; see locality.c. */
#include "core/contract/place.h"

/* GPUs near each other, or in whole cells, as the shape asks. 0 and ctx->out filled, ascending; -EBUSY. */
int within_find(struct place_ctx *ctx, const struct place_request *request);
/* Whether that could be had if the ledger were empty. */
bool within_possible(const struct ledger *ledger, const struct jobspec *spec, uint32_t mask);
/* -EINVAL if a placement that the ledger has checked is not so. */
int within_check(const struct ledger *ledger, const struct placement *to, const struct jobspec *spec);
