/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* grow.h - elastic jobs on idle GPUs of their own node (Gandiva, OSDI'18): shared by the planner that has it built in
 * and by the tuner that adds it to any other.
 */
#include "core/contract/plan.h"
#include "core/contract/view.h"

#define GROW_ANYWHERE UINT32_MAX

/* Jobs that have grown, on that node or anywhere, go back to what they asked for, newest first, until `need` GPUs of
 * the type came free or nobody has more than it asked for. Returns how many came free. */
uint32_t grow_give_back(const struct planner_ctx *ctx, struct plan *plan, uint32_t sku, uint32_t node, uint32_t need);
