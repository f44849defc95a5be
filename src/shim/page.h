/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* page.h - what a job process and the node side share: three pages of memory and a few messages.
 *
 * The process page belongs to one process; the arena page and the neighbours' page to one GPU. Every group of fields
 * has one writer and starts on its own cache line. Every word is read with one aligned load and clamped by the reader,
 * so a page full of garbage slows a program down at worst. Fields are only ever appended; the smaller size of both
 * sides is valid. Times are CLOCK_MONOTONIC nanoseconds unless the name says otherwise; sizes are bytes.
 */
#include <stddef.h>
#include <stdint.h>

#include "shim/arena.h"
#include "shim/message.h"

#define PAGE_MAGIC 0x6d75737465726770ULL /* "mustergp" */
#define PAGE_ABI 1u
#define PAGE_SIZE_BYTES 16384u
#define PAGE_GPUS 16
#define PAGE_RING 8
#define PAGE_STEPS 64
#define PAGE_STRIPES 8
#define PAGE_ERROR_MAX 128
#define PAGE_PERMILLE 1000u

/* CLOSING: closed once the job has made `close_step` steps, or at `close_by_ns`; until then what `close_from` says. */
enum page_gate { GATE_OPEN, GATE_HARVEST, GATE_DUTY, GATE_CLOSED, GATE_CLOSING, GATE_COUNT };
enum page_role { ROLE_NONE, ROLE_GUARANTEED, ROLE_OPPORTUNISTIC, ROLE_COUNT };
enum page_tier { TIER_CALL, TIER_OPTIMIZER, TIER_KERNEL, TIER_PERIOD, TIER_TIME, TIER_COUNT };
/* clang-format off */
enum page_class {
    CLASS_NATIVE, CLASS_VMM, CLASS_POOL, CLASS_ARRAY, CLASS_GRAPH, CLASS_MANAGED, CLASS_CONTEXT, CLASS_COUNT
};
/* clang-format on */
enum page_op {
    OP_NONE,
    OP_PING,
    OP_SPILL_TO,   /* gpu; arg0 = bytes to reach */
    OP_PROMOTE,    /* gpu; arg0 = most bytes to bring home, 0 = all the cap allows */
    OP_TRIM,       /* ask the framework to drop its cache */
    OP_EVICT_ALL,  /* every movable chunk to host memory; arg0 = permille to unpin, for a release */
    OP_RELOAD_ALL, /* and home again */
    OP_SET_SLICE,  /* arg0 = microseconds, 0 = what the driver had */
    OP_PREPARE,    /* arg0 = bytes of host memory to hold ready for an eviction */
    OP_SYNC,       /* answer when the gate is closed and nothing is in flight */
    OP_CHECKPOINT, /* the program saves itself at the end of a step, where it can */
    OP_HOME,       /* as PROMOTE, a part of each step at a time, until another SPILL_TO or PROMOTE */
    OP_BASELINE,   /* arg0 = steps; the median of that many of the next ones, in us, is the reply's bytes */
    OP_DUMP,       /* lets go of the socket and of what is shared; arg0 = ns of its own time until it comes back */
    OP_STATS,      /* what PyTorch's allocator says, at the end of a step, into the page */
    OP_COUNT
};
enum page_state { STATE_RUNNING, STATE_EVICTING, STATE_EVICTED, STATE_RELOADING, STATE_COUNT };

struct page_control { /* writer: node side */
    uint32_t gate;    /* enum page_gate; a futex */
    uint32_t role;    /* enum page_role */
    uint64_t gate_until_ns;
    uint64_t lease_until_ns;
    uint32_t share; /* u of the controller, 0..1000 */
    uint32_t duty;  /* permille of wall time, GATE_DUTY */
    uint32_t window_us, guard_us, gap_min_us, slice_us;
    uint64_t command_seq; /* the newest command in the ring */
    uint32_t self_pid;    /* the process as the node side numbers it, in whatever namespace it thinks it is */
    uint32_t close_from;
    uint64_t close_step, close_by_ns;
    int32_t edge_us; /* added to the guard: below 0 a neighbour runs closer to the end of a gap */
} __attribute__((aligned(64)));

struct page_limit { /* writer: node side */
    uint8_t uuid[16];
    uint64_t cap_bytes;        /* 0 = none */
    uint64_t view_total_bytes; /* 0 = the driver's answer */
    uint64_t host_cap_bytes;   /* 0 = none */
    uint64_t host_pool_bytes;  /* HOST chunks held ready */
    uint64_t context_bytes;    /* what the card shows for the process and nobody counts; 0 = not known yet */
} __attribute__((aligned(64)));

struct page_command { /* writer: node side */
    uint64_t seq;
    uint32_t op, gpu;
    uint64_t arg[4];
    uint64_t deadline_ns;
} __attribute__((aligned(64)));

struct page_counters { /* writer: the threads of one stripe */
    uint64_t launches, graph_launches, copies, syncs, bytes_copied, gate_waits, gated_ns, unknown;
    uint64_t fail_open, tracked, warmed, gaps, gaps_late, spare[3];
} __attribute__((aligned(64)));

struct page_step_record {
    uint64_t end_ns;
    uint32_t wall_us, launches;
    uint32_t busy_us, tier;
    uint64_t used_bytes;
};

struct page_step { /* writer: job */
    uint64_t seq;  /* how many records were ever written */
    uint32_t tier, confidence;
    uint64_t spare[6];
    struct page_step_record ring[PAGE_STEPS];
} __attribute__((aligned(64)));

struct page_memory { /* writer: job, with atomic adds */
    uint8_t uuid[16];
    uint64_t used; /* sum of the classes, what the cap is held against */
    uint64_t class_bytes[CLASS_COUNT];
    uint64_t host_backed, saved, peak;
    uint64_t cap_hits, soft_refusals, spills, promotions;
    uint64_t movable, total_bytes, present;
} __attribute__((aligned(64)));

/* What moved since the start, and what is free. Appended after the first version of the page: see page_has_moves(). */
struct page_moves {        /* writer: job */
    uint64_t largest_hole; /* the largest request its limit leaves room for, in one piece: memory is mapped by 2 MiB */
    uint64_t step_peak;    /* the most it held since the last boundary */
    uint64_t spilled_bytes, spill_ns, spill_last_ns;
    uint64_t promoted_bytes, promote_ns, promote_last_ns;
} __attribute__((aligned(64)));

/* What PyTorch's own allocator said when it was last asked, of the GPU that was its current one. Appended later. */
struct page_torch { /* writer: job */
    uint64_t seq;   /* how often it was read */
    uint64_t at_ns, gpu;
    uint64_t allocated, allocated_peak, reserved, reserved_peak;
    uint64_t active, active_peak, inactive_split, inactive_split_peak;
} __attribute__((aligned(64)));

/* What its cgroup leaves of host memory, as it saw it last. Appended later still. */
struct page_host {               /* writer: job */
    uint64_t known, cgroup_left; /* UINT64_MAX: there is no limit */
} __attribute__((aligned(64)));

struct page_reply { /* writer: job */
    uint64_t seq;
    int64_t result; /* 0 or -errno */
    uint64_t bytes, ns;
    uint64_t trim_ns, wait_ns, copy_ns; /* of a move: the framework's cache, work in flight, copies */
};

struct page_health { /* writer: job */
    uint64_t beat_ns;
    uint32_t state, slice_groups;
    uint32_t slice_ok, substitutions;
    uint64_t pinned_bytes, area_bytes, pool_bytes, flags;
    char error[PAGE_ERROR_MAX];
} __attribute__((aligned(64)));

/* clang-format off */
enum page_health_flag {
    HEALTH_NO_CHECKPOINT = 1, HEALTH_SHARED = 2, HEALTH_LOOKUP_DIFFERS = 4, HEALTH_TABLE_FULL = 8, HEALTH_NO_MOVE = 16,
    HEALTH_MPS = 32,
    HEALTH_NO_HOST = 64, /* the last spill found no host memory for all it was to move */
    HEALTH_LOST = 128 /* what was evicted cannot come home: its GPU or context is gone */
};
/* clang-format on */

struct page {
    uint64_t magic;
    uint32_t abi, size;
    uint64_t generation;
    struct page_control control;
    struct page_limit limit[PAGE_GPUS];
    struct page_command command[PAGE_RING];
    struct page_counters counters[PAGE_STRIPES];
    struct page_memory memory[PAGE_GPUS];
    struct page_reply reply[PAGE_RING];
    struct page_health health;
    struct page_step step;
    struct page_moves moves[PAGE_GPUS];
    uint64_t step_peak[PAGE_STEPS]; /* of the same number in step.ring: the most it held in that step */
    struct page_torch torch;
    struct page_host host;
};

/* A process that was started with an older library leaves what came later at 0, and says so by its size. */
static inline int page_has_moves(const struct page *page)
{
    return page->size >= offsetof(struct page, step_peak) + sizeof(page->step_peak);
}

static inline int page_has_torch(const struct page *page)
{
    return page->size >= offsetof(struct page, torch) + sizeof(page->torch);
}

static inline int page_has_host(const struct page *page)
{
    return page->size >= offsetof(struct page, host) + sizeof(page->host) && page->host.known;
}

_Static_assert(sizeof(struct page) <= PAGE_SIZE_BYTES, "the process page has outgrown its size");
