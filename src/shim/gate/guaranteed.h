/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* guaranteed.h - the guaranteed half of shim.h, which includes it: when is it idle, when active? */
#include <stdbool.h>
#include <stdint.h>

#include "shim/cuda_abi.h"

void rg_submit(CUstream stream);
uint64_t rg_mark(CUstream stream);
void rg_synced(CUstream stream, uint64_t mark);
void rg_mark_all(uint64_t *marks);
void rg_synced_all(const uint64_t *marks);
void rg_event_record(CUevent event, CUstream stream);
void rg_event_synced(CUevent event);
void rg_stream_gone(CUstream stream);
void rg_poll(void); /* helper */
bool rg_wants_poll(void);
uint32_t rg_burst_us_take(void);

/* --- warm.c */
struct arena;
void warm_done(const struct arena *arena);  /* a neighbour: nothing in flight, and nothing more fits into this gap */
void warm_burst(const struct arena *arena); /* a neighbour sees a burst: was it done when that began? Counts it */
bool warm_paired(void);                     /* the guaranteed job has neighbours that may say so */
bool warm_wanted(void);                     /* and there is a gap for which nobody has yet */
void warm_turn(void);                       /* helper: waits for it, a millisecond at most, and fills */
#define RG_SLOTS 64
