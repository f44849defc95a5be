/* SPDX-License-Identifier: Apache-2.0 */
/* watch_cells.c - what a waiting job is told where virtual clusters are guaranteed shapes: it may start inside its
 * virtual cluster, or beyond it in what others leave idle. Counted anew from GPUs and shares. */
#include "core/core_internal.h"
#include "seeds.h"

struct room {
    uint32_t free, reserved, bad;
    mgpu_t largest; /* the most that is left of any one GPU whose memory would do */
};

/* What a ledger has of a type; in that of the cluster, for those whose guarantee it is not. */
static struct room room_of(const struct ledger *ledger, const struct job *job, uint32_t sku)
{
    struct room room = { 0 };

    for (uint32_t g = 0; g < ledger->topo.gpu_count; g++) {
        const struct gpu *gpu = &ledger->gpus[g];
        mgpu_t given = 0;
        uint64_t memory = job->spec.memory_mib, size = ledger->topo.sku_memory[sku];

        if (ledger->topo.nodes[gpu->node].sku != sku)
            continue;
        if (gpu->bad || !ledger->topo.nodes[gpu->node].up) {
            room.bad += watch_nobody_on(ledger, g);
            continue;
        }
        for (uint32_t s = gpu->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_gpu)
            if (!ledger->shares[s].leaving && !ledger->shares[s].off && ledger->shares[s].role == ROLE_OWNER) {
                given += ledger->shares[s].amount;
                memory += ledger->shares[s].memory;
            }
        room.reserved += gpu->reserved_for != JOB_NONE;
        if (gpu->reserved_for != JOB_NONE)
            continue;
        room.free += given == 0;
        if (!gpu->bound && MGPU_ONE - given > room.largest && (!size || memory <= size))
            room.largest = MGPU_ONE - given;
    }
    return room;
}

static bool enough(const struct room *room, const struct job *job)
{
    return job->spec.share < MGPU_ONE ? room->largest >= job->spec.share : room->free >= (uint32_t)job->spec.gpus;
}

struct seen {
    bool own, own_enough, lent, lent_enough; /* allowed to, and has the room, inside and beyond */
    bool own_there; /* and the cluster has as much: a job on a node that drains may be in the place */
    bool own_reserved, lent_down, broken;
};

static struct seen look(const struct core *core, const struct job *job)
{
    const struct vc *vc = &core->vcs[job->vc];
    bool guest = job->klass == CLASS_OPPORTUNISTIC;
    struct seen seen = { 0 };

    for (uint32_t s = 0; s < core->ledger.topo.sku_count; s++) {
        struct room own, all;

        if (!watch_type(core, job, s) || !watch_possible(core, job, s))
            continue;
        own = room_of(vc->own, job, s);
        all = room_of(&core->ledger, job, s);
        seen.broken |= all.bad > 0;
        if (!guest && vc->quota[s] - (vc->used[s] - vc->lent[s]) >= job_demand(job)) {
            seen.own = true;
            seen.own_enough |= enough(&own, job);
            seen.own_there |= enough(&own, job) && enough(&all, job);
            seen.own_reserved |= own.free + own.reserved >= (uint32_t)job->spec.gpus;
        }
        if (guest || vc_budget(core, vc, s, PHASE_BORROW, job->klass) >= job_demand(job)) {
            bool may = guest || (vc->borrow_max != 0 && !watch_owed_only(core, job));

            seen.lent |= may;
            seen.lent_enough |= may && enough(&all, job);
            seen.lent_down |= may && all.free + all.bad >= (uint32_t)job->spec.gpus;
        }
    }
    return seen;
}

const char *watch_untrue_cells(const struct core *core, uint32_t index, const struct job *job, enum reason reason)
{
    const struct seen s = look(core, job);

    switch ((int)reason) {
    case REASON_VC_LIMIT:
        return s.own || s.lent ? "may take what it asks for" : NULL;
    case REASON_BORROW_LIMIT:
        return s.own || s.lent ? "may take what it asks for" : NULL;
    case REASON_INSUFFICIENT_GPUS:
        return s.lent_enough || s.own_there ? "enough GPUs are free" : s.lent ? NULL : "may take none";
    case REASON_FRAGMENTED:
        return s.lent_enough || s.own ? NULL : "too few GPUs are free"; /* of its own: enough in parts, at least */
    case REASON_NODES_UNHEALTHY:
        return s.broken && (s.own || s.lent_down) ? NULL : "nodes that are down would not help";
    case REASON_RESERVED:
        return s.own_reserved ? NULL : "nothing is kept that it needs";
    case REASON_PRIORITY:
        return s.own_enough || s.lent_enough ? NULL : "has no room";
    case REASON_CPU_MEM:
        return s.own_enough || s.lent_enough ? NULL : "has no room anyhow";
    case REASON_TOPOLOGY:
        return job->spec.within_must ? NULL : "may lie anywhere";
    default: /* not looked at yet: somebody will */
        return watch_unseen(core, index);
    }
}
