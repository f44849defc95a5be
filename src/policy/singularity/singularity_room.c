/* SPDX-License-Identifier: Apache-2.0 */
/* singularity_room.c - where jobs stand: one region, few nodes, tensor-parallel groups on one node each.
 *
 * A region is a domain of the cluster. A job stands in one of them, unless jobs may span regions. It shrinks in place,
 * and so that nodes become free; it grows first on the nodes it has.
 */
#include <errno.h>

#include "model/splice.h"
#include "policy/singularity/singularity.h"

static const struct topo *topo_of(const struct planner_ctx *ctx)
{
    return &view_ledger(ctx->view)->topo;
}

/* Regions that count. Very many are taken for one. */
static uint32_t regions(const struct planner_ctx *ctx)
{
    const struct topo *topo = topo_of(ctx);
    uint32_t count = topo->zones[ZONE_DOMAIN].count;

    return ctx->params[P_SPAN] || count * topo->sku_count > HOMES_MAX ? 1 : count;
}

uint32_t home_count(const struct planner_ctx *ctx)
{
    return regions(ctx) * topo_of(ctx)->sku_count;
}

uint32_t home_sku(const struct planner_ctx *ctx, int32_t home)
{
    return (uint32_t)home % topo_of(ctx)->sku_count;
}

const struct pool *home_pool(const struct planner_ctx *ctx, int32_t home)
{
    const struct topo *topo = topo_of(ctx);
    uint32_t pool = topo->sku_pools[home_sku(ctx, home)];

    if (regions(ctx) > 1)
        pool = topo->zones[ZONE_DOMAIN].pools[home];
    return pool == POOL_NONE ? NULL : &topo->pools[pool];
}

/* GPUs there that are in order; of those of a type as large a part as the virtual cluster is owed of all. */
int32_t home_capacity(const struct planner_ctx *ctx, int32_t home)
{
    const struct pool *pool = home_pool(ctx, home);
    uint32_t sku = home_sku(ctx, home);
    int64_t all = (int64_t)topo_of(ctx)->sku_gpus[sku] * MGPU_ONE, quota = ctx->vc->quota[sku];

    if (!pool)
        return 0;
    return quota >= all ? (int32_t)pool->total : (int32_t)muldiv_floor(pool->total, quota, all);
}

static int32_t home_at(const struct planner_ctx *ctx, uint32_t node)
{
    const struct topo *topo = topo_of(ctx);
    uint32_t sku = topo->nodes[node].sku, zone = 0;

    if (regions(ctx) > 1)
        zone = topo_above(topo, node, LEVEL_DOMAIN) - topo->zones[ZONE_DOMAIN].first_cell;
    return (int32_t)(zone * topo->sku_count + sku);
}

int32_t home_of(const struct planner_ctx *ctx, uint32_t job)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    uint32_t share = view_shares(ctx->view, job);

    if (home_count(ctx) == 1 && share != SHARE_NONE)
        return 0;
    return share == SHARE_NONE ? HOME_NONE : home_at(ctx, ledger->gpus[ledger->shares[share].gpu].node);
}

int32_t home_room(const struct planner_ctx *ctx, const struct plan *plan, int32_t home, uint8_t klass)
{
    const struct singularity *s = ctx->state;
    const struct pool *pool = home_pool(ctx, home);
    int64_t budget = plan_budget(plan, home_sku(ctx, home), klass) / MGPU_ONE, free = pool ? pool->free : 0;

    free -= s->earmarked[home];
    for (uint32_t h = 0; h < home_count(ctx); h++)
        if (home_sku(ctx, (int32_t)h) == home_sku(ctx, home))
            budget -= s->earmarked[h];
    free = budget < free ? budget : free;
    return free > 0 ? (int32_t)free : 0;
}

int32_t size_fit(const struct planner_ctx *ctx, const struct jobspec *spec, int32_t gpus)
{
    if (gpus >= spec->gpus)
        return spec->gpus;
    return ctx->params[P_SPLICE] ? splice_fit(spec, gpus) : 0;
}

int32_t size_least(const struct planner_ctx *ctx, const struct jobspec *spec)
{
    return ctx->params[P_SPLICE] ? splice_least(spec) : spec->gpus;
}

uint32_t stand_group(const struct jobspec *spec, const struct pool *pool)
{
    return spec->tp > 1 && spec->tp <= pool->gpus_max ? spec->tp : 1;
}

static bool is_kept(const struct singularity *s, uint32_t gpu)
{
    return s->kept_count && s->kept_bits[gpu / 64] >> (gpu % 64) & 1;
}

void stand_keep(struct planner_ctx *ctx, const struct placement *to)
{
    struct singularity *s = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);

    for (uint32_t i = 0; i < to->count && s->kept_count < GANG_GPUS_MAX; i++) {
        uint32_t gpu = to->gpus[i];

        if (!ledger_whole(ledger, gpu) || is_kept(s, gpu))
            continue; /* its own */
        s->kept[s->kept_count++] = gpu;
        s->kept_bits[gpu / 64] |= (uint64_t)1 << (gpu % 64);
    }
}

void stand_forget(struct planner_ctx *ctx)
{
    struct singularity *s = ctx->state;

    while (s->kept_count) {
        uint32_t gpu = s->kept[--s->kept_count];

        s->kept_bits[gpu / 64] &= ~((uint64_t)1 << (gpu % 64));
    }
}

uint32_t stand_free(const struct planner_ctx *ctx, uint32_t node)
{
    const struct singularity *s = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct node *n = &ledger->topo.nodes[node];
    uint32_t free = n->up ? n->free : 0;

    for (uint32_t g = n->first_gpu; s->kept_count && free && g < n->first_gpu + n->gpus; g++)
        free -= ledger_whole(ledger, g) && is_kept(s, g);
    return free;
}

/* Takes GPUs of a node that nobody is on; then such that are being left. */
static void take_from(struct planner_ctx *ctx, uint32_t node, uint32_t need, uint32_t *count)
{
    struct singularity *s = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct node *n = &ledger->topo.nodes[node];

    for (int left = 0; left < 2; left++)
        for (uint32_t g = n->first_gpu; need && g < n->first_gpu + n->gpus; g++)
            if (ledger_whole(ledger, g) && !is_kept(s, g) && (ledger->gpus[g].leaving > 0) == (left == 1)) {
                s->gpus[(*count)++] = g;
                need--;
            }
}

void stand_sort(uint32_t *gpus, uint32_t count)
{
    for (uint32_t gap = count / 2; gap; gap /= 2)
        for (uint32_t i = gap; i < count; i++) {
            uint32_t gpu = gpus[i], at = i;

            for (; at >= gap && gpus[at - gap] > gpu; at -= gap)
                gpus[at] = gpus[at - gap];
            gpus[at] = gpu;
        }
}

/* From the emptiest nodes down, whole groups each; the last part where it leaves the smallest hole. */
static uint32_t take_spread(struct planner_ctx *ctx, const struct pool *pool, uint32_t need, uint32_t group)
{
    const struct topo *topo = topo_of(ctx);
    uint32_t count = 0;

    for (uint32_t free = pool->gpus_max; need && free >= group; free--)
        for (uint32_t n = pool_next(pool, (uint16_t)free, 0); need && n != BITS_NONE;
             n = pool_next(pool, (uint16_t)free, n + 1)) {
            uint32_t part = free - free % group, rest = need < free ? pool_best_fit(pool, need) : BITS_NONE;

            if (rest != BITS_NONE && topo->nodes[rest].free < free)
                n = rest;
            part = part < need ? part : need;
            take_from(ctx, n, part, &count);
            need -= part;
        }
    return need ? 0 : count;
}

/* The same node by node, where some GPUs are kept: the smallest hole that is large enough, else the largest ones. */
static uint32_t take_beside(struct planner_ctx *ctx, const struct pool *pool, uint32_t need, uint32_t group)
{
    struct singularity *s = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    uint32_t count = 0;

    while (need) {
        uint32_t best = UINT32_MAX, size = 0;

        for (uint32_t n = pool->first_node; n < pool->first_node + pool->node_count; n++) {
            uint32_t free = ledger->topo.nodes[n].sku == pool->sku ? stand_free(ctx, n) : 0;

            for (uint32_t i = 0; free && i < count; i++)
                free = ledger->gpus[s->gpus[i]].node == n ? 0 : free;
            free -= free % group;
            if (free && (best == UINT32_MAX || (size < need ? free > size : free >= need && free < size))) {
                best = n;
                size = free;
            }
        }
        if (best == UINT32_MAX)
            return 0;
        size = size < need ? size : need;
        take_from(ctx, best, size, &count);
        need -= size;
    }
    return count;
}

int stand_find(struct planner_ctx *ctx, const struct jobspec *spec, int32_t home, int32_t gpus, struct placement *ret)
{
    struct singularity *s = ctx->state;
    const struct pool *pool = home_pool(ctx, home);
    uint32_t need = (uint32_t)gpus, count = 0, node;

    if (!pool || pool->free < need)
        return -EBUSY;
    node = need <= pool->gpus_max && !s->kept_count ? pool_best_fit(pool, need) : BITS_NONE;
    if (s->kept_count)
        count = take_beside(ctx, pool, need, stand_group(spec, pool));
    else if (node != BITS_NONE)
        take_from(ctx, node, need, &count);
    else
        count = take_spread(ctx, pool, need, stand_group(spec, pool));
    if (count != need)
        return -EBUSY;
    stand_sort(s->gpus, count);
    *ret = (struct placement){ s->gpus, count };
    return 0;
}

/* What the job holds, into s->gpus; none if a node of it is closed: it cannot be given that again. */
uint32_t stand_held(struct planner_ctx *ctx, uint32_t job)
{
    struct singularity *s = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    uint32_t count = 0;

    for (uint32_t i = view_shares(ctx->view, job); i != SHARE_NONE; i = ledger->shares[i].next_of_job) {
        if (!ledger->topo.nodes[ledger->gpus[ledger->shares[i].gpu].node].up)
            return 0;
        s->gpus[count++] = ledger->shares[i].gpu;
    }
    return count;
}

/* A job that grows. */
struct more {
    uint32_t group, need, count;
    bool soon;
};

bool stand_can_have(const struct planner_ctx *ctx, uint32_t gpu, bool soon)
{
    const struct ledger *ledger = view_ledger(ctx->view);

    return ledger_whole(ledger, gpu) && !is_kept(ctx->state, gpu) && (soon || ledger->gpus[gpu].leaving == 0);
}

/* Whole groups of a node that it can have. */
static void add_free(struct planner_ctx *ctx, uint32_t node, struct more *more)
{
    struct singularity *s = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct node *n = &ledger->topo.nodes[node];
    uint32_t free = 0;

    for (uint32_t g = n->first_gpu; g < n->first_gpu + n->gpus; g++)
        free += stand_can_have(ctx, g, more->soon);
    free -= free % more->group;
    free = more->need < free ? more->need : free;
    more->need -= free;
    for (uint32_t g = n->first_gpu; free && g < n->first_gpu + n->gpus; g++)
        if (stand_can_have(ctx, g, more->soon)) {
            s->gpus[more->count++] = g;
            free--;
        }
}

int stand_more(struct planner_ctx *ctx, uint32_t job, int32_t gpus, bool soon, struct placement *ret)
{
    struct singularity *s = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct jobspec *spec = &view_job(ctx->view, job)->spec;
    const struct pool *pool = home_pool(ctx, home_of(ctx, job));
    uint32_t had = stand_held(ctx, job), last = UINT32_MAX;
    struct more more = { .need = (uint32_t)gpus - had, .count = had, .soon = soon };

    if (!had || !pool)
        return -EBUSY;
    more.group = stand_group(spec, pool);
    for (uint32_t i = 0; i < had && more.need; i++) {
        uint32_t node = ledger->gpus[s->gpus[i]].node;

        if (node != last)
            add_free(ctx, node, &more);
        last = node;
    }
    /* Small holes first: large ones are for those that cannot be torn apart. */
    for (uint32_t free = more.group; more.need && free <= pool->gpus_max; free++)
        for (uint32_t n = pool_next(pool, (uint16_t)free, 0); more.need && n != BITS_NONE;
             n = pool_next(pool, (uint16_t)free, n + 1)) {
            bool mine = false;

            for (uint32_t i = 0; i < had && !mine; i++)
                mine = ledger->gpus[s->gpus[i]].node == n;
            if (!mine)
                add_free(ctx, n, &more);
        }
    if (more.need)
        return -EBUSY;
    stand_sort(s->gpus, more.count);
    *ret = (struct placement){ s->gpus, more.count };
    return 0;
}

/* Notes what a victim would leave on which nodes, or takes the note back. */
static void note_gain(struct planner_ctx *ctx, const struct reclaim_job *victim, int sign)
{
    struct singularity *s = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    uint32_t job = s->items[victim->job].job;
    struct placement kept = { s->gpus, 0 };

    if (victim->then == victim->gpus || (victim->then > 0 && stand_less(ctx, job, victim->then, &kept) < 0))
        return;
    for (uint32_t i = view_shares(ctx->view, job), k = 0; i != SHARE_NONE; i = ledger->shares[i].next_of_job) {
        uint32_t gpu = ledger->shares[i].gpu;

        if (k < kept.count && kept.gpus[k] == gpu)
            k++;
        else
            s->gain[ledger->gpus[gpu].node] = (uint16_t)(s->gain[ledger->gpus[gpu].node] + sign);
    }
}

void stand_gain(struct planner_ctx *ctx, uint32_t victims, int sign)
{
    const struct singularity *s = ctx->state;

    for (uint32_t i = 0; i < victims; i++)
        note_gain(ctx, &s->victims[i], sign);
}

bool stand_groups(struct planner_ctx *ctx, const struct jobspec *spec, int32_t home, int32_t gpus, uint32_t victims)
{
    struct singularity *s = ctx->state;
    const struct pool *pool = home_pool(ctx, home);
    const struct topo *topo = topo_of(ctx);
    uint32_t group = stand_group(spec, pool), sum = 0;

    if (group == 1 || topo->node_count > GAIN_NODES)
        return true;
    stand_gain(ctx, victims, 1);
    for (uint32_t n = pool->first_node; n < pool->first_node + pool->node_count; n++)
        if (topo->nodes[n].sku == pool->sku && topo->nodes[n].up)
            sum += (stand_free(ctx, n) + s->gain[n]) / group * group;
    stand_gain(ctx, victims, -1);
    return sum >= (uint32_t)gpus;
}

/* GPUs of the job on each of its nodes, in runs of s->gpus: the run that starts at `at`. */
static uint32_t run_length(const struct planner_ctx *ctx, const uint32_t *gpus, uint32_t at, uint32_t count)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    uint32_t end = at;

    while (end < count && ledger->gpus[gpus[end]].node == ledger->gpus[gpus[at]].node)
        end++;
    return end - at;
}

/* Keeps the nodes on which it has most, so that the others become free of it. */
int stand_less(struct planner_ctx *ctx, uint32_t job, int32_t gpus, struct placement *ret)
{
    struct singularity *s = ctx->state;
    uint32_t had = stand_held(ctx, job), drop = had - (uint32_t)gpus, kept = 0;

    if (!had || (uint32_t)gpus > had)
        return -EBUSY;
    while (drop) {
        uint32_t least = UINT32_MAX, at = 0, part;

        for (uint32_t i = 0, length; i < had; i += length) {
            length = run_length(ctx, s->gpus, i, had);
            if (length <= least) {
                least = length;
                at = i;
            }
        }
        part = least < drop ? least : drop;
        /* The last of the run go; what follows closes up. */
        for (uint32_t i = at + least; i < had; i++)
            s->gpus[i - part] = s->gpus[i];
        had -= part;
        drop -= part;
    }
    kept = had;
    *ret = (struct placement){ s->gpus, kept };
    return 0;
}
