/* SPDX-License-Identifier: Apache-2.0 */
/* optimus_room.c - placement of Optimus: the fewest nodes, the same number of workers on each. */
#include <errno.h>

#include "policy/optimus.h"

/* Whether the job could have that GPU: it is free, or its own. */
static bool mine_or_free(const struct ledger *ledger, uint32_t gpu, uint32_t job)
{
    if (ledger_whole(ledger, gpu))
        return true;
    for (uint32_t s = ledger->gpus[gpu].shares; s != SHARE_NONE; s = ledger->shares[s].next_of_gpu)
        if (ledger->shares[s].job == job && !ledger->shares[s].leaving && ledger->gpus[gpu].leaving == 0)
            return true;
    return false;
}

static uint32_t node_room(const struct ledger *ledger, uint32_t node, uint32_t job, bool holds)
{
    const struct node *n = &ledger->topo.nodes[node];
    uint32_t count = 0;

    if (!holds)
        return n->free;
    for (uint32_t g = n->first_gpu; g < n->first_gpu + n->gpus; g++)
        count += mine_or_free(ledger, g, job);
    return count;
}

/* Nodes of the type with room into o->nodes. */
static uint32_t gather(struct planner_ctx *ctx, uint32_t job, uint32_t sku)
{
    struct optimus *o = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    bool holds = view_job(ctx->view, job)->gpus > 0;
    uint32_t count = 0;

    for (uint32_t n = 0; n < ledger->topo.node_count && count < OPTIMUS_NODES; n++) {
        uint32_t room;

        if (ledger->topo.nodes[n].sku != sku || !ledger->topo.nodes[n].up)
            continue;
        room = node_room(ledger, n, job, holds);
        if (!room)
            continue;
        o->nodes[count] = (struct task_node){ .free = { [GAIN_GPU] = room } };
        o->node_of[count++] = n;
    }
    return count;
}

/* Parts into ascending order of nodes, as placements are. Few parts: by insertion. */
static void sort_parts(struct task_part *parts, int count)
{
    for (int i = 1; i < count; i++) {
        struct task_part moved = parts[i];
        int k = i;

        for (; k > 0 && parts[k - 1].node > moved.node; k--)
            parts[k] = parts[k - 1];
        parts[k] = moved;
    }
}

int room_find(struct planner_ctx *ctx, uint32_t job, uint32_t sku, const int32_t range[2], struct placement *ret)
{
    struct optimus *o = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    struct task_request request = { .worker = { [GAIN_GPU] = 1 }, .workers = range[1], .by = GAIN_GPU };
    uint32_t count = gather(ctx, job, sku), taken = 0;
    int parts = task_place(o->nodes, count, &request, o->parts, o->order);

    if (parts < 0 || request.workers < range[0])
        return -EBUSY;
    sort_parts(o->parts, parts);
    for (int i = 0; i < parts; i++) {
        const struct node *node = &ledger->topo.nodes[o->node_of[o->parts[i].node]];
        int left = o->parts[i].workers, others = left;

        /* What it has there it keeps; the rest are the lowest free ones. */
        for (uint32_t g = node->first_gpu; g < node->first_gpu + node->gpus && others > 0; g++)
            others -= !ledger_whole(ledger, g) && mine_or_free(ledger, g, job);
        for (uint32_t g = node->first_gpu; g < node->first_gpu + node->gpus && left > 0; g++)
            if (mine_or_free(ledger, g, job) && (!ledger_whole(ledger, g) || others-- > 0)) {
                o->gpus[taken++] = g;
                left--;
            }
    }
    *ret = (struct placement){ o->gpus, taken };
    return taken == (uint32_t)request.workers ? 0 : -EBUSY;
}
