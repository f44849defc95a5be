/* SPDX-License-Identifier: Apache-2.0 */
/* rebuild.c - what a snapshot leaves out, built again from what it holds: lists, trees and sums. */
#include <errno.h>
#include <string.h>

#include "core/core_internal.h"
#include "core/planning/gang_parts.h"

/* Whether a job without GPUs has all its tasks somewhere, or none. */
static bool tasks_sane(const struct core *core, const struct job *job)
{
    uint32_t tasks = 0;

    for (uint32_t h = job->holds; h != HOLD_NONE; h = core->holds[h].next_of_job)
        tasks += core->holds[h].tasks;
    return job->spec.tasks >= 1 && job->spec.tasks <= TASKS_MAX && job->state != JOB_OFFERED &&
           job->state != JOB_CLAIMING && job->state != JOB_SUSPENDED && job->state < JOB_DONE &&
           job->since <= core->now && job->rate >= 0 &&
           tasks == (job_holds(job->state) || job->state == JOB_STOPPING ? (uint32_t)job->spec.tasks : 0);
}

/* Whether a job that goes elsewhere when others have left waits for any, and none other has parts. */
static bool defer_sane(const struct core *core, const struct job *job)
{
    uint32_t waits = 0;

    for (uint32_t s = job->shares; s != SHARE_NONE; s = core->ledger.shares[s].next_of_job) {
        const struct share *share = &core->ledger.shares[s];

        if (share->part != PART_STAYS && (job->runs_on == 0 || share->role != ROLE_OWNER))
            return false;
        if (share->part == PART_OLD && !share->leaving)
            return false;
        waits += share->waits;
    }
    if (job->runs_on == 0)
        return job->state == JOB_CLAIMING || waits == 0;
    return job->runs_on > 0 && job->runs_on <= GANG_GPUS_MAX && !job->sheds && job->mate == JOB_NONE &&
           (job->state == JOB_STOPPING || (job->state == JOB_STARTING && waits > 0 && waits == job->blocked));
}

/* Whether the job's numbers agree with each other and with the shares it has. */
static bool job_sane(const struct core *core, const struct job *job)
{
    const struct jobspec *spec = &job->spec;
    bool holds = job_holds(job->state) || job->state == JOB_STOPPING || job->state == JOB_SUSPENDED;
    int32_t shares = 0;

    if (!sides_sane(core, job))
        return false;
    for (uint32_t s = job->shares; s != SHARE_NONE; s = core->ledger.shares[s].next_of_job) {
        const struct share *share = &core->ledger.shares[s];
        const struct node *node = &core->ledger.topo.nodes[core->ledger.gpus[share->gpu].node];

        if ((share->role == ROLE_PACKED) != job->packed || share->amount != spec->share ||
            share->memory != spec->memory_mib ||
            (!job->sheds && share->part != PART_OLD && share->leaving != (job->state == JOB_STOPPING)) ||
            share->off != (job->state == JOB_SUSPENDED) || !job_on(job, node->sku) || (!node->up && !node->closed) ||
            core->ledger.gpus[share->gpu].bad)
            return false;
        shares += !(job->sheds && share->leaving) && share->part != PART_OLD;
    }
    if ((job->sheds && (job->state != JOB_STARTING || core->cells)) || !defer_sane(core, job))
        return false;
    if (job->state == JOB_FREE)
        return shares == 0 && job->holds == HOLD_NONE;
    if (job_gpuless(job))
        return shares == 0 && job->gpus == 0 && tasks_sane(core, job);
    return shares == job_held(job) && holds == (shares > 0) && job->state != JOB_OFFERED && job->state < JOB_DONE &&
           job->since <= core->now && spec->gpus >= 1 && spec->gpus <= GANG_GPUS_MAX && spec->share >= 1 &&
           spec->share <= MGPU_ONE && spec->estimate >= 0 && spec->time_limit >= 0 && job->rate >= 0 &&
           job->sku < core->ledger.topo.sku_count;
}

/* The chain of empty slots holds just the empty slots. */
static bool free_sane(const struct core *core)
{
    uint32_t chained = 0, empty = 0;

    for (uint32_t i = 0; i < core->job_top; i++)
        empty += core->jobs[i].state == JOB_FREE;
    for (uint32_t i = core->job_free; i != JOB_NONE; i = core->jobs[i].next)
        if (i >= core->job_top || core->jobs[i].state != JOB_FREE || ++chained > empty)
            return false;
    return chained == empty;
}

static void rejoin(struct core *core, struct ledger *ledger)
{
    for (uint32_t g = ledger->topo.gpu_count; g-- > 0;)
        for (uint32_t s = ledger->gpus[g].shares; s != SHARE_NONE; s = ledger->shares[s].next_of_gpu) {
            struct job *job = &core->jobs[ledger->shares[s].job];
            uint32_t *list = ledger->imagined ? &job->own_shares : &job->shares;

            ledger->shares[s].next_of_job = *list;
            ledger->shares[s].waits &= (job->state == JOB_CLAIMING || job->runs_on > 0) && !ledger->imagined;
            *list = s;
        }
}

/* Inside the guarantee a job has as many GPUs of its virtual cluster as of the cluster, and of no other's. */
static bool own_sane(const struct core *core, const struct job *job)
{
    const struct ledger *own = core->vcs[job->vc].own;
    int32_t shares = 0;

    if (!core->cells || !job_bound(job))
        return true;
    for (uint32_t s = job->own_shares; s != SHARE_NONE && s < own->share_capacity; s = own->shares[s].next_of_job) {
        if (&core->jobs[own->shares[s].job] != job || ++shares > job_held(job) ||
            own->shares[s].leaving != (job->state == JOB_STOPPING) ||
            own->shares[s].off != (job->state == JOB_SUSPENDED) || own->shares[s].role == ROLE_GUEST ||
            (own->shares[s].role == ROLE_PACKED) != job->packed)
            return false;
    }
    return shares == job_held(job);
}

/* Each job's shares into its own list, in ascending order of GPUs. -EBADMSG if something contradicts something. */
int core_rejoin_shares(struct core *core)
{
    for (uint32_t v = 0; v < core->vc_count && core->cells; v++) {
        const struct ledger *own = core->vcs[v].own;

        for (uint32_t g = 0; g < own->topo.gpu_count; g++)
            for (uint32_t s = own->gpus[g].shares; s != SHARE_NONE; s = own->shares[s].next_of_gpu)
                if (core->jobs[own->shares[s].job].vc != v)
                    return -EBADMSG;
        rejoin(core, core->vcs[v].own);
    }
    rejoin(core, &core->ledger);
    for (uint32_t i = 0; i < core->job_top; i++)
        if (!job_sane(core, &core->jobs[i]) || !own_sane(core, &core->jobs[i]))
            return -EBADMSG;
    for (uint32_t i = 0; i < core->job_top; i++)
        for (uint32_t h = core->jobs[i].holds; h != HOLD_NONE; h = core->holds[h].next_of_job)
            core->holds[h].leaving = core->jobs[i].state == JOB_STOPPING;
    host_recount(core);
    return free_sane(core) ? 0 : -EBADMSG;
}

void core_relink(struct core *core, uint32_t index)
{
    struct tree_node saved = core->tree[index];
    struct job *job = &core->jobs[index];
    usec_t key_at = heap_at(&core->timers, timer_of(index, TIMER_KEY));
    int64_t value = job->order_value, slope = job->order_slope;
    struct queue *queue = &core->vcs[job->vc].queue;
    int64_t words[ORDER_WORDS];

    memcpy(words, job->order_word, sizeof(words));
    job->prev = core->vcs[job->vc].run_last; /* in the order they were written */
    core_attach(core, index);
    /* Keys were rounded when they were computed; the very same ones come back. */
    if (queue->run_order != RUN_UNORDERED) {
        queue_run_remove(core, index);
        job->order_value = value;
        job->order_slope = slope;
        queue_run_restore(core, index, &saved.rank);
    }
    job->order_value = value;
    job->order_slope = slope;
    memcpy(job->order_word, words, sizeof(words));
    heap_set(&core->timers, timer_of(index, TIMER_KEY), key_at);
}

/* Waiting jobs into the trees of their shapes. -EBADMSG if one names a shape that is not there. */
int core_requeue(struct core *core)
{
    if (licenses_restore(core) < 0)
        return -EBADMSG;
    for (uint32_t i = 0; i < core->job_top; i++) {
        struct job *job = &core->jobs[i];
        struct queue *queue = &core->vcs[job->vc].queue;

        core->vcs[job->vc].suspended += job->state == JOB_SUSPENDED;
        core->vcs[job->vc].resizing += job->size != 0;
        if (job_gpuless(job) && job_holds(job->state))
            tasks_attach(core, i);
        if (!job_waits(job->state))
            continue;
        core->waiting++;
        licenses_wait(core, i, true);
        if (job_gpuless(job)) {
            bool dirty = core->tasks_dirty;

            tasks_add(core, i);
            core->tasks_dirty = dirty;
            continue;
        }
        users_wait(core, i, true);
        if (job->shape == UINT32_MAX)
            continue;
        if (job->shape >= queue->shape_top || !queue->shapes[job->shape].live)
            return -EBADMSG;
        queue_restore(core, i);
    }
    for (uint32_t v = 0; v < core->vc_count; v++)
        for (uint32_t i = 0; i < core->vcs[v].queue.live_count; i++)
            if (core->vcs[v].queue.shapes[core->vcs[v].queue.live[i]].count == 0)
                return -EBADMSG;
    return 0;
}
