/* SPDX-License-Identifier: Apache-2.0 */
/* order.c - orders, and what an agent that has just connected is told.
 *
 * Orders are derived from the registry, never queued: an agent that was away is told what it should have, and each
 * order that its tasks have not answered yet once more. Agents recognise what they have done already.
 */
#include <string.h>

#include "base/alloc.h"
#include "ctl/state/state_internal.h"

struct agent_order order_simple(const struct ctl_job *job, const struct ctl_attempt *attempt, enum order_kind kind)
{
    return (struct agent_order){ .frame = DOWN_ORDER, .kind = kind, .job = job->id, .attempt = attempt->number };
}

struct agent_order order_signal(const struct ctl_job *job, const struct ctl_attempt *attempt, int signal)
{
    struct agent_order order = order_simple(job, attempt, ORDER_SIGNAL);

    order.signal = signal;
    return order;
}

/* What the core last said that the job may have of its GPUs. */
static void put_limit(const struct ctl *ctl, const struct ctl_job *job, struct agent_order *order)
{
    const struct job *core = core_job(ctl->core, job->slot);

    order->limited = true;
    order->memory_mib = (uint32_t)core->limit_mib;
    order->percent = (uint32_t)core->limit_percent;
}

static bool limited(const struct ctl *ctl, const struct ctl_job *job)
{
    const struct job *core = core_job(ctl->core, job->slot);

    return job_in_core(job) && (core->limit_mib || core->limit_percent != 100);
}

struct agent_order order_limit(const struct ctl *ctl, const struct ctl_job *job, const struct ctl_attempt *attempt)
{
    struct agent_order order = order_simple(job, attempt, ORDER_LIMIT);

    put_limit(ctl, job, &order);
    return order;
}

/* Whether somebody shares its GPUs with it, or takes it off them while it lives: it is to run under the GPU runtime. */
static bool under_runtime(const struct job *core, const struct planner_ops *planner)
{
    return planner->limit || planner->tunes || (core->spec.share > 0 && core->spec.share < MGPU_ONE);
}

/* Whether it is on GPUs that are not its own, and what it has of them. */
static void put_guest(const struct ctl *ctl, const struct ctl_job *job, struct agent_order *order)
{
    const struct job *core = core_job(ctl->core, job->slot);
    const struct ledger *ledger = core_ledger(ctl->core);
    const struct planner_ops *planner;

    if (!job_in_core(job))
        return;
    planner = core_vc(ctl->core, core->vc)->policy.planner;
    order->use = planner->limit;
    order->idle = planner->idles;
    order->runtime = under_runtime(core, planner);
    order->opportunistic = core->klass == CLASS_OPPORTUNISTIC;
    order->guest = core->shares != SHARE_NONE && ledger->shares[core->shares].role == ROLE_GUEST;
    if (limited(ctl, job))
        put_limit(ctl, job, order);
}

/* Jobs that have yielded its GPUs to it and only save their results there, and the one that it is packed with: it waits
 * for none of them. */
static void put_beside(const struct ctl *ctl, const struct ctl_job *job, struct agent_order *order)
{
    const struct ledger *ledger = core_ledger(ctl->core);
    const struct job *mine = job_in_core(job) ? core_job(ctl->core, job->slot) : NULL;
    uint32_t s = mine ? mine->shares : SHARE_NONE;

    for (; s != SHARE_NONE; s = ledger->shares[s].next_of_job)
        for (uint32_t o = ledger->gpus[ledger->shares[s].gpu].shares; o != SHARE_NONE;
             o = ledger->shares[o].next_of_gpu) {
            const struct job *other = core_job(ctl->core, ledger->shares[o].job);

            if ((other->yields || ledger->shares[o].job == mine->mate) && order->beside_count < ORDER_BESIDE_MAX)
                order->beside[order->beside_count++] = other->spec.id;
        }
}

struct agent_order order_resume(const struct ctl *ctl, const struct ctl_job *job, const struct ctl_attempt *attempt)
{
    struct agent_order order = order_simple(job, attempt, ORDER_RESUME);

    put_beside(ctl, job, &order);
    return order;
}

struct agent_order order_go(const struct ctl *ctl, const struct ctl_job *job, const struct ctl_attempt *attempt)
{
    struct agent_order order = order_simple(job, attempt, ORDER_GO);

    put_beside(ctl, job, &order);
    return order;
}

/* Whether it goes on with another number of GPUs than it has. */
static bool resizes(const struct ctl *ctl, const struct ctl_job *job, const struct ctl_attempt *attempt)
{
    const struct ledger *ledger = core_ledger(ctl->core);
    uint32_t has = 0, gets = 0;

    if ((attempt->state != ATTEMPT_MOVING && attempt->stop_cause != STOP_CAUSE_MIGRATE) || !job_in_core(job))
        return false;
    for (uint32_t t = 0; t < attempt->task_count; t++)
        has += attempt->tasks[t].gpu_count;
    for (uint32_t s = core_job(ctl->core, job->slot)->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job)
        gets += !ledger->shares[s].leaving;
    return has != gets;
}

struct agent_order order_stop(const struct ctl *ctl, const struct ctl_job *job, const struct ctl_attempt *attempt,
                              usec_t grace)
{
    struct agent_order order = order_simple(job, attempt, ORDER_STOP);
    enum stop_cause cause = (enum stop_cause)attempt->stop_cause;

    if (cause == STOP_CAUSE_NONE)
        cause = attempt->gang_ended ? STOP_CAUSE_PEER : STOP_CAUSE_PREEMPT;
    order.stop = stop_cause_name(cause);
    order.resize = resizes(ctl, job, attempt);
    if (attempt->state == ATTEMPT_KEPT && attempt->kept_until > ctl->now)
        order.keep_ms = (attempt->kept_until - ctl->now) / USEC_MSEC;
    order.grace_ms = grace / USEC_MSEC;
    order.by = attempt->stop_by;
    order.signal = job->spec->ckpt_signal;
    return order;
}

struct order_place *order_place(const struct ctl *ctl, const struct ctl_attempt *attempt)
{
    struct order_place *places = mem_zalloc(attempt->task_count + 1, sizeof(*places));

    for (uint32_t t = 0; places && t < attempt->task_count; t++) {
        const struct ctl_task *task = &attempt->tasks[t];
        const struct ctl_node *node = &ctl->registry.nodes[task->node];

        places[t] = (struct order_place){ .node = names_get(&ctl->registry.node_names, node->name),
                                          .address = node->address,
                                          .gpus = task->gpus,
                                          .gpu_count = task->gpu_count,
                                          .part = task->part };
    }
    return places;
}

/* One that only waited at a gate has left nothing to go on from. */
static bool ran_before(const struct ctl_job *job)
{
    for (uint32_t a = 0; a + 1 < job->attempt_count; a++)
        if (job->attempts[a].started)
            return true;
    return false;
}

struct agent_order order_launch(const struct ctl *ctl, const struct ctl_job *job, uint32_t rank,
                                const struct order_place *place)
{
    const struct ctl_attempt *attempt = &job->attempts[job->attempt_count - 1];
    struct agent_order order = order_simple(job, attempt, ORDER_LAUNCH);

    assert(attempt_live(attempt));
    assert(rank < attempt->task_count);
    order.rank = rank;
    order.go = attempt->went;
    order.born = job->submit;
    order.user = names_get(&ctl->registry.users, job->user);
    order.uid = job->uid;
    order.gid = job->gid;
    order.spec = job->source->text;
    order.secrets = secret_of(ctl, job, &order.secret_count);
    order.place = place;
    order.place_count = attempt->task_count;
    order.vc = names_get(&ctl->cluster.names, ctl->cluster.vcs[job->vc].name);
    order.cluster = ctl->config.cluster;
    order.port = attempt->port;
    order.end = job->spec->time ? ctl->now + job->spec->time : 0;
    order.resume = ran_before(job);
    if (attempt->state == ATTEMPT_GATED)
        order.gate = true;
    else
        put_beside(ctl, job, &order);
    put_guest(ctl, job, &order);
    order.array_id = job->array_id;
    order.array_index = job->array_index;
    return order;
}

/* The order that the task has not answered, if there is one. */
static void resend(struct ctl *ctl, struct ctl_job *job, const struct ctl_attempt *attempt, uint32_t rank)
{
    const struct ctl_task *task = &attempt->tasks[rank];

    assert(rank < attempt->task_count);
    if (attempt_live(attempt) && task->state == TASK_PREPARING) {
        struct order_place *place = order_place(ctl, attempt);

        attempt_tell(ctl, job, rank, place);
        mem_free(place);
    }
    if (attempt_live(attempt) && task->state == TASK_READY && attempt->went)
        ctl_order(ctl, task->node, order_go(ctl, job, attempt));
    if (!attempt_live(attempt) || attempt_leaving(attempt) || attempt->gang_ended)
        ctl_order(ctl, task->node, order_stop(ctl, job, attempt, attempt_live(attempt) ? attempt->grace : 0));
    else if (attempt->stop_cause == STOP_CAUSE_SUSPEND && task->state == TASK_RUNNING)
        ctl_order(ctl, task->node, order_simple(job, attempt, ORDER_SUSPEND));
    else if (attempt->state == ATTEMPT_RESUMING && task->state == TASK_SUSPENDED)
        ctl_order(ctl, task->node, order_resume(ctl, job, attempt));
    else if (task->state == TASK_RUNNING && limited(ctl, job))
        ctl_order(ctl, task->node, order_limit(ctl, job, attempt));
}

enum { KEPT_TASKS_MAX = 1 << 24 };

/* The tasks of a node that are not gone and were, or are to be, launched. */
struct kept_tasks {
    struct keep_task *items;
    size_t count, capacity;
};

typedef void (*task_fn)(struct ctl *ctl, struct ctl_job *job, uint32_t attempt, uint32_t rank, struct kept_tasks *kept);

static void each_task(struct ctl *ctl, uint32_t node, task_fn fn, struct kept_tasks *kept)
{
    struct ctl_job *job;

    for (size_t i = 0; (job = registry_next(&ctl->registry, &i));) {
        uint32_t attempts = job->attempt_count - (job_waits_for_place(job) ? 1 : 0);

        for (uint32_t a = 0; a < attempts; a++)
            for (uint32_t t = 0; t < job->attempts[a].task_count; t++)
                if (job->attempts[a].tasks[t].node == node && !task_gone(&job->attempts[a].tasks[t]))
                    fn(ctl, job, a, t, kept);
    }
}

static void keep_task(struct ctl *ctl, struct ctl_job *job, uint32_t attempt, uint32_t rank, struct kept_tasks *kept)
{
    bool fresh = attempt_live(&job->attempts[attempt]) && job->attempts[attempt].tasks[rank].state == TASK_PREPARING;
    void *block = kept->items;
    int r = mem_grow(&block, &kept->capacity, kept->count + 1, KEPT_TASKS_MAX, sizeof(*kept->items));

    (void)ctl;
    kept->items = block;
    if (r == 0)
        kept->items[kept->count++] =
            (struct keep_task){ .id = { job->id, attempt, rank }, .fresh = fresh, .born = job->submit };
}

static void resend_task(struct ctl *ctl, struct ctl_job *job, uint32_t attempt, uint32_t rank, struct kept_tasks *kept)
{
    (void)kept;
    resend(ctl, job, &job->attempts[attempt], rank);
}

void ctl_sync(struct ctl *ctl, const char *name)
{
    const struct ctl_node *node = registry_node_find(&ctl->registry, name);
    struct kept_tasks kept = { 0 };

    if (!node)
        return;
    each_task(ctl, node->name, keep_task, &kept);
    /* Whom it may keep comes first. A fresh one that it does not have is not missed: its launch follows. */
    ctl_order(ctl, node->name,
              (struct agent_order){ .frame = DOWN_KEEP, .tasks = kept.items, .task_count = kept.count });
    mem_free(kept.items);
    each_task(ctl, node->name, resend_task, NULL);
    reboot_order(ctl, node);
}
