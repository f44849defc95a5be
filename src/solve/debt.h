/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* debt.h - fair queues that lend each other quota and remember it (Liquid's improved DRF; spec section 6.4).
 *
 * Quotas are in thousandths of a GPU. A queue whose quota covers its first job runs it, the largest such job first; if
 * none is covered, the queue with the smallest shortage, what others owe it counted as its own, borrows from the others
 * in equal steps. Who lent how much is remembered and paid back, in proportion, when the borrower is given quota again.
 */
#include <stdbool.h>
#include <stdint.h>

enum { DEBT_QUEUES_MAX = 64, DEBT_NONE = UINT8_MAX };

struct debt {
    uint32_t queues;
    int64_t quota[DEBT_QUEUES_MAX];
    int64_t weight[DEBT_QUEUES_MAX];                    /* > 0 */
    int64_t demand[DEBT_QUEUES_MAX];                    /* of everything that waits in it */
    int64_t head[DEBT_QUEUES_MAX];                      /* of its first job; 0: nobody waits */
    int64_t owes[DEBT_QUEUES_MAX][DEBT_QUEUES_MAX];     /* [borrower][lender] */
    uint64_t lent_at[DEBT_QUEUES_MAX][DEBT_QUEUES_MAX]; /* order of the oldest open debt, for remainders */
    uint64_t clock;
};

/* Hands out free capacity by weight, no queue more than its demand lacks. A queue that owes pays back out of it first.
 */
void debt_top_up(struct debt *debt, int64_t free);

/* One queue is given quota; what it owes is paid out of it, in proportion to the debts, the remainder to the oldest. */
void debt_give(struct debt *debt, uint32_t queue, int64_t amount);

/* The queue whose first job is to run now: DEBT_NONE if nobody waits or all quotas together do not cover one. Borrows
 * what it lacks and takes the job's demand out of its quota. */
uint32_t debt_next(struct debt *debt);
