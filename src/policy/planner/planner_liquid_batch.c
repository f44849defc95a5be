/* SPDX-License-Identifier: Apache-2.0 */
/* planner_liquid_batch.c - arrivals gathered for an interval and placed together (Liquid, spec section 5.2).
 *
 * When somebody waits an interval begins; at its end the waiting jobs, in order, as many as the free GPUs of a type can
 * hold, are sent out to be placed together by a grouping genetic search (SOLVE_PLACE, work/place_batch.h), and started
 * where the answer says, as far as it is still true. Where the search finds no plan that holds all of them, the job
 * with most GPUs, the latest of equals, is left out and stays queued. An answer of which nothing can be started (the
 * search knows nothing of guaranteed cells) is no use: its jobs are placed by the placement, one by one, and the same
 * question is not asked again until something in it has changed. Searches are for what the virtual cluster is owed: who
 * is left at the end of an interval borrows what others leave idle, one by one too. Batches of up to three tasks,
 * shares of a GPU, jobs that want something of their nodes or of how their GPUs lie, of which the search knows nothing,
 * and opportunistic jobs are not worth or not fit for a search: they are placed at once by the placement.
 *
 * The search is limited by rounds, never by a clock, so a replay finds the same plan.
 */
#include <errno.h>

#include "base/rng.h"
#include "core/contract/plan.h"
#include "core/contract/view.h"
#include "policy/list.h"

enum { P_INTERVAL, P_ROUNDS, P_COST, P_BANDWIDTH };
enum { COST_HOPS, COST_NODES };

/* Agreed with work/place_batch.h, which policies cannot include. */
enum { VERSION = 1, HEAD = 8, NODE_WORDS = 5, JOB_WORDS = 3 };
enum { NODES_MAX_ASKED = 4096, JOBS_MAX_ASKED = 1024, TASKS_MAX_ASKED = 8192, FEW_TASKS = 3 };
enum { SOLVE_WORDS = HEAD + (NODE_WORDS + 2) * NODES_MAX_ASKED + JOB_WORDS * JOBS_MAX_ASKED };

enum phase_of_batch { BATCH_IDLE, BATCH_GATHERING, BATCH_ASKED, BATCH_ANSWERED };

struct batch {
    int64_t due;      /* GATHERING: the interval ends then */
    int64_t lend_due; /* the same of borrowing; 0: none */
    uint32_t phase;   /* enum phase_of_batch */
    uint32_t sku;
    uint32_t job_count, node_count, task_count;
    uint32_t dropped;          /* jobs left out because no plan held all */
    uint32_t ended, unused;    /* ended: an interval, and nobody who was left has been lent anything yet */
    uint64_t asked;            /* the question under way, before any job was left out of it */
    uint64_t futile[SKUS_MAX]; /* of each type the last one that came to nothing; 0: none */
    struct job_ref jobs[JOBS_MAX_ASKED];
    uint32_t nodes[NODES_MAX_ASKED]; /* the request's node i is this one */
    uint16_t place[TASKS_MAX_ASKED]; /* ANSWERED: of each task, into nodes[] */
    /* Of a pass. */
    bool hopeless[SHAPES_MAX];
    uint32_t cursor[SHAPES_MAX];
    int64_t words[SOLVE_WORDS];
    uint32_t gpus[TASKS_MAX_ASKED], servers[TASKS_MAX_ASKED];
    uint16_t taken[NODES_MAX_ASKED]; /* by the gang that is being started */
};

/* ---- the queue ---- */

static bool fit_for_search(const struct shape *shape)
{
    bool wants = shape->per_node || shape->unit || (shape->within && shape->must) || shape->mcpus || shape->host_mib ||
                 shape->mark || shape->kept || shape->side_count;

    return shape->share == MGPU_ONE && !wants && shape->klass != CLASS_OPPORTUNISTIC && shape->gpus <= TASKS_MAX_ASKED;
}

static void waiting_begin(const struct planner_ctx *ctx)
{
    struct batch *b = ctx->state;
    const struct queue *queue = &ctx->vc->queue;

    for (uint32_t i = 0; i < queue->live_count; i++)
        b->cursor[queue->live[i]] = tree_first(view_tree(ctx->view), queue->shapes[queue->live[i]].root);
}

/* Every waiting job in order, one a call. */
static uint32_t waiting_next(const struct planner_ctx *ctx)
{
    struct batch *b = ctx->state;
    const struct queue *queue = &ctx->vc->queue;
    const struct tree_node *tree = view_tree(ctx->view);
    uint32_t best = TREE_NONE, from = 0;

    for (uint32_t i = 0; i < queue->live_count; i++) {
        uint32_t job = b->cursor[queue->live[i]];

        if (job == TREE_NONE || (best != TREE_NONE && !rank_before(&tree[job].rank, &tree[best].rank)))
            continue;
        best = job;
        from = queue->live[i];
    }
    if (best != TREE_NONE)
        b->cursor[from] = tree_after(tree, queue->shapes[from].root, &tree[best].rank);
    return best;
}

/* Jobs that no search is asked about start as they fit; with `all` everybody does. */
static void start_at_once(struct planner_ctx *ctx, struct plan *plan, bool all)
{
    struct batch *b = ctx->state;
    const struct queue *queue = &ctx->vc->queue;
    uint32_t job;

    for (uint32_t i = 0; i < queue->live_count; i++) {
        const struct shape_class *cls = &queue->shapes[queue->live[i]];

        b->hopeless[queue->live[i]] = !plan_considers(plan, cls) || (!all && fit_for_search(&cls->shape));
    }
    waiting_begin(ctx);
    while ((job = waiting_next(ctx)) != TREE_NONE) {
        uint32_t shape = view_job(ctx->view, job)->shape;
        struct placement to;
        int r;

        if (b->hopeless[shape])
            continue;
        r = plan_find(plan, plan_shape(plan, job), &to);
        if (r < 0 && r != -EDQUOT && !plan_borrows(plan))
            r = plan_reclaim(plan, job, &to);
        if (r < 0 || plan_start(plan, job, &to) < 0)
            b->hopeless[shape] = true;
    }
}

/* ---- asking ---- */

static int64_t put_head(struct planner_ctx *ctx, uint32_t racks, uint32_t domains)
{
    struct batch *b = ctx->state;
    int64_t far = ctx->params[P_COST] == COST_HOPS ? 40 : 10 * (int64_t)view_ledger(ctx->view)->topo.node_count;
    const int64_t head[HEAD] = { VERSION,
                                 (int64_t)(view_random(ctx->view, INT64_MAX)),
                                 ctx->params[P_ROUNDS],
                                 far,
                                 racks,
                                 domains,
                                 b->node_count,
                                 b->job_count };

    for (int i = 0; i < HEAD; i++)
        b->words[i] = head[i];
    return HEAD;
}

/* Bandwidth that a node has left, in thousandths of a unit; -1: not limited. */
static int64_t room_of(const struct planner_ctx *ctx, uint32_t node)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct node *n = &ledger->topo.nodes[node];
    int64_t room = ctx->params[P_BANDWIDTH] * 1000;

    if (room == 0)
        return -1;
    for (uint32_t g = n->first_gpu; g < n->first_gpu + n->gpus; g++)
        for (uint32_t s = ledger->gpus[g].shares; s != SHARE_NONE; s = ledger->shares[s].next_of_gpu) {
            const struct jobspec *spec = &view_job(ctx->view, ledger->shares[s].job)->spec;
            int64_t asks = (int64_t)spec->bandwidth * 1000;

            if (!ledger->shares[s].off)
                room -= ledger->shares[s].server ? asks * (spec->gpus - spec->gpu_servers) / spec->gpu_servers : asks;
        }
    return room > 0 ? room : 0;
}

static int64_t hop_of(const struct planner_ctx *ctx, uint32_t cell, enum level level)
{
    const struct topo *topo = &view_ledger(ctx->view)->topo;
    int64_t nodes = topo->cells[cell].child_count;

    if (ctx->params[P_COST] == COST_HOPS)
        return level == LEVEL_RACK ? 1 : 4;
    if (level == LEVEL_DOMAIN) {
        nodes = 0;
        for (uint32_t i = 0; i < topo->cells[cell].child_count; i++)
            nodes += topo->cells[topo->cells[cell].first_child + i].child_count;
    }
    return nodes;
}

/* Nodes of the type with something free; racks and domains are numbered in their order. */
static uint32_t put_nodes(struct planner_ctx *ctx, uint32_t at, uint32_t *ret_racks, uint32_t *ret_domains)
{
    struct batch *b = ctx->state;
    const struct topo *topo = &view_ledger(ctx->view)->topo;
    uint32_t rack = UINT32_MAX, domain = UINT32_MAX, racks = 0, domains = 0, hops;
    int64_t *rack_hop = b->words + SOLVE_WORDS - 2 * NODES_MAX_ASKED, *domain_hop = rack_hop + NODES_MAX_ASKED;

    b->node_count = 0;
    for (uint32_t n = 0; n < topo->node_count && b->node_count < NODES_MAX_ASKED; n++) {
        const struct node *node = &topo->nodes[n];

        if (!node->up || node->sku != b->sku || node->free == 0 || node->kept)
            continue;
        if (topo_above(topo, n, LEVEL_RACK) != rack) {
            rack = topo_above(topo, n, LEVEL_RACK);
            rack_hop[racks++] = hop_of(ctx, rack, LEVEL_RACK);
        }
        if (topo_above(topo, n, LEVEL_DOMAIN) != domain) {
            domain = topo_above(topo, n, LEVEL_DOMAIN);
            domain_hop[domains++] = hop_of(ctx, domain, LEVEL_DOMAIN);
        }
        b->nodes[b->node_count++] = n;
        b->words[at++] = racks - 1;
        b->words[at++] = domains - 1;
        b->words[at++] = node->gpus;
        b->words[at++] = node->gpus - node->free;
        b->words[at++] = room_of(ctx, n);
    }
    /* The prices follow; they were kept at the far end, which the nodes cannot have reached. */
    for (hops = 0; hops < racks; hops++)
        b->words[at++] = rack_hop[hops];
    for (hops = 0; hops < domains; hops++)
        b->words[at++] = domain_hop[hops];
    *ret_racks = racks;
    *ret_domains = domains;
    return at;
}

/* The jobs that the free GPUs of the type can hold, in order. */
static void choose_jobs(struct planner_ctx *ctx, struct plan *plan)
{
    struct batch *b = ctx->state;
    int64_t budget = plan_budget(plan, b->sku, CLASS_GUARANTEED) / MGPU_ONE, left = view_free(ctx->view, b->sku);
    uint32_t job;

    left = left < budget ? left : budget;
    b->job_count = b->task_count = 0;
    waiting_begin(ctx);
    while (left > 0 && b->job_count < JOBS_MAX_ASKED && (job = waiting_next(ctx)) != TREE_NONE) {
        const struct job *j = view_job(ctx->view, job);
        const struct shape *shape = &ctx->vc->queue.shapes[j->shape].shape;

        if (!fit_for_search(shape) || !(shape->sku_mask >> b->sku & 1) || shape->gpus > left ||
            b->task_count + (uint32_t)shape->gpus > TASKS_MAX_ASKED)
            continue;
        b->jobs[b->job_count++] = (struct job_ref){ job, j->gen };
        b->task_count += (uint32_t)shape->gpus;
        left -= shape->gpus;
    }
}

static void drop_largest(struct planner_ctx *ctx)
{
    struct batch *b = ctx->state;
    uint32_t worst = 0;

    for (uint32_t i = 1; i < b->job_count; i++)
        if (view_job(ctx->view, b->jobs[i].index)->spec.gpus >= view_job(ctx->view, b->jobs[worst].index)->spec.gpus)
            worst = i;
    b->task_count -= (uint32_t)view_job(ctx->view, b->jobs[worst].index)->spec.gpus;
    for (uint32_t i = worst + 1; i < b->job_count; i++)
        b->jobs[i - 1] = b->jobs[i];
    b->job_count--;
}

static uint64_t mix(uint64_t sum, uint64_t word)
{
    return rng_mix(sum ^ word);
}

/* Who asks, and what is free: all that an answer depends on but luck. `words`: up to the end of the nodes. */
static uint64_t question(const struct planner_ctx *ctx, uint32_t words)
{
    const struct batch *b = ctx->state;
    uint64_t sum = words;

    for (uint32_t i = HEAD; i < words; i++)
        sum = mix(sum, (uint64_t)b->words[i]);
    for (uint32_t i = 0; i < b->node_count; i++)
        sum = mix(sum, b->nodes[i]);
    for (uint32_t i = 0; i < b->job_count; i++) {
        sum = mix(sum, (uint64_t)b->jobs[i].gen << 32 | b->jobs[i].index);
        sum = mix(sum, (uint64_t)view_job(ctx->view, b->jobs[i].index)->spec.gpus);
    }
    return sum ? sum : 1;
}

/* False: there is nobody to ask for, or it would be in vain. */
static bool ask(struct planner_ctx *ctx, struct plan *plan)
{
    struct batch *b = ctx->state;
    uint32_t racks, domains, at = put_nodes(ctx, HEAD, &racks, &domains);

    if (b->dropped == 0)
        b->asked = question(ctx, at);
    if (b->asked == b->futile[b->sku])
        return false;
    for (uint32_t i = 0; i < b->dropped && b->job_count; i++)
        drop_largest(ctx);
    if (b->job_count == 0) {
        b->futile[b->sku] = b->asked;
        return false;
    }
    for (uint32_t i = 0; i < b->job_count; i++) {
        const struct jobspec *spec = &view_job(ctx->view, b->jobs[i].index)->spec;

        b->words[at++] = spec->gpu_servers;
        b->words[at++] = spec->gpus - spec->gpu_servers;
        b->words[at++] = spec->bandwidth ? spec->bandwidth : 1;
    }
    (void)put_head(ctx, racks, domains);
    return plan_solve(plan, SOLVE_PLACE, b->words, at) == 0;
}

/* The end of an interval: one type after another, the first for which somebody waits who fits; or the one that was
 * asked about, with fewer. */
static void close_interval(struct planner_ctx *ctx, struct plan *plan)
{
    struct batch *b = ctx->state;

    b->phase = BATCH_IDLE;
    for (uint32_t sku = b->dropped ? b->sku : 0; sku < view_sku_count(ctx->view); sku++) {
        b->sku = sku;
        choose_jobs(ctx, plan);
        if (b->task_count > FEW_TASKS && ask(ctx, plan)) {
            b->phase = BATCH_ASKED;
            return;
        }
        b->dropped = 0;
    }
    start_at_once(ctx, plan, true);
    b->ended = 1;
}

/* ---- what came back ---- */

static bool still_waits(const struct planner_ctx *ctx, struct job_ref ref)
{
    const struct job *job = view_job(ctx->view, ref.index);

    return job->gen == ref.gen && job_waits(job->state) && job->shape != UINT32_MAX;
}

/* One whole free GPU of the node that this gang has not taken yet; UINT32_MAX. */
static uint32_t next_gpu(const struct planner_ctx *ctx, uint32_t node, uint16_t taken)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct node *n = &ledger->topo.nodes[node];

    for (uint32_t g = n->first_gpu; g < n->first_gpu + n->gpus; g++)
        if (ledger_whole(ledger, g) && taken-- == 0)
            return g;
    return UINT32_MAX;
}

static void sort_gpus(uint32_t *list, uint32_t count)
{
    for (uint32_t gap = count / 2; gap; gap /= 2)
        for (uint32_t i = gap; i < count; i++) {
            uint32_t gpu = list[i], at = i;

            for (; at >= gap && list[at - gap] > gpu; at -= gap)
                list[at] = list[at - gap];
            list[at] = gpu;
        }
}

/* Starts the job where its tasks, from `first` on, were put; not if something there has gone since. */
static bool start_as_told(struct planner_ctx *ctx, struct plan *plan, uint32_t index, uint32_t first)
{
    struct batch *b = ctx->state;
    const struct jobspec *spec = &view_job(ctx->view, index)->spec;
    uint32_t tasks = (uint32_t)spec->gpus, servers = (uint32_t)spec->gpu_servers, workers = tasks - servers;
    uint32_t p = 0, w = 0, i;

    for (i = 0; i < tasks; i++) {
        uint16_t at = b->place[first + i];
        uint32_t gpu = next_gpu(ctx, b->nodes[at], b->taken[at]++);
        bool server = p < servers && ((uint64_t)p * workers <= (uint64_t)w * servers || w == workers);

        if (gpu == UINT32_MAX)
            break;
        b->gpus[i] = gpu;
        if (server)
            b->servers[p++] = gpu;
        w += !server;
    }
    for (uint32_t k = 0; k < tasks && k <= i; k++)
        b->taken[b->place[first + k]] = 0;
    if (i < tasks)
        return false;
    sort_gpus(b->gpus, tasks);
    plan_serve(plan, b->servers, p);
    return plan_start(plan, index, &(struct placement){ b->gpus, tasks }) == 0;
}

static void start_batch(struct planner_ctx *ctx, struct plan *plan)
{
    struct batch *b = ctx->state;
    uint32_t first = 0, started = 0;

    for (uint32_t i = 0; i < b->job_count; i++) {
        uint32_t tasks;

        /* Its size is not known any more when the job is gone: what follows cannot be told apart. */
        if (view_job(ctx->view, b->jobs[i].index)->gen != b->jobs[i].gen)
            break;
        tasks = (uint32_t)view_job(ctx->view, b->jobs[i].index)->spec.gpus;
        if (first + tasks > b->task_count)
            break;
        if (still_waits(ctx, b->jobs[i]))
            started += start_as_told(ctx, plan, b->jobs[i].index, first);
        first += tasks;
    }
    b->phase = BATCH_IDLE;
    b->dropped = 0;
    b->ended = 1;
    if (started == 0) { /* nor would it be next time: the interval ends anew, without that question */
        b->futile[b->sku] = b->asked;
        b->phase = BATCH_GATHERING;
        b->due = view_now(ctx->view);
    }
}

static void batch_solved(struct planner_ctx *ctx, struct plan *plan, const struct solution *solution)
{
    struct batch *b = ctx->state;
    bool good = b->phase == BATCH_ASKED && solution->kind == SOLVE_PLACE && solution->count == b->task_count;

    for (uint32_t t = 0; good && t < solution->count; t++) {
        good = solution->words[t] >= 0 && solution->words[t] < b->node_count;
        b->place[t] = good ? (uint16_t)solution->words[t] : 0;
    }
    if (good) {
        b->phase = BATCH_ANSWERED;
    } else {
        b->phase = BATCH_GATHERING; /* again, without the largest */
        b->due = view_now(ctx->view);
        b->dropped++;
    }
    plan_wake(plan, view_now(ctx->view) + 1);
}

/* Beyond what it is owed, when an interval has ended. Inside cells this turn is not woken for the other's sake: while
 * nobody is gathered there, it has intervals of its own. */
static void lend(struct planner_ctx *ctx, struct plan *plan, bool waits)
{
    struct batch *b = ctx->state;
    usec_t now = view_now(ctx->view);
    bool idle = b->phase == BATCH_IDLE, asked = !idle && b->phase != BATCH_GATHERING;
    bool over = b->ended || (idle && b->lend_due && now >= b->lend_due);

    start_at_once(ctx, plan, over && !asked);
    if (over && !asked)
        b->ended = 0;
    if (over || !b->lend_due)
        b->lend_due = now + ctx->params[P_INTERVAL];
    if (!idle || !waits)
        b->lend_due = 0;
    else
        plan_wake(plan, b->lend_due);
}

static void batch_plan(struct planner_ctx *ctx, struct plan *plan)
{
    struct batch *b = ctx->state;
    usec_t now = view_now(ctx->view);
    bool waits = ctx->vc->queue.waiting > ctx->vc->queue.guests; /* opportunistic jobs are placed without a search */

    if (plan_borrows(plan)) {
        if (plan_for_guests(plan))
            start_at_once(ctx, plan, false);
        else
            lend(ctx, plan, waits);
        return;
    }
    if (b->phase == BATCH_ANSWERED)
        start_batch(ctx, plan);
    start_at_once(ctx, plan, false);
    if (b->phase == BATCH_IDLE && waits) {
        b->phase = BATCH_GATHERING;
        b->due = now + ctx->params[P_INTERVAL];
    }
    if (b->phase == BATCH_GATHERING && now >= b->due)
        close_interval(ctx, plan);
    if (b->phase == BATCH_GATHERING || (b->phase == BATCH_IDLE && waits))
        plan_wake(plan, b->phase == BATCH_GATHERING ? b->due : now + ctx->params[P_INTERVAL]);
}

static enum reason batch_awaits(const struct planner_ctx *ctx, const struct shape_class *cls)
{
    const struct batch *b = ctx->state;

    return b->phase != BATCH_IDLE && fit_for_search(&cls->shape) ? REASON_SCHEDULING : REASON_PRIORITY;
}

static const char *const cost_choices[] = { "hops", "nodes", NULL };

static const struct param batch_params[] = {
    [P_INTERVAL] = { "interval", "arrivals are gathered for so long", PARAM_TIME, 15 * USEC_SEC, USEC_MSEC, USEC_DAY,
                     NULL },
    [P_ROUNDS] = { "rounds", "generations of the search", PARAM_COUNTER, 100, 1, 1000000, NULL },
    [P_COST] = { "cost", "of a hop: 1, 4, 40 inside a rack, a domain, across; or by the nodes of the rack and domain",
                 PARAM_CHOICE, COST_HOPS, 0, COST_NODES, cost_choices },
    [P_BANDWIDTH] = { "node-bandwidth", "what the network of a node carries, in tenths of a GB/s; 0: not limited",
                      PARAM_COUNTER, 0, 0, PARAM_MAX / 1000000, NULL },
    { 0 },
};

const struct planner_ops planner_liquid_batch = {
    .name = "liquid-batch",
    .summary = "gather arrivals and place them together by a genetic search",
    .params = batch_params,
    .sizes = true,
    .state_size = sizeof(struct batch),
    .kept_size = offsetof(struct batch, hopeless),
    .sides = true,
    .plan = batch_plan,
    .solved = batch_solved,
    .awaits = batch_awaits,
    .solve_words = SOLVE_WORDS,
};
