/* SPDX-License-Identifier: Apache-2.0 */
/* tune_types.c - running jobs move to GPUs of another type on which they are faster (Gandiva's introspection, OSDI'18).
 *
 * What a job does on a type is measured where it runs, in mini-batches a second, and remembered for others of its model
 * and width. On a type nobody of its model has been on it is taken to gain what others have gained between the two
 * types; if nobody has been on both, it is tried. The widest first, then from the greatest gain on, jobs move to types
 * on which GPUs are free; one that turns out to be slower there is as much faster where it came from, and moves back by
 * the same rule.
 *
 * Only where a cluster has several types. Jobs that say which types they want move between those. Not where
 * virtual clusters are guaranteed cells: these are of a type each.
 */
#include <errno.h>
#include <stddef.h>

#include "core/contract/plan.h"
#include "core/contract/view.h"
#include "model/measure.h"
#include "policy/gandiva/held.h"
#include "policy/list.h"

enum { P_GAIN, P_TRIAL, P_EXCHANGE };

/* Of a job: how many windows it was measured in on the GPUs it has, and which these are; its rate on each type. */
enum { W_WINDOWS, W_WHERE, W_RATE, W_COUNT = W_RATE + SKUS_MAX };

enum { MOVES_A_PASS = 16, KNOWN_MAX = 256, WIDE_GPUS = 1024, EXCHANGES_MAX = 8, WIDER = 1000 };

struct types {
    int64_t faster, tried, exchanged; /* moves to types known to be faster; to types nobody knew; changes of places */
    struct exchange {
        uint32_t up, up_gen, down, down_gen; /* who goes to the faster type, once the other one is suspended */
        bool set;
    } exchanges[EXCHANGES_MAX];
    struct known {
        uint64_t key; /* model and width; 0 = empty */
        int64_t rate[SKUS_MAX];
    } known[KNOWN_MAX];
};

static struct known *known_of(struct types *t, const struct job *job)
{
    uint64_t key = ((uint64_t)job->spec.model + 1) << 20 | (uint64_t)job->gpus;
    size_t at = key * 0x9e3779b97f4a7c15 >> 56;

    if (job->spec.model == NAME_NONE)
        return NULL;
    for (size_t i = 0; i < 8; i++) {
        struct known *known = &t->known[(at + i) % KNOWN_MAX];

        if (known->key == 0)
            known->key = key;
        if (known->key == key)
            return known;
    }
    return NULL;
}

static void types_report(struct planner_ctx *ctx, struct plan *plan, uint32_t index, const struct report *report)
{
    const struct job *job = view_job(ctx->view, index);
    int64_t *words, *rate, here, weight;
    struct known *known;

    if (view_sku_count(ctx->view) < 2 || ctx->vc->own || report->kind != MEASURE_BATCH || job->state != JOB_RUNNING ||
        job->mate != JOB_NONE)
        return;
    words = plan_words(ctx, plan, index);
    rate = &words[W_RATE + job->sku];
    here = (int64_t)(job->sku + 1) << 40 | (int64_t)held_servers(ctx, index, NULL) << 20 | job->gpus;
    if (here != words[W_WHERE])
        words[W_WINDOWS] = 0;
    words[W_WHERE] = here;
    weight = words[W_WINDOWS] < 3 ? words[W_WINDOWS] : 3;
    *rate = (*rate * weight + report->value[0]) / (weight + 1);
    if (words[W_WINDOWS]++ == 0)
        plan_wake(plan, view_now(ctx->view) + 1); /* it can be compared now */
    known = job->gpus == job->spec.gpus ? known_of(ctx->state, job) : NULL;
    if (known)
        known->rate[job->sku] = *rate;
}

/* What others have gained from one type to the other, in millionths; 0 = nobody has been on both. */
static int64_t usual(const struct types *t, uint32_t from, uint32_t to)
{
    int64_t sum = 0, count = 0;

    for (size_t i = 0; i < KNOWN_MAX; i++)
        if (t->known[i].key && t->known[i].rate[from] > 0 && t->known[i].rate[to] > 0) {
            int64_t ratio = muldiv_floor(t->known[i].rate[to], PPM_ONE, t->known[i].rate[from]);

            sum += ratio < 100 * PPM_ONE ? ratio : 100 * PPM_ONE;
            count++;
        }
    return count ? sum / count : 0;
}

/* Its rate there over its rate here, in millionths. */
static int64_t gain_of(const struct planner_ctx *ctx, struct plan *plan, uint32_t index, uint32_t to,
                       const int64_t usuals[SKUS_MAX][SKUS_MAX], bool *ret_trial)
{
    const struct job *job = view_job(ctx->view, index);
    const int64_t *words = plan_words(ctx, plan, index);
    const struct known *known = known_of(ctx->state, job);
    int64_t here = words[W_RATE + job->sku], there = words[W_RATE + to];

    *ret_trial = false;
    if (there == 0 && known)
        there = known->rate[to];
    if (here > 0 && there > 0)
        return muldiv_floor(there, PPM_ONE, here);
    *ret_trial = true;
    return usuals[job->sku][to] ? usuals[job->sku][to] : ctx->params[P_TRIAL];
}

/* Free GPUs for it on servers of the type: the fullest one that has enough, or, wider than a server, whole ones. */
static uint32_t find(const struct planner_ctx *ctx, uint32_t width, uint32_t sku, uint32_t *out)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct topo *topo = &ledger->topo;
    uint32_t best = UINT32_MAX, count = 0;
    bool wide = (int32_t)width > topo->node_gpus_max[sku];

    for (uint32_t n = 0; n < topo->node_count && count < width; n++) {
        const struct node *node = &topo->nodes[n];

        if (node->sku != sku || !node->up || (wide ? node->free < node->gpus : node->free < width))
            continue;
        if (!wide && (best == UINT32_MAX || node->free < topo->nodes[best].free))
            best = n;
        for (uint32_t g = node->first_gpu; wide && g < node->first_gpu + node->gpus && count < width; g++)
            if (ledger_idle(ledger, g))
                out[count++] = g;
    }
    for (uint32_t g = 0; best != UINT32_MAX && g < topo->nodes[best].gpus && count < width; g++)
        if (ledger_idle(ledger, topo->nodes[best].first_gpu + g))
            out[count++] = topo->nodes[best].first_gpu + g;
    return count == width ? count : 0;
}

static bool movable(const struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    const struct job *job = view_job(ctx->view, index);

    return job->state == JOB_RUNNING && !job->planned && job->spec.share == MGPU_ONE && job_shapeless(job) &&
           job->gpus <= WIDE_GPUS && view_shows(ctx->view, index) && view_owner(ctx->view, index) &&
           plan_rested(plan, index) && plan_words(ctx, plan, index)[W_WINDOWS] > 0;
}

static bool one_move(struct planner_ctx *ctx, struct plan *plan, const int64_t usuals[SKUS_MAX][SKUS_MAX])
{
    struct types *t = ctx->state;
    uint32_t best = JOB_NONE, best_to = 0, gpus[WIDE_GPUS], count;
    int64_t best_gain = ctx->params[P_GAIN];
    bool best_trial = false;

    for (uint32_t i = ctx->vc->run_first; i != JOB_NONE; i = view_job(ctx->view, i)->next) {
        const struct job *job = view_job(ctx->view, i);

        if (!movable(ctx, plan, i))
            continue;
        for (uint32_t sku = 0; sku < view_sku_count(ctx->view); sku++) {
            bool trial;
            int64_t gain;

            if (sku == job->sku || !view_allows(ctx->view, i, sku))
                continue;
            gain = gain_of(ctx, plan, i, sku, usuals, &trial);
            if (gain > ctx->params[P_GAIN])
                gain += (int64_t)WIDER * PPM_ONE * job->gpus; /* of those that gain, the widest first */
            if (gain > best_gain && find(ctx, (uint32_t)job->gpus, sku, gpus)) {
                best = i;
                best_to = sku;
                best_gain = gain;
                best_trial = trial;
            }
        }
    }
    if (best == JOB_NONE)
        return false;
    count = find(ctx, (uint32_t)view_job(ctx->view, best)->gpus, best_to, gpus);
    if (plan_move(plan, best, &(struct placement){ gpus, count }) < 0)
        return false;
    (*(best_trial ? &t->tried : &t->faster))++;
    return true;
}

/* ---- changes of places ---- */

/* How much faster it is on one type than on the other, in millionths; 0: not known. */
static int64_t ratio_of(const struct planner_ctx *ctx, struct plan *plan, uint32_t index, uint32_t fast, uint32_t slow)
{
    const int64_t *words = plan_words(ctx, plan, index);
    const struct known *known = known_of(ctx->state, view_job(ctx->view, index));
    int64_t up = words[W_RATE + fast], down = words[W_RATE + slow];

    up = up == 0 && known ? known->rate[fast] : up;
    down = down == 0 && known ? known->rate[slow] : down;
    return up > 0 && down > 0 ? muldiv_floor(up, PPM_ONE, down) : 0;
}

/* Of those that run on one type with so many GPUs, who gains least from it, and of those on the other who would gain
 * most. */
static bool exchange(struct planner_ctx *ctx, struct plan *plan, uint32_t fast, uint32_t slow)
{
    struct types *t = ctx->state;
    struct exchange *slot = NULL;
    uint32_t best[2] = { JOB_NONE, JOB_NONE };
    int64_t best_gain = ctx->params[P_EXCHANGE];

    for (int i = 0; i < EXCHANGES_MAX && !slot; i++)
        slot = t->exchanges[i].set ? NULL : &t->exchanges[i];
    if (!slot)
        return false;
    for (uint32_t i = ctx->vc->run_first; i != JOB_NONE; i = view_job(ctx->view, i)->next) {
        int64_t down = 0;

        if (view_job(ctx->view, i)->sku != fast || !view_allows(ctx->view, i, slow) ||
            view_job(ctx->view, i)->mate != JOB_NONE || !movable(ctx, plan, i))
            continue;
        down = ratio_of(ctx, plan, i, fast, slow);
        for (uint32_t k = ctx->vc->run_first; k != JOB_NONE && down > 0; k = view_job(ctx->view, k)->next) {
            int64_t up, gain;

            if (view_job(ctx->view, k)->sku != slow || !view_allows(ctx->view, k, fast) ||
                view_job(ctx->view, k)->mate != JOB_NONE ||
                view_job(ctx->view, k)->gpus != view_job(ctx->view, i)->gpus || !movable(ctx, plan, k))
                continue;
            up = ratio_of(ctx, plan, k, fast, slow);
            gain = muldiv_floor(up, PPM_ONE, down);
            if (gain > best_gain) {
                best_gain = gain;
                best[0] = i;
                best[1] = k;
            }
        }
    }
    if (best[0] == JOB_NONE || plan_suspend(plan, best[0]) < 0)
        return false;
    *slot = (struct exchange){ best[1], view_job(ctx->view, best[1])->gen, best[0], view_job(ctx->view, best[0])->gen,
                               true };
    return true;
}

static void types_review(struct planner_ctx *ctx, struct plan *plan)
{
    struct types *t = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);

    for (int e = 0; e < EXCHANGES_MAX; e++) {
        struct exchange *x = &t->exchanges[e];
        const struct job *up, *down;
        uint32_t gpus[WIDE_GPUS], count = 0;

        if (!x->set)
            continue;
        up = view_job(ctx->view, x->up);
        down = view_job(ctx->view, x->down);
        if (down->gen == x->down_gen && down->state == JOB_STOPPING)
            continue;
        x->set = false;
        if (up->gen != x->up_gen || down->gen != x->down_gen || down->state != JOB_SUSPENDED || down->sku == up->sku ||
            up->gpus != down->gpus || !view_allows(ctx->view, x->up, down->sku) || up->mate != JOB_NONE ||
            !movable(ctx, plan, x->up))
            continue;
        for (uint32_t s = view_shares(ctx->view, x->down); s != SHARE_NONE; s = ledger->shares[s].next_of_job)
            if (ledger_whole(ledger, ledger->shares[s].gpu))
                gpus[count++] = ledger->shares[s].gpu;
        if ((int32_t)count == up->gpus && plan_move(plan, x->up, &(struct placement){ gpus, count }) == 0)
            t->exchanged++;
    }
}

static void types_tune(struct planner_ctx *ctx, struct plan *plan)
{
    int64_t usuals[SKUS_MAX][SKUS_MAX];
    uint32_t types = view_sku_count(ctx->view);

    if (types < 2 || ctx->vc->own)
        return;
    for (uint32_t from = 0; from < types; from++)
        for (uint32_t to = 0; to < types; to++)
            usuals[from][to] = from == to ? PPM_ONE : usual(ctx->state, from, to);
    for (int i = 0; i < MOVES_A_PASS && one_move(ctx, plan, usuals); i++)
        ;
    if (!ctx->vc->policy.planner->tunes || ctx->vc->suspended > 0)
        return; /* nobody would let the one come back that is suspended */
    for (uint32_t fast = 0; fast < types; fast++)
        for (uint32_t slow = 0; slow < types; slow++)
            if (usuals[slow][fast] > PPM_ONE)
                (void)exchange(ctx, plan, fast, slow);
}

static const struct param types_params[] = {
    [P_GAIN] = { "types_gain", "speed on another type over speed here from which on a job moves", PARAM_RATIO,
                 11 * PPM_ONE / 10, PPM_ONE, 100 * PPM_ONE, NULL },
    [P_TRIAL] = { "types_trial", "the same of a type that nobody has been on; below types_gain it is not tried",
                  PARAM_RATIO, 2 * PPM_ONE, 0, 100 * PPM_ONE, NULL },
    [P_EXCHANGE] = { "types_exchange", "what two jobs must gain, one over what the other loses, to change places",
                     PARAM_RATIO, 13 * PPM_ONE / 10, PPM_ONE, 100 * PPM_ONE, NULL },
    { 0 },
};

static const char *const types_counters[] = { "moved to faster types", "types tried", "types exchanged", NULL };

const struct tune_ops tune_types = {
    .name = "types",
    .summary = "running jobs move to GPU types on which they are faster",
    .params = types_params,
    .state_size = sizeof(struct types),
    .kept_size = sizeof(struct types),
    .words = W_COUNT,
    .batches = true,
    .tune = types_tune,
    .review = types_review,
    .report = types_report,
    .counters = types_counters,
};
