/* SPDX-License-Identifier: Apache-2.0 */
/* task_place.c - see task_place.h. */
#include "solve/task_place.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static bool before(const struct task_node *nodes, enum gain_resource by, uint32_t a, uint32_t b)
{
    return nodes[a].free[by] > nodes[b].free[by] || (nodes[a].free[by] == nodes[b].free[by] && a < b);
}

/* A heap with the least of the order at its root: what a sort in place needs to give most room first. */
static void sink(const struct task_node *nodes, enum gain_resource by, uint32_t *heap, uint32_t count, uint32_t at)
{
    for (;;) {
        uint32_t child = 2 * at + 1, moved = heap[at];

        if (child >= count)
            return;
        if (child + 1 < count && before(nodes, by, heap[child], heap[child + 1]))
            child++;
        if (!before(nodes, by, moved, heap[child]))
            return;
        heap[at] = heap[child];
        heap[child] = moved;
        at = child;
    }
}

static void sort(const struct task_node *nodes, enum gain_resource by, uint32_t *order, uint32_t count)
{
    for (uint32_t i = count / 2; i-- > 0;)
        sink(nodes, by, order, count, i);
    for (uint32_t end = count; end-- > 1;) {
        uint32_t last = order[0];

        order[0] = order[end];
        order[end] = last;
        sink(nodes, by, order, end, 0);
    }
}

static bool room(const struct task_node *node, const struct task_request *request, int workers, int servers)
{
    for (int r = 0; r < GAIN_RESOURCES; r++)
        if (request->worker[r] * workers + request->server[r] * servers > node->free[r] * (1 + 1e-12))
            return false;
    return true;
}

static void take(struct task_node *node, const struct task_request *request, int workers, int servers)
{
    for (int r = 0; r < GAIN_RESOURCES; r++)
        node->free[r] -= request->worker[r] * workers + request->server[r] * servers;
}

/* The i-th of k nodes' part of n tasks dealt in turn. */
static int dealt(int n, int k, int i)
{
    return n / k + (i < n % k);
}

static bool even(struct task_node *nodes, const struct task_request *request, const uint32_t *order, int k,
                 struct task_part *parts)
{
    for (int i = 0; i < k; i++)
        if (!room(&nodes[order[i]], request, dealt(request->workers, k, i), dealt(request->servers, k, i)))
            return false;
    for (int i = 0; i < k; i++) {
        parts[i] = (struct task_part){ order[i], dealt(request->workers, k, i), dealt(request->servers, k, i) };
        take(&nodes[order[i]], request, parts[i].workers, parts[i].servers);
    }
    return true;
}

/* One more task of a kind on the first node in order that takes it. */
static bool squeeze(struct task_node *nodes, const struct task_request *request, struct task_part *parts,
                    uint32_t count, bool server)
{
    for (uint32_t i = 0; i < count; i++)
        if (room(&nodes[parts[i].node], request, !server, server)) {
            take(&nodes[parts[i].node], request, !server, server);
            parts[i].servers += server;
            parts[i].workers += !server;
            return true;
        }
    return false;
}

static int partial(struct task_node *nodes, uint32_t count, struct task_request *request, struct task_part *parts,
                   const uint32_t *order)
{
    int servers = 0, workers = 0, used = 0;
    bool more = true;

    for (uint32_t i = 0; i < count; i++)
        parts[i] = (struct task_part){ .node = order[i] };
    while (more) {
        bool server = servers < request->servers && squeeze(nodes, request, parts, count, true);
        bool worker = workers < request->workers && squeeze(nodes, request, parts, count, false);

        servers += server;
        workers += worker;
        more = server || worker;
    }
    if ((servers == 0 && request->servers > 0) || workers == 0) {
        for (uint32_t i = 0; i < count; i++)
            take(&nodes[parts[i].node], request, -parts[i].workers, -parts[i].servers);
        return -EBUSY;
    }
    for (uint32_t i = 0; i < count; i++)
        if (parts[i].servers || parts[i].workers)
            parts[used++] = parts[i];
    request->servers = servers;
    request->workers = workers;
    return used;
}

int task_place(struct task_node *nodes, uint32_t count, struct task_request *request, struct task_part *parts,
               uint32_t *order)
{
    uint32_t tasks = (uint32_t)(request->workers > request->servers ? request->workers : request->servers);

    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    sort(nodes, request->by, order, count);
    for (uint32_t k = 1; k <= count && k <= tasks; k++)
        if (even(nodes, request, order, (int)k, parts))
            return (int)k;
    return partial(nodes, count, request, parts, order);
}
