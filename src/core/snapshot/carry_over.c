/* SPDX-License-Identifier: Apache-2.0 */
/* carry_over.c - the same jobs in another cluster: nodes that joined or left, other virtual clusters, other policies.
 *
 * Jobs keep their slots, so that whoever speaks of them by reference goes on doing so. Running work keeps its GPUs and
 * its place in the run list; waiting work keeps when it came and what it has waited, and gets its key from the ordering
 * its virtual cluster has now. Reservations are dropped; the next pass makes them anew. A policy that stays keeps what
 * it has learned; where GPUs were numbered anew, only its ordering does, since the other parts may remember GPUs.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "core/contract/plan.h"
#include "core/core_internal.h"
#include "core/planning/vc_wakeup.h"

struct carry {
    const struct core *old;
    struct core *core;
    const uint32_t *gpus; /* new number of each old GPU, or UINT32_MAX; then of each old node without GPUs */
    bool same_gpus;
};

static bool same_planner(const struct carry *c, uint32_t vc)
{
    return c->same_gpus && c->old->vcs[vc].policy.planner == c->core->vcs[vc].policy.planner;
}

static bool same_order(const struct carry *c, uint32_t vc)
{
    return c->old->vcs[vc].policy.order == c->core->vcs[vc].policy.order;
}

/* What becomes of a node: where its first GPU goes, or it itself if it has none. UINT32_MAX: it is no more. */
static uint32_t node_new(const struct carry *c, uint32_t node)
{
    const struct topo *from = &c->old->ledger.topo;
    uint32_t new =
        c->gpus[node < from->node_count ? from->nodes[node].first_gpu : from->gpu_count + node - from->node_count];

    return new == UINT32_MAX || node >= from->node_count ? new : c->core->ledger.gpus[new].node;
}

/* The same of nodes without GPUs. */
static int bare_check(const struct carry *c, struct error *err)
{
    const struct ledger *from = &c->old->ledger;
    const struct topo *to = &c->core->ledger.topo;

    for (uint32_t n = from->topo.node_count, last = UINT32_MAX; n < from->topo.host_count; n++) {
        uint32_t new = node_new(c, n);

        if (new == UINT32_MAX && from->hosts && from->hosts[n].first != HOLD_NONE)
            return error_set(err, -EBUSY, "node %u has tasks and would be gone", n);
        if (new != UINT32_MAX && (new < to->node_count || new >= to->host_count || new == last))
            return error_set(err, -EINVAL, "node %u cannot become number %u", n, new);
        last = new;
    }
    return 0;
}

/* Whether every old GPU that still matters has a place, of the same type, and no two the same. */
static int map_check(struct carry *c, struct error *err)
{
    const struct ledger *from = &c->old->ledger, *to = &c->core->ledger;

    if (c->core->vc_count < c->old->vc_count || c->core->job_capacity < c->old->job_top)
        return error_set(err, -EINVAL, "a virtual cluster or job slots would be lost");
    if (c->core->licenses.count < c->old->licenses.count)
        return error_set(err, -EINVAL, "a kind of licence would be lost; it may be left with none to be had");
    c->same_gpus = from->topo.gpu_count == to->topo.gpu_count;
    for (uint32_t g = 0, last = UINT32_MAX; g < from->topo.gpu_count; g++) {
        uint32_t new = c->gpus[g];

        c->same_gpus &= new == g;
        if (new == UINT32_MAX && from->hosts && from->hosts[from->gpus[g].node].first != HOLD_NONE)
            return error_set(err, -EBUSY, "node %u has tasks and would be gone", from->gpus[g].node);
        if (new == UINT32_MAX && from->gpus[g].shares != SHARE_NONE)
            return error_set(err, -EBUSY, "GPU %u is in use and would be gone", g);
        if (new == UINT32_MAX)
            continue;
        if (new >= to->topo.gpu_count || new == last)
            return error_set(err, -EINVAL, "GPU %u cannot become number %u", g, new);
        if (to->topo.nodes[to->gpus[new].node].sku != from->topo.nodes[from->gpus[g].node].sku)
            return error_set(err, -EINVAL, "GPU %u would be of another type", g);
        last = new;
    }
    return bare_check(c, err);
}

static void carry_health(struct carry *c)
{
    const struct ledger *from = &c->old->ledger;
    struct ledger *to = &c->core->ledger;

    for (uint32_t g = 0; g < from->topo.gpu_count; g++) {
        const struct node *was = &from->topo.nodes[from->gpus[g].node];
        uint32_t new = c->gpus[g];

        if (new == UINT32_MAX)
            continue;
        if (from->gpus[g].bad)
            ledger_gpu_bad(to, new, true);
        if (g == was->first_gpu) {
            topo_node_up(&to->topo, to->gpus[new].node, was->up);
            to->topo.nodes[to->gpus[new].node].closed = was->closed;
        }
    }
    for (uint32_t n = from->topo.node_count; n < from->topo.host_count; n++) {
        uint32_t new = node_new(c, n);

        if (new == UINT32_MAX)
            continue;
        topo_node_up(&to->topo, new, from->topo.nodes[n].up);
        to->topo.nodes[new].closed = from->topo.nodes[n].closed;
    }
}

/* What holds for a job whatever its state. */
static void carry_job(struct carry *c, uint32_t index)
{
    struct job *job = &c->core->jobs[index];
    uint32_t next = c->old->jobs[index].next;

    *job = c->old->jobs[index];
    if (job_waits(job->state) && job->shape != UINT32_MAX)
        queue_booked(c->old, index, job);
    if (job->state == JOB_RESERVED)
        job->state = JOB_PENDING;
    job->shares = job->own_shares = SHARE_NONE;
    job->holds = HOLD_NONE;
    job->run_class = UINT32_MAX;
    job->reserved_first = job->reserved_count = 0;
    job->prev = JOB_NONE;
    job->next = job->state == JOB_FREE ? next : JOB_NONE;
    if (job->state == JOB_FREE)
        return;
    if (!same_order(c, job->vc))
        memset(job->order_word, 0, sizeof(job->order_word));
    if (!same_planner(c, job->vc))
        memset(job->word, 0, sizeof(job->word));
    else
        heap_set(&c->core->timers, timer_of(index, TIMER_PLANNER),
                 heap_at(&c->old->timers, timer_of(index, TIMER_PLANNER)));
    for (uint32_t i = 0; same_planner(c, job->vc) && i < c->core->vcs[job->vc].policy.planner->words; i++)
        c->core->words[(size_t)index * c->core->word_stride + i] =
            c->old->words[(size_t)index * c->old->word_stride + i];
}

/* Tasks of jobs without GPUs stay on their nodes. */
static int carry_holds(struct carry *c)
{
    const struct core *old = c->old;

    for (uint32_t i = 0; i < old->job_top; i++) {
        for (uint32_t h = old->jobs[i].state == JOB_FREE ? HOLD_NONE : old->jobs[i].holds; h != HOLD_NONE;
             h = old->holds[h].next_of_job) {
            if (!c->core->ledger.hosts || c->core->hold_free == HOLD_NONE)
                return -ENOSPC;
            tasks_hold(c->core, i, node_new(c, old->holds[h].node), old->holds[h].tasks);
        }
        tasks_turn(c->core, i);
    }
    c->core->tasks_dirty = true;
    return 0;
}

/* Each list from its end, so that it comes back in the same order. */
static int carry_shares(struct carry *c)
{
    const struct ledger *from = &c->old->ledger;
    uint32_t list[1024], count;

    for (uint32_t g = 0; g < from->topo.gpu_count; g++) {
        count = 0;
        for (uint32_t s = from->gpus[g].shares; s != SHARE_NONE && count < 1024; s = from->shares[s].next_of_gpu)
            list[count++] = s;
        while (count-- > 0) {
            struct share share = from->shares[list[count]];

            if (c->core->ledger.share_free == SHARE_NONE)
                return -ENOSPC;
            share.gpu = c->gpus[g];
            ledger_restore(&c->core->ledger, &share);
        }
    }
    return carry_holds(c) < 0 ? -ENOSPC : core_rejoin_shares(c->core);
}

/* Migrations under way go on; where nodes were numbered anew, only where they lead is known. */
static void carry_movers(struct carry *c)
{
    struct core *core = c->core;

    if (c->same_gpus)
        memcpy(core->movers, c->old->movers, core->ledger.topo.node_count * sizeof(*core->movers));
    for (uint32_t i = 0; i < core->job_top && !c->same_gpus; i++)
        for (uint32_t s = core->jobs[i].moving ? core->jobs[i].shares : SHARE_NONE; s != SHARE_NONE;
             s = core->ledger.shares[s].next_of_job)
            core->movers[core->ledger.gpus[core->ledger.shares[s].gpu].node] =
                (struct mover){ i, core->jobs[i].gen, true };
}

/* What a policy knows of nodes, where these are the same. */
static void carry_nodes(const struct carry *c, const struct planner_ctx *to, const struct planner_ctx *from)
{
    if (to->node_words)
        memcpy(to->nodes, from->nodes, core_node_rooms(c->core) * to->node_words * sizeof(*to->nodes));
}

/* A tuner that was there before keeps what it knows: of the virtual cluster, and of each job. */
static void carry_tuner(struct carry *c, uint32_t v, uint32_t index)
{
    const struct vc *from = &c->old->vcs[v];
    struct vc *to = &c->core->vcs[v];
    const struct tune_ops *ops = to->policy.tune[index];

    for (uint32_t i = 0; i < from->policy.tune_count; i++) {
        if (from->policy.tune[i] != ops)
            continue;
        if (ops->kept_size)
            memcpy(to->tune[index].state, from->tune[i].state, ops->kept_size);
        for (uint32_t k = 0; k < c->old->job_top && ops->words; k++)
            if (c->old->jobs[k].vc == v)
                memcpy(&c->core->words[(size_t)k * c->core->word_stride + to->tune[index].word_first],
                       &c->old->words[(size_t)k * c->old->word_stride + from->tune[i].word_first],
                       ops->words * sizeof(*c->core->words));
        carry_nodes(c, &to->tune[index], &from->tune[i]);
        return;
    }
}

static void carry_policies(struct carry *c)
{
    for (uint32_t v = 0; v < c->old->vc_count; v++) {
        const struct vc *from = &c->old->vcs[v];
        struct vc *to = &c->core->vcs[v];

        to->rng = from->rng;
        if (same_order(c, v) && from->policy.order->kept_size)
            memcpy(to->order.state, from->order.state, from->policy.order->kept_size);
        if (c->same_gpus && from->policy.place == to->policy.place && from->policy.place->kept_size)
            memcpy(to->place.state, from->place.state, from->policy.place->kept_size);
        if (same_planner(c, v)) {
            for (int beyond = 0; beyond < 2; beyond++)
                heap_set(&c->core->timers, timer_vc(c->core, v, beyond),
                         heap_at(&c->old->timers, timer_vc(c->old, v, beyond)));
            carry_nodes(c, &to->planner, &from->planner);
            if (from->policy.planner->kept_size)
                memcpy(to->planner.state, from->planner.state, from->policy.planner->kept_size);
        }
        if (c->same_gpus && from->policy.admit && from->policy.admit == to->policy.admit)
            memcpy(to->admit.state, from->admit.state, from->policy.admit->kept_size);
        for (uint32_t i = 0; c->same_gpus && i < to->policy.tune_count; i++)
            carry_tuner(c, v, i);
        to->dirty = true;
    }
}

static void carry_waiting(struct carry *c, uint32_t index)
{
    struct core *core = c->core;
    struct job *job = &core->jobs[index];
    struct vc *vc = &core->vcs[job->vc];
    bool aside = job->shape == UINT32_MAX;

    core->waiting++;
    licenses_wait(core, index, true);
    if (job_gpuless(job)) {
        tasks_add(core, index);
        return;
    }
    users_wait(core, index, true);
    if (aside && same_planner(c, job->vc))
        return; /* its planner will call it back */
    if (aside)
        job->waited[job->reason] += core->now - job->state_since;
    job->reason = REASON_NONE;
    if (vc->policy.place->level && c->old->vcs[job->vc].policy.place != vc->policy.place)
        job->level = vc->policy.place->level(&vc->place, &job->spec);
    queue_add(core, index);
    core->fresh[core->fresh_count++] = index;
    job->fresh = true;
    if (vc->policy.planner->queued && !same_planner(c, job->vc)) {
        struct plan plan = plan_about(core, job);

        vc->policy.planner->queued(&vc->planner, &plan, index);
    }
}

int core_carry(const struct core *old, const struct cluster_spec *spec, const struct core_config *config,
               const uint32_t *gpus, struct core **ret_core, struct error *err)
{
    struct carry c = { .old = old, .gpus = gpus };
    struct core *core;
    int r;

    assert(old->inbox_count == 0);
    r = core_new(spec, config, &core, err);
    if (r < 0)
        return r;
    c.core = core;
    r = map_check(&c, err);
    if (r < 0) {
        core_free(core);
        return r;
    }
    core->now = old->now;
    core->rng = old->rng;
    core->decisions = old->decisions;
    core->digest = old->digest;
    core->borrowing |= old->borrowing;
    core->ledger.releases = old->ledger.releases + 1;
    core->job_top = old->job_top;
    core->job_free = old->job_free;
    heap_set(&core->timers, core->job_capacity * TIMERS_A_JOB + core->vc_count,
             heap_at(&old->timers, old->job_capacity * TIMERS_A_JOB + old->vc_count));
    memcpy(core->vc_order, old->vc_order, old->vc_count * sizeof(*core->vc_order));
    for (uint32_t i = 0; i < old->job_top; i++)
        carry_job(&c, i);
    carry_health(&c);
    r = carry_shares(&c);
    if (r < 0) {
        core_free(core);
        return error_set(err, r, "jobs do not fit into the cluster as it would be");
    }
    r = licenses_restore(core);
    assert(r == 0);
    carry_movers(&c);
    own_carry(core, old, gpus);
    carry_policies(&c);
    for (uint32_t v = 0; v < old->vc_count; v++)
        for (uint32_t i = old->vcs[v].run_first; i != JOB_NONE; i = old->jobs[i].next)
            if (job_holds(core->jobs[i].state)) {
                core->jobs[i].prev = core->vcs[v].run_last;
                core_attach(core, i);
            }
    for (uint32_t i = 0; i < core->job_top; i++) {
        core->vcs[core->jobs[i].vc].suspended += core->jobs[i].state == JOB_SUSPENDED;
        core->vcs[core->jobs[i].vc].resizing += core->jobs[i].size != 0;
        if (job_gpuless(&core->jobs[i]) && job_holds(core->jobs[i].state))
            tasks_attach(core, i);
        if (job_waits(core->jobs[i].state))
            carry_waiting(&c, i);
    }
    *ret_core = core;
    return 0;
}
