/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* dependents.h - who waits for the end of which job, found from the job that ends.
 *
 * A waiter is a job, or an array, whose elements all wait for the same. It is listed under each job (or array) that it
 * is to come after, by what it is to have ended as, so that an end touches those alone for whom it decides something.
 */
#include <stdint.h>

#include "wire/job/submission.h"

enum { DEPENDENTS_BUCKETS = 1 << 14 };

struct after_target;

struct after_edge {
    struct after_edge *prev, *next; /* of the same target */
    struct after_target *target;    /* NULL: decided */
    int64_t waiter;                 /* id of the job, or of the array */
    uint8_t number;                 /* of the dependency in the submission */
};

/* What one waiter waits for. */
struct after_list {
    uint32_t count;
    struct after_edge edges[];
};

struct dependents {
    struct after_target *buckets[DEPENDENTS_BUCKETS];
};

/* Lists the waiter under those of its dependencies that are not in `decided`, by number. NULL with *ret 0: there are
 * none; -ENOMEM. */
int dependents_add(struct dependents *dependents, int64_t waiter, const struct submission *s, uint64_t decided,
                   struct after_list **ret);
/* Takes the waiter out of all lists and frees its own. */
void dependents_drop(struct dependents *dependents, struct after_list **list);
/* Some waiter for this end of the job, which is taken out of the list; NULL: there is none left. */
struct after_edge *dependents_next(struct dependents *dependents, int64_t id, enum after_kind kind);
void dependents_done(struct dependents *dependents); /* all waiters were dropped */
