/* SPDX-License-Identifier: Apache-2.0 */
/* agent_msg.c - the words of the protocol. See agent_msg.h. */
#include "wire/agent/agent_msg.h"

#include <errno.h>
#include <string.h>

static const char *const task_states[TASK_STATE_COUNT] = {
#define X(code, name) [TASK_##code] = name,
    TASK_STATES(X)
#undef X
};

static const char *const orders[ORDER_COUNT] = {
    [ORDER_LAUNCH] = "launch",   [ORDER_GO] = "go",         [ORDER_STOP] = "stop",
    [ORDER_SUSPEND] = "suspend", [ORDER_RESUME] = "resume", [ORDER_SIGNAL] = "signal",
    [ORDER_CLEAN] = "clean",     [ORDER_LIMIT] = "limit",   [ORDER_REBOOT] = "reboot",
};

static const char *const ups[UP_COUNT] = {
    [UP_HELLO] = "hello",   [UP_REPORT] = "report",     [UP_BEAT] = "beat",
    [UP_ANSWER] = "answer", [UP_PROGRESS] = "progress",
};

static const char *const downs[DOWN_COUNT] = {
    [DOWN_WELCOME] = "welcome", [DOWN_KEEP] = "keep", [DOWN_ORDER] = "order", [DOWN_ACK] = "ack",
    [DOWN_BEAT] = "beat",       [DOWN_ASK] = "ask",   [DOWN_BYE] = "bye",
};

static int word_find(const char *const *words, int count, const char *name)
{
    if (!name)
        return -ENOENT;
    for (int i = 0; i < count; i++)
        if (strcmp(words[i], name) == 0)
            return i;
    return -ENOENT;
}

const char *task_state_name(enum task_state state)
{
    return state < TASK_STATE_COUNT ? task_states[state] : "unknown";
}

int task_state_find(const char *name)
{
    return word_find(task_states, TASK_STATE_COUNT, name);
}

const char *order_name(enum order_kind kind)
{
    return kind < ORDER_COUNT ? orders[kind] : "unknown";
}

int order_find(const char *name)
{
    return word_find(orders, ORDER_COUNT, name);
}

const char *agent_up_name(enum agent_up kind)
{
    return kind < UP_COUNT ? ups[kind] : "unknown";
}

int agent_up_find(const char *name)
{
    return word_find(ups, UP_COUNT, name);
}

const char *agent_down_name(enum agent_down kind)
{
    return kind < DOWN_COUNT ? downs[kind] : "unknown";
}

int agent_down_find(const char *name)
{
    return word_find(downs, DOWN_COUNT, name);
}
