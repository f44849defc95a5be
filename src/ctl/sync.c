/* SPDX-License-Identifier: Apache-2.0 */
/* sync.c - orders, and what an agent that has just connected is told.
 *
 * Orders are derived from the book, never queued: an agent that was away is told what it should have, and each order
 * that its tasks have not answered yet once more. Agents recognise what they have done already.
 */
#include <string.h>

#include "ctl/part.h"

json_t *order_simple(const struct book_job *job, const struct book_attempt *attempt, enum order_kind kind)
{
    json_t *order = json_object();

    (void)json_object_set_new_nocheck(order, "t", json_string_nocheck(agent_down_name(DOWN_ORDER)));
    (void)json_object_set_new_nocheck(order, "do", json_string_nocheck(order_name(kind)));
    (void)json_object_set_new_nocheck(order, "job", json_integer(job->id));
    (void)json_object_set_new_nocheck(order, "attempt", json_integer((json_int_t)attempt->number));
    return order;
}

/* What the core last said that the job may have of its GPUs. */
static void put_limit(const struct ctl *ctl, const struct book_job *job, json_t *order)
{
    const struct job *core = core_job(ctl->core, job->slot);

    (void)json_object_set_new(order, "memory_mib", json_integer(core->limit_mib));
    (void)json_object_set_new(order, "percent", json_integer(core->limit_percent));
}

static bool limited(const struct ctl *ctl, const struct book_job *job)
{
    const struct job *core = core_job(ctl->core, job->slot);

    return job->in_core && (core->limit_mib || core->limit_percent != 100);
}

json_t *order_limit(const struct ctl *ctl, const struct book_job *job, const struct book_attempt *attempt)
{
    json_t *order = order_simple(job, attempt, ORDER_LIMIT);

    put_limit(ctl, job, order);
    return order;
}

/* Whether somebody shares its GPUs with it, or takes it off them while it lives: it is to run under the GPU runtime. */
static bool under_runtime(const struct job *core, const struct planner_ops *planner)
{
    return planner->limit || planner->tunes || (core->spec.share > 0 && core->spec.share < MGPU_ONE);
}

/* Whether it is on GPUs that are not its own, and what it has of them. */
static void put_guest(const struct ctl *ctl, const struct book_job *job, json_t *order)
{
    const struct job *core = core_job(ctl->core, job->slot);
    const struct ledger *ledger = core_ledger(ctl->core);
    const struct planner_ops *planner;

    if (!job->in_core)
        return;
    planner = core_vc(ctl->core, core->vc)->policy.planner;
    if (planner->limit)
        (void)json_object_set_new(order, "use", json_true());
    if (planner->idles)
        (void)json_object_set_new(order, "idle", json_true());
    if (under_runtime(core, planner))
        (void)json_object_set_new(order, "runtime", json_true());
    if (core->klass == CLASS_OPPORTUNISTIC)
        (void)json_object_set_new(order, "class", json_string("opportunistic"));
    if (core->shares != SHARE_NONE && ledger->shares[core->shares].role == ROLE_GUEST)
        (void)json_object_set_new(order, "guest", json_true());
    if (limited(ctl, job))
        put_limit(ctl, job, order);
}

enum { BESIDE_MAX = 8 };

/* Jobs that have yielded its GPUs to it and only save their results there: it does not wait for them. */
static void put_beside(const struct ctl *ctl, const struct book_job *job, json_t *order)
{
    const struct ledger *ledger = core_ledger(ctl->core);
    uint32_t s = job->in_core ? core_job(ctl->core, job->slot)->shares : SHARE_NONE;
    json_t *list = NULL;

    for (; s != SHARE_NONE; s = ledger->shares[s].next_of_job)
        for (uint32_t o = ledger->gpus[ledger->shares[s].gpu].shares; o != SHARE_NONE;
             o = ledger->shares[o].next_of_gpu) {
            const struct job *other = core_job(ctl->core, ledger->shares[o].job);

            if (!other->yields || json_array_size(list) == BESIDE_MAX)
                continue;
            list = list ? list : json_array();
            (void)json_array_append_new(list, json_integer(other->spec.id));
        }
    if (list)
        (void)json_object_set_new(order, "beside", list);
}

json_t *order_go(const struct ctl *ctl, const struct book_job *job, const struct book_attempt *attempt)
{
    json_t *order = order_simple(job, attempt, ORDER_GO);

    put_beside(ctl, job, order);
    return order;
}

/* Whether it goes on with another number of GPUs than it has. */
static bool resizes(const struct ctl *ctl, const struct book_job *job, const struct book_attempt *attempt)
{
    const struct ledger *ledger = core_ledger(ctl->core);
    uint32_t has = 0, gets = 0;

    if (!attempt->moves || !job->in_core)
        return false;
    for (uint32_t t = 0; t < attempt->task_count; t++)
        has += attempt->tasks[t].gpu_count;
    for (uint32_t s = core_job(ctl->core, job->slot)->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job)
        gets += !ledger->shares[s].leaving;
    return has != gets;
}

json_t *order_stop(const struct ctl *ctl, const struct book_job *job, const struct book_attempt *attempt, usec_t grace)
{
    json_t *order = order_simple(job, attempt, ORDER_STOP);
    const char *kind = attempt->stop_kind[0] ? attempt->stop_kind : attempt->ending ? "peer" : "preempt";

    (void)json_object_set_new(order, "kind", json_string(kind));
    if (resizes(ctl, job, attempt))
        (void)json_object_set_new(order, "resize", json_true());
    if (attempt->kept_until && !attempt->stopping && !attempt->ended && attempt->kept_until > ctl->now)
        (void)json_object_set_new(order, "keep_ms", json_integer((attempt->kept_until - ctl->now) / USEC_MSEC));
    (void)json_object_set_new(order, "grace_ms", json_integer(grace / USEC_MSEC));
    if (attempt->stop_by)
        (void)json_object_set_new(order, "by", json_integer(attempt->stop_by));
    if (job->spec->ckpt_signal)
        (void)json_object_set_new(order, "signal", json_integer(job->spec->ckpt_signal));
    return order;
}

json_t *order_place(const struct ctl *ctl, const struct book_attempt *attempt)
{
    json_t *place = json_array();

    for (uint32_t t = 0; t < attempt->task_count; t++) {
        const struct book_task *task = &attempt->tasks[t];
        const struct book_node *node = &ctl->book.nodes[task->node];
        json_t *gpus = json_array(), *here;

        for (uint32_t g = 0; g < task->gpu_count; g++)
            (void)json_array_append_new(gpus, json_integer(task->gpus[g]));
        here = json_pack("{s:s, s:s, s:o}", "node", names_get(&ctl->book.node_names, node->name), "address",
                         node->address, "gpus", gpus);
        if (task->part)
            (void)json_object_set_new(here, "part", json_integer(task->part));
        (void)json_array_append_new(place, here);
    }
    return place;
}

/* One that only waited at a gate has left nothing to go on from. */
static bool ran_before(const struct book_job *job)
{
    for (uint32_t a = 0; a + 1 < job->attempt_count; a++)
        if (job->attempts[a].started)
            return true;
    return false;
}

json_t *order_launch(const struct ctl *ctl, const struct book_job *job, uint32_t rank, json_t *place)
{
    const struct book_attempt *attempt = &job->attempts[job->attempt_count - 1];
    json_t *order = order_simple(job, attempt, ORDER_LAUNCH), *secrets;

    (void)json_object_set_new_nocheck(order, "rank", json_integer(rank));
    (void)json_object_set_new_nocheck(order, "go", json_boolean(attempt->told_go));
    (void)json_object_set_new_nocheck(order, "born", json_integer(job->submit));
    (void)json_object_set_new_nocheck(order, "user", json_string(names_get(&ctl->book.users, job->user)));
    (void)json_object_set_new_nocheck(order, "uid", json_integer(job->uid));
    (void)json_object_set_new_nocheck(order, "gid", json_integer(job->gid));
    (void)json_object_set_nocheck(order, "spec", job->source->json);
    secrets = secret_of(ctl, job);
    if (secrets)
        (void)json_object_set_new_nocheck(order, "secrets", secrets);
    (void)json_object_set_nocheck(order, "place", place);
    (void)json_object_set_new_nocheck(order, "vc",
                                      json_string(names_get(&ctl->cluster.names, ctl->cluster.vcs[job->vc].name)));
    (void)json_object_set_new_nocheck(order, "cluster", json_string(ctl->config.cluster));
    (void)json_object_set_new_nocheck(order, "port", json_integer(attempt->port));
    (void)json_object_set_new_nocheck(order, "end", json_integer(job->spec->time ? ctl->now + job->spec->time : 0));
    (void)json_object_set_new_nocheck(order, "resume", json_boolean(ran_before(job)));
    if (attempt->prepared)
        (void)json_object_set_new_nocheck(order, "gate", json_true());
    else
        put_beside(ctl, job, order);
    put_guest(ctl, job, order);
    if (job->array_id)
        (void)json_object_set_new_nocheck(
            order, "array", json_pack("{s:I, s:i}", "id", (json_int_t)job->array_id, "index", job->array_index));
    return order;
}

/* The order that the task has not answered, if there is one. */
static void resend(struct ctl *ctl, struct book_job *job, const struct book_attempt *attempt, uint32_t rank)
{
    const struct book_task *task = &attempt->tasks[rank];

    if (!attempt->ended && task->state == TASK_PREPARING) {
        json_t *place = order_place(ctl, attempt);

        attempt_tell(ctl, job, rank, place);
        json_decref(place);
    }
    if (!attempt->ended && task->state == TASK_READY && attempt->told_go)
        ctl_order(ctl, task->node, order_go(ctl, job, attempt));
    if (attempt->ended || attempt->stopping || attempt->ending)
        ctl_order(ctl, task->node, order_stop(ctl, job, attempt, attempt->ended ? 0 : attempt->grace));
    else if (strcmp(attempt->stop_kind, "suspend") == 0 && task->state == TASK_RUNNING)
        ctl_order(ctl, task->node, order_simple(job, attempt, ORDER_SUSPEND));
    else if (task->state == TASK_RUNNING && limited(ctl, job))
        ctl_order(ctl, task->node, order_limit(ctl, job, attempt));
}

typedef void (*task_fn)(struct ctl *ctl, struct book_job *job, uint32_t attempt, uint32_t rank, json_t *list);

/* Every task of the node that is not gone and was, or is to be, launched. */
static void each_task(struct ctl *ctl, uint32_t node, task_fn fn, json_t *list)
{
    for (size_t i = 0; i < ctl->book.live_count; i++) {
        struct book_job *job = ctl->book.live[i];
        uint32_t attempts = job->attempt_count - (job->waits_old ? 1 : 0);

        for (uint32_t a = 0; a < attempts; a++)
            for (uint32_t t = 0; t < job->attempts[a].task_count; t++)
                if (job->attempts[a].tasks[t].node == node && !task_gone(&job->attempts[a].tasks[t]))
                    fn(ctl, job, a, t, list);
    }
}

static void list_task(struct ctl *ctl, struct book_job *job, uint32_t attempt, uint32_t rank, json_t *list)
{
    bool fresh = job->attempts[attempt].tasks[rank].state == TASK_PREPARING;

    (void)ctl;
    (void)json_array_append_new(list, json_pack("{s:I, s:I, s:I, s:b, s:I}", "job", (json_int_t)job->id, "attempt",
                                                (json_int_t)attempt, "rank", (json_int_t)rank, "fresh", fresh, "born",
                                                (json_int_t)job->submit));
}

static void resend_task(struct ctl *ctl, struct book_job *job, uint32_t attempt, uint32_t rank, json_t *list)
{
    (void)list;
    resend(ctl, job, &job->attempts[attempt], rank);
}

void ctl_sync(struct ctl *ctl, const char *name)
{
    const struct book_node *node = book_node_find(&ctl->book, name);
    json_t *tasks;

    if (!node)
        return;
    tasks = json_array();
    each_task(ctl, node->name, list_task, tasks);
    /* Whom it may keep comes first. A fresh one that it does not have is not missed: its launch follows. */
    ctl_order(ctl, node->name, json_pack("{s:s, s:o}", "t", agent_down_name(DOWN_KEEP), "tasks", tasks));
    each_task(ctl, node->name, resend_task, NULL);
    reboot_order(ctl, node);
}
