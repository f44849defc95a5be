/* SPDX-License-Identifier: Apache-2.0 */
/* watch_theorem.c - each reason is a claim about what would happen if one thing were different. Now and then the claim
 * is tried: in a copy of the core that thing is changed, and nothing else, and the copy is stepped.
 *
 *   NodesUnhealthy    all nodes and GPUs are in order and no other job waits: it starts, or waits for something else
 *                     (enough GPUs are free then, though perhaps not as it asks for them)
 *   Priority          no other job waits: it starts
 *   ReservedForJob    no other job waits: it starts, or waits for something else
 *   Fragmented        no other job waits: it does not start on free GPUs
 *
 *   InsufficientGpus  the same; and no other job is there at all: it starts, or waits for something else
 *
 *   VcLimit, BorrowLimit
 *                     no other job waits: it does not start on free GPUs; no other job is there at all, and its
 *                     virtual cluster is owed all GPUs: it starts, or waits for something else (opportunistic jobs
 *                     are owed none)
 *
 * Tried where the planner is a list, which decides at every event what fits; others plan rounds, leases and turns
 * ahead.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "core/core_internal.h"
#include "core/snapshot/snapshot.h"
#include "seeds.h"

enum { EVERY = 29, STEPS = 40 };

/* IDLE is ALONE, and nothing is taken from those that run. */
enum change { CHANGE_ALONE, CHANGE_IDLE, CHANGE_HEALTHY, CHANGE_EMPTY, CHANGE_OWED };

static void bytes_put(void *arg, const void *data, size_t size)
{
    buf_put(arg, data, size);
}

static struct core *copy_make(const struct watch *watch, const struct core *core)
{
    CLEANUP_BUF struct buf bytes = BUF_INIT((size_t)1 << 30);
    struct core *copy = NULL;
    struct error err;

    core_save(core, bytes_put, &bytes);
    if (bytes.error || core_load(watch->cluster, watch->config, bytes.data, bytes.size, &copy, &err) < 0)
        return NULL;
    return copy;
}

static void offer(struct core *copy, struct event event)
{
    struct error err;

    (void)core_offer(copy, &event, NULL, &err); /* what cannot be done needs no doing */
}

static void others_leave(struct core *copy, uint32_t index, bool all)
{
    for (uint32_t i = 0; i < copy->job_top; i++) {
        const struct job *job = &copy->jobs[i];
        enum job_state state = (enum job_state)job->state;

        if (i == index || state == JOB_FREE)
            continue;
        if (job_waits(state) || state == JOB_HELD || all)
            offer(copy, (struct event){ .kind = EVENT_CANCEL, .job = i, .gen = job->gen });
    }
}

static void change_make(struct core *copy, uint32_t index, enum change change)
{
    const struct topo *topo = &copy->ledger.topo;

    others_leave(copy, index, change == CHANGE_EMPTY || change == CHANGE_OWED);
    for (uint32_t n = 0; n < topo->host_count && change == CHANGE_HEALTHY; n++)
        if (!topo->nodes[n].up)
            offer(copy, (struct event){ .kind = EVENT_NODE, .target = n, .up = true });
    for (uint32_t g = 0; g < topo->gpu_count && change == CHANGE_HEALTHY; g++)
        if (copy->ledger.gpus[g].bad)
            offer(copy, (struct event){ .kind = EVENT_GPU, .target = g, .up = true });
    for (uint32_t v = 0; v < copy->vc_count && change == CHANGE_OWED; v++)
        for (uint32_t s = 0; s < topo->sku_count; s++)
            offer(copy, (struct event){ .kind = EVENT_QUOTA,
                                        .target = v,
                                        .sku = (uint16_t)s,
                                        .value = v == copy->jobs[index].vc ? (int32_t)topo->sku_gpus[s] : 0 });
}

/* Steps the copy until it is quiet; whoever is told to leave has left. Whether the job has been given GPUs; `idle`:
 * such as were free, for none that ran was told to leave. */
static bool copy_starts(struct core *copy, uint32_t index, bool idle)
{
    usec_t now = copy->now + 1;

    for (int step = 0; step < STEPS; step++) {
        const struct outbox *out = core_step(copy, now);
        bool answered = false;

        for (size_t i = 0; i < out->effect_count; i++) {
            const struct effect *effect = &out->effects[i];

            if ((effect->kind == EFFECT_START || effect->kind == EFFECT_RESUME) && effect->job == index)
                return true;
            if (effect->kind != EFFECT_STOP)
                continue;
            if (idle)
                return false;
            answered = true;
            offer(copy, (struct event){ .kind = EVENT_STOPPED,
                                        .job = effect->job,
                                        .gen = copy->jobs[effect->job].gen,
                                        .progress = PROGRESS_OWN });
        }
        if (copy->jobs[index].state == JOB_CLAIMING)
            return true;
        if (!answered && core_next_wake(copy) > now + 1)
            break;
        now += answered ? 0 : 1;
    }
    return false;
}

/* Whether it starts after the change; *ret_reason: why it waits, if not. */
static bool starts_with(const struct watch *watch, const struct core *core, uint32_t index, enum change change,
                        enum reason *ret_reason)
{
    struct core *copy = copy_make(watch, core);
    bool starts;

    *ret_reason = REASON_NONE;
    if (!copy)
        return true;
    change_make(copy, index, change);
    starts = copy_starts(copy, index, change == CHANGE_IDLE);
    if (!starts && copy->jobs[index].state != JOB_FREE)
        *ret_reason = core_reason(copy, index);
    core_free(copy);
    return starts;
}

static const char *theorem_broken(const struct watch *watch, const struct core *core, uint32_t index,
                                  enum reason reason)
{
    enum reason then;

    switch ((int)reason) {
    case REASON_NODES_UNHEALTHY:
        return starts_with(watch, core, index, CHANGE_HEALTHY, &then) || then != reason
                   ? NULL
                   : "waits for it on healthy nodes too";
    case REASON_PRIORITY:
        return starts_with(watch, core, index, CHANGE_ALONE, &then) ? NULL : "does not start when no other job waits";
    case REASON_RESERVED:
        return starts_with(watch, core, index, CHANGE_ALONE, &then) || then != reason
                   ? NULL
                   : "waits for it when no other job waits too";
    case REASON_INSUFFICIENT_GPUS:
    case REASON_FRAGMENTED:
        if (starts_with(watch, core, index, CHANGE_IDLE, &then))
            return "starts as soon as no other job waits";
        if (reason == REASON_FRAGMENTED) /* its policy may insist on a nearer place than it asks for */
            return NULL;
        return starts_with(watch, core, index, CHANGE_EMPTY, &then) || then != reason
                   ? NULL
                   : "waits for it on an empty cluster too";
    case REASON_VC_LIMIT:
    case REASON_BORROW_LIMIT:
        if (starts_with(watch, core, index, CHANGE_IDLE, &then))
            return "starts as soon as no other job waits";
        if (core->jobs[index].klass == CLASS_OPPORTUNISTIC)
            return NULL;
        return starts_with(watch, core, index, CHANGE_OWED, &then) || then != reason
                   ? NULL
                   : "waits for it with all quota too";
    default:
        return NULL;
    }
}

void watch_theorems(struct watch *watch, const struct core *core)
{
    uint32_t from = (uint32_t)(watch->looked / EVERY) % (core->job_top + 1), tried = 0;

    if (watch->looked % EVERY || core->round || core->cells || watch->life->marks || !watch->config)
        return;
    for (uint32_t i = 0; i < core->job_top && tried < 3 && !watch->why[0]; i++) {
        uint32_t index = (from + i) % core->job_top;
        const struct job *job = &core->jobs[index];
        const struct vc *vc = &core->vcs[job->vc];
        enum reason reason = core_reason(core, index);
        const char *broken;

        if (!job_waits((enum job_state)job->state) || job->shape == UINT32_MAX || job_gpuless(job) ||
            job->spec.side_count || strcmp(vc->policy.planner->name, "list") != 0 || vc->dirty ||
            vc->seen_releases != core->ledger.releases)
            continue;
        tried++;
        watch->theorems++;
        broken = theorem_broken(watch, core, index, reason);
        if (broken)
            watch_wrong(watch, core, job->spec.id, "told %s, but it %s (needs %d x %d/1000)", reason_name(reason),
                        broken, job->spec.gpus, job->spec.share);
    }
}
