/* SPDX-License-Identifier: Apache-2.0 */
/* watch.c - what must be true, recounted from the decisions and from the jobs, not from the core's own sums. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "core/core_internal.h"
#include "model/splice.h"
#include "seeds.h"

void watch_wrong(struct watch *watch, const struct core *core, int64_t id, const char *format, ...)
{
    va_list args;
    int have;

    if (watch->why[0])
        return;
    have = snprintf(watch->why, WHY_TEXT, "at %.6f s, job %lld: ", (double)core_now(core) / 1e6, (long long)id);
    va_start(args, format);
    (void)vsnprintf(watch->why + have, WHY_TEXT - (size_t)have, format, args);
    va_end(args);
}

int watch_init(struct watch *watch, const struct life *life)
{
    *watch = (struct watch){ .life = life };
    for (uint32_t n = 0; n < life->cluster.node_count; n++)
        watch->gpu_count += life->cluster.nodes[n].gpus;
    watch->holders = mem_zalloc(life->trace.count, sizeof(*watch->holders));
    watch->used = mem_zalloc(watch->gpu_count, sizeof(*watch->used));
    return watch->holders && watch->used ? 0 : -1;
}

void watch_done(struct watch *watch)
{
    for (size_t i = 0; watch->holders && i < watch->life->trace.count; i++)
        mem_free(watch->holders[i].gpus);
    mem_free(watch->holders);
    mem_free(watch->used);
}

/* ---- who holds what, from the decisions ---- */

/* The one it was packed with has the GPUs for itself. */
static void part(struct watch *watch, struct holder *holder)
{
    struct holder *mate = holder->mate ? &watch->holders[holder->mate - 1] : NULL;

    holder->mate = 0;
    if (!mate)
        return;
    mate->mate = 0;
    for (uint32_t i = 0; mate->share == 0 && !mate->leaving && i < mate->count; i++)
        watch->used[mate->gpus[i]] += MGPU_ONE;
    mate->share = MGPU_ONE;
}

static void give_up(struct watch *watch, struct holder *holder, bool gone)
{
    for (uint32_t i = 0; !holder->leaving && i < holder->count; i++)
        watch->used[holder->gpus[i]] -= holder->share;
    if (!holder->leaving)
        part(watch, holder);
    holder->leaving = !gone;
    if (gone) {
        mem_free(holder->gpus);
        holder->gpus = NULL;
        holder->count = 0;
    }
}

/* Jobs come in the order of their ids. */
static const struct jobspec *spec_of(const struct watch *watch, int64_t id)
{
    return &watch->life->trace.jobs[id].spec;
}

static void print_decision(const struct decision *d, const struct jobspec *spec, const uint32_t *gpus)
{
    printf("# %.6f %s %lld (%d x %d) %s", (double)d->at / 1e6, decision_name(d->kind), (long long)d->id, spec->gpus,
           spec->share, d->reason == REASON_NONE ? "" : reason_name(d->reason));
    for (uint32_t i = 0; i < d->gpu_count; i++)
        printf(" %u", gpus[i]);
    printf("\n");
}

/* Each part of a gang on several types is whole, on one of its types, with so many GPUs on each of its nodes; those of
 * a guarantee in cells may be parts of one. */
static void check_sides(struct watch *watch, const struct core *core, const struct jobspec *spec,
                        const struct decision *d, const uint32_t *gpus)
{
    const struct ledger *ledger = core_ledger(core);

    for (uint32_t i = 0; i < spec->side_count && d->gpu_count; i++) {
        uint32_t count = 0, here = 0, last = UINT32_MAX, skus = 0;

        for (uint32_t g = 0; g < d->gpu_count; g++) {
            uint32_t node = ledger->gpus[gpus[g]].node, sku = ledger->topo.nodes[node].sku;

            if (!(spec->sides[i].sku_mask >> sku & 1))
                continue;
            if (node != last && count && here % spec->sides[i].per_node)
                watch_wrong(watch, core, d->id, "side %u has %u GPUs on a node", i, here);
            here = node == last ? here + 1 : 1;
            last = node;
            skus |= 1u << sku;
            count++;
        }
        if (count != (uint32_t)spec->sides[i].gpus || here % spec->sides[i].per_node || (skus & (skus - 1)) ||
            (!core->cells && here != spec->sides[i].per_node))
            watch_wrong(watch, core, d->id, "side %u has %u GPUs of %d", i, count, spec->sides[i].gpus);
    }
}

static void hand_over(struct watch *watch, const struct core *core, const struct decision *d, const uint32_t *gpus)
{
    const struct jobspec *spec = spec_of(watch, d->id);
    const struct topo *topo = &core_ledger(core)->topo;
    struct holder *holder = &watch->holders[d->id];
    uint32_t mask = spec->sku_mask ? spec->sku_mask : UINT32_MAX, all = d->gpu_count;
    struct decision first = *d;

    check_sides(watch, core, spec, d, gpus);
    for (uint32_t i = 0; i < spec->side_count; i++)
        mask |= spec->sides[i].sku_mask;
    first.gpu_count -= all ? (uint32_t)jobspec_sides(spec) : 0;
    d = &first;
    holder->runs = spec->gpus == 0;
    if (holder->count && !holder->leaving)
        watch_wrong(watch, core, d->id, "started while it runs");
    give_up(watch, holder, true);
    if (((int32_t)d->gpu_count < spec->gpus_min || (int32_t)d->gpu_count > spec->gpus_max) &&
        !(core->vcs[d->vc].policy.planner->splices && splice_legal(spec, (int32_t)d->gpu_count)))
        watch_wrong(watch, core, d->id, "a gang of %d started on %u GPUs", spec->gpus, d->gpu_count);
    holder->gpus = mem_zalloc(all, sizeof(*holder->gpus));
    holder->count = all;
    holder->share = d->gpu_count && core->ledger.shares[core->jobs[d->job].shares].role != ROLE_OWNER ? 0 : spec->share;
    holder->leaving = false;
    if (spec->within && spec->within_must && d->gpu_count &&
        within_check(core_ledger(core), &(struct placement){ gpus, d->gpu_count }, spec) < 0)
        watch_wrong(watch, core, d->id, "started on GPUs that are not near each other");
    for (uint32_t i = 0; i < all; i++) {
        const struct node *node = &topo->nodes[core_ledger(core)->gpus[gpus[i]].node];

        holder->gpus[i] = gpus[i];
        watch->used[gpus[i]] += holder->share;
        if (!(mask >> node->sku & 1))
            watch_wrong(watch, core, d->id, "started on a GPU type it does not allow");
        if (!node->up || core_ledger(core)->gpus[gpus[i]].bad)
            watch_wrong(watch, core, d->id, "started on GPU %u, which is down", gpus[i]);
        if (!node_allows(node, spec->mark, spec->kept))
            watch_wrong(watch, core, d->id, "started on GPU %u, of a node that is not for it", gpus[i]);
        if (i && gpus[i] <= gpus[i - 1])
            watch_wrong(watch, core, d->id, "GPUs out of order");
    }
}

/* Two that hold the same GPUs, and share them with nobody else. */
static void pack(struct watch *watch, const struct core *core, const struct decision *d)
{
    struct holder *a = &watch->holders[d->id], *b = &watch->holders[d->needs];

    if (a->mate || b->mate || a->leaving || b->leaving)
        watch_wrong(watch, core, d->id, "packed with job %lld, which is not alone", (long long)d->needs);
    if (a->count == 0 || a->count != b->count || memcmp(a->gpus, b->gpus, a->count * sizeof(*a->gpus)))
        watch_wrong(watch, core, d->id, "packed with job %lld, which is elsewhere", (long long)d->needs);
    for (uint32_t i = 0; a->share && b->share && i < a->count; i++)
        watch->used[a->gpus[i]] -= a->share; /* which of them is charged is of no consequence */
    a->share = b->share ? 0 : MGPU_ONE;
    a->mate = d->needs + 1;
    b->mate = d->id + 1;
}

/* Stopped, suspended or moved for another only as far as its own terms allow. */
static void check_terms(struct watch *watch, const struct core *core, const struct decision *d)
{
    const struct jobspec *spec = spec_of(watch, d->id);
    bool moves = d->kind == DECISION_MIGRATE || d->kind == DECISION_SPLICE;

    if (spec->preempt == PREEMPT_NEVER && !(moves && jobspec_elastic(spec)))
        watch_wrong(watch, core, d->id, "%s although it is never to be preempted", decision_name(d->kind));
    if (!moves && d->at - watch->holders[d->id].started < spec->min_runtime)
        watch_wrong(watch, core, d->id, "%s before its min_runtime", decision_name(d->kind));
}

void watch_decision(void *arg, const struct core *core, const struct decision *d, const uint32_t *gpus)
{
    struct watch *watch = arg;
    struct holder *holder = &watch->holders[d->id];

    watch->decisions++;
    if (watch->log && !watch->why[0])
        print_decision(d, spec_of(watch, d->id), gpus);
    switch (d->kind) {
    case DECISION_START:
    case DECISION_RESUME:
        hand_over(watch, core, d, gpus);
        holder->started = d->at;
        break;
    case DECISION_MIGRATE:
    case DECISION_SPLICE:
        check_terms(watch, core, d);
        if (holder->count == 0 || holder->leaving)
            watch_wrong(watch, core, d->id, "moved although it holds nothing");
        give_up(watch, holder, false); /* whoever is given what it leaves waits for that */
        hand_over(watch, core, d, gpus);
        break;
    case DECISION_STOP:
    case DECISION_SUSPEND:
        check_terms(watch, core, d);
        if (!holder->runs && (holder->count == 0 || holder->leaving))
            watch_wrong(watch, core, d->id, "stopped although it holds nothing");
        give_up(watch, holder, false);
        break;
    case DECISION_WAIT:
        if (holder->count && !holder->leaving)
            watch_wrong(watch, core, d->id, "waits and holds GPUs");
        if (holder->cancelled)
            watch_wrong(watch, core, d->id, "was cancelled and waits again");
        give_up(watch, holder, true);
        break;
    case DECISION_KILL:
        holder->cancelled |= d->reason == REASON_NONE;
        give_up(watch, holder, !(holder->cancelled && holder->leaving));
        break;
    case DECISION_END:
    case DECISION_FAIL:
    case DECISION_RETRY:
        if (holder->count == 0 && !holder->runs)
            watch_wrong(watch, core, d->id, "ended without having run");
        give_up(watch, holder, true);
        break;
    case DECISION_PACK:
        pack(watch, core, d); /* its start or move was told before */
        break;
    case DECISION_UNPACK:
        break; /* the stop that goes with it was told before */
    case DECISION_BAD:
        watch_wrong(watch, core, d->id, "the policy proposed what no policy may");
        break;
    case DECISION_PROMISE:
    case DECISION_DECLINE:
    case DECISION_BREAK:
    case DECISION_RELAX:
    case DECISION_RESERVE:
    case DECISION_REFUSE:
    case DECISION_PREPARE:
    case DECISION_YIELD:
    case DECISION_TIER:
    case DECISION_SIZE:
    case DECISION_SAVE:
    case DECISION_LIMIT:
    case DECISION_CLASS:
    case DECISION_COUNT:
        break;
    }
}

/* ---- the core at rest ---- */

/* By the decisions, once all of an instant were told: nothing is given away twice, and a pair is charged once. */
static void check_given(struct watch *watch, const struct core *core)
{
    for (uint32_t g = 0; g < watch->gpu_count; g++)
        if (watch->used[g] > MGPU_ONE)
            watch_wrong(watch, core, -1, "GPU %u given away %d/1000 times", g, watch->used[g]);
    for (size_t i = 0; i < watch->life->trace.count; i++) {
        const struct holder *holder = &watch->holders[i];

        if (holder->mate && holder->share + watch->holders[holder->mate - 1].share != MGPU_ONE)
            watch_wrong(watch, core, (int64_t)i, "a pair is charged for %d/1000",
                        holder->share + watch->holders[holder->mate - 1].share);
    }
}

/* On the device now: everybody but those who wait for others to leave, or for their turn. Beside the one that has it,
 * one more that is packed with it. */
static void check_devices(struct watch *watch, const struct core *core)
{
    mgpu_t here[4096] = { 0 };
    uint8_t packed[4096] = { 0 };

    for (uint32_t i = 0; i < core->job_top; i++) {
        const struct job *job = &core->jobs[i];
        int32_t count = 0;

        for (uint32_t s = job->shares; s != SHARE_NONE; s = core->ledger.shares[s].next_of_job) {
            count += core->ledger.shares[s].part != PART_NEW;
            if (job->state == JOB_CLAIMING || core->ledger.shares[s].part == PART_NEW || job->state == JOB_SUSPENDED ||
                core->ledger.shares[s].gpu >= 4096 || core->ledger.shares[s].role == ROLE_GUEST)
                continue;
            if (job->packed) {
                if (packed[core->ledger.shares[s].gpu]++)
                    watch_wrong(watch, core, job->spec.id, "a third one on GPU %u", core->ledger.shares[s].gpu);
                continue;
            }
            here[core->ledger.shares[s].gpu] += job->spec.share;
            if (here[core->ledger.shares[s].gpu] > MGPU_ONE)
                watch_wrong(watch, core, job->spec.id, "two on GPU %u", core->ledger.shares[s].gpu);
        }
        count -= count ? jobspec_sides(&job->spec) : 0;
        if (job->state != JOB_FREE && count && (count < job->spec.gpus_min || count > job->spec.gpus_max) &&
            !job->sheds && !splice_legal(&job->spec, count))
            watch_wrong(watch, core, job->spec.id, "holds %d of %d GPUs", count, job->spec.gpus);
        if ((job->state == JOB_RUNNING || job->state == JOB_STARTING) && count == 0 && !job_gpuless(job))
            watch_wrong(watch, core, job->spec.id, "runs on nothing");
    }
}

/* What it asks for with that GPU. */
static struct gang_side with(const struct core *core, const struct job *job, uint32_t gpu)
{
    uint32_t sku = core->ledger.topo.nodes[core->ledger.gpus[gpu].node].sku;

    for (uint32_t i = 0; i < job->spec.side_count; i++)
        if (job->spec.sides[i].sku_mask >> sku & 1)
            return job->spec.sides[i];
    return (struct gang_side){ .mcpus = job->spec.mcpus, .host_mib = job->spec.host_mib };
}

/* On each node now: everybody's CPUs and memory, but for those who wait for others to leave, or for their turn; and
 * jobs without GPUs within what they may have. */
static void check_hosts(struct watch *watch, const struct core *core)
{
    uint64_t cpus[256] = { 0 }, mib[256] = { 0 }, tasks[256] = { 0 };

    if (!core->ledger.hosts || core->ledger.topo.host_count > 256)
        return;
    for (uint32_t i = 0; i < core->job_top; i++) {
        const struct job *job = &core->jobs[i];
        struct gang_side each;

        for (uint32_t s = job->state == JOB_CLAIMING || job->state == JOB_SUSPENDED ? SHARE_NONE : job->shares;
             s != SHARE_NONE; s = core->ledger.shares[s].next_of_job) {
            if (core->ledger.shares[s].part == PART_NEW)
                continue;
            each = with(core, job, core->ledger.shares[s].gpu);
            cpus[core->ledger.gpus[core->ledger.shares[s].gpu].node] += each.mcpus;
            mib[core->ledger.gpus[core->ledger.shares[s].gpu].node] += each.host_mib;
        }
        for (uint32_t h = job->state == JOB_FREE ? HOLD_NONE : job->holds; h != HOLD_NONE;
             h = core->holds[h].next_of_job) {
            cpus[core->holds[h].node] += (uint64_t)core->holds[h].tasks * job->spec.mcpus;
            mib[core->holds[h].node] += (uint64_t)core->holds[h].tasks * job->spec.host_mib;
            tasks[core->holds[h].node] += (uint64_t)core->holds[h].tasks * job->spec.mcpus;
        }
    }
    for (uint32_t n = 0; n < core->ledger.topo.host_count; n++) {
        const struct node_spec *node = &watch->life->cluster.nodes[n];

        if (cpus[n] > node->cpus * 1000ULL || (node->memory_mib && mib[n] > node->memory_mib))
            watch_wrong(watch, core, -1, "node %u has %llu/1000 CPUs and %llu MiB in use", n,
                        (unsigned long long)cpus[n], (unsigned long long)mib[n]);
        if (tasks[n] > node->cpu_jobs * 1000ULL)
            watch_wrong(watch, core, -1, "node %u: jobs without GPUs hold %llu/1000 CPUs", n,
                        (unsigned long long)tasks[n]);
    }
}

/* Nobody holds more than its virtual cluster may, unless its quota was lowered or it was lent before. */
static void check_quotas(struct watch *watch, const struct core *core)
{
    for (uint32_t v = 0; v < core->vc_count; v++) {
        const struct vc *vc = &core->vcs[v];
        int64_t used[SKUS_MAX] = { 0 };

        for (uint32_t i = 0; i < core->job_top; i++) {
            const struct job *job = &core->jobs[i];

            if (!job_holds(job->state) || job->vc != v || job->klass == CLASS_OPPORTUNISTIC || job->packed)
                continue;
            for (uint32_t s = job->shares; s != SHARE_NONE; s = core->ledger.shares[s].next_of_job)
                if (!core->ledger.shares[s].leaving && core->ledger.shares[s].part != PART_OLD)
                    used[core->ledger.topo.nodes[core->ledger.gpus[core->ledger.shares[s].gpu].node].sku] +=
                        job->spec.share;
        }
        for (uint32_t s = 0; s < core->ledger.topo.sku_count; s++)
            if (used[s] != vc->used[s])
                watch_wrong(watch, core, -1, "virtual cluster %u holds %lld and is charged %lld", v, (long long)used[s],
                            (long long)vc->used[s]);
    }
}

/* Nobody has more than one user may. */
static void check_users(struct watch *watch, const struct core *core)
{
    for (uint32_t v = 0; v < core->vc_count; v++) {
        int64_t held[8] = { 0 };

        for (uint32_t i = 0; core->vcs[v].user_max && i < core->job_top; i++) {
            const struct job *job = &core->jobs[i];

            if (!job_holds(job->state) || job->vc != v || job->spec.user >= 8)
                continue;
            held[job->spec.user] += ((int64_t)job->gpus + jobspec_sides(&job->spec)) * job->spec.share;
            if (held[job->spec.user] > core->vcs[v].user_max)
                watch_wrong(watch, core, job->spec.id, "its user has more than one may");
        }
    }
}

/* Nobody has a licence that another has, whatever state the two are in. */
static void check_licenses(struct watch *watch, const struct core *core)
{
    for (uint32_t k = 0; k < watch->life->cluster.license_count; k++) {
        uint64_t held = 0;

        for (uint32_t i = 0; i < core->job_top; i++) {
            const struct job *job = &core->jobs[i];

            for (uint32_t n = 0;
                 job->state >= JOB_CLAIMING && job->state <= JOB_STOPPING && n < job->spec.license_count; n++)
                held += job->spec.licenses[n].license == k ? job->spec.licenses[n].count : 0;
        }
        if (held > watch->life->cluster.licenses[k].count)
            watch_wrong(watch, core, -1, "%llu licences of kind %u are held, of %u", (unsigned long long)held, k,
                        watch->life->cluster.licenses[k].count);
    }
}

void watch_instant(void *arg, const struct core *core)
{
    struct watch *watch = arg;

    core_audit(core);
    check_given(watch, core);
    check_devices(watch, core);
    check_hosts(watch, core);
    check_quotas(watch, core);
    check_users(watch, core);
    check_licenses(watch, core);
    if (core->chain == CHAIN_MAX)
        watch_wrong(watch, core, -1, "one pass leads to the next without end");
    for (uint32_t i = 0; i < core->job_top; i++) {
        watch_reason(watch, core, i);
        watch_classes(watch, core, i);
    }
    watch_theorems(watch, core);
    watch->looked++;
}
