/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* core.h - the cluster as a deterministic state machine: events in, effects and decisions out.
 *
 * No I/O, no clock, no thread, no floating point, and no memory from the system after core_new(). The daemon and the
 * simulator are two drivers of this same code.
 *
 * An offer may be refused; a step cannot fail. At one instant the driver offers what happened, steps, carries the
 * effects out, offers the answers that came at once, and steps again at the same instant; the planning pass runs in the
 * first of these steps only, so it never sees half of an instant. It runs twice for one instant only when an ordering
 * wants it: when what the pass did (a stop) changes the key of a job at once.
 */
#include "base/buf.h"
#include "base/error.h"
#include "core/planning/vc.h"
#include "model/effect.h"
#include "model/event.h"

struct core;
struct cells;

struct core_limits {
    uint32_t jobs;   /* that wait or run at one time */
    uint32_t shares; /* job-GPU pairs; 0 = four a GPU and one a job */
};

struct core_config {
    struct core_limits limits;
    usec_t round; /* plan only at multiples of this; 0 = at every event */
    uint64_t seed;
    const struct policy_setup *policies; /* one a virtual cluster */
};

/* The only call that takes memory. -ENOMEM, -EINVAL with words. The specification is read, not kept. */
int core_new(const struct cluster_spec *spec, const struct core_config *config, struct core **ret_core,
             struct error *err);
void core_free(struct core *core);

/* The same jobs in another cluster or under other policies: nodes that joined or left, virtual clusters that were added
 * (those there were keep their numbers, and so do GPU types), other policies. gpus[g]: the number that GPU g of `old`
 * has now, ascending, or UINT32_MAX where it is gone; a GPU in use cannot go (-EBUSY); behind them the same of nodes
 * without GPUs, which are numbered as nodes. Jobs keep their references.
 * Between two steps, with nothing offered; `old` stays as it is. Step at the present instant next. */
int core_carry(const struct core *old, const struct cluster_spec *spec, const struct core_config *config,
               const uint32_t *gpus, struct core **ret_core, struct error *err);

/* Checks the event against the state and takes it in for the next step. SUBMIT gives the job its reference.
 * -EINVAL, -ENOENT (stale reference), -ENOSPC (a limit), -ERANGE (an impossible job): in words, and nothing changed. */
int core_offer(struct core *core, const struct event *event, struct job_ref *ret_job, struct error *err);

/* Whether a job with GPUs could ever run in that virtual cluster. -ERANGE with words. */
int core_feasible(struct core *core, const struct jobspec *spec, uint32_t vc, struct error *err);

/* Whether a person may have the job on so many GPUs (0: on any of its range again). As core_offer of EVENT_SIZE:
 * -ERANGE (not elastic, outside its range, more than there ever will be), -EPERM (its policy sizes its jobs, or has
 * promised its end). */
int core_size_check(struct core *core, uint32_t index, int32_t gpus, struct error *err);

/* Applies what was offered, at an instant not before the last. The outbox is the core's own. */
const struct outbox *core_step(struct core *core, usec_t at);

/* The next instant at which the core wants to be stepped without being offered anything; USEC_NEVER. */
usec_t core_next_wake(const struct core *core);

/* Reading. */
const struct job *core_job(const struct core *core, uint32_t index);
uint32_t core_job_top(const struct core *core); /* jobs have numbers below it */
const struct ledger *core_ledger(const struct core *core);
/* What is owed, in shape; NULL: quotas are counts. */
const struct cells *core_cells(const struct core *core);
const struct vc *core_vc(const struct core *core, uint32_t index);
uint32_t core_vc_count(const struct core *core);
usec_t core_now(const struct core *core);
uint32_t core_waiting(const struct core *core);
uint32_t core_running(const struct core *core);
int64_t core_mgpu_held(const struct core *core);

/* What guests hold of GPUs that somebody has already. */
int64_t core_mgpu_twice(const struct core *core);
uint64_t core_decisions(const struct core *core);

/* A number that two runs share only if they took the same decisions in the same order. */
uint64_t core_digest(const struct core *core);

/* A decision of the last step as one line of the decision log. */
void core_tell(const struct core *core, const struct decision *decision, const uint32_t *gpus, struct buf *out);

/* Why a job waits: the reason of its shape, or its own. */
enum reason core_reason(const struct core *core, uint32_t index);

/* Where the tasks of a job without GPUs are; fills at most `max`. Returns on how many nodes. */
struct core_task {
    uint32_t node, tasks;
};
uint32_t core_tasks(const struct core *core, uint32_t index, struct core_task *ret_tasks, uint32_t max);

/* Licences of that number there are; *ret_held: that jobs hold, which may be more after the number was lowered. */
uint32_t core_license(const struct core *core, uint32_t license, uint64_t *ret_held);

/* Parameter servers the job runs with: as its policy says, else as it asks. */
int32_t core_servers(const struct core *core, uint32_t index);

/* The queue a job is in, where its policy has queues; false elsewhere. */
bool core_level(const struct core *core, uint32_t index, struct order_level *ret_level);

/* Promotions of all virtual clusters together; -1 where no policy promotes. */
int64_t core_promotions(const struct core *core);

/* What was predicted at this very instant: how long the job still needs. False: nothing. JOB_NONE: whether anybody was
 * predicted anything. */
bool core_predicted(const struct core *core, uint32_t index, usec_t *ret_left);

/* Books waiting up to now into job->waited, as a driver wants it before it reads them. */
void core_settle_waits(struct core *core, uint32_t index);

/* Recounts everything that is kept incrementally and asserts every invariant. Slow; checked builds call it each step.
 */
void core_audit(const struct core *core);
