/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* occupancy.h - the ledger, what it means to a virtual cluster's own, and the cells, changed together. */
#include "core/ledger/ledger.h"

struct core;

uint32_t hold_take(struct core *core, uint32_t job, const struct placement *to, enum share_role role);
uint32_t hold_take_own(struct core *core, uint32_t job, const struct placement *to);
uint32_t hold_defer(struct core *core, uint32_t job, const struct placement *to);
void hold_adopt(struct core *core, uint32_t job);
void hold_adopt_off(struct core *core, uint32_t job);
void hold_adopt_packed(struct core *core, uint32_t job, uint32_t host);
uint32_t hold_pack(struct core *core, uint32_t job, uint32_t host, const struct placement *to);
void hold_swap(struct core *core, uint32_t a, uint32_t b);
void hold_part(struct core *core, uint32_t job);
int hold_enlist(struct core *core, uint32_t job, const struct placement *to, bool own);
void hold_leave(struct core *core, uint32_t job);
int hold_stay(struct core *core, uint32_t job);
uint32_t hold_park(struct core *core, uint32_t job);
int hold_unpark(struct core *core, uint32_t job);
uint32_t hold_release(struct core *core, uint32_t job);
void hold_flush(struct core *core, uint32_t first);
