/* SPDX-License-Identifier: Apache-2.0 */
/* users.c - how many GPUs one user may have in a virtual cluster at a time.
 *
 * To a placement jobs of one shape are alike, whoever sends them. So a job whose user has all that one may have is set
 * aside, with a reason of its own, and put back when something of its user's has ended; between two looks a start that
 * would be too much is refused. Only users who wait or hold something are remembered.
 */
#include <assert.h>

#include "core/contract/plan.h"
#include "core/core_internal.h"

struct user {
    uint32_t vc, user, next; /* next: in its bucket, or of the free ones */
    uint32_t first, last;    /* its waiting jobs, by submission and id: the same after a restart */
    uint32_t jobs;           /* all that are counted here */
    int64_t held;
    bool dirty;
};

void users_build(struct core *core, bool *failed)
{
    uint32_t buckets = 16;

    for (uint32_t v = 0; v < core->vc_count; v++)
        core->user_limits |= core->vcs[v].user_max > 0;
    if (!core->user_limits)
        return;
    while (buckets < core->job_capacity)
        buckets *= 2;
    core->users = core_block(core, failed, core->job_capacity, sizeof(*core->users));
    core->user_buckets = core_block(core, failed, buckets, sizeof(*core->user_buckets));
    core->users_dirty = core_block(core, failed, core->job_capacity, sizeof(*core->users_dirty));
    if (*failed)
        return;
    core->user_mask = buckets - 1;
    for (uint32_t i = 0; i < buckets; i++)
        core->user_buckets[i] = JOB_NONE;
    for (uint32_t i = 0; i < core->job_capacity; i++)
        core->users[i].next = i + 1 < core->job_capacity ? i + 1 : JOB_NONE;
}

static bool limited(const struct core *core, const struct job *job)
{
    return core->vcs[job->vc].user_max > 0 && job->spec.user != NAME_NONE && !job_gpuless(job);
}

static uint32_t *bucket_of(const struct core *core, uint32_t vc, uint32_t user)
{
    return &core->user_buckets[rng_mix((uint64_t)vc << 32 | user) & core->user_mask];
}

static uint32_t find(const struct core *core, const struct job *job)
{
    uint32_t i = *bucket_of(core, job->vc, job->spec.user);

    while (i != JOB_NONE && (core->users[i].vc != job->vc || core->users[i].user != job->spec.user))
        i = core->users[i].next;
    return i;
}

/* The user's entry, made if there is none; one more job is counted there. */
static uint32_t enter(struct core *core, const struct job *job)
{
    uint32_t i = find(core, job), *bucket = bucket_of(core, job->vc, job->spec.user);

    if (i == JOB_NONE) {
        i = core->user_free;
        assert(i != JOB_NONE); /* no more users than jobs */
        core->user_free = core->users[i].next;
        core->users[i] = (struct user){
            .vc = job->vc, .user = job->spec.user, .next = *bucket, .first = JOB_NONE, .last = JOB_NONE
        };
        *bucket = i;
    }
    core->users[i].jobs++;
    return i;
}

/* One job less; the last one takes the entry with it, unless it is still to be looked at. */
static void leave(struct core *core, uint32_t i)
{
    struct user *u = &core->users[i];
    uint32_t *at = bucket_of(core, u->vc, u->user);

    if (u->jobs > 0 || u->dirty)
        return;
    while (*at != i)
        at = &core->users[*at].next;
    *at = u->next;
    u->next = core->user_free;
    core->user_free = i;
}

static void mark(struct core *core, uint32_t i)
{
    if (core->users[i].dirty)
        return;
    core->users[i].dirty = true;
    core->users_dirty[core->users_dirty_count++] = i;
}

/* Its user's jobs are looked at soon. */
void users_look(struct core *core, uint32_t index)
{
    if (limited(core, &core->jobs[index]))
        mark(core, find(core, &core->jobs[index]));
}

void users_hold(struct core *core, uint32_t index, int sign)
{
    const struct job *job = &core->jobs[index];
    uint32_t i;

    if (!limited(core, job))
        return;
    i = sign > 0 ? enter(core, job) : find(core, job);
    /* Of a pair each is its user's: who stays owns the GPUs from one instant to the next. */
    core->users[i].held += sign * ((int64_t)job->gpus + jobspec_sides(&job->spec)) * job->spec.share;
    mark(core, i);
    if (sign < 0)
        core->users[i].jobs--;
    leave(core, i);
}

static bool comes_after(const struct job *a, const struct job *b)
{
    return a->spec.submit != b->spec.submit ? a->spec.submit > b->spec.submit : a->spec.id > b->spec.id;
}

static void link_job(struct core *core, struct user *u, uint32_t index)
{
    struct job *job = &core->jobs[index];
    uint32_t before = u->last;

    while (before != JOB_NONE && comes_after(&core->jobs[before], job))
        before = core->jobs[before].user_prev;
    job->user_prev = before;
    job->user_next = before == JOB_NONE ? u->first : core->jobs[before].user_next;
    *(before != JOB_NONE ? &core->jobs[before].user_next : &u->first) = index;
    *(job->user_next != JOB_NONE ? &core->jobs[job->user_next].user_prev : &u->last) = index;
}

void users_wait(struct core *core, uint32_t index, bool waits)
{
    struct job *job = &core->jobs[index];
    uint32_t i;

    if (!limited(core, job))
        return;
    i = waits ? enter(core, job) : find(core, job);
    if (waits) {
        link_job(core, &core->users[i], index);
        mark(core, i);
        return;
    }
    *(job->user_prev != JOB_NONE ? &core->jobs[job->user_prev].user_next : &core->users[i].first) = job->user_next;
    *(job->user_next != JOB_NONE ? &core->jobs[job->user_next].user_prev : &core->users[i].last) = job->user_prev;
    core->users[i].jobs--;
    leave(core, i);
}

bool users_allow(struct core *core, uint32_t index, uint32_t gpus)
{
    const struct job *job = &core->jobs[index];
    uint32_t i;

    if (!limited(core, job))
        return true;
    i = find(core, job);
    if (i == JOB_NONE || core->users[i].held + ((int64_t)gpus + jobspec_sides(&job->spec)) * job->spec.share <=
                             core->vcs[job->vc].user_max)
        return true;
    mark(core, i);
    return false;
}

/* Inside a guarantee jobs are looked at when something happened there; what a user has beyond it ends elsewhere. */
static void wake(struct core *core, const struct job *job)
{
    struct vc *vc = &core->vcs[job->vc];

    if (vc->own && job->klass != CLASS_OPPORTUNISTIC)
        vc->awake = vc->late = core->late = true;
}

/* Sets aside those that are too much now, puts back those that are not. Whether somebody was set aside. */
static bool look(struct core *core, struct user *u, bool wakes)
{
    struct plan plan = { .core = core, .vc = u->vc };
    bool aside = false;

    for (uint32_t index = u->first; index != JOB_NONE; index = core->jobs[index].user_next) {
        struct job *job = &core->jobs[index];
        int64_t demand = job_demand(job) + (int64_t)jobspec_sides(&job->spec) * MGPU_ONE;
        bool fits = u->held + demand <= core->vcs[u->vc].user_max;

        if (job->shape != UINT32_MAX && !fits) {
            plan_set_aside(&plan, index, REASON_USER_LIMIT);
            aside = true;
        } else if (job->shape == UINT32_MAX && fits && job->reason == REASON_USER_LIMIT) {
            (void)plan_put_back(&plan, index);
            if (wakes)
                wake(core, job);
        }
    }
    return aside;
}

/* The first of those to be looked at, by number: the same order after a restart. */
static uint32_t take_dirty(struct core *core)
{
    uint32_t best = 0, taken;

    for (uint32_t k = 1; k < core->users_dirty_count; k++) {
        const struct user *a = &core->users[core->users_dirty[k]], *b = &core->users[core->users_dirty[best]];

        if (a->vc != b->vc ? a->vc < b->vc : a->user < b->user)
            best = k;
    }
    taken = core->users_dirty[best];
    core->users_dirty[best] = core->users_dirty[--core->users_dirty_count];
    return taken;
}

bool users_settle(struct core *core, bool wakes)
{
    bool aside = false;

    while (core->users_dirty_count) {
        uint32_t i = take_dirty(core);

        core->users[i].dirty = false;
        aside |= look(core, &core->users[i], wakes);
        leave(core, i);
    }
    return aside;
}
