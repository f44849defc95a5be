/* SPDX-License-Identifier: Apache-2.0 */
/* ask.c - see ask.h. */
#include "agent/ask/ask.h"

#include <string.h>

#include "agent/util.h"
#include "base/alloc.h"

#define TURN_EVERY (50 * USEC_MSEC)

static struct ask *ask_find(struct agent *agent, int64_t id)
{
    for (struct ask *ask = agent->asks; ask; ask = ask->next)
        if (ask->id == id)
            return ask;
    return NULL;
}

void asks_turn(struct agent *agent)
{
    for (struct ask *ask = agent->asks, *next; ask; ask = next) {
        next = ask->next;
        ask->ops->turn(ask);
    }
}

static void on_ask_timer(void *arg)
{
    struct agent *agent = arg;

    asks_turn(agent);
    if (!agent->asks)
        loop_timer_stop(agent->ask_timer);
}

void ask_add(struct agent *agent, struct ask *ask)
{
    ask->agent = agent;
    ask->next = agent->asks;
    agent->asks = ask;
    if (!agent->ask_timer && loop_timer_new(agent->set->loop, on_ask_timer, agent, &agent->ask_timer) < 0)
        return;
    loop_timer_every(agent->ask_timer, TURN_EVERY);
}

void ask_remove(struct ask *ask)
{
    if (!ask->agent)
        return;
    for (struct ask **at = &ask->agent->asks; *at; at = &(*at)->next)
        if (*at == ask) {
            *at = ask->next;
            break;
        }
    ask->agent = NULL;
}

bool ask_room(const struct ask *ask)
{
    return ask->agent && !ask->full && ask->agent->conn && conn_queued(ask->agent->conn) < ASK_QUEUE_MAX;
}

void ask_answer(struct ask *ask, json_t *body, bool more)
{
    if (!ask->agent) {
        json_decref(body);
        return;
    }
    (void)json_object_set_new(body, "t", json_string("answer"));
    (void)json_object_set_new(body, "id", json_integer(ask->id));
    (void)json_object_set_new(body, "ok", json_true());
    if (more)
        (void)json_object_set_new(body, "more", json_true());
    agent_send(ask->agent, body);
}

void ask_refuse(struct agent *agent, int64_t id, const char *code, const char *words)
{
    agent_send(agent, json_pack("{ss,sI,sb,ss,ss}", "t", "answer", "id", (json_int_t)id, "ok", 0, "code", code, "error",
                                words));
}

static void ask_stat(struct agent *agent, const json_t *frame)
{
    const struct task_id id = { util_i64(frame, "job", 0), (uint32_t)util_i64(frame, "attempt", 0),
                                (uint32_t)util_i64(frame, "rank", 0) };
    const struct task *task = task_find(agent, &id);
    int64_t number = util_i64(frame, "id", 0), cpu, memory;
    int pids;

    if (!task) {
        ask_refuse(agent, number, "NotFound", "no such task on this node");
        return;
    }
    task_usage(task, &cpu, &memory, &pids);
    agent_send(agent, json_pack("{ss,sI,sb,sI,sI,si,sI,ss}", "t", "answer", "id", (json_int_t)number, "ok", 1, "cpu",
                                (json_int_t)cpu, "memory", (json_int_t)memory, "pids", pids, "started",
                                (json_int_t)task->started, "state", task_state_name(task->state)));
}

void ask_take(struct agent *agent, json_t *frame)
{
    const char *what = util_text(frame, "do");
    int64_t id = util_i64(frame, "id", 0);
    struct ask *ask = ask_find(agent, id);
    size_t count = 0;

    if (!what) {
        ask_refuse(agent, id, "Internal", "nothing was asked");
        return;
    }
    if (strcmp(what, "close") == 0) {
        if (ask)
            ask->ops->close(ask);
        return;
    }
    if (strcmp(what, "input") == 0 || strcmp(what, "resize") == 0) {
        if (ask && ask->ops->input)
            ask->ops->input(ask, frame);
        return;
    }
    if (strcmp(what, "room") == 0) {
        if (ask)
            ask->full = !util_flag(frame, "room");
        asks_turn(agent);
        return;
    }
    for (const struct ask *one = agent->asks; one; one = one->next)
        count++;
    if (ask)
        ask_refuse(agent, id, "Conflict", "this number is in use");
    else if (count >= ASKS_MAX)
        ask_refuse(agent, id, "Conflict", "too many questions at once");
    else if (strcmp(what, "log") == 0)
        ask_log(agent, frame);
    else if (strcmp(what, "exec") == 0)
        ask_exec(agent, frame);
    else if (strcmp(what, "stdin") == 0)
        ask_input(agent, frame);
    else if (strcmp(what, "forward") == 0)
        ask_forward(agent, frame);
    else if (strcmp(what, "stat") == 0)
        ask_stat(agent, frame);
    else
        ask_refuse(agent, id, "NotFound", "an agent cannot be asked this");
}

void asks_close(struct agent *agent)
{
    while (agent->asks)
        agent->asks->ops->close(agent->asks);
}
