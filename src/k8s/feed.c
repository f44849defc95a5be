/* SPDX-License-Identifier: Apache-2.0 */
/* feed.c - objects as they were listed or watched, into the scheduler's tables; see sched.h.
 *
 * Lists and watches may tell something twice, or late: what counts is the object as it is told, never the change. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "io/log.h"
#include "k8s/sched.h"
#include "wire/text/decimal.h"

bool pod_over(const struct k8s_pod *pod)
{
    return pod->phase == POD_SUCCEEDED || pod->phase == POD_FAILED;
}

bool pod_ours(const struct sched *sched, const struct k8s_pod *pod)
{
    return strcmp(pod->scheduler, sched->name) == 0;
}

static void key_of(const json_t *object, char *key, size_t size)
{
    (void)snprintf(key, size, "%s/%s", json_at_text(object, "metadata|namespace"),
                   json_at_text(object, "metadata|name"));
}

void sched_begin(void *arg)
{
    struct sched *sched = arg;

    sched->sweep++;
}

/* ---- pods ---- */

static void pod_drop(struct sched *sched, struct k8s_pod *pod)
{
    char key[2 * NAME_MAX_K8S];

    (void)snprintf(key, sizeof(key), "%s/%s", pod->namespace, pod->name);
    (void)table_remove(&sched->pods, key);
    if (pod->of)
        member_pod_gone(sched, &pod->of->members[pod->slot]);
    else
        gang_remove(sched, pod);
    if (pod->node[0])
        sched->usage_dirty = true;
    pod_done(pod);
    mem_free(pod);
}

/* What it was before, as far as it is the scheduler's own, and what it is now. */
static void pod_replace(struct sched *sched, struct k8s_pod *pod, struct k8s_pod *now)
{
    bool used = pod->node[0] && !pod_over(pod), uses = now->node[0] && !pod_over(now);
    bool waits = !pod->of && pod_ours(sched, pod);

    if (waits)
        gang_remove(sched, pod);
    now->of = pod->of;
    now->slot = pod->slot;
    now->told_at = pod->told_at;
    memcpy(now->told, pod->told, sizeof(now->told));
    pod_done(pod);
    *pod = *now;
    if (used != uses && !(pod->of && pod->of->in_core))
        sched->usage_dirty = true;
    if (pod->of)
        member_pod_changed(sched, &pod->of->members[pod->slot]);
    else
        gang_add(sched, pod);
}

static int pod_insert(struct sched *sched, const char *key, const struct k8s_pod *now)
{
    struct k8s_pod *pod = mem_zalloc(1, sizeof(*pod));
    int r = pod ? 0 : -ENOMEM;

    if (r == 0) {
        *pod = *now;
        r = table_put(&sched->pods, key, pod);
    }
    if (r < 0) {
        mem_free(pod);
        return r;
    }
    if (pod->node[0] && !pod_over(pod))
        sched->usage_dirty = true;
    gang_add(sched, pod);
    return 0;
}

void sched_pod(void *arg, enum watch_event event, const json_t *object)
{
    struct sched *sched = arg;
    struct error err = { 0 };
    struct k8s_pod now, *pod;
    char key[2 * NAME_MAX_K8S];

    key_of(object, key, sizeof(key));
    pod = table_get(&sched->pods, key);
    if (event == WATCH_DELETED) {
        if (pod && strcmp(pod->uid, json_at_text(object, "metadata|uid")) == 0)
            pod_drop(sched, pod);
        return;
    }
    if (pod_decode(object, &sched->conf.gpus, &now, &err) < 0) {
        log_warn("pod not understood", "pod", key, "why", err.text);
        return;
    }
    now.seen = sched->sweep;
    if (pod && strcmp(pod->uid, now.uid) != 0) { /* another one of the same name */
        pod_drop(sched, pod);
        pod = NULL;
    }
    if (pod)
        pod_replace(sched, pod, &now);
    else if (pod_insert(sched, key, &now) < 0) {
        log_err("too many pods", "pod", key);
        pod_done(&now);
    }
}

void sched_pods_synced(void *arg)
{
    struct sched *sched = arg;

    for (size_t i = sched->pods.count; i-- > 0;) {
        struct k8s_pod *pod = sched->pods.entries[i].value;

        if (pod->seen != sched->sweep)
            pod_drop(sched, pod);
    }
}

/* ---- nodes ---- */

static bool node_same(const struct k8s_node *a, const struct k8s_node *b)
{
    return a->ready == b->ready && a->closed == b->closed && a->gone == b->gone && a->gpus == b->gpus &&
           a->gpus_good == b->gpus_good && a->mcpus == b->mcpus && a->memory == b->memory &&
           a->extra_count == b->extra_count && memcmp(a->extra, b->extra, a->extra_count * sizeof(a->extra[0])) == 0 &&
           json_equal(a->labels, b->labels) &&
           (a->taints == b->taints || (a->taints && b->taints && json_equal(a->taints, b->taints)));
}

static void node_lost(struct sched *sched, struct k8s_node *node)
{
    node->gone = true;
    sched->nodes_dirty = true;
}

static void node_keep(struct sched *sched, struct k8s_node *node, struct k8s_node *now)
{
    bool same = node_same(node, now);

    now->index = node->index;
    /* Jobs may be on GPUs that it does not tell any more; they count as broken. */
    if (now->index != UINT32_MAX && now->gpus < node->gpus)
        now->gpus = node->gpus;
    node_done(node);
    *node = *now;
    sched->nodes_dirty |= !same;
}

void sched_node(void *arg, enum watch_event event, const json_t *object)
{
    struct sched *sched = arg;
    const char *name = json_at_text(object, "metadata|name");
    struct k8s_node *node = table_get(&sched->nodes, name), *now;
    struct error err = { 0 };

    if (event == WATCH_DELETED) {
        if (node)
            node_lost(sched, node);
        return;
    }
    now = mem_zalloc(1, sizeof(*now));
    if (!now || node_decode(object, &sched->conf.gpus, now, &err) < 0) {
        log_warn("node not understood", "node", name, "why", err.text);
        mem_free(now);
        return;
    }
    now->seen = sched->sweep;
    if (node) {
        node_keep(sched, node, now);
        mem_free(now);
    } else if (table_put(&sched->nodes, name, now) < 0) {
        log_err("too many nodes", "node", name);
        node_done(now);
        mem_free(now);
    } else {
        sched->nodes_dirty = true;
    }
}

void sched_nodes_synced(void *arg)
{
    struct sched *sched = arg;

    for (size_t i = 0; i < sched->nodes.count; i++) {
        struct k8s_node *node = sched->nodes.entries[i].value;

        if (node->seen != sched->sweep && !node->gone)
            node_lost(sched, node);
    }
}

/* ---- sizes of gangs, ranks of priorities ---- */

/* Numbers by name: 1 + the number, so that 0 can be one. */
static void number_put(struct table *table, const char *key, int64_t number)
{
    if (table_put(table, key, (void *)(intptr_t)(number + 1)) < 0)
        log_err("too many objects", "object", key);
}

/* Gangs may have become whole. */
static void gangs_stir(struct sched *sched)
{
    for (size_t i = 0; i < sched->gangs.count; i++)
        ((struct gang *)sched->gangs.entries[i].value)->dirty = true;
}

void sched_group(void *arg, enum watch_event event, const json_t *object)
{
    struct sched *sched = arg;
    struct error err = { 0 };
    char key[2 * NAME_MAX_K8S];
    uint32_t least;

    key_of(object, key, sizeof(key));
    if (event == WATCH_DELETED)
        (void)table_remove(&sched->groups, key);
    else if (pod_group_decode(object, &least, &err) < 0)
        log_warn("pod group not understood", "group", key, "why", err.text);
    else
        number_put(&sched->groups, key, least);
    gangs_stir(sched);
}

static int64_t number_at(const json_t *object, const char *path, int64_t standard)
{
    const json_t *value = json_at(object, path);

    return json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) <= 100000
               ? json_integer_value(value)
               : standard;
}

/* Pods of a Job at a time, or of all jobs of a JobSet. */
static int64_t size_of(const json_t *object)
{
    const json_t *jobs = json_at(object, "spec|replicatedJobs");
    json_t *job;
    int64_t sum = 0;
    size_t i;

    if (!jobs) {
        int64_t pods = number_at(object, "spec|parallelism", 1), all = number_at(object, "spec|completions", pods);

        return pods < all ? pods : all;
    }
    json_array_foreach((json_t *)(uintptr_t)jobs, i, job)
    {
        sum += number_at(job, "replicas", 1) * number_at(job, "template|spec|parallelism", 1);
    }
    return sum;
}

void sched_size(void *arg, enum watch_event event, const json_t *object)
{
    struct sched *sched = arg;
    char key[2 * NAME_MAX_K8S + 8];

    key_of(object, key, sizeof(key) - 8);
    if (json_at(object, "spec|replicatedJobs"))
        memcpy(key + strlen(key), "/set", sizeof("/set"));
    if (event == WATCH_DELETED)
        (void)table_remove(&sched->sizes, key);
    else
        number_put(&sched->sizes, key, size_of(object));
    gangs_stir(sched);
}

void sched_rank(void *arg, enum watch_event event, const json_t *object)
{
    struct sched *sched = arg;
    const char *name = json_at_text(object, "metadata|name");
    const json_t *value = json_object_get(object, "value");

    if (event == WATCH_DELETED)
        (void)table_remove(&sched->ranks, name);
    else if (json_is_integer(value))
        number_put(&sched->ranks, name, json_integer_value(value));
    sched->ranks_dirty = true;
}
