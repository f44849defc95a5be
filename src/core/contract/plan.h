/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* plan.h - what a policy may propose. Everything is checked here; nothing that is refused has an effect.
 *
 * A refusal that a planner could have foreseen (a GPU that is taken, a job that does not wait) is a defect of the
 * policy and goes into the record; running out of budget is an ordinary answer.
 *
 * The proposals grow with the policies that need them; each new one is a function here and an effect in model/effect.h,
 * checked in plan.c, and never a way around them. Today: start (as owner or guest), stop, keep, suspend, resume,
 * give up, move (and resize by it), reserve, reclaim, relax, set aside, classify, pack and unpack, timers.
 */
#include "core/contract/place.h"
#include "core/planning/vc.h"
#include "model/promise.h"
#include "model/solve.h"

struct plan;

/* Whether the pass hands out what everybody is owed, or what is left over. */
bool plan_borrows(const struct plan *plan);

/* Whether it is the turn of opportunistic jobs, who come after everybody else. */
bool plan_for_guests(const struct plan *plan);

/* Whether jobs of this shape have their turn in this phase; a planner leaves the others alone. */
bool plan_considers(const struct plan *plan, const struct shape_class *cls);

/* Thousandths of this type that jobs of this class may still take in this phase. */
int64_t plan_budget(const struct plan *plan, uint32_t sku, uint8_t klass);

/* Asks the virtual cluster's placement for a shape, on the first allowed type with budget and room. 0 and *ret,
 * -EDQUOT (no budget), -ENOMEM (too few free), -EBUSY (not in that shape). Refusals are remembered a shape. */
int plan_find(struct plan *plan, struct shape_class *cls, struct placement *ret);

/* The class of a waiting job; NULL, and recorded, for one that was set aside or is somebody else's. */
struct shape_class *plan_shape(struct plan *plan, uint32_t job);

/* Of the GPUs that the next job is given (by plan_start, plan_move or plan_enlist), these are for its parameter
 * servers. Not needed after plan_find: then the placement has told. The list is borrowed until then. */
void plan_serve(struct plan *plan, const uint32_t *servers, uint32_t count);

/* Starts a waiting job there. -EDQUOT beyond what the phase allows; -EBUSY, -EINVAL: recorded against the policy. */
int plan_start(struct plan *plan, uint32_t job, const struct placement *to);

/* The same as a guest on GPUs that others own; opportunistic jobs only. */
int plan_start_guest(struct plan *plan, uint32_t job, const struct placement *to);

/* Tells a job that holds GPUs to leave. Its GPUs can be given away in the same pass. One that has not begun, because it
 * waits for others to leave, gives up its claim. */
int plan_stop(struct plan *plan, uint32_t job, enum stop_step step);

/* Whether it would be told now: one that this pass has started or moved, that was promised to run on, or that is where
 * whoever plans hands nothing out, stays. */
bool plan_may_stop(const struct plan *plan, uint32_t job);

/* Takes a stop of this same pass back. -EBUSY if somebody was given its GPUs. */
int plan_keep(struct plan *plan, uint32_t job);

/* A running job leaves its GPUs but keeps its place on them, to come back in turn; and comes back, if there is room
 * (-EBUSY). A suspended job that is to go elsewhere gives its place up and waits again. */
int plan_suspend(struct plan *plan, uint32_t job);
int plan_resume(struct plan *plan, uint32_t job);
int plan_give_up(struct plan *plan, uint32_t job);

/* A job that was enlisted and never ran is launched now, up to a gate before it first uses its GPUs: EFFECT_PREPARE.
 * plan_resume opens the gate; plan_give_up takes the launch back. */
int plan_prepare(struct plan *plan, uint32_t job);

/* A running job that no longer uses its GPUs (it saves its result) keeps its place on them until it ends, and they can
 * be given away. */
int plan_yield(struct plan *plan, uint32_t job);

/* The job (waiting, suspended or running, with as many GPUs as it asks for or has) goes beside another of its virtual
 * cluster on exactly that one's GPUs: whole GPUs, equal width, memory for both. Nothing more is charged for it but
 * to its user (-EDQUOT). Inside a guarantee both are inside. -EBUSY, -EAGAIN (rules.c); -EINVAL, -EPERM (promised,
 * guaranteed): recorded. */
int plan_pack(struct plan *plan, uint32_t job, uint32_t host);

/* One of a pair leaves the other alone: suspended, to take turns with it (STOP_SUSPEND), or back to the queue. */
int plan_unpack(struct plan *plan, uint32_t job, enum stop_step step);

/* Whether the last disturbance of the job lies long enough back for another, where the rules apply. */
bool plan_rested(const struct plan *plan, uint32_t job);

/* Words of the job that are the policy's own: as many as its ops->words says, 0 when the job comes. */
int64_t *plan_words(const struct planner_ctx *ctx, struct plan *plan, uint32_t job);

/* The same of a node, as many as ops->node_words; of the virtual cluster's own, where it looks at that. */
int64_t *plan_node(const struct planner_ctx *ctx, const struct plan *plan, uint32_t node);

/* A suspended job comes back, but on these GPUs, as many as it has a place on. */
int plan_resume_at(struct plan *plan, uint32_t job, const struct placement *to);

/* A waiting job is given a place in turn on GPUs that others hold: it is suspended there until plan_resume. One that is
 * suspended is given another place. */
int plan_enlist(struct plan *plan, uint32_t job, const struct placement *to);

/* From admission: the job is treated as of another class. */
void plan_classify(struct plan *plan, uint32_t job, enum job_class klass);

/* A waiting job is of another class from now on. -ENOSPC: there is no room for one more shape in its queue. */
int plan_reclass(struct plan *plan, uint32_t job, enum job_class klass);

/* A guest becomes the guaranteed owner of the GPUs it is on, without being stopped. -EBUSY: they are not free for it;
 * -EDQUOT: beyond what the phase allows. */
int plan_upgrade(struct plan *plan, uint32_t job);

/* A job that holds GPUs is to have at most so much memory (MiB, 0 = as it likes) of each, and so much of their time
 * (percent; 0 = paused, 100 = as it likes). Where something controls it from one mini-batch to the next, that is where
 * it starts from. */
void plan_limit(struct plan *plan, uint32_t job, uint32_t memory_mib, uint32_t percent);

/* A running job moves to other GPUs, as many as it likes within its elastic range. Inside a guarantee those who are
 * owed nothing there leave; it is there at once as far as the planner sees, and goes when they have left
 * (deferred_move.c). */
int plan_move(struct plan *plan, uint32_t job, const struct placement *to);

/* A running job goes on on these GPUs with its world as it is, at a size that splice.h allows. Unlike plan_move it
 * leaves those it had, and no longer has, only when it has saved itself: whoever is given them waits for that. */
int plan_splice(struct plan *plan, uint32_t job, const struct placement *to);

/* The job is treated as of another tier than it asked for, or as of its own again. */
void plan_tier(struct plan *plan, uint32_t job, enum job_tier tier);

/* A running job saves itself where it is, against a crash. */
void plan_save(struct plan *plan, uint32_t job);

/* The job will end by then: told to its owner, kept with the job, and watched by the core. Promising again replaces it.
 */
void plan_promise(struct plan *plan, uint32_t job, usec_t by);

/* None of the job's deadlines can be promised; the earliest that could be (0 or USEC_NEVER: none). It may still run. A
 * job that was promised its end before its policy or its cluster became another has a broken promise then. */
void plan_decline(struct plan *plan, uint32_t job, usec_t offer);

/* What was promised will not be kept, and why; as soon as it is known. */
void plan_break(struct plan *plan, uint32_t job, enum breach cause);

/* Keeps whole free GPUs for a waiting job; reserving again replaces what was kept. None gives all back. -EDQUOT: all
 * that is kept for a virtual cluster is within what it is owed. */
int plan_reserve(struct plan *plan, uint32_t job, const struct placement *what);
void plan_unreserve(struct plan *plan, uint32_t job);

/* For a job inside its virtual cluster's quota for which there is no room: stops jobs of those that are over theirs
 * (opportunistic ones first, then the most over quota, newest first, whole gangs, never below a quota) until it fits,
 * and says where. -EBUSY if even that is not enough; then nobody was stopped. */
int plan_reclaim(struct plan *plan, uint32_t job, struct placement *ret);

/* The job is content with another locality. It changes its shape, not its place in the order. */
void plan_relax(struct plan *plan, uint32_t job, uint8_t level);

/* Takes a waiting job out of the trees with a reason of its own, or puts it back. -EPERM: the core itself keeps it
 * aside, since its user has all that one may have; it comes back by itself. */
void plan_set_aside(struct plan *plan, uint32_t job, enum reason reason);
int plan_put_back(struct plan *plan, uint32_t job);

/* The ordering is asked for the job's key anew: something the planner did (a word it changed) is part of it. */
void plan_rekey(struct plan *plan, uint32_t job);

/* planner->timer will be called for the job at that instant; USEC_NEVER = not. */
void plan_job_timer(struct plan *plan, uint32_t job, usec_t at);

/* A pass for this virtual cluster at that instant, or at an earlier one asked for; USEC_NEVER takes all that back. */
void plan_wake(struct plan *plan, usec_t at);

/* Has something computed that is too long for a step; `solved` will be called with the answer, if there is one. One
 * request at a time: -EBUSY while one is open. */
int plan_solve(struct plan *plan, enum solve_kind kind, const int64_t *words, uint32_t count);

/* The policy's own words of a job. */
void plan_word(struct plan *plan, uint32_t job, int word, int64_t value);
