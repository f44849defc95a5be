/* SPDX-License-Identifier: Apache-2.0 */
/* place_liquid.c - where a gang's traffic costs least: Liquid's best fit (Gu et al., TPDS 2022; spec sections 4, 5.1).
 *
 * Tasks go one by one, servers and workers interleaved, each where the score of those so far becomes least: cost of the
 * network, load (workers prefer filled nodes, servers empty ones), nodes used. solve/net_score.h has the definition and
 * the same walk over every node; here nodes that score alike are looked at once. To a gang nodes differ only in how
 * many GPUs they have free and in whether they, their rack or their domain hold a part of it already: so of each rack
 * and domain it uses, and of the cluster, the first node of each count of free GPUs is enough, at 16 nodes and at
 * 16,000.
 *
 * A node's network is a hard limit where one is told (node-bandwidth): a worker takes its own bandwidth, a server its
 * part of what all workers send. GPU memory is one too: types are chosen by it, and shares of a GPU add it up.
 *
 * Left out: the artifact stops looking after 3 T + 5 nodes, which saves nothing here.
 */
#include <errno.h>

#include "core/contract/view.h"
#include "policy/list.h"
#include "policy/place/place_pick.h"

enum { P_COST, P_BANDWIDTH, P_SHARE_LOAD };
enum { COST_HOPS, COST_NODES };

/* Nodes that one gang may use; a larger gang takes the fullest nodes as they come. */
enum { SEATS_MAX = 512 };

/* A node, rack or domain with a part of the gang. Of a task's own kind nothing is asked. */
struct seat {
    uint32_t id;               /* node, or cell of the rack or domain */
    uint32_t servers, workers; /* tasks there */
    uint32_t above;            /* index of its rack, of its domain */
    uint32_t node;             /* with a part of the gang: of its type, where others are in the same rack or domain */
    double hop;                /* between two parts of it: racks and domains */
};

/* What is being placed; overwritten by the next search. */
struct liquid {
    struct seat nodes[SEATS_MAX], racks[SEATS_MAX], domains[SEATS_MAX];
    uint32_t node_count, rack_count, domain_count;
    uint32_t servers, workers; /* placed */
    int close_level;           /* of a ring: the hop that closes it, see net_score.c */
    double close;
    double cost, load; /* terms of the score of what is placed */
};

/* The task to be placed. */
struct task {
    const struct place_request *request;
    bool server;
    uint32_t number, left; /* from 1; with those that come after it */
    double bandwidth;
};

struct found {
    uint32_t node;
    double score;
};

/* ---- cost ---- */

static double hop_of(const struct place_ctx *ctx, uint32_t cell, enum level level)
{
    const struct topo *topo = &ctx->ledger->topo;
    uint32_t nodes = topo->cells[cell].child_count;

    if (ctx->params[P_COST] == COST_HOPS)
        return level == LEVEL_RACK ? 1 : 4;
    if (level == LEVEL_DOMAIN) {
        nodes = 0;
        for (uint32_t i = 0; i < topo->cells[cell].child_count; i++)
            nodes += topo->cells[topo->cells[cell].first_child + i].child_count;
    }
    return nodes;
}

static double far_of(const struct place_ctx *ctx)
{
    return ctx->params[P_COST] == COST_HOPS ? 40 : 10.0 * ctx->ledger->topo.node_count;
}

static uint32_t others(const struct seat *seat, const struct task *task)
{
    return task->server ? seat->workers : seat->servers;
}

/* Hops from a node to all tasks of the other kind: the node's, rack's and domain's part of the gang, NULL for none. */
static double star(const struct place_ctx *ctx, const struct task *task, const struct seat *node,
                   const struct seat *rack, const struct seat *domain)
{
    const struct liquid *l = ctx->state;
    uint32_t all = task->server ? l->workers : l->servers, in_node = node ? others(node, task) : 0;
    uint32_t in_rack = rack ? others(rack, task) : 0, in_domain = domain ? others(domain, task) : 0;

    return (rack ? rack->hop * (in_rack - in_node) : 0) + (domain ? domain->hop * (in_domain - in_rack) : 0) +
           far_of(ctx) * (all - in_domain);
}

/* What a node adds to a ring, without regard to how many tasks it will take. */
static double ring(const struct place_ctx *ctx, const struct seat *node, const struct seat *rack,
                   const struct seat *domain)
{
    const struct liquid *l = ctx->state;
    int level = rack ? 1 : domain ? 2 : 3;
    double price = rack ? rack->hop : domain ? domain->hop : far_of(ctx);

    if (node || l->node_count == 0)
        return 0;
    return level <= l->close_level ? price : 2 * price - l->close;
}

/* ---- candidates ---- */

/* Bandwidth that the jobs on a node ask for. */
static double carried(const struct place_ctx *ctx, uint32_t node)
{
    const struct node *n = &ctx->ledger->topo.nodes[node];
    double sum = 0;

    for (uint32_t g = n->first_gpu; g < n->first_gpu + n->gpus; g++)
        for (uint32_t s = ctx->ledger->gpus[g].shares; s != SHARE_NONE; s = ctx->ledger->shares[s].next_of_gpu) {
            const struct share *share = &ctx->ledger->shares[s];
            const struct jobspec *spec = &view_job(ctx->view, share->job)->spec;

            if (share->off)
                continue;
            sum += share->server ? (double)spec->bandwidth * (spec->gpus - spec->gpu_servers) / spec->gpu_servers
                                 : (double)spec->bandwidth;
        }
    return sum;
}

static double traffic(const struct place_request *request, bool server)
{
    double bandwidth = request->bandwidth;

    return server ? bandwidth * ((uint32_t)request->gpus - request->servers) / request->servers : bandwidth;
}

/* Whether the node's network has room for one task more of this gang, which has `seat` there already. */
static bool carries(const struct place_ctx *ctx, const struct task *task, uint32_t node, const struct seat *seat)
{
    double own = 0;

    if (seat && seat->servers)
        own += seat->servers * traffic(task->request, true);
    if (seat)
        own += seat->workers * traffic(task->request, false);
    /* Already whole: nothing comes on top. */
    if (seat && seat->servers + seat->workers == (uint32_t)task->request->gpus)
        own -= traffic(task->request, task->server);
    return ctx->params[P_BANDWIDTH] == 0 || task->request->bandwidth == 0 ||
           carried(ctx, node) + own + traffic(task->request, task->server) <= (double)ctx->params[P_BANDWIDTH];
}

static void consider(const struct place_ctx *ctx, const struct task *task, const struct found *candidate,
                     struct found *best)
{
    const struct liquid *l = ctx->state;
    const struct node *n = &ctx->ledger->topo.nodes[candidate->node];
    const struct seat *seat = NULL;
    double load, score, opens = 1;

    for (uint32_t i = 0; i < l->node_count && !seat; i++)
        if (l->nodes[i].id == candidate->node)
            seat = &l->nodes[i];
    /* A ring pays for a node once, however many of its tasks go there: what is left of it shares the price. */
    if (task->request->servers == 0 && !seat)
        opens = n->free < task->left ? n->free : task->left;
    load = ((double)n->gpus - n->free + 1 + (seat ? seat->servers + seat->workers : 0)) / n->gpus;
    score = candidate->score * task->bandwidth / opens + ((task->server ? load : -load) + !seat) / task->number;
    if (score < best->score - 1e-12 || (score < best->score + 1e-12 && candidate->node < best->node))
        *best = (struct found){ candidate->node, score };
}

static bool seated(const struct liquid *l, uint32_t node)
{
    for (uint32_t i = 0; i < l->node_count; i++)
        if (l->nodes[i].id == node)
            return true;
    return false;
}

/* Nodes of a pool that hold nothing of the gang: the first of each count of free GPUs. Those of racks or domains that
 * hold a part of it come up as well, at a price that is too high; they are looked at with their own. */
static void consider_pool(const struct place_ctx *ctx, const struct task *task, const struct pool *pool, double hops,
                          struct found *best)
{
    const struct liquid *l = ctx->state;

    for (uint32_t free = 1; free <= pool->gpus_max; free++) {
        uint32_t n = pool->bucket_count[free] ? pool_next(pool, (uint16_t)free, 0) : BITS_NONE;

        while (n != BITS_NONE && (seated(l, n) || !carries(ctx, task, n, NULL)))
            n = pool_next(pool, (uint16_t)free, n + 1);
        if (n != BITS_NONE)
            consider(ctx, task, &(struct found){ n, hops }, best);
    }
}

static double price_of(const struct place_ctx *ctx, const struct task *task, const struct seat *node,
                       const struct seat *rack, const struct seat *domain)
{
    return task->request->servers ? star(ctx, task, node, rack, domain) : ring(ctx, node, rack, domain);
}

static const struct pool *pool_at(const struct place_ctx *ctx, uint32_t node, enum zone_kind kind, uint32_t sku)
{
    const struct topo *topo = &ctx->ledger->topo;
    uint32_t pool = topo->nodes[node].pool[kind];

    return pool == POOL_NONE ? pick_pool(ctx, sku) : &topo->pools[pool];
}

static uint32_t choose(const struct place_ctx *ctx, const struct task *task)
{
    const struct liquid *l = ctx->state;
    struct found best = { BITS_NONE, 1e300 };
    uint32_t sku = task->request->sku;

    for (uint32_t i = 0; i < l->node_count; i++) {
        const struct seat *seat = &l->nodes[i], *rack = &l->racks[seat->above];

        if (seat->servers + seat->workers < ctx->ledger->topo.nodes[seat->id].free &&
            carries(ctx, task, seat->id, seat))
            consider(ctx, task, &(struct found){ seat->id, price_of(ctx, task, seat, rack, &l->domains[rack->above]) },
                     &best);
    }
    for (uint32_t i = 0; i < l->rack_count; i++)
        consider_pool(ctx, task, pool_at(ctx, l->racks[i].node, ZONE_RACK, sku),
                      price_of(ctx, task, NULL, &l->racks[i], &l->domains[l->racks[i].above]), &best);
    for (uint32_t i = 0; i < l->domain_count; i++)
        consider_pool(ctx, task, pool_at(ctx, l->domains[i].node, ZONE_DOMAIN, sku),
                      price_of(ctx, task, NULL, NULL, &l->domains[i]), &best);
    consider_pool(ctx, task, pick_pool(ctx, sku), price_of(ctx, task, NULL, NULL, NULL), &best);
    return best.node;
}

/* ---- the walk ---- */

static uint32_t seat_of(struct seat *list, uint32_t *count, uint32_t id)
{
    for (uint32_t i = 0; i < *count; i++)
        if (list[i].id == id)
            return i;
    list[*count] = (struct seat){ .id = id };
    return (*count)++;
}

static void add(struct seat *seat, bool server)
{
    seat->servers += server;
    seat->workers += !server;
}

/* Notes what the task adds to the score, before it is counted. */
static void note(struct place_ctx *ctx, const struct task *task, uint32_t node)
{
    struct liquid *l = ctx->state;
    const struct node *n = &ctx->ledger->topo.nodes[node];
    const struct seat *seat = NULL, *rack = NULL, *domain = NULL;
    double load;

    for (uint32_t i = 0; i < l->node_count; i++)
        seat = l->nodes[i].id == node ? &l->nodes[i] : seat;
    for (uint32_t i = 0; i < l->rack_count; i++)
        rack = l->racks[i].id == topo_above(&ctx->ledger->topo, node, LEVEL_RACK) ? &l->racks[i] : rack;
    for (uint32_t i = 0; i < l->domain_count; i++)
        domain = l->domains[i].id == topo_above(&ctx->ledger->topo, node, LEVEL_DOMAIN) ? &l->domains[i] : domain;
    load = ((double)n->gpus - n->free + 1 + (seat ? seat->servers + seat->workers : 0)) / n->gpus;
    l->cost += price_of(ctx, task, seat, rack, domain) * task->bandwidth;
    l->load += task->server ? load : -load;
}

static int put(struct place_ctx *ctx, const struct task *task, uint32_t node)
{
    struct liquid *l = ctx->state;
    const struct topo *topo = &ctx->ledger->topo;
    uint32_t rack_cell = topo_above(topo, node, LEVEL_RACK), domain_cell = topo_above(topo, node, LEVEL_DOMAIN);
    uint32_t racks = l->rack_count, domains = l->domain_count, nodes = l->node_count, seat, rack, domain;

    if (nodes == SEATS_MAX && !seated(l, node))
        return -ENOSPC;
    note(ctx, task, node);
    seat = seat_of(l->nodes, &l->node_count, node);
    rack = seat_of(l->racks, &l->rack_count, rack_cell);
    domain = seat_of(l->domains, &l->domain_count, domain_cell);
    l->nodes[seat].above = rack;
    l->racks[rack].above = domain;
    l->racks[rack].node = l->domains[domain].node = node;
    l->racks[rack].hop = hop_of(ctx, rack_cell, LEVEL_RACK);
    l->domains[domain].hop = hop_of(ctx, domain_cell, LEVEL_DOMAIN);
    if (nodes > 0 && l->node_count > nodes) {
        int level = l->rack_count == racks ? 1 : l->domain_count == domains ? 2 : 3;

        if (level > l->close_level) {
            l->close_level = level;
            l->close = level == 1 ? l->racks[rack].hop : level == 2 ? l->domains[domain].hop : far_of(ctx);
        }
    }
    add(&l->nodes[seat], task->server);
    add(&l->racks[rack], task->server);
    add(&l->domains[domain], task->server);
    l->servers += task->server;
    l->workers += !task->server;
    return 0;
}

/* All tasks, or all of them on `only`. */
static int place_tasks(struct place_ctx *ctx, const struct place_request *request, uint32_t only)
{
    struct liquid *l = ctx->state;
    uint32_t servers = request->servers, workers = (uint32_t)request->gpus - servers;

    l->node_count = l->rack_count = l->domain_count = l->servers = l->workers = 0;
    l->close_level = 0;
    l->close = l->cost = l->load = 0;
    for (uint32_t i = 0; i < servers + workers; i++) {
        struct task task = { .request = request, .number = i + 1, .left = servers + workers - i };
        uint32_t node;
        int r;

        /* A server as soon as the workers before it have their part of servers. */
        task.server = l->servers < servers &&
                      ((uint64_t)l->servers * workers <= (uint64_t)l->workers * servers || l->workers == workers);
        task.bandwidth = request->bandwidth ? request->bandwidth : 1;
        node = only != BITS_NONE ? only : choose(ctx, &task);
        r = node == BITS_NONE ? -EBUSY : put(ctx, &task, node);
        if (r < 0)
            return r;
    }
    return 0;
}

static double score_of(const struct liquid *l)
{
    return l->cost + (l->load + l->node_count) / (l->servers + l->workers);
}

/* The walk, and, where some node has room for the whole gang, all of it on the fullest such node: what scores less.
 * The walk alone starts a ring on the fullest node, which may have room for no more than its first task. */
static int place_gang(struct place_ctx *ctx, const struct place_request *request)
{
    const struct pool *pool = pick_pool(ctx, request->sku);
    uint32_t gpus = (uint32_t)request->gpus, one = gpus <= pool->gpus_max ? pool_best_fit(pool, gpus) : BITS_NONE;
    struct task all = { .request = request, .server = request->servers > 0, .number = 1, .left = gpus };
    struct liquid *l = ctx->state;
    double walked;
    int r = place_tasks(ctx, request, BITS_NONE);

    if (r < 0 || one == BITS_NONE || l->node_count == 1)
        return r;
    walked = score_of(l);
    (void)place_tasks(ctx, request, one);
    if (score_of(l) < walked && carries(ctx, &all, one, &l->nodes[0]))
        return 0;
    return place_tasks(ctx, request, BITS_NONE);
}

/* Below `share-load` a share gets a GPU of its own as long as there is one. */
static int find_share(struct place_ctx *ctx, const struct place_request *request)
{
    const struct pool *pool = pick_pool(ctx, request->sku);
    bool crowded = view_held(ctx->view) * PPM_ONE >= view_capacity(ctx->view) * ctx->params[P_SHARE_LOAD];
    uint32_t node = crowded ? BITS_NONE : pool_best_fit(pool, 1);
    struct pick pick = { .ctx = ctx };

    if (node == BITS_NONE)
        return pick_share(ctx, request);
    pick_node(&pick, node, 1);
    return 0;
}

static int liquid_find(struct place_ctx *ctx, const struct place_request *request)
{
    const struct liquid *l = ctx->state;
    struct pick pick = { .ctx = ctx };
    uint32_t servers = 0;
    int r;

    if (request->share < MGPU_ONE)
        return find_share(ctx, request);
    if (pick_pool(ctx, request->sku)->free < (uint32_t)request->gpus)
        return -EBUSY;
    r = place_gang(ctx, request);
    if (r == -ENOSPC)
        return pick_fullest(&pick, pick_pool(ctx, request->sku), (uint32_t)request->gpus);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < l->node_count; i++) {
        uint32_t first = pick.count;

        pick_node_tight(&pick, l->nodes[i].id, l->nodes[i].servers + l->nodes[i].workers);
        for (uint32_t k = 0; k < l->nodes[i].servers; k++)
            ctx->servers[servers++] = ctx->out[first + k];
    }
    pick_sort(&pick);
    ctx->server_count = servers;
    return 0;
}

static const char *const cost_choices[] = { "hops", "nodes", NULL };

static const struct param liquid_params[] = {
    [P_COST] = { "cost", "of a hop: 1, 4, 40 inside a rack, a domain, across; or by the nodes of the rack and domain",
                 PARAM_CHOICE, COST_HOPS, 0, COST_NODES, cost_choices },
    [P_BANDWIDTH] = { "node-bandwidth", "what the network of a node carries, in tenths of a GB/s; 0: not limited",
                      PARAM_COUNTER, 0, 0, PARAM_MAX, NULL },
    [P_SHARE_LOAD] = { "share-load", "below this load a share of a GPU gets a free one", PARAM_RATIO, 0, 0, 2 * PPM_ONE,
                       NULL },
    { 0 },
};

const struct place_ops place_liquid = {
    .name = "liquid",
    .summary = "where the traffic between its tasks costs least (Liquid's best fit)",
    .params = liquid_params,
    .state_size = sizeof(struct liquid),
    .find = liquid_find,
};
