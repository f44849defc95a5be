/* SPDX-License-Identifier: Apache-2.0 */
/* planner_gandiva.c - every job runs soon: servers by affinity, turns where there is no room (Gandiva, OSDI'18).
 *
 * A server has the affinity of the first job that came to it while it was empty: the GPUs that job asks for. A job goes
 * to, of each class the least loaded server, the lowest number among equals:
 *
 *     1  servers of its own affinity with room      2  servers of none      3  servers of any, with room
 *     4  servers of its own affinity without room: it takes turns there
 *     5  the queue (or, with overload=any, turns on any server)
 *
 * Load is what all jobs of a server ask for, running or suspended, over its GPUs. A job wider than a server needs empty
 * servers, or takes turns with another of its width on that one's. Queued jobs are looked at in every pass, before
 * anything else; then suspended jobs go where there is room by now, as if they had just come. Turns: gandiva_slice.c.
 *
 * Packing, migration and elastic sizes are tuners (tune_pack.c, tune_migrate.c, tune_grow.c), which other policies can
 * have as well. Jobs that want part of a GPU, CPUs, or their GPUs in some shape are placed as in any
 * other policy, and keep them.
 */
#include "policy/gandiva/gandiva.h"

#include <stddef.h>

#include "policy/gandiva/grow.h"
#include "policy/list.h"

/* Whether the share is of a job that belongs to the server now: it runs there, or takes turns there. */
static bool belongs(const struct planner_ctx *ctx, const struct share *share, bool *ret_mine)
{
    const struct job *job = view_job(ctx->view, share->job);

    *ret_mine = job->vc == ctx->vc->index;
    if (share->role != ROLE_OWNER || (share->leaving && !job->parks))
        return false;
    return !share->off || *ret_mine;
}

/* Whether it looks beyond what is guaranteed in cells: what happens there is none of the business inside. */
static bool beyond(const struct planner_ctx *ctx)
{
    return ctx->vc->own && !ctx->view->own;
}

/* Each of a pair has had half of their GPUs since the last pass. */
static void share_time(const struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    const struct gandiva *g = ctx->state;
    const struct job *job = view_job(ctx->view, index), *mate = view_job(ctx->view, job->mate);
    svc_t half = svc_of((int64_t)job->gpus * MGPU_ONE, view_now(ctx->view) - g->last[beyond(ctx)]) / 2;

    if (job->state != JOB_RUNNING || mate->state != JOB_RUNNING)
        return;
    plan_word(plan, index, J_SHARED, job->word[J_SHARED] + half);
    plan_word(plan, job->mate, J_SHARED, mate->word[J_SHARED] + half);
}

static void sweep_node(const struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct node *node = &ledger->topo.nodes[index];
    int64_t *words = gandiva_node(ctx, plan, index);
    int32_t width = 0;

    /* Those it places itself are none for whom nodes are kept. */
    words[N_ROOM] = node->up && !node->kept ? node->gpus - node->bad : 0;
    words[N_LOAD] = words[N_MINE] = words[N_SUSPENDED] = 0;
    for (uint32_t g = node->first_gpu; g < node->first_gpu + node->gpus; g++)
        for (uint32_t s = ledger->gpus[g].shares; s != SHARE_NONE; s = ledger->shares[s].next_of_gpu) {
            const struct share *share = &ledger->shares[s];
            const struct job *job = view_job(ctx->view, share->job);
            bool mine, first = view_shares(ctx->view, share->job) == s;

            if (!belongs(ctx, share, &mine) || gandiva_along(ctx, share->job))
                continue;
            width = job->spec.gpus;
            if (first && mine && job->mate != JOB_NONE)
                share_time(ctx, plan, share->job);
            words[N_LOAD]++;
            words[N_MINE] += mine;
            words[N_SUSPENDED] += mine && first && (share->off || share->leaving);
            if (first && job->gpus > job->spec.gpus) {
                words[N_LOAD] -= job->gpus - job->spec.gpus; /* what it has grown by it gives back */
                words[N_MINE] -= mine ? job->gpus - job->spec.gpus : 0;
            }
        }
    if (words[N_LOAD] <= 0)
        words[N_AFFINITY] = 0;
    else if (words[N_AFFINITY] == 0)
        words[N_AFFINITY] = width;
}

uint32_t gandiva_free(const struct ledger *ledger, uint32_t node, uint32_t want, uint32_t *out, uint32_t count)
{
    const struct node *n = &ledger->topo.nodes[node];

    for (uint32_t g = n->first_gpu, end = count + want; g < n->first_gpu + n->gpus && count < end; g++)
        if (ledger_whole(ledger, g))
            out[count++] = g;
    return count;
}

static void came(const struct planner_ctx *ctx, struct plan *plan, uint32_t node, int32_t width, int32_t gpus)
{
    int64_t *words = gandiva_node(ctx, plan, node);

    if (words[N_AFFINITY] == 0)
        words[N_AFFINITY] = width;
    words[N_LOAD] += gpus;
    words[N_MINE] += gpus;
    servers_changed(ctx, plan, node);
}

/* One that was suspended there has its place elsewhere. */
static void went(const struct planner_ctx *ctx, struct plan *plan, uint32_t node, int32_t gpus)
{
    int64_t *words = gandiva_node(ctx, plan, node);

    words[N_LOAD] -= gpus;
    words[N_SUSPENDED]--;
    servers_changed(ctx, plan, node);
}

/* The job runs from now on, for a turn at least. */
static void began(struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    struct gandiva *g = ctx->state;

    plan_word(plan, index, J_RING, ++g->ring);
    plan_word(plan, index, J_UNTIL, view_now(ctx->view) + gandiva_turn(ctx, view_job(ctx->view, index)));
    plan_word(plan, index, J_PAIR, 0);
}

static int start_on(struct planner_ctx *ctx, struct plan *plan, uint32_t index, uint32_t node)
{
    struct gandiva *g = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct job *job = view_job(ctx->view, index);
    int32_t width = job->spec.gpus;
    uint32_t count;
    int r;

    if (ledger->topo.nodes[node].free < (uint32_t)width ||
        plan_budget(plan, ledger->topo.nodes[node].sku, job->klass) < job_demand(job))
        (void)grow_give_back(ctx, plan, ledger->topo.nodes[node].sku, node, (uint32_t)width);
    count = gandiva_free(ledger, node, (uint32_t)width, g->gpus, 0);
    if ((int32_t)count < width)
        return -1;
    r = plan_start(plan, index, &(struct placement){ g->gpus, count });
    if (r == 0) {
        came(ctx, plan, node, width, width);
        began(ctx, plan, index);
    }
    return r;
}

/* Of the node's GPUs those that the fewest jobs have a place on, as many as asked for; ascending. */
static uint32_t least_crowded(const struct ledger *ledger, uint32_t node, uint32_t want, uint32_t *out)
{
    const struct node *n = &ledger->topo.nodes[node];
    uint32_t jobs[NODE_GPUS_MAX] = { 0 }, count = 0;
    bool taken[NODE_GPUS_MAX] = { false };

    for (uint32_t i = 0; i < n->gpus; i++)
        for (uint32_t s = ledger->gpus[n->first_gpu + i].shares; s != SHARE_NONE; s = ledger->shares[s].next_of_gpu)
            jobs[i]++;
    for (uint32_t k = 0; k < want; k++) {
        uint32_t best = UINT32_MAX;

        for (uint32_t i = 0; i < n->gpus; i++)
            if (!taken[i] && !ledger->gpus[n->first_gpu + i].bad && (best == UINT32_MAX || jobs[i] < jobs[best]))
                best = i;
        if (best != UINT32_MAX)
            taken[best] = true;
    }
    for (uint32_t i = 0; i < n->gpus; i++)
        if (taken[i])
            out[count++] = n->first_gpu + i;
    return count;
}

/* It takes turns on the server: a place, and the end of the ring. */
static int enlist_on(struct planner_ctx *ctx, struct plan *plan, uint32_t index, uint32_t node)
{
    struct gandiva *g = ctx->state;
    int32_t width = view_job(ctx->view, index)->spec.gpus;
    uint32_t count = least_crowded(view_ledger(ctx->view), node, (uint32_t)width, g->gpus);
    int r = plan_enlist(plan, index, &(struct placement){ g->gpus, count });

    if (r < 0)
        return r;
    came(ctx, plan, node, width, width);
    gandiva_node(ctx, plan, node)[N_SUSPENDED]++;
    g->oversubscribed++;
    plan_word(plan, index, J_RING, ++g->ring);
    plan_word(plan, index, J_UNTIL, 0);
    plan_word(plan, index, J_PAIR, 0);
    return 0;
}

/* ---- jobs wider than a server ---- */

/* Empty servers, lowest numbers first. */
static int start_wide(struct planner_ctx *ctx, struct plan *plan, uint32_t index, uint32_t sku)
{
    struct gandiva *g = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    int32_t width = view_job(ctx->view, index)->spec.gpus, left = width;
    uint32_t count = 0, nodes[GROUP_NODES_MAX], node_count = 0;
    int r;

    for (uint32_t n = 0; n < ledger->topo.node_count && left > 0 && node_count < GROUP_NODES_MAX; n++) {
        const int64_t *words = gandiva_node(ctx, plan, n);
        int32_t take = left < words[N_ROOM] ? left : (int32_t)words[N_ROOM];

        if (ledger->topo.nodes[n].sku != sku || words[N_LOAD] > 0 || ledger->topo.nodes[n].free < (uint32_t)take ||
            take == 0)
            continue;
        count = gandiva_free(ledger, n, (uint32_t)take, g->gpus, count);
        nodes[node_count++] = n;
        left -= take;
    }
    if (left > 0)
        return -1;
    r = plan_start(plan, index, &(struct placement){ g->gpus, count });
    for (uint32_t i = 0; r == 0 && i < node_count; i++) {
        int64_t *words = gandiva_node(ctx, plan, nodes[i]);

        came(ctx, plan, nodes[i], width, width < words[N_ROOM] ? width : (int32_t)words[N_ROOM]);
        width -= (int32_t)words[N_ROOM];
    }
    if (r == 0)
        began(ctx, plan, index);
    return r;
}

/* The one of that width whose servers are the least loaded: turns with that. */
static int enlist_wide(struct planner_ctx *ctx, struct plan *plan, uint32_t index, uint32_t sku)
{
    struct gandiva *g = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    int32_t width = view_job(ctx->view, index)->spec.gpus;
    uint32_t best = JOB_NONE, count = 0;
    int64_t load = INT64_MAX;
    int r;

    for (uint32_t i = ctx->vc->run_first; i != JOB_NONE; i = view_job(ctx->view, i)->next) {
        const struct job *job = view_job(ctx->view, i);
        uint32_t s = view_shares(ctx->view, i), node;

        if (job->gpus != width || job->sku != sku || s == SHARE_NONE || job->mate != JOB_NONE)
            continue;
        node = ledger->gpus[ledger->shares[s].gpu].node;
        if (gandiva_node(ctx, plan, node)[N_LOAD] < load) {
            load = gandiva_node(ctx, plan, node)[N_LOAD];
            best = i;
        }
    }
    if (best == JOB_NONE)
        return -1;
    for (uint32_t s = view_shares(ctx->view, best); s != SHARE_NONE; s = ledger->shares[s].next_of_job)
        g->gpus[count++] = ledger->shares[s].gpu;
    r = plan_enlist(plan, index, &(struct placement){ g->gpus, count });
    if (r < 0)
        return r; /* another has its licences by now */
    for (uint32_t i = 0; i < count; i++) {
        uint32_t node = ledger->gpus[g->gpus[i]].node;

        came(ctx, plan, node, width, 1);
        gandiva_node(ctx, plan, node)[N_SUSPENDED] += i == 0;
    }
    g->oversubscribed++;
    plan_word(plan, index, J_RING, ++g->ring);
    plan_word(plan, index, J_UNTIL, 0);
    return 0;
}

/* ---- whoever waits ---- */

static int place_on(struct planner_ctx *ctx, struct plan *plan, uint32_t index, uint32_t sku, bool crowded)
{
    int32_t width = view_job(ctx->view, index)->spec.gpus;
    uint32_t node;

    if (width > view_ledger(ctx->view)->topo.node_gpus_max[sku])
        return crowded ? enlist_wide(ctx, plan, index, sku) : start_wide(ctx, plan, index, sku);
    node = gandiva_server(ctx, plan, width, sku, crowded);
    if (node == UINT32_MAX)
        return -1;
    return crowded ? enlist_on(ctx, plan, index, node) : start_on(ctx, plan, index, node);
}

/* As in any policy: parts of GPUs, exact numbers a node, and what has to be taken back from others. */
static int place_plain(struct plan *plan, uint32_t index)
{
    struct placement to;
    int r = plan_find(plan, plan_shape(plan, index), &to);

    if (r < 0 && !plan_borrows(plan))
        r = plan_reclaim(plan, index, &to);
    return r < 0 ? r : plan_start(plan, index, &to);
}

/* Of several types the one whose server for the job is the least crowded; the first among equals. */
static uint32_t calmest(const struct planner_ctx *ctx, const struct plan *plan, int32_t width, uint32_t mask)
{
    uint32_t best = (uint32_t)__builtin_ctz(mask);
    int64_t load = INT32_MAX, room = 1;

    if ((mask & (mask - 1)) == 0)
        return best;
    for (; mask; mask &= mask - 1) {
        uint32_t sku = (uint32_t)__builtin_ctz(mask), node = gandiva_server(ctx, plan, width, sku, true);
        const int64_t *words = node == UINT32_MAX ? NULL : gandiva_node(ctx, plan, node);

        if (words && words[N_LOAD] * room < load * words[N_ROOM]) {
            load = words[N_LOAD];
            room = words[N_ROOM];
            best = sku;
        }
    }
    return best;
}

static int place(struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    const struct job *job = view_job(ctx->view, index);
    const struct shape *shape = &ctx->vc->queue.shapes[job->shape].shape;
    uint32_t mask = shape->sku_mask;

    if (job->spec.share != MGPU_ONE || !job_plain(job))
        return place_plain(plan, index);
    for (int crowded = 0; crowded < 2; crowded++) {
        for (uint32_t left = mask & ((1U << view_sku_count(ctx->view)) - 1); left;) {
            uint32_t sku =
                crowded && !ctx->vc->own ? calmest(ctx, plan, job->spec.gpus, left) : (uint32_t)__builtin_ctz(left);

            if (place_on(ctx, plan, index, sku, crowded) == 0)
                return 0;
            left &= ~(1U << sku);
        }
        if (!crowded && place_plain(plan, index) == 0) {
            began(ctx, plan, index);
            return 0;
        }
        if (plan_for_guests(plan))
            break;
    }
    return -1;
}

/* To a server of the same affinity that would still be less crowded with it than its own is. */
static bool lower(struct planner_ctx *ctx, struct plan *plan, uint32_t index, uint32_t from)
{
    struct gandiva *g = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct job *job = view_job(ctx->view, index);
    uint32_t best, count;

    if (job->word[J_PAIR])
        return false; /* the two stay together */
    best = gandiva_calmer(ctx, plan, index, from);
    if (best == UINT32_MAX)
        return false;
    count = least_crowded(ledger, best, (uint32_t)job->gpus, g->gpus);
    if (plan_enlist(plan, index, &(struct placement){ g->gpus, count }) < 0)
        return false;
    came(ctx, plan, best, job->gpus, job->gpus);
    gandiva_node(ctx, plan, best)[N_SUSPENDED]++;
    went(ctx, plan, from, job->gpus);
    g->balanced++;
    return true;
}

bool gandiva_resume_on(struct planner_ctx *ctx, struct plan *plan, uint32_t index, uint32_t to)
{
    struct gandiva *g = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct job *job = view_job(ctx->view, index);
    uint32_t from = ledger->gpus[ledger->shares[view_shares(ctx->view, index)].gpu].node;
    uint32_t count = gandiva_free(ledger, to, (uint32_t)job->gpus, g->gpus, 0);

    if ((int32_t)count < job->gpus || plan_resume_at(plan, index, &(struct placement){ g->gpus, count }) < 0)
        return false;
    came(ctx, plan, to, job->gpus, job->gpus);
    went(ctx, plan, from, job->gpus);
    plan_word(plan, index, J_RING, ++g->ring);
    plan_word(plan, index, J_UNTIL, view_now(ctx->view) + gandiva_turn(ctx, job));
    (void)gandiva_resume_mate(ctx, plan, index);
    g->balanced++;
    return true;
}

/* A suspended job for which there is room elsewhere by now runs there; else it goes where there is less of a crowd. */
static bool go_on(struct planner_ctx *ctx, struct plan *plan, uint32_t index, uint32_t from)
{
    struct gandiva *g = ctx->state;
    const struct job *job = view_job(ctx->view, index);
    uint32_t to = UINT32_MAX;

    for (uint32_t k = 0, types = view_sku_count(ctx->view); k < types && to == UINT32_MAX; k++) {
        uint32_t sku = (job->sku + k) % types; /* rather of its own type */

        if (job->gpus >= g->no_room[sku] || !gandiva_roams(ctx, index, sku))
            continue;
        to = gandiva_server(ctx, plan, job->gpus, sku, false);
        if (to == UINT32_MAX)
            g->no_room[sku] = job->gpus; /* what comes free by moves is for the next pass */
    }
    return to == UINT32_MAX ? lower(ctx, plan, index, from) : gandiva_resume_on(ctx, plan, index, to);
}

static void balance_node(struct planner_ctx *ctx, struct plan *plan, uint32_t n)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct node *node = &ledger->topo.nodes[n];

    for (uint32_t i = node->first_gpu; i < node->first_gpu + node->gpus; i++)
        for (uint32_t s = ledger->gpus[i].shares, next; s != SHARE_NONE; s = next) {
            uint32_t index = ledger->shares[s].job;
            const struct job *job = view_job(ctx->view, index);

            next = ledger->shares[s].next_of_gpu;
            if (job->state == JOB_SUSPENDED && !job->planned && job_plain(job) && view_shows(ctx->view, index) &&
                job->vc == ctx->vc->index && view_shares(ctx->view, index) == s && job->gpus <= node->gpus &&
                !gandiva_along(ctx, index) && go_on(ctx, plan, index, n))
                next = SHARE_NONE; /* the list has changed; the next pass goes on */
        }
}

/* As a rule no server has room, and none is much less crowded than another: then nobody is looked at. */
static void balance(struct planner_ctx *ctx, struct plan *plan)
{
    uint32_t nodes = view_ledger(ctx->view)->topo.node_count;
    struct gandiva *g = ctx->state;
    int64_t room = 0, load = INT32_MAX, of = 1;

    for (uint32_t s = 0; s < SKUS_MAX; s++)
        g->no_room[s] = INT32_MAX;
    for (uint32_t n = 0; n < nodes; n++) {
        const int64_t *words = gandiva_node(ctx, plan, n);

        room = words[N_ROOM] - words[N_LOAD] > room ? words[N_ROOM] - words[N_LOAD] : room;
        if (words[N_ROOM] > 0 && words[N_LOAD] * of < load * words[N_ROOM]) {
            load = words[N_LOAD];
            of = words[N_ROOM];
        }
    }
    for (uint32_t n = 0; n < nodes; n++) {
        const int64_t *words = gandiva_node(ctx, plan, n);

        if (words[N_SUSPENDED] > 0 && words[N_LOAD] > words[N_ROOM] &&
            (room > 0 || (load + 1) * words[N_ROOM] < words[N_LOAD] * of))
            balance_node(ctx, plan, n);
    }
}

static void gandiva_plan(struct planner_ctx *ctx, struct plan *plan)
{
    struct gandiva *g = ctx->state;
    const struct queue *queue = &ctx->vc->queue;

    for (uint32_t n = 0; n < view_ledger(ctx->view)->topo.node_count; n++)
        sweep_node(ctx, plan, n);
    servers_forget(ctx);
    g->last[beyond(ctx)] = view_now(ctx->view);
    for (uint32_t i = 0; i < queue->live_count; i++)
        g->hopeless[queue->live[i]] = !plan_considers(plan, &queue->shapes[queue->live[i]]);
    for (;;) {
        uint32_t job = view_first_waiting(ctx->view, ctx->vc, g->hopeless), shape;

        if (job == TREE_NONE)
            break;
        shape = view_job(ctx->view, job)->shape;
        if (place(ctx, plan, job) < 0)
            g->hopeless[shape] = true;
    }
    if (plan_for_guests(plan))
        return;
    balance(ctx, plan);
    gandiva_slice(ctx, plan);
}

static const char *const overload_choices[] = { "affinity", "any", "auto", NULL };

static const char *const turns_choices[] = { "ring", "least", "narrow", "auto", NULL };

static const struct param gandiva_params[] = {
    [G_QUANTUM] = { "quantum", "turn of a job on a server without room", PARAM_TIME, 60 * USEC_SEC, USEC_SEC, PARAM_MAX,
                    NULL },
    [G_OVERLOAD] = { "overload", "servers on which jobs take turns: of their own width, any, or any in rounds only",
                     PARAM_CHOICE, OVERLOAD_AUTO, 0, OVERLOAD_AUTO, overload_choices },
    [G_WEIGHT_MAX] = { "weight_max", "quanta of a turn at most; one a hundred of priority", PARAM_COUNTER, 16, 1, 1000,
                       NULL },
    [G_TURNS] = { "turns", "next in a ring, by least GPU time, narrow jobs first; auto: a ring, in rounds another",
                  PARAM_CHOICE, TURNS_AUTO, 0, TURNS_AUTO, turns_choices },
    { 0 },
};

static const char *const gandiva_counters[] = { "turns", "oversubscribed", "balanced", NULL };

const struct planner_ops planner_gandiva = {
    .name = "gandiva",
    .summary = "servers by affinity, turns where there is no room",
    .params = gandiva_params,
    .state_size = sizeof(struct gandiva),
    .kept_size = offsetof(struct gandiva, hopeless),
    .node_words = N_WORDS,
    .tunes = true,
    .plan = gandiva_plan,
    .counters = gandiva_counters,
};
