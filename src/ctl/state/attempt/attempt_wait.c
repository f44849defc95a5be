/* SPDX-License-Identifier: Apache-2.0 */
/* attempt_wait.c - when an attempt may be launched: nothing of its job is left anywhere, and nobody is on its GPUs any
 * more that the core does not have there.
 *
 * A job that moves, or is taken down with a node of its gang, leaves GPUs that the core has given away by then. It may
 * take its grace to do so. Until it has left, whoever was given them waits.
 */
#include "ctl/state/state_internal.h"

bool task_gone(const struct ctl_task *task)
{
    return task->state == TASK_EXITED || task->state == TASK_REFUSED;
}

bool task_lost(const struct ctl_task *task)
{
    return task->cause == TASK_CAUSE_LOST || task->cause == TASK_CAUSE_FENCE;
}

bool ranks_all(const struct ctl_attempt *attempt, enum task_state state)
{
    for (uint32_t t = 0; t < attempt->task_count; t++) {
        const struct ctl_task *task = &attempt->tasks[t];

        if (task->state != (uint32_t)state && !task_gone(task) && (state != TASK_RUNNING || task->state != TASK_KEPT))
            return false;
    }
    return true;
}

bool attempt_gone(const struct ctl_attempt *attempt)
{
    for (uint32_t t = 0; t < attempt->task_count; t++)
        if (!task_gone(&attempt->tasks[t]))
            return false;
    return true;
}

/* No task is left of the attempts before the present one. */
static bool attempt_clear(const struct ctl_job *job)
{
    for (uint32_t a = 0; a + 1 < job->attempt_count; a++)
        if (!attempt_gone(&job->attempts[a]))
            return false;
    return true;
}

static bool task_has(const struct ctl *ctl, const struct ctl_task *task, uint32_t gpu)
{
    const struct ledger *ledger = ctl_ledger(ctl);
    uint32_t node = ledger->gpus[gpu].node;

    if (ctl->registry.nodes[task->node].core_node != node)
        return false;
    for (uint32_t g = 0; g < task->gpu_count; g++)
        if (task->gpus[g] == gpu - ledger->topo.nodes[node].first_gpu)
            return true;
    return false;
}

bool attempt_placed(const struct ctl *ctl, const struct ctl_job *job)
{
    const struct ledger *ledger = ctl_ledger(ctl);
    const struct ctl_attempt *attempt = attempt_last(job);
    uint32_t has = 0, given = 0;

    for (uint32_t t = 0; attempt && t < attempt->task_count; t++)
        has += attempt->tasks[t].gpu_count;
    for (uint32_t s = core_job(ctl->core, job->slot)->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job) {
        bool found = false;

        if (ledger->shares[s].leaving)
            continue;
        for (uint32_t t = 0; attempt && t < attempt->task_count && !found; t++)
            found = task_has(ctl, &attempt->tasks[t], ledger->shares[s].gpu);
        if (!found)
            return false;
        given++;
    }
    return has == given;
}

static bool gpus_meet(const struct ctl_task *a, const struct ctl_task *b)
{
    for (uint32_t i = 0; i < a->gpu_count; i++)
        for (uint32_t k = 0; k < b->gpu_count; k++)
            if (a->gpus[i] == b->gpus[k])
                return true;
    return false;
}

/* Whether somebody is still on GPUs of the task that the core has there no longer; *ret_any: on its node. */
static bool left_behind(const struct ctl *ctl, const struct ctl_job *job, const struct ctl_task *task, bool *ret_any)
{
    const struct ctl_job *other;
    bool meets = false;

    for (size_t i = 0; !meets && (other = registry_next(&ctl->registry, &i));) {
        for (uint32_t a = 0; a < other->attempt_count && !meets; a++) {
            const struct ctl_attempt *attempt = &other->attempts[a];

            for (uint32_t t = 0; attempt_in(attempt, ATTEMPT_SET(MOVING) | ATTEMPT_CLOSED) && t < attempt->task_count;
                 t++) {
                const struct ctl_task *there = &attempt->tasks[t];

                if (there->node != task->node || task_gone(there) || there->state == TASK_SUSPENDED)
                    continue; /* one that is suspended is off its GPUs */
                *ret_any = true;
                meets |= other != job && gpus_meet(there, task);
            }
        }
    }
    return meets;
}

bool attempt_ready(struct ctl *ctl, struct ctl_job *job)
{
    const struct ctl_attempt *attempt = attempt_now(job);

    assert(attempt->state == ATTEMPT_PLACED);
    if (!attempt_clear(job))
        return false;
    for (uint32_t t = 0; t < attempt->task_count; t++) {
        struct ctl_node *node = &ctl->registry.nodes[attempt->tasks[t].node];
        bool any = false;

        if (node->vacated)
            continue;
        if (left_behind(ctl, job, &attempt->tasks[t], &any))
            return false;
        node->vacated = !any;
    }
    return true;
}

bool attempt_place_empty(const struct ctl *ctl, const struct ctl_job *job)
{
    const struct ctl_attempt *attempt = attempt_last(job);
    bool any = false;

    if (!attempt_clear(job))
        return false;
    for (uint32_t t = 0; t < attempt->task_count; t++)
        if (left_behind(ctl, job, &attempt->tasks[t], &any))
            return false;
    return true;
}

void attempt_forgets(struct ctl *ctl, const struct ctl_job *job)
{
    for (uint32_t a = 0; a < job->attempt_count; a++)
        for (uint32_t t = 0; t < job->attempts[a].task_count; t++)
            if (!task_gone(&job->attempts[a].tasks[t]))
                attempt_left(ctl, job->attempts[a].tasks[t].node, false);
}

void attempt_leaves(struct ctl *ctl, const struct ctl_attempt *attempt)
{
    for (uint32_t t = 0; t < attempt->task_count; t++)
        if (!task_gone(&attempt->tasks[t]))
            ctl->registry.nodes[attempt->tasks[t].node].vacated = false;
}

void attempt_left(struct ctl *ctl, uint32_t node, bool vacated)
{
    struct ctl_job *job;
    bool any = false;

    if (vacated && ctl->registry.nodes[node].vacated)
        return;
    for (size_t i = 0; (job = registry_next(&ctl->registry, &i));) {
        bool here = false;

        for (uint32_t t = 0; job_waits_for_place(job) && t < attempt_now(job)->task_count; t++)
            here |= attempt_now(job)->tasks[t].node == node;
        if (here && attempt_ready(ctl, job))
            attempt_launch(ctl, job, false);
    }
    (void)left_behind(ctl, NULL, &(struct ctl_task){ .node = node }, &any);
    ctl->registry.nodes[node].vacated = !any;
}
