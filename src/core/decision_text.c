/* SPDX-License-Identifier: Apache-2.0 */
/* decision_text.c - a decision as a line of the decision log: the same text in the daemon and in the simulator. */
#include "base/buf.h"
#include "core/core_internal.h"
#include "model/splice.h"

/* One for every start and end of a job: without printf, which would be the larger part of it. */
static void put_digits(struct buf *out, uint64_t number, unsigned least)
{
    char text[20];
    unsigned at = sizeof(text);

    for (; number || sizeof(text) - at < least; number /= 10)
        text[--at] = (char)('0' + number % 10);
    buf_put(out, text + at, sizeof(text) - at);
}

static void put_word(struct buf *out, const char *word)
{
    buf_char(out, ' ');
    buf_text(out, word);
}

static void put_seconds(struct buf *out, usec_t at)
{
    uint64_t size = at < 0 ? (uint64_t)0 - (uint64_t)at : (uint64_t)at;
    unsigned part = (unsigned)(size % 1000000), digits = 6;

    if (at < 0)
        buf_char(out, '-');
    put_digits(out, size / 1000000, 1);
    if (!part)
        return;
    for (; part % 10 == 0; part /= 10)
        digits--;
    buf_char(out, '.');
    put_digits(out, part, digits);
}

static void put_number(struct buf *out, int64_t number)
{
    if (number < 0)
        buf_char(out, '-');
    put_digits(out, number < 0 ? (uint64_t)0 - (uint64_t)number : (uint64_t)number, 1);
}

void core_tell(const struct core *core, const struct decision *decision, const uint32_t *gpus, struct buf *out)
{
    const struct ledger *ledger = &core->ledger;
    const struct job *job = &core->jobs[decision->job];
    uint32_t node = UINT32_MAX;

    put_seconds(out, decision->at);
    put_word(out, decision_name(decision->kind));
    buf_char(out, ' ');
    put_number(out, decision->id);
    if (decision->reason != REASON_NONE)
        put_word(out, reason_name(decision->reason));
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

        if (here != node) {
            buf_text(out, " n");
            put_digits(out, here, 1);
        }
        buf_char(out, here == node ? ',' : ':');
        put_digits(out, gpus[i] - ledger->topo.nodes[here].first_gpu, 1);
        node = here;
    }
    for (uint32_t h = job->holds; decision->kind == DECISION_START && job_gpuless(job) && h != HOLD_NONE;
         h = core->holds[h].next_of_job)
        buf_printf(out, " n%u*%u", core->holds[h].node, core->holds[h].tasks);
    buf_char(out, '\n');
}
