/* SPDX-License-Identifier: Apache-2.0 */
/* chronus_profile.c - new jobs are measured before they are admitted, where a person wants that (profile).
 *
 * A job whose like (user, model, GPUs, batch) was not seen before runs for a few minutes on a small pool of GPUs that
 * nothing is promised on. Short and broken ones end there and never disturb anybody; the others are admitted when the
 * time is over and go on. The pool is as large as what arrived in the last hour would keep busy, and a quarter more. A
 * user who sends too many waits for the next hour.
 */
#include <errno.h>

#include "policy/chronus/chronus.h"

static uint64_t likeness(const struct jobspec *spec)
{
    uint64_t hash = 1469598103934665603ULL;
    const uint64_t parts[] = { spec->user, spec->model, (uint64_t)spec->gpus, spec->batch, spec->memory_mib };

    for (int i = 0; i < 5; i++)
        hash = (hash ^ parts[i]) * 1099511628211ULL;
    return hash ? hash : 1;
}

static bool seen_before(const struct chronus *c, const struct jobspec *spec)
{
    uint64_t hash = likeness(spec);

    /* Who names neither user nor model is like nobody. */
    if (spec->user == NAME_NONE && spec->model == NAME_NONE)
        return false;
    return c->alike[hash % CHRONUS_ALIKE] == hash;
}

int profile_check(struct planner_ctx *ctx, const struct jobspec *spec, struct error *err)
{
    usec_t profile = ctx->params[P_PROFILE], now = view_now(ctx->view);
    usec_t begin = spec->submit > now ? spec->submit : now;

    if (!profile || !spec->deadline_count || seen_before(ctx->state, spec) || spec->deadlines[0].at > begin + profile)
        return 0;
    return error_set(err, -ERANGE,
                     "job %lld: its deadline comes before the %lld s in which it would be measured are over "
                     "[BadDeadline.Profile]",
                     (long long)spec->id, (long long)(profile / USEC_SEC));
}

/* ---- how large the pool is ---- */

static void note_hour(struct planner_ctx *ctx, const struct job *job)
{
    struct chronus *c = ctx->state;
    usec_t hour = view_now(ctx->view) / USEC_HOUR;

    if (hour != c->hour) {
        c->hour_before = hour == c->hour + 1 ? c->hour_gpus : 0;
        c->hour_gpus = 0;
        c->hour = hour;
    }
    c->hour_gpus += job->spec.gpus;
}

int32_t profile_pool(const struct planner_ctx *ctx, int32_t capacity, int32_t unit)
{
    const struct chronus *c = ctx->state;
    int64_t gpus = c->hour_before > c->hour_gpus ? c->hour_before : c->hour_gpus, pool;

    int32_t most = (capacity / 4 + unit - 1) / unit * unit;

    if (!ctx->params[P_PROFILE] || capacity <= unit)
        return 0;
    pool = ctx->params[P_POOL] ? ctx->params[P_POOL] : muldiv_ceil(gpus * 5, ctx->params[P_PROFILE], 4 * USEC_HOUR);
    pool = (pool + unit - 1) / unit * unit;
    return (int32_t)(pool < unit ? unit : pool > most ? most : pool);
}

/* ---- who is measured ---- */

/* Whether the user may send another one in this hour. */
static bool within_limit(struct planner_ctx *ctx, const struct job *job)
{
    struct chronus *c = ctx->state;
    usec_t hour = view_now(ctx->view) / USEC_HOUR;
    struct sender *sender = &c->senders[job->spec.user % CHRONUS_SENDERS];

    if (!ctx->params[P_PER_USER] || job->spec.user == NAME_NONE)
        return true;
    if (sender->user != job->spec.user || sender->hour != hour)
        *sender = (struct sender){ .user = job->spec.user, .hour = hour };
    return sender->count++ < ctx->params[P_PER_USER];
}

bool profile_wanted(struct planner_ctx *ctx, struct plan *plan, uint32_t job)
{
    struct chronus *c = ctx->state;
    const struct job *j = view_job(ctx->view, job);

    if (!ctx->params[P_PROFILE] || j->spec.share < MGPU_ONE || j->klass == CLASS_OPPORTUNISTIC)
        return false;
    if (chronus_status(j) == STATUS_NEW)
        note_hour(ctx, j);
    if (seen_before(c, &j->spec) || j->spec.gpus > c->pool || c->line_count == CHRONUS_LINE)
        return false; /* known; or too large to be measured beside others */
    chronus_become(plan, ctx, job, STATUS_PROFILING);
    plan_set_aside(plan, job, REASON_PROFILING);
    if (!within_limit(ctx, j)) {
        plan_job_timer(plan, job, (view_now(ctx->view) / USEC_HOUR + 1) * USEC_HOUR);
        return true;
    }
    c->line[c->line_count++] = (struct job_ref){ job, j->gen };
    return true;
}

/* GPUs of the pool that are in use. */
static int32_t pool_used(const struct planner_ctx *ctx)
{
    int32_t used = 0;

    for (uint32_t i = ctx->vc->run_first; i != JOB_NONE; i = view_job(ctx->view, i)->next)
        if (chronus_status(view_job(ctx->view, i)) == STATUS_PROFILING)
            used += view_job(ctx->view, i)->gpus;
    return used;
}

void profile_plan(struct planner_ctx *ctx, struct plan *plan)
{
    struct chronus *c = ctx->state;
    uint32_t kept = 0;
    int32_t used;

    if (!c->line_count)
        return;
    used = pool_used(ctx);
    for (uint32_t i = 0; i < c->line_count; i++) {
        struct job_ref ref = c->line[i];
        const struct job *j = view_job(ctx->view, ref.index);

        if (j->gen != ref.gen || chronus_status(j) != STATUS_PROFILING || !job_waits(j->state))
            continue;
        if (used + j->spec.gpus <= c->pool && j->shape == UINT32_MAX) {
            (void)plan_put_back(plan, ref.index);
            if (room_measure(ctx, plan, ref.index) == 0) {
                used += j->spec.gpus;
                c->profiled++;
                plan_job_timer(plan, ref.index, view_now(ctx->view) + ctx->params[P_PROFILE]);
                continue;
            }
            plan_set_aside(plan, ref.index, REASON_PROFILING);
        }
        c->line[kept++] = ref;
    }
    c->line_count = kept;
}

bool profile_over(struct planner_ctx *ctx, struct plan *plan, uint32_t job)
{
    struct chronus *c = ctx->state;
    const struct job *j = view_job(ctx->view, job);

    if (chronus_status(j) != STATUS_PROFILING)
        return false;
    if (job_waits(j->state)) { /* a new hour: its turn in the line */
        if (!within_limit(ctx, j) || c->line_count == CHRONUS_LINE)
            plan_job_timer(plan, job, (view_now(ctx->view) / USEC_HOUR + 1) * USEC_HOUR);
        else
            c->line[c->line_count++] = (struct job_ref){ job, j->gen };
        plan_wake(plan, view_now(ctx->view) + 1);
        return false;
    }
    c->alike[likeness(&j->spec) % CHRONUS_ALIKE] = likeness(&j->spec);
    return job_holds(j->state);
}
