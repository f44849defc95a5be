/* SPDX-License-Identifier: Apache-2.0 */
/* vc_cells.c - what a virtual cluster is guaranteed in cells, as a cluster of its own.
 *
 * Each virtual cluster has a ledger over its virtual cells. In the phase that hands out what is owed its policy sees
 * that ledger and nothing else: free GPUs, nodes and racks are those of its virtual cells, and whatever it places there
 * the cell allocator finds GPUs for. So every policy works inside its guarantee as in a private cluster, and no other
 * virtual cluster can take from it, in number or in shape. Who uses these GPUs opportunistically leaves.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "core/contract/plan.h"
#include "core/core_internal.h"
#include "core/planning/locality.h"
#include "core/planning/preempt.h"

/* Which of the two the policy looks at: its own virtual cluster, or the whole one with what others leave idle. */
void own_look(struct core *core, struct vc *vc, bool own)
{
    if (!core->cells)
        return;
    vc->view.own = own ? vc : NULL;
    vc->place.ledger = own ? vc->own : &core->ledger;
}

static bool map_known(const struct core *core, uint32_t vc, const struct placement *to, uint8_t mark)
{
    const struct mapping *map = &core->map;

    return map->stamp == core->stamp && map->vc == vc && map->count == to->count && map->mark == mark &&
           memcmp(map->own, to->gpus, to->count * sizeof(*to->gpus)) == 0;
}

/* The nodes that have a mark, for the cells; NULL: all, since none is asked for. */
static const uint64_t *own_chosen(struct core *core, uint8_t mark)
{
    const struct topo *topo = &core->ledger.topo;

    if (mark == 0)
        return NULL;
    memset(core->chosen, 0, (cells_node_count(core->cells) / 64 + 1) * sizeof(*core->chosen));
    for (uint32_t n = 0; n < topo->node_count; n++)
        if (core->cell_node[n] != CELL_NONE && node_allows(&topo->nodes[n], mark, topo->nodes[n].kept))
            core->chosen[core->cell_node[n] / 64] |= 1ULL << (core->cell_node[n] % 64);
    return core->chosen;
}

/* Whether a device of the virtual cluster stands for one of these nodes, or can. */
static bool own_reaches(struct core *core, uint32_t virt, const uint64_t *nodes)
{
    uint32_t leaf = cells_peer(core->cells, virt), node;

    if (leaf == CELL_NONE && cells_map(core->cells, &virt, 1, nodes, &leaf) < 0)
        return false;
    node = core->cell_node[core->ledger.gpus[core->gpu_of[leaf]].node];
    return nodes[node / 64] >> (node % 64) & 1;
}

/* A job that chooses nodes does not see those of its virtual cluster that stand for others, nor those that could not be
 * bound to any it may be on. NULL: it chooses none. */
const uint64_t *own_shut(struct core *core, const struct vc *vc, uint8_t mark, uint32_t sku)
{
    const uint64_t *nodes = own_chosen(core, mark);
    uint32_t alike = CELL_NONE;
    bool reaches = false;

    for (uint32_t n = 0; nodes && n < vc->own->topo.node_count; n++) {
        const struct node *node = &vc->own->topo.nodes[n];
        uint32_t virt = vc->own_cells[node->first_gpu], root = virt;
        struct cell_info info;

        core->shut[n / 64] &= n % 64 ? UINT64_MAX : 0;
        if (node->sku != sku || !node->up)
            continue;
        for (uint32_t up; (up = cells_parent(core->cells, root)) != CELL_NONE; root = up)
            ;
        cells_get(core->cells, root, &info);
        /* Granted cells of one type that are not bound yet are as good as each other. */
        if (info.peer != CELL_NONE || info.type != alike)
            reaches = own_reaches(core, virt, nodes);
        alike = info.peer == CELL_NONE ? info.type : CELL_NONE;
        core->shut[n / 64] |= (uint64_t)!reaches << (n % 64);
    }
    return nodes ? core->shut : NULL;
}

/* GPUs of the cluster for those of the virtual one, into core->map. -EBUSY: broken hardware is in the way, or the nodes
 * with that mark are others'. */
int own_map(struct core *core, uint32_t vc, const struct placement *to, uint8_t mark)
{
    struct mapping *map = &core->map;

    if (map_known(core, vc, to, mark))
        return 0;
    map->count = 0;
    for (uint32_t i = 0; i < to->count; i++) {
        map->own[i] = to->gpus[i];
        map->cells[i] = core->vcs[vc].own_cells[to->gpus[i]];
    }
    if (cells_map(core->cells, map->cells, to->count, own_chosen(core, mark), map->leaves) < 0)
        return -EBUSY;
    for (uint32_t i = 0; i < to->count; i++)
        map->gpus[i] = core->gpu_of[map->leaves[i]];
    map->vc = vc;
    map->mark = mark;
    map->count = to->count;
    map->stamp = core->stamp;
    return 0;
}

/* Whoever uses these GPUs without being owed them leaves. -EBUSY, and nobody was told to, if one of them got its GPUs
 * in this very pass, or is not to be preempted: it was inside a guarantee that was made anew since. */
int own_evict(struct plan *plan, const uint32_t *gpus, uint32_t count)
{
    struct core *core = plan->core;
    const struct ledger *ledger = &core->ledger;

    for (int stop = 0; stop < 2; stop++)
        for (uint32_t i = 0; i < count; i++)
            for (uint32_t s = ledger->gpus[gpus[i]].shares, next; s != SHARE_NONE; s = next) {
                const struct share *share = &ledger->shares[s];
                const struct job *job = &core->jobs[share->job];

                next = share->next_of_gpu;
                if (share->role == ROLE_GUEST || share->leaving || share->off || job_bound(job))
                    continue;
                if (job->planned || !core_may_preempt(core, job, PREEMPT_FOR_STOP))
                    return -EBUSY;
                if (stop)
                    (void)plan_stop_any(plan, share->job, STOP_REQUEUE);
            }
    return 0;
}

/* Whether the device has that virtual one's use in the cells: it may, though nobody counts, while a policy plans. */
bool own_taken(const struct core *core, uint32_t virt, uint32_t leaf)
{
    return cells_peer(core->cells, virt) == leaf && cells_taken(core->cells, leaf, true);
}

/* Takes those of the mapping that nobody of the virtual cluster has yet; a GPU that is shared is taken once. */
int own_lend(struct core *core, const struct ledger *own)
{
    struct mapping *map = &core->map;
    uint32_t *cells = core->map.idle_cells, *leaves = core->map.idle_leaves, count = 0;

    for (uint32_t i = 0; i < map->count; i++)
        if (own->gpus[map->own[i]].used == 0 && !own_taken(core, map->cells[i], map->leaves[i])) {
            cells[count] = map->cells[i];
            leaves[count++] = map->leaves[i];
        }
    core->stamp++;
    return cells_lend(core->cells, cells, leaves, count);
}

/* The mapping as a placement in the cluster, in core->scratch. */
struct placement own_here(struct core *core)
{
    for (uint32_t i = 0; i < core->map.count; i++)
        core->scratch[i] = core->map.gpus[i];
    gpus_sort(core->scratch, core->map.count);
    return (struct placement){ core->scratch, core->map.count };
}

/* The newest job on the node that is not owed its place there; JOB_NONE. */
static uint32_t lent_on(const struct core *core, uint32_t node)
{
    const struct ledger *ledger = &core->ledger;
    uint32_t first = ledger->topo.nodes[node].first_gpu, best = JOB_NONE;

    for (uint32_t g = first; g < first + ledger->topo.nodes[node].gpus; g++)
        for (uint32_t s = ledger->gpus[g].shares; s != SHARE_NONE; s = ledger->shares[s].next_of_gpu) {
            const struct job *job = &core->jobs[ledger->shares[s].job];

            if (ledger->shares[s].leaving || ledger->shares[s].off || job_bound(job) || job->planned ||
                !host_asks(&job->spec) || !core_may_preempt(core, job, PREEMPT_FOR_STOP))
                continue;
            if (best == JOB_NONE || job->last_start > core->jobs[best].last_start)
                best = ledger->shares[s].job;
        }
    return best;
}

/* Whether the node would have room for so many GPUs if all who are not owed their place there left. */
static bool lent_enough(const struct core *core, uint32_t node, const struct jobspec *spec, uint32_t count)
{
    const struct ledger *ledger = &core->ledger;
    const struct host *host = &ledger->hosts[node];
    struct host_room each = host_each(ledger, node, spec);
    uint32_t first = ledger->topo.nodes[node].first_gpu;
    uint64_t mcpus = (uint64_t)each.mcpus * count + host->used.mcpus;
    uint64_t mib = (uint64_t)each.mib * count + host->used.mib;

    for (uint32_t g = first; g < first + ledger->topo.nodes[node].gpus; g++)
        for (uint32_t s = ledger->gpus[g].shares; s != SHARE_NONE; s = ledger->shares[s].next_of_gpu) {
            const struct job *job = &core->jobs[ledger->shares[s].job];

            if (ledger->shares[s].leaving || ledger->shares[s].off || job_bound(job) || job->planned ||
                !core_may_preempt(core, job, PREEMPT_FOR_STOP))
                continue;
            each = host_each(ledger, node, &job->spec);
            mcpus -= each.mcpus;
            mib -= each.mib;
        }
    return (host->most.mcpus == 0 || mcpus <= host->most.mcpus) && (host->most.mib == 0 || mib <= host->most.mib);
}

/* What cells come with of CPUs and memory is had too: whoever has it without being owed it leaves. */
static int own_evict_hosts(struct plan *plan, const struct jobspec *spec)
{
    struct core *core = plan->core;
    uint32_t here = 0, last = UINT32_MAX;

    if (!core->ledger.hosts || !host_asks(spec))
        return 0;
    (void)own_here(core);
    for (uint32_t i = 0; i < core->map.count; i++) {
        uint32_t node = core->ledger.gpus[core->scratch[i]].node;
        struct host_room each = host_each(&core->ledger, node, spec);

        here = node == last ? here + 1 : 1;
        last = node;
        if (!lent_enough(core, node, spec, here))
            return -EBUSY; /* and nobody was told to leave here */
        while (host_times(&core->ledger, node, &each) < here) {
            uint32_t victim = lent_on(core, node);

            if (victim == JOB_NONE)
                return -EBUSY;
            (void)plan_stop_any(plan, victim, STOP_REQUEUE);
        }
    }
    return 0;
}

/* What stands for a placement in a guarantee may be further apart than that is: nodes of one virtual rack can be bound
 * in two. A job that insists on being near, or on nodes that others have, waits until they are free. */
static int own_near(struct plan *plan, uint32_t index)
{
    struct core *core = plan->core;
    struct placement here = own_here(core);

    if (within_check(&core->ledger, &here, &core->jobs[index].spec) == 0 &&
        host_allows(&core->ledger, &here, &core->jobs[index].spec) == 0)
        return 0;
    core->vcs[plan->vc].unmapped = true;
    return -EBUSY;
}

/* Of nodes that cannot be bound together to those a job may be on, the first that fails beside those before it is not
 * seen in the next look. Whether there is such a one. */
bool own_shut_one(struct core *core, const struct vc *vc, const struct placement *to, uint8_t mark)
{
    const uint64_t *nodes = own_chosen(core, mark);
    struct mapping *map = &core->map;

    core->stamp++; /* the lists are used for less than a whole placement */
    for (uint32_t i = 0; i < to->count; i++) {
        uint32_t node = vc->own->gpus[to->gpus[i]].node;

        map->cells[i] = vc->own_cells[to->gpus[i]];
        if (i + 1 < to->count && vc->own->gpus[to->gpus[i + 1]].node == node)
            continue;
        if (cells_map(core->cells, map->cells, i + 1, nodes, map->leaves) == 0)
            continue;
        if (core->shut[node / 64] >> (node % 64) & 1)
            return false;
        core->shut[node / 64] |= 1ULL << (node % 64);
        return true;
    }
    return false;
}

/* Before a job is given GPUs of its virtual cluster: those that stand for them are found, freed and taken. */
int own_prepare(struct plan *plan, const struct placement *to, uint32_t index)
{
    struct core *core = plan->core;
    int r = own_map(core, plan->vc, to, core->jobs[index].spec.mark);

    if (r == 0)
        r = own_near(plan, index);
    if (r == 0)
        r = own_evict(plan, core->map.gpus, core->map.count);
    if (r == 0)
        r = own_evict_hosts(plan, &core->jobs[index].spec);
    return r < 0 ? r : own_lend(core, core->vcs[plan->vc].own);
}

/* The GPU that stood for one of the virtual cluster's when the job held it; UINT32_MAX: it did not. */
static uint32_t stood_for(const struct ledger *own, const struct job *job, uint32_t gpu)
{
    for (uint32_t s = job->own_shares; s != SHARE_NONE; s = own->shares[s].next_of_job)
        if (own->shares[s].gpu == gpu)
            return own->shares[s].on;
    return UINT32_MAX;
}

/* Whether all of the mapping is idle: the job can be there at once. */
static bool map_idle(const struct core *core, uint32_t index)
{
    for (uint32_t i = 0; i < core->map.count; i++) {
        const struct gpu *gpu = &core->ledger.gpus[core->map.gpus[i]];

        if (gpu->used > 0 || (gpu->leaving > 0 && !ledger_only_leaver(&core->ledger, core->map.gpus[i], index)))
            return false;
    }
    return true;
}

/* The same of CPUs and memory. */
static bool own_lands(struct core *core, uint32_t index)
{
    struct placement here = own_here(core);

    return host_lands(&core->ledger, &core->jobs[index], &here);
}

/* Whether the job may go there now, and the GPUs that stand for its own lie as it wants them. */
static int own_may_move(struct plan *plan, uint32_t index)
{
    struct placement here = own_here(plan->core);
    int r = rules_move(plan, index, &here);

    return r < 0 ? r : own_near(plan, index);
}

/* Whether a job of the virtual cluster itself has not left yet: as in a cluster of its own a move lands behind nobody.
 */
static bool own_busy(const struct ledger *own, const struct placement *to, uint32_t index)
{
    for (uint32_t i = 0; i < to->count; i++)
        if (own->gpus[to->gpus[i]].leaving > 0 && !ledger_only_leaver(own, to->gpus[i], index))
            return true;
    return false;
}

/* Others are where the job goes, who are owed nothing there: they are told to leave, and it goes when they have. One
 * that has CPUs or memory of its nodes would wait for what it leaves there itself: it does so only to grow where it is.
 * 1, or -EBUSY. */
static int own_wait(struct plan *plan, uint32_t index, const struct placement *to, uint32_t kept)
{
    struct core *core = plan->core;
    const struct job *job = &core->jobs[index];
    int r;

    if (job->spec.share != MGPU_ONE || job->mate != JOB_NONE || own_busy(core->vcs[plan->vc].own, to, index) ||
        (core->ledger.hosts && host_asks(&job->spec) && kept < (uint32_t)job->gpus))
        return -EBUSY;
    r = own_evict(plan, core->map.gpus, core->map.count);
    if (r == 0)
        r = own_evict_hosts(plan, &job->spec);
    return r < 0 ? r : 1;
}

/* A job that has left its GPUs, for the moment, is to have others of its virtual cluster. What it keeps there it keeps
 * here; the rest is found around that. They are taken when this says 0, or 1: others have to leave first. */
int own_move(struct plan *plan, uint32_t index, const struct placement *to)
{
    struct core *core = plan->core;
    struct mapping *map = &core->map;
    const struct vc *vc = &core->vcs[plan->vc];
    uint32_t kept = 0, fresh = to->count;
    int r, waits = 0;

    core->stamp++;
    for (uint32_t i = 0; i < to->count; i++) {
        uint32_t gpu = stood_for(vc->own, &core->jobs[index], to->gpus[i]);
        uint32_t at = gpu != UINT32_MAX ? kept++ : --fresh;

        map->own[at] = to->gpus[i];
        map->cells[at] = vc->own_cells[to->gpus[i]];
        map->leaves[at] = gpu != UINT32_MAX ? core->leaf_of[gpu] : CELL_NONE;
    }
    r = cells_lend(core->cells, map->cells, map->leaves, kept);
    if (r < 0)
        return r;
    r = cells_map(core->cells, map->cells + kept, to->count - kept, own_chosen(core, core->jobs[index].spec.mark),
                  map->leaves + kept);
    map->count = r == 0 ? to->count : 0;
    for (uint32_t i = 0; i < map->count; i++)
        map->gpus[i] = core->gpu_of[map->leaves[i]];
    if (r == 0)
        r = own_may_move(plan, index);
    if (r == 0 && !(map_idle(core, index) && own_lands(core, index)))
        waits = r = own_wait(plan, index, to, kept);
    if (r >= 0)
        r = cells_lend(core->cells, map->cells + kept, map->leaves + kept, to->count - kept);
    if (r < 0)
        cells_return(core->cells, map->leaves, kept);
    return r < 0 ? r : waits;
}

/* Tells the cells whether a GPU can be used. */
void own_health(struct core *core, uint32_t gpu)
{
    const struct gpu *g = &core->ledger.gpus[gpu];

    if (!core->cells || core->leaf_of[gpu] == CELL_NONE)
        return;
    core->stamp++;
    cells_leaf_set(core->cells, core->leaf_of[gpu], !g->bad && core->ledger.topo.nodes[g->node].up);
}

/* A GPU of a virtual cluster can no longer be had, or can again. */
static void own_set(struct core *core, uint32_t virt)
{
    const struct own_place *place = &core->own_of[virt - cells_virtual_first(core->cells)];
    struct vc *vc = &core->vcs[place->vc];
    const struct gpu *gpu;
    bool bad = cells_bad(core->cells, virt);

    if (place->gpu == UINT32_MAX)
        return; /* nobody's: of a node that is apart */
    gpu = &vc->own->gpus[place->gpu];
    if (gpu->bad == bad)
        return;
    if (bad && gpu->reserved_for != JOB_NONE)
        plan_unreserve(&(struct plan){ .core = core, .vc = place->vc }, gpu->reserved_for);
    ledger_gpu_bad(vc->own, place->gpu, bad);
    vc->own->releases++;
    vc->dirty = true;
}

/* After changes: what virtual clusters see of broken hardware. */
void own_settle(struct core *core)
{
    if (!core->cells)
        return;
    if (core->settled != core->stamp)
        cells_settle(core->cells);
    for (uint32_t virt; (virt = cells_noted(core->cells)) != CELL_NONE;)
        own_set(core, virt);
    core->settled = core->stamp;
}
