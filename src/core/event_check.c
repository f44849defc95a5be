/* SPDX-License-Identifier: Apache-2.0 */
/* event_check.c - the gate: what contradicts the state, breaks a limit or can never run is refused here, in words. */
#include <assert.h>
#include <errno.h>

#include "core/core_internal.h"
#include "core/planning/gang_parts.h"
#include "core/planning/preempt.h"

static uint32_t largest_pool(const struct core *core, uint32_t mask)
{
    const struct topo *topo = &core->ledger.topo;
    uint32_t most = 0;

    for (uint32_t s = 0; s < topo->sku_count; s++)
        if (mask >> s & 1 && topo->sku_gpus[s] > most)
            most = topo->sku_gpus[s];
    return most;
}

/* What keeps it from being preempted. Opportunistic jobs are the first to go, and go at once. */
static int terms_check(const struct jobspec *spec, struct error *err)
{
    if (spec->preempt >= PREEMPT_MODES)
        return error_set(err, -EINVAL, "job %lld: unknown way to preempt it", (long long)spec->id);
    if (spec->min_runtime < 0 || spec->min_runtime > MIN_RUNTIME_MAX)
        return error_set(err, -EINVAL, "job %lld: min_runtime: expected 0 to 36500 days", (long long)spec->id);
    if (spec->klass == CLASS_OPPORTUNISTIC && jobspec_keeps(spec))
        return error_set(err, -EINVAL,
                         "job %lld: an opportunistic job is preempted at once; it cannot have %s [NotAllowed]",
                         (long long)spec->id, spec->preempt == PREEMPT_NEVER ? "preempt: never" : "min_runtime");
    return 0;
}

/* A job without GPUs: nothing else of it counts. */
static int tasks_check(const struct jobspec *spec, struct error *err)
{
    if (spec->tasks < 1 || spec->tasks > TASKS_MAX || spec->mcpus == 0)
        return error_set(err, -EINVAL, "job %lld has no GPUs: expected 1 to %d tasks with CPUs, got %d of %u/1000",
                         (long long)spec->id, TASKS_MAX, spec->tasks, spec->mcpus);
    if (spec->gpus_min || spec->gpus_max || spec->within || spec->unit || spec->gpu_servers)
        return error_set(err, -EINVAL, "job %lld: a job without GPUs has no shape of them", (long long)spec->id);
    if (spec->estimate < 0 || spec->time_limit < 0 || spec->launch < 0 || spec->save < 0)
        return error_set(err, -EINVAL, "job %lld: a time below 0", (long long)spec->id);
    if (spec->priority < PRIORITY_MIN || spec->priority > PRIORITY_MAX)
        return error_set(err, -EINVAL, "job %lld: priority: expected %d to %d, got %d", (long long)spec->id,
                         PRIORITY_MIN, PRIORITY_MAX, spec->priority);
    if (spec->klass >= CLASS_COUNT || spec->tier >= TIER_COUNT || spec->slo >= SLO_COUNT)
        return error_set(err, -EINVAL, "job %lld: unknown class, tier or objective", (long long)spec->id);
    return 0;
}

/* How its GPUs are to lie. */
static int shape_check(const struct jobspec *spec, struct error *err)
{
    if (spec->within >= WITHIN_COUNT || spec->unit > WITHIN_NODE || (spec->per_unit != 0) != (spec->unit != 0))
        return error_set(err, -EINVAL, "job %lld: no such part of a cluster", (long long)spec->id);
    if (spec->unit && (spec->share < MGPU_ONE || spec->gpus % spec->per_unit || spec->gpus_min != spec->gpus_max ||
                       (spec->per_node && spec->per_node % spec->per_unit)))
        return error_set(err, -EINVAL, "job %lld: %d GPUs cannot be had in whole cells of %u", (long long)spec->id,
                         spec->gpus, spec->per_unit);
    return 0;
}

/* Ranges that hold on every cluster. */
static int spec_check(const struct jobspec *spec, usec_t now, struct error *err)
{
    if (terms_check(spec, err) < 0)
        return -EINVAL;
    if (spec->gpus == 0)
        return tasks_check(spec, err);
    if (spec->tasks)
        return error_set(err, -EINVAL, "job %lld: tasks are told of jobs without GPUs; this one has %d GPUs",
                         (long long)spec->id, spec->gpus);
    if (spec->gpus < 1 || spec->gpus > GANG_GPUS_MAX)
        return error_set(err, -EINVAL, "job %lld: gpus: expected 1 to %d, got %d", (long long)spec->id, GANG_GPUS_MAX,
                         spec->gpus);
    if (spec->share < 1 || spec->share > MGPU_ONE)
        return error_set(err, -EINVAL, "job %lld: share: expected above 0 and at most 1 GPU, got %d/1000",
                         (long long)spec->id, spec->share);
    if (spec->share < MGPU_ONE && spec->gpus != 1)
        return error_set(err, -EINVAL, "job %lld: a share of a GPU goes with one GPU, not with %d", (long long)spec->id,
                         spec->gpus);
    if (spec->per_node && (spec->share < MGPU_ONE || spec->gpus % spec->per_node != 0))
        return error_set(err, -EINVAL, "job %lld: %d GPUs (of %d/1000 each) cannot be had as %u a node",
                         (long long)spec->id, spec->gpus, spec->share, spec->per_node);
    if (spec->gpu_servers < 0 || (spec->gpu_servers > 0 && spec->gpu_servers >= spec->gpus))
        return error_set(err, -EINVAL, "job %lld: %d of %d GPUs are parameter servers; a worker at least is needed",
                         (long long)spec->id, spec->gpu_servers, spec->gpus);
    if (spec->estimate < 0 || spec->time_limit < 0 || spec->launch < 0 || spec->save < 0)
        return error_set(err, -EINVAL, "job %lld: a time below 0", (long long)spec->id);
    if (spec->priority < PRIORITY_MIN || spec->priority > PRIORITY_MAX)
        return error_set(err, -EINVAL, "job %lld: priority: expected %d to %d, got %d", (long long)spec->id,
                         PRIORITY_MIN, PRIORITY_MAX, spec->priority);
    if (spec->gpus_min < 1 || spec->gpus_min > spec->gpus || spec->gpus_max < spec->gpus)
        return error_set(err, -EINVAL, "job %lld: elastic range %d..%d does not hold the %d GPUs asked for",
                         (long long)spec->id, spec->gpus_min, spec->gpus_max, spec->gpus);
    if (spec->gpus % ((int64_t)(spec->tp ? spec->tp : 1) * (spec->pp ? spec->pp : 1)) != 0)
        return error_set(err, -EINVAL, "job %lld: %d GPUs are no multiple of %u tensor-parallel ranks x %u stages",
                         (long long)spec->id, spec->gpus, spec->tp ? spec->tp : 1, spec->pp ? spec->pp : 1);
    if (spec->klass >= CLASS_COUNT || spec->tier >= TIER_COUNT || spec->slo >= SLO_COUNT)
        return error_set(err, -EINVAL, "job %lld: unknown class, tier or objective", (long long)spec->id);
    if (shape_check(spec, err) < 0 || sides_check(spec, err) < 0)
        return -EINVAL;
    return deadlines_check(spec, now, err);
}

/* GPUs with so many CPUs and so much memory each, of one type, on an empty cluster. */
static bool hosts_possible(const struct ledger *ledger, const struct jobspec *spec, uint32_t mask)
{
    uint64_t have[SKUS_MAX] = { 0 };

    for (uint32_t n = 0; n < ledger->topo.node_count; n++) {
        const struct node *node = &ledger->topo.nodes[n];
        const struct host_room *most = &ledger->hosts[n].most;
        uint64_t here = node->gpus;

        if (most->mcpus && spec->mcpus && most->mcpus / spec->mcpus < here)
            here = most->mcpus / spec->mcpus;
        if (most->mib && spec->host_mib && most->mib / spec->host_mib < here)
            here = most->mib / spec->host_mib;
        if (spec->per_node)
            here = here >= spec->per_node ? spec->per_node : 0;
        have[node->sku] += here;
        if (mask >> node->sku & 1 && have[node->sku] >= (uint64_t)spec->gpus)
            return true;
    }
    return false;
}

/* GPUs on nodes with its mark, of one type, on an empty cluster. For whom nodes are kept changes with time. */
static bool marks_possible(const struct ledger *ledger, const struct jobspec *spec, uint32_t mask)
{
    uint64_t have[SKUS_MAX] = { 0 };

    for (uint32_t n = 0; n < ledger->topo.node_count; n++) {
        const struct node *node = &ledger->topo.nodes[n];

        if (!(mask >> node->sku & 1) || !node_allows(node, spec->mark, node->kept) || node->gpus < spec->per_node)
            continue;
        have[node->sku] += spec->per_node ? spec->per_node : node->gpus;
        if (have[node->sku] >= (uint64_t)spec->gpus)
            return true;
    }
    return false;
}

/* Whether a virtual cluster uses its own cells only. */
static bool own_only(const struct vc *vc, const struct jobspec *spec)
{
    return vc->own && vc->borrow_max == 0 && spec->klass != CLASS_OPPORTUNISTIC && spec->kept == 0;
}

static bool room_possible(const struct core *core, const struct vc *vc, const struct jobspec *spec, uint32_t mask)
{
    const struct ledger *ledger = own_only(vc, spec) ? vc->own : &core->ledger;

    return !host_asks(spec) || !ledger->hosts || hosts_possible(ledger, spec, mask);
}

static bool near_possible(const struct core *core, const struct vc *vc, const struct jobspec *spec, uint32_t mask)
{
    return within_possible(own_only(vc, spec) ? vc->own : &core->ledger, spec, mask);
}

/* Whether the job runs on nothing but what its virtual cluster is owed; see plan_keeps. */
static bool owed_only(const struct core *core, const struct vc *vc, const struct jobspec *spec)
{
    return jobspec_keeps(spec) > core_lends_for(core, vc) && !(vc->own && spec->kept);
}

/* Whether that is as much as it asks for, on some type of the mask. */
static bool quota_holds(const struct core *core, const struct vc *vc, const struct jobspec *spec, uint32_t mask)
{
    for (uint32_t s = 0; s < core->ledger.topo.sku_count; s++)
        if (mask >> s & 1 && (int64_t)spec->gpus * spec->share <= vc->quota[s])
            return true;
    return false;
}

/* Whether the job could run on this cluster if it were empty and whole. */
static int feasible(const struct core *core, const struct jobspec *spec, uint32_t vc, uint32_t mask, struct error *err)
{
    const struct vc *v = &core->vcs[vc];
    uint32_t most = largest_pool(core, mask);

    if (!mask)
        return error_set(err, -ERANGE,
                         "job %lld: no node has the GPU type or the GPU memory it asks for [Infeasible.Sku]",
                         (long long)spec->id);
    if (spec->per_node && !exact_possible(own_only(v, spec) ? v->own : &core->ledger, spec, mask))
        return error_set(err, -ERANGE,
                         "job %lld asks for %d nodes with %u GPUs each; there are fewer [Infeasible.NodeSize]",
                         (long long)spec->id, spec->gpus / spec->per_node, spec->per_node);
    if ((uint32_t)spec->gpus > most)
        return error_set(err, -ERANGE, "job %lld asks for %d GPUs; the cluster has %u of one type [Infeasible.Quota]",
                         (long long)spec->id, spec->gpus, most);
    if (v->user_max && spec->user != NAME_NONE &&
        ((int64_t)spec->gpus + jobspec_sides(spec)) * spec->share > v->user_max)
        return error_set(err, -ERANGE,
                         "job %lld asks for %d GPUs, more than one user may have in its virtual cluster "
                         "[Infeasible.UserLimit]",
                         (long long)spec->id, spec->gpus);
    if (spec->mark && !marks_possible(&core->ledger, spec, mask))
        return error_set(err, -ERANGE, "job %lld asks for nodes that do not have so many GPUs [Infeasible.NodeSize]",
                         (long long)spec->id);
    if (!room_possible(core, v, spec, mask))
        return error_set(err, -ERANGE,
                         "job %lld asks for more CPUs or memory with its GPUs than nodes have [Infeasible.NodeSize]",
                         (long long)spec->id);
    if ((spec->unit || (spec->within && spec->within_must)) && !near_possible(core, v, spec, mask))
        return error_set(err, -ERANGE,
                         "job %lld asks for its GPUs nearer to each other than they ever lie [Infeasible.Topology]",
                         (long long)spec->id);
    if (owed_only(core, v, spec))
        return quota_holds(core, v, spec, mask)
                   ? 0
                   : error_set(err, -ERANGE,
                               "job %lld asks for %d GPUs and cannot be preempted (%s): it runs on what its virtual "
                               "cluster is owed alone, which is less [Infeasible.Quota]",
                               (long long)spec->id, spec->gpus,
                               spec->preempt == PREEMPT_NEVER ? "preempt: never" : "min_runtime");
    if (spec->klass == CLASS_OPPORTUNISTIC || v->borrow_max < 0 || (v->own && spec->kept))
        return 0;
    for (uint32_t s = 0; s < core->ledger.topo.sku_count; s++)
        if (mask >> s & 1 && (int64_t)spec->gpus * spec->share <= v->quota[s] + v->borrow_max)
            return 0;
    return error_set(err, -ERANGE,
                     "job %lld asks for %d GPUs, more than its virtual cluster may ever hold [Infeasible.Quota]",
                     (long long)spec->id, spec->gpus);
}

/* Of so many GPUs, the least that its virtual cluster would have to borrow on some type of the mask. */
static int64_t least_beyond(const struct core *core, const struct vc *vc, int32_t gpus, uint32_t mask)
{
    int64_t least = INT64_MAX;

    for (uint32_t s = 0; s < core->ledger.topo.sku_count; s++) {
        int64_t over = (int64_t)gpus * MGPU_ONE - vc->quota[s];

        if (mask >> s & 1 && (over < 0 ? 0 : over) < least)
            least = over < 0 ? 0 : over;
    }
    return least;
}

/* The same of each part of a gang on several types, and of all that they borrow together. */
static int sides_feasible(const struct core *core, const struct jobspec *spec, uint32_t vc, struct error *err)
{
    const struct shape shape = queue_shape(core, spec, 0, spec->klass);
    const struct vc *v = &core->vcs[vc];
    int64_t sum = least_beyond(core, v, spec->gpus, shape.sku_mask);

    if (!v->policy.planner->sides)
        return error_set(err, -ERANGE,
                         "job %lld is on GPUs of several types, and the policy of its virtual cluster places gangs of "
                         "one; those that walk an order, such as fifo-skip, srtf and las, place it [Infeasible.Sku]",
                         (long long)spec->id);
    for (uint32_t i = 0; i < spec->side_count; i++) {
        struct jobspec side = sides_spec(spec, i);
        int r = feasible(core, &side, vc, shape.sides[i].sku_mask, err);

        if (r < 0)
            return r;
        sum += least_beyond(core, v, side.gpus, shape.sides[i].sku_mask);
    }
    if (owed_only(core, v, spec))
        return 0; /* each part was looked at */
    if (spec->klass == CLASS_OPPORTUNISTIC || v->borrow_max < 0 || (v->own && spec->kept) || sum <= v->borrow_max)
        return 0;
    return error_set(err, -ERANGE,
                     "job %lld asks for more GPUs of several types than its virtual cluster may ever hold together "
                     "[Infeasible.Quota]",
                     (long long)spec->id);
}

int core_feasible(struct core *core, const struct jobspec *spec, uint32_t vc, struct error *err)
{
    struct vc *v = &core->vcs[vc];
    int r = feasible(core, spec, vc, queue_types(core, spec), err);

    if (r == 0 && spec->side_count)
        r = sides_feasible(core, spec, vc, err);
    return r == 0 && v->policy.planner->check ? v->policy.planner->check(&v->planner, spec, err) : r;
}

static int offer_submit(struct core *core, struct event *event, uint32_t vc, struct error *err)
{
    const struct jobspec *spec = event->spec;
    struct job *job;
    struct shape shape;
    int r;

    if (vc >= core->vc_count)
        return error_set(err, -EINVAL, "job %lld: no virtual cluster %u [NoSuchVc]", (long long)spec->id, vc);
    r = spec_check(spec, spec->submit > core->now ? spec->submit : core->now, err);
    if (r < 0)
        return r;
    r = licenses_check(core, spec, err);
    if (r < 0)
        return r;
    shape = queue_shape(core, spec, 0, spec->klass);
    if (spec->gpus == 0 && !tasks_possible(core, spec))
        return error_set(err, -ERANGE,
                         "job %lld asks for %d tasks with %u.%03u CPUs and %u MiB; nodes that take jobs without GPUs "
                         "have less (cpu_jobs) [Infeasible.NodeSize]",
                         (long long)spec->id, spec->tasks, spec->mcpus / 1000, spec->mcpus % 1000, spec->host_mib);
    if (spec->gpus == 0 && !tasks_owed(core, &core->vcs[vc], spec))
        return error_set(err, -ERANGE,
                         "job %lld asks for more CPUs than its virtual cluster is owed and cannot be preempted "
                         "[Infeasible.Quota]",
                         (long long)spec->id);
    r = spec->gpus ? core_feasible(core, spec, vc, err) : 0;
    if (r < 0)
        return r;
    if (spec->gpus && !queue_has_room(&core->vcs[vc].queue, &shape))
        return error_set(err, -ENOSPC, "job %lld: more than %d different shapes wait already", (long long)spec->id,
                         SHAPES_OFFERED_MAX);
    if (core->job_free == JOB_NONE && core->job_top == core->job_capacity)
        return error_set(err, -ENOSPC, "job %lld: %u jobs wait or run already, the limit", (long long)spec->id,
                         core->job_capacity);
    if (core->job_free != JOB_NONE) {
        event->job = core->job_free;
        core->job_free = core->jobs[event->job].next;
    } else {
        event->job = core->job_top++;
    }
    job = &core->jobs[event->job];
    event->gen = job->gen;
    for (uint32_t i = 0; i < core->word_stride; i++)
        core->words[(size_t)event->job * core->word_stride + i] = 0;
    core->borrowing |= spec->klass == CLASS_OPPORTUNISTIC;
    *job = (struct job){ .spec = *spec,
                         .gen = event->gen,
                         .state = JOB_OFFERED,
                         .klass = spec->klass,
                         .tier = spec->tier,
                         .limit_percent = 100,
                         .vc = vc,
                         .shape = UINT32_MAX,
                         .shares = SHARE_NONE,
                         .own_shares = SHARE_NONE,
                         .holds = HOLD_NONE,
                         .prev = JOB_NONE,
                         .next = JOB_NONE,
                         .mate = JOB_NONE,
                         .ran_from = -1,
                         .disturbed = -1,
                         .since = core->now,
                         .state_since = core->now,
                         .first_start = -1,
                         .last_start = -1,
                         .rate = PPM_ONE };
    return 0;
}

static int job_check(const struct core *core, const struct event *event, struct error *err)
{
    if (event->job >= core->job_top || core->jobs[event->job].gen != event->gen ||
        core->jobs[event->job].state == JOB_FREE)
        return error_set(err, -ENOENT, "no such job (slot %u, generation %u)", event->job, event->gen);
    if ((event->kind == EVENT_STARTED || event->kind == EVENT_RATE) &&
        (event->rate < 0 || event->rate > 1000 * PPM_ONE))
        return error_set(err, -EINVAL, "job %lld: rate out of range", (long long)core->jobs[event->job].spec.id);
    return 0;
}

/* An answer nobody waits for is refused; its words are kept until the step. */
static int offer_solved(struct core *core, struct event *event, struct error *err)
{
    const struct vc *vc;

    if (event->target >= core->vc_count)
        return error_set(err, -EINVAL, "no virtual cluster %u [NoSuchVc]", event->target);
    vc = &core->vcs[event->target];
    if (!vc->solving || vc->ticket != event->ticket)
        return error_set(err, -ENOENT, "virtual cluster %u does not wait for answer %u", event->target, event->ticket);
    if (event->word_count > vc->policy.planner->solve_words ||
        core->answer_count + event->word_count > core->answer_capacity)
        return error_set(err, -ENOSPC, "virtual cluster %u: an answer of %u numbers, the limit is %u", event->target,
                         event->word_count, vc->policy.planner->solve_words);
    for (uint32_t i = 0; i < event->word_count; i++)
        core->answers[core->answer_count + i] = event->words[i];
    event->words = core->answers + core->answer_count;
    core->answer_count += event->word_count;
    return 0;
}

int core_offer(struct core *core, const struct event *event, struct job_ref *ret_job, struct error *err)
{
    struct event taken = *event;
    int r = 0;

    if (core->inbox_count == core->inbox_capacity)
        return error_set(err, -ENOSPC, "%u events at one instant, the limit", core->inbox_capacity);
    switch (event->kind) {
    case EVENT_SUBMIT:
        r = offer_submit(core, &taken, event->target, err);
        break;
    case EVENT_NODE:
        if (event->target >= core->ledger.topo.host_count)
            r = error_set(err, -ENOENT, "no node %u", event->target);
        break;
    case EVENT_GPU:
        if (event->target >= core->ledger.topo.gpu_count)
            r = error_set(err, -ENOENT, "no GPU %u", event->target);
        break;
    case EVENT_QUOTA:
        if (event->target >= core->vc_count || event->sku >= core->ledger.topo.sku_count || event->value < 0)
            r = error_set(err, -EINVAL, "no such quota (virtual cluster %u, type %u)", event->target, event->sku);
        else if (core->cells)
            r = error_set(err, -EINVAL, "virtual cluster %u is guaranteed cells; change the cluster instead",
                          event->target);
        break;
    case EVENT_SOLVED:
        r = offer_solved(core, &taken, err);
        break;
    case EVENT_ENDED:
    case EVENT_STOPPED:
    case EVENT_STARTED:
    case EVENT_RATE:
    case EVENT_REPORT:
    case EVENT_CANCEL:
    case EVENT_HOLD:
    case EVENT_RELEASE:
        r = job_check(core, event, err);
        break;
    case EVENT_RANK:
        r = job_check(core, event, err);
        if (r == 0 && (event->value < PRIORITY_MIN || event->value > PRIORITY_MAX))
            r = error_set(err, -EINVAL, "job %lld: priority: expected %d to %d, got %d",
                          (long long)core->jobs[event->job].spec.id, PRIORITY_MIN, PRIORITY_MAX, event->value);
        break;
    case EVENT_SIZE:
        r = job_check(core, event, err);
        if (r == 0)
            r = core_size_check(core, event->job, event->value, err);
        break;
    case EVENT_COUNT:
        r = error_set(err, -EINVAL, "no such event");
        break;
    }
    if (r < 0)
        return r;
    taken.spec = NULL;
    core->inbox[core->inbox_count++] = taken;
    if (ret_job)
        *ret_job = (struct job_ref){ taken.job, taken.gen };
    return 0;
}
