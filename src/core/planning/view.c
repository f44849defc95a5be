/* SPDX-License-Identifier: Apache-2.0 */
/* view.c - see view.h. */
#include "core/contract/view.h"

#include <assert.h>

#include "core/core_internal.h"
#include "core/planning/gang_parts.h"
#include "core/planning/rules.h"

usec_t view_now(const struct view *view)
{
    return view->core->now;
}

usec_t view_round(const struct view *view)
{
    return view->core->round;
}

bool view_allows(const struct view *view, uint32_t job, uint32_t sku)
{
    return plan_sku_allowed(view->core, &view->core->jobs[job], (uint8_t)sku);
}

uint64_t view_pass(const struct view *view)
{
    return view->core->pass;
}

const struct job *view_job(const struct view *view, uint32_t index)
{
    return core_job(view->core, index);
}

uint32_t view_job_top(const struct view *view)
{
    return view->core->job_top;
}

const struct ledger *view_ledger(const struct view *view)
{
    return view->own ? view->own->own : &view->core->ledger;
}

bool view_shows(const struct view *view, uint32_t index)
{
    return !view->split || job_bound(core_job(view->core, index)) == (view->own != NULL);
}

uint32_t view_shares(const struct view *view, uint32_t index)
{
    const struct job *job = core_job(view->core, index);

    return view->own ? job->own_shares : job->shares;
}

bool view_owner(const struct view *view, uint32_t index)
{
    const struct job *job = core_job(view->core, index);

    return job->shares != SHARE_NONE && view->core->ledger.shares[job->shares].role == ROLE_OWNER &&
           view_shows(view, index);
}

const struct tree_node *view_tree(const struct view *view)
{
    return view->core->tree;
}

uint32_t view_free(const struct view *view, uint32_t sku)
{
    const struct topo *topo = &view_ledger(view)->topo;

    return topo->pools[topo->sku_pools[sku]].free;
}

int64_t view_free_mgpu(const struct view *view, uint32_t sku)
{
    const struct ledger *ledger = view_ledger(view);

    return (int64_t)view_free(view, sku) * MGPU_ONE + tree_sum(ledger->open_nodes, ledger->open_trees[sku]);
}

int64_t view_lent(const struct view *view, const struct vc *vc, uint32_t sku)
{
    int64_t sum = 0;

    if (view->split)
        return 0; /* what is its own shows as free, whoever uses it meanwhile */
    for (uint32_t v = 0; v < view->core->vc_count; v++) {
        const struct vc *other = &view->core->vcs[v];

        sum += other->guest[sku];
        if (other != vc && other->used[sku] > other->quota[sku])
            sum += other->used[sku] - other->quota[sku];
    }
    return sum;
}

uint32_t view_total(const struct view *view, uint32_t sku)
{
    const struct topo *topo = &view_ledger(view)->topo;

    return topo->pools[topo->sku_pools[sku]].total;
}

uint32_t view_sku_count(const struct view *view)
{
    return view->core->ledger.topo.sku_count;
}

uint32_t view_waiting(const struct view *view)
{
    return view->own ? view_queued(view, view->own) : view->core->waiting;
}

uint32_t view_queued(const struct view *view, const struct vc *vc)
{
    return vc->queue.waiting - (view->own ? vc->queue.guests : 0);
}

int64_t view_queued_mgpu(const struct view *view, const struct vc *vc)
{
    return vc->queue.mgpu_waiting - (view->own ? vc->queue.mgpu_guests : 0);
}

uint32_t view_suspended(const struct view *view, const struct vc *vc)
{
    uint32_t count = 0;

    if (!view->split || vc->suspended == 0)
        return vc->suspended;
    for (uint32_t i = 0; i < view->core->job_top; i++) {
        const struct job *job = &view->core->jobs[i];

        count += job->state == JOB_SUSPENDED && &view->core->vcs[job->vc] == vc && view_shows(view, i);
    }
    return count;
}

bool view_counts(const struct view *view, const struct shape *shape)
{
    return !view->own || shape->klass != CLASS_OPPORTUNISTIC;
}

int64_t view_held(const struct view *view)
{
    int64_t sum = 0;

    if (!view->own)
        return view->core->mgpu_held;
    for (uint32_t sku = 0; sku < view_sku_count(view); sku++)
        sum += view->own->used[sku] - view->own->lent[sku];
    return sum;
}

int64_t view_capacity(const struct view *view)
{
    int64_t sum = 0;

    for (uint32_t sku = 0; sku < view_sku_count(view); sku++)
        sum += (int64_t)view_total(view, sku) * MGPU_ONE;
    return sum;
}

struct rank view_rank(const struct view *view, uint32_t index)
{
    const struct job *job = core_job(view->core, index);
    const struct queue *queue = &view->core->vcs[job->vc].queue;
    struct rank rank = view->core->tree[index].rank;

    if (job_holds(job->state) && queue->run_order == RUN_BY_KEY && job->klass != CLASS_OPPORTUNISTIC)
        rank.key -= (__int128)queue->runs[job->run_class].slope * view->core->now;
    return rank;
}

/* Whether the jobs of this class are among those the view shows. */
static bool shown(const struct view *view, const struct run_class *run)
{
    return run->count && (!view->split || run->lent == !view->own);
}

/* The rank `bound` seen from inside a tree of that slope. */
static struct rank inside(const struct view *view, const struct run_class *run, const struct rank *bound)
{
    struct rank rank = *bound;

    rank.key += (__int128)run->slope * view->core->now;
    return rank;
}

/* The next running gang, from `job` on, that has GPUs of the type on a side: trees hold a gang by its first part. */
static uint32_t side_next(const struct view *view, uint32_t sku, uint32_t job)
{
    for (; job != JOB_NONE; job = view->core->jobs[job].next) {
        const struct job *j = &view->core->jobs[job];

        if (j->spec.side_count && j->sku != sku && job_on(j, sku) && j->klass != CLASS_OPPORTUNISTIC &&
            view_shows(view, job))
            break;
    }
    return job;
}

/* What gangs before the rank, or all of them, have of the type on a side. */
static int64_t sides_before(const struct view *view, const struct vc *vc, uint32_t sku, const struct rank *rank)
{
    int64_t sum = 0;

    for (uint32_t job = side_next(view, sku, vc->run_first); job != JOB_NONE;
         job = side_next(view, sku, view->core->jobs[job].next)) {
        struct rank own = view_rank(view, job);

        if (!rank || rank_before(&own, rank))
            sum += job_amount_on(&view->core->jobs[job], sku);
    }
    return sum;
}

/* The last gang before `bound` (NULL: of all) that has GPUs of the type on a side, or `best` if that comes after it. */
static uint32_t sides_last(const struct view *view, const struct vc *vc, uint32_t sku, const struct rank *bound,
                           uint32_t best)
{
    struct rank last = best != JOB_NONE ? view_rank(view, best) : (struct rank){ 0 };

    for (uint32_t job = side_next(view, sku, vc->run_first); job != JOB_NONE;
         job = side_next(view, sku, view->core->jobs[job].next)) {
        struct rank own = view_rank(view, job);

        if ((!bound || rank_before(&own, bound)) && (best == JOB_NONE || rank_before(&last, &own))) {
            best = job;
            last = own;
        }
    }
    return best;
}

int64_t view_running_before(const struct view *view, const struct vc *vc, uint32_t sku, const struct rank *rank)
{
    int64_t sum = vc->sided ? sides_before(view, vc, sku, rank) : 0;

    for (uint32_t i = 0; i < vc->queue.run_count; i++) {
        const struct run_class *run = &vc->queue.runs[i];

        if (shown(view, run) && run->sku == sku) {
            struct rank bound = inside(view, run, rank);

            sum += tree_sum_before(view->core->tree, run->root, &bound);
        }
    }
    return sum;
}

int64_t view_running_sum(const struct view *view, const struct vc *vc, uint32_t sku)
{
    int64_t sum = vc->sided ? sides_before(view, vc, sku, NULL) : 0;

    for (uint32_t i = 0; i < vc->queue.run_count; i++)
        if (shown(view, &vc->queue.runs[i]) && vc->queue.runs[i].sku == sku)
            sum += tree_sum(view->core->tree, vc->queue.runs[i].root);
    return sum;
}

/* The nearest running job before or after a rank, over the trees of one type. */
static uint32_t running_near(const struct view *view, const struct vc *vc, uint32_t sku, const struct rank *bound,
                             bool after)
{
    const struct tree_node *tree = view->core->tree;
    uint32_t best = JOB_NONE;
    struct rank best_rank = { 0 };

    for (uint32_t i = 0; i < vc->queue.run_count; i++) {
        const struct run_class *run = &vc->queue.runs[i];
        struct rank rank;
        uint32_t at;

        if (!shown(view, run) || run->sku != sku)
            continue;
        if (bound) {
            rank = inside(view, run, bound);
            at = after ? tree_after(tree, run->root, &rank) : tree_before(tree, run->root, &rank);
        } else {
            at = after ? tree_first(tree, run->root) : tree_last(tree, run->root);
        }
        if (at == TREE_NONE)
            continue;
        rank = tree[at].rank;
        rank.key -= (__int128)run->slope * view->core->now;
        if (best == JOB_NONE || rank_before(&best_rank, &rank) != after) {
            best = at;
            best_rank = rank;
        }
    }
    return best;
}

uint32_t view_first_waiting(const struct view *view, const struct vc *vc, const bool *given_up)
{
    const struct tree_node *tree = view_tree(view);
    const struct queue *queue = &vc->queue;
    uint32_t best = TREE_NONE;

    for (uint32_t i = 0; i < queue->live_count; i++) {
        uint32_t cls = queue->live[i], job;

        if (given_up[cls])
            continue;
        job = tree_first(tree, queue->shapes[cls].root);
        if (best == TREE_NONE || rank_before(&tree[job].rank, &tree[best].rank))
            best = job;
    }
    return best;
}

uint32_t view_running_last(const struct view *view, const struct vc *vc, uint32_t sku, const struct rank *bound)
{
    uint32_t last = running_near(view, vc, sku, bound, false);

    return vc->sided ? sides_last(view, vc, sku, bound, last) : last;
}

uint32_t view_running_next(const struct view *view, const struct vc *vc, uint32_t sku, const struct rank *bound)
{
    return running_near(view, vc, sku, bound, true);
}

uint64_t view_random(const struct view *view, uint64_t bound)
{
    /* The generator is part of the state that a pass advances; the cast is the one place a view lets something move. */
    union {
        const struct rng *seen;
        struct rng *own;
    } rng = { .seen = view->own ? &view->own->rng : &view->core->rng };

    return rng_below(rng.own, bound);
}
