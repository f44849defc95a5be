/* SPDX-License-Identifier: Apache-2.0 */
/* health.c - hardware that goes and comes back, and the jobs on it. */
#include "core/contract/plan.h"
#include "core/core_internal.h"
#include "core/job_events.h"

/* Hardware took the job down: it waits again, with what it had saved. One that a person has cancelled is gone. */
static void evict(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    bool held = job_holds(job->state), cancelled = job->state == JOB_STOPPING && job->stop == STOP_CANCEL;

    job_settle(job, core->now);
    if (held)
        core_detach(core, index);
    if (job->state == JOB_SUSPENDED) {
        job->waited[job->reason] += core->now - job->state_since;
        job->prepared = job->yields = false;
        core->vcs[job->vc].suspended--;
    }
    if (!cancelled)
        core_decide(core, DECISION_KILL, index, REASON_NODES_UNHEALTHY);
    core_emit(core, EFFECT_KILL, index);
    job->evictions++;
    job->preemptions += held; /* one that was leaving was counted when it was told to */
    core_move(core, index, cancelled ? JOB_KILLED : JOB_PENDING);
    core_release(core, index);
    if (cancelled)
        core_forget(core, index);
    else
        core_enqueue(core, index);
}

/* Those that wait for others to leave the GPU lose it first: else they would be launched when those are taken down. */
static void evict_claims(struct core *core, uint32_t gpu)
{
    uint32_t s = core->ledger.gpus[gpu].shares;

    while (s != SHARE_NONE) {
        uint32_t job = core->ledger.shares[s].job;

        if (core->jobs[job].state != JOB_CLAIMING && core->ledger.shares[s].part != PART_NEW) {
            s = core->ledger.shares[s].next_of_gpu;
            continue;
        }
        evict(core, job);
        s = core->ledger.gpus[gpu].shares;
    }
}

static void unreserve_gpu(struct core *core, uint32_t gpu)
{
    uint32_t job = core->ledger.gpus[gpu].reserved_for;

    if (job != JOB_NONE)
        plan_unreserve(&(struct plan){ .core = core, .vc = core->jobs[job].vc }, job);
}

static void evict_gpu(struct core *core, uint32_t gpu)
{
    struct gpu *g = &core->ledger.gpus[gpu];

    while (g->shares != SHARE_NONE)
        evict(core, core->ledger.shares[g->shares].job);
    unreserve_gpu(core, gpu);
}

static void node_set(struct core *core, uint32_t number, const struct event *event)
{
    struct node *node = &core->ledger.topo.nodes[number];
    bool drained = !event->up && event->value != 0;

    for (uint32_t i = 0; drained && i < node->gpus; i++)
        unreserve_gpu(core, node->first_gpu + i);
    for (uint32_t i = 0; !event->up && !drained && i < node->gpus; i++)
        evict_claims(core, node->first_gpu + i);
    for (uint32_t i = 0; !event->up && !drained && i < node->gpus; i++)
        evict_gpu(core, node->first_gpu + i);
    for (uint32_t job; !event->up && !drained && (job = tasks_first(core, number)) != JOB_NONE;)
        evict(core, job);
    topo_node_up(&core->ledger.topo, number, event->up);
    core->tasks_dirty = true;
    node->closed = drained;
    for (uint32_t i = 0; i < node->gpus; i++)
        own_health(core, node->first_gpu + i);
}

/* A machine with devices of several types is a node of each; it goes and comes back as one. */
void apply_node(struct core *core, const struct event *event)
{
    uint32_t node = event->target;

    do {
        node_set(core, node, event);
        node = core->ledger.topo.nodes[node].twin;
    } while (node != event->target);
    core->ledger.releases++; /* reasons change even when a node goes */
    for (uint32_t v = 0; v < core->vc_count; v++)
        core->vcs[v].dirty = true;
}

void apply_gpu(struct core *core, const struct event *event)
{
    if (!event->up) {
        evict_claims(core, event->target);
        evict_gpu(core, event->target);
    }
    ledger_gpu_bad(&core->ledger, event->target, !event->up);
    own_health(core, event->target);
    core->ledger.releases++;
    for (uint32_t v = 0; v < core->vc_count; v++)
        core->vcs[v].dirty = true;
}
