/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* chronus_mss.h - elastic sizes: see chronus_mss.c. */
#include "policy/chronus/chronus.h"

struct report;

/* What is known of the job; made if `plan` is given. NULL: there is none, or too many are known. */
/* Its speed as it was measured in the pool, of what its estimate says; as that says where nothing was. */
ppm_t mss_measured(const struct planner_ctx *ctx, const struct job *job);
struct curve *mss_curve(struct planner_ctx *ctx, struct plan *plan, uint32_t job);
void mss_report(struct planner_ctx *ctx, struct plan *plan, uint32_t job, const struct report *report);
void mss_ended(struct planner_ctx *ctx, uint32_t job);

/* Promises a deadline to a new job, or not. */
void mss_admit(struct planner_ctx *ctx, struct plan *plan, uint32_t job);

/* Plans everybody anew and carries it out. Whether something has to wait until others have left. */
bool mss_plan(struct planner_ctx *ctx, struct plan *plan);
