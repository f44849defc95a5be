/* SPDX-License-Identifier: Apache-2.0 */
/* host_resources.c - see host_resources.h. Jobs without GPUs are in gpuless.c. */
#include "core/ledger/host_resources.h"

#include <assert.h>
#include <errno.h>

#include "core/core_internal.h"

/* Kept for nobody, but not to be had while a placement is looked for. */
#define JOB_HIDDEN (JOB_NONE - 1)

static void add(struct host_room *to, const struct host_room *each)
{
    to->mcpus += each->mcpus;
    to->mib += each->mib;
}

static void subtract(struct host_room *from, const struct host_room *each)
{
    assert(from->mcpus >= each->mcpus);
    assert(from->mib >= each->mib);
    from->mcpus -= each->mcpus;
    from->mib -= each->mib;
}

void host_change(struct ledger *ledger, const struct job *job, enum host_change change)
{
    for (uint32_t s = job->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job) {
        uint32_t node = ledger->gpus[ledger->shares[s].gpu].node;
        struct host *host = &ledger->hosts[node];
        struct host_room each = host_each(ledger, node, &job->spec);

        if (ledger->shares[s].part == PART_OLD)
            continue;
        if (change == HOST_LEAVE)
            subtract(&host->used, &each);
        if (change == HOST_STAY || change == HOST_GO)
            subtract(&host->leaving, &each);
        if (change == HOST_TAKE || change == HOST_STAY)
            add(&host->used, &each);
        if (change == HOST_LEAVE)
            add(&host->leaving, &each);
    }
    if (change == HOST_LEAVE)
        ledger->releases++;
}

void host_share(struct ledger *ledger, const struct job *job, const struct share *share, int sign)
{
    uint32_t node = ledger->gpus[share->gpu].node;
    struct host_room each, *room;

    if (!ledger->hosts || share->off || !host_asks(&job->spec))
        return;
    each = host_each(ledger, node, &job->spec);
    room = share->leaving ? &ledger->hosts[node].leaving : &ledger->hosts[node].used;
    if (sign > 0)
        add(room, &each);
    else
        subtract(room, &each);
}

bool host_lands(const struct ledger *ledger, const struct job *job, const struct placement *to)
{
    uint32_t here = 0;

    for (uint32_t i = 0; ledger->hosts && host_asks(&job->spec) && i < to->count; i++) {
        uint32_t node = ledger->gpus[to->gpus[i]].node;
        const struct host *host = &ledger->hosts[node];
        struct host_room each = host_each(ledger, node, &job->spec);
        uint64_t mcpus = (uint64_t)host->used.mcpus + host->leaving.mcpus;
        uint64_t mib = (uint64_t)host->used.mib + host->leaving.mib, own = 0;

        here = i && ledger->gpus[to->gpus[i - 1]].node == node ? here + 1 : 1;
        for (uint32_t s = job->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job)
            own += ledger->shares[s].leaving && ledger->gpus[ledger->shares[s].gpu].node == node;
        if ((host->most.mcpus && mcpus + here * (uint64_t)each.mcpus > host->most.mcpus + own * each.mcpus) ||
            (host->most.mib && mib + here * (uint64_t)each.mib > host->most.mib + own * each.mib))
            return false;
    }
    return true;
}

static uint32_t times(uint32_t most, uint32_t used, uint32_t each)
{
    if (each == 0 || most == 0)
        return UINT32_MAX;
    return most > used ? (most - used) / each : 0;
}

uint32_t host_times(const struct ledger *ledger, uint32_t node, const struct host_room *each)
{
    const struct host *host = &ledger->hosts[node];
    uint32_t cpus = times(host->most.mcpus, host->used.mcpus, each->mcpus);
    uint32_t mib = times(host->most.mib, host->used.mib, each->mib);

    return cpus < mib ? cpus : mib;
}

bool host_over(const struct ledger *ledger, uint32_t node)
{
    const struct host *host = &ledger->hosts[node];

    return (host->most.mcpus && (uint64_t)host->used.mcpus + host->leaving.mcpus > host->most.mcpus) ||
           (host->most.mib && (uint64_t)host->used.mib + host->leaving.mib > host->most.mib);
}

int host_fits(const struct ledger *ledger, const struct placement *to, const struct jobspec *spec)
{
    uint32_t here = 0;

    if (!ledger->hosts || !host_asks(spec))
        return 0;
    for (uint32_t i = 0; i < to->count; i++) {
        uint32_t node = ledger->gpus[to->gpus[i]].node;
        struct host_room each = host_each(ledger, node, spec);

        here = i && ledger->gpus[to->gpus[i - 1]].node == node ? here + 1 : 1;
        if (here > host_times(ledger, node, &each))
            return -EBUSY;
    }
    return 0;
}

bool host_has_room(const struct ledger *ledger, const struct job *job)
{
    uint32_t here = 0, last = UINT32_MAX;

    for (uint32_t s = job->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job) {
        uint32_t node = ledger->gpus[ledger->shares[s].gpu].node;
        struct host_room each = host_each(ledger, node, &job->spec);

        if (ledger->shares[s].part == PART_OLD)
            continue;
        here = node == last ? here + 1 : 1;
        last = node;
        if (here > host_times(ledger, node, &each))
            return false;
    }
    return true;
}

/* From the last of the node on: what is left to be seen begins where a placement would begin. */
static uint32_t hide_on(struct ledger *ledger, uint32_t index, uint32_t keep, uint32_t *hidden)
{
    const struct node *node = &ledger->topo.nodes[index];
    uint32_t free = node->free, count = 0;

    for (uint32_t g = node->first_gpu + node->gpus; g-- > node->first_gpu;) {
        struct gpu *gpu = &ledger->gpus[g];
        bool open = gpu->used > 0 && gpu->used < MGPU_ONE && !gpu->bound;

        if (open && keep == 0) {
            tree_remove(ledger->open_nodes, &ledger->open_trees[node->sku], g);
            hidden[count++] = g;
        } else if (free > keep && ledger_whole(ledger, g)) {
            ledger_hide(ledger, g, JOB_HIDDEN);
            hidden[count++] = g;
            free--;
        }
    }
    return count;
}

int host_allows(const struct ledger *ledger, const struct placement *to, const struct jobspec *spec)
{
    /* Which node of the cluster an imagined one is, its cells say. */
    uint8_t mark = ledger->imagined ? 0 : spec->mark;

    if (mark == 0 && spec->kept == 0 && ledger->topo.kept_count == 0)
        return 0;
    for (uint32_t i = 0; i < to->count; i++)
        if (!node_allows(&ledger->topo.nodes[ledger->gpus[to->gpus[i]].node], mark, spec->kept))
            return -EBUSY;
    return 0;
}

uint32_t host_hide(struct ledger *ledger, const struct host_wish *wish, uint32_t sku, uint32_t *hidden)
{
    bool asks = ledger->hosts && (wish->each.mcpus | wish->each.mib) != 0;
    uint32_t count = 0;

    if (!asks && wish->mark == 0 && wish->kept == 0 && !wish->shut && ledger->topo.kept_count == 0)
        return 0;
    for (uint32_t n = 0; n < ledger->topo.node_count; n++) {
        const struct node *node = &ledger->topo.nodes[n];
        uint32_t keep = node->gpus;

        if (node->sku != sku || !node->up)
            continue;
        if (!node_allows(node, wish->mark, wish->kept) || (wish->shut && wish->shut[n / 64] >> (n % 64) & 1))
            keep = 0;
        else if (asks)
            keep = host_times(ledger, n, &wish->each);
        if (keep < node->free || keep == 0)
            count += hide_on(ledger, n, keep, hidden + count);
    }
    return count;
}

void host_show(struct ledger *ledger, const uint32_t *hidden, uint32_t count)
{
    while (count-- > 0) {
        uint32_t g = hidden[count];

        if (ledger->gpus[g].reserved_for == JOB_HIDDEN)
            ledger_hide(ledger, g, JOB_NONE);
        else
            tree_insert(ledger->open_nodes, &ledger->open_trees[ledger->topo.nodes[ledger->gpus[g].node].sku], g);
    }
}

static void recount(const struct core *core, struct ledger *ledger)
{
    for (uint32_t n = 0; n < ledger->topo.host_count; n++)
        ledger->hosts[n].used = ledger->hosts[n].leaving = ledger->hosts[n].held = ledger->hosts[n].parting =
            (struct host_room){ 0 };
    for (uint32_t i = 0; i < core->job_top; i++) {
        const struct job *job = &core->jobs[i];
        uint32_t s = ledger->imagined ? job->own_shares : job->shares;

        if (ledger->imagined && core->vcs[job->vc].own != ledger)
            continue;
        for (; s != SHARE_NONE && host_asks(&job->spec); s = ledger->shares[s].next_of_job) {
            uint32_t node = ledger->gpus[ledger->shares[s].gpu].node;
            struct host *host = &ledger->hosts[node];
            struct host_room each = host_each(ledger, node, &job->spec);

            if (!ledger->shares[s].off)
                add(ledger->shares[s].leaving ? &host->leaving : &host->used, &each);
        }
    }
}

void host_recount(struct core *core)
{
    if (!core->ledger.hosts)
        return;
    recount(core, &core->ledger);
    for (uint32_t v = 0; v < core->vc_count && core->cells; v++)
        if (core->vcs[v].own->hosts)
            recount(core, core->vcs[v].own);
    tasks_recount(core);
}
