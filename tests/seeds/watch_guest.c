/* SPDX-License-Identifier: Apache-2.0 */
/* watch_guest.c - what a job is told that waits to be a guest: it may always have GPUs that nobody is on; whether it
 * may stand beside somebody is for its policy to say. Counted anew from jobs and their shares. */
#include "core/core_internal.h"
#include "seeds.h"

enum { GPUS = 4096 };

struct seen {
    bool enough, nearly; /* empty GPUs; with those that are in disorder */
};

static struct seen look(const struct core *core, const struct job *job)
{
    const struct ledger *ledger = &core->ledger;
    bool taken[GPUS] = { false };
    struct seen seen = { 0 };

    for (uint32_t i = 0; i < core->job_top; i++)
        for (uint32_t s = core->jobs[i].state == JOB_FREE ? SHARE_NONE : core->jobs[i].shares; s != SHARE_NONE;
             s = ledger->shares[s].next_of_job)
            taken[ledger->shares[s].gpu % GPUS] |= !ledger->shares[s].leaving && !ledger->shares[s].off;
    for (uint32_t sku = 0; sku < ledger->topo.sku_count; sku++) {
        int32_t empty = 0, down = 0;

        for (uint32_t g = 0; g < ledger->topo.gpu_count && watch_type(core, job, sku); g++) {
            const struct node *node = &ledger->topo.nodes[ledger->gpus[g].node];

            if (node->sku != sku)
                continue;
            if (!node->up || ledger->gpus[g].bad)
                down += !taken[g % GPUS];
            else
                empty += !taken[g % GPUS];
        }
        seen.enough |= watch_type(core, job, sku) && empty >= job->spec.gpus;
        seen.nearly |= watch_type(core, job, sku) && empty < job->spec.gpus && empty + down >= job->spec.gpus;
    }
    return seen;
}

const char *watch_untrue_guest(const struct core *core, uint32_t index, enum reason reason)
{
    const struct seen seen = look(core, &core->jobs[index]);
    bool soon = core_next_wake(core) <= core->now + (core->round ? core->round : 1);

    switch ((int)reason) {
    case REASON_INSUFFICIENT_GPUS:
        return seen.enough && !soon ? "enough GPUs are empty" : NULL; /* a guest that left since */
    case REASON_NODES_UNHEALTHY:
        return seen.nearly ? NULL : "nodes that are down would not help";
    case REASON_FRAGMENTED:
    case REASON_PRIORITY:
    case REASON_CPU_MEM:
        return seen.enough ? NULL : "no GPU is empty";
    case REASON_TOPOLOGY:
        return core->jobs[index].spec.within_must ? NULL : "may lie anywhere";
    case REASON_RESERVED:
    case REASON_VC_LIMIT:
    case REASON_BORROW_LIMIT:
        return "guests need no quota, and what is kept is open to them";
    default:
        return soon ? NULL : "nobody will look at it";
    }
}
