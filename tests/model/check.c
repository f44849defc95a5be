/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - what must be true after every batch, and at the end of a sequence. */
#include <stdio.h>
#include <string.h>

#include "core/core.h"
#include "core/ledger/ledger.h"
#include "ctl/state/audit.h"
#include "model.h"

enum { END_WAKES = 60 };

static struct agent *agent_of(struct world *world, uint32_t node)
{
    return agent_find(world, names_get(&ctl_registry(world->ctl)->node_names, node));
}

static bool task_over(const struct ctl_task *task)
{
    return task->state == TASK_EXITED || task->state == TASK_REFUSED;
}

/* Nobody follows an attempt of a job that a person has cancelled. */
static void check_graves(struct world *world)
{
    for (size_t i = 0; i < world->grave_count; i++) {
        const struct ctl_job *job = registry_find(ctl_registry(world->ctl), world->graves[i].job);

        if (job && job->attempt_count > world->graves[i].attempts)
            world_fail(world, "after a cancel: job %lld has a new attempt", (long long)job->id);
    }
}

static bool waits(const struct world *world, const struct ctl_job *job)
{
    return !job_in_core(job) || job_waits((enum job_state)core_job(ctl_core(world->ctl), job->slot)->state);
}

/* Whoever waited before this batch is given no node that was closed before it, and still is. */
static void check_placed(struct world *world, const struct ctl_job *job)
{
    const struct past *past = &world->past[job->id];
    const struct ctl_attempt *attempt = attempt_last(job);

    if (job->attempt_count == past->attempts || !past->waits || !attempt)
        return;
    for (uint32_t t = 0; t < attempt->task_count; t++) {
        const struct ctl_node *node = &ctl_registry(world->ctl)->nodes[attempt->tasks[t].node];
        const struct agent *agent = agent_of(world, attempt->tasks[t].node);

        if (agent && agent->closed && (node->drained || node->silent || node->lost))
            world_fail(world, "closed node: job %lld attempt %u is put on %s", (long long)job->id, attempt->number,
                       agent->name);
    }
}

static uint32_t array_in_core(const struct world *world, int64_t array)
{
    const struct registry *registry = ctl_registry(world->ctl);
    uint32_t inside = 0;

    for (size_t i = 0; i < registry->live_count; i++)
        inside += registry->live[i]->array_id == array && job_in_core(registry->live[i]);
    return inside;
}

/* No more elements of an array are let in than it says. */
static void check_array(struct world *world, const struct ctl_job *job)
{
    uint32_t inside = array_in_core(world, job->array_id);

    if (job->spec->array_parallel && inside > job->spec->array_parallel)
        world_fail(world, "array: %u of %lld are let in, %u may be", inside, (long long)job->array_id,
                   job->spec->array_parallel);
}

/* The core knows which nodes are in order, and which of their GPUs. One that is to be used no more and is still in use
 * may be good in the core. */
static void check_health(struct world *world, const struct ctl_node *node)
{
    const struct ledger *ledger = core_ledger(ctl_core(world->ctl));
    const struct node *in_core = &ledger->topo.nodes[node->core_node];
    const char *name = names_get(&ctl_registry(world->ctl)->node_names, node->name);
    bool up = node->joined && !node->silent && !node->lost && !node->drained;

    if (in_core->up != up)
        world_fail(world, "health: %s is %s, and %s in the core", name, up ? "up" : "closed",
                   in_core->up ? "up" : "closed");
    for (uint32_t g = 0; g < node->gpu_count && g < in_core->gpus; g++) {
        const struct gpu *gpu = &ledger->gpus[in_core->first_gpu + g];
        bool good = node->gpus[g].ok && !node->gpus[g].drained && !node->gpus[g].foreign;

        if (up && good == gpu->bad && (good || !node->gpus[g].ok))
            world_fail(world, "health: GPU %u of %s is %s, and %s in the core", g, name, good ? "good" : "not",
                       gpu->bad ? "bad" : "good");
    }
}

static void check_audit(struct world *world)
{
    struct state_audit audit = { 0 };

    (void)state_audit(world->ctl, &audit);
    if (audit.count)
        world_fail(world, "audit: %.300s", audit.lines[0]);
}

static void note_past(struct world *world)
{
    const struct registry *registry = ctl_registry(world->ctl);

    for (size_t i = 0; i < registry->live_count; i++)
        if (registry->live[i]->id < PAST_MAX)
            world->past[registry->live[i]->id] =
                (struct past){ registry->live[i]->attempt_count, waits(world, registry->live[i]) };
    for (uint32_t n = 0; n < registry->node_count; n++) {
        struct agent *agent = agent_of(world, n);

        if (agent)
            agent->closed = registry->nodes[n].drained || registry->nodes[n].silent || registry->nodes[n].lost;
    }
}

void check_batch(struct world *world)
{
    const struct registry *registry = ctl_registry(world->ctl);

    check_graves(world);
    for (size_t i = 0; i < registry->live_count; i++) {
        if (registry->live[i]->id < PAST_MAX)
            check_placed(world, registry->live[i]);
        if (registry->live[i]->array_id)
            check_array(world, registry->live[i]);
    }
    for (uint32_t n = 0; ctl_core(world->ctl) && n < registry->node_count; n++)
        if (registry->nodes[n].core_node != UINT32_MAX)
            check_health(world, &registry->nodes[n]);
    check_audit(world);
    note_past(world);
}

static bool on_task(const struct ctl_task *task, uint32_t node, uint32_t gpu)
{
    for (uint32_t g = 0; task->node == node && g < task->gpu_count; g++)
        if (task->gpus[g] == gpu)
            return true;
    return false;
}

static uint32_t node_in_core(const struct world *world, uint32_t core_node)
{
    const struct registry *registry = ctl_registry(world->ctl);

    for (uint32_t n = 0; n < registry->node_count; n++)
        if (registry->nodes[n].core_node == core_node)
            return n;
    return UINT32_MAX;
}

static const struct ctl_job *job_of_slot(const struct world *world, uint32_t slot)
{
    const struct registry *registry = ctl_registry(world->ctl);

    for (size_t i = 0; i < registry->live_count; i++)
        if (job_in_core(registry->live[i]) && registry->live[i]->slot == slot)
            return registry->live[i];
    return NULL;
}

/* A share of a GPU that counts: somebody's who is there. */
static void check_share(struct world *world, uint32_t gpu, const struct share *share)
{
    const struct ledger *ledger = core_ledger(ctl_core(world->ctl));
    const struct ctl_job *job = job_of_slot(world, share->job);
    uint32_t core_node = ledger->gpus[gpu].node, index = gpu - ledger->topo.nodes[core_node].first_gpu;
    uint32_t node = node_in_core(world, core_node);
    const struct ctl_attempt *attempt = job ? attempt_last(job) : NULL;
    bool there = false;

    /* A rank that has ended before the others keeps its GPUs for the gang. */
    for (uint32_t t = 0; attempt && !attempt->ended && t < attempt->task_count; t++)
        there |= on_task(&attempt->tasks[t], node, index);
    if (!there)
        world_fail(world, "GPU lost: the core has job %lld on GPU %u of node %u, where no task of it is",
                   (long long)core_job(ctl_core(world->ctl), share->job)->spec.id, index, core_node);
}

static void check_ledger(struct world *world)
{
    const struct core *core = ctl_core(world->ctl);
    const struct ledger *ledger = core ? core_ledger(core) : NULL;

    for (uint32_t gpu = 0; ledger && gpu < ledger->topo.gpu_count; gpu++)
        for (uint32_t s = ledger->gpus[gpu].shares; s != SHARE_NONE; s = ledger->shares[s].next_of_gpu)
            if (!ledger->shares[s].off)
                check_share(world, gpu, &ledger->shares[s]);
}

/* What the controller has of a task, and what its node has. */
static void check_task(struct world *world, const struct ctl_job *job, const struct ctl_attempt *attempt, uint32_t rank)
{
    const struct ctl_task *task = &attempt->tasks[rank];
    struct agent *agent = agent_of(world, task->node);
    const struct task_id id = { job->id, attempt->number, rank };
    const struct sim_task *there = agent ? agent_task(agent, &id) : NULL;

    if (task_over(task)) {
        if (there && !sim_over(there))
            world_fail(world, "given up: job %lld attempt %u rank %u is %s on %s, and over for the controller",
                       (long long)job->id, attempt->number, rank, task_state_name(there->state), agent->name);
        return;
    }
    if (!there || sim_over(there))
        world_fail(world, "gone: job %lld attempt %u rank %u is %s for the controller, and not on its node",
                   (long long)job->id, attempt->number, rank, task_state_name((enum task_state)task->state));
    else if (there->state != (enum task_state)task->state)
        world_fail(world, "apart: job %lld attempt %u rank %u is %s for the controller, %s on its node%s",
                   (long long)job->id, attempt->number, rank, task_state_name((enum task_state)task->state),
                   task_state_name(there->state), there->waiting ? ", waiting for GPUs" : "");
    else if (attempt->ended)
        world_fail(world, "left over: job %lld attempt %u has ended, and rank %u is still %s", (long long)job->id,
                   attempt->number, rank, task_state_name(there->state));
}

static void check_tasks(struct world *world)
{
    const struct registry *registry = ctl_registry(world->ctl);

    for (size_t i = 0; i < registry->live_count; i++) {
        const struct ctl_job *job = registry->live[i];

        for (uint32_t a = 0; a < job->attempt_count; a++)
            for (uint32_t t = 0; t < job->attempts[a].task_count; t++)
                check_task(world, job, &job->attempts[a], t);
    }
    for (size_t a = 0; a < world->agent_count; a++)
        for (size_t t = 0; t < world->agents[a].task_count; t++) {
            const struct sim_task *task = &world->agents[a].tasks[t];
            const struct ctl_job *job = registry_find(registry, task->id.job);

            if (!sim_over(task) && (!job || phase_over(job->phase)))
                world_fail(world, "orphan: %s still has job %lld attempt %u rank %u as %s", world->agents[a].name,
                           (long long)task->id.job, task->id.attempt, task->id.rank, task_state_name(task->state));
        }
}

/* What keeps it out of the core is so. */
static bool gate_true(const struct world *world, const struct ctl_job *job)
{
    const struct submission *s = job->spec;

    switch (job->gate) {
    case GATE_HELD:
        return job->held;
    case GATE_BEGIN:
        return s->begin > world->now;
    case GATE_DEPENDENCY:
        return s->after_count > 0;
    case GATE_ARRAY:
        return s->array_parallel > 0 && array_in_core(world, job->array_id) >= s->array_parallel;
    case GATE_PAUSED:
        return ctl_registry(world->ctl)->paused;
    case GATE_USER:
        return ctl_registry(world->ctl)->kept.limits.count > 0;
    case GATE_RESERVATION:
        return s->reservation != NULL;
    case GATE_NONE:
    case GATE_COUNT:
        break;
    }
    return false;
}

/* Nobody has anything of the whole cluster, all of it is in order, and yet somebody waits for GPUs. */
static void check_idle(struct world *world, const struct ctl_job *job)
{
    const struct core *core = ctl_core(world->ctl);
    const struct ledger *ledger = core_ledger(core);
    struct jobspec spec = job->wants;
    struct error err = { 0 };
    union {
        const struct core *seen;
        struct core *own; /* asking leaves it as it is */
    } asked = { .seen = core };

    for (uint32_t gpu = 0; gpu < ledger->topo.gpu_count; gpu++)
        if (ledger->gpus[gpu].shares != SHARE_NONE || ledger->gpus[gpu].bad)
            return;
    for (uint32_t n = 0; n < ledger->topo.node_count; n++)
        if (!ledger->topo.nodes[n].up || ledger->topo.nodes[n].kept)
            return;
    if (core_running(core) > 0 || spec.gpus == 0 || job->wants.mark || job->wants.kept)
        return;
    if (core_feasible(asked.own, &spec, job->vc, &err) == 0)
        world_fail(world, "idle: job %lld waits (%s), could run, and nobody has any GPU", (long long)job->id,
                   reason_name(job->reason));
}

static void check_job(struct world *world, const struct ctl_job *job)
{
    const struct job *core = job_in_core(job) ? core_job(ctl_core(world->ctl), job->slot) : NULL;

    if (core && core->spec.id != job->id) {
        world_fail(world, "slot: job %lld is job %lld in the core", (long long)job->id, (long long)core->spec.id);
        return;
    }
    if (!core) {
        if (job->phase != PHASE_JOB_PENDING)
            world_fail(world, "outside: job %lld is %s outside the core", (long long)job->id, phase_name(job->phase));
        else if (!gate_true(world, job))
            world_fail(world, "gate: job %lld waits at gate %d, which is open", (long long)job->id, (int)job->gate);
        return;
    }
    if (job->phase == PHASE_JOB_STARTING || job->phase == PHASE_JOB_COMPLETING)
        world_fail(world, "stuck: job %lld is %s, and %s in the core, with nothing under way", (long long)job->id,
                   phase_name(job->phase), job_state_name((enum job_state)core->state));
    else if (job->phase == PHASE_JOB_RUNNING && core->state != JOB_RUNNING)
        world_fail(world, "apart: job %lld is RUNNING, and %s in the core", (long long)job->id,
                   job_state_name((enum job_state)core->state));
    else if (job->phase == PHASE_JOB_PENDING && !job_waits((enum job_state)core->state) && core->state != JOB_SUSPENDED)
        world_fail(world, "apart: job %lld is PENDING, and %s in the core", (long long)job->id,
                   job_state_name((enum job_state)core->state));
    else if (job->phase == PHASE_JOB_PENDING && job_waits((enum job_state)core->state))
        check_idle(world, job);
}

static void check_quiet(struct world *world)
{
    const struct registry *registry = ctl_registry(world->ctl);

    for (size_t i = 0; i < registry->live_count; i++)
        check_job(world, registry->live[i]);
    check_tasks(world);
    check_ledger(world);
    if (ctl_core(world->ctl))
        core_audit(ctl_core(world->ctl));
}

/* Everybody comes back; true: somebody was away. */
static bool heal(struct world *world)
{
    bool any = false;

    for (size_t a = 0; a < world->agent_count; a++) {
        world->agents[a].refuses = false;
        if (world->agents[a].connected)
            continue;
        any = true;
        world_join(world, &world->agents[a]);
    }
    world_turn(world);
    return any;
}

/* Time goes on until nothing is due for an hour, or often enough; agents answer all the while. */
static void quiesce(struct world *world)
{
    for (int i = 0; i < END_WAKES && !world_failed(world); i++) {
        usec_t wake;

        world_settle(world);
        if (!world_failed(world) && heal(world)) /* one that was told to start anew */
            continue;
        wake = ctl_next_wake(world->ctl);
        if (world_failed(world) || wake > world->now + USEC_HOUR)
            return;
        world_wait(world, wake > world->now ? wake - world->now : 1);
    }
    world_settle(world);
}

static void cancel_all(struct world *world)
{
    const struct registry *registry = ctl_registry(world->ctl);

    for (size_t i = 0; i < registry->live_count; i++)
        world_offer(world, entry_cancel(registry->live[i]->id, false), -1);
    world_turn(world);
}

static void check_empty(struct world *world)
{
    const struct registry *registry = ctl_registry(world->ctl);
    const struct core *core = ctl_core(world->ctl);

    for (size_t i = 0; i < registry->live_count; i++) {
        const struct ctl_job *job = registry->live[i];

        world_fail(world, "wedged: job %lld is cancelled, and %s; %s in the core", (long long)job->id,
                   phase_name(job->phase),
                   job_in_core(job) ? job_state_name((enum job_state)core_job(core, job->slot)->state) : "not");
    }
    check_tasks(world);
    for (uint32_t gpu = 0; core && gpu < core_ledger(core)->topo.gpu_count; gpu++)
        if (core_ledger(core)->gpus[gpu].shares != SHARE_NONE || core_ledger(core)->gpus[gpu].used)
            world_fail(world, "GPU lost: number %u is taken, and no job is left", gpu);
    if (core && (core_running(core) || core_waiting(core) || core_mgpu_held(core) || core_mgpu_twice(core)))
        world_fail(world, "counters: %u run, %u wait, %lld held", core_running(core), core_waiting(core),
                   (long long)core_mgpu_held(core));
    if (core)
        core_audit(core);
}

void check_end(struct world *world)
{
    (void)heal(world);
    quiesce(world);
    if (!world_failed(world))
        check_quiet(world);
    if (!world_failed(world))
        cancel_all(world);
    quiesce(world);
    if (!world_failed(world))
        check_empty(world);
    if (!world_failed(world))
        world_replay_check(world);
}
