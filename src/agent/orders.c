/* SPDX-License-Identifier: Apache-2.0 */
/* orders.c - what the controller says, and who carries it out. */
#include <errno.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/lease.h"
#include "agent/util.h"
#include "io/log.h"

#define BEAT_DEFAULT_MS 5000
#define LEASE_DEFAULT_MS 120000
#define CLOCKS_AGREE (500 * USEC_MSEC) /* less is told apart from the way of a frame by nobody */

static struct task_id id_read(const json_t *json)
{
    return (struct task_id){ util_i64(json, "job", 0), (uint32_t)util_i64(json, "attempt", 0),
                             (uint32_t)util_i64(json, "rank", 0) };
}

/* Instants in orders are of the controller's clock, those of tasks of this node's. */
static void clock_take(struct agent *agent, const json_t *frame)
{
    usec_t now = util_i64(frame, "now", 0), ahead = clock_real() - now;

    if (now <= 0)
        return;
    if (ahead > -CLOCKS_AGREE && ahead < CLOCKS_AGREE)
        ahead = 0;
    if ((ahead != 0) != (agent->ahead != 0))
        log_warn(ahead ? "the clocks of node and controller differ" : "the clocks of node and controller agree again",
                 "node", agent->config.node, "ahead_ms", LOG_I64(ahead / USEC_MSEC));
    agent->ahead = ahead;
}

static void launch_take(struct agent *agent, json_t *order)
{
    usec_t end = util_i64(order, "end", 0);

    if (agent->set->stopping)
        return; /* what was just ended made room for it; whoever is here next is told again */
    if (end && agent->ahead)
        (void)json_object_set_new(order, "end", json_integer(end + agent->ahead));
    task_launch(agent, order);
}

static void welcome_take(struct agent *agent, const json_t *frame)
{
    int64_t acked = util_i64(frame, "acked", 0), v = util_i64(frame, "v", 1);

    if (v < AGENT_PROTOCOL_LEAST)
        log_err("the controller is older than this agent understands: upgrade it", "node", agent->config.node,
                "protocol", LOG_I64(v));
    agent->beat = util_i64(frame, "beat_ms", BEAT_DEFAULT_MS) * USEC_MSEC;
    clock_take(agent, frame);
    agent->welcome = true;
    agent->dial_failures = 0;
    agent->sent = acked > 0 ? (uint64_t)acked : 0;
    journal_ack(&agent->journal, agent->sent);
    agent->dirty = agent->set->dirty = true;
    agent_progress_again(agent);
    agent_progress_now(agent);
    lease_set(agent, util_flag(frame, "hold") ? 0 : util_i64(frame, "lease_ms", LEASE_DEFAULT_MS) * USEC_MSEC);
    loop_timer_every(agent->beat_timer, agent->beat > 0 ? agent->beat : USEC_SEC);
    log_info("connected", "node", agent->config.node, "controller", agent->config.url);
}

/* Whether it is what the item of a keep means: not another job's of that number, nor one that is on its way out. */
static bool means(const json_t *item, const struct task *task)
{
    struct task_id one = id_read(item);
    int64_t born = util_i64(item, "born", BORN_UNTOLD);

    return one.job == task->id.job && one.attempt == task->id.attempt && one.rank == task->id.rank &&
           (task->successor ? born_same(born, util_i64(task->successor, "born", BORN_UNTOLD))
                            : !task->clean && born_same(born, task->born));
}

static bool keeps(const json_t *list, const struct task *task)
{
    const json_t *item;
    size_t i;

    json_array_foreach(list, i, item) if (means(item, task)) return true;
    return false;
}

static void tell_gone(struct agent *agent, const struct task_id *id, const char *cause)
{
    agent_report(agent, json_pack("{sI,si,si,ss,si,si,sb,ss}", "job", (json_int_t)id->job, "attempt", (int)id->attempt,
                                  "rank", (int)id->rank, "state", task_state_name(TASK_EXITED), "exit", 0, "signal", 0,
                                  "oom", 0, "cause", cause));
}

/* What the controller does not know of is ended; what it believes to be here and is not, it is told of. */
static void keep_take(struct agent *agent, const json_t *frame)
{
    const json_t *list = json_object_get(frame, "tasks"), *item;
    size_t i;

    json_array_foreach(list, i, item)
    {
        struct task_id id = id_read(item);
        const struct task *task = task_find(agent, &id);

        /* The launch of a fresh one follows. */
        if (!(task && means(item, task)) && !util_flag(item, "fresh"))
            tell_gone(agent, &id, "lost");
    }
    for (struct task *task = agent->tasks, *next; task; task = next) {
        next = task->next;
        if (!keeps(list, task))
            task_clean(task);
    }
}

/* To one that waits for another of its number to be gone. */
static void order_successor(struct task *task, enum order_kind kind, const json_t *order)
{
    const char *cause = util_text(order, "kind");

    if (kind == ORDER_STOP)
        tell_gone(task->agent, &task->id, cause ? cause : "cancel");
    if (kind == ORDER_STOP || kind == ORDER_CLEAN) {
        json_decref(task->successor);
        task->successor = NULL;
    }
}

static void order_one(struct task *task, enum order_kind kind, const json_t *order)
{
    switch (kind) {
    case ORDER_GO:
        launch_beside(&task->launch, order);
        task_go(task);
        break;
    case ORDER_STOP:
        task_stop(task, order);
        break;
    case ORDER_SUSPEND:
        task_suspend(task, true);
        break;
    case ORDER_RESUME:
        launch_beside(&task->launch, order);
        task_suspend(task, false);
        break;
    case ORDER_LIMIT:
        task_limit(task, util_i64(order, "memory_mib", 0), util_i64(order, "percent", 100));
        break;
    case ORDER_SIGNAL:
        task_signal(task, (int)util_i64(order, "signal", 0));
        break;
    case ORDER_CLEAN:
        task_clean(task);
        break;
    case ORDER_LAUNCH:
    case ORDER_REBOOT:
    case ORDER_COUNT:
        break;
    }
}

static void order_take(struct agent *agent, json_t *order)
{
    int kind = order_find(util_text(order, "do"));
    struct task_id id = id_read(order);
    bool one = json_object_get(order, "rank") != NULL;

    if (kind < 0) {
        log_warn("an order that is not known", "node", agent->config.node, "do",
                 util_text(order, "do") ? util_text(order, "do") : "");
        return;
    }
    if (kind == ORDER_REBOOT) {
        agent_reboot(agent, order);
        return;
    }
    if (kind == ORDER_LAUNCH) {
        launch_take(agent, order);
        return;
    }
    for (struct task *task = agent->tasks, *next; task; task = next) {
        next = task->next;
        if (task->id.job != id.job || task->id.attempt != id.attempt || (one && task->id.rank != id.rank))
            continue;
        if (task->successor)
            order_successor(task, (enum order_kind)kind, order);
        else
            order_one(task, (enum order_kind)kind, order);
    }
}

static void echo_take(struct agent *agent, uint64_t n)
{
    if (agent->beats[n % BEATS_KEPT].n == n && n > 0)
        lease_renew(agent, agent->beats[n % BEATS_KEPT].sent);
}

/* The connection is closed by the controller next; what it says here is all its side will ever tell. */
static void bye_take(const struct agent *agent, const json_t *frame)
{
    const char *why = util_text(frame, "why");

    log_warn("turned away by the controller", "node", agent->config.node, "why", why ? why : "it does not say");
}

void agent_frame(struct agent *agent, json_t *frame)
{
    int kind = agent_down_find(util_text(frame, "t"));

    if (kind < 0) {
        log_warn("a frame that is not known", "node", agent->config.node);
        return;
    }
    switch ((enum agent_down)kind) {
    case DOWN_WELCOME:
        welcome_take(agent, frame);
        break;
    case DOWN_KEEP:
        keep_take(agent, frame);
        break;
    case DOWN_ORDER:
        order_take(agent, frame);
        break;
    case DOWN_ACK:
        journal_ack(&agent->journal, (uint64_t)util_i64(frame, "seq", 0));
        break;
    case DOWN_BEAT:
        clock_take(agent, frame);
        echo_take(agent, (uint64_t)util_i64(frame, "n", 0));
        break;
    case DOWN_ASK:
        ask_take(agent, frame);
        break;
    case DOWN_BYE:
        bye_take(agent, frame);
        break;
    case DOWN_COUNT:
        break;
    }
}
