/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* antman.h - what the files of the AntMan planner share.
 *
 * planner_antman.c: guaranteed jobs, queues by user, reservations. antman_guest.c: opportunistic jobs. antman_user.c:
 * the lists of waiting jobs by user.
 */
#include "core/contract/plan.h"
#include "core/contract/view.h"

enum {
    ANTMAN_QUOTA,
    ANTMAN_BELOW,
    ANTMAN_GUESTS,
    ANTMAN_MARGIN,
    ANTMAN_START,
    ANTMAN_AUTO,
    ANTMAN_GATHER,
    ANTMAN_UPGRADE,
    ANTMAN_WORTH,
    ANTMAN_PARAMS
};

/* Words of a job. LINKS: its place in its user's list, as (index + 1) of the one before and behind, or 0 when it is in
 * none; the first of a list has LINK_END before it. */
enum { WORD_NEXT, WORD_PREV, WORD_SINCE, WORD_ALONE };

enum { ANTMAN_USERS = 1024, ANTMAN_GPUS = 1 << 14, ANTMAN_DEPTH = 64, ANTMAN_MODELS = 64 };

struct antman_user {
    uint32_t name;
    uint32_t first, last;   /* waiting jobs, guaranteed and auto; JOB_NONE */
    int64_t used;           /* thousandths, of its guaranteed jobs; counted anew in each pass */
    uint32_t cursor, tried; /* in the pass under way */
    bool taken, done, gathers;
};

struct antman {
    int64_t converted, upgraded, gathered, dropped, moved; /* counters, for reports */
    /* By model of owner and guest: thousandths of its speed alone that the guest was last seen to have there, and one.
     */
    uint16_t seen[ANTMAN_MODELS][ANTMAN_MODELS];
    bool vain[ANTMAN_MODELS][ANTMAN_MODELS]; /* by model of a guest and of the next: together they had less */
    bool built;                              /* from here on: found again, not kept */
    struct antman_user users[ANTMAN_USERS];
    uint32_t order[ANTMAN_USERS], order_count; /* users in the table, by number */
    bool changed;                              /* by the round under way */
    uint32_t kept_count;                       /* of picked[]: what a job kept that is looked at afresh */
    bool hopeless[SHAPES_MAX];
    uint32_t gpus[ANTMAN_GPUS], picked[ANTMAN_GPUS];
    uint32_t idle[ANTMAN_GPUS]; /* utilisation of gpus[], in hundredths of a percent */
};

/* antman_user.c */
struct antman_user *antman_user_of(struct antman *state, uint32_t name);
void antman_link(struct planner_ctx *ctx, struct plan *plan, uint32_t job);
void antman_unlink(struct planner_ctx *ctx, struct plan *plan, uint32_t job);
/* The first of a user's list, from there on, that waits. Those that were held meanwhile leave it: built again, it would
 * not have them. */
uint32_t antman_waiting(struct planner_ctx *ctx, struct plan *plan, uint32_t at);
void antman_build(struct planner_ctx *ctx, struct plan *plan);
void antman_count(struct planner_ctx *ctx);
int64_t antman_quota(const struct planner_ctx *ctx);

/* antman_guest.c */
void antman_guests(struct planner_ctx *ctx, struct plan *plan);
void antman_limits(struct planner_ctx *ctx, struct plan *plan);
void antman_report(struct planner_ctx *ctx, struct plan *plan, uint32_t job, const struct report *report);
void antman_trial(struct planner_ctx *ctx, struct plan *plan);
void antman_starved(struct planner_ctx *ctx, struct plan *plan);
