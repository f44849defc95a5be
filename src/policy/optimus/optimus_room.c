/* SPDX-License-Identifier: Apache-2.0 */
/* optimus_room.c - placement of Optimus: the fewest nodes, the same number of workers on each. */
#include <errno.h>
#include <string.h>

#include "core/ledger/host_resources.h"
#include "policy/optimus/optimus.h"

struct seeker {
    uint32_t index;
    const struct job *job;
};

/* Whether the job could have that GPU: it is free, or its own, and no worker was found slow there. */
static bool mine_or_free(const struct optimus *o, const struct ledger *ledger, uint32_t gpu, uint32_t job)
{
    if (o->slow_next && learn_slow(o, gpu))
        return false;
    if (ledger_whole(ledger, gpu))
        return true;
    for (uint32_t s = ledger->gpus[gpu].shares; s != SHARE_NONE; s = ledger->shares[s].next_of_gpu)
        if (ledger->shares[s].job == job && !ledger->shares[s].leaving && ledger->gpus[gpu].leaving == 0)
            return true;
    return false;
}

/* GPUs of the node that the job could have, as far as there are CPUs and memory for them: those it has bring their
 * own. */
static uint32_t node_room(const struct optimus *o, const struct ledger *ledger, uint32_t node,
                          const struct seeker *for_whom)
{
    const struct node *n = &ledger->topo.nodes[node];
    const struct jobspec *spec = &for_whom->job->spec;
    uint32_t count = n->free, mine = 0, most;

    if (!node_allows(n, ledger->imagined ? 0 : spec->mark, spec->kept))
        return 0;
    if (for_whom->job->gpus > 0 || o->slow_next) {
        count = 0;
        for (uint32_t g = n->first_gpu; g < n->first_gpu + n->gpus; g++) {
            bool has = mine_or_free(o, ledger, g, for_whom->index);

            count += has;
            mine += has && !ledger_whole(ledger, g);
        }
    }
    if (!ledger->hosts || !host_asks(spec))
        return count;
    most = host_times(ledger, node, &(struct host_room){ spec->mcpus, spec->host_mib });
    return most < count - mine ? most + mine : count;
}

/* What one job uses, once or taken away again. Its servers are dealt in turn to the nodes it has GPUs on. */
static void count_job(struct planner_ctx *ctx, uint32_t index, double sign)
{
    struct optimus *o = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct job *job = view_job(ctx->view, index);
    double task = sign * (double)ctx->params[P_TASK_CPUS] / (double)PPM_ONE;
    int32_t servers = job->spec.servers > 0 ? learn_servers(job) : 0, nodes = 0, at = 0;
    uint32_t node = UINT32_MAX;

    for (uint32_t s = view_shares(ctx->view, index); s != SHARE_NONE; s = ledger->shares[s].next_of_job)
        if (ledger->gpus[ledger->shares[s].gpu].node != node) {
            node = ledger->gpus[ledger->shares[s].gpu].node;
            nodes++;
        }
    if (nodes == 0)
        return;
    node = UINT32_MAX;
    for (uint32_t s = view_shares(ctx->view, index); s != SHARE_NONE; s = ledger->shares[s].next_of_job) {
        uint32_t here = ledger->gpus[ledger->shares[s].gpu].node;

        if (here >= OPTIMUS_NODES)
            continue;
        o->cpus[here] += task;
        if (here != node)
            o->cpus[here] += task * (servers / nodes + (at++ < servers % nodes));
        node = here;
    }
}

void room_count_cpus(struct planner_ctx *ctx)
{
    struct optimus *o = ctx->state;

    memset(o->cpus, 0, sizeof(o->cpus));
    for (uint32_t i = ctx->vc->run_first; i != JOB_NONE; i = view_job(ctx->view, i)->next)
        count_job(ctx, i, 1);
}

/* Nodes of the type with room into o->nodes. */
static uint32_t gather(struct planner_ctx *ctx, uint32_t job, uint32_t sku)
{
    struct optimus *o = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    struct seeker for_whom = { job, view_job(ctx->view, job) };
    uint32_t count = 0;

    for (uint32_t n = 0; n < ledger->topo.node_count && count < OPTIMUS_NODES; n++) {
        uint32_t room;

        if (ledger->topo.nodes[n].sku != sku || !ledger->topo.nodes[n].up)
            continue;
        room = node_room(o, ledger, n, &for_whom);
        if (!room)
            continue;
        o->nodes[count] = (struct task_node){ .free = { [GAIN_GPU] = room } };
        if (o->served)
            o->nodes[count].free[GAIN_CPU] =
                ledger->topo.nodes[n].gpus * (double)ctx->params[P_GPU_CPUS] / (double)PPM_ONE - o->cpus[n];
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

static int find_nodes(struct planner_ctx *ctx, uint32_t job, uint32_t sku, struct task_request *request)
{
    struct optimus *o = ctx->state;
    bool holds = o->served && view_job(ctx->view, job)->gpus > 0;
    int parts;

    if (holds)
        count_job(ctx, job, -1);
    parts = task_place(o->nodes, gather(ctx, job, sku), request, o->parts, o->order);
    if (holds)
        count_job(ctx, job, 1);
    return parts;
}

/* Servers stand beside workers only: parts without are left out. */
static int with_workers(struct optimus *o, int parts)
{
    int kept = 0;

    for (int i = 0; i < parts; i++)
        if (o->parts[i].workers > 0)
            o->parts[kept++] = o->parts[i];
    return kept;
}

/* Servers as count_job() will count them: in turn to the nodes in ascending order. As many of those asked for as have
 * CPUs there. */
static int32_t deal_servers(struct optimus *o, int parts, int32_t servers, double cpus)
{
    for (; servers > 0; servers--) {
        bool fits = true;

        for (int i = 0; i < parts && fits; i++) {
            double free = o->nodes[o->parts[i].node].free[GAIN_CPU] + o->parts[i].servers * cpus;

            fits = (servers / parts + (i < servers % parts)) * cpus <= free + 1e-9;
        }
        if (fits)
            break;
    }
    return servers;
}

int room_find(struct planner_ctx *ctx, uint32_t job, uint32_t sku, const int32_t range[2], int32_t *servers,
              struct placement *ret)
{
    struct optimus *o = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    double cpus = o->served ? (double)ctx->params[P_TASK_CPUS] / (double)PPM_ONE : 0;
    struct task_request request = { .worker = { [GAIN_GPU] = 1, [GAIN_CPU] = cpus },
                                    .server = { [GAIN_CPU] = cpus },
                                    .workers = range[1],
                                    .servers = o->served ? *servers : 0,
                                    .by = GAIN_GPU };
    int parts = find_nodes(ctx, job, sku, &request);
    uint32_t taken = 0;

    if (parts < 0 || request.workers < range[0])
        return -EBUSY;
    sort_parts(o->parts, parts);
    parts = with_workers(o, parts);
    if (o->served && *servers > 0) {
        *servers = deal_servers(o, parts, request.servers, cpus);
        if (*servers == 0)
            return -EBUSY;
    }
    for (int i = 0; i < parts; i++) {
        const struct node *node = &ledger->topo.nodes[o->node_of[o->parts[i].node]];
        int left = o->parts[i].workers, others = left;

        /* What it has there it keeps; the rest are the lowest free ones. */
        for (uint32_t g = node->first_gpu; g < node->first_gpu + node->gpus && others > 0; g++)
            others -= !ledger_whole(ledger, g) && mine_or_free(o, ledger, g, job);
        for (uint32_t g = node->first_gpu; g < node->first_gpu + node->gpus && left > 0; g++)
            if (mine_or_free(o, ledger, g, job) && (!ledger_whole(ledger, g) || others-- > 0)) {
                o->gpus[taken++] = g;
                left--;
            }
    }
    *ret = (struct placement){ o->gpus, taken };
    return taken == (uint32_t)request.workers ? 0 : -EBUSY;
}
