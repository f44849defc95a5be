/* SPDX-License-Identifier: Apache-2.0 */
/* draw_terms.c - on what terms jobs may be preempted, how their attempts fail, and what is worth another one. From a
 * stream of its own, so that all else is as it would be without. */
#include <stdio.h>

#include "seeds.h"

static bool chance(struct rng *rng, uint32_t percent)
{
    return rng_below(rng, 100) < percent;
}

static void draw_preempt(struct rng *rng, struct jobspec *spec)
{
    static const uint8_t modes[] = { PREEMPT_SUSPEND, PREEMPT_CHECKPOINT, PREEMPT_CANCEL, PREEMPT_NEVER };
    uint8_t mode = modes[rng_below(rng, 4)];
    usec_t span = (usec_t)(1 + rng_below(rng, 2000)) * USEC_SEC;

    if (chance(rng, 35) && !(mode == PREEMPT_NEVER && spec->klass == CLASS_OPPORTUNISTIC))
        spec->preempt = mode;
    if (chance(rng, 25) && spec->klass != CLASS_OPPORTUNISTIC)
        spec->min_runtime = span;
}

static void draw_failure(struct rng *rng, struct trace_job *job)
{
    struct truth *truth = &job->truth;
    uint8_t fail = (uint8_t)(1 + rng_below(rng, FAIL_TIMEOUT)), exit = (uint8_t)(1 + rng_below(rng, 3));
    uint8_t listed = (uint8_t)(1 + rng_below(rng, 3));

    if (truth->fail == FAIL_NONE)
        return;
    truth->fail = fail;
    if (fail == FAIL_USER || fail == FAIL_MEMORY)
        truth->exit = exit;
    if (chance(rng, 10) && truth->fail_times != UINT8_MAX) /* else it is never over */
        truth->exit = EXIT_REQUEUE;
    if (chance(rng, 50))
        job->spec.retry_on[job->spec.retry_on_count++] = listed;
    job->spec.no_requeue = chance(rng, 20);
}

void draw_terms(const struct draw *draw, struct life *life)
{
    static const char *const most[] = { "0", "1", "3", "inf" };
    struct rng rng;

    rng_seed(&rng, rng_mix(draw->seed + 919));
    if (draw->found || chance(&rng, 40))
        return;
    for (size_t i = 0; i < life->trace.count; i++) {
        draw_preempt(&rng, &life->trace.jobs[i].spec);
        draw_failure(&rng, &life->trace.jobs[i]);
    }
    if (chance(&rng, 50)) {
        size_t at = life->setting_count++;

        (void)snprintf(life->values[at], SETTING_TEXT, "%s", most[rng_below(&rng, 4)]);
        life->settings[at] = (struct setting){ "system-retries", life->values[at] };
    }
}

void draw_drains(const struct draw *draw, struct life *life)
{
    struct rng rng;

    rng_seed(&rng, rng_mix(draw->seed + 1201));
    if (draw->found || chance(&rng, 30))
        return;
    for (size_t i = 0; i < life->script_count; i++)
        if (life->script[i].kind == EVENT_NODE && !life->script[i].up)
            life->script[i].value = chance(&rng, 60);
}

void draw_classes(const struct draw *draw, struct life *life)
{
    static const int16_t priorities[] = { 10, 100, 100, 500 };
    struct rng rng;

    if (!draw->classes)
        return;
    rng_seed(&rng, rng_mix(draw->seed + 2711));
    for (size_t i = 0; i < life->trace.count; i++) {
        int16_t priority = priorities[rng_below(&rng, 4)];

        if (life->trace.jobs[i].spec.klass != CLASS_OPPORTUNISTIC)
            life->trace.jobs[i].spec.priority = priority;
    }
    for (uint32_t v = 0; v < life->cluster.vc_count; v++)
        if (chance(&rng, 30)) /* with cells they are strict unless told, where the policy can */
            life->cluster.vcs[v].priorities = (uint8_t)(chance(&rng, 50) ? PRIORITIES_WEIGHTS : PRIORITIES_OFF);
}
