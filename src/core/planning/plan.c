/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - see plan.h: starts and stops, and what is common to all proposals. Turns are in plan_turns.c, moves in
 * plan_move.c, reservations in plan_reserve.c, reclaiming in reclaim.c. */
#include "core/contract/plan.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "core/core_internal.h"
#include "core/planning/gang_parts.h"
#include "core/planning/preempt.h"
#include "core/planning/proposal.h"
#include "core/planning/vc_wakeup.h"
#include "model/splice.h"

/* A proposal that no correct policy makes: into the record, so that a test or a person sees it. One that makes
 * thousands in a step does not crowd out the decisions. */
int plan_bad(struct plan *plan, uint32_t job, int code)
{
    if (plan->core->outbox.decision_count < plan->core->outbox.decision_capacity / 4)
        core_decide(plan->core, DECISION_BAD, job, REASON_NONE);
    return code;
}

/* A policy rules over the jobs of its own virtual cluster and nobody else's; those without GPUs are the core's. */
bool plan_owns(const struct plan *plan, uint32_t job)
{
    return plan->core->jobs[job].vc == plan->vc && !job_gpuless(&plan->core->jobs[job]);
}

/* The type of the first GPU named, which ledger_check compares all others with. */
uint8_t plan_sku(const struct ledger *ledger, const struct placement *to)
{
    return ledger->topo.nodes[ledger->gpus[to->gpus[0]].node].sku;
}

bool plan_sku_allowed(const struct core *core, const struct job *job, uint8_t sku)
{
    return queue_types(core, &job->spec) >> sku & 1;
}

/* One that was stopped, kept, and is moved now: whoever gave it its GPUs meanwhile is told before it is. Mostly it is
 * one of the last. */
static void untouch(struct core *core, uint32_t index)
{
    uint32_t at = core->touched_count;

    while (core->touched[at - 1] != index)
        at--;
    core->touched_count--;
    for (uint32_t i = at - 1; i < core->touched_count; i++)
        core->touched[i] = core->touched[i + 1];
}

void core_touch(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];

    job->planned = true;
    if (job->listed && job->state == JOB_STARTING)
        untouch(core, index);
    else if (job->listed)
        return;
    job->listed = true;
    assert(core->touched_count < core->job_capacity);
    core->touched[core->touched_count++] = index;
}

bool plan_borrows(const struct plan *plan)
{
    return plan->phase != PHASE_OWED;
}

bool plan_for_guests(const struct plan *plan)
{
    return plan->phase == PHASE_GUEST;
}

/* Where guarantees are cells, nodes that are kept for some jobs are handed out by themselves. */
static bool plan_apart_not(const struct plan *plan, const struct jobspec *spec)
{
    return plan->core->cells && plan->phase == PHASE_BORROW && (spec->kept != 0) != plan->apart;
}

bool plan_considers(const struct plan *plan, const struct shape_class *cls)
{
    if (plan->core->cells && plan->phase == PHASE_BORROW && (cls->shape.kept != 0) != plan->apart)
        return false;
    if (plan_keeps(plan, cls->shape.keeps))
        return false;
    return (plan->phase == PHASE_GUEST) == (cls->shape.klass == CLASS_OPPORTUNISTIC);
}

int64_t plan_budget(const struct plan *plan, uint32_t sku, uint8_t klass)
{
    if (plan->apart)
        return (int64_t)plan->core->ledger.topo.sku_gpus[sku] * MGPU_ONE;
    return vc_budget(plan->core, &plan->core->vcs[plan->vc], sku, plan->phase, klass);
}

struct shape_class *plan_shape(struct plan *plan, uint32_t job)
{
    const struct job *j = &plan->core->jobs[job];

    if (j->shape == UINT32_MAX || !plan_owns(plan, job)) {
        (void)plan_bad(plan, job, -EINVAL);
        return NULL;
    }
    return &plan->core->vcs[j->vc].queue.shapes[j->shape];
}

/* Gangs that say how they want to lie are placed by the core; a wish that cannot be granted leaves the rest to the
 * policy.
 */
static int place_find(struct vc *vc, const struct place_request *request)
{
    int r = -EBUSY;

    if (request->within || request->unit)
        r = within_find(&vc->place, request);
    if (r == 0 || request->unit || (request->within && request->must))
        return r;
    return request->per_node ? exact_find(&vc->place, request) : vc->policy.place->find(&vc->place, request);
}

/* A look that is made again, where nodes that could be bound one by one cannot be together, so often. */
enum { FIND_TRIES = 32 };

/* What the shape asks of a placement. */
static struct place_request request_of(const struct plan *plan, const struct shape *shape, uint32_t sku)
{
    return (struct place_request){ .gpus = shape->gpus,
                                   .share = shape->share,
                                   .memory_mib = shape->memory_mib,
                                   .sku = (uint16_t)sku,
                                   .servers = shape->servers,
                                   .bandwidth = shape->bandwidth,
                                   .per_node = shape->per_node,
                                   .per_unit = shape->per_unit,
                                   .unit = shape->unit,
                                   .within = plan->any_place ? 0 : shape->within,
                                   .must = shape->must,
                                   .level = shape->level };
}

/* A place the shape may have, in vc->place.out. Of its own nodes that only fail to be bound beside others, one is left
 * out after the other. -EBUSY; *ret_mapped: there was a place, and it was the mapping that failed. */
int plan_place(struct plan *plan, const struct shape *shape, uint32_t sku, bool *ret_mapped)
{
    struct core *core = plan->core;
    struct vc *vc = &core->vcs[plan->vc];
    struct place_request request = request_of(plan, shape, sku);
    bool own = plan_own(plan);
    struct host_wish wish = { { shape->mcpus, shape->host_mib }, own ? 0 : shape->mark, shape->kept, NULL };
    struct placement found = { vc->place.out, (uint32_t)shape->gpus };
    int r;

    if (plan->any_host)
        wish.each = (struct host_room){ 0 };
    wish.shut = own ? own_shut(core, vc, shape->mark, sku) : NULL;
    for (int tries = 0; tries < FIND_TRIES; tries++) {
        uint32_t hidden = plan->any_host && own ? 0 : host_hide(plan_ledger(plan), &wish, sku, core->hidden);

        vc->place.server_count = 0;
        r = place_find(vc, &request);
        host_show(plan_ledger(plan), core->hidden, hidden);
        if (r < 0 || !own)
            return r;
        *ret_mapped = true;
        r = own_map(core, plan->vc, &found, shape->mark);
        if (r == 0 || !wish.shut || plan->any_host || !own_shut_one(core, vc, &found, shape->mark))
            return r;
    }
    return -EBUSY;
}

int plan_find_on(struct plan *plan, struct shape_class *cls, uint32_t sku, struct placement *ret)
{
    struct core *core = plan->core;
    struct vc *vc = &core->vcs[plan->vc];
    bool own = plan_own(plan), looked = vc->view.own != NULL, wonders = plan->any_host || plan->any_place;
    bool mapped = false, beside = false;
    uint64_t *refused = own ? &cls->no_fit_own[sku] : &cls->no_fit[sku], releases = plan_ledger(plan)->releases;
    int r;

    /* What did not fit still does not, unless something was released since. */
    if (*refused == releases + 1 && !wonders)
        return -EBUSY;
    own_look(core, vc, own);
    r = plan_place(plan, &cls->shape, sku, &mapped);
    if (r == 0 && cls->shape.side_count) {
        r = sides_find(plan, &cls->shape, sku, (uint8_t[SIDES_MAX]){ 0 }, &mapped);
        beside = r < 0;
    }
    own_look(core, vc, looked);
    if (r == 0) {
        *ret = (struct placement){ vc->place.out, (uint32_t)cls->shape.gpus };
        return 0;
    }
    /* Of chosen nodes others may have some, hardware may be in the way: their leaving may help. */
    vc->unmapped |= own && (mapped || cls->shape.mark);
    /* What sides may have depends on the phase too. */
    if (!mapped && !wonders && !beside && !(own && cls->shape.mark))
        *refused = releases + 1;
    return -EBUSY;
}

int plan_find(struct plan *plan, struct shape_class *cls, struct placement *ret)
{
    struct core *core = plan->core;
    int64_t demand = cls ? (int64_t)cls->shape.gpus * cls->shape.share : 0;
    int r = -EDQUOT;

    if (!cls)
        return -EINVAL; /* plan_shape has recorded it */

    for (uint32_t sku = 0; sku < core->ledger.topo.sku_count; sku++) {
        int code;

        if (!(cls->shape.sku_mask >> sku & 1) || plan_budget(plan, sku, cls->shape.klass) < demand ||
            (cls->shape.side_count && !sides_allowed(plan, &cls->shape, sku)))
            continue;
        if (cls->shape.share == MGPU_ONE && plan_free(plan, sku) < (uint32_t)cls->shape.gpus)
            code = -ENOMEM;
        else
            code = plan_find_on(plan, cls, sku, ret);
        if (code == 0)
            return 0;
        if (r != -EBUSY)
            r = code;
    }
    return r;
}

/* Whether a GPU is part of somebody's guarantee. */
bool placement_bound(const struct core *core, const struct placement *to)
{
    for (uint32_t i = 0; i < to->count; i++)
        if (core->ledger.gpus[to->gpus[i]].bound)
            return true;
    return false;
}

void plan_serve(struct plan *plan, const uint32_t *servers, uint32_t count)
{
    plan->servers = servers;
    plan->server_count = count;
}

/* Who serves on GPUs that were just given: as the planner said, or as the placement did that found them. */
void plan_served(struct plan *plan, const struct job *job, const struct placement *to)
{
    const struct place_ctx *place = &plan->core->vcs[plan->vc].place;

    /* Cells put it where they like; then who serves is told by the order of its GPUs. */
    if (plan_own(plan))
        plan->server_count = 0;
    else if (plan->server_count)
        ledger_serve(&plan->core->ledger, job, plan->servers, plan->server_count);
    else if (to->gpus == place->out)
        ledger_serve(&plan->core->ledger, job, place->servers, place->server_count);
    plan->server_count = 0;
}

/* Within its elastic range; as it is; or, of a planner that does so, fewer GPUs for the same world. */
bool plan_size_allowed(const struct plan *plan, const struct job *job, uint32_t count)
{
    return ((int32_t)count >= job->spec.gpus_min && (int32_t)count <= job->spec.gpus_max) ||
           (count > 0 && (int32_t)count == job->gpus) ||
           (plan->core->vcs[plan->vc].policy.planner->splices && splice_legal(&job->spec, (int32_t)count));
}

/* Whether the placement is as the job wants it. A policy that places for itself may not know; that is no defect of it.
 */
int placement_apart(const struct ledger *ledger, const struct placement *to, const struct jobspec *spec)
{
    if (exact_check(ledger, to, spec->per_node) < 0 || within_check(ledger, to, spec) < 0)
        return -EBUSY;
    if (host_allows(ledger, to, spec) < 0)
        return -EBUSY;
    return host_fits(ledger, to, spec);
}

static int start(struct plan *plan, uint32_t index, const struct placement *to, enum share_role role)
{
    struct core *core = plan->core;
    const struct ledger *ledger = plan_ledger(plan);
    struct job *job = &core->jobs[index];
    uint8_t skus[SIDES_MAX] = { 0 };
    struct placement all = *to;
    int r;

    if (!job_waits(job->state) || !plan_owns(plan, index) || job->planned || !plan_size_allowed(plan, job, to->count))
        return plan_bad(plan, index, -EINVAL);
    if (job->spec.side_count && role != ROLE_OWNER)
        return -EBUSY; /* of a gang on several types nobody is a guest */
    if (job->state == JOB_RESERVED)
        plan_unreserve(plan, index);
    r = ledger_check(ledger, to, &job->spec, role);
    if (r == 0 && !plan_sku_allowed(core, job, plan_sku(ledger, to)))
        r = -EINVAL;
    if (r == 0 && role == ROLE_OWNER && !plan_own(plan) && placement_bound(core, to))
        r = -EBUSY;
    if (r < 0)
        return plan_bad(plan, index, r);
    if (plan_apart_not(plan, &job->spec) || plan_keeps(plan, jobspec_keeps(&job->spec)))
        return -EDQUOT; /* a planner that did not ask plan_considers */
    if (placement_apart(ledger, to, &job->spec) < 0)
        return -EBUSY;
    if (plan_budget(plan, plan_sku(ledger, to), job->klass) < (int64_t)to->count * job->spec.share)
        return -EDQUOT;
    if (!users_allow(core, index, to->count) || !licenses_allow(core, job))
        return -EDQUOT;
    if (job->spec.side_count) {
        r = sides_join(plan, index, to, skus, &all);
        if (r < 0)
            return r;
    }
    if (plan_own(plan) && own_prepare(plan, &all, index) < 0)
        return -EBUSY;
    job->sku = plan_sku(ledger, to);
    memcpy(job->side_sku, skus, sizeof(skus));
    core_dequeue(core, index);
    core_move(core, index, JOB_CLAIMING);
    job->borrowed = job->klass != CLASS_OPPORTUNISTIC && plan->phase == PHASE_BORROW;
    job->gpus = (int32_t)to->count;
    job->last_start = core->now;
    job->blocked = plan_own(plan) ? hold_take_own(core, index, &all) : hold_take(core, index, &all, role);
    plan_served(plan, job, to);
    core_attach(core, index);
    core_touch(core, index);
    return 0;
}

int plan_start(struct plan *plan, uint32_t job, const struct placement *to)
{
    return start(plan, job, to, ROLE_OWNER);
}

int plan_start_guest(struct plan *plan, uint32_t job, const struct placement *to)
{
    if (plan->core->jobs[job].klass != CLASS_OPPORTUNISTIC)
        return plan_bad(plan, job, -EINVAL);
    return start(plan, job, to, ROLE_GUEST);
}

/* What keeps a job of the planner's own from being stopped for another's sake; 0. */
static int stays(const struct plan *plan, uint32_t index)
{
    const struct job *job = &plan->core->jobs[index];

    if (!core_may_preempt(plan->core, job, PREEMPT_FOR_STOP))
        return -EBUSY;
    if (job->sheds)
        return -EBUSY; /* on its way elsewhere, which a tuner of the same virtual cluster has ordered */
    if (plan_apart_not(plan, &job->spec))
        return -EBUSY; /* on nodes that are of no use to whoever is to have them */
    return 0;
}

bool plan_may_stop(const struct plan *plan, uint32_t index)
{
    const struct job *job = &plan->core->jobs[index];

    return plan_owns(plan, index) && job_holds(job->state) && !job->planned && rules_disturb(plan, index) == 0 &&
           stays(plan, index) == 0;
}

int plan_stop(struct plan *plan, uint32_t index, enum stop_step step)
{
    int r = plan_owns(plan, index) ? rules_disturb(plan, index) : plan_bad(plan, index, -EPERM);

    if (r == 0)
        r = stays(plan, index);
    return r < 0 ? r : plan_stop_any(plan, index, step);
}

/* A job that would rather be suspended is told so, whatever step the planner had in mind. Where nothing suspends it, it
 * waits again. */
static enum stop_step stop_best(const struct job *job, enum stop_step step)
{
    return job->spec.preempt == PREEMPT_SUSPEND && step < STOP_CANCEL ? STOP_SUSPEND : step;
}

int plan_stop_any(struct plan *plan, uint32_t index, enum stop_step step)
{
    struct core *core = plan->core;
    struct job *job = &core->jobs[index];

    /* A job that got its GPUs in this very pass has not begun to leave anything. */
    if (!job_holds(job->state) || job->planned || job->sheds || (unsigned)step >= STOP_STEP_COUNT)
        return plan_bad(plan, index, -EINVAL);
    if (!core_may_preempt(core, job, PREEMPT_FOR_STOP))
        return -EBUSY;
    job_settle(job, core->now);
    core_detach(core, index);
    job->stop = (uint8_t)stop_best(job, step);
    job->parks = false;
    job->before = job->state;
    core_move(core, index, JOB_STOPPING);
    hold_leave(core, index);
    core_touch(core, index);
    return 0;
}

int plan_keep(struct plan *plan, uint32_t index)
{
    return plan_owns(plan, index) ? plan_keep_any(plan, index) : plan_bad(plan, index, -EPERM);
}

int plan_keep_any(struct plan *plan, uint32_t index)
{
    struct core *core = plan->core;
    struct job *job = &core->jobs[index];
    int r;

    if (job->state != JOB_STOPPING || !job->planned)
        return plan_bad(plan, index, -EINVAL);
    pair_take_back(core, index);
    if (!users_allow(core, index, (uint32_t)job->gpus))
        return -EBUSY; /* another of its user's was started meanwhile */
    r = hold_stay(core, index);
    if (r < 0)
        return r;
    core_move(core, index, job->before);
    core_attach(core, index);
    job->planned = job->unpacks = false;
    return 0;
}

void plan_classify(struct plan *plan, uint32_t index, enum job_class klass)
{
    struct job *job = &plan->core->jobs[index];

    /* Only before it is queued: its class is part of its shape and of what its virtual cluster is charged. */
    if (!plan_owns(plan, index) || job->state != JOB_OFFERED || (unsigned)klass >= CLASS_COUNT) {
        (void)plan_bad(plan, index, -EINVAL);
        return;
    }
    if (klass == CLASS_OPPORTUNISTIC && jobspec_keeps(&job->spec))
        return; /* what opportunistic jobs hold others can have at any time */
    job->klass = (uint8_t)klass;
    plan->core->borrowing |= klass == CLASS_OPPORTUNISTIC;
}

void plan_relax(struct plan *plan, uint32_t index, uint8_t level)
{
    struct core *core = plan->core;
    struct job *job = &core->jobs[index];

    if (!plan_owns(plan, index) || !job_waits(job->state) ||
        (level && level >= core->vcs[plan->vc].policy.place->levels)) {
        (void)plan_bad(plan, index, -EINVAL);
        return;
    }
    if (job->level == level)
        return;
    if (job->shape != UINT32_MAX) {
        queue_remove(core, index);
        job->level = level;
        queue_add(core, index);
    } else {
        job->level = level;
    }
    core_decide(core, DECISION_RELAX, index, REASON_NONE)->needs = level;
    core_stir(core, job);
}

void plan_set_aside(struct plan *plan, uint32_t index, enum reason reason)
{
    struct core *core = plan->core;
    struct job *job = &core->jobs[index];

    if (!plan_owns(plan, index) || !job_waits(job->state) || job->shape == UINT32_MAX || reason == REASON_NONE ||
        queue_lane(reason) >= 0) { /* a reason that a shape has, not a job */
        (void)plan_bad(plan, index, -EINVAL);
        return;
    }
    queue_remove(core, index);
    plan_unreserve(plan, index);
    job->reason = (uint8_t)reason;
    job->state_since = core->now;
}

int plan_put_back(struct plan *plan, uint32_t index)
{
    struct core *core = plan->core;
    struct job *job = &core->jobs[index];

    if (!plan_owns(plan, index) || !job_waits(job->state) || job->shape != UINT32_MAX)
        return plan_bad(plan, index, -EINVAL);
    /* Put back and set aside by turns it would ask for a pass after every pass. */
    if (job->reason == REASON_USER_LIMIT && !users_allow(core, index, (uint32_t)job->spec.gpus))
        return -EPERM;
    if (job->reason == REASON_LICENSE_LIMIT && !licenses_allow(core, job))
        return -EPERM;
    job->waited[job->reason] += core->now - job->state_since;
    job->reason = REASON_NONE;
    queue_add(core, index);
    users_look(core, index);
    licenses_look(core, index);
    core_stir(core, job);
    return 0;
}

void plan_rekey(struct plan *plan, uint32_t job)
{
    if (plan_owns(plan, job))
        queue_rekey(plan->core, job);
    else
        (void)plan_bad(plan, job, -EPERM);
}

void plan_job_timer(struct plan *plan, uint32_t job, usec_t at)
{
    if (!plan_owns(plan, job) || plan->core->jobs[job].state == JOB_FREE ||
        !plan->core->vcs[plan->vc].policy.planner->timer) {
        (void)plan_bad(plan, job, -EINVAL);
        return;
    }
    heap_set(&plan->core->timers, timer_of(job, TIMER_PLANNER), at > plan->core->now ? at : plan->core->now + 1);
}

void plan_wake(struct plan *plan, usec_t at)
{
    struct core *core = plan->core;
    uint32_t element = timer_vc(core, plan->vc, core->cells && plan->phase != PHASE_OWED);

    if (at == USEC_NEVER || (at > core->now && at < heap_at(&core->timers, element)))
        heap_set(&core->timers, element, at);
}

int plan_solve(struct plan *plan, enum solve_kind kind, const int64_t *words, uint32_t count)
{
    struct core *core = plan->core;
    struct vc *vc = &core->vcs[plan->vc];
    struct outbox *out = &core->outbox;

    assert(vc->policy.planner->solved);
    assert((unsigned)kind < SOLVE_COUNT);
    assert(count <= vc->policy.planner->solve_words);
    if (vc->solving)
        return -EBUSY;
    assert(out->word_count + count <= out->word_capacity); /* one a virtual cluster and step */
    assert(out->effect_count < out->effect_capacity);
    vc->solving = true;
    vc->ticket++;
    vc->solve_kind = kind;
    out->effects[out->effect_count++] = (struct effect){ .kind = EFFECT_SOLVE,
                                                         .vc = plan->vc,
                                                         .ticket = vc->ticket,
                                                         .solve = kind,
                                                         .word_first = (uint32_t)out->word_count,
                                                         .word_count = count };
    for (uint32_t i = 0; i < count; i++)
        out->words[out->word_count++] = words[i];
    return 0;
}

int64_t *plan_words(const struct planner_ctx *ctx, struct plan *plan, uint32_t job)
{
    return &plan->core->words[(size_t)job * plan->core->word_stride + ctx->word_first];
}

int64_t *plan_node(const struct planner_ctx *ctx, const struct plan *plan, uint32_t node)
{
    uint32_t first = plan_own(plan) ? plan->core->ledger.topo.node_count : 0;

    return ctx->nodes + (size_t)(first + node) * ctx->node_words;
}

void plan_word(struct plan *plan, uint32_t job, int word, int64_t value)
{
    if (!plan_owns(plan, job) || word < 0 || word >= POLICY_WORDS)
        (void)plan_bad(plan, job, -EINVAL);
    else
        plan->core->jobs[job].word[word] = value;
}
