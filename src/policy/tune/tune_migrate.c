/* SPDX-License-Identifier: Apache-2.0 */
/* tune_migrate.c - running jobs move so that gangs are together and servers come free (Gandiva, OSDI'18, section 3.2).
 *
 * In every pass and every five minutes, until no move is left that is worth its cost:
 *
 *     from the server with the most free GPUs, but not an idle one, that offers one of
 *       locality   it holds part of a job on more servers than it needs, and another one that has fewer free GPUs takes
 *                  the whole job, or holds part of it and takes the rest
 *       emptying   three quarters of it are free, all its jobs fit into free GPUs of other servers in use, and somebody
 *                  waits for more GPUs on one server than there are free on any
 *     to the server with the fewest free GPUs that is enough, and has a part of the job already if one does
 *
 * The published rule has one threshold that stops all moves; read so, it stops before all scattered jobs are repaired,
 * so here it is the condition of emptying alone.
 *
 * A move for locality is worth it if what the job gains in ten minutes is more than what it loses while it moves. How
 * fast it will be is known when it has been together before; until then a scattered job is taken to run at 85 %. What
 * a move has brought is measured; if the job is slower than before, it moves back, if its GPUs are still free.
 */
#include <errno.h>
#include <stddef.h>

#include "core/contract/plan.h"
#include "core/contract/view.h"
#include "model/measure.h"
#include "policy/gandiva/held.h"
#include "policy/list.h"

enum { P_PERIOD, P_COST, P_HORIZON, P_SPREAD, P_EMPTY };

/* Of a job: its rate where it is and from how many windows; where that is; its rate when it was last together; its rate
 * before the last move, 0 once that was judged; where it was before: the GPUs of up to two servers. */
enum { W_RATE, W_WINDOWS, W_WHERE, W_LOCAL, W_BEFORE, W_OLD, W_OLDS = 2, W_WORSE = W_OLD + W_OLDS, W_COUNT };

enum { MOVES_A_PASS = 16, SPARE_MAX = 4096 };

#define AGAIN (10 * USEC_SEC)
#define RESTS (60 * USEC_SEC) /* between two disturbances of a job: core/planning/rules.c */

struct migrate {
    int64_t gathered, emptied, moved_back; /* moves for locality, to empty servers, and undone */
    uint32_t free[SPARE_MAX];              /* of one look: free GPUs of servers, less what was promised */
};

static void migrate_report(struct planner_ctx *ctx, struct plan *plan, uint32_t index, const struct report *report)
{
    const struct job *job = view_job(ctx->view, index);
    int64_t *words = plan_words(ctx, plan, index), here, weight;
    uint32_t first = 0, servers;

    if (report->kind != MEASURE_BATCH || job->state != JOB_RUNNING || job->mate != JOB_NONE)
        return;
    servers = held_servers(ctx, index, &first);
    here = (int64_t)first << 40 | (int64_t)servers << 20 | job->gpus;
    if (here != words[W_WHERE])
        words[W_WINDOWS] = 0;
    words[W_WHERE] = here;
    weight = words[W_WINDOWS] < 3 ? words[W_WINDOWS] : 3;
    words[W_RATE] = (words[W_RATE] * weight + report->value[0]) / (weight + 1);
    words[W_WINDOWS]++;
    if (servers == 1)
        words[W_LOCAL] = words[W_RATE];
    if (words[W_BEFORE] && words[W_WINDOWS] >= 2) {
        words[W_WORSE] = words[W_RATE] < words[W_BEFORE] / 100 * 95;
        words[W_BEFORE] = 0;
        /* It goes back when it may be disturbed again, a minute after it was moved. */
        if (words[W_WORSE])
            plan_wake(plan,
                      job->disturbed + RESTS > view_now(ctx->view) ? job->disturbed + RESTS : view_now(ctx->view) + 1);
    }
}

static bool movable(const struct planner_ctx *ctx, const struct plan *plan, uint32_t index)
{
    const struct job *job = view_job(ctx->view, index);

    return job->state == JOB_RUNNING && !job->planned && job->vc == ctx->vc->index && job->spec.share == MGPU_ONE &&
           job_shapeless(job) && view_shows(ctx->view, index) && view_owner(ctx->view, index) &&
           plan_rested(plan, index);
}

/* The job's GPUs on the server, then free ones of it, until it has all it needs there; ascending. */
static uint32_t gpus_on(const struct planner_ctx *ctx, uint32_t index, uint32_t node, uint32_t *out)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct node *n = &ledger->topo.nodes[node];
    uint32_t want = (uint32_t)view_job(ctx->view, index)->gpus, spare = want - held_on(ctx, index, node), count = 0;

    for (uint32_t g = n->first_gpu; g < n->first_gpu + n->gpus && count < want; g++) {
        bool mine = false;

        for (uint32_t s = view_shares(ctx->view, index); s != SHARE_NONE && !mine; s = ledger->shares[s].next_of_job)
            mine = ledger->shares[s].gpu == g;
        if (!mine && (spare == 0 || !ledger_idle(ledger, g)))
            continue;
        spare -= !mine;
        out[count++] = g;
    }
    return count;
}

/* Remembers where it was, then goes. */
static bool move(struct planner_ctx *ctx, struct plan *plan, uint32_t index, uint32_t to)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    int64_t *words = plan_words(ctx, plan, index), old[W_OLDS] = { 0 };
    uint32_t gpus[NODE_GPUS_MAX], first = 0, count = gpus_on(ctx, index, to, gpus);
    int r;

    for (uint32_t s = view_shares(ctx->view, index); s != SHARE_NONE; s = ledger->shares[s].next_of_job) {
        const struct node *node = &ledger->topo.nodes[ledger->gpus[ledger->shares[s].gpu].node];
        int64_t number = (int64_t)(node - ledger->topo.nodes) + 1;

        for (int i = 0; i < W_OLDS; i++)
            if (old[i] == 0 || old[i] >> 32 == number) {
                old[i] = number << 32 | ((old[i] & UINT32_MAX) + 1);
                break;
            }
    }
    if ((int32_t)count != view_job(ctx->view, index)->gpus || held_servers(ctx, index, &first) > W_OLDS)
        return false;
    r = plan_move(plan, index, &(struct placement){ gpus, count });
    if (r == -EAGAIN)
        plan_wake(plan, view_now(ctx->view) + AGAIN); /* another one moves there just now */
    if (r < 0)
        return false;
    words[W_BEFORE] = words[W_WINDOWS] ? words[W_RATE] : 0;
    for (int i = 0; i < W_OLDS; i++)
        words[W_OLD + i] = old[i];
    return true;
}

static bool holds(const struct planner_ctx *ctx, uint32_t index, uint32_t gpu)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    bool mine = false;

    for (uint32_t s = view_shares(ctx->view, index); s != SHARE_NONE && !mine; s = ledger->shares[s].next_of_job)
        mine = ledger->shares[s].gpu == gpu;
    return mine;
}

/* Back to where it was, if as many GPUs are free there, or its own. */
static bool move_back(struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    const int64_t *words = plan_words(ctx, plan, index);
    uint32_t gpus[2 * NODE_GPUS_MAX], count = 0;

    for (int i = 0; i < W_OLDS && words[W_OLD + i]; i++) {
        const struct node *node = &ledger->topo.nodes[(words[W_OLD + i] >> 32) - 1];
        uint32_t want = (uint32_t)(words[W_OLD + i] & UINT32_MAX);

        for (uint32_t g = node->first_gpu; g < node->first_gpu + node->gpus && want; g++)
            if (ledger_idle(ledger, g) || holds(ctx, index, g)) {
                gpus[count++] = g;
                want--;
            }
    }
    return (int32_t)count == view_job(ctx->view, index)->gpus &&
           plan_move(plan, index, &(struct placement){ gpus, count }) == 0;
}

static void migrate_review(struct planner_ctx *ctx, struct plan *plan)
{
    struct migrate *m = ctx->state;

    for (uint32_t i = ctx->vc->run_first, next; i != JOB_NONE; i = next) {
        int64_t *words = plan_words(ctx, plan, i);

        next = view_job(ctx->view, i)->next;
        if (!words[W_WORSE] || !movable(ctx, plan, i))
            continue;
        words[W_WORSE] = 0;
        if (view_job(ctx->view, i)->mate == JOB_NONE && move_back(ctx, plan, i))
            m->moved_back++;
    }
}

/* ---- locality ---- */

static bool worth(const struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    const int64_t *words = plan_words(ctx, plan, index);
    int64_t cost = ctx->params[P_COST] * (1 + 2 * view_job(ctx->view, index)->gpus), before = words[W_RATE], after;

    cost = cost < 20 * ctx->params[P_COST] ? cost : 20 * ctx->params[P_COST];
    if (before <= 0)
        before = PPM_ONE;
    after =
        words[W_LOCAL] > 0 && words[W_RATE] > 0 ? words[W_LOCAL] : muldiv_floor(before, PPM_ONE, ctx->params[P_SPREAD]);
    return (__int128)(after - before) * ctx->params[P_HORIZON] > (__int128)cost * before;
}

/* Where a scattered job that has a part on `from` could be together: rather where another part of it is. */
static uint32_t together_at(const struct planner_ctx *ctx, uint32_t index, uint32_t from)
{
    const struct topo *topo = &view_ledger(ctx->view)->topo;
    const struct job *job = view_job(ctx->view, index);
    uint32_t best = UINT32_MAX, best_held = 0;

    for (uint32_t n = 0; n < topo->node_count; n++) {
        const struct node *node = &topo->nodes[n];
        uint32_t held;

        if (n == from || node->sku != job->sku || !node->up || node->free >= topo->nodes[from].free)
            continue;
        held = held_on(ctx, index, n);
        if (node->free + held < (uint32_t)job->gpus || (best_held && !held))
            continue;
        if (best == UINT32_MAX || (held && !best_held) || node->free < topo->nodes[best].free) {
            best = n;
            best_held = held;
        }
    }
    return best;
}

static bool gather_from(struct planner_ctx *ctx, struct plan *plan, uint32_t from)
{
    struct migrate *m = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct node *node = &ledger->topo.nodes[from];
    uint32_t best = JOB_NONE, best_to = UINT32_MAX, first = 0;

    for (uint32_t g = node->first_gpu; g < node->first_gpu + node->gpus; g++)
        for (uint32_t s = ledger->gpus[g].shares; s != SHARE_NONE; s = ledger->shares[s].next_of_gpu) {
            uint32_t index = ledger->shares[s].job, to;
            const struct job *job = view_job(ctx->view, index);

            if (job->gpus > node->gpus || !movable(ctx, plan, index) || job->mate != JOB_NONE ||
                held_servers(ctx, index, &first) < 2 || !worth(ctx, plan, index))
                continue;
            to = together_at(ctx, index, from);
            if (to != UINT32_MAX &&
                (best_to == UINT32_MAX || ledger->topo.nodes[to].free < ledger->topo.nodes[best_to].free)) {
                best = index;
                best_to = to;
            }
        }
    if (best == JOB_NONE || !move(ctx, plan, best, best_to))
        return false;
    m->gathered++;
    return true;
}

/* ---- emptying ---- */

/* Somebody waits for, or takes turns on, more GPUs of a server than any has free, though there are as many in all. */
static int32_t lacking(const struct planner_ctx *ctx, uint32_t sku)
{
    const struct topo *topo = &view_ledger(ctx->view)->topo;
    const struct pool *pool = &topo->pools[topo->sku_pools[sku]];
    uint32_t emptiest = pool_emptiest(pool);
    int32_t most = emptiest == BITS_NONE ? 0 : topo->nodes[emptiest].free, least = INT32_MAX;

    for (uint32_t i = 0; i < ctx->vc->queue.live_count; i++) {
        const struct shape *shape = &ctx->vc->queue.shapes[ctx->vc->queue.live[i]].shape;

        if (view_counts(ctx->view, shape) && shape->sku_mask >> sku & 1 && shape->gpus > most && shape->gpus < least)
            least = shape->gpus;
    }
    for (uint32_t i = 0; i < view_job_top(ctx->view) && ctx->vc->suspended; i++) {
        const struct job *job = view_job(ctx->view, i);

        if (job->state == JOB_SUSPENDED && job->vc == ctx->vc->index && view_shows(ctx->view, i) && job->sku == sku &&
            job->gpus > most && job->gpus < least)
            least = job->gpus;
    }
    return least <= (int32_t)pool->free && least <= topo->node_gpus_max[sku] ? least : 0;
}

/* The fullest other server in use that has room, counting what was promised there already. */
static uint32_t fullest(const struct planner_ctx *ctx, uint32_t from, uint32_t sku, uint32_t need)
{
    const struct migrate *m = ctx->state;
    const struct topo *topo = &view_ledger(ctx->view)->topo;
    uint32_t best = UINT32_MAX;

    for (uint32_t n = 0; n < topo->node_count && n < SPARE_MAX; n++)
        if (n != from && topo->nodes[n].sku == sku && topo->nodes[n].up && m->free[n] >= need &&
            m->free[n] < topo->nodes[n].gpus && topo->nodes[n].free < topo->nodes[n].gpus &&
            (best == UINT32_MAX || m->free[n] < m->free[best]))
            best = n;
    return best;
}

/* Whether all who run on the server can go elsewhere; with `go`, they do. */
static bool empty_out(struct planner_ctx *ctx, struct plan *plan, uint32_t from, bool go)
{
    struct migrate *m = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct node *node = &ledger->topo.nodes[from];
    bool any = false;

    for (uint32_t n = 0; n < ledger->topo.node_count && n < SPARE_MAX; n++)
        m->free[n] = ledger->topo.nodes[n].free;
    for (uint32_t g = node->first_gpu; g < node->first_gpu + node->gpus; g++)
        for (uint32_t s = ledger->gpus[g].shares, next; s != SHARE_NONE; s = next) {
            uint32_t index = ledger->shares[s].job, to, first = 0;

            next = ledger->shares[s].next_of_gpu;
            if (ledger->shares[s].off || ledger->shares[s].role != ROLE_OWNER || view_shares(ctx->view, index) != s)
                continue;
            if (!movable(ctx, plan, index) || held_servers(ctx, index, &first) > 1)
                return false;
            to = fullest(ctx, from, node->sku, (uint32_t)view_job(ctx->view, index)->gpus);
            if (to == UINT32_MAX)
                return false;
            m->free[to] -= (uint32_t)view_job(ctx->view, index)->gpus;
            if (go && move(ctx, plan, index, to)) {
                m->emptied++;
                any = true;
                next = SHARE_NONE;
            }
        }
    return go ? any : true;
}

static bool empty_from(struct planner_ctx *ctx, struct plan *plan, uint32_t from)
{
    const struct node *node = &view_ledger(ctx->view)->topo.nodes[from];

    if ((int64_t)node->free * PPM_ONE < ctx->params[P_EMPTY] * node->gpus)
        return false;
    return lacking(ctx, node->sku) > 0 && empty_out(ctx, plan, from, false) && empty_out(ctx, plan, from, true);
}

/* From the emptiest servers in use on: the first useful move. */
static bool one_move(struct planner_ctx *ctx, struct plan *plan)
{
    const struct topo *topo = &view_ledger(ctx->view)->topo;

    for (uint32_t sku = 0; sku < topo->sku_count; sku++) {
        const struct pool *pool = &topo->pools[topo->sku_pools[sku]];

        for (uint32_t free = pool->gpus_max; free > 0; free--)
            for (uint32_t n = pool_next(pool, (uint16_t)free, 0); n != BITS_NONE;
                 n = pool_next(pool, (uint16_t)free, n + 1))
                if (topo->nodes[n].free < topo->nodes[n].gpus &&
                    (gather_from(ctx, plan, n) || empty_from(ctx, plan, n)))
                    return true;
    }
    return false;
}

static void migrate_tune(struct planner_ctx *ctx, struct plan *plan)
{
    for (int i = 0; i < MOVES_A_PASS && one_move(ctx, plan); i++)
        ;
    if (ctx->vc->running)
        plan_wake(plan, view_now(ctx->view) + ctx->params[P_PERIOD]);
}

static const struct param migrate_params[] = {
    [P_PERIOD] = { "migrate_period", "between two looks for moves, besides every pass", PARAM_TIME, 300 * USEC_SEC,
                   60 * USEC_SEC, PARAM_MAX, NULL },
    [P_COST] = { "migrate_cost", "what a move is taken to cost: this, and twice this a GPU, at most 20 times",
                 PARAM_TIME, 2 * USEC_SEC, 0, PARAM_MAX, NULL },
    [P_HORIZON] = { "migrate_horizon", "time that a job is taken to run on", PARAM_TIME, 600 * USEC_SEC, USEC_SEC,
                    PARAM_MAX, NULL },
    [P_SPREAD] = { "migrate_spread", "speed of a scattered job that was never together", PARAM_RATIO,
                   85 * PPM_ONE / 100, PPM_ONE / 100, PPM_ONE, NULL },
    [P_EMPTY] = { "migrate_empty", "free part of a server from which on it is emptied", PARAM_RATIO, 3 * PPM_ONE / 4, 0,
                  PPM_ONE, NULL },
    { 0 },
};

static const char *const migrate_counters[] = { "gathered", "emptied", "moved back", NULL };

const struct tune_ops tune_migrate = {
    .name = "migrate",
    .summary = "running jobs move so that gangs are together and servers come free",
    .params = migrate_params,
    .state_size = sizeof(struct migrate),
    .kept_size = offsetof(struct migrate, free),
    .words = W_COUNT,
    .batches = true,
    .tune = migrate_tune,
    .review = migrate_review,
    .report = migrate_report,
    .counters = migrate_counters,
};
