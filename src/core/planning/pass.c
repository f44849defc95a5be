/* SPDX-License-Identifier: Apache-2.0 */
/* pass.c - one planning pass: who plans, in which order, and what came of it.
 *
 * Everybody first gets what it is owed, those furthest below it first; then what is left over is lent. Afterwards every
 * shape that still waits is given its reason (reasons.c), and what holds is told (commit.c).
 */
#include <assert.h>

#include "core/contract/plan.h"
#include "core/planning/deferred_move.h"
#include "core/planning/pass.h"
#include "core/planning/priority.h"
#include "core/planning/resize.h"

static int64_t sum(const struct core *core, const int64_t *values)
{
    int64_t total = 0;

    for (uint32_t s = 0; s < core->ledger.topo.sku_count; s++)
        total += values[s];
    return total;
}

/* More of what it is owed still unmet first; then the smaller used / owed; then configuration order. */
static bool vc_before(const struct core *core, uint32_t a, uint32_t b)
{
    const struct vc *va = &core->vcs[a], *vb = &core->vcs[b];
    int64_t qa = sum(core, va->quota), qb = sum(core, vb->quota);
    int64_t ua = sum(core, va->used), ub = sum(core, vb->used);
    int64_t la = qa > ua ? qa - ua : 0, lb = qb > ub ? qb - ub : 0;
    __int128 left, right;

    la = la < va->queue.mgpu_waiting ? la : va->queue.mgpu_waiting;
    lb = lb < vb->queue.mgpu_waiting ? lb : vb->queue.mgpu_waiting;
    if (la != lb)
        return la > lb;
    left = (__int128)ua * (qb ? qb : 1);
    right = (__int128)ub * (qa ? qa : 1);
    return left != right ? left < right : a < b;
}

static void order_vcs(struct core *core)
{
    for (uint32_t i = 1; i < core->vc_count; i++) {
        uint32_t vc = core->vc_order[i], at = i;

        while (at > 0 && vc_before(core, vc, core->vc_order[at - 1])) {
            core->vc_order[at] = core->vc_order[at - 1];
            at--;
        }
        core->vc_order[at] = vc;
    }
}

int64_t vc_budget(const struct core *core, const struct vc *vc, uint32_t sku, enum phase phase, uint8_t klass)
{
    int64_t all = (int64_t)core->ledger.topo.sku_gpus[sku] * MGPU_ONE;
    int64_t owed = vc->quota[sku] > vc->used[sku] ? vc->quota[sku] - vc->used[sku] : 0;

    /* In cells: what its own jobs inside them leave, whatever it holds beyond. */
    if (vc->own && phase == PHASE_OWED && klass != CLASS_OPPORTUNISTIC)
        return vc->quota[sku] - (vc->used[sku] - vc->lent[sku]);
    if (klass == CLASS_OPPORTUNISTIC)
        return phase == PHASE_OWED ? 0 : all;
    if (phase == PHASE_OWED)
        return owed;
    if (vc->borrow_max < 0)
        return all;
    return owed + (vc->borrow_max > vc->borrowed ? vc->borrow_max - vc->borrowed : 0);
}

static bool waits_as_guest(const struct vc *vc)
{
    for (uint32_t i = 0; i < vc->queue.live_count; i++)
        if (vc->queue.shapes[vc->queue.live[i]].shape.klass == CLASS_OPPORTUNISTIC)
            return true;
    return false;
}

/* A pass one microsecond on: this instant has had its own. */
static void pass_again(struct core *core, struct vc *vc)
{
    vc->dirty = true;
    vc->again = core->now + 1;
    heap_set(&core->timers, core->job_capacity * TIMERS_A_JOB + core->vc_count, core->now + 1);
}

/* The same beyond its guarantee only. */
static void stir_again(struct core *core, struct vc *vc)
{
    if (!vc->own) {
        pass_again(core, vc);
        return;
    }
    vc->stirred = true;
    heap_set(&core->timers, core->job_capacity * TIMERS_A_JOB + core->vc_count, core->now + 1);
}

/* Whether something was released since it was last planned. */
static bool released(const struct core *core, const struct vc *vc, enum phase phase)
{
    if (vc->own && phase == PHASE_OWED && !vc->unmapped)
        return vc->seen_own != vc->own->releases;
    return vc->seen_releases != core->ledger.releases;
}

/* Whether it has its turn inside its guarantee: only when something happened to it, as in a cluster of its own. What
 * others do inside theirs is none of its business. */
static bool own_turn(const struct core *core, const struct vc *vc)
{
    return (vc->awake || vc->again == core->now || vc->unmapped) && (vc->planned_at != core->now || vc->fired);
}

/* Whether somebody waits for what the phase hands out: opportunistic jobs not for what is guaranteed in cells. */
static bool waits_in(const struct vc *vc, enum phase phase)
{
    return vc->queue.waiting > (vc->own && phase == PHASE_OWED ? vc->queue.guests : 0);
}

static bool turn(const struct core *core, const struct vc *vc, enum phase phase)
{
    if (vc->own && phase == PHASE_OWED && !own_turn(core, vc))
        return false;
    return vc->dirty || (vc->stirred && phase != PHASE_OWED) ||
           ((waits_in(vc, phase) || vc->resizing || (vc->own && phase == PHASE_OWED && vc->unmapped)) &&
            released(core, vc, phase));
}

static bool waits_kept(const struct vc *vc)
{
    for (uint32_t i = 0; i < vc->queue.live_count; i++) {
        const struct shape *shape = &vc->queue.shapes[vc->queue.live[i]].shape;

        if (shape->kept != 0 && shape->klass != CLASS_OPPORTUNISTIC)
            return true;
    }
    return false;
}

static bool has_work(const struct core *core, const struct vc *vc)
{
    if (!vc->own)
        return turn(core, vc, PHASE_OWED);
    return turn(core, vc, PHASE_OWED) ||
           ((vc->queue.waiting || vc->resizing) && (vc->borrow_max != 0 || waits_as_guest(vc) || waits_kept(vc)) &&
            turn(core, vc, PHASE_BORROW));
}

/* What it has seen of what is kept for waiting jobs. */
static struct kept_then turn_now(const struct core *core)
{
    return (struct kept_then){ core->ledger.kept, core->ledger.unkept };
}

/* Whether something that was kept then has been given back since. A gang that gives all back and keeps the same again
 * has not. */
static bool unkept_since(const struct core *core, const struct kept_then *then)
{
    return core->ledger.unkept != then->unkept && core->ledger.kept != then->kept;
}

static void plan_vc(struct core *core, uint32_t index, enum phase phase)
{
    struct vc *vc = &core->vcs[index];
    struct plan plan = { .core = core, .phase = phase, .vc = index, .tunes = vc->policy.planner->tunes };

    if ((phase == PHASE_BORROW && vc->borrow_max == 0) || (phase == PHASE_GUEST && !waits_as_guest(vc)))
        return;
    if (!turn(core, vc, phase))
        return;
    own_look(core, vc, phase == PHASE_OWED);
    vc->unmapped &= phase != PHASE_OWED;
    if (plan_own(&plan) && sum(core, vc->lent) > 0)
        promote_lent(&plan);
    core->deferring = plan_own(&plan);
    priority_preempt(&plan);
    vc->policy.planner->plan(&vc->planner, &plan);
    core->deferring = false;
    vc->turns[phase] = turn_now(core);
    if (plan_own(&plan))
        hold_flush(core, 0);
    own_look(core, vc, true);
    /* Somebody's turn was spent on a job that its user may not have: the others are looked at soon. */
    if (core->user_limits && users_settle(core, false))
        vc->shorted = true;
    licenses_settle(core, false);
    own_settle(core);
}

/* Nodes that are kept for some jobs are in no guarantee that is cells: those jobs get them whatever their virtual
 * cluster is owed, or may borrow. */
static void plan_apart(struct core *core, uint32_t index)
{
    struct vc *vc = &core->vcs[index];
    struct plan plan = { .core = core, .phase = PHASE_BORROW, .vc = index, .apart = true };

    if (!core->cells || !waits_kept(vc) || !turn(core, vc, PHASE_BORROW))
        return;
    own_look(core, vc, false);
    vc->policy.planner->plan(&vc->planner, &plan);
    own_look(core, vc, true);
}

static void review_vc(struct core *core, uint32_t index)
{
    struct vc *vc = &core->vcs[index];
    struct plan plan = { .core = core, .phase = PHASE_BORROW, .vc = index, .tunes = true };

    if (!vc->policy.tune_count || !(vc->dirty || vc->stirred))
        return;
    own_look(core, vc, false);
    for (uint32_t i = 0; i < vc->policy.tune_count; i++)
        if (vc->policy.tune[i]->review)
            vc->policy.tune[i]->review(&vc->tune[i], &plan);
    own_look(core, vc, true);
    if (!core->cells || !vc->in_turn)
        return;
    plan.phase = PHASE_OWED;
    for (uint32_t i = 0; i < vc->policy.tune_count; i++)
        if (vc->policy.tune[i]->review)
            vc->policy.tune[i]->review(&vc->tune[i], &plan);
}

/* Inside the guarantee, before anything idle is lent. */
static void tune_own(struct core *core, uint32_t index)
{
    struct vc *vc = &core->vcs[index];
    struct plan plan = { .core = core, .phase = PHASE_OWED, .vc = index, .tunes = true };

    if (!core->cells || !vc->in_turn || !(vc->dirty || vc->stirred || vc->was_unmapped))
        return;
    for (uint32_t i = 0; i < vc->policy.tune_count; i++)
        vc->policy.tune[i]->tune(&vc->tune[i], &plan);
}

static void tune_vc(struct core *core, uint32_t index)
{
    struct vc *vc = &core->vcs[index];
    struct plan plan = { .core = core, .phase = PHASE_BORROW, .vc = index, .tunes = true };

    if (!vc->policy.tune_count || !(vc->dirty || vc->stirred))
        return;
    own_look(core, vc, false);
    for (uint32_t i = 0; i < vc->policy.tune_count; i++)
        vc->policy.tune[i]->tune(&vc->tune[i], &plan);
    own_look(core, vc, true);
}

/* Guests have less beside an owner than alone. */
static void limit_vc(struct core *core, uint32_t index)
{
    struct vc *vc = &core->vcs[index];
    struct plan plan = { .core = core, .phase = PHASE_GUEST, .vc = index };
    int64_t guests = sum(core, vc->guest);

    if (!vc->policy.planner->limit || guests == 0)
        return;
    own_look(core, vc, false);
    vc->policy.planner->limit(&vc->planner, &plan);
    own_look(core, vc, true);
}

/* Jobs that came back to the queue after the planners had looked, and would find room: they are looked at soon. */
static void look_again(struct core *core, const uint32_t *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct job *job = &core->jobs[list[i]];
        struct vc *vc = &core->vcs[job->vc];

        if (!job_waits(job->state) || job->shape == UINT32_MAX)
            continue;
        if (priority_waits(core, vc, job))
            pass_again(core, vc);
        if (vc->queue.shapes[job->shape].reason != REASON_PRIORITY)
            continue;
        queue_reason(&vc->queue.shapes[job->shape], REASON_SCHEDULING, vc->queue.shapes[job->shape].over_quota,
                     core->now);
        if (job->klass == CLASS_OPPORTUNISTIC)
            stir_again(core, vc);
        else
            pass_again(core, vc);
    }
}

/* Whose jobs the pass has changed, and not only tried to. */
static bool anything_done(struct core *core, const uint32_t *withdrawn, uint32_t count)
{
    bool any = count > 0;

    for (uint32_t v = 0; v < core->vc_count; v++)
        core->vcs[v].did = false;
    for (uint32_t i = 0; i < count; i++)
        core->vcs[core->jobs[withdrawn[i]].vc].did = true;
    for (uint32_t i = 0; i < core->touched_count; i++)
        if (core->jobs[core->touched[i]].planned)
            any = core->vcs[core->jobs[core->touched[i]].vc].did = true;
    return any;
}

/* What somebody gave up in this pass may be just what others wait for who had had their turn. Inside a guarantee it is
 * nobody's but its own. */
static void look_after(struct core *core, uint64_t releases)
{
    for (uint32_t v = 0; v < core->vc_count; v++) {
        struct vc *vc = &core->vcs[v];
        bool beyond = core->ledger.releases != releases && (!vc->own || vc->borrow_max != 0 || waits_as_guest(vc));
        bool inside = vc->own && vc->did && vc->own->releases != vc->start_own;

        for (uint32_t i = 0; (beyond || inside) && i < vc->queue.live_count; i++) {
            struct shape_class *cls = &vc->queue.shapes[vc->queue.live[i]];

            if (cls->reason != REASON_PRIORITY)
                continue;
            queue_reason(cls, REASON_SCHEDULING, cls->over_quota, core->now);
            if (inside && cls->shape.klass != CLASS_OPPORTUNISTIC)
                pass_again(core, vc);
            else
                stir_again(core, vc);
        }
    }
}

/* Whether what was given back after their turn may be what jobs of this shape wait for: they would fit, or they are
 * owed it and could get the rest back. */
static bool gone_by(const struct core *core, const struct vc *vc, const struct shape_class *cls)
{
    const struct kept_then *owed = &vc->turns[PHASE_OWED], *borrow = &vc->turns[PHASE_BORROW];

    if (cls->shape.klass == CLASS_OPPORTUNISTIC)
        return cls->reason == REASON_PRIORITY && unkept_since(core, &vc->turns[PHASE_GUEST]);
    if (cls->reason == REASON_PRIORITY)
        return unkept_since(core, borrow->unkept > owed->unkept ? borrow : owed);
    return !cls->over_quota && unkept_since(core, owed);
}

/* The same of what was kept for jobs that wait, whether the pass has done anything else or not. In cells a virtual
 * cluster keeps what is its own. */
static void look_unkept(struct core *core)
{
    for (uint32_t v = 0; v < core->vc_count && !core->cells; v++) {
        struct vc *vc = &core->vcs[v];

        if (vc->barred)
            pass_again(core, vc);
        vc->barred = false;
        for (uint32_t i = 0; i < vc->queue.live_count; i++) {
            struct shape_class *cls = &vc->queue.shapes[vc->queue.live[i]];

            if (!gone_by(core, vc, cls))
                continue;
            if (cls->reason == REASON_PRIORITY)
                queue_reason(cls, REASON_SCHEDULING, cls->over_quota, core->now);
            pass_again(core, vc);
        }
    }
}

/* Whoever was set aside in this pass, because another has what it lacks now, holds up nobody any more: those behind it
 * are looked at soon. */
static void look_behind(struct core *core, struct vc *vc)
{
    if (!vc->shorted)
        return;
    vc->shorted = false;
    for (uint32_t i = 0; i < vc->queue.live_count; i++) {
        struct shape_class *cls = &vc->queue.shapes[vc->queue.live[i]];

        if (cls->reason == REASON_PRIORITY)
            queue_reason(cls, REASON_SCHEDULING, cls->over_quota, core->now);
    }
    pass_again(core, vc);
}

/* What tuners, and claims that were given up after all, left of licences, of their users' shares and of CPUs is there
 * before reasons are told: those who were told that they lack it are looked at soon. */
static void settle_late(struct core *core)
{
    licenses_settle(core, false);
    (void)users_settle(core, false);
    if (core->tasks_dirty)
        heap_set(&core->timers, core->job_capacity * TIMERS_A_JOB + core->vc_count, core->now + 1);
}

/* Whether it would have a pass, had this instant not had its own. */
static bool late_work(const struct core *core, const struct vc *vc)
{
    return vc->dirty || (waits_in(vc, PHASE_OWED) && released(core, vc, PHASE_OWED)) ||
           (waits_in(vc, PHASE_BORROW) && released(core, vc, PHASE_BORROW));
}

/* A step after the pass of its instant: a job that was stopped has left, an attempt failed as soon as it began. Who
 * began to wait is told why; what a pass should see is left to the next one, which is asked for. */
void pass_late(struct core *core)
{
    for (uint32_t i = 0; i < core->fresh_count; i++) {
        const struct job *job = &core->jobs[core->fresh[i]];
        struct vc *vc = &core->vcs[job->vc];

        if (job_waits(job->state) && job->shape != UINT32_MAX)
            reasons_shape(core, vc, &vc->queue.shapes[job->shape]);
    }
    look_again(core, core->fresh, core->fresh_count);
    commit_waits(core);
    if (core->tasks_dirty)
        heap_set(&core->timers, core->job_capacity * TIMERS_A_JOB + core->vc_count, core->now + 1);
    for (uint32_t v = 0; core->late && v < core->vc_count; v++)
        if (core->vcs[v].own ? core->vcs[v].late && late_work(core, &core->vcs[v]) : has_work(core, &core->vcs[v]))
            pass_again(core, &core->vcs[v]);
    for (uint32_t v = 0; v < core->vc_count && core->cells; v++)
        if (core->vcs[v].stirred)
            stir_again(core, &core->vcs[v]);
}

static bool any_work(const struct core *core)
{
    if (core->tasks_dirty)
        return true;
    for (uint32_t v = 0; v < core->vc_count; v++)
        if (has_work(core, &core->vcs[v]))
            return true;
    return false;
}

/* The pass is put off. */
static void pass_wait(struct core *core, usec_t until)
{
    heap_set(&core->timers, core->job_capacity * TIMERS_A_JOB + core->vc_count, until);
    for (uint32_t v = 0; v < core->vc_count; v++)
        if (has_work(core, &core->vcs[v]))
            core->vcs[v].again = until;
    commit_waits(core);
}

/* A pass may ask for another one a microsecond later. Where that one does so too, and so on, policies do not agree, or
 * one of them is wrong: after CHAIN_MAX of them in a row there is one a second, until something happens. */
static bool pass_chained(struct core *core)
{
    usec_t since = core->now - core->pass_at;

    if (core->late || since > CHAIN_PAUSE || (since > 1 && core->chain < CHAIN_MAX))
        core->chain = 0;
    else if (core->chain < CHAIN_MAX)
        core->chain++;
    return core->chain == CHAIN_MAX && since < CHAIN_PAUSE;
}

static void pass_begin(const struct core *core, struct vc *vc)
{
    vc->start_own = vc->own->releases;
    vc->in_turn = own_turn(core, vc);
    vc->was_unmapped = vc->unmapped;
}

/* Whether somebody plans again at once inside its guarantee: what it leaves idle just now is not lent before. */
static bool somebody_soon(const struct core *core)
{
    for (uint32_t v = 0; v < core->vc_count && core->cells; v++)
        if (heap_at(&core->timers, core->job_capacity * TIMERS_A_JOB + v) <= core->now + 1)
            return true;
    return false;
}

/* Whoever was planned has seen all that there is. */
static void mark_seen(struct core *core)
{
    for (uint32_t v = 0; v < core->vc_count; v++) {
        struct vc *vc = &core->vcs[v];

        vc->seen_releases = core->ledger.releases;
        vc->stirred = false;
        if (!vc->own || own_turn(core, vc)) {
            vc->dirty = false;
            vc->had_turn = vc->own != NULL;
        }
    }
}

void pass_run(struct core *core)
{
    uint64_t releases = core->ledger.releases;
    uint32_t withdrawn;
    bool later;

    if (!any_work(core))
        return;
    if (core->round && core->now % core->round) {
        pass_wait(core, core->now - core->now % core->round + core->round);
        return;
    }
    if (pass_chained(core)) {
        pass_wait(core, core->pass_at + CHAIN_PAUSE);
        return;
    }
    core->pass_at = core->now;
    core->planned_at = core->now;
    core->passes++;
    core->pass++;
    for (uint32_t v = 0; v < core->vc_count && core->cells; v++)
        pass_begin(core, &core->vcs[v]);
    for (uint32_t v = 0; v < core->vc_count; v++)
        for (int phase = PHASE_OWED; phase < PHASE_COUNT; phase++)
            core->vcs[v].turns[phase] = turn_now(core);
    if (core->vc_count > 1)
        order_vcs(core);
    for (uint32_t i = 0; i < core->vc_count; i++)
        review_vc(core, core->vc_order[i]);
    for (uint32_t i = 0; i < core->vc_count; i++)
        plan_vc(core, core->vc_order[i], PHASE_OWED);
    for (uint32_t i = 0; i < core->vc_count; i++)
        tune_own(core, core->vc_order[i]);
    resize_pass(core, true);
    later = somebody_soon(core);
    for (uint32_t i = 0; i < core->vc_count && core->ledger.topo.kept_count; i++)
        plan_apart(core, core->vc_order[i]);
    for (int phase = PHASE_BORROW; core->borrowing && !later && phase < PHASE_COUNT; phase++)
        for (uint32_t i = 0; i < core->vc_count; i++)
            plan_vc(core, core->vc_order[i], (enum phase)phase);
    for (uint32_t i = 0; i < core->vc_count; i++)
        tune_vc(core, core->vc_order[i]);
    resize_pass(core, false);
    for (uint32_t i = 0; i < core->vc_count; i++)
        limit_vc(core, i);
    tasks_pass(core);
    withdrawn = commit_withdrawn(core);
    settle_late(core);
    reasons_all(core);
    mark_seen(core);
    for (uint32_t v = 0; v < core->vc_count && later; v++)
        stir_again(core, &core->vcs[v]);
    for (uint32_t v = 0; v < core->vc_count; v++)
        look_behind(core, &core->vcs[v]);
    if (anything_done(core, core->victims, withdrawn))
        look_after(core, releases);
    look_unkept(core);
    for (uint32_t v = 0; v < core->vc_count && core->cells; v++)
        if (core->vcs[v].had_turn) {
            core->vcs[v].had_turn = false;
            core->vcs[v].seen_own = core->vcs[v].own->releases;
            core->vcs[v].planned_at = core->now;
        }
    commit_planned(core);
    look_again(core, core->victims, withdrawn);
    commit_waits(core);
}
