/* SPDX-License-Identifier: Apache-2.0 */
/* gangs.c - pods that belong together become one job of the core.
 *
 * The pods of a gang are gathered until there are as many as it needs at least; then all that are there become one
 * workload, which is bound whole or not at all. What comes later (a pod more than the least, one that replaces another
 * that has failed) is a workload of its own.
 *
 * The core counts GPUs, and its jobs have one shape. So pods become bins of as many GPUs as the largest of them asks
 * for; smaller ones share bins where they fit, and those without GPUs go along with others. CPUs and memory are asked
 * for with each GPU, as much as the fullest bin needs: what that rounds up is not given to others.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/log.h"
#include "k8s/sched.h"

static bool pod_waits(const struct sched *sched, const struct k8s_pod *pod)
{
    return pod_ours(sched, pod) && !pod->node[0] && pod->phase == POD_PENDING && !pod->deleting && !pod->gated;
}

static void gang_key(const struct k8s_pod *pod, char *key, size_t size)
{
    if (pod->mark == GANG_NONE)
        (void)snprintf(key, size, "%s/pod/%s", pod->namespace, pod->uid);
    else
        (void)snprintf(key, size, "%s/%d/%s", pod->namespace, (int)pod->mark, pod->gang);
}

struct gang *gang_of(struct sched *sched, const struct k8s_pod *pod)
{
    char key[3 * NAME_MAX_K8S];
    struct gang *gang;

    gang_key(pod, key, sizeof(key));
    gang = table_get(&sched->gangs, key);
    if (gang)
        return gang;
    gang = mem_zalloc(1, sizeof(*gang));
    if (!gang || !(gang->key = mem_strdup(key)) || table_put(&sched->gangs, key, gang) < 0) {
        if (gang)
            mem_free(gang->key);
        mem_free(gang);
        return NULL;
    }
    gang->mark = pod->mark;
    (void)snprintf(gang->namespace, sizeof(gang->namespace), "%s", pod->namespace);
    (void)snprintf(gang->name, sizeof(gang->name), "%s", pod->mark == GANG_NONE ? pod->name : pod->gang);
    return gang;
}

static void gang_drop(struct sched *sched, struct gang *gang)
{
    if (gang->pod_count || gang->workloads)
        return;
    (void)table_remove(&sched->gangs, gang->key);
    mem_free(gang->key);
    mem_free(gang->pods);
    mem_free(gang);
}

void gang_add(struct sched *sched, struct k8s_pod *pod)
{
    struct gang *gang = pod_waits(sched, pod) ? gang_of(sched, pod) : NULL;
    void *block;

    if (!gang)
        return;
    for (size_t i = 0; i < gang->pod_count; i++)
        if (gang->pods[i] == pod)
            return;
    block = gang->pods;
    if (mem_grow(&block, &gang->pod_capacity, gang->pod_count + 1, PODS_MAX, sizeof(struct k8s_pod *)) == 0)
        ((struct k8s_pod **)block)[gang->pod_count++] = pod;
    gang->pods = block;
    gang->dirty = true;
}

void gang_remove(struct sched *sched, struct k8s_pod *pod)
{
    char key[3 * NAME_MAX_K8S];
    struct gang *gang;

    gang_key(pod, key, sizeof(key));
    gang = table_get(&sched->gangs, key);
    for (size_t i = 0; gang && i < gang->pod_count; i++)
        if (gang->pods[i] == pod) {
            gang->pods[i] = gang->pods[--gang->pod_count];
            gang->dirty = true;
            break;
        }
    if (gang)
        gang_drop(sched, gang);
}

/* ---- priorities ---- */

static int by_value(const void *x, const void *y)
{
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;

    return (a > b) - (a < b);
}

/* The core has priorities of 0 to 1000: the rank of the value among those of the priority classes. */
int32_t priority_rank(const struct sched *sched, const struct k8s_pod *pod)
{
    int64_t *values;
    int32_t rank = 0;
    int64_t last = 0;

    if (pod->priority_hived)
        return pod->priority;
    if (pod->priority <= 0 || sched->ranks.count == 0)
        return pod->priority > 0;
    values = mem_zalloc(sched->ranks.count, sizeof(*values));
    if (!values)
        return 0;
    for (size_t i = 0; i < sched->ranks.count; i++)
        values[i] = (intptr_t)sched->ranks.entries[i].value - 1;
    qsort(values, sched->ranks.count, sizeof(*values), by_value);
    for (size_t i = 0; i < sched->ranks.count && values[i] <= pod->priority; i++)
        if (values[i] > last) {
            last = values[i];
            rank += rank < PRIORITY_MAX;
        }
    mem_free(values);
    return rank;
}

/* ---- workloads ---- */

/* It is part of a workload from now on. */
static void gang_remove_quietly(struct gang *gang, const struct k8s_pod *pod)
{
    for (size_t i = 0; i < gang->pod_count; i++)
        if (gang->pods[i] == pod) {
            gang->pods[i] = gang->pods[--gang->pod_count];
            return;
        }
}

static int by_age(const void *x, const void *y)
{
    const struct k8s_pod *a = *(struct k8s_pod *const *)x, *b = *(struct k8s_pod *const *)y;

    if (a->gpus != b->gpus) /* large ones first: they open the bins */
        return a->gpus > b->gpus ? -1 : 1;
    return a->created != b->created ? (a->created > b->created ? 1 : -1) : strverscmp(a->name, b->name);
}

struct workload *workload_new(struct sched *sched, struct gang *gang, struct k8s_pod *const *pods, size_t count)
{
    struct workload *workload = mem_zalloc(1, sizeof(*workload));
    void *block = sched->workloads;
    struct k8s_pod **sorted = mem_zalloc(count, sizeof(*sorted));

    if (workload)
        workload->members = mem_zalloc(count, sizeof(*workload->members));
    if (!workload || !workload->members || !sorted ||
        mem_grow(&block, &sched->workload_capacity, sched->workload_count + 1, PODS_MAX, sizeof(workload)) < 0) {
        if (workload)
            mem_free(workload->members);
        mem_free(workload);
        mem_free(sorted);
        return NULL;
    }
    sched->workloads = block;
    memcpy(sorted, pods, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), by_age);
    workload->index = (uint32_t)sched->workload_count;
    workload->id = ++sched->next_id;
    workload->gang = gang;
    workload->class = CLASSES_MAX;
    workload->member_count = (uint32_t)count;
    workload->ok = true;
    workload->since = sched->now;
    for (size_t i = 0; i < count; i++) {
        workload->members[i] = (struct member){ .workload = workload, .pod = sorted[i] };
        workload->members[i].gpus = (uint16_t)sorted[i]->gpus;
        gang_remove_quietly(gang, sorted[i]);
        sorted[i]->of = workload;
        sorted[i]->slot = (uint32_t)i;
    }
    mem_free(sorted);
    sched->workloads[sched->workload_count++] = workload;
    gang->workloads++;
    return workload;
}

void workload_free(struct sched *sched, struct workload *workload)
{
    struct gang *gang = workload->gang;

    assert(!workload->in_core);
    if (workload->class < CLASSES_MAX)
        sched->classes[workload->class].jobs--;
    sched->workloads[workload->index] = sched->workloads[--sched->workload_count];
    sched->workloads[workload->index]->index = workload->index;
    gang->workloads--;
    if (gang->main == workload)
        gang->main = NULL;
    gang->dirty = true;
    for (uint32_t m = 0; m < workload->member_count; m++) {
        struct k8s_pod *pod = workload->members[m].pod;

        if (!pod)
            continue;
        pod->of = NULL;
        if (pod->node[0] && !pod_over(pod))
            sched->usage_dirty = true;
        gang_add(sched, pod); /* if it still waits */
    }
    mem_free(workload->members);
    mem_free(workload);
    gang_drop(sched, gang);
}

void workload_refuse(struct sched *sched, struct workload *workload, const char *code, const char *text)
{
    workload->state = WORKLOAD_REFUSED;
    workload->retry_at = sched->now + 5 * USEC_SEC;
    (void)snprintf(workload->code, sizeof(workload->code), "%s", code);
    (void)snprintf(workload->text, sizeof(workload->text), "%s", text);
}

/* ---- what it asks for ---- */

struct bin {
    uint32_t gpus;
    int64_t mcpus, memory;
};

static void bins_fill(struct workload *workload, struct bin *bins)
{
    workload->bins = 0;
    for (uint32_t m = 0; m < workload->member_count; m++) {
        struct member *member = &workload->members[m];
        uint32_t best = 0;

        if (member->gpus) {
            while (best < workload->bins && bins[best].gpus + member->gpus > workload->chunk)
                best++;
            workload->bins += best == workload->bins;
        } else {
            for (uint32_t b = 1; b < workload->bins; b++)
                if (bins[b].mcpus < bins[best].mcpus)
                    best = b;
        }
        member->bin = best;
        bins[best].gpus += member->gpus;
        bins[best].mcpus += member->pod->mcpus;
        bins[best].memory += member->pod->memory;
    }
}

static uint32_t ceil_div(int64_t value, int64_t by)
{
    int64_t out = value / by + (value % by != 0);

    return out > INT32_MAX ? INT32_MAX : (uint32_t)out;
}

/* A level at which cells have so many GPUs; WITHIN_ANY: none below the node. */
static enum job_level unit_of(const struct sched *sched, uint32_t gpus)
{
    const struct topo *topo = &core_ledger(sched->core)->topo;
    static const enum job_level levels[LEVEL_COUNT] = { [LEVEL_GROUP] = WITHIN_GROUP, [LEVEL_SOCKET] = WITHIN_SOCKET };
    enum job_level best = WITHIN_ANY;

    for (uint32_t c = 0; c < topo->cell_count; c++)
        if (topo->cells[c].level <= LEVEL_SOCKET && topo->cells[c].gpu_count == gpus)
            best = levels[topo->cells[c].level];
    return best;
}

static uint32_t node_gpus_most(const struct sched *sched)
{
    const struct topo *topo = &core_ledger(sched->core)->topo;
    uint32_t most = 0;

    for (uint32_t s = 0; s < topo->sku_count; s++)
        most = topo->node_gpus_max[s] > most ? topo->node_gpus_max[s] : most;
    return most;
}

static int spec_gpus(const struct sched *sched, struct workload *workload, struct jobspec *spec)
{
    struct bin *bins = mem_zalloc(workload->member_count, sizeof(*bins));

    if (!bins)
        return -ENOMEM;
    bins_fill(workload, bins);
    for (uint32_t b = 0; b < workload->bins; b++) {
        uint32_t mcpus = ceil_div(bins[b].mcpus, workload->chunk);
        uint32_t mib = ceil_div(ceil_div(bins[b].memory, 1 << 20), workload->chunk);

        spec->mcpus = mcpus > spec->mcpus ? mcpus : spec->mcpus;
        spec->host_mib = mib > spec->host_mib ? mib : spec->host_mib;
    }
    mem_free(bins);
    spec->gpus = (int32_t)(workload->bins * workload->chunk);
    if (workload->chunk > 1) {
        enum job_level unit = workload->bins > 1 && workload->chunk * 2 <= node_gpus_most(sched)
                                  ? unit_of(sched, workload->chunk)
                                  : WITHIN_ANY;

        if (unit) {
            spec->unit = (uint8_t)unit;
            spec->per_unit = (uint16_t)workload->chunk;
        } else {
            spec->per_node = (uint16_t)workload->chunk;
        }
    }
    spec->gpus_min = spec->gpus_max = spec->gpus;
    return 0;
}

static void spec_tasks(struct workload *workload, struct jobspec *spec)
{
    spec->tasks = (int32_t)workload->member_count;
    spec->mcpus = 1;
    for (uint32_t m = 0; m < workload->member_count; m++) {
        const struct k8s_pod *pod = workload->members[m].pod;

        if (ceil_div(pod->mcpus, 1) > spec->mcpus)
            spec->mcpus = ceil_div(pod->mcpus, 1);
        if (ceil_div(pod->memory, 1 << 20) > spec->host_mib)
            spec->host_mib = ceil_div(pod->memory, 1 << 20);
        workload->members[m].bin = m;
    }
}

static int spec_fill(struct sched *sched, struct workload *workload)
{
    const struct k8s_pod *first = workload->members[0].pod;
    struct jobspec *spec = &workload->spec;

    *spec = (struct jobspec){ .id = workload->id,
                              .submit = first->created,
                              .share = MGPU_ONE,
                              .user = NAME_NONE,
                              .model = NAME_NONE,
                              .vc = NAME_NONE };
    workload->chunk = 0;
    for (uint32_t m = 0; m < workload->member_count; m++) {
        const struct k8s_pod *pod = workload->members[m].pod;
        int32_t rank = priority_rank(sched, pod);

        spec->submit = pod->created < spec->submit ? pod->created : spec->submit;
        spec->priority = (int16_t)(rank > spec->priority || m == 0 ? rank : spec->priority);
        spec->time_limit = pod->deadline_span > spec->time_limit ? pod->deadline_span : spec->time_limit;
        workload->chunk = pod->gpus > workload->chunk ? pod->gpus : workload->chunk;
    }
    spec->submit = spec->submit > sched->now ? sched->now : spec->submit;
    spec->klass = first->opportunistic ? CLASS_OPPORTUNISTIC : CLASS_GUARANTEED;
    spec->mark = (uint8_t)(workload->class + 1);
    for (uint32_t s = 0; first->sku[0] && s < sched->cluster.sku_count; s++)
        if (strcmp(names_get(&sched->cluster.names, sched->cluster.skus[s].name), first->sku) == 0)
            spec->sku_mask |= 1u << s;
    if (first->sku[0] && !spec->sku_mask)
        return -ENODEV;
    if (workload->chunk)
        return spec_gpus(sched, workload, spec);
    spec_tasks(workload, spec);
    return 0;
}

/* ---- its virtual cluster ---- */

static const char *vc_name(const struct sched *sched, const struct k8s_pod *pod)
{
    const char *name =
        json_string_value(json_object_get(json_object_get(sched->conf.settings, "namespaces"), pod->namespace));

    if (pod->vc[0])
        return pod->vc;
    if (name)
        return name;
    return fleet_vc(sched, pod->namespace) != UINT32_MAX ? pod->namespace : "default";
}

uint32_t workload_vc(const struct sched *sched, const struct workload *workload)
{
    for (uint32_t m = 0; m < workload->member_count; m++)
        if (workload->members[m].pod)
            return fleet_vc(sched, vc_name(sched, workload->members[m].pod));
    return UINT32_MAX;
}

/* All pods of a gang agree, or it is refused. */
static bool members_agree(struct sched *sched, struct workload *workload)
{
    const struct k8s_pod *first = workload->members[0].pod;
    char text[REASON_TEXT_MAX];

    for (uint32_t m = 0; m < workload->member_count; m++) {
        const struct k8s_pod *pod = workload->members[m].pod;

        if (pod->refused) {
            (void)snprintf(text, sizeof(text), "pod %.200s: %.250s", pod->name, json_string_value(pod->refused));
            workload_refuse(sched, workload, "NotSupported", text);
            return false;
        }
        if (strcmp(vc_name(sched, pod), vc_name(sched, first)) != 0 || pod->opportunistic != first->opportunistic ||
            strcmp(pod->sku, first->sku) != 0) {
            workload_refuse(sched, workload, "GangDisagrees",
                            "pods of the gang differ in virtual cluster, class or GPU type");
            return false;
        }
    }
    return true;
}

/* Constraints of all pods hold for all of the gang's nodes. */
static bool class_choose(struct sched *sched, struct workload *workload)
{
    struct k8s_pod all = { .wants = json_object() };
    uint32_t class;

    for (uint32_t m = 0; m < workload->member_count; m++) {
        const struct k8s_pod *pod = workload->members[m].pod;

        if (m && (!json_equal(pod->wants, workload->members[0].pod->wants))) {
            json_decref(all.wants);
            workload_refuse(sched, workload, "GangDisagrees",
                            "pods of the gang differ in nodeSelector, node affinity or tolerations");
            return false;
        }
        if (pod->extra_count > all.extra_count) {
            all.extra_count = pod->extra_count;
            memcpy(all.extra, pod->extra, sizeof(all.extra));
        }
    }
    json_decref(all.wants);
    all.wants = workload->members[0].pod->wants;
    class = fleet_class(sched, &all);
    if (class == CLASSES_MAX) {
        workload_refuse(sched, workload, "TooManyConstraints",
                        "64 different sets of constraints on nodes are in use already, the limit");
        return false;
    }
    if (workload->class < CLASSES_MAX)
        sched->classes[workload->class].jobs--;
    workload->class = class;
    sched->classes[class].jobs++;
    return true;
}

static int submit(struct sched *sched, struct workload *workload, struct error *err)
{
    struct event event = { .kind = EVENT_SUBMIT, .target = workload->vc, .spec = &workload->spec };
    struct job_ref ref;
    int r;

    workload->spec.vc = workload->vc;
    r = core_offer(sched->core, &event, &ref, err);
    if (r == -ERANGE && workload->spec.unit) { /* no node has such cells: one pod a node */
        workload->spec.per_node = workload->spec.per_unit;
        workload->spec.per_unit = 0;
        workload->spec.unit = 0;
        r = core_offer(sched->core, &event, &ref, err);
    }
    if (r < 0)
        return r;
    workload->slot = ref.index;
    workload->gen = ref.gen;
    workload->in_core = true;
    workload->state = WORKLOAD_QUEUED;
    sched->by_slot[ref.index] = workload;
    sched->offered = true;
    return 0;
}

void workload_submit(struct sched *sched, struct workload *workload)
{
    struct error err = { 0 };
    char text[REASON_TEXT_MAX], eligible[256];
    int r;

    if (!members_agree(sched, workload) || !class_choose(sched, workload))
        return;
    if (sched->nodes_dirty || !sched->core) { /* its mark is on no node yet */
        workload_refuse(sched, workload, "Scheduling", sched->core ? "not looked at yet" : sched->broken);
        workload->retry_at = sched->now + USEC_SEC / 20;
        return;
    }
    workload->vc = fleet_vc(sched, vc_name(sched, workload->members[0].pod));
    if (workload->vc == UINT32_MAX) {
        (void)snprintf(text, sizeof(text), "there is no virtual cluster '%.100s'",
                       vc_name(sched, workload->members[0].pod));
        workload_refuse(sched, workload, "NoSuchVc", text);
        return;
    }
    r = spec_fill(sched, workload);
    if (r == 0)
        r = submit(sched, workload, &err);
    else
        (void)error_set(&err, r, r == -ENODEV ? "no node has the GPU type it asks for" : "no memory");
    if (r < 0) {
        fleet_eligible(sched, workload->members[0].pod, eligible, sizeof(eligible));
        (void)snprintf(text, sizeof(text), "%.240s; %.240s", err.text, eligible);
        workload_refuse(sched, workload, r == -ENOSPC ? "Limit" : "Infeasible", text);
    }
}

/* ---- gathering ---- */

static uint32_t number_of(const struct table *table, const char *namespace, const char *name, const char *end,
                          bool *ret_known)
{
    char key[2 * NAME_MAX_K8S + 8];
    intptr_t number;

    (void)snprintf(key, sizeof(key), "%s/%s%s", namespace, name, end);
    number = (intptr_t)table_get(table, key);
    *ret_known = number > 0;
    return number > 0 ? (uint32_t)(number - 1) : 0;
}

/* Pods it needs at least; 0: they are independent of each other. False: nobody has said yet. */
static bool gang_least(const struct sched *sched, const struct gang *gang, uint32_t *ret_least)
{
    bool known = true;

    *ret_least = 0;
    switch (gang->mark) {
    case GANG_NONE:
    case GANG_MARKS:
        break;
    case GANG_SCHEDULING:
    case GANG_COSCHED:
    case GANG_VOLCANO:
        *ret_least = number_of(&sched->groups, gang->namespace, gang->name, "", &known);
        break;
    case GANG_KUEUE:
    case GANG_HIVED:
        for (size_t i = 0; i < gang->pod_count; i++)
            if (gang->pods[i]->gang_pods > *ret_least)
                *ret_least = gang->pods[i]->gang_pods;
        known = *ret_least > 0;
        break;
    case GANG_JOBSET:
        *ret_least = number_of(&sched->sizes, gang->namespace, gang->name, "/set", &known);
        break;
    case GANG_JOB:
        *ret_least = number_of(&sched->sizes, gang->namespace, gang->name, "", &known);
        break;
    }
    return known;
}

static void gather_alone(struct sched *sched, struct gang *gang)
{
    while (gang->pod_count) {
        struct k8s_pod *pod = gang->pods[0];
        struct workload *workload = workload_new(sched, gang, &pod, 1);

        if (!workload)
            return;
        workload_submit(sched, workload);
    }
}

/* A pod that was made in place of one that has ended takes its GPUs. */
static void gather_replacing(struct gang *gang)
{
    struct workload *main = gang->main;

    for (uint32_t m = 0; gang->pod_count && m < main->member_count; m++) {
        struct member *member = &main->members[m];
        struct k8s_pod *pod = gang->pods[0];

        if (member->state != MEMBER_OVER || member->flight || member->failed || member->gpus != pod->gpus ||
            !member->node || !member->node->ready || member->node->closed || pod->refused || main->cancelled)
            continue;
        if (member->pod)
            member->pod->of = NULL;
        member->pod = pod;
        member->state = MEMBER_WAITING;
        member->leaving = false;
        member->tries = 0;
        member->try_at = 0;
        gang_remove_quietly(gang, pod);
        pod->of = main;
        pod->slot = m;
    }
}

/* Whether the gang as such runs, so that what comes now comes in addition. */
static bool gang_runs(const struct gang *gang)
{
    return gang->main && (gang->main->state == WORKLOAD_RUNNING);
}

static void gang_wait(struct gang *gang, const char *code, const char *text)
{
    (void)snprintf(gang->code, sizeof(gang->code), "%s", code);
    (void)snprintf(gang->text, sizeof(gang->text), "%s", text);
}

void gang_gather(struct sched *sched, struct gang *gang)
{
    char text[REASON_TEXT_MAX];
    uint32_t least;

    gang->dirty = sched->now < gang->hold_until;
    if (gang->pod_count == 0 || gang->dirty)
        return;
    gang->code[0] = '\0';
    if (!gang_least(sched, gang, &least)) {
        (void)snprintf(text, sizeof(text), "%s: '%.200s' does not exist, or does not say how many pods there are",
                       gang_mark_name(gang->mark), gang->name);
        gang_wait(gang, "GangUnknown", text);
        return;
    }
    gang->least = least;
    if (gang_runs(gang))
        gather_replacing(gang);
    if (least == 0 || gang_runs(gang)) {
        gather_alone(sched, gang);
        return;
    }
    if (gang->main && gang->main->state <= WORKLOAD_QUEUED) {
        /* Members that came before it started are part of it: it is made anew with them. */
        workload_cancel(sched, gang->main);
        return;
    }
    if (gang->main) {
        gang_wait(gang, "GangStarting", "the rest of its gang is being bound or leaves");
        return;
    }
    if (gang->pod_count < least || gang->pod_count > GANG_PODS_MAX) {
        (void)snprintf(text, sizeof(text), "gang %.200s: %zu of %u pods are there%s", gang->name, gang->pod_count,
                       least, gang->pod_count > GANG_PODS_MAX ? "; more than 1024 are not supported" : "");
        gang_wait(gang, "GangIncomplete", text);
        return;
    }
    gang->main = workload_new(sched, gang, gang->pods, gang->pod_count);
    if (gang->main)
        workload_submit(sched, gang->main);
}
