/* SPDX-License-Identifier: Apache-2.0 */
/* attempt_wait.c - when an attempt may be launched: nothing of its job is left anywhere, and nobody is on its GPUs any
 * more that the core does not have there.
 *
 * A job that moves, or is taken down with a node of its gang, leaves GPUs that the core has given away by then. It may
 * take its grace to do so. Until it has left, whoever was given them waits.
 */
#include "ctl/part.h"

bool task_gone(const struct book_task *task)
{
    return task->state == TASK_EXITED || task->state == TASK_REFUSED;
}

bool ranks_all(const struct book_attempt *attempt, enum task_state state)
{
    for (uint32_t t = 0; t < attempt->task_count; t++) {
        const struct book_task *task = &attempt->tasks[t];

        if (task->state != (uint32_t)state && !task_gone(task) && (state != TASK_RUNNING || task->state != TASK_KEPT))
            return false;
    }
    return true;
}

bool attempt_gone(const struct book_attempt *attempt)
{
    for (uint32_t t = 0; t < attempt->task_count; t++)
        if (!task_gone(&attempt->tasks[t]))
            return false;
    return true;
}

/* No task is left of the attempts before the present one. */
static bool attempt_clear(const struct book_job *job)
{
    for (uint32_t a = 0; a + 1 < job->attempt_count; a++)
        if (!attempt_gone(&job->attempts[a]))
            return false;
    return true;
}

static bool gpus_meet(const struct book_task *a, const struct book_task *b)
{
    for (uint32_t i = 0; i < a->gpu_count; i++)
        for (uint32_t k = 0; k < b->gpu_count; k++)
            if (a->gpus[i] == b->gpus[k])
                return true;
    return false;
}

/* Whether somebody is still on GPUs of the task that the core has there no longer; *ret_any: on its node. */
static bool left_behind(const struct ctl *ctl, const struct book_job *job, const struct book_task *task, bool *ret_any)
{
    bool meets = false;

    for (size_t i = 0; i < ctl->book.live_count && !meets; i++) {
        const struct book_job *other = ctl->book.live[i];

        for (uint32_t a = 0; a < other->attempt_count && !meets; a++) {
            const struct book_attempt *attempt = &other->attempts[a];

            for (uint32_t t = 0; (attempt->ended || attempt->moves) && t < attempt->task_count; t++) {
                const struct book_task *there = &attempt->tasks[t];

                if (there->node != task->node || task_gone(there))
                    continue;
                *ret_any = true;
                meets |= other != job && gpus_meet(there, task);
            }
        }
    }
    return meets;
}

bool attempt_ready(struct ctl *ctl, struct book_job *job)
{
    const struct book_attempt *attempt = attempt_now(job);

    if (!attempt_clear(job))
        return false;
    for (uint32_t t = 0; t < attempt->task_count; t++) {
        struct book_node *node = &ctl->book.nodes[attempt->tasks[t].node];
        bool any = false;

        if (node->vacated)
            continue;
        if (left_behind(ctl, job, &attempt->tasks[t], &any))
            return false;
        node->vacated = !any;
    }
    return true;
}

void attempt_leaves(struct ctl *ctl, const struct book_attempt *attempt)
{
    for (uint32_t t = 0; t < attempt->task_count; t++)
        if (!task_gone(&attempt->tasks[t]))
            ctl->book.nodes[attempt->tasks[t].node].vacated = false;
}

void attempt_left(struct ctl *ctl, uint32_t node, bool vacated)
{
    bool any = false;

    if (vacated && ctl->book.nodes[node].vacated)
        return;
    for (size_t i = 0; i < ctl->book.live_count; i++) {
        struct book_job *job = ctl->book.live[i];
        bool here = false;

        for (uint32_t t = 0; job->waits_old && t < attempt_now(job)->task_count; t++)
            here |= attempt_now(job)->tasks[t].node == node;
        if (here && attempt_ready(ctl, job))
            attempt_launch(ctl, job);
    }
    (void)left_behind(ctl, NULL, &(struct book_task){ .node = node }, &any);
    ctl->book.nodes[node].vacated = !any;
}
