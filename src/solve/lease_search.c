/* SPDX-License-Identifier: Apache-2.0 */
/* lease_search.c - whether there is a lease plan at all, by trying (see lease.h).
 *
 * From the last lease backwards. In each, tasks that need every lease that is left must be in; the others are taken or
 * left in the order of what they still need, and a choice that leaves room for a task it left out is not tried: that
 * task could as well be in. A demand that cannot be met in what is left cuts the branch.
 */
#include <errno.h>
#include <string.h>

#include "solve/lease.h"

struct search {
    const struct lease_problem *problem;
    int32_t left[LEASE_SEARCH_TASKS];
    uint64_t taken[LEASE_SEARCH_LEASES]; /* tasks in each lease */
    int64_t budget;
};

/* Tasks of one lease, those in greatest need first, and how far the choice among them has come. */
struct choice {
    int32_t lease, count, room;
    int32_t task[LEASE_SEARCH_TASKS];
    uint64_t taken;
    int32_t refused; /* size of the smallest that was left out */
};

static int32_t last_of(const struct lease_task *task)
{
    return task->last[task->steps - 1];
}

static bool hopeless(const struct search *s, int32_t lease)
{
    int64_t room = 0;

    for (int32_t t = 1; t <= lease; t++) {
        int64_t must = 0;

        room += s->problem->capacity[t - 1];
        for (int32_t i = 0; i < s->problem->count; i++) {
            int32_t last = last_of(&s->problem->tasks[i]) < lease ? last_of(&s->problem->tasks[i]) : lease;
            int32_t late = last > t ? last - t : 0;

            if (s->left[i] > last)
                return true;
            if (s->left[i] > late)
                must += (int64_t)s->problem->tasks[i].size * (s->left[i] - late);
        }
        if (must > room)
            return true;
    }
    return false;
}

static void gather(const struct search *s, struct choice *c)
{
    c->count = 0;
    for (int32_t i = 0; i < s->problem->count; i++) {
        int32_t k;

        if (!s->left[i] || last_of(&s->problem->tasks[i]) <= c->lease)
            continue;
        for (k = c->count++; k > 0; k--) {
            int32_t other = c->task[k - 1];

            if (s->left[other] != s->left[i] ? s->left[other] > s->left[i]
                                             : s->problem->tasks[other].size >= s->problem->tasks[i].size)
                break;
            c->task[k] = other;
        }
        c->task[k] = i;
    }
}

static int leases_from(struct search *s, int32_t lease);

static int choose(struct search *s, const struct choice *c, int32_t at)
{
    struct choice next = *c;
    int r = 0;

    if (--s->budget < 0)
        return -EAGAIN;
    if (at == c->count) {
        if (c->refused <= c->room)
            return 0;
        s->taken[c->lease] = c->taken;
        return leases_from(s, c->lease);
    }
    if (s->problem->tasks[c->task[at]].size <= c->room) {
        next.room -= s->problem->tasks[c->task[at]].size;
        next.taken |= (uint64_t)1 << c->task[at];
        s->left[c->task[at]]--;
        r = choose(s, &next, at + 1);
        if (r == 1)
            return r;
        s->left[c->task[at]]++;
    }
    if (r < 0 || s->left[c->task[at]] > c->lease)
        return r;
    next = *c;
    if (s->problem->tasks[c->task[at]].size < next.refused)
        next.refused = s->problem->tasks[c->task[at]].size;
    return choose(s, &next, at + 1);
}

/* Fills the leases below `lease`. */
static int leases_from(struct search *s, int32_t lease)
{
    struct choice c = { .lease = lease - 1, .refused = INT32_MAX };
    bool done = true;

    for (int32_t i = 0; i < s->problem->count; i++)
        done &= s->left[i] == 0;
    if (done) {
        memset(s->taken, 0, (size_t)lease * sizeof(*s->taken));
        return 1;
    }
    if (lease == 0 || hopeless(s, lease))
        return 0;
    c.room = s->problem->capacity[c.lease];
    gather(s, &c);
    return choose(s, &c, 0);
}

int lease_search(const struct lease_problem *problem, int64_t budget, struct lease_plan *plan)
{
    struct search s = { .problem = problem, .budget = budget };
    int32_t words = lease_words(problem->leases);
    int r;

    if (problem->count > LEASE_SEARCH_TASKS || problem->leases > LEASE_SEARCH_LEASES)
        return -E2BIG;
    for (int32_t i = 0; i < problem->count; i++)
        s.left[i] = problem->tasks[i].need;
    r = leases_from(&s, problem->leases);
    if (r != 1)
        return r;
    memset(plan->bits, 0, (size_t)problem->count * (size_t)words * sizeof(*plan->bits));
    memset(plan->used, 0, (size_t)problem->leases * sizeof(*plan->used));
    for (int32_t i = 0; i < problem->count; i++) {
        plan->step[i] = problem->tasks[i].steps - 1;
        for (int32_t l = 0; l < problem->leases; l++)
            if (s.taken[l] >> i & 1) {
                plan->bits[i * words + l / 64] |= (uint64_t)1 << (l % 64);
                plan->used[l] += problem->tasks[i].size;
            }
    }
    return 1;
}
