/* SPDX-License-Identifier: Apache-2.0 */
/* sched.c - see sched.h. */
#include "k8s/sched.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "io/clock.h"
#include "io/log.h"

enum { SLOTS_MAX = 1 << 16, STEPS_MAX = 1000 };
/* What nodes and other pods change is taken in together, so often at most. */
#define REBUILD_SPAN (USEC_SEC / 20)

int sched_init(struct sched *sched, struct client *client, const struct k8s_conf *conf, struct error *err)
{
    *sched = (struct sched){ .client = client,
                             .conf = *conf,
                             .name = "muster",
                             .identity = "muster-k8s",
                             .nodes = TABLE_INIT(100000),
                             .pods = TABLE_INIT(PODS_MAX),
                             .groups = TABLE_INIT(PODS_MAX),
                             .sizes = TABLE_INIT(PODS_MAX),
                             .ranks = TABLE_INIT(10000),
                             .gangs = TABLE_INIT(PODS_MAX),
                             .slot_capacity = SLOTS_MAX,
                             .broken = "no node is known yet" };
    sched->by_slot = mem_zalloc(SLOTS_MAX, sizeof(struct workload *));
    return sched->by_slot ? 0 : error_set(err, -ENOMEM, "no memory for jobs");
}

void sched_done(struct sched *sched)
{
    while (sched->workload_count) {
        sched->workloads[sched->workload_count - 1]->in_core = false;
        workload_free(sched, sched->workloads[sched->workload_count - 1]);
    }
    for (size_t i = 0; i < sched->gangs.count; i++) {
        struct gang *gang = sched->gangs.entries[i].value;

        mem_free(gang->key);
        mem_free(gang->pods);
        mem_free(gang);
    }
    for (size_t i = 0; i < sched->pods.count; i++) {
        pod_done(sched->pods.entries[i].value);
        mem_free(sched->pods.entries[i].value);
    }
    for (size_t i = 0; i < sched->nodes.count; i++) {
        node_done(sched->nodes.entries[i].value);
        mem_free(sched->nodes.entries[i].value);
    }
    for (uint32_t c = 0; c < CLASSES_MAX; c++) {
        mem_free(sched->classes[c].key);
        json_decref(sched->classes[c].wants);
    }
    table_done(&sched->nodes);
    table_done(&sched->pods);
    table_done(&sched->groups);
    table_done(&sched->sizes);
    table_done(&sched->ranks);
    table_done(&sched->gangs);
    core_free(sched->core);
    cluster_spec_done(&sched->cluster);
    mem_free(sched->policies);
    mem_free(sched->by_node);
    mem_free(sched->by_slot);
    mem_free(sched->workloads);
}

/* All of what waits may be possible now that was not, and the other way round. */
static void refused_retry(struct sched *sched)
{
    for (size_t i = 0; i < sched->workload_count; i++)
        if (sched->workloads[i]->state == WORKLOAD_REFUSED)
            sched->workloads[i]->retry_at = 0;
}

/* Until the instant is quiet; what the effects bring about at once is stepped at the same instant. */
static void step_all(struct sched *sched)
{
    bool wakes = core_next_wake(sched->core) <= sched->now;

    /* The core plans once an instant. What came since the last one, a new cluster above all, is to be planned with. */
    if (sched->now <= sched->stepped)
        sched->now = sched->stepped + 1;
    sched->stepped = sched->now;
    for (int i = 0; (sched->offered || wakes) && i < STEPS_MAX; i++) {
        sched->offered = wakes = false;
        effects_apply(sched, core_step(sched->core, sched->now));
        sched->counts.steps++;
    }
}

static void rebuild(struct sched *sched)
{
    struct error err = { 0 };
    int r;

    if (!sched->leading || !(sched->nodes_dirty || sched->usage_dirty) || sched->now < sched->rebuild_at)
        return;
    sched->rebuild_at = sched->now + REBUILD_SPAN;
    if (sched->core)
        step_all(sched); /* a core is carried with nothing offered */
    r = sched->core ? fleet_rebuild(sched, false, &err) : restore_workloads(sched, &err);
    if (r < 0 && sched->core) {
        log_info("the cluster is made anew", "why", err.text);
        r = restore_workloads(sched, &err);
    }
    sched->nodes_dirty = sched->usage_dirty = false;
    sched->broken[0] = '\0';
    if (r < 0) {
        log_warn("no cluster as configured", "why", err.text);
        (void)snprintf(sched->broken, sizeof(sched->broken), "no cluster as configured: %.400s", err.text);
        if (!sched->core) {
            sched->nodes_dirty = true;
            sched->rebuild_at = sched->now + USEC_SEC;
            return;
        }
    }
    fleet_health(sched); /* of the nodes there were, where there is no newer cluster */
    refused_retry(sched);
}

static void ranks_tell(struct sched *sched)
{
    for (size_t i = 0; sched->ranks_dirty && i < sched->workload_count; i++) {
        struct workload *workload = sched->workloads[i];
        const struct k8s_pod *pod = workload->members[0].pod;
        int32_t rank = pod ? priority_rank(sched, pod) : 0;

        if (!pod || !workload->in_core || workload->cancelled || workload->spec.priority == rank)
            continue;
        workload->spec.priority = (int16_t)rank;
        sched_offer(sched,
                    &(struct event){ .kind = EVENT_RANK, .job = workload->slot, .gen = workload->gen, .value = rank });
    }
    sched->ranks_dirty = false;
}

static void gather_all(struct sched *sched)
{
    for (size_t i = 0; i < sched->gangs.count; i++) {
        struct gang *gang = sched->gangs.entries[i].value;

        if (gang->dirty)
            gang_gather(sched, gang);
        if (i < sched->gangs.count && sched->gangs.entries[i].value != gang)
            i--; /* it is gone, and another took its place */
    }
}

int sched_lead(struct sched *sched, struct error *err)
{
    int r;

    sched->now = clock_now();
    sched->leading = true;
    sched->nodes_dirty = true;
    r = restore_workloads(sched, err);
    if (r < 0) {
        log_warn("no cluster as configured", "why", err->text);
        (void)snprintf(sched->broken, sizeof(sched->broken), "no cluster as configured: %.400s", err->text);
        return r;
    }
    fleet_health(sched);
    return 0;
}

usec_t sched_turn(struct sched *sched, usec_t now)
{
    usec_t next = now + USEC_SEC;

    /* Instants are the core's: it never goes back. */
    sched->now = now > sched->now ? now : sched->now;
    if (!sched->leading)
        return next;
    rebuild(sched);
    if (sched->core) {
        ranks_tell(sched);
        gather_all(sched);
        rebuild(sched); /* new constraints are marks of nodes before their pods are looked at */
        step_all(sched);
    }
    for (size_t i = sched->workload_count; sched->core && i-- > 0;) {
        usec_t at;

        if (i >= sched->workload_count)
            continue;
        at = workload_turn(sched, sched->workloads[i]);
        next = at < next ? at : next;
    }
    if (sched->core) {
        step_all(sched);
        if (core_next_wake(sched->core) < next)
            next = core_next_wake(sched->core);
    }
    if (sched->nodes_dirty || sched->usage_dirty)
        next = sched->rebuild_at < next ? sched->rebuild_at : next;
    why_turn(sched);
    return next > now ? next : now;
}
