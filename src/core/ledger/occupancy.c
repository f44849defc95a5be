/* SPDX-License-Identifier: Apache-2.0 */
/* occupancy.c - a job takes GPUs, leaves them, comes back: in the ledger and, where guarantees are cells, in the
 * virtual cluster's own ledger and in the cells, which must always agree.
 *
 * A device is taken in the cells as long as somebody who is not leaving owns a part of the GPU; so the cells give away
 * what is being left, as the ledger does. A job inside the guarantee has a list of shares in each ledger. Guests own
 * nothing and are of no concern to cells.
 */
#include <assert.h>
#include <errno.h>

#include "core/contract/plan.h"
#include "core/core_internal.h"

/* The functions of the ledger see one list of a job; for a moment that is the other one. */
static struct ledger *own_begin(struct core *core, struct job *job)
{
    uint32_t shares = job->shares;

    job->shares = job->own_shares;
    job->own_shares = shares;
    return core->vcs[job->vc].own;
}

static void own_end(struct job *job)
{
    uint32_t shares = job->shares;

    job->shares = job->own_shares;
    job->own_shares = shares;
}

/* Ascending, as a placement must be; wide gangs come nearly so. */
void gpus_sort(uint32_t *gpus, uint32_t count)
{
    for (uint32_t gap = count / 2; gap; gap /= 2)
        for (uint32_t i = gap; i < count; i++) {
            uint32_t gpu = gpus[i], at = i;

            for (; at >= gap && gpus[at - gap] > gpu; at -= gap)
                gpus[at] = gpus[at - gap];
            gpus[at] = gpu;
        }
}

/* Devices of GPUs that nobody owns a part of, among those of a job outside the guarantee. */
static uint32_t idle_leaves(const struct core *core, const struct placement *to, uint32_t *out)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < to->count; i++)
        if (core->ledger.gpus[to->gpus[i]].used == 0 && core->leaf_of[to->gpus[i]] != CELL_NONE)
            out[count++] = core->leaf_of[to->gpus[i]];
    return count;
}

/* The GPUs of a job's list. */
static struct placement listed(struct core *core, const struct ledger *ledger, uint32_t s)
{
    struct placement list = { core->map.idle_cells, 0 };

    for (; s != SHARE_NONE; s = ledger->shares[s].next_of_job)
        if (ledger->shares[s].role == ROLE_OWNER && ledger->shares[s].part != PART_OLD)
            core->map.idle_cells[list.count++] = ledger->shares[s].gpu;
    return list;
}

/* Pairs of devices of a job inside the guarantee whose GPU nobody of the virtual cluster owns a part of: those that are
 * taken in the cells, or those that are not. */
static uint32_t idle_pairs(const struct core *core, const struct job *job, bool taken)
{
    const struct vc *vc = &core->vcs[job->vc];
    uint32_t count = 0;

    for (uint32_t s = job->own_shares; s != SHARE_NONE; s = vc->own->shares[s].next_of_job) {
        const struct share *share = &vc->own->shares[s];

        if (vc->own->gpus[share->gpu].used > 0 ||
            own_taken(core, vc->own_cells[share->gpu], core->leaf_of[share->on]) != taken)
            continue;
        core->map.idle_cells[count] = vc->own_cells[share->gpu];
        core->map.idle_leaves[count++] = core->leaf_of[share->on];
    }
    return count;
}

uint32_t hold_take(struct core *core, uint32_t index, const struct placement *to, enum share_role role)
{
    if (core->cells && role == ROLE_OWNER) {
        uint32_t count = idle_leaves(core, to, core->map.idle_leaves);
        int r = cells_lend(core->cells, NULL, core->map.idle_leaves, count);

        assert(r == 0); /* nobody owns them, so nobody has them in the cells */
        (void)r;
        core->stamp++;
    }
    return ledger_take(&core->ledger, index, &core->jobs[index], to, role);
}

/* Notes beside each share of the virtual cluster which GPU stands for it. As a rule both lists ascend. */
static void note_on(struct ledger *own, const struct job *job, const struct mapping *map)
{
    uint32_t at = 0;

    for (uint32_t s = job->own_shares; s != SHARE_NONE; s = own->shares[s].next_of_job) {
        while (map->own[at % map->count] != own->shares[s].gpu)
            at++;
        own->shares[s].on = map->gpus[at++ % map->count];
    }
}

/* The mapping was made, and is taken in the cells already. */
uint32_t hold_take_own(struct core *core, uint32_t index, const struct placement *to)
{
    struct job *job = &core->jobs[index];
    struct mapping *map = &core->map;
    struct placement here = { core->scratch, map->count };
    struct ledger *own = own_begin(core, job);

    (void)ledger_take(own, index, job, to, ROLE_OWNER);
    own_end(job);
    note_on(own, job, map);
    for (uint32_t i = 0; i < map->count; i++) {
        core->scratch[i] = map->gpus[i];
        ledger_bind(&core->ledger, map->gpus[i]);
    }
    gpus_sort(core->scratch, map->count);
    assert(ledger_check(&core->ledger, &here, &job->spec, ROLE_OWNER) == 0);
    return ledger_take(&core->ledger, index, job, &here, ROLE_OWNER);
}

/* A job that has begun to leave its GPUs has those of the mapping, but goes there only when others have left: until
 * then what it leaves is not left. In its virtual cluster, where nobody waits, it is there at once. Returns how many
 * GPUs it waits for. */
uint32_t hold_defer(struct core *core, uint32_t index, const struct placement *to)
{
    struct job *job = &core->jobs[index];
    const struct mapping *map = &core->map;
    struct placement here = own_here(core);
    struct ledger *own = own_begin(core, job);

    (void)ledger_release(own, core->jobs, job, core->ready, 0);
    (void)ledger_take(own, index, job, to, ROLE_OWNER);
    own_end(job);
    note_on(own, job, map);
    for (uint32_t i = 0; i < map->count; i++)
        ledger_bind(&core->ledger, map->gpus[i]);
    return ledger_defer(&core->ledger, core->jobs, index, &here);
}

/* A job that holds GPUs is found to be inside its guarantee: the mapping says how. */
void hold_adopt(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    struct mapping *map = &core->map;
    struct ledger *own = own_begin(core, job);

    (void)ledger_take(own, index, job, &(struct placement){ map->own, map->count }, ROLE_OWNER);
    own_end(job);
    note_on(own, job, map);
    for (uint32_t i = 0; i < map->count; i++)
        ledger_bind(&core->ledger, map->gpus[i]);
}

/* The same of one that is suspended, and keeps its place. */
void hold_adopt_off(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    const struct mapping *map = &core->map;
    struct ledger *own = own_begin(core, job);
    int r = ledger_enlist(own, index, job, &(struct placement){ map->own, map->count });

    own_end(job);
    if (r == 0)
        note_on(own, job, map);
}

/* The virtual cluster's own ledger shows the job beside its host, where the host is inside the guarantee. In the cells
 * nothing changes: the devices are taken already. */
void hold_adopt_packed(struct core *core, uint32_t index, uint32_t host)
{
    struct job *job = &core->jobs[index];
    struct mapping *map = &core->map;
    struct ledger *own = core->vcs[job->vc].own;

    core->stamp++;
    map->count = 0;
    for (uint32_t s = core->jobs[host].own_shares; s != SHARE_NONE; s = own->shares[s].next_of_job) {
        map->own[map->count] = own->shares[s].gpu;
        map->gpus[map->count++] = own->shares[s].on;
    }
    (void)own_begin(core, job);
    (void)ledger_take(own, index, job, &(struct placement){ map->own, map->count }, ROLE_PACKED);
    own_end(job);
    note_on(own, job, map);
}

uint32_t hold_pack(struct core *core, uint32_t index, uint32_t host, const struct placement *to)
{
    if (job_bound(&core->jobs[host]))
        hold_adopt_packed(core, index, host);
    return hold_take(core, index, to, ROLE_PACKED);
}

/* Of a pair the other one owns the GPUs now, in both ledgers. */
void hold_swap(struct core *core, uint32_t a, uint32_t b)
{
    struct job *ja = &core->jobs[a], *jb = &core->jobs[b];

    ledger_swap(&core->ledger, ja, jb);
    if (!job_bound(ja))
        return;
    (void)own_begin(core, ja);
    ledger_swap(own_begin(core, jb), ja, jb);
    own_end(ja);
    own_end(jb);
}

/* The one that is left of a pair owns what it has. */
void hold_part(struct core *core, uint32_t index)
{
    const struct job *job = &core->jobs[index];
    struct ledger *own = core->vcs[job->vc].own;

    for (uint32_t s = job->shares; s != SHARE_NONE; s = core->ledger.shares[s].next_of_job)
        core->ledger.shares[s].role = ROLE_OWNER;
    for (uint32_t s = job->own_shares; s != SHARE_NONE; s = own->shares[s].next_of_job)
        own->shares[s].role = ROLE_OWNER;
}

int hold_enlist(struct core *core, uint32_t index, const struct placement *to, bool inside)
{
    struct job *job = &core->jobs[index];
    struct placement here = { core->scratch, to->count };
    struct ledger *own;
    int r;

    if (!inside)
        return ledger_enlist(&core->ledger, index, job, to);
    for (uint32_t i = 0; i < to->count; i++)
        if (to->gpus[i] >= core->vcs[job->vc].own->topo.gpu_count)
            return -EINVAL;
    if (own_map(core, job->vc, to, job->spec.mark) < 0)
        return -EBUSY;
    own = own_begin(core, job);
    r = ledger_enlist(own, index, job, to);
    own_end(job);
    if (r < 0)
        return r;
    note_on(own, job, &core->map);
    for (uint32_t i = 0; i < to->count; i++)
        core->scratch[i] = core->map.gpus[i];
    gpus_sort(core->scratch, to->count);
    r = ledger_enlist(&core->ledger, index, job, &here);
    if (r < 0) {
        (void)own_begin(core, job);
        (void)ledger_release(own, core->jobs, job, core->ready, 0);
        own_end(job);
    }
    return r;
}

void hold_leave(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    struct placement had;
    uint32_t count;

    if (job_gpuless(job)) {
        tasks_leave(core, index, true);
        return;
    }
    ledger_leave(&core->ledger, job);
    if (!core->cells)
        return;
    if (job_bound(job)) {
        ledger_leave(own_begin(core, job), job);
        own_end(job);
        if (core->deferring)
            return;
        count = idle_pairs(core, job, true);
    } else {
        had = listed(core, &core->ledger, job->shares);
        count = idle_leaves(core, &had, core->map.idle_leaves);
    }
    cells_return(core->cells, core->map.idle_leaves, count);
    core->stamp++;
}

/* A job outside the guarantee has its devices in the cells again. */
static void lend_again(struct core *core, const uint32_t *leaves, uint32_t count)
{
    int r = cells_lend(core->cells, NULL, leaves, count);

    assert(r == 0);
    (void)r;
    core->stamp++;
}

static int stay_own(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    uint32_t count = idle_pairs(core, job, false);
    int r = cells_lend(core->cells, core->map.idle_cells, core->map.idle_leaves, count);

    core->stamp++;
    if (r < 0)
        return r;
    r = ledger_stay(own_begin(core, job), core->jobs, job);
    own_end(job);
    for (uint32_t s = job->shares; r == 0 && s != SHARE_NONE; s = core->ledger.shares[s].next_of_job)
        if (core->ledger.shares[s].part != PART_OLD)
            ledger_bind(&core->ledger, core->ledger.shares[s].gpu);
    if (r == 0)
        return ledger_stay(&core->ledger, core->jobs, job); /* what is its own in the cells, nobody has */
    cells_return(core->cells, core->map.idle_leaves, count);
    return r;
}

int hold_stay(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    struct placement had;
    uint32_t count;
    int r;

    if (job_gpuless(job)) {
        tasks_leave(core, index, false);
        return 0;
    }
    if (!core->cells)
        return ledger_stay(&core->ledger, core->jobs, job);
    if (job_bound(job))
        return stay_own(core, index);
    had = listed(core, &core->ledger, job->shares);
    count = idle_leaves(core, &had, core->map.idle_leaves);
    r = ledger_stay(&core->ledger, core->jobs, job);
    if (r == 0)
        lend_again(core, core->map.idle_leaves, count);
    return r;
}

uint32_t hold_park(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];

    core->tasks_dirty |= core->ledger.hosts && host_asks(&job->spec);
    if (core->cells && job_bound(job)) {
        (void)ledger_park(own_begin(core, job), core->jobs, job, core->ready, 0);
        own_end(job);
    }
    return ledger_park(&core->ledger, core->jobs, job, core->ready, core->job_capacity);
}

static int unpark_own(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    uint32_t count = idle_pairs(core, job, false);
    int r = 0;

    for (uint32_t s = job->shares; r == 0 && s != SHARE_NONE; s = core->ledger.shares[s].next_of_job) {
        const struct gpu *gpu = &core->ledger.gpus[core->ledger.shares[s].gpu];

        if (gpu->used + job->spec.share > MGPU_ONE || (gpu->used > 0 && !gpu->bound) ||
            !ledger_memory_fits(&core->ledger, core->ledger.shares[s].gpu, job->spec.memory_mib))
            r = -EBUSY;
    }
    if (r == 0)
        r = cells_lend(core->cells, core->map.idle_cells, core->map.idle_leaves, count);
    core->stamp++;
    if (r < 0)
        return r;
    r = ledger_unpark(own_begin(core, job), job);
    own_end(job);
    if (r < 0) {
        cells_return(core->cells, core->map.idle_leaves, count);
        return r;
    }
    for (uint32_t s = job->shares; s != SHARE_NONE; s = core->ledger.shares[s].next_of_job)
        ledger_bind(&core->ledger, core->ledger.shares[s].gpu);
    return ledger_unpark(&core->ledger, job);
}

int hold_unpark(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    struct placement had;
    uint32_t count;
    int r;

    if (!core->cells)
        return ledger_unpark(&core->ledger, job);
    if (job_bound(job))
        return unpark_own(core, index);
    had = listed(core, &core->ledger, job->shares);
    for (uint32_t i = 0; i < had.count; i++)
        if (core->ledger.gpus[had.gpus[i]].bound)
            return -EBUSY;
    count = idle_leaves(core, &had, core->map.idle_leaves);
    r = ledger_unpark(&core->ledger, job);
    if (r >= 0)
        lend_again(core, core->map.idle_leaves, count);
    return r;
}

/* Whether what it holds counts: it has not been told to leave, nor is it off. */
static bool counts(const struct core *core, const struct job *job)
{
    uint32_t s = job->shares;

    while (core->ledger.shares[s].part == PART_OLD)
        s = core->ledger.shares[s].next_of_job;
    return !core->ledger.shares[s].leaving && !core->ledger.shares[s].off;
}

uint32_t hold_release(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];

    if (job_gpuless(job))
        return tasks_release(core, index);
    core->tasks_dirty |= core->ledger.hosts && host_asks(&job->spec);
    if (core->cells && job->shares != SHARE_NONE) {
        if (counts(core, job))
            hold_leave(core, index);
        if (job_bound(job)) {
            (void)ledger_release(own_begin(core, job), core->jobs, job, core->ready, 0);
            own_end(job);
        }
    }
    return ledger_release(&core->ledger, core->jobs, job, core->ready, core->job_capacity);
}

/* The policy is done: what the jobs it has stopped left, and nobody took, goes back to the cells. As long as it plans
 * it may change its mind, and finds everything as it would in a cluster of its own. */
void hold_flush(struct core *core, uint32_t first)
{
    for (uint32_t i = first; i < core->touched_count; i++) {
        const struct job *job = &core->jobs[core->touched[i]];

        if (job->state != JOB_STOPPING || !job_bound(job))
            continue;
        cells_return(core->cells, core->map.idle_leaves, idle_pairs(core, job, true));
        core->stamp++;
    }
}
