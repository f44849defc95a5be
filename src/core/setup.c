/* SPDX-License-Identifier: Apache-2.0 */
/* setup.c - builds a core from a cluster and its limits. The only file here that takes memory; everything is sized
 * once. */
#include <assert.h>
#include <errno.h>

#include "base/alloc.h"
#include "core/core_internal.h"

struct block {
    struct block *next;
    __int128 payload[];
};

/* Zeroed memory that lives as long as the core. The first failure is remembered; callers check once at the end. */
void *core_block(struct core *core, bool *failed, size_t count, size_t size)
{
    struct block *block;
    size_t bytes;

    if (*failed || __builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2) {
        *failed = true;
        return NULL;
    }
    block = mem_zalloc(1, sizeof(*block) + bytes);
    if (!block) {
        *failed = true;
        return NULL;
    }
    block->next = core->blocks;
    core->blocks = block;
    return block->payload;
}

void core_free(struct core *core)
{
    struct block *next;

    if (!core)
        return;
    cells_free(core->cells);
    for (struct block *block = core->blocks; block; block = next) {
        next = block->next;
        mem_free(block);
    }
    mem_free(core);
}

/* Whether the nodes of the machine lead back to this one. */
static bool twins_ring(const struct cluster_spec *spec, uint32_t node)
{
    uint32_t at = node, left = CELL_CHAINS_MAX;

    do {
        if (spec->nodes[at].twin == 0 || spec->nodes[at].twin > spec->node_count)
            return spec->nodes[at].twin == 0 && at == node;
        at = spec->nodes[at].twin - 1;
    } while (at != node && left-- > 0);
    return at == node;
}

static int spec_sane(const struct cluster_spec *spec, const struct core_config *config, struct error *err)
{
    size_t gpus = 0;

    if (spec->node_count == 0 || spec->node_count > NODES_MAX || spec->bare_count > NODES_MAX)
        return error_set(err, -EINVAL, "nodes: expected 1 to %zu, got %u", NODES_MAX, spec->node_count);
    if (spec->vc_count == 0 || spec->vc_count > VCS_MAX)
        return error_set(err, -EINVAL, "virtual clusters: expected 1 to %d, got %u", VCS_MAX, spec->vc_count);
    if (spec->sku_count == 0 || spec->sku_count > SKUS_MAX)
        return error_set(err, -EINVAL, "GPU types: expected 1 to %d, got %u", SKUS_MAX, spec->sku_count);
    if (config->limits.jobs == 0 || config->limits.jobs > UINT32_MAX / 8)
        return error_set(err, -EINVAL, "limit of jobs: %u is out of range", config->limits.jobs);
    for (uint32_t n = 0; n < spec->node_count; n++) {
        const struct node_spec *node = &spec->nodes[n];
        uint32_t parts = (uint32_t)node->sockets * node->groups;

        if (node->gpus < 1 || node->gpus > NODE_GPUS_MAX || node->sku >= spec->sku_count || parts == 0 ||
            node->gpus % parts)
            return error_set(err, -EINVAL, "node %u: %u GPUs do not divide into %u sockets of %u groups", n, node->gpus,
                             node->sockets, node->groups);
        if (node->rack >= spec->rack_count || node->domain >= spec->domain_count ||
            (n && (node->rack < node[-1].rack || node->domain < node[-1].domain)))
            return error_set(err, -EINVAL, "node %u: racks and domains must be dense and ascending", n);
        if (!twins_ring(spec, n))
            return error_set(err, -EINVAL, "node %u: nodes that are one machine must lead to each other", n);
        gpus += node->gpus;
    }
    for (uint32_t n = spec->node_count; n < spec->node_count + spec->bare_count; n++)
        if (spec->nodes[n].gpus || spec->nodes[n].cpus == 0 || spec->nodes[n].twin)
            return error_set(err, -EINVAL, "node %u: a node without GPUs has CPUs", n);
    if (gpus > CLUSTER_GPUS_MAX)
        return error_set(err, -EINVAL, "GPUs: at most %zu, got %zu", CLUSTER_GPUS_MAX, gpus);
    return 0;
}

static void cell_grow(struct topo *topo, uint32_t cell, const struct node *node)
{
    struct cell *c = &topo->cells[cell];

    if (c->gpu_count == 0)
        c->first_gpu = node->first_gpu;
    c->gpu_count += node->gpus;
    c->free += node->gpus;
}

/* For whom it is. */
static void node_for(struct topo *topo, uint32_t number, const struct node_spec *from)
{
    struct node *node = &topo->nodes[number];

    node->kept = from->kept;
    node->marks = from->marks;
    node->twin = from->twin ? from->twin - 1 : number;
    topo->kept_count += from->kept != 0;
}

/* Nodes without GPUs: no placement comes to them, only tasks do. */
static void build_bare(struct topo *topo, const struct cluster_spec *spec)
{
    topo->host_count = spec->node_count + spec->bare_count;
    for (uint32_t n = topo->node_count; n < topo->host_count; n++) {
        topo->nodes[n] = (struct node){ .cell = UINT32_MAX, .first_gpu = topo->gpu_count, .up = true };
        for (int i = 0; i <= ZONE_KINDS; i++)
            topo->nodes[n].pool[i] = POOL_NONE;
        node_for(topo, n, &spec->nodes[n]);
    }
}

/* Cells lie by level: cluster, domains, racks, nodes, then each node's sockets and groups. */
static void build_cells(struct core *core, struct topo *topo, const struct cluster_spec *spec, bool *failed)
{
    uint32_t domain0 = 1, rack0 = domain0 + spec->domain_count, node0 = rack0 + spec->rack_count;
    uint32_t below = node0 + spec->node_count, at = below, gpu = 0;

    for (uint32_t n = 0; n < spec->node_count; n++)
        below += spec->nodes[n].sockets * (1u + spec->nodes[n].groups);
    topo->cells = core_block(core, failed, below, sizeof(*topo->cells));
    topo->nodes = core_block(core, failed, (size_t)spec->node_count + spec->bare_count, sizeof(*topo->nodes));
    if (*failed)
        return;
    topo->cell_count = below;
    topo->node_count = spec->node_count;
    topo->zones[ZONE_RACK] = (struct zones){ .count = spec->rack_count, .first_cell = rack0 };
    topo->zones[ZONE_DOMAIN] = (struct zones){ .count = spec->domain_count, .first_cell = domain0 };
    topo->sku_count = spec->sku_count;
    for (uint32_t s = 0; s < spec->sku_count; s++)
        topo->sku_memory[s] = spec->skus[s].memory_mib;
    topo->cells[0] = (struct cell){
        .parent = UINT32_MAX, .first_child = domain0, .child_count = spec->domain_count, .level = LEVEL_CLUSTER
    };
    for (uint32_t n = 0; n < spec->node_count; n++) {
        const struct node_spec *from = &spec->nodes[n];
        struct node *node = &topo->nodes[n];
        uint32_t domain = domain0 + from->domain, rack = rack0 + from->rack, size = from->gpus;

        *node = (struct node){ .cell = node0 + n,
                               .first_gpu = gpu,
                               .gpus = from->gpus,
                               .free = from->gpus,
                               .sku = (uint8_t)from->sku,
                               .up = true };
        node_for(topo, n, from);
        topo->cells[domain].level = LEVEL_DOMAIN;
        topo->cells[rack].level = LEVEL_RACK;
        topo->cells[rack].parent = domain;
        if (topo->cells[rack].child_count++ == 0) {
            topo->cells[rack].first_child = node0 + n;
            if (topo->cells[domain].child_count++ == 0)
                topo->cells[domain].first_child = rack;
        }
        topo->cells[node->cell] =
            (struct cell){ .parent = rack, .first_child = at, .child_count = from->sockets, .level = LEVEL_NODE };
        cell_grow(topo, node->cell, node);
        cell_grow(topo, rack, node);
        cell_grow(topo, domain, node);
        cell_grow(topo, 0, node);
        size /= from->sockets;
        for (uint32_t s = 0; s < from->sockets; s++) {
            uint32_t group0 = at + from->sockets + s * from->groups;

            topo->cells[at + s] = (struct cell){ .parent = node->cell,
                                                 .first_child = group0,
                                                 .child_count = from->groups,
                                                 .first_gpu = gpu + s * size,
                                                 .gpu_count = size,
                                                 .free = size,
                                                 .level = LEVEL_SOCKET };
            for (uint32_t g = 0; g < from->groups; g++)
                topo->cells[group0 + g] = (struct cell){ .parent = at + s,
                                                         .first_gpu = gpu + s * size + g * (size / from->groups),
                                                         .gpu_count = size / from->groups,
                                                         .free = size / from->groups,
                                                         .level = LEVEL_GROUP };
        }
        at += from->sockets * (1u + from->groups);
        gpu += from->gpus;
        topo->sku_gpus[from->sku] += from->gpus;
        if (from->gpus > topo->node_gpus_max[from->sku])
            topo->node_gpus_max[from->sku] = from->gpus;
    }
    topo->gpu_count = gpu;
}

/* A pool of `sku` over the nodes [first, end); their free counts go into its buckets. */
static uint32_t pool_new(struct core *core, struct topo *topo, bool *failed, uint32_t sku, const uint32_t range[2])
{
    uint32_t first = range[0], end = range[1];
    uint32_t index = topo->pool_count++;
    struct pool *pool = &topo->pools[index];
    size_t bytes;

    *pool = (struct pool){
        .first_node = first, .node_count = end - first, .sku = (uint16_t)sku, .gpus_max = topo->node_gpus_max[sku]
    };
    bytes = bits_size(end - first);
    pool->bucket = core_block(core, failed, pool->gpus_max + 1u, sizeof(*pool->bucket));
    pool->bucket_count = core_block(core, failed, pool->gpus_max + 1u, sizeof(*pool->bucket_count));
    if (*failed)
        return index;
    for (uint32_t f = 0; f <= pool->gpus_max; f++) {
        void *memory = core_block(core, failed, bytes, 1);

        if (*failed)
            return index;
        bits_init(&pool->bucket[f], memory, end - first);
    }
    for (uint32_t n = first; n < end; n++) {
        const struct node *node = &topo->nodes[n];

        if (node->sku != sku)
            continue;
        bits_set(&pool->bucket[node->gpus], n - first);
        pool->bucket_count[node->gpus]++;
        pool->total += node->gpus;
        pool->free += node->gpus;
    }
    return index;
}

static bool has_sku(const struct topo *topo, uint32_t sku, uint32_t first, uint32_t end)
{
    for (uint32_t n = first; n < end; n++)
        if (topo->nodes[n].sku == sku)
            return true;
    return false;
}

static void pool_assign(struct topo *topo, uint32_t pool, unsigned slot)
{
    const struct pool *p = &topo->pools[pool];

    for (uint32_t n = p->first_node; n < p->first_node + p->node_count; n++)
        if (topo->nodes[n].sku == p->sku)
            topo->nodes[n].pool[slot] = pool;
}

static uint32_t zone_of(const struct node_spec *node, enum zone_kind kind)
{
    return kind == ZONE_RACK ? node->rack : node->domain;
}

/* A pool for each zone and type; none where the cluster is one zone. */
static void build_zones(struct core *core, struct topo *topo, const struct cluster_spec *spec, enum zone_kind kind,
                        bool *failed)
{
    struct zones *zones = &topo->zones[kind];
    size_t elements = (size_t)zones->count * topo->sku_count;

    zones->pools = core_block(core, failed, elements, sizeof(*zones->pools));
    zones->nodes = core_block(core, failed, elements, sizeof(*zones->nodes));
    zones->trees = core_block(core, failed, topo->sku_count, sizeof(*zones->trees));
    for (uint32_t sku = 0; sku < topo->sku_count && !*failed; sku++)
        zones->trees[sku] = TREE_NONE;
    for (uint32_t zone = 0, first = 0, end; zone < zones->count && zones->count > 1; zone++, first = end) {
        for (end = first; end < topo->node_count && zone_of(&spec->nodes[end], kind) == zone;)
            end++;
        for (uint32_t sku = 0; sku < topo->sku_count && !*failed; sku++) {
            uint32_t element = zone * topo->sku_count + sku;

            zones->pools[element] = POOL_NONE;
            if (!has_sku(topo, sku, first, end))
                continue;
            zones->pools[element] = pool_new(core, topo, failed, sku, (const uint32_t[2]){ first, end });
            if (*failed)
                return;
            pool_assign(topo, zones->pools[element], kind);
            zones->nodes[element].rank =
                (struct rank){ .key = -(__int128)topo->pools[zones->pools[element]].free, .id = zone };
            tree_insert(zones->nodes, &zones->trees[sku], element);
        }
    }
}

/* Pools of the whole cluster, of its racks and of its domains. */
static void build_pools(struct core *core, struct topo *topo, const struct cluster_spec *spec, bool *failed)
{
    size_t pools = (size_t)topo->sku_count * (1 + spec->rack_count + spec->domain_count);

    topo->pools = core_block(core, failed, pools, sizeof(*topo->pools));
    topo->sku_pools = core_block(core, failed, topo->sku_count, sizeof(*topo->sku_pools));
    for (uint32_t n = 0; n < topo->node_count; n++)
        for (int i = 0; i <= ZONE_KINDS; i++)
            topo->nodes[n].pool[i] = POOL_NONE;
    for (uint32_t sku = 0; sku < topo->sku_count && !*failed; sku++) {
        topo->sku_pools[sku] = pool_new(core, topo, failed, sku, (const uint32_t[2]){ 0, topo->node_count });
        if (!*failed)
            pool_assign(topo, topo->sku_pools[sku], ZONE_KINDS);
    }
    for (int kind = 0; kind < ZONE_KINDS && !*failed; kind++)
        build_zones(core, topo, spec, (enum zone_kind)kind, failed);
}

/* CPUs and memory, where some node tells them. */
static void build_hosts(struct core *core, struct ledger *ledger, const struct cluster_spec *spec, bool *failed)
{
    uint32_t hosts = ledger->topo.host_count;
    bool told = false;

    for (uint32_t n = 0; n < hosts; n++)
        told |= spec->nodes[n].cpus || spec->nodes[n].memory_mib;
    if (!told)
        return;
    ledger->hosts = core_block(core, failed, hosts, sizeof(*ledger->hosts));
    for (uint32_t n = 0; n < hosts && !*failed; n++) {
        const struct node_spec *node = &spec->nodes[n];
        uint32_t part = node->cpu_jobs < node->cpus ? node->cpu_jobs : node->cpus;

        ledger->hosts[n] = (struct host){ .most = { node->cpus * 1000, node->memory_mib },
                                          .tasks = { part * 1000, 0 },
                                          .first = HOLD_NONE };
        if (node->cpus)
            ledger->hosts[n].tasks.mib = (uint32_t)((uint64_t)node->memory_mib * part / node->cpus);
    }
}

void core_build_ledger(struct core *core, struct ledger *ledger, const struct cluster_spec *spec, bool *failed)
{
    struct topo *topo = &ledger->topo;

    for (uint32_t s = 0; s < spec->sku_count; s++)
        topo->node_gpus_max[s] = 1; /* where there are none: a node of one would be the largest */
    build_cells(core, topo, spec, failed);
    if (!*failed)
        build_bare(topo, spec);
    if (!*failed)
        build_pools(core, topo, spec, failed);
    if (!*failed)
        build_hosts(core, ledger, spec, failed);
    if (*failed)
        return;
    /* A job on a part of a GPU has one share; whole GPUs have an owner, one that leaves, and guests. Where jobs take
     * turns, each has a place on as many GPUs as it asks for. */
    if (ledger->share_capacity == 0)
        ledger->share_capacity = 4 * topo->gpu_count + core->job_capacity;
    if (core->turns)
        ledger->share_capacity += 12 * topo->gpu_count + 7 * core->job_capacity;
    ledger->gpus = core_block(core, failed, topo->gpu_count, sizeof(*ledger->gpus));
    ledger->shares = core_block(core, failed, ledger->share_capacity, sizeof(*ledger->shares));
    ledger->open_nodes = core_block(core, failed, topo->gpu_count, sizeof(*ledger->open_nodes));
    if (*failed)
        return;
    for (uint32_t s = 0; s < SKUS_MAX; s++)
        ledger->open_trees[s] = TREE_NONE;
    for (uint32_t i = 0; i < ledger->share_capacity; i++)
        ledger->shares[i].next_of_job = i + 1 < ledger->share_capacity ? i + 1 : SHARE_NONE;
    for (uint32_t c = 0; c < topo->cell_count; c++) {
        const struct cell *cell = &topo->cells[c];

        if (cell->level != LEVEL_GROUP)
            continue;
        for (uint32_t g = cell->first_gpu; g < cell->first_gpu + cell->gpu_count; g++)
            ledger->gpus[g] = (struct gpu){ .group = c, .shares = SHARE_NONE, .reserved_for = JOB_NONE };
    }
    for (uint32_t n = 0; n < topo->node_count; n++)
        for (uint32_t g = 0; g < topo->nodes[n].gpus; g++)
            ledger->gpus[topo->nodes[n].first_gpu + g].node = n;
}

/* Its words of each node: of the cluster's, and of those that stand for the virtual cluster's own. */
static void build_nodes(struct core *core, struct planner_ctx *ctx, uint32_t words, bool *failed)
{
    ctx->node_words = words;
    ctx->nodes = core_block(core, failed, core_node_rooms(core) * words, sizeof(*ctx->nodes));
}

/* Each has its state, and its words of a job behind those of the planner. */
static void build_tuners(struct core *core, struct vc *vc, const struct policy_setup *policy, bool *failed)
{
    uint32_t words = policy->planner->words;

    for (uint32_t i = 0; i < policy->tune_count; i++) {
        vc->tune[i] = vc->planner;
        vc->tune[i].params = vc->policy.tune_params[i];
        vc->tune[i].state = core_block(core, failed, policy->tune[i]->state_size, 1);
        build_nodes(core, &vc->tune[i], policy->tune[i]->node_words, failed);
        vc->tune[i].word_first = words;
        words += policy->tune[i]->words;
    }
    core->word_stride = words > core->word_stride ? words : core->word_stride;
}

static void build_vc(struct core *core, uint32_t index, const struct vc_spec *from, const struct policy_setup *policy,
                     bool *failed)
{
    struct vc *vc = &core->vcs[index];

    *vc = (struct vc){ .name = from->name,
                       .index = index,
                       .policy = *policy,
                       .run_first = JOB_NONE,
                       .run_last = JOB_NONE,
                       .again = -1,
                       .planned_at = -1,
                       .rng = core->rng, /* as the seed left it */
                       .task_first = JOB_NONE,
                       .task_last = JOB_NONE,
                       .task_run_first = JOB_NONE,
                       .task_run_last = JOB_NONE,
                       .task_tree = TREE_NONE,
                       .task_run_tree = TREE_NONE,
                       .min_runtime = from->min_runtime,
                       .priorities = from->priorities,
                       .task_quota = (int64_t)from->cpus * 1000,
                       .user_max = (int64_t)from->user_max * MGPU_ONE,
                       .borrow_max = from->borrow_max < 0 ? -1 : (int64_t)from->borrow_max * MGPU_ONE };
    for (uint32_t s = 0; s < core->ledger.topo.sku_count; s++)
        vc->quota[s] = (int64_t)from->quota[s] * MGPU_ONE;
    vc->queue.run_order = policy->planner->run_order;
    vc->queue.shapes = core_block(core, failed, SHAPES_MAX, sizeof(*vc->queue.shapes));
    vc->queue.live = core_block(core, failed, SHAPES_MAX, sizeof(*vc->queue.live));
    /* As many speeds as jobs can run at once, for planners that want running jobs in order. */
    if (policy->planner->run_order != RUN_UNORDERED)
        vc->queue.run_capacity =
            core->job_capacity < core->ledger.share_capacity ? core->job_capacity : core->ledger.share_capacity;
    vc->queue.runs = core_block(core, failed, vc->queue.run_capacity, sizeof(*vc->queue.runs));
    vc->view = (struct view){ .core = core };
    vc->order = (struct order_ctx){ .view = &vc->view,
                                    .params = vc->policy.order_params,
                                    .state = core_block(core, failed, policy->order->state_size, 1) };
    vc->place =
        (struct place_ctx){ .view = &vc->view,
                            .ledger = &core->ledger,
                            .params = vc->policy.place_params,
                            .state = core_block(core, failed, policy->place->state_size, 1),
                            .out = core_block(core, failed, core->ledger.topo.gpu_count, sizeof(uint32_t)),
                            .servers = core_block(core, failed, core->ledger.topo.gpu_count, sizeof(uint32_t)) };
    vc->planner = (struct planner_ctx){ .view = &vc->view,
                                        .vc = vc,
                                        .params = vc->policy.planner_params,
                                        .state = core_block(core, failed, policy->planner->state_size, 1) };
    build_nodes(core, &vc->planner, policy->planner->node_words, failed);
    vc->admit = vc->planner;
    vc->admit.params = vc->policy.admit_params;
    if (policy->admit)
        vc->admit.state = core_block(core, failed, policy->admit->state_size, 1);
    build_tuners(core, vc, policy, failed);
    if (policy->history_count && policy->order->learn && vc->order.state)
        policy->order->learn(&vc->order, policy->history, policy->history_count);
    core->vc_order[index] = index;
    if (vc->borrow_max != 0)
        core->borrowing = true;
}

static void build_jobs(struct core *core, bool *failed)
{
    uint32_t jobs = core->job_capacity;
    uint32_t timers = jobs * TIMERS_A_JOB + 2 * core->vc_count + 1;
    struct outbox *out = &core->outbox;
    void *heap = core_block(core, failed, heap_size(timers), 1);

    core->jobs = core_block(core, failed, jobs, sizeof(*core->jobs));
    core->tree = core_block(core, failed, jobs, sizeof(*core->tree));
    core->words = core_block(core, failed, (size_t)jobs * core->word_stride, sizeof(*core->words));
    core->movers = core_block(core, failed, core->ledger.topo.node_count, sizeof(*core->movers));
    core->inbox_capacity = jobs * 2 + 1024;
    core->inbox = core_block(core, failed, core->inbox_capacity, sizeof(*core->inbox));
    core->inbox_spare = core_block(core, failed, core->inbox_capacity, sizeof(*core->inbox_spare));
    core->touched = core_block(core, failed, jobs, sizeof(*core->touched));
    core->fresh = core_block(core, failed, jobs, sizeof(*core->fresh));
    core->ready = core_block(core, failed, jobs, sizeof(*core->ready));
    core->going = core_block(core, failed, jobs, sizeof(*core->going));
    core->victims = core_block(core, failed, jobs, sizeof(*core->victims));
    out->effect_capacity = out->decision_capacity = (size_t)jobs * 4 + 1024;
    out->gpu_capacity = (size_t)core->ledger.share_capacity;
    out->effects = core_block(core, failed, out->effect_capacity, sizeof(*out->effects));
    out->decisions = core_block(core, failed, out->decision_capacity, sizeof(*out->decisions));
    out->gpus = core_block(core, failed, out->gpu_capacity, sizeof(*out->gpus));
    for (uint32_t v = 0; v < core->vc_count; v++)
        out->word_capacity += core->vcs[v].policy.planner->solve_words;
    core->answer_capacity = out->word_capacity;
    out->words = core_block(core, failed, out->word_capacity, sizeof(*out->words));
    core->answers = core_block(core, failed, core->answer_capacity, sizeof(*core->answers));
    if (*failed)
        return;
    core->job_free = JOB_NONE;
    heap_init(&core->timers, heap, timers);
}

int core_new(const struct cluster_spec *spec, const struct core_config *config, struct core **ret_core,
             struct error *err)
{
    struct core *core;
    bool failed = false;
    int r = spec_sane(spec, config, err);

    if (r < 0)
        return r;
    core = mem_zalloc(1, sizeof(*core));
    if (!core)
        return error_set(err, -ENOMEM, "no memory for the cluster");
    core->view.core = core;
    core->job_capacity = config->limits.jobs;
    core->planned_at = -1;
    core->round = config->round;
    core->vc_count = spec->vc_count;
    core->any_sku = (uint32_t)(((uint64_t)1 << spec->sku_count) - 1);
    core->digest = rng_mix(config->seed + 1);
    rng_seed(&core->rng, config->seed);
    core->ledger.share_capacity = config->limits.shares;
    for (uint32_t v = 0; v < spec->vc_count; v++)
        core->turns |= config->policies[v].planner->tunes;
    core_build_ledger(core, &core->ledger, spec, &failed);
    core->hidden = core_block(core, &failed, core->ledger.topo.gpu_count, sizeof(*core->hidden));
    core->scratch = core_block(core, &failed, core->ledger.topo.gpu_count, sizeof(*core->scratch));
    core->side_gpus = core_block(core, &failed, core->ledger.topo.gpu_count, sizeof(*core->side_gpus));
    core->gang = core_block(core, &failed, core->ledger.topo.gpu_count, sizeof(*core->gang));
    core->vcs = core_block(core, &failed, spec->vc_count, sizeof(*core->vcs));
    core->vc_order = core_block(core, &failed, spec->vc_count, sizeof(*core->vc_order));
    for (uint32_t v = 0; v < spec->vc_count && !failed; v++)
        build_vc(core, v, &spec->vcs[v], &config->policies[v], &failed);
    r = !failed && spec->cells ? own_build(core, spec, &failed, err) : 0;
    if (!failed)
        build_jobs(core, &failed);
    if (!failed)
        users_build(core, &failed);
    if (!failed)
        tasks_build(core, &failed);
    if (!failed)
        licenses_build(core, spec, &failed);
    if (r < 0) {
        core_free(core);
        return r;
    }
    if (failed) {
        core_free(core);
        return error_set(err, -ENOMEM, "no memory for %u jobs on %u nodes", config->limits.jobs, spec->node_count);
    }
    *ret_core = core;
    return 0;
}
