/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* deferred_move.h - jobs that go on elsewhere and leave what they had in their own time; inside the core only. */
#include "core/ledger/ledger.h"

struct core;
struct plan;

/* plan_move.c: what plan_splice does outside of cells. */
int plan_shift(struct plan *plan, uint32_t job, const struct placement *to);

/* plan_move.c: what plan_move does once it is known to be allowed. A refusal is no defect of anybody's. */
int move_try(struct plan *plan, uint32_t job, const struct placement *to);

/* deferred_move.c: nobody is in the way of the job any more; the order to move goes out; all that can go, do. */
void defer_ready(struct core *core, uint32_t job);
void defer_tell(struct core *core, uint32_t job);
void defer_settle(struct core *core);

/* splice.c: it has left what it was leaving; whoever waited for that is launched. */
void splice_left(struct core *core, uint32_t job);
