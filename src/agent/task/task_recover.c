/* SPDX-License-Identifier: Apache-2.0 */
/* task_recover.c - an agent that starts finds the tasks of the one before it.
 *
 * A directory a task: with an end recorded it is over; with a shepherd that answers it goes on; with a plan and no
 * shepherd it is lost, after what it left has been killed; with an order alone it had not begun. One whose plan cannot
 * be read any more may still run: its shepherd is told to end it, and the controller that it is lost. What the journal
 * still holds of a task need not be reported again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/task/task_emulate.h"
#include "agent/task/task_enforce.h"
#include "agent/util.h"
#include "base/names.h"
#include "io/dir.h"
#include "io/log.h"

/* The newest report of the task that was not taken yet; NULL. Borrowed. */
static json_t *journal_last(const struct agent *agent, const struct task_id *id)
{
    for (size_t i = agent->journal.count; i-- > 0;) {
        json_t *report = agent->journal.entries[i].report;

        if (json_object_get(report, "job") && util_i64(report, "job", -1) == id->job &&
            util_i64(report, "attempt", -1) == id->attempt && util_i64(report, "rank", -1) == id->rank &&
            !json_object_get(report, "ckpt"))
            return report;
    }
    return NULL;
}

static bool id_parse(const char *name, struct task_id *ret)
{
    char *end;

    ret->job = strtoll(name, &end, 10);
    if (end == name || *end != '.')
        return false;
    ret->attempt = (uint32_t)strtoul(end + 1, &end, 10);
    if (*end != '.')
        return false;
    ret->rank = (uint32_t)strtoul(end + 1, &end, 10);
    return *end == '\0';
}

static void over_recover(struct task *task, json_t *end)
{
    const json_t *last = journal_last(task->agent, &task->id);
    const char *state = util_text(end, "state");

    if (last && util_text(last, "state") && state && strcmp(util_text(last, "state"), state) == 0) {
        task->state = strcmp(state, task_state_name(TASK_REFUSED)) == 0 ? TASK_REFUSED : TASK_EXITED;
        task->report = json_deep_copy(last);
        (void)json_object_del(task->report, "seq");
        json_decref(end);
        return;
    }
    task_news(task, end);
}

static void live_recover(struct task *task, int dir, json_t *order)
{
    struct error err = { 0 };
    json_t *plan = util_json_get(dir, "plan.json");

    if (!plan) {
        json_t *emulated = util_json_get(dir, "emulated.json");

        if (emulated && launch_read(order, &task->launch, &err) == 0)
            emulate_recover(task, dir);
        else
            task_accept(task, order);
        json_decref(emulated);
        return;
    }
    task_cpus_keep(task, plan);
    json_decref(plan);
    if (launch_read(order, &task->launch, &err) < 0)
        log_warn("a task without its order", "node", task->agent->config.node, "task", task->name, "why", err.text);
    task->gated = task->launch.gate; /* until its shepherd says that it runs */
    task_hold(task);
    if (shep_attach(task) < 0)
        task_give_up(task);
}

/* What its plan was cannot be read, and it may run: on which GPUs, and for whom, nobody can say. It goes. */
static void blind_recover(struct task *task)
{
    log_warn("a task whose plan cannot be read is ended", "node", task->agent->config.node, "task", task->name);
    if (shep_attach(task) < 0)
        task_give_up(task);
    task_clean(task);
}

/* By itself, while it had not begun; later in the plan. */
static json_t *order_kept(int dir)
{
    json_t *order = util_json_get(dir, "order.json"), *plan;

    if (order)
        return order;
    plan = util_json_get(dir, "plan.json");
    order = json_incref(json_object_get(plan, "order"));
    json_decref(plan);
    return order;
}

static void one_recover(struct agent *agent, const char *name)
{
    struct task_id id;
    struct task *task;
    json_t *order, *end;
    int dir;

    if (!id_parse(name, &id) || task_find(agent, &id))
        return;
    task = task_new(agent, &id);
    if (!task)
        return;
    dir = task_dir(task);
    order = dir >= 0 ? order_kept(dir) : NULL;
    end = dir >= 0 ? util_json_get(dir, "exit.json") : NULL;
    task->born = order ? util_i64(order, "born", BORN_UNTOLD) : BORN_LOST;
    if (!order && !end && dir >= 0 && faccessat(dir, "plan.json", F_OK, 0) == 0) {
        blind_recover(task);
    } else if (!order) {
        /* Cut off before its order was whole: nothing can have begun. Or it is over, and nobody knows whose it was. */
        json_decref(end);
        task->state = TASK_EXITED;
        task_clean(task);
    } else if (end) {
        (void)launch_read(order, &task->launch, NULL);
        over_recover(task, end);
    } else {
        live_recover(task, dir, order);
    }
    json_decref(order);
    if (dir >= 0)
        close(dir);
}

void tasks_recover(struct agent *agent)
{
    struct names list = { 0 };
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s/tasks", agent->state_path);
    if (dir_list(path, &list, NULL) < 0)
        return;
    for (uint32_t i = 0; i < list.count; i++)
        one_recover(agent, names_get(&list, i));
    names_done(&list);
}
