/* SPDX-License-Identifier: Apache-2.0 */
/* promote.c - a job that was started beyond the guarantee comes inside when cells of its virtual cluster are free.
 *
 * It stays where it is; its GPUs now stand for those cells and are bound, so that nobody can send it away. Those come
 * first that come first in the order of the virtual cluster, and none before a waiting job that goes first: the cells
 * hold whom they would hold in a cluster of its own, and who is sent away when an owner comes is whoever would wait
 * there.
 */
#include "core/contract/plan.h"
#include "core/core_internal.h"

static bool eligible(const struct core *core, const struct job *job)
{
    return (job->state == JOB_RUNNING || job->state == JOB_STARTING) && !job_bound(job) && !job->planned &&
           !job->packed && job->mate == JOB_NONE && !job->sheds && job->klass != CLASS_OPPORTUNISTIC &&
           job->spec.share == MGPU_ONE && job->spec.side_count == 0 &&
           core->ledger.shares[job->shares].role == ROLE_OWNER;
}

/* Whether somebody who waits goes first: comes before it, and could start or is waited for. */
static bool held_up(struct plan *plan, const struct rank *rank)
{
    struct core *core = plan->core;
    struct vc *vc = &core->vcs[plan->vc];
    bool overtakes = vc->policy.planner->overtakes && vc->policy.planner->overtakes(&vc->planner);
    struct placement found;

    for (uint32_t i = 0; i < vc->queue.live_count; i++) {
        struct shape_class *cls = &vc->queue.shapes[vc->queue.live[i]];
        uint32_t first = tree_first(core->tree, cls->root);

        if (!plan_considers(plan, cls) || !rank_before(&core->tree[first].rank, rank))
            continue;
        if (!overtakes || plan_find(plan, cls, &found) == 0)
            return true;
    }
    return false;
}

/* Cells of its virtual cluster for GPUs it holds, into core->map. */
static int find_cells(struct plan *plan, const struct job *job)
{
    struct core *core = plan->core;
    struct vc *vc = &core->vcs[plan->vc];
    struct shape_class cls = { .shape = queue_shape(core, &job->spec, job->level, job->klass) };
    struct mapping *map = &core->map;
    struct placement found;
    uint32_t s = job->shares;

    cls.shape.gpus = job->gpus;
    if (vc_budget(core, vc, job->sku, PHASE_OWED, job->klass) < (int64_t)job->gpus * MGPU_ONE ||
        plan_find_on(plan, &cls, job->sku, &found) < 0)
        return -1;
    core->stamp++;
    map->count = found.count;
    for (uint32_t i = 0; i < found.count; i++, s = core->ledger.shares[s].next_of_job) {
        map->own[i] = found.gpus[i];
        map->cells[i] = vc->own_cells[found.gpus[i]];
        map->gpus[i] = core->ledger.shares[s].gpu;
        map->leaves[i] = core->leaf_of[map->gpus[i]];
        if (map->leaves[i] == CELL_NONE)
            return -1;
    }
    return 0;
}

static bool promote(struct plan *plan, uint32_t index)
{
    struct core *core = plan->core;
    struct job *job = &core->jobs[index];
    struct mapping *map = &core->map;
    int r;

    if (find_cells(plan, job) < 0)
        return false;
    cells_return(core->cells, map->leaves, map->count);
    r = cells_lend(core->cells, map->cells, map->leaves, map->count);
    core->stamp++;
    if (r < 0) { /* they cannot stand for these cells: as before */
        r = cells_lend(core->cells, NULL, map->leaves, map->count);
        return r > 0;
    }
    core_detach(core, index);
    hold_adopt(core, index);
    job->borrowed = false;
    core_attach(core, index);
    return true;
}

/* Whether some GPU of the virtual cluster is idle; most of the time none is, and nobody need be looked at. */
static bool anything_free(const struct plan *plan)
{
    for (uint32_t s = 0; s < plan->core->ledger.topo.sku_count; s++)
        if (plan_free(plan, s) > 0)
            return true;
    return false;
}

void promote_lent(struct plan *plan)
{
    struct core *core = plan->core;
    struct vc *vc = &core->vcs[plan->vc];
    struct rank last = { .key = -((__int128)1 << 126) };

    if (!anything_free(plan))
        return;

    for (;;) {
        uint32_t best = JOB_NONE;
        struct rank first = { 0 };

        if (vc->run_first == JOB_NONE)
            return;
        for (uint32_t i = vc->run_first; i != JOB_NONE; i = core->jobs[i].next) {
            struct rank rank;

            if (!eligible(core, &core->jobs[i]))
                continue;
            rank = queue_rank(core, i);
            if (rank_before(&last, &rank) && (best == JOB_NONE || rank_before(&rank, &first))) {
                best = i;
                first = rank;
            }
        }
        if (best == JOB_NONE || held_up(plan, &first))
            return;
        (void)promote(plan, best);
        last = first;
    }
}
