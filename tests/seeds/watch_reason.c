/* SPDX-License-Identifier: Apache-2.0 */
/* watch_reason.c - is it true what a waiting job is told? Counted anew from GPUs and jobs. */
#include "core/core_internal.h"
#include "core/planning/gang_parts.h"
#include "core/planning/vc_wakeup.h"
#include "seeds.h"

/* What there is of one GPU type. */
struct room {
    uint32_t free, reserved;
    uint32_t down;  /* would be free if all nodes and GPUs were up: what runs on a node that drains has its GPUs */
    mgpu_t largest; /* the most that is left of any one GPU whose memory would do */
};

bool watch_nobody_on(const struct ledger *ledger, uint32_t gpu)
{
    uint32_t s = ledger->gpus[gpu].shares;

    while (s != SHARE_NONE &&
           (ledger->shares[s].leaving || ledger->shares[s].off || ledger->shares[s].role != ROLE_OWNER))
        s = ledger->shares[s].next_of_gpu;
    return s == SHARE_NONE;
}

static struct room room_on(const struct core *core, const struct job *job, uint32_t sku)
{
    struct room room = { 0 };

    for (uint32_t g = 0; g < core->ledger.topo.gpu_count; g++) {
        const struct gpu *gpu = &core->ledger.gpus[g];
        const struct node *node = &core->ledger.topo.nodes[gpu->node];
        mgpu_t given = 0;
        uint64_t memory = job->spec.memory_mib, size = core->ledger.topo.sku_memory[sku];

        if (node->sku != sku)
            continue;
        if (!node->up || gpu->bad) {
            room.down += watch_nobody_on(&core->ledger, g);
            continue;
        }
        for (uint32_t s = gpu->shares; s != SHARE_NONE; s = core->ledger.shares[s].next_of_gpu)
            if (!core->ledger.shares[s].leaving && !core->ledger.shares[s].off &&
                core->ledger.shares[s].role == ROLE_OWNER) {
                given += core->ledger.shares[s].amount;
                memory += core->ledger.shares[s].memory;
            }
        if (gpu->reserved_for != JOB_NONE) {
            room.reserved++;
            continue;
        }
        room.free += given == 0;
        if (MGPU_ONE - given > room.largest && (!size || memory <= size))
            room.largest = MGPU_ONE - given;
    }
    return room;
}

bool watch_owed_only(const struct core *core, const struct job *job)
{
    usec_t lent = core->cells ? 0 : core->vcs[job->vc].min_runtime;

    return (core->cells || core->vc_count > 1) &&
           (job->spec.preempt == PREEMPT_NEVER || job->spec.min_runtime > lent) && !(core->cells && job->spec.kept);
}

/* Whether the virtual cluster may take the job on this type, with all it may borrow. */
static bool allowed(const struct core *core, const struct job *job, uint32_t sku)
{
    const struct vc *vc = &core->vcs[job->vc];
    int64_t after = vc->used[sku] + job_demand(job), over = 0;

    if (watch_owed_only(core, job))
        return after <= vc->quota[sku];
    if (job->klass == CLASS_OPPORTUNISTIC || vc->borrow_max < 0)
        return true;
    for (uint32_t s = 0; s < core->ledger.topo.sku_count; s++) {
        int64_t used = s == sku ? after : vc->used[s];

        over += used > vc->quota[s] ? used - vc->quota[s] : 0;
    }
    /* What it is owed it may have, even while another type is over its quota. */
    return over <= vc->borrow_max || after <= vc->quota[sku];
}

struct truth_of {
    bool any_allowed, enough, nearly_down, nearly_reserved;
};

bool watch_type(const struct core *core, const struct job *job, uint32_t sku)
{
    uint32_t mask = job->spec.sku_mask & core->any_sku, memory = core->ledger.topo.sku_memory[sku];

    return (mask ? mask : core->any_sku) >> sku & 1 && (!memory || memory >= job->spec.memory_mib);
}

/* Whether some type that it may have has as many GPUs as it asks for: those that have not are nothing to it then. */
bool watch_possible(const struct core *core, const struct job *job, uint32_t sku)
{
    bool any = false;

    for (uint32_t s = 0; s < core->ledger.topo.sku_count; s++)
        any |= watch_type(core, job, s) && core->ledger.topo.sku_gpus[s] >= (uint32_t)job->spec.gpus;
    return !any || core->ledger.topo.sku_gpus[sku] >= (uint32_t)job->spec.gpus;
}

static struct truth_of look(const struct core *core, const struct job *job)
{
    uint32_t need = (uint32_t)job->spec.gpus;
    struct truth_of t = { 0 };

    for (uint32_t s = 0; s < core->ledger.topo.sku_count; s++) {
        struct room room;

        if (!watch_type(core, job, s) || !watch_possible(core, job, s) || !allowed(core, job, s))
            continue;
        room = room_on(core, job, s);
        t.any_allowed = true;
        t.enough |= job->spec.share < MGPU_ONE ? room.largest >= job->spec.share : room.free >= need;
        t.nearly_down |= room.free < need && room.free + room.down >= need;
        t.nearly_reserved |= room.free < need && room.free + room.reserved >= need;
    }
    return t;
}

/* Somebody of its virtual cluster stands before it in line. */
static bool somebody_ahead(const struct core *core, uint32_t index)
{
    struct rank own = view_rank(&core->view, index);

    for (uint32_t i = 0; i < core->job_top; i++) {
        const struct job *job = &core->jobs[i];
        struct rank rank;

        if (i == index || job->vc != core->jobs[index].vc || !job_waits(job->state) || job->shape == UINT32_MAX)
            continue;
        rank = view_rank(&core->view, i);
        if (rank_before(&rank, &own))
            return true;
    }
    return false;
}

/* Its user holds so much that the job would be too much. */
static bool over_user_limit(const struct core *core, uint32_t index)
{
    const struct job *job = &core->jobs[index];
    int64_t held = 0;

    for (uint32_t i = 0; i < core->job_top; i++)
        if (job_holds(core->jobs[i].state) && core->jobs[i].vc == job->vc && core->jobs[i].spec.user == job->spec.user)
            held += ((int64_t)core->jobs[i].gpus + jobspec_sides(&core->jobs[i].spec)) * core->jobs[i].spec.share;
    return held + job_demand(job) + (int64_t)jobspec_sides(&job->spec) * MGPU_ONE > core->vcs[job->vc].user_max;
}

/* Somebody will look at it: at once, at the next round, or when a policy that gathers jobs has said. */
const char *watch_unseen(const struct core *core, uint32_t index)
{
    const struct vc *vc = &core->vcs[core->jobs[index].vc];
    const struct shape_class *cls = &vc->queue.shapes[core->jobs[index].shape];
    const struct planner_ops *planner = vc->policy.planner;
    bool asked = vc->solving || heap_at(&core->timers, timer_vc(core, vc->index, false)) != USEC_NEVER ||
                 (core->cells && heap_at(&core->timers, timer_vc(core, vc->index, true)) != USEC_NEVER);

    if (asked && planner->awaits && planner->awaits(&vc->planner, cls) == REASON_SCHEDULING)
        return NULL;
    return core_next_wake(core) <= core->now + (core->round ? core->round : 1) ? NULL : "nobody will look at it";
}

/* Of some kind that it asks for too few are left. */
static bool lacks_license(const struct core *core, const struct job *job)
{
    for (uint32_t n = 0; n < job->spec.license_count; n++) {
        uint64_t held = 0;

        for (uint32_t i = 0; i < core->job_top; i++)
            for (uint32_t k = 0; core->jobs[i].state >= JOB_CLAIMING && core->jobs[i].state <= JOB_STOPPING &&
                                 k < core->jobs[i].spec.license_count;
                 k++)
                held += core->jobs[i].spec.licenses[k].license == job->spec.licenses[n].license
                            ? core->jobs[i].spec.licenses[k].count
                            : 0;
        if (held + job->spec.licenses[n].count > core->licenses.total[job->spec.licenses[n].license])
            return true;
    }
    return false;
}

static const char *untrue(const struct core *core, uint32_t index, const struct job *job, enum reason reason)
{
    const struct truth_of t = look(core, job);

    switch (reason) {
    case REASON_USER_LIMIT:
        return over_user_limit(core, index) ? NULL : "its user may have what it asks for";
    case REASON_LICENSE_LIMIT:
        return lacks_license(core, job) ? NULL : "its licences are there";
    case REASON_HELD:
        return job->state == JOB_HELD ? NULL : "is not held";
    case REASON_BACKOFF:
        return heap_at(&core->timers, timer_of(index, TIMER_PLANNER)) != USEC_NEVER ? NULL : "backs off for ever";
    case REASON_VC_LIMIT:
    case REASON_BORROW_LIMIT:
        return t.any_allowed ? "may take what it asks for" : NULL;
    case REASON_INSUFFICIENT_GPUS:
        return t.enough ? "enough GPUs are free" : t.any_allowed ? NULL : "may take none";
    case REASON_FRAGMENTED:
        return t.enough ? NULL : "too few GPUs are free";
    case REASON_NODES_UNHEALTHY:
        return t.nearly_down ? NULL : "nodes that are down would not help";
    case REASON_RESERVED:
        return t.nearly_reserved ? NULL : "nothing is kept that it needs";
    case REASON_PRIORITY:
        if (!t.enough)
            return "has no room";
        /* One that leases ahead and chooses GPUs itself has a plainer view of who fits where than the core. */
        if (!job_plain(job) && core->vcs[job->vc].policy.planner->solved)
            return NULL;
        /* Or whoever runs below its size and waits for GPUs to be left. */
        if (core->vcs[job->vc].policy.planner->splices)
            return NULL;
        return somebody_ahead(core, index) ? NULL : "nobody is ahead of it";
    case REASON_PREEMPTING:
        return job->state == JOB_CLAIMING && job->blocked ? NULL : "waits for nobody to leave";
    case REASON_ACQUIRING:
        return job->state == JOB_RESERVED && job->reserved_count ? NULL : "keeps nothing";
    case REASON_SCHEDULING:
        return watch_unseen(core, index);
    case REASON_CPU_MEM:
        return t.enough ? NULL : "too few GPUs are free anyhow";
    case REASON_TOPOLOGY:
        return t.enough && job->spec.within_must ? NULL : "it may lie anywhere";
    case REASON_NONE:
    case REASON_PROFILING:
    case REASON_SUSPENDED:
    case REASON_COUNT:
        break;
    }
    return "has no reason to wait";
}

static const char *untrue_of(const struct core *core, uint32_t index, const struct job *job, enum reason reason)
{
    if (queue_lane(reason) >= 0 && job->klass == CLASS_OPPORTUNISTIC && core->vcs[job->vc].policy.planner->limit)
        return watch_untrue_guest(core, index, reason);
    if (queue_lane(reason) >= 0 && core->cells)
        return watch_untrue_cells(core, index, job, reason);
    return untrue(core, index, job, reason);
}

/* Of a gang on several types some part waits for what it is told, and one that has only others before it could be
 * placed in each. All of them may have room and yet be too much together: where something is borrowed, or where one
 * has it inside of the guarantee and another outside. */
static const char *untrue_parts(const struct core *core, uint32_t index, enum reason reason)
{
    const struct job *job = &core->jobs[index];
    const char *wrong = NULL;
    uint32_t right = 0;

    for (uint32_t i = 0; i <= job->spec.side_count; i++) {
        struct job part = *job;
        const char *here;

        if (i > 0)
            part.spec = sides_spec(&job->spec, i - 1);
        part.spec.side_count = 0;
        here = untrue_of(core, index, &part, reason);
        right += here == NULL;
        wrong = here ? here : wrong;
    }
    if (reason == REASON_PRIORITY)
        return wrong;
    if (reason == REASON_BORROW_LIMIT || (reason == REASON_FRAGMENTED && core->cells))
        return NULL;
    return right ? NULL : wrong;
}

void watch_reason(struct watch *watch, const struct core *core, uint32_t index)
{
    const struct job *job = &core->jobs[index];
    enum reason reason;
    const char *wrong;

    if (!job_waits(job->state) && job->state != JOB_HELD && job->state != JOB_CLAIMING)
        return;
    if (job_gpuless(job) && job->state != JOB_HELD) {
        if (core_reason(core, index) == REASON_NONE)
            watch_wrong(watch, core, job->spec.id, "waits for CPUs for no reason");
        if (core_reason(core, index) == REASON_LICENSE_LIMIT && !lacks_license(core, job))
            watch_wrong(watch, core, job->spec.id, "told that it lacks licences, and does not");
        return;
    }
    /* Between two rounds what was said at the last one stands. */
    if ((core->round && core->planned_at != core->now) || watch->life->marks)
        return;
    reason = core_reason(core, index);
    /* What has happened after the pass of an instant is seen by the next, a microsecond on, or in the next round. */
    if (core->planned_at == core->now && core->vcs[job->vc].dirty && core_next_wake(core) <= core->now + 1)
        return;
    if (core->planned_at == core->now && core->round && core->vcs[job->vc].seen_releases != core->ledger.releases &&
        core_next_wake(core) <= core->now + core->round)
        return;
    wrong = job->spec.side_count && queue_lane(reason) >= 0 ? untrue_parts(core, index, reason)
                                                            : untrue_of(core, index, job, reason);
    if (wrong)
        watch_wrong(watch, core, job->spec.id, "told %s, but %s (needs %d x %d/1000)", reason_name(reason), wrong,
                    job->spec.gpus, job->spec.share);
}
