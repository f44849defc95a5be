/* SPDX-License-Identifier: Apache-2.0 */
/* audit.c - see audit.h: what is kept twice is compared, what is kept as a sum is counted again.
 *
 * The states of jobs in the core and of attempts are compared by the correspondence in attempt_machine.c. What the core
 * keeps for itself is audited by the core (snapshot/audit.c).
 */
#include "ctl/state/audit.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "core/snapshot/audit.h"
#include "ctl/state/state_internal.h"

__attribute__((format(printf, 2, 3))) static void differs(struct state_audit *audit, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (audit->count < AUDIT_LINES_MAX)
        (void)vsnprintf(audit->lines[audit->count], AUDIT_LINE_BYTES, format, args);
    va_end(args);
    audit->count++;
}

static long long number(const struct ctl_job *job)
{
    return (long long)job->id;
}

/* Its slot in the core is its own, or it is kept out by something. */
static void audit_link(const struct ctl *ctl, const struct ctl_job *job, struct state_audit *audit)
{
    const struct job *core;

    if (job->link != LINK_OUTSIDE && job->link != LINK_INSIDE)
        differs(audit, "job %lld: the instant is over and it is still %s", number(job),
                link_name((enum core_link)job->link));
    if (!job_in_core(job)) {
        if (job->gate == GATE_NONE)
            differs(audit, "job %lld: nothing keeps it out of the core, and it is not there", number(job));
        return;
    }
    if (job->gate != GATE_NONE)
        differs(audit, "job %lld: it is in the core, and something keeps it out", number(job));
    if (!ctl->core || job->slot >= core_job_top(ctl->core)) {
        differs(audit, "job %lld: the core has no slot %u", number(job), job->slot);
        return;
    }
    core = core_job(ctl->core, job->slot);
    if (ctl->by_slot[job->slot] != job || core->gen != job->gen || core->state == JOB_FREE || core->spec.id != job->id)
        differs(audit, "job %lld: slot %u of the core is not its own", number(job), job->slot);
}

/* States of people that go with a state of the attempt. */
static uint32_t phases_of(enum attempt_state state)
{
    switch (state) {
    case ATTEMPT_NONE:
    case ATTEMPT_GATED:
    case ATTEMPT_LEFT:
    case ATTEMPT_OVER:
        return 1u << PHASE_JOB_PENDING;
    case ATTEMPT_PLACED:
    case ATTEMPT_LAUNCHED:
    case ATTEMPT_GOING:
        return 1u << PHASE_JOB_STARTING;
    case ATTEMPT_RUNNING:
    case ATTEMPT_SUSPENDING:
    case ATTEMPT_ORPHANED:
        return 1u << PHASE_JOB_RUNNING;
    case ATTEMPT_PAUSED:
    case ATTEMPT_SUSPENDED:
    case ATTEMPT_RESUMING:
        return 1u << PHASE_JOB_SUSPENDED;
    case ATTEMPT_KEPT:
        return 1u << PHASE_JOB_STARTING | 1u << PHASE_JOB_RUNNING | 1u << PHASE_JOB_SUSPENDED;
    case ATTEMPT_ENDING:
    case ATTEMPT_STOPPING:
    case ATTEMPT_MOVING:
        return 1u << PHASE_JOB_COMPLETING;
    case ATTEMPT_STATE_COUNT:
        break;
    }
    return 0;
}

static void audit_attempt(const struct ctl *ctl, const struct ctl_job *job, uint32_t index, struct state_audit *audit)
{
    const struct ctl_attempt *attempt = &job->attempts[index];
    const char *state;
    bool live, gone;

    assert(job->attempts && index < job->attempt_count);
    state = attempt_state_name((enum attempt_state)attempt->state);
    live = attempt_live(attempt);
    gone = attempt_gone(attempt);
    if (attempt->number != index || attempt->state == ATTEMPT_NONE)
        differs(audit, "job %lld: attempt %u is number %u and %s", number(job), index, attempt->number, state);
    if (live && index + 1 < job->attempt_count)
        differs(audit, "job %lld: attempt %u is %s, and another has followed it", number(job), index, state);
    if (live == (attempt->ended != 0))
        differs(audit, "job %lld: attempt %u is %s and has %s end", number(job), index, state, live ? "an" : "no");
    if ((live || attempt->state == ATTEMPT_LEFT) == gone)
        differs(audit, "job %lld: attempt %u is %s and %s task of it is left", number(job), index, state,
                gone ? "no" : "a");
    if ((attempt->state == ATTEMPT_KEPT && !attempt->kept_until) ||
        (attempt->state == ATTEMPT_ENDING && !attempt->gang_ended) ||
        (attempt_leaving(attempt) && attempt->stop_cause == STOP_CAUSE_NONE) ||
        (attempt->state == ATTEMPT_GOING && !attempt->went))
        differs(audit, "job %lld: attempt %u is %s, and it is not told why or until when", number(job), index, state);
    for (uint32_t t = 0; t < attempt->task_count; t++) {
        const struct ctl_task *task = &attempt->tasks[t];

        if (task->node >= ctl->registry.node_count || task->state >= TASK_STATE_COUNT ||
            task->cause >= TASK_CAUSE_COUNT)
            differs(audit, "job %lld: rank %u of attempt %u is nowhere, or in no state", number(job), t, index);
        else if (attempt->state == ATTEMPT_PLACED && task->state != TASK_PREPARING)
            differs(audit, "job %lld: rank %u was not launched and is %s", number(job), t,
                    task_state_name((enum task_state)task->state));
        else if (ctl->registry.nodes[task->node].lost && !task_gone(task))
            differs(audit, "job %lld: rank %u of attempt %u is on a node that is lost", number(job), t, index);
    }
}

/* Whether the attempt is on the GPU. */
static bool attempt_on(const struct ctl *ctl, const struct ctl_attempt *attempt, uint32_t gpu)
{
    const struct ledger *ledger = ctl_ledger(ctl);
    uint32_t node = ledger->gpus[gpu].node;

    for (uint32_t t = 0; t < attempt->task_count; t++)
        for (uint32_t g = 0; g < attempt->tasks[t].gpu_count; g++)
            if (ctl->registry.nodes[attempt->tasks[t].node].core_node == node &&
                attempt->tasks[t].gpus[g] == gpu - ledger->topo.nodes[node].first_gpu)
                return true;
    return false;
}

/* Every GPU that the core calls used by the job is one that its attempt was placed on, and the other way round. One
 * that moves is where it was; one that is suspended may be given another place at any time, and goes on leaving where
 * it was told to leave before. */
static void audit_place(const struct ctl *ctl, const struct ctl_job *job, struct state_audit *audit)
{
    const struct job *core = core_job(ctl->core, job->slot);
    const struct ctl_attempt *attempt = attempt_last(job);
    const struct ledger *ledger = ctl_ledger(ctl);
    uint32_t has = 0, given = 0;

    if (!attempt_live(attempt) || attempt->state == ATTEMPT_MOVING ||
        (attempt->state == ATTEMPT_STOPPING && core->state == JOB_STARTING) ||
        (!job_holds((enum job_state)core->state) && core->state != JOB_STOPPING) || core->state == JOB_CLAIMING)
        return;
    for (uint32_t t = 0; t < attempt->task_count; t++)
        has += attempt->tasks[t].gpu_count;
    for (uint32_t s = core->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job) {
        const struct share *share = &ledger->shares[s];

        if (job_defers(core) ? share->part == PART_NEW : share->leaving && core->state != JOB_STOPPING)
            continue;
        given++;
        if (!attempt_on(ctl, attempt, share->gpu))
            differs(audit, "job %lld: the core has it on GPU %u, and its attempt %u is not there", number(job),
                    share->gpu, attempt->number);
    }
    if (has != given && core->shares != SHARE_NONE)
        differs(audit, "job %lld: the core has it on %u GPUs, and its attempt %u is on %u", number(job), given,
                attempt->number, has);
}

static void audit_job(const struct ctl *ctl, const struct ctl_job *job, struct state_audit *audit)
{
    const struct ctl_attempt *attempt = attempt_last(job);
    enum attempt_state state = attempt ? (enum attempt_state)attempt->state : ATTEMPT_NONE;
    enum job_state core = JOB_FREE;

    if (phase_over(job->phase) || job->id >= ctl->registry.next_id || job->index >= ctl->config.jobs_max ||
        ctl->by_index[job->index] != job)
        differs(audit, "job %lld: it is over, or its number %u is not its own", number(job), job->index);
    if (state >= ATTEMPT_STATE_COUNT || job->link >= LINK_COUNT) {
        differs(audit, "job %lld: its attempt, or what it has to do with the core, is in no state", number(job));
        return;
    }
    audit_link(ctl, job, audit);
    for (uint32_t a = 0; a < job->attempt_count; a++)
        audit_attempt(ctl, job, a, audit);
    if (job_in_core(job) && ctl->core && job->slot < core_job_top(ctl->core)) {
        core = (enum job_state)core_job(ctl->core, job->slot)->state;
        audit_place(ctl, job, audit);
    }
    if (!(attempt_core_states(state) >> core & 1))
        differs(audit, "job %lld: its attempt is %s, and the core has it %s", number(job), attempt_state_name(state),
                core == JOB_FREE ? "not at all" : job_state_name(core));
    if (!(phases_of(state) >> job->phase & 1))
        differs(audit, "job %lld: its attempt is %s, and it is shown as %s", number(job), attempt_state_name(state),
                phase_name(job->phase));
    if (state == ATTEMPT_PLACED && attempt_place_empty(ctl, job))
        differs(audit, "job %lld: its place is empty, and it was not launched", number(job));
    if (heap_at(&ctl->timers, job->index) > job_timer(ctl, job))
        differs(audit, "job %lld: nothing wakes it when it is due", number(job));
}

/* Slots and numbers: each belongs to one job that is not over, or is free. */
static void audit_slots(const struct ctl *ctl, struct state_audit *audit)
{
    uint32_t top = ctl->core ? core_job_top(ctl->core) : 0, inside = 0, slots = 0, numbers = 0;

    for (size_t i = 0; i < ctl->registry.live_count; i++) {
        inside += job_in_core(ctl->registry.live[i]);
        if (i > 0 && ctl->registry.live[i - 1]->id >= ctl->registry.live[i]->id)
            differs(audit, "job %lld: it is in the list twice, or not in its place", number(ctl->registry.live[i]));
    }
    for (uint32_t s = 0; s < ctl->config.jobs_max; s++) {
        slots += ctl->by_slot[s] != NULL;
        numbers += ctl->by_index[s] != NULL;
        if (s < top && (core_job(ctl->core, s)->state == JOB_FREE) != !ctl->by_slot[s])
            differs(audit, "slot %u of the core: %s", s,
                    ctl->by_slot[s] ? "it is free, and a job is said to be there"
                                    : "nobody knows the job that is there");
    }
    if (slots != inside)
        differs(audit, "%u jobs are in the core, and %u slots are known", inside, slots);
    if (numbers != ctl->registry.live_count || numbers + ctl->free_count != ctl->config.jobs_max)
        differs(audit, "%zu jobs are not over, %u have a number and %u numbers are free, of %u",
                ctl->registry.live_count, numbers, ctl->free_count, ctl->config.jobs_max);
    for (uint32_t i = 0; i < ctl->free_count; i++)
        if (ctl->free_index[i] >= ctl->config.jobs_max || ctl->by_index[ctl->free_index[i]])
            differs(audit, "number %u is free, and a job has it", ctl->free_index[i]);
}

static int by_array(const void *x, const void *y)
{
    const struct ctl_job *const *a = x, *const *b = y;
    uintptr_t one = (uintptr_t)(*a)->source->array, other = (uintptr_t)(*b)->source->array;

    return one < other ? -1 : one > other;
}

/* How many elements of each array are in the core: those that run a few at a time live by it. */
static void audit_arrays(const struct ctl *ctl, struct state_audit *audit)
{
    size_t count = 0;
    const struct ctl_job **jobs = mem_zalloc(ctl->registry.live_count + 1, sizeof(*jobs));

    for (size_t i = 0; jobs && i < ctl->registry.live_count; i++) {
        const struct ctl_job *job = ctl->registry.live[i];

        if ((job->array_id != 0) != (job->source->array != NULL))
            differs(audit, "job %lld: it is of an array, or of none, and is not counted so", number(job));
        if (job->source->array)
            jobs[count++] = job;
    }
    if (jobs)
        qsort(jobs, count, sizeof(*jobs), by_array);
    for (size_t i = 0; jobs && i < count;) {
        const struct ctl_array *array = jobs[i]->source->array;
        const struct ctl_job *first = jobs[i];
        uint32_t inside = 0;

        for (; i < count && jobs[i]->source->array == array; i++) {
            inside += job_in_core(jobs[i]);
            if (jobs[i]->array_id != first->array_id)
                differs(audit, "job %lld: it is counted with another array", number(jobs[i]));
        }
        if (inside != array->inside)
            differs(audit, "array %lld: %u of it are in the core, and %u are counted", (long long)first->array_id,
                    inside, array->inside);
    }
    mem_free(jobs);
}

static void audit_nodes(const struct ctl *ctl, struct state_audit *audit)
{
    uint32_t deadlines = 0, reboots = 0, hosts = ctl->core ? ctl_ledger(ctl)->topo.host_count : 0;

    for (size_t n = 0; n < ctl->registry.node_count; n++) {
        const struct ctl_node *node = &ctl->registry.nodes[n];
        const char *name = names_get(&ctl->registry.node_names, node->name);
        bool up = node->joined && !node->silent && !node->lost && !node->drained;

        deadlines += node->drain_deadline != 0;
        deadlines += node->rest_until != 0;
        reboots += node->reboot == REBOOT_WANTED;
        if (node->core_node == UINT32_MAX)
            continue;
        if (node->core_node >= hosts)
            differs(audit, "node %s: the core has no node %u", name, node->core_node);
        else if (ctl_ledger(ctl)->topo.nodes[node->core_node].up != up)
            differs(audit, "node %s: it is %s, and the core has it %s", name, up ? "up" : "down", up ? "down" : "up");
    }
    if (deadlines != ctl->deadlines || reboots != ctl->reboots)
        differs(audit, "%u deadlines of nodes and %u reboots are due, and %u and %u are counted", deadlines, reboots,
                ctl->deadlines, ctl->reboots);
}

static void audit_counts(const struct ctl *ctl, struct state_audit *audit)
{
    const struct registry *registry = &ctl->registry;
    uint64_t ended = 0;

    for (int p = 0; p < PHASE_JOB_COUNT; p++)
        ended += registry->ended[p];
    if (ended + registry->live_count != registry->submitted)
        differs(audit, "%llu jobs were submitted; %llu have ended and %zu have not",
                (unsigned long long)registry->submitted, (unsigned long long)ended, registry->live_count);
    if (registry->live_gaps)
        differs(audit, "the batch is over, and the list of jobs has %zu gaps", registry->live_gaps);
    for (size_t i = 0; i < registry->finished_capacity; i++) {
        const struct ctl_job *job = registry->finished[i];

        if (!job)
            continue;
        if (!phase_over(job->phase) || job_in_core(job))
            differs(audit, "job %lld: it is among those that are over, and is not", number(job));
        for (uint32_t a = 0; a < job->attempt_count; a++)
            if (attempt_live(&job->attempts[a]))
                differs(audit, "job %lld: it is over, and its attempt %u is not", number(job), a);
    }
}

/* What users have is kept as jobs come and go. */
static void audit_users(const struct ctl *ctl, struct state_audit *audit)
{
    const struct registry *registry = &ctl->registry;
    struct ctl_user *sums = mem_zalloc(registry->user_capacity + 1, sizeof(*sums));

    for (size_t i = 0; sums && i < registry->live_count; i++) {
        const struct ctl_job *job = registry->live[i];

        sums[job->user].live++;
        sums[job->user].bytes += job->bytes;
        if (job_in_core(job))
            sums[job->user].held += (int64_t)jobspec_gpus(&job->wants) * job->wants.share;
    }
    for (size_t u = 0; sums && u < registry->user_capacity; u++)
        if (sums[u].held != registry->user[u].held || sums[u].live != registry->user[u].live ||
            sums[u].bytes != registry->user[u].bytes)
            differs(audit, "user %s: %u jobs with %lld are counted, and there are %u with %lld",
                    names_get(&registry->users, (uint32_t)u), registry->user[u].live, (long long)registry->user[u].held,
                    sums[u].live, (long long)sums[u].held);
    mem_free(sums);
}

static void audit_core(const struct ctl *ctl, struct state_audit *audit)
{
    struct audit core = { 0 };

    if (!ctl->core)
        return;
    audit_run(ctl->core, &core);
    if (core.broken)
        differs(audit, "the core: this does not hold: %s", core.broken);
}

bool state_audit(const struct ctl *ctl, struct state_audit *audit)
{
    const struct registry *registry = &ctl->registry;
    size_t low = 0, high = registry->live_count, done = 0;

    while (low < high) { /* the first job after `from` */
        size_t middle = low + (high - low) / 2;

        if (registry->live[middle]->id <= audit->from)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < registry->live_count && (!audit->jobs_max || done < audit->jobs_max); low++, done++) {
        audit_job(ctl, registry->live[low], audit);
        audit->from = registry->live[low]->id;
    }
    audit->jobs += done;
    if (low < registry->live_count)
        return false;
    audit->from = 0;
    audit_slots(ctl, audit);
    audit_arrays(ctl, audit);
    audit_nodes(ctl, audit);
    audit_counts(ctl, audit);
    audit_users(ctl, audit);
    audit_core(ctl, audit);
    return true;
}
