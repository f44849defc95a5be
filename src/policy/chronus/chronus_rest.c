/* SPDX-License-Identifier: Apache-2.0 */
/* chronus_rest.c - what promised jobs leave goes to everybody else: shortest remaining service first.
 *
 * At every event those who fit in what is free start, in order, passing over who does not fit. At every slot jobs that
 * run without a promise may be replaced by others before them; a running job counts as if it had less ahead of it, so
 * that nobody is interrupted for a small gain. Counting decides; then everybody is placed on one node if there is a
 * hole for it, else on the fewest.
 */
#include <errno.h>

#include "policy/chronus/chronus_mss.h"

/* Combinations of ways that are tried at a slot. */
enum { SPLIT_TRIES = 243 };

/* ---- the queue ---- */

static void waiting_begin(struct planner_ctx *ctx, const struct plan *plan)
{
    struct chronus *c = ctx->state;
    const struct queue *queue = &ctx->vc->queue;

    for (uint32_t i = 0; i < queue->live_count; i++) {
        const struct shape_class *cls = &queue->shapes[queue->live[i]];

        c->cursor[queue->live[i]] = plan_considers(plan, cls) ? tree_first(view_tree(ctx->view), cls->root) : TREE_NONE;
    }
}

static uint32_t waiting_peek(const struct planner_ctx *ctx)
{
    const struct chronus *c = ctx->state;
    const struct queue *queue = &ctx->vc->queue;
    const struct tree_node *tree = view_tree(ctx->view);
    uint32_t best = TREE_NONE;

    for (uint32_t i = 0; i < queue->live_count; i++) {
        uint32_t job = c->cursor[queue->live[i]];

        if (job != TREE_NONE && (best == TREE_NONE || rank_before(&tree[job].rank, &tree[best].rank)))
            best = job;
    }
    return best;
}

static void waiting_pass(struct planner_ctx *ctx, uint32_t job)
{
    struct chronus *c = ctx->state;
    const struct tree_node *tree = view_tree(ctx->view);
    uint32_t shape = view_job(ctx->view, job)->shape;

    c->cursor[shape] = tree_after(tree, ctx->vc->queue.shapes[shape].root, &tree[job].rank);
}

/* ---- placing ---- */

/* What the job is worth on one node, on two, and on more, as far as its profile allows it to be spread. */
static struct split_job worth_of(struct planner_ctx *ctx, uint32_t job)
{
    const struct job *j = view_job(ctx->view, job);
    const struct curve *curve = mss_curve(ctx, NULL, job);
    struct split_job ret = { .gpus = j->spec.gpus, .worth = { (int64_t)j->spec.gpus * 1000 } };
    ppm_t least = ctx->params[P_SPREAD], two = curve ? curve->two_nodes : 0;

    if (least >= PPM_ONE || two < least || two <= 0 || chronus_status(j) == STATUS_PROMISED)
        return ret;
    ret.worth[1] = muldiv_floor(ret.worth[0], two, PPM_ONE);
    /* Times of an iteration on one and on two nodes tell that on four. */
    two = muldiv_floor(PPM_ONE, PPM_ONE, lease_iteration(PPM_ONE, muldiv_floor(PPM_ONE, PPM_ONE, two), 4));
    ret.worth[2] = two >= least ? muldiv_floor(ret.worth[0], two, PPM_ONE) : 0;
    return ret;
}

/* Nodes of a type with free GPUs, and how many each has. */
static int32_t gather_holes(struct planner_ctx *ctx, uint32_t sku)
{
    struct chronus *c = ctx->state;
    const struct topo *topo = &view_ledger(ctx->view)->topo;
    int32_t count = 0;

    for (uint32_t n = 0; n < topo->node_count && count < CHRONUS_NODES; n++)
        if (topo->nodes[n].sku == sku && topo->nodes[n].up && topo->nodes[n].free > 0) {
            c->hole_node[count] = n;
            c->hole[count++] = topo->nodes[n].free;
        }
    return count;
}

static int start_split(struct planner_ctx *ctx, struct plan *plan, uint32_t job, const struct split_place *to)
{
    struct chronus *c = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    uint32_t got = 0, most = sizeof(c->gpus) / sizeof(*c->gpus);

    for (int32_t i = 0; i < to->count; i++) {
        const struct node *node = &ledger->topo.nodes[c->hole_node[to->parts[i].hole]];
        int32_t left = to->parts[i].gpus;

        for (uint32_t g = node->first_gpu; g < node->first_gpu + node->gpus && left > 0 && got < most; g++)
            if (ledger_whole(ledger, g)) {
                c->gpus[got++] = g;
                left--;
            }
    }
    for (uint32_t i = 1; i < got; i++) {
        uint32_t gpu = c->gpus[i], k = i;

        for (; k > 0 && c->gpus[k - 1] > gpu; k--)
            c->gpus[k] = c->gpus[k - 1];
        c->gpus[k] = gpu;
    }
    if ((int32_t)got != view_job(ctx->view, job)->spec.gpus)
        return -EBUSY;
    return plan_start(plan, job, &(struct placement){ c->gpus, got });
}

/* Several jobs of more than one GPU together, by local search; those that found no place are tried one by one. */
static void start_together(struct planner_ctx *ctx, struct plan *plan, const uint32_t *jobs, uint32_t count)
{
    struct chronus *c = ctx->state;
    int32_t holes = gather_holes(ctx, 0), chosen = 0;
    uint32_t who[SPLIT_JOBS];

    for (uint32_t i = 0; i < count && chosen < SPLIT_JOBS; i++)
        if (view_job(ctx->view, jobs[i])->spec.gpus > 1 && view_job(ctx->view, jobs[i])->spec.gpus <= SPLIT_PARTS) {
            who[chosen] = jobs[i];
            c->split[chosen++] = worth_of(ctx, jobs[i]);
        }
    if (!chosen)
        return;
    (void)split_jobs(&(struct split_holes){ c->hole, c->node_held, holes }, c->split, chosen, SPLIT_TRIES, c->split_to);
    for (int32_t i = 0; i < chosen; i++)
        if (c->split_to[i].count > 0)
            (void)start_split(ctx, plan, who[i], &c->split_to[i]);
}

static int start(struct planner_ctx *ctx, struct plan *plan, uint32_t job)
{
    const struct job *j = view_job(ctx->view, job);
    struct placement to;
    int r;

    if (j->planned)
        return 0;
    r = plan_find(plan, plan_shape(plan, job), &to);
    if (r == 0)
        return plan_start(plan, job, &to);
    if (r != -EDQUOT && ctx->params[P_SPREAD] < PPM_ONE && view_sku_count(ctx->view) == 1 && !plan_borrows(plan) &&
        j->spec.gpus > 1)
        start_together(ctx, plan, &job, 1);
    return j->planned ? 0 : r;
}

/* A promised job whose turn this lease is has been placed already, or cannot be. */
static bool of_the_rest(const struct planner_ctx *ctx, const struct job *job)
{
    const struct chronus *c = ctx->state;

    if (chronus_status(job) == STATUS_PROFILING)
        return false;
    if (chronus_status(job) == STATUS_PROMISED && ctx->params[P_ELASTIC] != ELASTIC_OFF)
        return false;
    return chronus_status(job) != STATUS_PROMISED || !task_has(&c->tasks[job->word[WORD_TASK]], c->lease);
}

static bool anything_free(const struct planner_ctx *ctx)
{
    for (uint32_t sku = 0; sku < view_sku_count(ctx->view); sku++)
        if (view_free_mgpu(ctx->view, sku) > 0)
            return true;
    return false;
}

void rest_fill(struct planner_ctx *ctx, struct plan *plan)
{
    struct chronus *c = ctx->state;
    uint32_t job;

    waiting_begin(ctx, plan);
    while (anything_free(ctx) && (job = waiting_peek(ctx)) != TREE_NONE) {
        const struct job *j = view_job(ctx->view, job);
        uint32_t shape = j->shape;

        waiting_pass(ctx, job);
        if (of_the_rest(ctx, j) && start(ctx, plan, job) < 0)
            c->cursor[shape] = TREE_NONE;
    }
}

/* ---- slots ---- */

/* Running jobs without a claim on this lease, in order; into c->list with their ranks. */
static uint32_t gather_running(struct planner_ctx *ctx, const struct plan *plan)
{
    struct chronus *c = ctx->state;
    uint32_t count = 0;

    (void)plan;
    for (uint32_t i = ctx->vc->run_first; i != JOB_NONE && count < CHRONUS_RUNNING; i = view_job(ctx->view, i)->next) {
        const struct job *job = view_job(ctx->view, i);
        struct rank rank;
        uint32_t k;

        if (job->planned || !of_the_rest(ctx, job) || job->klass == CLASS_OPPORTUNISTIC || job->spec.share < MGPU_ONE)
            continue;
        rank = view_rank(ctx->view, i);
        if (rank.key > 0)
            rank.key -= rank.key % ((__int128)1 << 59) * ctx->params[P_STAY] / PPM_ONE;
        for (k = count++; k > 0 && rank_before(&rank, &c->rank[k - 1]); k--) {
            c->rank[k] = c->rank[k - 1];
            c->list[k] = c->list[k - 1];
        }
        c->rank[k] = rank;
        c->list[k] = i;
    }
    return count;
}

/* The first type it may use that has room by count; SKUS_MAX if none. */
static uint32_t room_for(const struct planner_ctx *ctx, const struct job *job, const int64_t *room)
{
    uint32_t mask = ctx->vc->queue.shapes[job->shape].shape.sku_mask;

    for (uint32_t sku = 0; sku < view_sku_count(ctx->view); sku++)
        if (mask >> sku & 1 && room[sku] >= job_demand(job))
            return sku;
    return SKUS_MAX;
}

/* Who would be running, by count: waiting ones into c->other, running ones that are not are moved to the front of
 * c->list. */
static uint32_t choose(struct planner_ctx *ctx, uint32_t running, int64_t *room, uint32_t *ret_stops)
{
    struct chronus *c = ctx->state;
    uint32_t at = 0, chosen = 0, stops = 0;

    for (;;) {
        uint32_t job = waiting_peek(ctx), sku;
        const struct job *j;

        if (at < running && (job == TREE_NONE || rank_before(&c->rank[at], &view_tree(ctx->view)[job].rank))) {
            j = view_job(ctx->view, c->list[at]);
            if (room[j->sku] >= (int64_t)j->gpus * MGPU_ONE)
                room[j->sku] -= (int64_t)j->gpus * MGPU_ONE;
            else
                c->list[stops++] = c->list[at];
            at++;
            continue;
        }
        if (job == TREE_NONE || chosen == CHRONUS_RUNNING)
            break;
        j = view_job(ctx->view, job);
        waiting_pass(ctx, job);
        if (!of_the_rest(ctx, j))
            continue;
        sku = room_for(ctx, j, room);
        if (sku == SKUS_MAX) {
            c->cursor[j->shape] = TREE_NONE;
            continue;
        }
        room[sku] -= job_demand(j);
        c->other[chosen++] = job;
    }
    *ret_stops = stops;
    return chosen;
}

void rest_slot(struct planner_ctx *ctx, struct plan *plan)
{
    struct chronus *c = ctx->state;
    int64_t room[SKUS_MAX];
    uint32_t running = gather_running(ctx, plan), stops, chosen;

    for (uint32_t sku = 0; sku < view_sku_count(ctx->view); sku++) {
        int64_t budget = plan_budget(plan, sku, CLASS_GUARANTEED), free = view_free_mgpu(ctx->view, sku);

        room[sku] = free < budget ? free : budget;
    }
    for (uint32_t i = 0; i < running; i++) {
        const struct job *j = view_job(ctx->view, c->list[i]);

        room[j->sku] += (int64_t)j->gpus * MGPU_ONE;
    }
    waiting_begin(ctx, plan);
    chosen = choose(ctx, running, room, &stops);
    for (uint32_t i = 0; i < stops; i++)
        (void)plan_stop(plan, c->list[i], STOP_CHECKPOINT);
    if (ctx->params[P_SPREAD] < PPM_ONE && view_sku_count(ctx->view) == 1)
        start_together(ctx, plan, c->other, chosen);
    for (uint32_t i = 0; i < chosen; i++)
        (void)start(ctx, plan, c->other[i]);
    /* Whose GPUs nobody took after all goes on. */
    for (uint32_t i = 0; i < stops; i++)
        if (view_job(ctx->view, c->list[i])->state == JOB_STOPPING)
            (void)plan_keep(plan, c->list[i]);
}
