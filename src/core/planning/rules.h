/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* rules.h - pairs of jobs, and the rules that keep tuners from fighting; inside of the core only. */
#include <stdbool.h>
#include <stdint.h>

struct core;
struct job;
struct ledger;
struct placement;
struct plan;

/* plan.c */
int plan_bad(struct plan *plan, uint32_t job, int code);
bool plan_owns(const struct plan *plan, uint32_t job);
uint8_t plan_sku(const struct ledger *ledger, const struct placement *to);
bool plan_sku_allowed(const struct core *core, const struct job *job, uint8_t sku);
void core_touch(struct core *core, uint32_t job);

/* pair.c */
/* The job is about to leave: the one packed beside it owns their GPUs now. */
void pair_hand_over(struct core *core, uint32_t job);
/* It stays after all, though the one that has become the owner leaves: it is the owner again. */
void pair_take_back(struct core *core, uint32_t job);
/* It has left: there is no pair any more. */
void pair_part(struct core *core, uint32_t job);
struct audit;
void pair_audit(const struct core *core, uint32_t job, struct audit *audit);

/* rules.c */
bool rules_leased(const struct job *job);
/* 0, or -EAGAIN: not yet. */
int rules_disturb(const struct plan *plan, uint32_t job);
int rules_slice(struct plan *plan, uint32_t job);
int rules_move(const struct plan *plan, uint32_t job, const struct placement *to);
void rules_note_move(struct core *core, uint32_t job, const struct placement *to);
