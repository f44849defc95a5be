/* SPDX-License-Identifier: Apache-2.0 */
/* turns.c - see turns.h. */
#include "gpurt/control/turns.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gpurt/node.h"

uint64_t turn_length(uint32_t share, uint32_t least)
{
    uint64_t mine = share ? share : PAGE_PERMILLE, small = least ? least : PAGE_PERMILLE;
    uint64_t whole = TURN_NS * mine / PAGE_PERMILLE, scaled = TURN_LEAST_NS * mine / small;
    uint64_t ns = whole > scaled ? whole : scaled;

    return ns < TURN_LEAST_NS ? TURN_LEAST_NS : ns < TURN_MOST_NS ? ns : TURN_MOST_NS;
}

static bool takes_turns(const struct client *c, int index)
{
    return c->fd >= 0 && c->role == ROLE_OPPORTUNISTIC && c->state == CLIENT_RUNNING && client_on(c, index);
}

/* How long the turn of the one that has it is. */
static uint64_t turn_ns(struct node *node, int index, pid_t holder)
{
    const struct client *c = node_find(node, holder);
    uint32_t least = PAGE_PERMILLE;

    for (int i = 0; i < NODE_CLIENTS; i++)
        if (takes_turns(&node->client[i], index) && node->client[i].duty && node->client[i].duty < least)
            least = node->client[i].duty;
    return turn_length(c ? c->duty : 0, least);
}

void turns_rotate(struct node *node, int index, uint32_t neighbours, uint64_t now)
{
    struct gpu_arena *gpu = &node->gpu[index];
    uint32_t last = gpu->arena->ot_turn_pid, first = 0, next = 0;

    if (neighbours > 1 && now - gpu->turn_since_ns < turn_ns(node, index, (pid_t)last))
        return;
    gpu->turn_since_ns = now;
    for (int i = 0; i < NODE_CLIENTS && neighbours > 1; i++) {
        const struct client *c = &node->client[i];
        uint32_t pid = (uint32_t)c->pid;

        if (!takes_turns(c, index))
            continue;
        first = first == 0 || pid < first ? pid : first;
        if (pid > last && (next == 0 || pid < next))
            next = pid;
    }
    next = next ? next : first;
    if (next != last) {
        __atomic_store_n(&gpu->arena->ot_turn_pid, next, __ATOMIC_SEQ_CST);
        (void)syscall(SYS_futex, &gpu->arena->ot_turn_pid, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    }
}
