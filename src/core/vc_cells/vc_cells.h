/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* vc_cells.h - what a virtual cluster is guaranteed in cells, as a cluster of its own; see vc_cells.c. */
#include "core/ledger/ledger.h"
#include "model/cluster.h"

struct core;
struct plan;
struct vc;
struct error;

/* vc_cells_build.c */
int own_build(struct core *core, const struct cluster_spec *spec, bool *failed, struct error *err);

/* vc_cells.c */
void own_look(struct core *core, struct vc *vc, bool own);
int own_map(struct core *core, uint32_t vc, const struct placement *to, uint8_t mark);
const uint64_t *own_shut(struct core *core, const struct vc *vc, uint8_t mark, uint32_t sku);
bool own_shut_one(struct core *core, const struct vc *vc, const struct placement *to, uint8_t mark);
struct placement own_here(struct core *core);
int own_prepare(struct plan *plan, const struct placement *to, uint32_t job);
int own_evict(struct plan *plan, const uint32_t *gpus, uint32_t count);
int own_move(struct plan *plan, uint32_t job, const struct placement *to);
void own_health(struct core *core, uint32_t gpu);
void own_settle(struct core *core);
int own_lend(struct core *core, const struct ledger *own);
bool own_taken(const struct core *core, uint32_t virt, uint32_t leaf);

/* occupancy.c: ascending, as a placement must be. */
void gpus_sort(uint32_t *gpus, uint32_t count);

/* promote.c */
void promote_lent(struct plan *plan);

/* vc_cells_check.c */
int own_restore(struct core *core);
void own_carry(struct core *core, const struct core *old, const uint32_t *gpus);
struct audit;
void own_audit(const struct core *core, struct audit *audit);

/* users.c */
void users_build(struct core *core, bool *failed);
void users_hold(struct core *core, uint32_t job, int sign);
void users_wait(struct core *core, uint32_t job, bool waits);
bool users_allow(struct core *core, uint32_t job, uint32_t gpus);
bool users_settle(struct core *core, bool wakes); /* wakes: outside of a pass, which sees for itself */
void users_look(struct core *core, uint32_t job);

/* promise.c */
/* Deadlines in the future, ascending, worth no more the later they are. -EINVAL in words. */
int deadlines_check(const struct jobspec *spec, usec_t now, struct error *err);

/* Why a job that ends now is too late, as far as the core can tell. */
enum breach promise_cause(const struct job *job);

/* The job is over: a promise it did not keep is said to be broken, if nobody said so before. */
void promise_settle(struct core *core, uint32_t index);
