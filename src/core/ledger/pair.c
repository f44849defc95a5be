/* SPDX-License-Identifier: Apache-2.0 */
/* pair.c - two jobs of equal width on the same GPUs.
 *
 * One of the two owns the GPUs, as any job does; the other is packed beside it: its shares count for nothing, so quotas
 * and free counts are as if the owner were alone. Which of them is the owner is of no consequence. When the owner goes,
 * for whatever reason, the other one owns the GPUs from that instant on; so nothing that is in use ever looks free, and
 * a stop can be taken back. They are a pair until one of them has left for good.
 */
#include <assert.h>
#include <errno.h>

#include "core/contract/plan.h"
#include "core/core_internal.h"
#include "core/planning/preempt.h"
#include "core/snapshot/audit.h"

/* Of a pair that both run, or both leave, the other one becomes the owner. */
static void swap(struct core *core, uint32_t a, uint32_t b)
{
    struct job *ja = &core->jobs[a], *jb = &core->jobs[b];
    bool attached = job_holds(ja->state);

    if (attached) {
        queue_run_remove(core, a);
        queue_run_remove(core, b);
        users_hold(core, a, -1);
        users_hold(core, b, -1);
    }
    hold_swap(core, a, b);
    ja->packed = !ja->packed;
    jb->packed = !jb->packed;
    if (attached) {
        users_hold(core, a, 1);
        users_hold(core, b, 1);
        queue_run_add(core, a);
        queue_run_add(core, b);
    }
}

void pair_hand_over(struct core *core, uint32_t index)
{
    const struct job *job = &core->jobs[index];

    if (job->mate != JOB_NONE && !job->packed && job_holds(core->jobs[job->mate].state))
        swap(core, index, job->mate);
}

void pair_take_back(struct core *core, uint32_t index)
{
    const struct job *job = &core->jobs[index];

    if (job->packed && core->jobs[job->mate].state == JOB_STOPPING)
        swap(core, index, job->mate);
}

void pair_part(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];

    job->unpacks = false;
    if (job->mate == JOB_NONE)
        return;
    core->jobs[job->mate].mate = JOB_NONE;
    /* The one that stays, if it stays, owns the GPUs already; of two that leave, the last one may not. */
    if (core->jobs[job->mate].packed)
        hold_part(core, job->mate);
    core->jobs[job->mate].packed = core->jobs[job->mate].unpacks = job->packed = false;
    job->mate = JOB_NONE;
}

/* Whether the two may share GPUs at all, whoever asks (overview of the rules: rules.c). */
static int mates_check(const struct plan *plan, const struct job *job, const struct job *host)
{
    const struct vc *vc = &plan->core->vcs[plan->vc];
    bool classes = vc->policy.planner->classes || (vc->policy.admit && vc->policy.admit->classes);

    if (job->spec.share != MGPU_ONE || host->spec.share != MGPU_ONE || job->klass != host->klass)
        return -EINVAL;
    if (rules_leased(job) || rules_leased(host))
        return -EPERM;
    /* Where some are guaranteed and others are not, a guaranteed job has its GPUs for itself and for guests that are
     * kept small. */
    if (classes && host->klass == CLASS_GUARANTEED)
        return -EPERM;
    return 0;
}

/* The GPUs of the host, ascending. */
static struct placement host_gpus(struct core *core, const struct job *host)
{
    struct placement to = { core->scratch, 0 };

    for (uint32_t s = host->shares; s != SHARE_NONE; s = core->ledger.shares[s].next_of_job)
        core->scratch[to.count++] = core->ledger.shares[s].gpu;
    return to;
}

static int host_check(const struct core *core, const struct job *host)
{
    if (!job_holds(host->state) || host->mate != JOB_NONE || core->ledger.shares[host->shares].role != ROLE_OWNER)
        return -EINVAL;
    for (uint32_t s = host->shares; s != SHARE_NONE; s = core->ledger.shares[s].next_of_job) {
        const struct gpu *gpu = &core->ledger.gpus[core->ledger.shares[s].gpu];

        if (gpu->guests || gpu->bad || !core->ledger.topo.nodes[gpu->node].up)
            return -EBUSY;
    }
    return job_defers(host) ? -EBUSY : 0; /* it is not there yet */
}

/* Inside a guarantee the CPUs and the memory of the virtual node have to do for both as well. */
static bool own_room(struct core *core, const struct job *job, const struct job *host)
{
    const struct ledger *own = core->vcs[job->vc].own;
    struct placement to = { core->scratch, 0 };
    struct job inside = *job;

    inside.shares = job->own_shares;
    for (uint32_t s = host->own_shares; s != SHARE_NONE; s = own->shares[s].next_of_job)
        core->scratch[to.count++] = own->shares[s].gpu;
    return host_lands(own, &inside, &to);
}

/* Inside a guarantee with those inside, beyond it with those beyond: a pair is on one side. */
static bool joins(const struct plan *plan, const struct job *job, const struct job *host)
{
    bool has = job->state == JOB_SUSPENDED || job->state == JOB_RUNNING;

    return (job_waits(job->state) || has) && !job->planned && !job->yields && !job->prepared && job->mate == JOB_NONE &&
           (!has || job_bound(job) == plan_own(plan)) && job_bound(host) == plan_own(plan);
}

/* Out of the queue, off the list of those that take turns, or from where it runs. */
static void come_along(struct core *core, uint32_t index, struct plan *plan)
{
    struct job *job = &core->jobs[index];

    if (job->state == JOB_RESERVED)
        plan_unreserve(plan, index);
    if (job->state == JOB_RUNNING) {
        bool deferring = core->deferring;

        core->deferring = false; /* it is elsewhere at once */
        core_detach(core, index);
        hold_leave(core, index);
        core->deferring = deferring;
        core_move(core, index, JOB_STARTING);
        (void)hold_release(core, index);
        return;
    }
    if (job->state == JOB_SUSPENDED) {
        job->waited[job->reason] += core->now - job->state_since;
        job->waited_all += core->now - job->state_since;
        core->vcs[job->vc].suspended--;
        job->reason = REASON_NONE;
        (void)hold_release(core, index);
    } else {
        core_dequeue(core, index);
    }
    job->last_start = core->now;
    core_move(core, index, JOB_CLAIMING);
}

int plan_pack(struct plan *plan, uint32_t index, uint32_t other)
{
    struct core *core = plan->core;
    struct job *job = &core->jobs[index], *host = &core->jobs[other];
    struct placement to;
    int r;

    if (index == other || !plan_owns(plan, index) || !plan_owns(plan, other) || !joins(plan, job, host) ||
        (job_waits(job->state) ? job->spec.gpus : job->gpus) != host->gpus ||
        (job->spec.sku_mask && !plan_sku_allowed(core, job, host->sku)))
        return plan_bad(plan, index, -EINVAL);
    if (job->spec.side_count || host->spec.side_count)
        return -EBUSY; /* a gang on several types has its GPUs for itself */
    if (job->spec.preempt == PREEMPT_NEVER || host->spec.preempt == PREEMPT_NEVER ||
        plan_keeps(plan, jobspec_keeps(&job->spec)))
        return -EBUSY; /* a pair can always be parted */
    r = mates_check(plan, job, host);
    if (r == 0)
        r = host_check(core, host);
    if (r == -EINVAL || r == -EPERM)
        return plan_bad(plan, index, r);
    if (r == 0 && plan_own(plan) && !own_room(core, job, host))
        r = -EBUSY;
    if (r < 0)
        return r;
    to = host_gpus(core, host);
    r = exact_check(&core->ledger, &to, job->spec.per_node);
    if (r == 0)
        r = host_allows(&core->ledger, &to, &job->spec);
    if (r == 0)
        r = ledger_check(&core->ledger, &to, &job->spec, ROLE_PACKED);
    if (r == 0 && !host_lands(&core->ledger, job, &to))
        r = -EBUSY; /* not the CPUs or the memory for two */
    if (r == 0 && job->state != JOB_RUNNING && (!users_allow(core, index, to.count) || !licenses_allow(core, job)))
        r = -EDQUOT;
    if (r == 0)
        r = rules_disturb(plan, other);
    if (r == 0 && job->state == JOB_RUNNING)
        r = rules_move(plan, index, &to);
    if (r == 0 && job->state == JOB_RUNNING && host->blocked)
        r = -EBUSY; /* a move lands where nobody has to leave first */
    if (r < 0)
        return r;
    if (job->state == JOB_RUNNING)
        rules_note_move(core, index, &to);
    come_along(core, index, plan);
    to = host_gpus(core, host); /* leaving has used the list */
    job->sku = host->sku;
    job->borrowed = host->borrowed;
    job->gpus = host->gpus;
    job->packed = true;
    job->mate = other;
    host->mate = index;
    job->blocked = hold_pack(core, index, other, &to);
    core_attach(core, index);
    core_touch(core, index);
    return 0;
}

int plan_unpack(struct plan *plan, uint32_t index, enum stop_step step)
{
    struct core *core = plan->core;
    int r;

    if (!plan_owns(plan, index) || core->jobs[index].mate == JOB_NONE)
        return plan_bad(plan, index, -EINVAL);
    r = step == STOP_SUSPEND ? plan_suspend(plan, index) : plan_stop(plan, index, step);
    core->jobs[index].unpacks = r == 0;
    return r;
}

void pair_audit(const struct core *core, uint32_t index, struct audit *audit)
{
    const struct job *job = &core->jobs[index], *mate;

    MUST(audit, !job->packed || job->mate != JOB_NONE);
    if (job->mate == JOB_NONE)
        return;
    mate = &core->jobs[job->mate];
    MUST(audit, mate->mate == index);
    MUST(audit, job->packed != mate->packed);
    MUST(audit, mate->vc == job->vc);
    MUST(audit, mate->gpus == job->gpus);
    MUST(audit, job_holds(job->state) || job->state == JOB_STOPPING);
    /* Whoever stays is the owner. */
    MUST(audit, !job_holds(job->state) || job_holds(mate->state) || !job->packed);
    if (audit->broken)
        return; /* the lists below may differ in length */
    for (uint32_t a = job->shares, b = mate->shares; a != SHARE_NONE;
         a = core->ledger.shares[a].next_of_job, b = core->ledger.shares[b].next_of_job) {
        MUST(audit, b != SHARE_NONE);
        if (b == SHARE_NONE)
            return;
        MUST(audit, core->ledger.shares[a].gpu == core->ledger.shares[b].gpu);
    }
    /* One that is leaving has no place in a guarantee that was made anew. */
    if (job_bound(job) != job_bound(mate)) {
        MUST(audit, !job_holds(job->state) || !job_holds(mate->state));
        return;
    }
    for (uint32_t a = job->own_shares, b = mate->own_shares; a != SHARE_NONE;
         a = core->vcs[job->vc].own->shares[a].next_of_job, b = core->vcs[job->vc].own->shares[b].next_of_job) {
        const struct share *x = &core->vcs[job->vc].own->shares[a], *y = &core->vcs[job->vc].own->shares[b];

        MUST(audit, x->gpu == y->gpu && x->on == y->on);
        MUST(audit, (x->role == ROLE_PACKED) == job->packed && (y->role == ROLE_PACKED) == mate->packed);
    }
}
