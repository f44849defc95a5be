/* SPDX-License-Identifier: Apache-2.0 */
/* why.c - why pods wait, told where their owners look: the condition PodScheduled of the pod, and an event.
 *
 * A pod is told when its reason changes, and again after a while when the numbers have: many pods wait, and the API
 * server has other things to do. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "io/clock.h"
#include "k8s/quantity.h"
#include "k8s/sched.h"

enum { TELLS_MAX = 8 }; /* at a time */
#define TELL_AGAIN (60 * USEC_SEC)
#define TELL_RETRY (USEC_SEC / 2)

/* GPUs that are free on nodes it may have. */
static int64_t free_for(const struct sched *sched, const struct workload *workload)
{
    const struct topo *topo = &core_ledger(sched->core)->topo;
    int64_t free = 0;

    for (uint32_t n = 0; n < topo->node_count; n++)
        if (topo->nodes[n].up && topo->nodes[n].marks >> workload->class & 1)
            free += topo->nodes[n].free;
    return free;
}

static enum reason reason_of(const struct sched *sched, const struct workload *workload)
{
    return workload->in_core ? core_reason(sched->core, workload->slot) : REASON_SCHEDULING;
}

/* When as many GPUs as it lacks come free at the latest, by the time limits of those who run; USEC_NEVER: not known. */
static usec_t latest_start(const struct sched *sched, int64_t need)
{
    usec_t best = USEC_NEVER;

    for (size_t i = 0; i < sched->workload_count; i++) {
        const struct workload *end = sched->workloads[i];
        const struct job *job = end->in_core ? core_job(sched->core, end->slot) : NULL;
        int64_t freed = 0;
        usec_t at;

        if (!job || end->state != WORKLOAD_RUNNING || !end->spec.time_limit)
            continue;
        at = job->last_start + end->spec.time_limit;
        for (size_t k = 0; k < sched->workload_count; k++) {
            const struct workload *other = sched->workloads[k];
            const struct job *its = other->in_core ? core_job(sched->core, other->slot) : NULL;

            if (its && other->state == WORKLOAD_RUNNING && other->spec.time_limit &&
                its->last_start + other->spec.time_limit <= at)
                freed += its->gpus;
        }
        if (freed >= need && at < best)
            best = at;
    }
    return best;
}

static void why_queued(const struct sched *sched, const struct workload *workload, char *text, size_t size)
{
    const char *vc = names_get(&sched->cluster.names, sched->cluster.vcs[workload->vc].name);
    enum reason reason = reason_of(sched, workload);
    char when[TIME_TEXT_MAX];
    int64_t free;
    usec_t at;
    int used = snprintf(text, size, "%s", reason_text(reason));

    free = free_for(sched, workload);
    if (workload->spec.gpus > 0 && used > 0 && (size_t)used < size)
        used += snprintf(text + used, size - (size_t)used, ": it asks for %d GPUs, %lld are free on nodes it may have",
                         workload->spec.gpus, (long long)free);
    if (used > 0 && (size_t)used < size)
        used += snprintf(text + used, size - (size_t)used, "; virtual cluster %s, %u jobs wait", vc,
                         core_waiting(sched->core));
    if (reason == REASON_INSUFFICIENT_GPUS && used > 0 && (size_t)used < size &&
        (at = latest_start(sched, workload->spec.gpus - free)) != USEC_NEVER && at > sched->now) {
        time_print(at, when);
        (void)snprintf(text + used, size - (size_t)used,
                       "; so many come free by %.19sZ, when time limits of running pods end", when);
    }
}

/* Somebody who was told to go, and whose budget forbids it. */
static bool budget_blocks(const struct sched *sched)
{
    for (size_t i = 0; i < sched->workload_count; i++)
        if (sched->workloads[i]->state == WORKLOAD_LEAVING && sched->workloads[i]->blocked)
            return true;
    return false;
}

void why_pod(const struct sched *sched, const struct k8s_pod *pod, char code[40], char *text, size_t size)
{
    const struct workload *workload = pod->of;
    struct gang *gang;

    code[0] = text[0] = '\0';
    if (pod->node[0] || pod_over(pod) || pod->deleting || pod->gated)
        return;
    if (workload && workload->state == WORKLOAD_REFUSED) {
        (void)snprintf(code, 40, "%s", workload->code);
        (void)snprintf(text, size, "%s", workload->text);
    } else if (workload && workload->state == WORKLOAD_QUEUED) {
        (void)snprintf(code, 40, "%s", reason_name(reason_of(sched, workload)));
        why_queued(sched, workload, text, size);
        if (reason_of(sched, workload) == REASON_PREEMPTING && budget_blocks(sched))
            (void)snprintf(text, size, "a PodDisruptionBudget keeps pods on the GPUs that it was given");
    } else if (workload) {
        (void)snprintf(code, 40, "%s", workload->state == WORKLOAD_LEAVING ? "GangLeaves" : "Binding");
        (void)snprintf(text, size, "%s",
                       workload->state == WORKLOAD_LEAVING ? "its gang could not be bound whole, or was preempted"
                                                           : "its gang is being bound");
    } else {
        gang = gang_of((struct sched *)(uintptr_t)sched, pod);
        (void)snprintf(code, 40, "%s", gang && gang->code[0] ? gang->code : "Scheduling");
        (void)snprintf(text, size, "%s",
                       gang && gang->code[0] ? gang->text
                       : sched->broken[0]    ? sched->broken
                                             : "not looked at yet");
    }
}

/* A pod that is being told: it may be gone when the answer comes. */
struct telling {
    struct sched *sched;
    char *pod; /* owned; "namespace/name" */
};

static void telling_free(struct telling *telling)
{
    if (telling)
        mem_free(telling->pod);
    mem_free(telling);
}

static void on_told(void *arg, const struct client_reply *reply)
{
    struct telling *telling = arg;
    struct k8s_pod *pod = table_get(&telling->sched->pods, telling->pod);

    telling->sched->tells--;
    /* What the server could not take is told again; what it refuses for good is not. */
    if (pod && (reply->status == 0 || reply->status == 429 || reply->status >= 500)) {
        pod->told[0] = '\0';
        pod->told_at = telling->sched->now; /* not at once */
    }
    telling_free(telling);
}

static void send(struct sched *sched, const struct k8s_pod *pod, struct client_call *call)
{
    struct telling *telling = mem_zalloc(1, sizeof(*telling));
    char key[2 * NAME_MAX_K8S];

    (void)snprintf(key, sizeof(key), "%s/%s", pod->namespace, pod->name);
    if (telling)
        *telling = (struct telling){ sched, mem_strdup(key) };
    if (!telling || !telling->pod) {
        json_decref(call->body);
        telling_free(telling);
        return;
    }
    call->done = on_told;
    call->arg = telling;
    if (client_send(sched->client, call, NULL) == 0)
        sched->tells++;
    else
        telling_free(telling);
}

static void tell(struct sched *sched, struct k8s_pod *pod, const char *code, const char *text)
{
    char path[2 * NAME_MAX_K8S + 64], message[REASON_TEXT_MAX + 64], now[TIME_TEXT_MAX], name[NAME_MAX_K8S + 32];
    json_t *condition, *event;

    time_print(clock_now(), now);
    (void)snprintf(now + 19, sizeof(now) - 19, "Z");
    (void)snprintf(message, sizeof(message), "[%s] %s", code, text);
    /* The reason of the condition is the one that autoscalers and people know; ours begins the message. */
    condition = json_pack("{s:s, s:s, s:s, s:s, s:s}", "type", "PodScheduled", "status", "False", "reason",
                          "Unschedulable", "message", message, "lastTransitionTime", now);
    (void)snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s/status", pod->namespace, pod->name);
    send(sched, pod,
         &(struct client_call){ .method = "PATCH",
                                .path = path,
                                .type = "application/strategic-merge-patch+json",
                                .body = json_pack("{s:{s:s}, s:{s:[o]}}", "metadata", "uid", pod->uid, "status",
                                                  "conditions", condition) });
    sched->counts.patches++;
    if (strcmp(pod->told, code) == 0)
        return;
    (void)snprintf(name, sizeof(name), "%.230s.%llx", pod->name, (unsigned long long)clock_now());
    event = json_pack("{s:s, s:s, s:{s:s, s:s}, s:{s:s, s:s, s:s, s:s, s:s}, s:s, s:s, s:s, s:{s:s}, s:s, s:s, s:i}",
                      "apiVersion", "v1", "kind", "Event", "metadata", "name", name, "namespace", pod->namespace,
                      "involvedObject", "apiVersion", "v1", "kind", "Pod", "namespace", pod->namespace, "name",
                      pod->name, "uid", pod->uid, "reason", code, "message", text, "type", "Warning", "source",
                      "component", sched->name, "firstTimestamp", now, "lastTimestamp", now, "count", 1);
    (void)snprintf(path, sizeof(path), "/api/v1/namespaces/%s/events", pod->namespace);
    send(sched, pod, &(struct client_call){ .method = "POST", .path = path, .body = event });
    sched->counts.events++;
}

void why_turn(struct sched *sched)
{
    char code[40], text[REASON_TEXT_MAX];

    for (size_t i = 0; i < sched->pods.count && sched->tells < TELLS_MAX; i++) {
        struct k8s_pod *pod = sched->pods.entries[(sched->tell_at + i) % sched->pods.count].value;

        if (!pod_ours(sched, pod) || pod->node[0] || (pod->of && pod->of->state == WORKLOAD_BINDING))
            continue;
        why_pod(sched, pod, code, text, sizeof(text));
        /* What is not looked at yet has no reason worth a request. */
        if (!code[0] || strcmp(code, "Scheduling") == 0 ||
            (strcmp(code, pod->told) == 0 && sched->now < pod->told_at + TELL_AGAIN) ||
            (!pod->told[0] && pod->told_at && sched->now < pod->told_at + TELL_RETRY))
            continue;
        tell(sched, pod, code, text);
        (void)snprintf(pod->told, sizeof(pod->told), "%s", code);
        pod->told_at = sched->now;
        sched->tell_at += i;
        i = 0;
    }
}
