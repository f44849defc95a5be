/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* view.h - the read-only window through which policies see the cluster.
 *
 * Everything a policy may know is reachable from here; the truth about a job's future is not.
 */
#include "core/core.h"

usec_t view_now(const struct view *view);
usec_t view_round(const struct view *view); /* passes are at multiples of this; 0 = at every event */
bool view_allows(const struct view *view, uint32_t job, uint32_t sku); /* the job may run on that type */
uint64_t view_pass(const struct view *view); /* which pass this is: what was found in another one is no longer so */
const struct job *view_job(const struct view *view, uint32_t index);
uint32_t view_job_top(const struct view *view); /* jobs have numbers below it; some may be JOB_FREE */
const struct ledger *view_ledger(const struct view *view);

/* Where virtual clusters are guaranteed cells, a policy looks twice: at its own virtual cluster, with the jobs inside
 * the guarantee, and at what others leave idle, with those beyond it; GPU numbers and free counts are those of what it
 * looks at. Whether a job that holds GPUs belongs to that, and whether, besides, it owns them. */
bool view_shows(const struct view *view, uint32_t job);
uint32_t view_shares(const struct view *view, uint32_t job); /* first share in what it looks at, or SHARE_NONE */
bool view_owner(const struct view *view, uint32_t job);

const struct tree_node *view_tree(const struct view *view);

/* Thousandths of a type that nobody has: whole free GPUs and the rest of those that are shared. */
int64_t view_free_mgpu(const struct view *view, uint32_t sku);

/* Thousandths of a type that plan_reclaim might get back for the virtual cluster: what others hold beyond their quotas,
 * and what opportunistic jobs hold. Gangs go whole, so it may get less. */
int64_t view_lent(const struct view *view, const struct vc *vc, uint32_t sku);

/* Whole free GPUs of a type; and how many there are on nodes that are up. */
uint32_t view_free(const struct view *view, uint32_t sku);
uint32_t view_total(const struct view *view, uint32_t sku);
uint32_t view_sku_count(const struct view *view);

/* Jobs that wait for what it shows; those of the virtual cluster, and thousandths of GPUs they ask for; whether jobs of
 * a shape are among them: opportunistic ones do not wait for what is guaranteed. */
uint32_t view_waiting(const struct view *view);
uint32_t view_queued(const struct view *view, const struct vc *vc);
int64_t view_queued_mgpu(const struct view *view, const struct vc *vc);
uint32_t view_suspended(const struct view *view, const struct vc *vc); /* with a place in what it shows */
bool view_counts(const struct view *view, const struct shape *shape);

/* Thousandths of all GPUs that jobs hold; of nodes that are up. */
int64_t view_held(const struct view *view);
int64_t view_capacity(const struct view *view);

/* A job's place in its order, as a rank that can be compared with others now. */
struct rank view_rank(const struct view *view, uint32_t index);

/* Thousandths of running jobs of the virtual cluster on type `sku` whose rank comes before; those that gangs have there
 * on a side count too. RUN_BY_KEY planners only. */
int64_t view_running_before(const struct view *view, const struct vc *vc, uint32_t sku, const struct rank *rank);
int64_t view_running_sum(const struct view *view, const struct vc *vc, uint32_t sku);

/* The running job with the largest rank below `bound` (NULL: of all) that has GPUs of that type, be it on a side;
 * JOB_NONE if there is none. */
uint32_t view_running_last(const struct view *view, const struct vc *vc, uint32_t sku, const struct rank *bound);

/* The running job of that type, but for sides, with the smallest rank after `bound` (NULL: of all); JOB_NONE if there
 * is none. */
uint32_t view_running_next(const struct view *view, const struct vc *vc, uint32_t sku, const struct rank *bound);

/* The first waiting job over all shapes of the virtual cluster but those given up, by number; TREE_NONE if there is
 * none.
 */
uint32_t view_first_waiting(const struct view *view, const struct vc *vc, const bool *given_up);

/* A number below `bound` from the state's own generator: the same in every replay. */
uint64_t view_random(const struct view *view, uint64_t bound);
