/* SPDX-License-Identifier: Apache-2.0 */
/* order.c - orders to a process that do not move it: how long its steps are alone, and to let go of us. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "gpurt/node.h"
#include "shim/channel.h"

#define SEC 1000000000ULL
#define BASELINE_NS (60 * SEC)
#define DUMP_NS (5 * SEC)

static int idle(const struct client *client, struct error *err)
{
    if (client->step != STEP_NONE)
        return error_set(err, -EBUSY, "process %d: an order to it is not finished; wait for it", (int)client->pid);
    return 0;
}

int ladder_baseline(struct node *node, struct client *client, uint32_t steps, struct error *err)
{
    int r = idle(client, err);

    if (r < 0)
        return r;
    if (client->state != CLIENT_RUNNING)
        return error_set(err, -EBUSY, "process %d is %s; resume it first", (int)client->pid,
                         client_state_name(client->state));
    for (int i = 0; i < PAGE_GPUS; i++)
        if (node->gpu[i].used && node->gpu[i].pair == client->pid)
            pair_again(&node->gpu[i].loop);
    client->order_since_ns = node_now();
    client->step = STEP_BASELINE;
    client->step_since_ns = client->order_since_ns;
    client->step_seq = control_command(client, OP_BASELINE, 0, steps, BASELINE_NS);
    return 0;
}

int ladder_dump(struct node *node, struct client *client, uint32_t seconds, struct error *err)
{
    int r = idle(client, err);

    (void)node;
    if (r < 0)
        return r;
    if (client->state == CLIENT_RUNNING)
        return error_set(err, -EBUSY, "process %d runs; pause, evict or release it first", (int)client->pid);
    hold_end(&client->hold, client->pid, client->start_ticks); /* its helper has something to do */
    client->order_since_ns = node_now();
    client->step = STEP_DUMP;
    client->step_since_ns = client->order_since_ns;
    client->step_seq = control_command(client, OP_DUMP, 0, seconds * SEC, DUMP_NS);
    return 0;
}

void ladder_gone(struct node *node, struct client *client)
{
    char text[NODE_LINE];

    if (client->step == STEP_DUMP && channel_start_ticks(client->pid) == client->start_ticks &&
        kill(client->pid, 0) == 0)
        (void)snprintf(text, sizeof(text), "ok %d: %s, and holds nothing of the node side's; it comes back by itself",
                       (int)client->pid, client_state_name(client->state));
    else if (client->step == STEP_END)
        (void)snprintf(text, sizeof(text), "ok %d: %s", (int)client->pid, client->ending.said);
    else
        (void)snprintf(text, sizeof(text), "error: the process ended");
    answer_tell(node, client->pid, text);
}

void order_done(struct node *node, struct client *client, int r)
{
    const char *alone = "";
    char text[NODE_LINE];

    for (int i = 0; i < PAGE_GPUS; i++)
        if (node->gpu[i].used && node->gpu[i].rg == client->pid)
            alone = node->gpu[i].arena->ot_count ? ", its neighbours closed" : ", alone on its GPU";
    if (r == -ETIMEDOUT && client->step == STEP_BASELINE)
        (void)snprintf(text, sizeof(text),
                       "error: process %d: too few steps of it ended in %llu s; they are seen by tier "
                       "%u",
                       (int)client->pid, BASELINE_NS / SEC, client->page->step.tier);
    else if (r < 0)
        (void)snprintf(text, sizeof(text), "error: process %d: %s; %.*s", (int)client->pid,
                       r == -ETIMEDOUT ? "its helper does not answer" : strerror(-r), PAGE_ERROR_MAX - 1,
                       client->page->health.error);
    else
        (void)snprintf(text, sizeof(text), "ok %d: a step is %.3f ms%s", (int)client->pid,
                       (double)client->moved.bytes / 1e3, alone);
    client->step = STEP_NONE;
    answer_tell(node, client->pid, text);
}
