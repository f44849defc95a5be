/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* host_resources.h - CPUs and memory of the nodes: what jobs ask for beside their GPUs, and jobs that ask for nothing
 * else.
 *
 * A job asks for so many thousandths of CPUs and so much memory with each of its GPUs. What its node does not have left
 * is kept from it by hiding GPUs there while its placement is looked for: so every placement there is, whatever it
 * likes best, respects CPUs without knowing of them, and a shape that asks for none costs what it always did.
 *
 * Leaving is a state here too: whoever was told to stop no longer counts, but whoever was given its CPUs is not
 * launched before it has gone.
 *
 * Of each node jobs without GPUs may hold a part that the administrator sets, and no more.
 */
#include "core/ledger/ledger.h"

struct core;

#define HOLD_NONE UINT32_MAX

struct host_room {
    uint32_t mcpus, mib;
};

struct host {
    struct host_room most;  /* of the node; 0 = not told, no limit */
    struct host_room tasks; /* of it, what jobs without GPUs may hold */
    struct host_room used;  /* by those that are not leaving */
    struct host_room leaving;
    struct host_room held, parting; /* of both, by jobs without GPUs */
    uint32_t first;                 /* of their holds; HOLD_NONE */
};

/* Tasks of one job without GPUs on one node. */
struct host_hold {
    uint32_t job, node, tasks;
    uint32_t next_of_job, next_of_node, prev_of_node;
    bool leaving;
};

static inline bool host_asks(const struct jobspec *spec)
{
    uint32_t asks = spec->mcpus | spec->host_mib;

    for (uint32_t i = 0; i < spec->side_count; i++)
        asks |= spec->sides[i].mcpus | spec->sides[i].host_mib;
    return asks != 0;
}

/* What it asks for with each GPU on that node: the parts of a gang may differ in it. */
static inline struct host_room host_each(const struct ledger *ledger, uint32_t node, const struct jobspec *spec)
{
    for (uint32_t i = 0; i < spec->side_count; i++)
        if (spec->sides[i].sku_mask >> ledger->topo.nodes[node].sku & 1)
            return (struct host_room){ spec->sides[i].mcpus, spec->sides[i].host_mib };
    return (struct host_room){ spec->mcpus, spec->host_mib };
}

/* What becomes of what the job asks for beside the GPUs in its list. */
enum host_change { HOST_TAKE, HOST_LEAVE, HOST_STAY, HOST_GO };
void host_change(struct ledger *ledger, const struct job *job, enum host_change change);

/* The same of one share, as its flags have it: it begins to count (1) or ceases to (-1). */
void host_share(struct ledger *ledger, const struct job *job, const struct share *share, int sign);

/* Whether a job that is leaving where it is could be there at once: nobody else still has to leave. */
bool host_lands(const struct ledger *ledger, const struct job *job, const struct placement *to);

/* Whether its nodes have room for what is in its list, should it count (again). */
bool host_has_room(const struct ledger *ledger, const struct job *job);

/* Whether a placement has room; -EBUSY. */
int host_fits(const struct ledger *ledger, const struct placement *to, const struct jobspec *spec);

/* Whether more is on the node, with those that leave, than it has. */
bool host_over(const struct ledger *ledger, uint32_t node);

/* GPUs on the node for each of which it has room. */
uint32_t host_times(const struct ledger *ledger, uint32_t node, const struct host_room *each);

/* What a shape wants of nodes. */
struct host_wish {
    struct host_room each; /* with each GPU */
    uint8_t mark, kept;
    const uint64_t *shut; /* nodes that it may not be on for another reason, a bit each; NULL: none */
};

/* Whether a job that wants this may be on the node: it has the mark, and is kept for such jobs or for nobody. */
static inline bool node_allows(const struct node *node, uint8_t mark, uint8_t kept)
{
    return node->kept == kept && (mark == 0 || (node->marks >> (mark - 1) & 1));
}

/* Whether all nodes of a placement are such; -EBUSY. */
int host_allows(const struct ledger *ledger, const struct placement *to, const struct jobspec *spec);

/* Hides GPUs that a shape cannot have for want of CPUs or memory, or of a node it may use; and shows them again. */
uint32_t host_hide(struct ledger *ledger, const struct host_wish *wish, uint32_t sku, uint32_t *hidden);
void host_show(struct ledger *ledger, const uint32_t *hidden, uint32_t count);

/* Counts everything anew from jobs and holds. */
void host_recount(struct core *core);
