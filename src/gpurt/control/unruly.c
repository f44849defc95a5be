/* SPDX-License-Identifier: Apache-2.0 */
/* unruly.c - see unruly.h. */
#include "gpurt/control/unruly.h"

#include <signal.h>
#include <string.h>

#include "gpurt/node.h"

void unruly_step(struct unruly *unruly, uint32_t launches, uint32_t wall_us, uint64_t now)
{
    if (!unruly->closed_ns || now - unruly->closed_ns < UNRULY_AFTER_NS || unruly->count == UNRULY_STEPS)
        return;
    unruly->launches[unruly->count] = launches;
    unruly->wall_us[unruly->count++] = wall_us;
}

bool unruly_turn(struct unruly *unruly, const struct baseline *alone, uint32_t eps, bool closed, uint64_t now)
{
    if (!closed) {
        *unruly = (struct unruly){ 0 };
        return false;
    }
    if (!unruly->closed_ns)
        *unruly = (struct unruly){ .closed_ns = now };
    if (unruly->count == UNRULY_STEPS) {
        bool slow = baseline_slowdown(alone, unruly->launches, unruly->wall_us, UNRULY_STEPS) > 3 * (int32_t)eps;

        unruly->strikes = slow ? unruly->strikes + 1 : 0;
        unruly->count = 0;
    }
    return unruly->strikes >= UNRULY_STRIKES;
}

enum unruly_way unruly_way(const char *text)
{
    return text && strcmp(text, "end") == 0 ? UNRULY_END : text && strcmp(text, "off") == 0 ? UNRULY_OFF : UNRULY_STOP;
}

void unruly_act(struct node *node, int index, bool suffers, bool closed)
{
    for (int i = 0; i < NODE_CLIENTS; i++) {
        struct client *c = &node->client[i];

        if (c->fd < 0 || c->role != ROLE_OPPORTUNISTIC || !client_on(c, index))
            continue;
        if (c->hold.kind == HOLD_STOPPED && !closed)
            hold_end(&c->hold, c->pid, c->start_ticks);
        /* One that still has to reach the end of a step keeps to its gate; of one NVML says that it does nothing. */
        if (!suffers || c->state != CLIENT_RUNNING || c->page->control.gate != GATE_CLOSED || c->util == 0)
            continue;
        if (node->unruly == UNRULY_STOP)
            (void)hold_stop(&c->hold, c->pid, c->start_ticks);
        else if (node->unruly == UNRULY_END)
            (void)kill(c->pid, SIGKILL);
    }
}
