/* SPDX-License-Identifier: Apache-2.0 */
/* gpuless.c - jobs without GPUs: tasks that ask for CPUs and memory of the nodes, and for nothing else.
 *
 * No policy sees them: policies order and place what holds GPUs. Here they go by priority and submission, nobody past
 * another of its virtual cluster: first those inside the CPUs their virtual cluster is owed, for whose sake others that
 * are beyond theirs are stopped; then the rest, the virtual cluster with the fewest CPUs first; at last opportunistic
 * ones. While somebody waits for those to leave who were stopped for its sake, nobody starts who could be stopped for
 * it too: so of such jobs there are only ever fewer until it runs, and no two take turns in what it was given. All of
 * them together hold on each node at most what the administrator has set, so that GPUs are never kept idle
 * for want of CPUs that a job without any has taken beyond that. Nodes without GPUs are theirs altogether, unless he
 * says otherwise; a job that fits on one of them is put there.
 */
#include <assert.h>

#include "core/contract/plan.h"
#include "core/core_internal.h"
#include "core/ledger/host_resources.h"
#include "core/planning/preempt.h"

static struct host_room room_of(const struct jobspec *spec)
{
    return (struct host_room){ spec->mcpus, spec->host_mib };
}

static uint32_t fit(uint32_t most, uint32_t used, uint32_t each)
{
    if (each == 0 || most == 0)
        return UINT32_MAX;
    return most > used ? (most - used) / each : 0;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Whether the node has GPUs of a type that the tasks are to be beside, if they are. */
static bool beside(const struct node *node, const struct jobspec *spec)
{
    return spec->sku_mask == 0 || (node->gpus && spec->sku_mask >> node->sku & 1);
}

/* Tasks of that size for which the node has room; with `gone`, as if those that leave had left. */
static uint32_t tasks_on(const struct core *core, uint32_t n, const struct jobspec *spec, bool gone)
{
    const struct host *host = &core->ledger.hosts[n];
    const struct node *node = &core->ledger.topo.nodes[n];
    struct host_room used = host->used, held = host->held, each = room_of(spec);
    uint32_t count;

    if (!node->up || !node_allows(node, spec->mark, spec->kept) || !beside(node, spec) || host->tasks.mcpus == 0)
        return 0;
    if (!gone) {
        used = (struct host_room){ used.mcpus + host->leaving.mcpus, used.mib + host->leaving.mib };
        held = (struct host_room){ held.mcpus + host->parting.mcpus, held.mib + host->parting.mib };
    }
    count = least(fit(host->most.mcpus, used.mcpus, each.mcpus), fit(host->most.mib, used.mib, each.mib));
    count = least(count, fit(host->tasks.mcpus, held.mcpus, each.mcpus));
    count = least(count, fit(host->tasks.mib, held.mib, each.mib));
    return spec->per_node ? least(count, spec->per_node) : count;
}

static bool fits(const struct core *core, const struct jobspec *spec, bool gone)
{
    uint32_t left = (uint32_t)spec->tasks;

    for (uint32_t n = 0; n < core->ledger.topo.host_count && left; n++)
        left -= least(left, tasks_on(core, n, spec, gone));
    return left == 0;
}

bool tasks_possible(const struct core *core, const struct jobspec *spec)
{
    uint32_t left = (uint32_t)spec->tasks;
    struct host_room each = room_of(spec);

    for (uint32_t n = 0; core->ledger.hosts && n < core->ledger.topo.host_count && left; n++) {
        const struct host *host = &core->ledger.hosts[n];

        if (host->tasks.mcpus == 0 ||
            !node_allows(&core->ledger.topo.nodes[n], spec->mark, core->ledger.topo.nodes[n].kept) ||
            !beside(&core->ledger.topo.nodes[n], spec))
            continue;
        left -= least(left, least(least(fit(host->tasks.mcpus, 0, each.mcpus), fit(host->tasks.mib, 0, each.mib)),
                                  spec->per_node ? spec->per_node : UINT32_MAX));
    }
    return left == 0;
}

/* ---- holds ---- */

static void count_hold(struct core *core, const struct host_hold *hold, int sign, bool leaving)
{
    const struct jobspec *spec = &core->jobs[hold->job].spec;
    struct host *host = &core->ledger.hosts[hold->node];
    uint32_t mcpus = (uint32_t)sign * hold->tasks * spec->mcpus, mib = (uint32_t)sign * hold->tasks * spec->host_mib;
    struct host_room *all = leaving ? &host->leaving : &host->used, *own = leaving ? &host->parting : &host->held;

    all->mcpus += mcpus;
    all->mib += mib;
    own->mcpus += mcpus;
    own->mib += mib;
}

void tasks_hold(struct core *core, uint32_t index, uint32_t node, uint32_t tasks)
{
    uint32_t i = core->hold_free;
    struct host *host = &core->ledger.hosts[node];

    assert(i != HOLD_NONE);
    core->hold_free = core->holds[i].next_of_job;
    core->holds[i] = (struct host_hold){ .job = index,
                                         .node = node,
                                         .tasks = tasks,
                                         .next_of_job = core->jobs[index].holds,
                                         .next_of_node = host->first,
                                         .prev_of_node = HOLD_NONE };
    if (host->first != HOLD_NONE)
        core->holds[host->first].prev_of_node = i;
    host->first = i;
    core->jobs[index].holds = i;
    core->hold_count++;
    count_hold(core, &core->holds[i], 1, false);
}

static void hold_drop(struct core *core, uint32_t i)
{
    struct host_hold *hold = &core->holds[i];

    count_hold(core, hold, -1, hold->leaving);
    if (hold->prev_of_node != HOLD_NONE)
        core->holds[hold->prev_of_node].next_of_node = hold->next_of_node;
    else
        core->ledger.hosts[hold->node].first = hold->next_of_node;
    if (hold->next_of_node != HOLD_NONE)
        core->holds[hold->next_of_node].prev_of_node = hold->prev_of_node;
    hold->next_of_job = core->hold_free;
    core->hold_free = i;
    core->hold_count--;
}

/* Its tasks no longer count, or count again. */
void tasks_leave(struct core *core, uint32_t index, bool leaving)
{
    for (uint32_t i = core->jobs[index].holds; i != HOLD_NONE; i = core->holds[i].next_of_job) {
        count_hold(core, &core->holds[i], -1, core->holds[i].leaving);
        core->holds[i].leaving = leaving;
        count_hold(core, &core->holds[i], 1, leaving);
    }
    core->ledger.releases += leaving;
    core->tasks_dirty = true;
}

/* They are gone. Fills core->ready with jobs that waited for their CPUs; returns how many. */
uint32_t tasks_release(struct core *core, uint32_t index)
{
    uint32_t count = 0;

    for (uint32_t i = core->jobs[index].holds, next; i != HOLD_NONE; i = next) {
        uint32_t node = core->holds[i].node;

        next = core->holds[i].next_of_job;
        hold_drop(core, i);
        count += ledger_unblock(&core->ledger, core->jobs, node, core->ready + count, core->job_capacity - count);
    }
    core->jobs[index].holds = HOLD_NONE;
    core->ledger.releases++;
    core->tasks_dirty = true;
    return count;
}

/* Of the jobs without GPUs on a node the one with the lowest number; JOB_NONE. */
uint32_t tasks_first(const struct core *core, uint32_t node)
{
    uint32_t best = JOB_NONE;

    for (uint32_t h = core->ledger.hosts ? core->ledger.hosts[node].first : HOLD_NONE; h != HOLD_NONE;
         h = core->holds[h].next_of_node)
        if (best == JOB_NONE || core->jobs[core->holds[h].job].spec.id < core->jobs[best].spec.id)
            best = core->holds[h].job;
    return best;
}

/* Turns its list of holds round. */
void tasks_turn(struct core *core, uint32_t index)
{
    uint32_t list = HOLD_NONE;

    for (uint32_t h = core->jobs[index].holds, next; h != HOLD_NONE; h = next) {
        next = core->holds[h].next_of_job;
        core->holds[h].next_of_job = list;
        list = h;
    }
    core->jobs[index].holds = list;
}

/* ---- who waits and who runs ---- */

/* Its place among those that wait, or by start among those that run. */
static struct rank rank_of(const struct job *job, bool waits)
{
    int64_t guest = job->klass == CLASS_OPPORTUNISTIC;

    if (!waits)
        return (struct rank){ .time = job->last_start, .id = job->spec.id };
    return (struct rank){ (guest << 32) - job->spec.priority, job->spec.submit, job->spec.id };
}

/* Into the tree that finds the one before it. */
static uint32_t tree_enter(struct core *core, uint32_t *root, uint32_t index, bool waits)
{
    struct rank rank = rank_of(&core->jobs[index], waits);
    uint32_t before = tree_before(core->tree, *root, &rank);

    core->tree[index] = (struct tree_node){ .rank = rank };
    tree_insert(core->tree, root, index);
    return before == TREE_NONE ? JOB_NONE : before;
}

void tasks_add(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    struct vc *vc = &core->vcs[job->vc];
    uint32_t at = tree_enter(core, &vc->task_tree, index, true);

    job->user_prev = at;
    job->user_next = at == JOB_NONE ? vc->task_first : core->jobs[at].user_next;
    *(at != JOB_NONE ? &core->jobs[at].user_next : &vc->task_first) = index;
    *(job->user_next != JOB_NONE ? &core->jobs[job->user_next].user_prev : &vc->task_last) = index;
    core->tasks_dirty = true;
}

void tasks_remove(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    struct vc *vc = &core->vcs[job->vc];

    tree_remove(core->tree, &vc->task_tree, index);
    *(job->user_prev != JOB_NONE ? &core->jobs[job->user_prev].user_next : &vc->task_first) = job->user_next;
    *(job->user_next != JOB_NONE ? &core->jobs[job->user_next].user_prev : &vc->task_last) = job->user_prev;
    core->tasks_dirty = true;
}

static int64_t demand(const struct job *job)
{
    return (int64_t)job->spec.tasks * job->spec.mcpus;
}

static bool started_after(const struct job *a, const struct job *b)
{
    return a->last_start != b->last_start ? a->last_start > b->last_start : a->spec.id > b->spec.id;
}

void tasks_attach(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    struct vc *vc = &core->vcs[job->vc];
    uint32_t at = tree_enter(core, &vc->task_run_tree, index, false);

    job->prev = at;
    job->next = at == JOB_NONE ? vc->task_run_first : core->jobs[at].next;
    *(at != JOB_NONE ? &core->jobs[at].next : &vc->task_run_first) = index;
    *(job->next != JOB_NONE ? &core->jobs[job->next].prev : &vc->task_run_last) = index;
    if (job->klass != CLASS_OPPORTUNISTIC)
        vc->task_used += demand(job);
    core->running++;
    queue_kept_timer(core, index);
}

void tasks_detach(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    struct vc *vc = &core->vcs[job->vc];

    heap_clear(&core->timers, timer_of(index, TIMER_KEY));
    tree_remove(core->tree, &vc->task_run_tree, index);
    *(job->prev != JOB_NONE ? &core->jobs[job->prev].next : &vc->task_run_first) = job->next;
    *(job->next != JOB_NONE ? &core->jobs[job->next].prev : &vc->task_run_last) = job->prev;
    if (job->klass != CLASS_OPPORTUNISTIC)
        vc->task_used -= demand(job);
    core->running--;
}

/* ---- the pass ---- */

static bool has_tasks(const struct core *core, uint32_t index, uint32_t node)
{
    for (uint32_t h = core->jobs[index].holds; h != HOLD_NONE; h = core->holds[h].next_of_job)
        if (core->holds[h].node == node)
            return true;
    return false;
}

static bool bare(const struct core *core, uint32_t node)
{
    return node >= core->ledger.topo.node_count;
}

/* All on the node that has just room for them, rather one without GPUs; else as many as go on each, most room first. */
static void place(struct core *core, uint32_t index)
{
    const struct jobspec *spec = &core->jobs[index].spec;
    uint32_t left = (uint32_t)spec->tasks, best = UINT32_MAX, room = UINT32_MAX;

    for (uint32_t n = 0; n < core->ledger.topo.host_count; n++) {
        uint32_t here = tasks_on(core, n, spec, false);

        if (here >= left && (best == UINT32_MAX || bare(core, n) > bare(core, best) ||
                             (bare(core, n) == bare(core, best) && here < room))) {
            best = n;
            room = here;
        }
    }
    if (best != UINT32_MAX) {
        tasks_hold(core, index, best, left);
        return;
    }
    while (left) {
        room = 0;
        for (uint32_t n = 0; n < core->ledger.topo.host_count; n++) {
            uint32_t here = has_tasks(core, index, n) ? 0 : tasks_on(core, n, spec, false);

            if (here > room) {
                best = n;
                room = here;
            }
        }
        assert(room > 0); /* it was asked before whether they fit */
        room = least(room, left);
        tasks_hold(core, index, best, room);
        left -= room;
    }
}

static bool start(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];

    if (core->hold_capacity - core->hold_count < (uint32_t)job->spec.tasks || !fits(core, &job->spec, false))
        return false;
    core_dequeue(core, index);
    core_move(core, index, JOB_CLAIMING);
    job->last_start = core->now;
    place(core, index);
    tasks_attach(core, index);
    core_touch(core, index);
    return true;
}

static bool may_stop(const struct core *core, const struct job *job)
{
    return core_may_preempt(core, job, PREEMPT_FOR_STOP) && (job->state == JOB_RUNNING || job->state == JOB_STARTING) &&
           !job->planned;
}

/* The newest of those who are owed nothing of what they hold: opportunistic ones, then those beyond. */
static uint32_t next_victim(const struct core *core, uint32_t for_vc, bool guests)
{
    uint32_t best = JOB_NONE;

    for (uint32_t v = 0; v < core->vc_count; v++) {
        const struct vc *vc = &core->vcs[v];

        if (!guests && v == for_vc)
            continue;
        for (uint32_t i = vc->task_run_last; i != JOB_NONE; i = core->jobs[i].prev) {
            const struct job *job = &core->jobs[i];

            if (!may_stop(core, job) || (job->klass == CLASS_OPPORTUNISTIC) != guests ||
                (!guests && vc->task_used - demand(job) < vc->task_quota))
                continue;
            if (best == JOB_NONE || started_after(job, &core->jobs[best]))
                best = i;
            break;
        }
    }
    return best;
}

/* Stops whom it must for the job to fit once they have left; nobody, if that is not enough. */
static bool reclaim(struct core *core, uint32_t index, bool owed)
{
    const struct jobspec *spec = &core->jobs[index].spec;
    struct plan plan = { .core = core, .vc = core->jobs[index].vc };
    uint32_t count = 0, victim;
    bool enough = fits(core, spec, true);

    for (int guests = 1; guests >= !owed; guests--)
        while (!enough && (victim = next_victim(core, plan.vc, guests)) != JOB_NONE) {
            (void)plan_stop_any(&plan, victim, STOP_REQUEUE);
            core->victims[count++] = victim;
            enough = fits(core, spec, true);
        }
    for (uint32_t i = 0; i < count; i++) {
        if (plan_keep_any(&plan, core->victims[i]) < 0)
            continue;
        if (enough && !fits(core, spec, true))
            (void)plan_stop_any(&plan, core->victims[i], STOP_REQUEUE);
    }
    return enough;
}

/* Whether somebody waits for those to leave who were stopped for its sake. */
static bool claimed(const struct core *core)
{
    for (uint32_t v = 0; v < core->vc_count; v++)
        if (core->vcs[v].task_claims != JOB_NONE)
            return true;
    return false;
}

/* Whether the virtual cluster may have it beyond what it is owed. */
static bool beyond(const struct vc *vc)
{
    return vc->borrow_max != 0 || vc->task_quota == 0;
}

/* Whether it runs inside what its virtual cluster is owed alone: nobody who is owed the rest could have it back in
 * time. Where no virtual cluster is owed CPUs, none has to. */
static bool owed_only(const struct core *core, const struct vc *vc, const struct jobspec *spec)
{
    if (jobspec_keeps(spec) <= core_lends_for(core, vc))
        return false;
    for (uint32_t v = 0; v < core->vc_count; v++)
        if (core->vcs[v].task_quota > 0)
            return true;
    return false;
}

bool tasks_owed(const struct core *core, const struct vc *vc, const struct jobspec *spec)
{
    return !owed_only(core, vc, spec) || (int64_t)spec->mcpus * spec->tasks <= vc->task_quota;
}

static void pass_owed(struct core *core, struct vc *vc)
{
    for (uint32_t i = vc->task_first, next; i != JOB_NONE; i = next) {
        const struct job *job = &core->jobs[i];

        next = job->user_next;
        if (!licenses_allow(core, job))
            continue;
        if (job->klass == CLASS_OPPORTUNISTIC || vc->task_used + demand(job) > vc->task_quota)
            return;
        if (!start(core, i)) {
            vc->task_claims = reclaim(core, i, true) ? i : JOB_NONE;
            return;
        }
    }
}

/* The first that could be next: whoever lacks licences holds up nobody. */
static uint32_t first_of(const struct core *core, const struct vc *vc, bool guests)
{
    uint32_t i = vc->task_first;

    while (i != JOB_NONE &&
           ((guests && core->jobs[i].klass != CLASS_OPPORTUNISTIC) || !licenses_allow(core, &core->jobs[i])))
        i = core->jobs[i].user_next;
    return i;
}

/* The first job of each virtual cluster in turn, the one with the fewest CPUs first. */
static void pass_rest(struct core *core, bool guests)
{
    for (uint32_t v = 0; v < core->vc_count; v++)
        core->vcs[v].task_done = core->vcs[v].task_first == JOB_NONE || (!guests && !beyond(&core->vcs[v]));
    for (;;) {
        struct vc *best = NULL;
        uint32_t first;

        for (uint32_t v = 0; v < core->vc_count; v++) {
            struct vc *vc = &core->vcs[v];

            if (!vc->task_done && vc->task_claims == JOB_NONE && (!best || vc->task_used < best->task_used))
                best = vc;
        }
        if (!best)
            return;
        first = first_of(core, best, guests);
        if (first == JOB_NONE || (core->jobs[first].klass == CLASS_OPPORTUNISTIC) != guests ||
            owed_only(core, best, &core->jobs[first].spec)) {
            best->task_done = true;
        } else if (!start(core, first)) {
            best->task_claims = !guests && reclaim(core, first, false) ? first : JOB_NONE;
            best->task_done = true;
        } else {
            best->task_done = best->task_first == JOB_NONE;
        }
    }
}

void tasks_reason(struct core *core, struct job *job, enum reason reason)
{
    if (job->reason == reason)
        return;
    job->waited[job->reason] += core->now - job->state_since;
    job->state_since = core->now;
    job->reason = (uint8_t)reason;
}

/* Whoever still waits is told why; those of one size are alike. */
static void explain(struct core *core, const struct vc *vc)
{
    const struct jobspec *last = NULL;
    bool fit_last = false;

    for (uint32_t i = vc->task_first; i != JOB_NONE; i = core->jobs[i].user_next) {
        struct job *job = &core->jobs[i];
        const struct jobspec *spec = &job->spec;
        bool guest = job->klass == CLASS_OPPORTUNISTIC;

        if (!last || last->mcpus != spec->mcpus || last->host_mib != spec->host_mib || last->tasks != spec->tasks ||
            last->sku_mask != spec->sku_mask)
            fit_last = fits(core, spec, false);
        last = spec;
        if (!licenses_allow(core, job))
            tasks_reason(core, job, REASON_LICENSE_LIMIT);
        else if (i == vc->task_claims)
            tasks_reason(core, job, REASON_PREEMPTING);
        else if (!guest && (!beyond(vc) || owed_only(core, vc, spec)) && vc->task_used + demand(job) > vc->task_quota)
            tasks_reason(core, job, REASON_VC_LIMIT);
        else
            tasks_reason(core, job, fit_last ? REASON_PRIORITY : REASON_CPU_MEM);
    }
}

void tasks_pass(struct core *core)
{
    if (!core->tasks_dirty)
        return;
    core->tasks_dirty = false;
    for (uint32_t i = 0; i < core->vc_count; i++) {
        core->vcs[core->vc_order[i]].task_claims = JOB_NONE;
        pass_owed(core, &core->vcs[core->vc_order[i]]);
    }
    if (!claimed(core))
        pass_rest(core, false);
    if (!claimed(core))
        pass_rest(core, true);
    for (uint32_t v = 0; v < core->vc_count; v++)
        explain(core, &core->vcs[v]);
    core->tasks_dirty = false; /* what the pass itself did asks for no other */
}

void tasks_build(struct core *core, bool *failed)
{
    if (!core->ledger.hosts)
        return;
    core->hold_capacity = core->job_capacity + 4 * core->ledger.topo.host_count + TASKS_MAX;
    core->holds = core_block(core, failed, core->hold_capacity, sizeof(*core->holds));
    for (uint32_t i = 0; i < core->hold_capacity && !*failed; i++)
        core->holds[i].next_of_job = i + 1 < core->hold_capacity ? i + 1 : HOLD_NONE;
}

void tasks_recount(struct core *core)
{
    for (uint32_t i = 0; i < core->job_top; i++)
        for (uint32_t h = core->jobs[i].holds; core->jobs[i].state != JOB_FREE && h != HOLD_NONE;
             h = core->holds[h].next_of_job)
            count_hold(core, &core->holds[h], 1, core->holds[h].leaving);
}
