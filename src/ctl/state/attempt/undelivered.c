/* SPDX-License-Identifier: Apache-2.0 */
/* undelivered.c - launches that no agent can have heard of are taken back when their node falls silent.
 *
 * A task whose launch may have arrived is given up with the lease of its node alone (ADR 21). One whose launch was
 * never handed to a connection has not been started by anybody, and waits for nothing. That it was not handed over is
 * noted in memory (ctl_task.untold), so a controller that was started anew knows of none and waits for the lease.
 * When a node has fallen silent its list is written with the entry that says so, together with how often the node had
 * joined by then: a node that joins meanwhile is told its launches, and then the list is not true any more.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/state/state_internal.h"

/* One that is launched only when others have left was told to nobody. One at a gate still waits in the core: nothing is
 * lost by it, and when its gate is opened it is one like any other. */
static bool untold(const struct ctl_attempt *attempt, const struct ctl_task *task)
{
    return attempt_live(attempt) && attempt->state != ATTEMPT_GATED && task->state == TASK_PREPARING &&
           (task->untold || attempt->state == ATTEMPT_PLACED);
}

int untold_list(struct ctl *ctl, struct ctl_node *node, struct number_list *ret)
{
    struct ctl_job *job;

    *ret = (struct number_list){ 0 };
    for (size_t i = 0; node->untold && (job = registry_next(&ctl->registry, &i));) {
        const struct ctl_attempt *attempt = attempt_of(job);

        for (uint32_t t = 0; attempt && t < attempt->task_count; t++) {
            int64_t *grown;

            if (attempt->tasks[t].node != node->name || !untold(attempt, &attempt->tasks[t]))
                continue;
            grown = mem_resize(ret->items, ret->count + 3, sizeof(*grown));
            if (!grown)
                return -ENOMEM;
            ret->items = grown;
            grown[ret->count++] = job->id;
            grown[ret->count++] = attempt->number;
            grown[ret->count++] = t;
        }
    }
    return 0;
}

void untold_apply(struct ctl *ctl, const struct ctl_node *node, const struct entry_silent *silent)
{
    const struct number_list *list = &silent->untold;

    if (silent->joins.value != node->joins)
        return;
    for (size_t i = 0; i + 2 < list->count; i += 3) {
        struct ctl_job *job = registry_get(&ctl->registry, list->items[i]);
        struct ctl_attempt *attempt = job ? attempt_of(job) : NULL;
        int64_t rank = list->items[i + 2];

        if (!attempt_live(attempt) || attempt->state == ATTEMPT_GATED || attempt->number != list->items[i + 1] ||
            rank < 0 || rank >= attempt->task_count || attempt->tasks[rank].node != node->name ||
            attempt->tasks[rank].state != TASK_PREPARING)
            continue;
        attempt_untold(ctl, job, (uint32_t)rank);
    }
}
