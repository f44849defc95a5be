/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* planner_list.h - what a planner needs that walks the order as planner_list.c does, with keys of its own: the knobs of
 * planner_list_preempt in their order, and the memory of a walk, which is its whole state. */
#include "core/contract/planner.h"

enum { UNPLACED_PASS, UNPLACED_HOLD };
enum { MODE_STRICT, MODE_SKIP, MODE_PREEMPT };

/* Changes of one walk before they are carried out. */
enum { CHANGES_MAX = 512 };

/* A gang on several types has one for each of its parts, of which all but the first are told as beside it. */
struct change {
    uint32_t job;
    uint16_t sku, beside;
    int64_t amount;
    struct rank rank;
};

struct walk {
    struct change in[CHANGES_MAX], out[CHANGES_MAX]; /* to start, to stop */
    uint32_t in_count, out_count;
    struct rank after[SHAPES_MAX]; /* jobs of the shape up to here were dealt with in this walk */
    bool passed[SHAPES_MAX];       /* after[] is set */
    bool hopeless[SHAPES_MAX];     /* the shape cannot be placed in this walk */
};
