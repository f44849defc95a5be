/* SPDX-License-Identifier: Apache-2.0 */
/* lease.c - see lease.h. The quick ways; the search is in lease_search.c.
 *
 * All of them rest on one exchange: a unit of work that can be put into a later lease with room may always be moved
 * there. So plans are built from the last lease backwards, and no choice leaves room that an eligible task could use.
 */
#include "solve/lease.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

int32_t lease_round_up(int32_t gpus, int32_t node)
{
    int32_t size = 1;

    assert(node > 0);
    if (gpus > node)
        return (gpus + node - 1) / node * node;
    while (size < gpus)
        size *= 2;
    return size;
}

usec_t lease_cost(const struct lease_times *times, int32_t gpus)
{
    return (usec_t)((double)(times->save + times->restore) * (1 + log2((double)gpus)) + 0.5);
}

usec_t lease_estimate(const struct lease_times *times, usec_t duration, int32_t gpus, usec_t unit)
{
    usec_t padded = muldiv_floor(duration, times->safety, PPM_ONE);
    usec_t all = muldiv_floor(padded, times->lease + lease_cost(times, gpus), times->lease);

    return all - all % unit;
}

usec_t lease_iteration(usec_t one, usec_t two, int32_t nodes)
{
    return one + (usec_t)(log2((double)nodes) * (double)(two - one) + 0.5);
}

static int32_t last_of(const struct lease_task *task)
{
    return task->last[task->steps - 1];
}

static void begin(const struct lease_problem *problem, struct lease_plan *plan)
{
    memset(plan->bits, 0, (size_t)problem->count * (size_t)lease_words(problem->leases) * sizeof(*plan->bits));
    memset(plan->used, 0, (size_t)problem->leases * sizeof(*plan->used));
    for (int32_t i = 0; i < problem->count; i++)
        plan->step[i] = problem->tasks[i].steps - 1;
}

static uint64_t *bits_of(const struct lease_problem *problem, const struct lease_plan *plan, int32_t task)
{
    return plan->bits + (size_t)task * (size_t)lease_words(problem->leases);
}

static void put(const struct lease_problem *problem, struct lease_plan *plan, int32_t task, int32_t lease)
{
    bits_of(problem, plan, task)[lease / 64] |= (uint64_t)1 << (lease % 64);
    plan->used[lease] += problem->tasks[task].size;
}

static void drop(const struct lease_problem *problem, struct lease_plan *plan, int32_t task, int32_t lease)
{
    bits_of(problem, plan, task)[lease / 64] &= ~((uint64_t)1 << (lease % 64));
    plan->used[lease] -= problem->tasks[task].size;
}

static bool greedy_before(const struct lease_task *a, const struct lease_task *b)
{
    int32_t sa = last_of(a) - a->need, sb = last_of(b) - b->need;

    if (a->size != b->size)
        return a->size > b->size;
    if (sa != sb)
        return sa < sb;
    return last_of(a) != last_of(b) ? last_of(a) > last_of(b) : a->id < b->id;
}

/* Stable, by merging: `order` has room for twice as many. */
static void sort_tasks(const struct lease_problem *problem, int32_t *order,
                       bool (*before)(const struct lease_task *, const struct lease_task *))
{
    int32_t *from = order, *to = order + problem->count, count = problem->count;

    for (int32_t i = 0; i < count; i++)
        from[i] = i;
    for (int32_t width = 1; width < count; width *= 2) {
        for (int32_t low = 0; low < count; low += 2 * width) {
            int32_t middle = low + width < count ? low + width : count;
            int32_t high = middle + width < count ? middle + width : count, a = low, b = middle;

            for (int32_t at = low; at < high; at++)
                to[at] = b == high || (a < middle && !before(&problem->tasks[from[b]], &problem->tasks[from[a]]))
                             ? from[a++]
                             : from[b++];
        }
        memcpy(from, to, (size_t)count * sizeof(*from));
    }
}

/* As many of the latest leases before `end` that have room; what is still needed. */
static int32_t fill_late(const struct lease_problem *problem, struct lease_plan *plan, int32_t task, int32_t end,
                         int32_t need)
{
    for (int32_t l = end - 1; l >= 0 && need > 0; l--)
        if (!lease_has(bits_of(problem, plan, task), l) &&
            plan->used[l] + problem->tasks[task].size <= problem->capacity[l]) {
            put(problem, plan, task, l);
            need--;
        }
    return need;
}

bool lease_greedy(const struct lease_problem *problem, struct lease_plan *plan, int32_t *order)
{
    begin(problem, plan);
    sort_tasks(problem, order, greedy_before);
    for (int32_t k = 0; k < problem->count; k++)
        if (fill_late(problem, plan, order[k], last_of(&problem->tasks[order[k]]), problem->tasks[order[k]].need))
            return false;
    return true;
}

/* Insertion from the back: the order changes little from one lease to the next. */
static void sort_left(const struct lease_problem *problem, int32_t *order, const int32_t *left)
{
    for (int32_t i = 1; i < problem->count; i++) {
        int32_t task = order[i], k = i;

        for (; k > 0; k--) {
            int32_t other = order[k - 1];

            if (left[other] != left[task] ? left[other] > left[task]
                                          : problem->tasks[other].size >= problem->tasks[task].size)
                break;
            order[k] = other;
        }
        order[k] = task;
    }
}

bool lease_backward(const struct lease_problem *problem, struct lease_plan *plan, int32_t *order, int32_t *left)
{
    begin(problem, plan);
    for (int32_t i = 0; i < problem->count; i++) {
        order[i] = i;
        left[i] = problem->tasks[i].need;
    }
    for (int32_t l = problem->leases - 1; l >= 0; l--) {
        sort_left(problem, order, left);
        for (int32_t k = 0; k < problem->count && left[order[k]] > 0; k++) {
            int32_t task = order[k];

            if (last_of(&problem->tasks[task]) <= l)
                continue;
            if (plan->used[l] + problem->tasks[task].size <= problem->capacity[l]) {
                put(problem, plan, task, l);
                left[task]--;
            } else if (left[task] > l) {
                return false; /* it needed every lease up to this one */
            }
        }
    }
    for (int32_t i = 0; i < problem->count; i++)
        if (left[i])
            return false;
    return true;
}

bool lease_bound(const struct lease_problem *problem)
{
    int64_t room = 0;

    for (int32_t t = 1; t <= problem->leases; t++) {
        int64_t must = 0;

        room += problem->capacity[t - 1];
        for (int32_t i = 0; i < problem->count; i++) {
            const struct lease_task *task = &problem->tasks[i];
            int32_t late = last_of(task) > t ? last_of(task) - t : 0;

            if (task->need > late)
                must += (int64_t)task->size * (task->need - late);
            if (task->need > last_of(task))
                return false;
        }
        if (must > room)
            return false;
    }
    return true;
}

/* ---- improvement ---- */

/* Moves all of a task before lease `end`, or changes nothing. */
static bool advance(const struct lease_problem *problem, struct lease_plan *plan, int32_t task, int32_t end)
{
    const uint64_t *bits = bits_of(problem, plan, task);
    int32_t outside = 0, room = 0, last = last_of(&problem->tasks[task]);

    for (int32_t l = end; l < last; l++)
        outside += lease_has(bits, l);
    for (int32_t l = 0; l < end && room < outside; l++)
        room += !lease_has(bits, l) && plan->used[l] + problem->tasks[task].size <= problem->capacity[l];
    if (room < outside)
        return false;
    for (int32_t l = end; l < last; l++)
        if (lease_has(bits, l))
            drop(problem, plan, task, l);
    (void)fill_late(problem, plan, task, end, outside);
    return true;
}

/* Raises those tasks that gain just so much; whether there were any. */
static bool raise_by(const struct lease_problem *problem, struct lease_plan *plan, int32_t gain)
{
    bool any = false;

    for (int32_t i = 0; i < problem->count; i++) {
        const struct lease_task *task = &problem->tasks[i];

        for (int32_t p = 0; p < plan->step[i]; p++)
            if (task->value[p] - task->value[plan->step[i]] == gain && task->last[p] >= task->need &&
                advance(problem, plan, i, task->last[p])) {
                plan->step[i] = p;
                any = true;
            }
    }
    return any;
}

static void raise_tasks(const struct lease_problem *problem, struct lease_plan *plan)
{
    int32_t most = 0;

    for (int32_t i = 0; i < problem->count; i++) {
        int32_t gain = problem->tasks[i].value[0] - problem->tasks[i].value[plan->step[i]];

        most = gain > most ? gain : most;
    }
    for (int32_t gain = most; gain > 0; gain--)
        (void)raise_by(problem, plan, gain);
}

/* Lease 0 of a task for a later one of its own, or the other way round. */
static void shift(const struct lease_problem *problem, struct lease_plan *plan, int32_t task)
{
    const struct lease_task *t = &problem->tasks[task];
    bool has = lease_has(bits_of(problem, plan, task), 0), wants = problem->sigma > 0;
    int32_t end = t->last[plan->step[task]];

    if (has == wants || (wants && plan->used[0] + t->size > problem->capacity[0]))
        return;
    for (int32_t k = 1; k < end; k++) {
        int32_t l = wants ? end - k : k;

        if (lease_has(bits_of(problem, plan, task), l) != wants)
            continue;
        if (!wants && plan->used[l] + t->size > problem->capacity[l])
            continue;
        drop(problem, plan, task, wants ? l : 0);
        put(problem, plan, task, wants ? 0 : l);
        return;
    }
}

void lease_improve(const struct lease_problem *problem, struct lease_plan *plan)
{
    raise_tasks(problem, plan);
    for (int32_t i = 0; i < problem->count; i++)
        shift(problem, plan, i);
}

int64_t lease_objective(const struct lease_problem *problem, const struct lease_plan *plan)
{
    int64_t value = 0, most = 1;

    for (int32_t i = 0; i < problem->count; i++)
        value += problem->tasks[i].value[plan->step[i]];
    for (int32_t l = 0; l < problem->leases; l++)
        most = problem->capacity[l] > most ? problem->capacity[l] : most;
    return value * 1000 + problem->sigma * (problem->leases ? (int64_t)plan->used[0] * 1000 / most : 0);
}

bool lease_valid(const struct lease_problem *problem, const struct lease_plan *plan)
{
    for (int32_t l = 0; l < problem->leases; l++) {
        int64_t used = 0;

        for (int32_t i = 0; i < problem->count; i++)
            used += lease_has(bits_of(problem, plan, i), l) ? problem->tasks[i].size : 0;
        if (used > problem->capacity[l] || used != plan->used[l])
            return false;
    }
    for (int32_t i = 0; i < problem->count; i++) {
        const struct lease_task *task = &problem->tasks[i];
        int32_t held = 0;

        for (int32_t l = 0; l < problem->leases; l++)
            if (lease_has(bits_of(problem, plan, i), l))
                held += l < task->last[plan->step[i]] ? 1 : problem->leases + 1;
        if (held != task->need)
            return false;
    }
    return true;
}
