/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* admit.h - may this launch enter now? Integers in, a verdict out; no clock, no memory, no waiting.
 *
 * The caller (gate.c) reads the pages and the clock, asks, and waits as told. The same code is tested by table. Spans
 * are microseconds, instants nanoseconds.
 */
#include <stdbool.h>
#include <stdint.h>

#include "shim/page.h"

#define ADMIT_G_MAX_NS 2000000000ULL        /* the longest a launch waits in HARVEST or DUTY */
#define ADMIT_ORPHAN_NS 60000000000ULL      /* how long the old rules hold after the lease */
#define ADMIT_CLOSED_PAST_NS 30000000000ULL /* the longest CLOSED outlives the lease */
#define ADMIT_LEASE_MOST_NS 15000000000ULL  /* three times what a node side gives */
#define ADMIT_DUTY_BURST_US 2000
#define ADMIT_WIDE_SHARE 900u
#define ADMIT_WINDOW_MAX_US 3000u
#define ADMIT_LEAK_FROM 750u
#define ADMIT_LEAK_WIDE 250u
#define ADMIT_LEAK_WIDE_FROM 300u
#define ADMIT_TINY_US 5u /* a kernel below that costs a gap nothing; what is in flight of them counts all the same */
#define ADMIT_EDGE_MAX_US 1000 /* what the node side may add to the guard or take from it */

enum admit_verdict {
    ADMIT_GO,         /* launch now */
    ADMIT_GO_LEAK,    /* launch now, charged to the leak bucket */
    ADMIT_WAIT_RG,    /* until the guaranteed job goes idle, at most 2 ms */
    ADMIT_WAIT_SHORT, /* this gap is too short to use: at most 200 us */
    ADMIT_WAIT_FENCE, /* until work completes, at most 50 us */
    ADMIT_COUNT
};

struct admit_knobs {
    uint32_t window_us; /* most estimated work in flight */
    int32_t guard_us;   /* kept free before the predicted end of a gap; below 0: may reach beyond it */
    uint32_t gap_min_us;
    uint32_t leak;      /* permille of wall time that may run while the guaranteed job is active */
    uint32_t leak_from; /* and from which permille of its burst on */
};

struct admit_state {
    uint32_t rg_state;      /* enum page_rg */
    uint32_t gap_pred_us;   /* 0 = never seen */
    uint64_t elapsed_us;    /* since the gap began */
    uint64_t inflight_us;   /* estimated work not known to be complete */
    uint32_t cost_us;       /* what the launch is thought to take */
    uint32_t burst_pred_us; /* how long the guaranteed job will be active, 0 = never seen */
    bool leak_empty;
    bool unsliced; /* no time slice bounds what a kernel longer than the gap does */
};

/* The controller's u (0..1000, clamped) as knobs. */
void admit_map(uint32_t share, struct admit_knobs *ret);

/* How much may be in flight when the gap will be `gap_pred_us` long. Where the hardware's time slice is at work a
 * guaranteed job that begins early pushes the rest aside, so a neighbour that may have all may keep more in flight. */
uint32_t admit_window(uint32_t window_us, uint32_t most_us, uint32_t share, uint32_t gap_pred_us, bool sliced);

/* What may be launched while the guaranteed job is active. Where time slices are at work it stays in the queue until
 * that job is idle, which has longer slices than its bursts: a neighbour that may have all may fill its queue from
 * early on, and the gap does not begin with the launches of a host that has just been woken. */
void admit_leak(struct admit_knobs *knobs, uint32_t share, bool sliced);

enum admit_verdict admit_harvest(const struct admit_knobs *knobs, const struct admit_state *state);

struct admit_rule {
    enum page_gate gate;
    uint32_t share, duty;
};

/* A lease as one process has seen it. Threads may share it. */
struct admit_lease {
    uint64_t seen_ns, end_ns; /* what the page said, and when that ends */
};

/* When the lease that the page tells of ends. One that is later than anybody gives is garbage: it lasts the longest
 * that is given, from when it was first seen, and not for years. */
uint64_t admit_lease_end(struct admit_lease *lease, uint64_t until_ns, uint64_t now_ns);
/* A lease that the process gives itself, however long. */
void admit_lease_own(struct admit_lease *lease, uint64_t until_ns);

/* What holds now, the lease and its end taken into account: a dead node side never stops a job for good. */
struct admit_rule admit_effective(const struct page_control *control, struct admit_lease *seen, uint64_t steps,
                                  uint64_t now_ns);

/* A bucket filled with wall time; what DUTY and the leak spend. */
struct admit_bucket {
    int64_t level_us;
    uint64_t filled_ns;
};

/* Nobody keeps the lease and the guaranteed job has shown no life for 200 ms: is it there at all? */
#define ADMIT_BEAT_OLD_NS 200000000ULL
bool admit_doubt(uint64_t lease_ns, uint64_t beat_ns, uint64_t now_ns);

/* True when it may be spent from; refills first. `permille` of wall time, at most `burst_us` kept. */
bool admit_bucket_ready(struct admit_bucket *bucket, uint64_t now_ns, uint32_t permille, uint32_t burst_us);
void admit_bucket_spend(struct admit_bucket *bucket, uint64_t us);
