/* SPDX-License-Identifier: Apache-2.0 */
/* las.c - see las.h. */
#include "policy/order/las.h"

#include <assert.h>
#include <string.h>

#include "core/contract/view.h"
#include "solve/gittins.h"

/* The first one that is not before `at`. */
static usec_t whole_second(usec_t at)
{
    usec_t part = at % USEC_SEC;

    return part ? at - part + USEC_SEC : at;
}

usec_t las_crossing(usec_t now, svc_t left, int64_t width)
{
    assert(width > 0);
    return whole_second(now + muldiv_ceil(left, MGPU_ONE, width));
}

static void counts(const struct job *job, usec_t now, const struct order_key *key, struct las_level *level)
{
    usec_t ran = job->ran + (job->state == JOB_RUNNING ? now - job->since : 0);
    usec_t waited = job->waited_all + (job_waits(job->state) ? now - job->queued_at : 0);

    level->attained = job_attained(job, now) - key->word[LAS_SERVICE];
    level->ran = ran - key->word[LAS_RAN];
    level->waited = waited - key->word[LAS_WAITED];
}

static int64_t queue_of(svc_t attained, const int64_t *queues)
{
    int64_t queue = 0;

    while (queue < queues[0] && attained >= queues[1 + queue])
        queue++;
    return queue;
}

/* Begins all counts anew. */
static void reset(struct order_key *key, struct las_level *level)
{
    key->word[LAS_SERVICE] += level->attained;
    key->word[LAS_RAN] += level->ran;
    key->word[LAS_WAITED] += level->waited;
    level->attained = level->ran = level->waited = 0;
}

void las_level(const struct order_ctx *ctx, const struct job *job, int64_t knob_ppm, const int64_t *queues,
               struct order_key *key, struct las_level *ret_level)
{
    usec_t now = view_now(ctx->view);
    usec_t patience;

    *ret_level = (struct las_level){ 0 };
    counts(job, now, key, ret_level);
    if (ret_level->ran == 0)
        reset(key, ret_level); /* what it waited before it first ran does not count */
    ret_level->queue = queue_of(ret_level->attained, queues);
    if (job->state == JOB_RUNNING && ret_level->queue < queues[0]) {
        svc_t left = queues[1 + ret_level->queue] - ret_level->attained;

        key->change_at = las_crossing(now, left, (int64_t)job->gpus * job->spec.share);
    }
    if (!knob_ppm || ret_level->queue == 0 || !job_waits(job->state))
        return;
    patience = muldiv_ceil(ret_level->ran, knob_ppm, PPM_ONE);
    if (ret_level->waited >= patience) {
        reset(key, ret_level);
        ret_level->queue = 0;
        ((struct las_history *)ctx->state)->promotions++;
        key->change_at = now; /* it may be the pass of this very instant that stopped it: plan once more */
    } else {
        key->change_at = whole_second(now + patience - ret_level->waited);
    }
}

void las_tell(const struct order_ctx *ctx, const struct job *job, int64_t knob_ppm, int64_t thresholds,
              struct order_level *ret_level)
{
    ret_level->levels = (int32_t)thresholds + 1;
    ret_level->promotions = knob_ppm ? ((const struct las_history *)ctx->state)->promotions : -1;
    if (job)
        ret_level->level = (int32_t)(job->order_value >> LAS_QUEUE_SHIFT);
}

enum { SAMPLES_MIN = 16 };

void las_learn(struct las_history *history, const svc_t *services, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (services[i] <= 0)
            continue;
        history->sample[history->next] = services[i];
        history->next = (history->next + 1) % LAS_HISTORY_MAX;
        history->count += history->count < LAS_HISTORY_MAX;
        history->since++;
    }
}

bool las_grown(const struct las_history *history, const struct order_ctx *ctx)
{
    int64_t waiting = view_waiting(ctx->view);
    int64_t eighth = (history->count > waiting ? history->count : waiting) / 8;

    return history->since >= SAMPLES_MIN && history->since >= eighth;
}

void las_sort(struct las_history *history, struct las_sorted *ret_sorted)
{
    size_t count = (size_t)history->count;

    memcpy(ret_sorted->sample, history->sample, count * sizeof(*ret_sorted->sample));
    gittins_prepare(ret_sorted->sample, ret_sorted->sums, count);
    history->since = 0;
}
