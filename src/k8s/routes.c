/* SPDX-License-Identifier: Apache-2.0 */
/* routes.c - see routes.h.
 *
 *   GET /healthz /readyz /metrics
 *   GET /v1/why/NAMESPACE/POD    why a pod waits, or where it is
 *   GET /v1/queue                all that waits, in the order it came
 */
#include "k8s/routes.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/text/json_write.h"

static int put_error(struct buf *body, int status, const char *text)
{
    struct json_write json;

    json_write_init(&json, body, false);
    json_write_object(&json, NULL);
    json_write_text(&json, "error", text);
    json_write_close(&json);
    return status;
}

static const char *state_of(const struct k8s_pod *pod)
{
    static const char *const names[] = { "refused", "queued", "binding", "running", "leaving" };

    if (pod_over(pod))
        return "over";
    if (pod->of)
        return names[pod->of->state];
    return pod->node[0] ? "bound" : "waiting";
}

static void put_pod(const struct sched *sched, struct json_write *json, const struct k8s_pod *pod)
{
    char code[40], text[REASON_TEXT_MAX];

    why_pod(sched, pod, code, text, sizeof(text));
    json_write_object(json, NULL);
    json_write_text(json, "namespace", pod->namespace);
    json_write_text(json, "name", pod->name);
    json_write_text(json, "state", state_of(pod));
    json_write_i64(json, "gpus", pod->gpus);
    json_write_text(json, "gang", pod->mark ? pod->gang : "");
    json_write_text(json, "gang_mark", gang_mark_name(pod->mark));
    if (pod->node[0])
        json_write_text(json, "node", pod->node);
    if (code[0]) {
        json_write_text(json, "reason", code);
        json_write_text(json, "message", text);
    }
    json_write_close(json);
}

static int put_why(const struct sched *sched, const char *name, struct buf *body)
{
    const struct k8s_pod *pod = table_get(&sched->pods, name);
    struct json_write json;

    if (!pod)
        return put_error(body, 404, "no such pod");
    if (!pod_ours(sched, pod))
        return put_error(body, 404, "the pod has another schedulerName");
    json_write_init(&json, body, true);
    put_pod(sched, &json, pod);
    buf_char(body, '\n');
    return 200;
}

static int by_age(const void *x, const void *y)
{
    const struct k8s_pod *a = *(struct k8s_pod *const *)x, *b = *(struct k8s_pod *const *)y;

    return a->created != b->created ? (a->created > b->created ? 1 : -1) : strcmp(a->name, b->name);
}

static int put_queue(const struct sched *sched, struct buf *body)
{
    struct k8s_pod **pods = mem_zalloc(sched->pods.count + 1, sizeof(*pods));
    struct json_write json;
    size_t count = 0;

    if (!pods)
        return put_error(body, 503, "no memory");
    for (size_t i = 0; i < sched->pods.count; i++) {
        struct k8s_pod *pod = sched->pods.entries[i].value;

        if (pod_ours(sched, pod) && !pod->node[0] && !pod_over(pod))
            pods[count++] = pod;
    }
    qsort(pods, count, sizeof(struct k8s_pod *), by_age);
    json_write_init(&json, body, true);
    json_write_array(&json, NULL);
    for (size_t i = 0; i < count; i++)
        put_pod(sched, &json, pods[i]);
    json_write_close(&json);
    buf_char(body, '\n');
    mem_free(pods);
    return 200;
}

static void put_figure(struct buf *body, const char *name, const char *kind, const char *help, uint64_t value)
{
    buf_printf(body, "# HELP muster_k8s_%s %s\n# TYPE muster_k8s_%s %s\nmuster_k8s_%s %llu\n", name, help, name, kind,
               name, (unsigned long long)value);
}

static int put_metrics(const struct routes *routes, struct buf *body)
{
    const struct sched *sched = routes->sched;
    const struct sched_counts *counts = &sched->counts;
    uint64_t states[WORKLOAD_LEAVING + 1] = { 0 };

    for (size_t i = 0; i < sched->workload_count; i++)
        states[sched->workloads[i]->state]++;
    put_figure(body, "leading", "gauge", "1 where this process schedules", routes->leading);
    put_figure(body, "pods", "gauge", "pods that are known", sched->pods.count);
    put_figure(body, "nodes", "gauge", "nodes that are known", sched->nodes.count);
    put_figure(body, "gangs_refused", "gauge", "gangs that cannot run as they ask", states[WORKLOAD_REFUSED]);
    put_figure(body, "gangs_queued", "gauge", "gangs that wait", states[WORKLOAD_QUEUED]);
    put_figure(body, "gangs_binding", "gauge", "gangs that are being bound", states[WORKLOAD_BINDING]);
    put_figure(body, "gangs_running", "gauge", "gangs that run", states[WORKLOAD_RUNNING]);
    put_figure(body, "gangs_leaving", "gauge", "gangs that are being evicted", states[WORKLOAD_LEAVING]);
    put_figure(body, "pods_bound_total", "counter", "pods bound", counts->bound);
    put_figure(body, "bindings_failed_total", "counter", "pods that could not be bound", counts->bind_failed);
    put_figure(body, "binding_conflicts_total", "counter", "bindings that another had made before", counts->conflicts);
    put_figure(body, "gangs_undone_total", "counter", "gangs given up half bound", counts->undone);
    put_figure(body, "pods_evicted_total", "counter", "pods evicted or deleted", counts->evicted);
    put_figure(body, "steps_total", "counter", "steps of the core", counts->steps);
    put_figure(body, "cluster_rebuilds_total", "counter", "times that nodes or their rooms changed", counts->rebuilds);
    put_figure(body, "conditions_total", "counter", "conditions written", counts->patches);
    return 200;
}

static int get(const struct routes *routes, const char *path, struct buf *body, const char **type)
{
    if (strcmp(path, "/healthz") == 0 || strcmp(path, "/readyz") == 0) {
        *type = "text/plain";
        buf_text(body, path[1] == 'r' && !routes->ready ? "not listed yet\n" : "ok\n");
        return path[1] == 'r' && !routes->ready ? 503 : 200;
    }
    if (strcmp(path, "/metrics") == 0) {
        *type = "text/plain; version=0.0.4";
        return put_metrics(routes, body);
    }
    if (!routes->leading && strncmp(path, "/v1/", 4) == 0)
        return put_error(body, 503, "another replica leads");
    if (strncmp(path, "/v1/why/", 8) == 0)
        return put_why(routes->sched, path + 8, body);
    if (strcmp(path, "/v1/queue") == 0)
        return put_queue(routes->sched, body);
    return put_error(body, 404, "no such path");
}

int routes_answer(void *arg, const struct http_message *request, struct buf *body, const char **type)
{
    struct routes *routes = arg;
    char *path = mem_strdup(request->target);
    int status;

    if (!path)
        return 503;
    path[strcspn(path, "?")] = '\0';
    if (http_unescape(path, false) < 0)
        status = put_error(body, 400, "a broken path");
    else if (strcmp(request->method, "GET") != 0)
        status = put_error(body, 405, "only GET is answered");
    else
        status = get(routes, path, body, type);
    mem_free(path);
    return status;
}
