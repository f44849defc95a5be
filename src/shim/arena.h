/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* arena.h - what the jobs of one GPU share, which page.h includes: a page that the guaranteed one writes and a page
 * that its neighbours do.
 */
#include <stdint.h>

#define ARENA_SIZE_BYTES 4096u

enum page_rg { RG_ABSENT, RG_IDLE, RG_ACTIVE, RG_COUNT };

/* One a GPU. The guaranteed job writes, the opportunistic ones read; `ot_*` and `node_*` are the node side's. */
struct arena {
    uint64_t magic;
    uint32_t abi, size;
    uint32_t rg_state __attribute__((aligned(64))); /* enum page_rg; a futex */
    uint32_t rg_pid;
    uint64_t rg_since_ns, rg_beat_ns;
    uint32_t gap_pred_us, burst_pred_us;
    uint64_t rg_step_seq, rg_bursts;
    uint32_t rg_copy_slow; /* its copies are disturbed: neighbours cut theirs */
    uint32_t ot_count __attribute__((aligned(64)));
    uint32_t gap_floor_us; /* gaps shorter than this are not used */
    uint32_t ot_turn_pid;  /* of several neighbours the one that may harvest now; 0 = any. A futex */
};

/* One a GPU, for what its opportunistic jobs say to the guaranteed one: they write, it reads. A hint, and no more. */
struct beside {
    uint64_t magic;
    uint32_t done_gap __attribute__((aligned(64))); /* the gap (arena.rg_bursts) they are done with. A futex */
};

_Static_assert(sizeof(struct beside) <= ARENA_SIZE_BYTES, "the neighbours' page has outgrown its size");
_Static_assert(sizeof(struct arena) <= ARENA_SIZE_BYTES, "the arena page has outgrown its size");
