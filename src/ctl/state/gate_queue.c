/* SPDX-License-Identifier: Apache-2.0 */
/* gate_queue.c - jobs outside the core that wait for something of their user or of their array, in order of their ids.
 *
 * Whenever a job leaves the core its user has room and its array a turn. To look at every job there is each time would
 * make the end of an array quadratic in its elements; so those at such a gate stand in a tree of their user or array,
 * which finds the first that may enter in one descent. aux is the number of GPUs a job would add to its user's.
 */
#include <assert.h>

#include "ctl/state/state_internal.h"

static int64_t user_demand(const struct ctl_job *job)
{
    return (int64_t)jobspec_gpus(&job->wants) * job->wants.share;
}

/* The tree its gate has it in; NULL: none. */
static uint32_t *root_of(struct ctl *ctl, const struct ctl_job *job)
{
    if (job->gate == GATE_USER)
        return &ctl->registry.user[job->user].gate;
    return job->gate == GATE_ARRAY ? &job->source->array->turns : NULL;
}

void gate_queue_leave(struct ctl *ctl, struct ctl_job *job)
{
    uint32_t *root = root_of(ctl, job);

    if (root)
        tree_remove(ctl->gate_nodes, root, job->index);
}

void gate_queue_enter(struct ctl *ctl, struct ctl_job *job)
{
    uint32_t *root = root_of(ctl, job);

    if (!root)
        return;
    ctl->gate_nodes[job->index] = (struct tree_node){ .rank = { .id = job->id }, .aux = user_demand(job) };
    tree_insert(ctl->gate_nodes, root, job->index);
}

void gate_set(struct ctl *ctl, struct ctl_job *job, enum gate gate)
{
    if (gate == job->gate)
        return;
    gate_queue_leave(ctl, job);
    job->gate = gate;
    gate_queue_enter(ctl, job);
}

int64_t gate_queue_next(const struct ctl *ctl, uint32_t root, int64_t from, int64_t room)
{
    uint32_t found = tree_first_aux(ctl->gate_nodes, root, &(struct rank){ .time = 0, .id = from + 1 }, room);

    return found == TREE_NONE ? INT64_MAX : ctl->by_index[found]->id;
}

void user_count(struct ctl *ctl, struct ctl_job *job)
{
    int64_t now = job_in_core(job) ? user_demand(job) : 0;

    ctl->registry.user[job->user].held += now - job->counted;
    assert(ctl->registry.user[job->user].held >= 0);
    job->counted = now;
}

int64_t limits_held(const struct ctl *ctl, uint32_t user)
{
    return user < ctl->registry.user_capacity ? ctl->registry.user[user].held : 0;
}
