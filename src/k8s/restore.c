/* SPDX-License-Identifier: Apache-2.0 */
/* restore.c - the state from bound pods and their annotations, for a scheduler that starts or takes over.
 *
 * A core whose policy is planner_restore is given each gang that is bound and starts it where it is; then the jobs are
 * carried into a core with the real policies. A gang that was caught half bound is completed by the plan that its first
 * pod carries; pods of it that are no more were replaced later, and are none of it. What does not fit (nodes that are
 * no more, devices that two pods name) stays outside of the core: its GPUs are out of order until its pods are gone.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/contract/plan.h"
#include "core/contract/view.h"
#include "io/log.h"
#include "k8s/sched.h"
#include "wire/text/decimal.h"

/* The scheduler that is being restored: a planner is told nothing but its view. */
static const struct sched *restoring;

static int by_number(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;

    return (a > b) - (a < b);
}

/* GPUs of a workload's members by the core's numbers, ascending. 0: some are not there, or twice. */
static uint32_t gpus_of(const struct sched *sched, const struct workload *workload, uint32_t *gpus)
{
    const struct topo *topo = &core_ledger(sched->core)->topo;
    uint32_t count = 0;

    for (uint32_t m = 0; m < workload->member_count; m++) {
        const struct member *member = &workload->members[m];

        if (member->state == MEMBER_OVER)
            continue;
        if (!member->node || member->node->index >= topo->node_count)
            return 0;
        for (uint32_t d = 0; d < member->gpus; d++) {
            if (member->devices[d] >= topo->nodes[member->node->index].gpus)
                return 0;
            gpus[count++] = topo->nodes[member->node->index].first_gpu + member->devices[d];
        }
    }
    qsort(gpus, count, sizeof(*gpus), by_number);
    for (uint32_t i = 1; i < count; i++)
        if (gpus[i] == gpus[i - 1])
            return 0;
    return count;
}

static uint32_t gpus_count(const struct workload *workload)
{
    uint32_t count = 0;

    for (uint32_t m = 0; m < workload->member_count; m++)
        count += workload->members[m].state == MEMBER_OVER ? 0 : workload->members[m].gpus;
    return count;
}

static void restore_plan(struct planner_ctx *ctx, struct plan *plan)
{
    const struct sched *sched = restoring;

    if (!sched || ctx->view->own)
        return; /* inside a guarantee GPUs have other numbers: the core takes the jobs in when they run */
    for (uint32_t j = 0; j < view_job_top(ctx->view); j++) {
        const struct job *job = view_job(ctx->view, j);
        const struct workload *workload = sched->by_slot[j];
        uint32_t *gpus, count;

        if (!workload || job->vc != ctx->vc->index || !job_waits((enum job_state)job->state) ||
            (job->klass == CLASS_OPPORTUNISTIC) != plan_for_guests(plan))
            continue;
        gpus = mem_zalloc((size_t)gpus_count(workload) + 1, sizeof(*gpus));
        count = gpus ? gpus_of(sched, workload, gpus) : 0;
        if (count)
            (void)plan_start(plan, j, &(struct placement){ gpus, count });
        mem_free(gpus);
    }
}

const struct planner_ops planner_restore = {
    .name = "restore",
    .summary = "jobs where they are",
    .plan = restore_plan,
};

/* ---- workloads from pods ---- */

static void member_take(struct sched *sched, struct member *member, enum member_state state, const char *node,
                        const uint16_t *devices)
{
    member->state = state;
    member->node = table_get(&sched->nodes, node);
    (void)snprintf(member->node_name, sizeof(member->node_name), "%s", node);
    memcpy(member->devices, devices, member->gpus * sizeof(*devices));
}

static bool pod_restores(const struct sched *sched, const struct k8s_pod *pod)
{
    return pod_ours(sched, pod) && pod->node[0] && !pod_over(pod) && !pod->of && pod->gpus && pod->placed &&
           pod->device_count == pod->gpus;
}

/* Places of pods that were not bound yet, from the plan of the first. */
static bool plan_find_place(const json_t *plan, const struct k8s_pod *pod, const char **ret_node, uint16_t *devices)
{
    json_t *row;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)plan, i, row)
    {
        const char *text = json_string_value(json_array_get(row, 3));
        const char *uid = json_string_value(json_array_get(row, 1));
        uint32_t count = 0;

        *ret_node = json_string_value(json_array_get(row, 2));
        if (!text || !uid || !*ret_node || strcmp(uid, pod->uid) != 0)
            continue;
        while (*text && count < pod->gpus) {
            size_t length = strcspn(text, ",");
            int64_t value;

            if (decimal_parse_i64(text, length, &value) < 0 || value < 0 || value > UINT16_MAX)
                return false;
            devices[count++] = (uint16_t)value;
            text += length + (text[length] == ',');
        }
        return count == pod->gpus && !*text;
    }
    return false;
}

/* A pod that the plan names is gone, and the gang was never whole. */
static bool plan_torn(const struct sched *sched, const struct k8s_pod *first)
{
    char key[2 * NAME_MAX_K8S];
    json_t *row;
    size_t i;

    json_array_foreach(first->plan, i, row)
    {
        const char *name = json_string_value(json_array_get(row, 0)), *uid = json_string_value(json_array_get(row, 1));
        const struct k8s_pod *pod;

        (void)snprintf(key, sizeof(key), "%.63s/%.253s", first->namespace, name ? name : "");
        pod = table_get(&sched->pods, key);
        if (!first->whole && (!pod || !uid || strcmp(pod->uid, uid) != 0))
            return true;
    }
    return false;
}

static struct workload *take_gang(struct sched *sched, struct gang *gang, struct k8s_pod **pods, size_t count)
{
    struct workload *workload;
    const json_t *plan = NULL;

    for (size_t i = 0; i < count; i++)
        plan = pods[i]->plan ? pods[i]->plan : plan;
    workload = workload_new(sched, gang, pods, count);
    for (size_t i = 0; workload && i < count; i++)
        workload->torn |= plan_torn(sched, pods[i]);
    for (uint32_t m = 0; workload && m < workload->member_count; m++) {
        struct member *member = &workload->members[m];
        uint16_t devices[DEVICES_MAX] = { 0 };
        const char *node;

        if (member->pod->node[0])
            member_take(sched, member, MEMBER_BOUND, member->pod->node, member->pod->devices);
        else if (plan_find_place(plan, member->pod, &node, devices))
            member_take(sched, member, MEMBER_WAITING, node, devices);
    }
    return workload;
}

/* All pods of the gang that have a place: bound ones, and those that the plan names. */
static int take_pod(struct sched *sched, struct k8s_pod *first)
{
    struct gang *gang = gang_of(sched, first);
    struct k8s_pod **pods = mem_zalloc(sched->pods.count + 1, sizeof(*pods));
    const json_t *plan = first->plan;
    uint16_t devices[DEVICES_MAX];
    struct workload *workload;
    const char *node;
    size_t count = 0;

    if (!gang || !pods) {
        mem_free(pods);
        return -ENOMEM;
    }
    pods[count++] = first;
    for (size_t i = 0; first->mark != GANG_NONE && i < sched->pods.count; i++) {
        struct k8s_pod *pod = sched->pods.entries[i].value;

        if (pod != first && pod_restores(sched, pod) && pod->mark == first->mark &&
            strcmp(pod->gang, first->gang) == 0 && strcmp(pod->namespace, first->namespace) == 0) {
            pods[count++] = pod;
            plan = pod->plan ? pod->plan : plan;
        }
    }
    for (size_t i = gang->pod_count; plan && i-- > 0;)
        if (plan_find_place(plan, gang->pods[i], &node, devices))
            pods[count++] = gang->pods[i];
    workload = take_gang(sched, gang, pods, count);
    mem_free(pods);
    if (!workload)
        return -ENOMEM;
    if (first->mark != GANG_NONE && !gang->main)
        gang->main = workload;
    return 0;
}

/* ---- into the core ---- */

static void spec_restore(const struct sched *sched, struct workload *workload)
{
    struct jobspec *spec = &workload->spec;
    int64_t mcpus = 0, memory = 0;
    const struct k8s_pod *first = NULL;

    *spec = (struct jobspec){
        .id = workload->id, .share = MGPU_ONE, .user = NAME_NONE, .model = NAME_NONE, .submit = sched->now
    };
    for (uint32_t m = 0; m < workload->member_count; m++) {
        const struct member *member = &workload->members[m];

        if (member->state == MEMBER_OVER || !member->pod)
            continue;
        first = first ? first : member->pod;
        mcpus += member->pod->mcpus;
        memory += member->pod->memory;
        spec->submit = member->pod->created < spec->submit ? member->pod->created : spec->submit;
        spec->time_limit = member->pod->deadline_span;
    }
    spec->gpus = spec->gpus_min = spec->gpus_max = (int32_t)gpus_count(workload);
    if (!first || !spec->gpus)
        return;
    spec->priority = (int16_t)priority_rank(sched, first);
    spec->klass = first->opportunistic ? CLASS_OPPORTUNISTIC : CLASS_GUARANTEED;
    /* What its nodes have left is told by what they were described with: it fits, whatever is rounded. */
    spec->mcpus = (uint32_t)(mcpus / spec->gpus);
    spec->host_mib = (uint32_t)(memory / (1 << 20) / spec->gpus);
}

/* A gang that is not whole cannot be completed from there either. */
static void outside(struct sched *sched, struct workload *workload)
{
    bool torn = workload->torn;

    log_warn("pods stay outside of the core: where they are is not to be had, or no virtual cluster is theirs", "gang",
             workload->gang->name);
    workload->in_core = false;
    workload->state = WORKLOAD_RUNNING;
    for (uint32_t m = 0; m < workload->member_count; m++)
        torn |= workload->members[m].state == MEMBER_WAITING;
    if (torn)
        workload_leave(sched, workload, false);
}

static void submit_one(struct sched *sched, struct workload *workload)
{
    struct error err = { 0 };
    struct job_ref ref;
    uint32_t *gpus = mem_zalloc((size_t)gpus_count(workload) + 1, sizeof(*gpus));

    spec_restore(sched, workload);
    workload->vc = workload_vc(sched, workload);
    if (!gpus || !workload->spec.gpus || workload->vc == UINT32_MAX || !gpus_of(sched, workload, gpus) ||
        core_offer(sched->core,
                   &(struct event){ .kind = EVENT_SUBMIT, .target = workload->vc, .spec = &workload->spec }, &ref,
                   &err) < 0) {
        outside(sched, workload);
    } else {
        workload->slot = ref.index;
        workload->gen = ref.gen;
        workload->state = WORKLOAD_QUEUED;
        workload->restored = true;
        sched->by_slot[ref.index] = workload;
    }
    mem_free(gpus);
}

/* Those that the planner could not start where they are do not wait in the core either. */
static void settle(struct sched *sched)
{
    for (size_t i = sched->workload_count; i-- > 0;) {
        struct workload *workload = sched->workloads[i];

        if (!workload->in_core || workload->state != WORKLOAD_QUEUED)
            continue;
        sched_offer(sched, &(struct event){ .kind = EVENT_CANCEL, .job = workload->slot, .gen = workload->gen });
        sched->by_slot[workload->slot] = NULL;
        workload->state = WORKLOAD_RUNNING;
        outside(sched, workload);
    }
}

/* Whoever waits does so anew; whoever holds GPUs is to be started again where it is. */
static void workloads_loosen(struct sched *sched)
{
    for (size_t i = sched->workload_count; i-- > 0;) {
        struct workload *workload = sched->workloads[i];

        workload->cancelled = false;
        workload->in_core = false;
        if (workload->state <= WORKLOAD_QUEUED)
            workload_free(sched, workload);
    }
}

int restore_workloads(struct sched *sched, struct error *err)
{
    const struct outbox *out;
    int r = 0;

    workloads_loosen(sched);
    core_free(sched->core);
    sched->core = NULL;
    memset(sched->by_slot, 0, sched->slot_capacity * sizeof(struct workload *));
    for (size_t i = 0; r == 0 && i < sched->pods.count; i++)
        if (pod_restores(sched, sched->pods.entries[i].value))
            r = take_pod(sched, sched->pods.entries[i].value);
    for (size_t i = 0; i < sched->workload_count; i++)
        sched->workloads[i]->in_core =
            gpus_count(sched->workloads[i]) > 0; /* what nodes have left counts without them */
    if (r == 0)
        r = fleet_rebuild(sched, true, err);
    if (r < 0) {
        for (size_t i = 0; i < sched->workload_count; i++)
            sched->workloads[i]->in_core = false;
        return r;
    }
    for (size_t i = sched->workload_count; i-- > 0;) /* one that is nobody's is dropped at once */
        if (sched->workloads[i]->in_core)
            submit_one(sched, sched->workloads[i]);
    restoring = sched;
    out = core_step(sched->core, sched->now);
    restoring = NULL;
    effects_apply(sched, out);
    sched->stepped = sched->now;
    settle(sched);
    effects_apply(sched, core_step(sched->core, sched->now));
    return fleet_rebuild(sched, false, err);
}
