/* SPDX-License-Identifier: Apache-2.0 */
/* job.c - see job.h. */
#include "core/job.h"

#include <assert.h>

static const char *const names[] = {
#define X(code, name) name,
    JOB_STATES(X)
#undef X
};

const char *job_state_name(enum job_state state)
{
    assert(state < JOB_STATE_COUNT);
    return names[state];
}

#define TO(state) (1u << JOB_##state)

static const uint16_t moves[JOB_STATE_COUNT] = {
    [JOB_FREE] = TO(OFFERED),
    [JOB_OFFERED] = TO(PENDING) | TO(HELD) | TO(KILLED) | TO(FREE),
    [JOB_HELD] = TO(PENDING) | TO(KILLED),
    [JOB_PENDING] = TO(HELD) | TO(SUSPENDED) | TO(RESERVED) | TO(CLAIMING) | TO(STARTING) | TO(KILLED),
    [JOB_RESERVED] = TO(PENDING) | TO(CLAIMING) | TO(STARTING) | TO(KILLED),
    [JOB_CLAIMING] = TO(STARTING) | TO(STOPPING) | TO(PENDING) | TO(KILLED),
    [JOB_STARTING] = TO(RUNNING) | TO(STOPPING) | TO(PENDING) | TO(DONE) | TO(FAILED) | TO(KILLED),
    [JOB_RUNNING] = TO(STOPPING) | TO(STARTING) | TO(PENDING) | TO(DONE) | TO(FAILED) | TO(KILLED),
    [JOB_SUSPENDED] = TO(CLAIMING) | TO(PENDING) | TO(DONE) | TO(FAILED) | TO(KILLED),
    [JOB_STOPPING] =
        TO(SUSPENDED) | TO(PENDING) | TO(CLAIMING) | TO(RUNNING) | TO(STARTING) | TO(DONE) | TO(FAILED) | TO(KILLED),
    [JOB_DONE] = TO(FREE),
    [JOB_FAILED] = TO(FREE),
    [JOB_KILLED] = TO(FREE),
};

bool job_may_move(enum job_state from, enum job_state to)
{
    return moves[from] >> to & 1;
}

static usec_t unsettled(const struct job *job, usec_t now)
{
    assert(now >= job->since);
    return job->state == JOB_RUNNING || job_defers(job) ? now - job->since : 0;
}

usec_t job_progress(const struct job *job, usec_t now)
{
    usec_t span = unsettled(job, now);

    return job->progress + (job->rate == PPM_ONE ? span : muldiv_floor(span, job->rate, PPM_ONE));
}

usec_t job_remaining(const struct job *job, usec_t now)
{
    usec_t done = job_progress(job, now);

    return job->spec.estimate > done ? job->spec.estimate - done : 0;
}

svc_t job_attained(const struct job *job, usec_t now)
{
    int32_t gpus = job_defers(job) ? job->runs_on : job->gpus;

    return job->attained + svc_of((int64_t)gpus * job->spec.share, unsettled(job, now));
}

void job_settle(struct job *job, usec_t now)
{
    job->attained = job_attained(job, now);
    job->progress = job_progress(job, now);
    job->ran += unsettled(job, now);
    job->since = now;
}
