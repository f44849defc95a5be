/* SPDX-License-Identifier: Apache-2.0 */
/* audit.c - every invariant, recounted from nothing but jobs and shares.
 *
 * What the core keeps incrementally (free counts of cells and pools, buckets, trees, sums) is compared with a recount;
 * what must never happen (a GPU given away twice, half a gang, a job in two places) is asserted. Checked builds run
 * this after every step, so it may be slow but not quadratic; so is whatever a snapshot has brought.
 */
#include "core/snapshot/audit.h"

#include "core/core_internal.h"
#include "core/ledger/guest.h"
#include "core/planning/gang_parts.h"
#include "model/splice.h"

/* The shares of one job. Returns how many; *ret_blocked of them are on GPUs that others have not left. */
static uint32_t audit_shares(const struct core *core, uint32_t index, uint32_t *ret_blocked, struct audit *audit)
{
    const struct job *job = &core->jobs[index];
    uint32_t shares = 0, blocked = 0, last = 0, first = 0;

    for (uint32_t s = job->shares; s != SHARE_NONE; s = core->ledger.shares[s].next_of_job) {
        const struct share *share = &core->ledger.shares[s];
        const struct gpu *gpu = &core->ledger.gpus[share->gpu];

        MUST(audit, share->job == index);
        MUST(audit, share->amount == job->spec.share);
        MUST(audit, shares == 0 || share->gpu > last); /* ascending: no GPU twice */
        MUST(audit, job_on(job, core->ledger.topo.nodes[gpu->node].sku));
        first += core->ledger.topo.nodes[gpu->node].sku == job->sku && share->part != PART_OLD &&
                 !(job->sheds && share->leaving);
        MUST(audit, core->ledger.topo.nodes[gpu->node].up ||
                        core->ledger.topo.nodes[gpu->node].closed); /* nothing runs on what is down */
        MUST(audit, !gpu->bad);
        MUST(audit, job->sheds || share->leaving == (job->state == JOB_STOPPING || share->part == PART_OLD));
        MUST(audit, share->part == PART_STAYS || job->runs_on > 0);
        MUST(audit, share->off == (job->state == JOB_SUSPENDED));
        MUST(audit, (share->role == ROLE_PACKED) == job->packed);
        blocked += share->waits;
        MUST(audit, share->waits || share->role == ROLE_GUEST || gpu->leaving == 0 || job->state != JOB_CLAIMING);
        last = share->gpu;
        MUST(audit, share->waits || share->part != PART_NEW || gpu->leaving == 0 || !job_defers(job));
        shares += !(job->sheds && share->leaving) && share->part != PART_OLD;
    }
    MUST(audit, first == (uint32_t)job->gpus); /* the rest of a gang is its sides */
    *ret_blocked = blocked;
    return shares;
}

/* A job without GPUs: all its tasks are somewhere, or none. */
static void audit_tasks(const struct core *core, uint32_t index, struct audit *audit)
{
    const struct job *job = &core->jobs[index];
    uint32_t tasks = 0;
    bool holds = job_holds(job->state) || job->state == JOB_STOPPING;

    for (uint32_t h = job->holds; h != HOLD_NONE; h = core->holds[h].next_of_job) {
        MUST(audit, core->holds[h].job == index);
        MUST(audit, core->holds[h].leaving == (job->state == JOB_STOPPING));
        MUST(audit,
             core->ledger.topo.nodes[core->holds[h].node].up || core->ledger.topo.nodes[core->holds[h].node].closed);
        tasks += core->holds[h].tasks;
    }
    MUST(audit, job->shares == SHARE_NONE);
    MUST(audit, job->state != JOB_CLAIMING);
    MUST(audit, tasks == (holds ? (uint32_t)job->spec.tasks : 0));
    MUST(audit, !job_waits(job->state) || job->reason != REASON_NONE);
}

/* CPUs and memory: what jobs and holds come to, and what jobs without GPUs may hold. Nodes may have shrunk under them;
 * what they are given never exceeds what there is. */
static void audit_hosts(const struct core *core, const struct ledger *ledger, struct audit *audit)
{
    for (uint32_t n = 0; ledger->hosts && n < ledger->topo.host_count; n++) {
        const struct host *host = &ledger->hosts[n];
        const struct node *node = &ledger->topo.nodes[n];
        uint64_t used = 0, leaving = 0, held = 0;

        for (uint32_t g = node->first_gpu; g < node->first_gpu + node->gpus; g++)
            for (uint32_t s = ledger->gpus[g].shares; s != SHARE_NONE; s = ledger->shares[s].next_of_gpu)
                if (!ledger->shares[s].off)
                    *(ledger->shares[s].leaving ? &leaving : &used) +=
                        host_each(ledger, n, &core->jobs[ledger->shares[s].job].spec).mcpus;
        for (uint32_t h = ledger->imagined ? HOLD_NONE : host->first; h != HOLD_NONE; h = core->holds[h].next_of_node) {
            uint64_t here = (uint64_t)core->holds[h].tasks * core->jobs[core->holds[h].job].spec.mcpus;

            *(core->holds[h].leaving ? &leaving : &used) += here;
            held += core->holds[h].leaving ? 0 : here;
        }
        MUST(audit, used == host->used.mcpus);
        MUST(audit, leaving == host->leaving.mcpus);
        MUST(audit, held == host->held.mcpus);
    }
}

/* The parts of one job: its shares, its place in lists and trees, its counters. */
static void audit_job(const struct core *core, uint32_t index, struct audit *audit)
{
    const struct job *job = &core->jobs[index];
    const struct vc *vc = &core->vcs[job->vc];
    uint32_t blocked, shares = audit_shares(core, index, &blocked, audit);

    if (job_gpuless(job) && job->state != JOB_FREE) {
        audit_tasks(core, index, audit);
        return;
    }
    MUST(audit, shares == (uint32_t)job_held(job)); /* gangs are whole or absent */
    MUST(audit, !job->planned);
    pair_audit(core, index, audit);
    switch ((enum job_state)job->state) {
    case JOB_PENDING:
    case JOB_RESERVED:
        MUST(audit, shares == 0);
        MUST(audit, (job->state == JOB_RESERVED) == (job->reserved_count > 0));
        if (job->shape != UINT32_MAX) {
            MUST(audit, vc->queue.shapes[job->shape].live);
            MUST(audit, job->reason == REASON_NONE);
        } else {
            MUST(audit, job->reason != REASON_NONE); /* set aside for a reason of its own */
        }
        break;
    case JOB_CLAIMING:
        MUST(audit, job->blocked == blocked);
        MUST(audit, blocked > 0); /* else it would have been launched */
        break;
    case JOB_STARTING:
    case JOB_RUNNING:
        MUST(audit, shares > 0);
        MUST(audit, job->gpus <= job->spec.gpus_max);
        MUST(audit, job->gpus >= job->spec.gpus_min || splice_legal(&job->spec, job->gpus));
        MUST(audit, !job->sheds || job->state == JOB_STARTING);
        /* Whoever leaves a part of its GPU now leaves a part that it does not need. */
        MUST(audit, job->blocked == (job_defers(job) ? blocked : 0));
        MUST(audit, !job_defers(job) || (blocked > 0 && !job->sheds)); /* else it would have gone */
        MUST(audit, job->runs_on == 0 || job->state == JOB_STARTING);
        break;
    case JOB_STOPPING:
    case JOB_SUSPENDED:
        MUST(audit, shares > 0);
        MUST(audit, job->runs_on == 0 || job->state == JOB_STOPPING);
        break;
    case JOB_HELD:
    case JOB_FREE:
    case JOB_OFFERED:
        MUST(audit, shares == 0);
        break;
    case JOB_DONE:
    case JOB_FAILED:
    case JOB_KILLED:
    case JOB_STATE_COUNT:
        MUST(audit, false); /* such jobs are forgotten within the step */
    }
}

static void audit_gpu(const struct core *core, uint32_t index, struct audit *audit)
{
    const struct gpu *gpu = &core->ledger.gpus[index];
    mgpu_t used = 0, leaving = 0, here = 0;
    uint32_t guests = 0, memory = 0, size = core->ledger.topo.sku_memory[core->ledger.topo.nodes[gpu->node].sku];

    for (uint32_t s = gpu->shares; s != SHARE_NONE; s = core->ledger.shares[s].next_of_gpu) {
        const struct share *share = &core->ledger.shares[s];
        const struct job *job = &core->jobs[share->job];

        MUST(audit, share->gpu == index);
        if (share->off)
            continue;
        if (share->role == ROLE_GUEST) {
            guests++;
            continue;
        }
        if (share->leaving)
            leaving += share->amount;
        else if (share->role == ROLE_OWNER)
            used += share->amount;
        memory += share->leaving ? 0 : share->memory;
        /* On the device at this moment: all but those that wait for others to leave. */
        if (job->state != JOB_CLAIMING && share->part != PART_NEW && share->role == ROLE_OWNER)
            here += share->amount;
    }
    MUST(audit, used == gpu->used);
    MUST(audit, leaving == gpu->leaving);
    MUST(audit, memory == gpu->memory);
    MUST(audit, size == 0 || memory <= size);
    MUST(audit, guests == gpu->guests);
    MUST(audit, guests <= GUESTS_MAX);
    MUST(audit, used <= MGPU_ONE); /* never given away more than there is */
    MUST(audit, here <= MGPU_ONE); /* never more on the device than it can take */
    MUST(audit, gpu->reserved_for == JOB_NONE || core->jobs[gpu->reserved_for].state == JOB_RESERVED);
}

static uint32_t count_free(const struct core *core, uint32_t first, uint32_t gpus)
{
    uint32_t free = 0;

    for (uint32_t g = first; g < first + gpus; g++)
        free += core->ledger.gpus[g].used == 0 && !core->ledger.gpus[g].bad &&
                core->ledger.gpus[g].reserved_for == JOB_NONE;
    return free;
}

static void audit_pool(const struct core *core, const struct pool *pool, struct audit *audit)
{
    const struct topo *topo = &core->ledger.topo;
    uint32_t total = 0, free = 0, nodes = 0, listed = 0;

    for (uint32_t n = pool->first_node; n < pool->first_node + pool->node_count; n++) {
        const struct node *node = &topo->nodes[n];

        if (node->sku != pool->sku || !node->up)
            continue;
        MUST(audit, bits_has(&pool->bucket[node->free], n - pool->first_node));
        total += node->gpus - node->bad;
        free += node->free;
        nodes++;
    }
    for (uint32_t f = 0; f <= pool->gpus_max; f++)
        listed += pool->bucket_count[f];
    MUST(audit, listed == nodes);
    MUST(audit, total == pool->total);
    MUST(audit, free == pool->free);
}

static void audit_topo(const struct core *core, struct audit *audit)
{
    const struct topo *topo = &core->ledger.topo;
    uint32_t free = 0, draining[SKUS_MAX] = { 0 };

    for (uint32_t n = 0; n < topo->node_count; n++) {
        const struct node *node = &topo->nodes[n];
        uint32_t inside = 0;

        MUST(audit, node->free == count_free(core, node->first_gpu, node->gpus));
        for (uint32_t c = topo->cells[node->cell].first_child, i = 0; i < topo->cells[node->cell].child_count; i++) {
            const struct cell *socket = &topo->cells[c + i];

            MUST(audit, socket->free == count_free(core, socket->first_gpu, socket->gpu_count));
            inside += socket->free;
        }
        MUST(audit, inside == node->free);
        free += node->up ? node->free : 0;
        draining[node->sku] += node->up ? 0 : (uint32_t)(node->gpus - node->bad - node->free);
    }
    MUST(audit, topo->cells[0].free == free);
    for (uint32_t s = 0; s < topo->sku_count; s++)
        MUST(audit, draining[s] == topo->sku_draining[s]);
    for (uint32_t p = 0; p < topo->pool_count; p++)
        audit_pool(core, &topo->pools[p], audit);
}

static void audit_queue(const struct core *core, const struct vc *vc, struct audit *audit)
{
    const struct queue *queue = &vc->queue;
    uint32_t waiting = 0;

    for (uint32_t i = 0; i < queue->live_count; i++) {
        const struct shape_class *cls = &queue->shapes[queue->live[i]];

        MUST(audit, cls->live);
        MUST(audit, cls->count > 0);
        MUST(audit, tree_sum(core->tree, cls->root) == cls->count);
        /* After a pass nobody is left without a reason; between two passes a new shape may be. */
        MUST(audit, core->planned_at != core->now || core->round || cls->reason != REASON_NONE);
        waiting += cls->count;
    }
    MUST(audit, waiting == queue->waiting);
}

static void audit_vc(const struct core *core, const struct vc *vc, struct audit *audit)
{
    int64_t used[SKUS_MAX] = { 0 }, guest[SKUS_MAX] = { 0 }, lent[SKUS_MAX] = { 0 };
    uint32_t running = 0, sided = 0, previous = JOB_NONE;
    usec_t start = INT64_MIN;

    for (uint32_t i = vc->run_first; i != JOB_NONE; previous = i, i = core->jobs[i].next) {
        const struct job *job = &core->jobs[i];

        MUST(audit, job_holds(job->state));
        MUST(audit, job->prev == previous);
        MUST(audit, job->last_start >= start);
        start = job->last_start;
        for (uint32_t s = 0; s < core->ledger.topo.sku_count; s++) {
            *(job->klass == CLASS_OPPORTUNISTIC ? &guest[s] : &used[s]) += job_amount_on(job, s);
            if (vc->own && !job_bound(job) && job->klass != CLASS_OPPORTUNISTIC)
                lent[s] += job_amount_on(job, s);
        }
        running++;
        sided += job->spec.side_count > 0;
    }
    MUST(audit, previous == vc->run_last);
    MUST(audit, sided == vc->sided);
    MUST(audit, running == vc->running);
    for (uint32_t s = 0; s < core->ledger.topo.sku_count; s++) {
        MUST(audit, used[s] == vc->used[s]);
        MUST(audit, guest[s] == vc->guest[s]);
        MUST(audit, lent[s] == vc->lent[s]);
    }
    audit_queue(core, vc, audit);
}

/* No job was stopped, suspended or moved in this step against its own terms. Recounted from them, not asked of those
 * who choose victims. */
static void audit_victims(const struct core *core, struct audit *audit)
{
    for (size_t i = 0; i < core->outbox.decision_count; i++) {
        const struct decision *d = &core->outbox.decisions[i];
        const struct job *job = &core->jobs[d->job];
        bool stops = d->kind == DECISION_STOP || d->kind == DECISION_SUSPEND;

        if (d->at != core->now || job->state == JOB_FREE || job->spec.id != d->id)
            continue;
        if (stops)
            MUST(audit, job->spec.preempt != PREEMPT_NEVER);
        /* The size of an elastic job is a person's to set, too. */
        if (d->kind == DECISION_MIGRATE || d->kind == DECISION_SPLICE)
            MUST(audit, job->spec.preempt != PREEMPT_NEVER || jobspec_elastic(&job->spec));
        if (stops && job->spec.min_runtime) {
            MUST(audit, job->ran_from >= job->last_start);
            MUST(audit, core->now - job->ran_from >= job->spec.min_runtime);
        }
    }
}

void audit_run(const struct core *core, struct audit *audit)
{
    uint32_t waiting = 0, running = 0, shares = 0, lone = 0;
    int64_t held = 0, guests = 0;

    for (uint32_t i = 0; i < core->job_top; i++) {
        const struct job *job = &core->jobs[i];
        int64_t amount = job_amount(job) + (int64_t)jobspec_sides(&job->spec) * MGPU_ONE;

        audit_job(core, i, audit);
        waiting += job_waits(job->state);
        running += job_holds(job->state);
        held += job_holds(job->state) ? amount : 0;
        guests += job_holds(job->state) && guest_is(core, job) ? amount : 0;
        shares += (uint32_t)job_held(job);
        for (uint32_t s = job->sheds || job->runs_on ? job->shares : SHARE_NONE; s != SHARE_NONE;
             s = core->ledger.shares[s].next_of_job)
            shares += job->sheds ? core->ledger.shares[s].leaving : core->ledger.shares[s].part == PART_OLD;
    }
    MUST(audit, waiting == core->waiting);
    MUST(audit, running == core->running);
    MUST(audit, held == core->mgpu_held);
    MUST(audit, guests == core->mgpu_guests);
    MUST(audit, shares == core->ledger.share_count);
    for (uint32_t g = 0; g < core->ledger.topo.gpu_count; g++)
        audit_gpu(core, g, audit);
    for (uint32_t g = 0; g < core->ledger.topo.gpu_count; g++)
        lone += core->ledger.gpus[g].used == 0 && core->ledger.gpus[g].guests > 0;
    MUST(audit, lone == core->ledger.lone);
    audit_topo(core, audit);
    for (uint32_t v = 0; v < core->vc_count; v++)
        audit_vc(core, &core->vcs[v], audit);
    audit_hosts(core, &core->ledger, audit);
    for (uint32_t v = 0; v < core->vc_count && core->cells; v++)
        audit_hosts(core, core->vcs[v].own, audit);
    own_audit(core, audit);
    licenses_audit(core, audit);
    audit_victims(core, audit);
}

void core_audit(const struct core *core)
{
    audit_run(core, &(struct audit){ .stops = true });
}
