/* SPDX-License-Identifier: Apache-2.0 */
/* lease_words.c - see lease_words.h. */
#include "solve/lease_words.h"

#include <string.h>

uint32_t lease_request_size(const struct lease_problem *problem)
{
    uint32_t size = LEASE_REQUEST_HEAD + (uint32_t)problem->leases;

    for (int32_t i = 0; i < problem->count; i++)
        size += 3 + 2 * (uint32_t)problem->tasks[i].steps;
    return size;
}

uint32_t lease_answer_size(const struct lease_problem *problem)
{
    return LEASE_ANSWER_HEAD + (uint32_t)problem->count * (1 + (uint32_t)lease_words(problem->leases));
}

void lease_request(const struct lease_problem *problem, int64_t nodes, int64_t *out)
{
    *out++ = 1;
    *out++ = problem->count;
    *out++ = problem->leases;
    *out++ = problem->sigma;
    *out++ = nodes;
    for (int32_t l = 0; l < problem->leases; l++)
        *out++ = problem->capacity[l];
    for (int32_t i = 0; i < problem->count; i++) {
        const struct lease_task *task = &problem->tasks[i];

        *out++ = task->size;
        *out++ = task->need;
        *out++ = task->steps;
        for (int32_t p = 0; p < task->steps; p++) {
            *out++ = task->last[p];
            *out++ = task->value[p];
        }
    }
}

bool lease_answer(const struct lease_problem *problem, const int64_t *words, uint32_t count, struct lease_plan *plan)
{
    int32_t per = lease_words(problem->leases);
    const int64_t *at = words + LEASE_ANSWER_HEAD;

    if (count != lease_answer_size(problem) || (words[0] != LEASE_OPTIMAL && words[0] != LEASE_LIMIT))
        return false;
    memset(plan->used, 0, (size_t)problem->leases * sizeof(*plan->used));
    for (int32_t i = 0; i < problem->count; i++, at += 1 + per) {
        if (at[0] < 0 || at[0] >= problem->tasks[i].steps)
            return false;
        plan->step[i] = (int32_t)at[0];
        for (int32_t w = 0; w < per; w++)
            plan->bits[i * per + w] = (uint64_t)at[1 + w];
        for (int32_t l = 0; l < problem->leases; l++)
            plan->used[l] += lease_has(plan->bits + i * per, l) ? problem->tasks[i].size : 0;
    }
    return lease_valid(problem, plan);
}
