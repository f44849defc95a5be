/* SPDX-License-Identifier: Apache-2.0 */
/* vc_cells_check.c - virtual clusters' own ledgers and the cells: built again after a restart, carried into another
 * cluster, and compared with each other. */
#include <assert.h>
#include <errno.h>

#include "core/core_internal.h"
#include "core/snapshot/audit.h"

/* The GPU, of those a virtual cluster holds, is taken in the cells again, or shown as broken. */
static int restore_own(struct core *core, const struct vc *vc, uint32_t index, bool used)
{
    const struct gpu *gpu = &vc->own->gpus[index];
    uint32_t leaf = gpu->stands == UINT32_MAX ? CELL_NONE : core->leaf_of[gpu->stands];

    if (used ? gpu->used == 0 : !gpu->bad || gpu->used > 0)
        return 0;
    if (leaf == CELL_NONE)
        return -EBADMSG;
    return used ? cells_lend(core->cells, &vc->own_cells[index], &leaf, 1)
                : cells_show_bad(core->cells, vc->own_cells[index], leaf);
}

/* What a snapshot's ledgers say, in the cells. -EBADMSG if that is impossible. */
int own_restore(struct core *core)
{
    int r = 0;

    if (!core->cells)
        return 0;
    for (uint32_t g = 0; g < core->ledger.topo.gpu_count; g++)
        own_health(core, g);
    for (int used = 1; used >= 0; used--)
        for (uint32_t v = 0; v < core->vc_count; v++)
            for (uint32_t g = 0; r == 0 && g < core->vcs[v].own->topo.gpu_count; g++)
                r = restore_own(core, &core->vcs[v], g, used);
    for (uint32_t g = 0; r == 0 && g < core->ledger.topo.gpu_count; g++)
        if (core->ledger.gpus[g].used > 0 && !core->ledger.gpus[g].bound && core->leaf_of[g] != CELL_NONE)
            r = cells_lend(core->cells, NULL, &core->leaf_of[g], 1);
    if (r < 0)
        return -EBADMSG;
    core->stamp++;
    cells_restored(core->cells);
    core->settled = core->stamp;
    while (cells_noted(core->cells) != CELL_NONE)
        ;
    for (uint32_t v = 0; v < core->vc_count; v++)
        for (uint32_t g = 0; g < core->vcs[v].own->topo.gpu_count; g++)
            if (cells_bad(core->cells, core->vcs[v].own_cells[g]) != core->vcs[v].own->gpus[g].bad)
                return -EBADMSG;
    return 0;
}

/* Takes the same GPUs of its virtual cluster for a job again. -EBUSY: there they are no more, or somebody has them. */
static int adopt_map(struct core *core, const struct ledger *was, const struct vc *vc, const struct job *from,
                     const uint32_t *gpus)
{
    struct mapping *map = &core->map;

    core->stamp++;
    map->count = 0;
    for (uint32_t s = from->own_shares; s != SHARE_NONE; s = was->shares[s].next_of_job) {
        uint32_t own = was->shares[s].gpu, gpu = gpus[was->shares[s].on];

        if (own >= vc->own->topo.gpu_count || gpu == UINT32_MAX || core->leaf_of[gpu] == CELL_NONE ||
            vc->own->topo.nodes[vc->own->gpus[own].node].sku !=
                core->ledger.topo.nodes[core->ledger.gpus[gpu].node].sku)
            return -EBUSY;
        map->own[map->count] = own;
        map->gpus[map->count] = gpu;
        map->cells[map->count] = vc->own_cells[own];
        map->leaves[map->count++] = core->leaf_of[gpu];
    }
    return 0;
}

static int adopt(struct core *core, const struct ledger *was, const struct vc *vc, const struct job *from,
                 const uint32_t *gpus)
{
    const struct mapping *map = &core->map;

    if (adopt_map(core, was, vc, from, gpus) < 0)
        return -EBUSY;
    return ledger_check(vc->own, &(struct placement){ map->own, map->count }, &from->spec, ROLE_OWNER) < 0 ||
                   host_fits(vc->own, &(struct placement){ map->own, map->count }, &from->spec) < 0
               ? -EBUSY
               : own_lend(core, vc->own);
}

/* Jobs of a cluster made anew, by start, stay inside their guarantees where they can. The others go on outside, as long
 * as nobody is owed their GPUs; nothing is stopped. */
void own_carry(struct core *core, const struct core *old, const uint32_t *gpus)
{
    for (uint32_t g = 0; g < core->ledger.topo.gpu_count && core->cells; g++)
        own_health(core, g);
    for (uint32_t v = 0; v < old->vc_count && core->cells; v++)
        for (uint32_t i = old->vcs[v].run_first; i != JOB_NONE; i = old->jobs[i].next)
            if (old->cells && job_holds(core->jobs[i].state) && job_bound(&old->jobs[i]) && !core->jobs[i].packed &&
                adopt(core, old->vcs[v].own, &core->vcs[v], &old->jobs[i], gpus) == 0)
                hold_adopt(core, i);
    for (uint32_t i = 0; i < core->job_top && core->cells; i++)
        if (core->jobs[i].packed && job_holds(core->jobs[i].state) && job_bound(&core->jobs[core->jobs[i].mate]))
            hold_adopt_packed(core, i, core->jobs[i].mate);
    /* Those that are suspended there take turns with them. */
    for (uint32_t i = 0; i < core->job_top && core->cells && old->cells; i++)
        if (core->jobs[i].state == JOB_SUSPENDED && job_bound(&old->jobs[i]) &&
            adopt_map(core, old->vcs[core->jobs[i].vc].own, &core->vcs[core->jobs[i].vc], &old->jobs[i], gpus) == 0)
            hold_adopt_off(core, i);
    for (uint32_t g = 0; g < core->ledger.topo.gpu_count && core->cells; g++)
        if (core->ledger.gpus[g].used > 0 && !core->ledger.gpus[g].bound && core->leaf_of[g] != CELL_NONE) {
            int r = cells_lend(core->cells, NULL, &core->leaf_of[g], 1);

            assert(r == 0);
            (void)r;
        }
    for (uint32_t v = 0; v < core->vc_count; v++)
        core->vcs[v].unmapped = core->cells != NULL; /* everybody is looked at, whoever has the next event */
    core->stamp++;
    own_settle(core);
}

/* A GPU of a virtual cluster's own: what stands for it, and whether all three agree. */
static void audit_own_gpu(const struct core *core, const struct vc *vc, uint32_t index, struct audit *audit)
{
    const struct gpu *gpu = &vc->own->gpus[index];
    uint32_t peer = cells_peer(core->cells, vc->own_cells[index]);
    mgpu_t used = 0;

    for (uint32_t s = gpu->shares; s != SHARE_NONE; s = vc->own->shares[s].next_of_gpu) {
        const struct share *share = &vc->own->shares[s];

        MUST(audit, &core->vcs[core->jobs[share->job].vc] == vc);
        MUST(audit, job_bound(&core->jobs[share->job]));
        if (share->leaving || share->off)
            continue;
        used += share->role == ROLE_PACKED ? 0 : share->amount;
        MUST(audit, peer == core->leaf_of[share->on]); /* it is where the cells say it is */
    }
    MUST(audit, used == gpu->used);
    MUST(audit, gpu->bad == cells_bad(core->cells, vc->own_cells[index]));
    if (used > 0) {
        MUST(audit, cells_taken(core->cells, peer, true));
        MUST(audit, core->ledger.gpus[core->gpu_of[peer]].used == used); /* device by device, to the last part */
        MUST(audit, core->ledger.gpus[core->gpu_of[peer]].bound);
    }
    MUST(audit, gpu->reserved_for == JOB_NONE || core->jobs[gpu->reserved_for].state == JOB_RESERVED);
}

/* Ledger, virtual clusters' own ledgers and cells agree; what everybody is granted can be had. */
void own_audit(const struct core *core, struct audit *audit)
{
    if (!core->cells)
        return;
    MUST(audit, cells_audit(core->cells, NULL));
    for (uint32_t g = 0; g < core->ledger.topo.gpu_count; g++) {
        const struct gpu *gpu = &core->ledger.gpus[g];

        MUST(audit, gpu->reserved_for == JOB_NONE);
        MUST(audit, !gpu->bound || gpu->used > 0);
        if (core->leaf_of[g] == CELL_NONE)
            continue;
        MUST(audit, cells_taken(core->cells, core->leaf_of[g], false) == (gpu->used > 0));
        MUST(audit, cells_taken(core->cells, core->leaf_of[g], true) == gpu->bound);
    }
    for (uint32_t v = 0; v < core->vc_count; v++)
        for (uint32_t g = 0; g < core->vcs[v].own->topo.gpu_count; g++)
            audit_own_gpu(core, &core->vcs[v], g, audit);
}
