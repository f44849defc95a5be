/* SPDX-License-Identifier: Apache-2.0 */
/* guarantee_fit.c - demands that can never be had inside a guarantee of cells.
 *
 * A virtual cluster that may borrow nothing has its cells and no more. A job that wants more GPUs of each node than its
 * cells have together on one would wait for ever; it is refused when it comes, with what would fit. More GPUs than it
 * is owed in all are refused before (submission_bind).
 */
#include <errno.h>
#include <stdio.h>

#include "ctl/state/state_internal.h"

/* What the cells of a virtual cluster have for a job, all of them idle. */
struct most {
    int64_t nodes;   /* pieces of nodes with so many as the job wants of each */
    int64_t largest; /* the largest piece */
};

static struct most most_find(const struct vc *vc, const struct jobspec *spec)
{
    const struct topo *topo = &vc->own->topo;
    struct most most = { 0 };

    for (uint32_t n = 0; n < topo->node_count; n++) {
        if (spec->sku_mask && !(spec->sku_mask >> topo->nodes[n].sku & 1))
            continue;
        most.nodes += (int64_t)topo->nodes[n].gpus >= spec->per_node;
        if ((int64_t)topo->nodes[n].gpus > most.largest)
            most.largest = topo->nodes[n].gpus;
    }
    return most;
}

int guarantee_check(const struct ctl *ctl, uint32_t index, const struct jobspec *wants, struct entry_result *ret)
{
    const struct vc *vc = ctl->core ? core_vc(ctl->core, index) : NULL;
    struct most most;

    if (!vc || !vc->own || vc->borrow_max != 0 || wants->klass == CLASS_OPPORTUNISTIC || wants->per_node == 0 ||
        wants->kept || wants->side_count)
        return 0;
    most = most_find(vc, wants);
    if (most.nodes * wants->per_node >= wants->gpus_min)
        return 0;
    (void)error_set(
        &ret->text, -ERANGE,
        "%d x %d GPUs never fit into what '%s' is guaranteed: %lld of its cells have so many on a node, and it "
        "may borrow none",
        wants->gpus_min / wants->per_node, wants->per_node,
        names_get(&ctl->cluster.names, ctl->cluster.vcs[index].name), (long long)most.nodes);
    if (most.nodes)
        (void)snprintf(ret->hint, sizeof(ret->hint),
                       "-N %lld --gpus-per-node=%d fits; -q oppo uses what others leave idle", (long long)most.nodes,
                       wants->per_node);
    else
        (void)snprintf(ret->hint, sizeof(ret->hint),
                       "at most %lld GPUs a node fit; -q oppo uses what others leave idle", (long long)most.largest);
    (void)snprintf(ret->reason, sizeof(ret->reason), "Infeasible.Quota");
    return ret->code = -ERANGE;
}
