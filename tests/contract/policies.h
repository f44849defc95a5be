/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* policies.h - policies that exist to try the core's contracts, none of them fit for a cluster.
 *
 * Between them they use every kind of proposal: leases (a plan that looks ahead and wakes itself), slices (jobs that
 * take turns on the same GPUs), pairs (guests beside an owner, undone by reports), shrink (elastic sizes and moves),
 * thinker (a computation outside of the step), and an admission that refuses and reclassifies.
 */
#include "core/planning/vc.h"

extern const struct planner_ops planner_lease;
extern const struct planner_ops planner_slices;
extern const struct planner_ops planner_shrink;
extern const struct planner_ops planner_thinker;
extern const struct tune_ops tune_pairs;
extern const struct admit_ops admit_picky;

enum { REPORT_SPEED = 1 }; /* value[0]: progress rate in ppm of the owner of the GPU */
