/* SPDX-License-Identifier: Apache-2.0 */
/* tell.c - a decision as a line of the decision log: the same text in the daemon and in the simulator. */
#include <inttypes.h>

#include "base/buf.h"
#include "core/state.h"
#include "model/splice.h"

static void put_seconds(struct buf *out, usec_t at)
{
    uint64_t size = at < 0 ? (uint64_t)0 - (uint64_t)at : (uint64_t)at;
    unsigned part = (unsigned)(size % 1000000), digits = 6;

    buf_printf(out, "%s%" PRIu64, at < 0 ? "-" : "", size / 1000000);
    if (!part)
        return;
    for (; part % 10 == 0; part /= 10)
        digits--;
    buf_printf(out, ".%0*u", (int)digits, part);
}

void core_tell(const struct core *core, const struct decision *decision, const uint32_t *gpus, struct buf *out)
{
    const struct ledger *ledger = &core->ledger;
    const struct job *job = &core->jobs[decision->job];
    uint32_t node = UINT32_MAX;

    put_seconds(out, decision->at);
    buf_printf(out, " %s %lld", decision_name(decision->kind), (long long)decision->id);
    if (decision->reason != REASON_NONE)
        buf_printf(out, " %s", reason_name(decision->reason));
    if (decision->until && decision->until != USEC_NEVER) {
        buf_printf(out, " until=");
        put_seconds(out, decision->until);
    }
    if (decision->breach)
        buf_printf(out, " %s", breach_name((enum breach)decision->breach));
    if (decision->kind == DECISION_PACK || decision->kind == DECISION_UNPACK)
        buf_printf(out, " with=%lld", (long long)decision->needs);
    if (decision->kind == DECISION_TIER)
        buf_printf(out, " %s", tier_name((enum job_tier)decision->needs));
    if (decision->kind == DECISION_SIZE && decision->needs)
        buf_printf(out, " gpus=%lld", (long long)decision->needs);
    else if (decision->kind == DECISION_SIZE)
        buf_printf(out, " gpus=any");
    for (uint32_t i = 0; i < decision->gpu_count; i++) {
        uint32_t here = ledger->gpus[gpus[i]].node;

        if (here != node)
            buf_printf(out, " n%u:", here);
        buf_printf(out, "%s%u", here == node ? "," : "", gpus[i] - ledger->topo.nodes[here].first_gpu);
        node = here;
    }
    for (uint32_t h = job->holds; decision->kind == DECISION_START && job_gpuless(job) && h != HOLD_NONE;
         h = core->holds[h].next_of_job)
        buf_printf(out, " n%u*%u", core->holds[h].node, core->holds[h].tasks);
    buf_char(out, '\n');
}
