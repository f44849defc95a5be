/* SPDX-License-Identifier: Apache-2.0 */
/* licenses.c - licences: numbers that the whole cluster shares, of no node and of no virtual cluster.
 *
 * A job holds its licences from the moment it is given GPUs until it has left them: while it leaves, and between its
 * turns, its program may still have them. They are counted where states change and nowhere else. To a placement jobs of
 * one shape are alike, whatever licences they ask for; so a job whose licences are not there is set aside with a reason
 * of its own, blocks nobody, and is put back when they are. Between two looks a start that would be too much is
 * refused. Nobody is stopped for the sake of a licence.
 */
#include <assert.h>
#include <errno.h>

#include "core/contract/plan.h"
#include "core/core_internal.h"
#include "core/snapshot/audit.h"

void licenses_build(struct core *core, const struct cluster_spec *spec, bool *failed)
{
    void *waits, *looks;

    if (spec->license_count == 0)
        return;
    waits = core_block(core, failed, bits_size(core->job_capacity), 1);
    looks = core_block(core, failed, bits_size(core->job_capacity), 1);
    if (*failed)
        return;
    core->licenses.count = spec->license_count;
    for (uint32_t i = 0; i < spec->license_count; i++)
        core->licenses.total[i] = spec->licenses[i].count;
    bits_init(&core->licenses.waits, waits, core->job_capacity);
    bits_init(&core->licenses.looks, looks, core->job_capacity);
}

static bool holds(uint8_t state)
{
    return job_holds(state) || state == JOB_SUSPENDED || state == JOB_STOPPING;
}

static void count(struct core *core, const struct job *job, bool more)
{
    for (uint32_t i = 0; i < job->spec.license_count; i++) {
        const struct license_need *need = &job->spec.licenses[i];

        core->licenses.held[need->license] += more ? need->count : -(uint64_t)need->count;
        core->licenses.dirty |= 1ULL << need->license;
    }
}

void licenses_move(struct core *core, const struct job *job, uint8_t from, uint8_t to)
{
    if (job->spec.license_count == 0 || holds(from) == holds(to))
        return;
    assert(!holds(to) || licenses_allow(core, job));
    count(core, job, holds(to));
}

void licenses_look(struct core *core, uint32_t index)
{
    if (core->jobs[index].spec.license_count)
        bits_set(&core->licenses.looks, index);
}

void licenses_wait(struct core *core, uint32_t index, bool waits)
{
    if (core->jobs[index].spec.license_count == 0)
        return;
    if (waits) {
        bits_set(&core->licenses.waits, index);
        bits_set(&core->licenses.looks, index);
    } else {
        bits_clear(&core->licenses.waits, index);
        bits_clear(&core->licenses.looks, index);
    }
}

bool licenses_allow(const struct core *core, const struct job *job)
{
    for (uint32_t i = 0; i < job->spec.license_count; i++) {
        const struct license_need *need = &job->spec.licenses[i];

        if (core->licenses.held[need->license] + need->count > core->licenses.total[need->license])
            return false;
    }
    return true;
}

bool licenses_unsettled(const struct core *core)
{
    return core->licenses.count && (core->licenses.dirty || bits_next(&core->licenses.looks, 0) != BITS_NONE);
}

static bool asks(const struct job *job, uint64_t any)
{
    for (uint32_t i = 0; i < job->spec.license_count; i++)
        if (any >> job->spec.licenses[i].license & 1)
            return true;
    return false;
}

/* Its virtual cluster has something to plan, whenever this happens: what it lacked was nobody's inside or beyond a
 * guarantee. */
static void wake(struct core *core, const struct job *job)
{
    struct vc *vc = &core->vcs[job->vc];

    core->late = true;
    if (vc->own && job->klass != CLASS_OPPORTUNISTIC)
        vc->awake = vc->late = true;
}

static void look(struct core *core, uint32_t index, bool wakes)
{
    struct job *job = &core->jobs[index];
    struct plan plan = { .core = core, .vc = job->vc };
    bool fits = licenses_allow(core, job);

    if (job_gpuless(job)) {
        if (fits == (job->reason == REASON_LICENSE_LIMIT))
            tasks_reason(core, job, fits ? REASON_SCHEDULING : REASON_LICENSE_LIMIT);
        core->tasks_dirty |= job->reason == REASON_SCHEDULING;
        return;
    }
    if (job->shape != UINT32_MAX && !fits) {
        plan_set_aside(&plan, index, REASON_LICENSE_LIMIT);
        core->vcs[job->vc].shorted |= !wakes;
    } else if (job->shape == UINT32_MAX && fits && job->reason == REASON_LICENSE_LIMIT) {
        (void)plan_put_back(&plan, index);
        if (wakes)
            wake(core, job);
        else
            core->vcs[job->vc].shorted = true;
    }
}

/* In the order of their slots, which is the same after a restart. */
void licenses_settle(struct core *core, bool wakes)
{
    uint64_t dirty = core->licenses.dirty;

    if (!licenses_unsettled(core))
        return;
    core->licenses.dirty = 0;
    for (uint32_t i = bits_next(&core->licenses.waits, 0); i != BITS_NONE; i = bits_next(&core->licenses.waits, i + 1))
        if (bits_has(&core->licenses.looks, i) || asks(&core->jobs[i], dirty))
            look(core, i, wakes);
    for (uint32_t i = bits_next(&core->licenses.looks, 0); i != BITS_NONE; i = bits_next(&core->licenses.looks, i + 1))
        bits_clear(&core->licenses.looks, i);
    if (core->user_limits)
        (void)users_settle(core, wakes); /* what was put back may be more than its user may have */
}

int licenses_check(const struct core *core, const struct jobspec *spec, struct error *err)
{
    if (spec->license_count > LICENSE_NEEDS_MAX)
        return error_set(err, -EINVAL, "job %lld asks for more than %d kinds of licences", (long long)spec->id,
                         LICENSE_NEEDS_MAX);
    for (uint32_t i = 0; i < spec->license_count; i++) {
        const struct license_need *need = &spec->licenses[i];

        if (need->license >= core->licenses.count)
            return error_set(err, -ERANGE, "job %lld asks for licences that nobody counts [Infeasible.License]",
                             (long long)spec->id);
        if (need->count < 1 || need->count > LICENSE_COUNT_MAX ||
            (i > 0 && need->license <= spec->licenses[i - 1].license))
            return error_set(err, -EINVAL, "job %lld: licences: expected 1 to %d of each kind, each kind once",
                             (long long)spec->id, LICENSE_COUNT_MAX);
        if (need->count > core->licenses.total[need->license])
            return error_set(err, -ERANGE, "job %lld asks for %u licences of a kind; there are %u [Infeasible.License]",
                             (long long)spec->id, need->count, core->licenses.total[need->license]);
    }
    return 0;
}

/* What is held, from the jobs; -EBADMSG if one names a kind that is not there. */
int licenses_restore(struct core *core)
{
    for (uint32_t i = 0; i < core->job_top; i++) {
        const struct job *job = &core->jobs[i];

        if (job->state == JOB_FREE)
            continue;
        for (uint32_t k = 0; k < job->spec.license_count; k++)
            if (job->spec.licenses[k].license >= core->licenses.count)
                return -EBADMSG;
        if (holds(job->state))
            count(core, job, true);
    }
    return 0;
}

void licenses_audit(const struct core *core, struct audit *audit)
{
    uint64_t held[LICENSES_MAX] = { 0 };

    for (uint32_t i = 0; i < core->job_top; i++) {
        const struct job *job = &core->jobs[i];

        if (job->state == JOB_FREE || job->spec.license_count == 0)
            continue;
        for (uint32_t k = 0; k < job->spec.license_count && holds(job->state); k++)
            held[job->spec.licenses[k].license] += job->spec.licenses[k].count;
        MUST(audit, bits_has(&core->licenses.waits, i) == job_waits(job->state));
        if (!job_waits(job->state) || job_gpuless(job) || licenses_unsettled(core))
            continue;
        /* Whoever lacks licences is not in the queue, and nobody else is kept out of it for that. */
        MUST(audit, job->shape == UINT32_MAX || licenses_allow(core, job));
        MUST(audit, job->reason != REASON_LICENSE_LIMIT || !licenses_allow(core, job));
    }
    for (uint32_t i = 0; i < core->licenses.count; i++)
        MUST(audit, held[i] == core->licenses.held[i]);
}
