/* SPDX-License-Identifier: Apache-2.0 */
/* order_las.c - least attained service in discrete queues (Tiresias, NSDI'19, two-dimensional LAS).
 *
 * Needs no estimate of run times. What a job has attained is its GPUs times the time it has run; it sinks one queue
 * each time that passes a threshold. Inside a queue those that started first come first, and those that never ran last:
 * a few wide queues keep equal jobs from preempting each other in turns.
 *
 * Starvation: a job below the first queue that has waited `knob` times as long as it has run goes back to the first
 * queue, and both counts begin anew. Waiting counts once it has run.
 *
 * Thresholds are passed, and promotions happen, at whole seconds: the next one after the exact instant.
 */
#include "core/view.h"
#include "policy/las.h"
#include "policy/list.h"

enum { P_KNOB, P_QUEUES };

static const struct param las_params[] = {
    [P_KNOB] = { "knob", "promote what has waited so many times as long as it has run; 0 = never", PARAM_RATIO, 0, 0,
                 1000000 * PPM_ONE, NULL },
    [P_QUEUES] = { "queues", "service that ends each queue but the last, in GPU-seconds", PARAM_TIMES, 3600 * USEC_SEC,
                   1, PARAM_TIMES_MAX, NULL },
    { 0 },
};

static void las_key(const struct order_ctx *ctx, const struct job *job, struct order_key *ret_key)
{
    struct las_level level;

    las_level(ctx, job, ctx->params[P_KNOB], &ctx->params[P_QUEUES], ret_key, &level);
    ret_key->value = las_value(level.queue, job->first_start >= 0 ? job->first_start : LAS_NEVER_STARTED);
}

const struct order_ops order_las = {
    .name = "las",
    .summary = "least attained service in discrete queues",
    .params = las_params,
    .key = las_key,
};
