/* SPDX-License-Identifier: Apache-2.0 */
/* untold.c - launches that no agent can have heard of are taken back when their node falls silent.
 *
 * A task whose launch may have arrived is given up with the lease of its node alone (ADR 21). One whose launch was
 * never handed to a connection has not been started by anybody, and waits for nothing. That it was not handed over is
 * noted in memory (book_task.untold), so a controller that was started anew knows of none and waits for the lease.
 * When a node has fallen silent its list is written with the entry that says so, together with how often the node had
 * joined by then: a node that joins meanwhile is told its launches, and then the list is not true any more.
 */
#include <string.h>

#include "ctl/part.h"

/* One that is launched only when others have left was told to nobody. One at a gate still waits in the core: nothing is
 * lost by it, and when its gate is opened it is one like any other. */
static bool untold(const struct book_job *job, const struct book_attempt *attempt, const struct book_task *task)
{
    return !attempt->ended && !attempt->prepared && task->state == TASK_PREPARING && (task->untold || job->waits_old);
}

json_t *untold_list(struct ctl *ctl, struct book_node *node)
{
    json_t *list = json_array();

    for (size_t i = 0; node->untold && i < ctl->book.live_count; i++) {
        struct book_job *job = ctl->book.live[i];
        const struct book_attempt *attempt = attempt_of(job);

        for (uint32_t t = 0; attempt && t < attempt->task_count; t++)
            if (attempt->tasks[t].node == node->name && untold(job, attempt, &attempt->tasks[t]))
                (void)json_array_append_new(
                    list, json_pack("[I, I, I]", (json_int_t)job->id, (json_int_t)attempt->number, (json_int_t)t));
    }
    return list;
}

static int64_t item(const json_t *triple, size_t at)
{
    return json_integer_value(json_array_get(triple, at));
}

void untold_apply(struct ctl *ctl, const struct book_node *node, const json_t *body)
{
    const json_t *list = json_object_get(body, "untold");

    if (json_integer_value(json_object_get(body, "joins")) != node->joins)
        return;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *triple = json_array_get(list, i);
        struct book_job *job = book_get(&ctl->book, item(triple, 0));
        struct book_attempt *attempt = job ? attempt_of(job) : NULL;
        int64_t rank = item(triple, 2);

        if (!attempt || attempt->ended || attempt->prepared || attempt->number != item(triple, 1) || rank < 0 ||
            rank >= attempt->task_count || attempt->tasks[rank].node != node->name ||
            attempt->tasks[rank].state != TASK_PREPARING)
            continue;
        attempt_untold(ctl, job, (uint32_t)rank);
    }
}
