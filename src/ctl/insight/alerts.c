/* SPDX-License-Identifier: Apache-2.0 */
/* alerts.c - see alerts.h. Each kind is a walk over what it speaks of; nothing is kept from one look to the next but
 * what watch.c keeps. grafana/ has the same as rules over /metrics. */
#include "ctl/insight/alerts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/ledger/ledger.h"
#include "ctl/daemon/fence.h"
#include "ctl/daemon/links.h"
#include "ctl/insight/selfcheck.h"
#include "ctl/insight/watch.h"
#include "ctl/rest/rest.h"

#define CLOCK_MAX (5 * USEC_SEC) /* clocks may differ so far */

enum severity { SEVERITY_CRITICAL, SEVERITY_WARNING, SEVERITY_INFO, SEVERITIES };

static const char *const severities[SEVERITIES] = { "critical", "warning", "info" };

struct alert {
    enum severity severity;
    const char *kind, *hint;
    usec_t since; /* 0 = not known */
    const char *node, *vc;
    int gpu; /* -1 = none */
    const struct ctl_job *job;
    char text[256];
};

/* Alerts of one severity are written as they are found; so the worst come first. */
struct finding {
    const struct scene *scene;
    struct json_write *json;
    enum severity severity;
    size_t count;
};

static void optional_text(struct json_write *json, const char *key, const char *text)
{
    if (text)
        json_write_text(json, key, text);
    else
        json_write_null(json, key);
}

/* A hint with the names that the alert has in place of NODE, INDEX and JOB: a command that can be copied as it is. */
static void hint_put(struct json_write *json, const struct alert *alert)
{
    char index[16], job[24], text[512];
    const char *const words[][2] = { { "NODE", alert->node },
                                     { "INDEX", alert->gpu >= 0 ? index : NULL },
                                     { "JOB", alert->job ? job : NULL } };
    size_t used = 0;

    (void)snprintf(index, sizeof(index), "%d", alert->gpu);
    (void)snprintf(job, sizeof(job), "%lld", alert->job ? (long long)alert->job->id : 0);
    for (const char *at = alert->hint; *at && used + 1 < sizeof(text);) {
        const char *name = NULL;

        for (size_t w = 0; !name && w < sizeof(words) / sizeof(words[0]); w++)
            if (words[w][1] && strncmp(at, words[w][0], strlen(words[w][0])) == 0) {
                name = words[w][1];
                at += strlen(words[w][0]);
            }
        if (name)
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s", name);
        else
            text[used++] = *at++;
    }
    text[used < sizeof(text) ? used : sizeof(text) - 1] = '\0';
    json_write_text(json, "hint", text);
}

static void found(struct finding *finding, const struct alert *alert)
{
    struct json_write *json = finding->json;

    if (alert->severity != finding->severity || finding->count >= ALERTS_MAX)
        return;
    finding->count++;
    json_write_object(json, NULL);
    json_write_text(json, "kind", alert->kind);
    json_write_text(json, "severity", severities[alert->severity]);
    put_time(json, "since", alert->since);
    json_write_text(json, "text", alert->text);
    if (alert->hint)
        hint_put(json, alert);
    else
        json_write_null(json, "hint");
    optional_text(json, "node", alert->node);
    if (alert->gpu >= 0)
        json_write_i64(json, "gpu", alert->gpu);
    else
        json_write_null(json, "gpu");
    optional_text(json, "vc", alert->vc);
    if (alert->job)
        json_write_i64(json, "job", alert->job->id);
    else
        json_write_null(json, "job");
    optional_text(json, "user", alert->job ? user_name(finding->scene, alert->job->user) : NULL);
    json_write_close(json);
}

static void find_scheduler(struct finding *finding)
{
    const struct scene *scene = finding->scene;
    struct alert alert = { .severity = SEVERITY_WARNING, .kind = "SchedulerPaused", .gpu = -1 };

    if (scene->registry->paused) {
        alert.hint = "muster sched resume";
        (void)snprintf(alert.text, sizeof(alert.text), "an administrator has paused the scheduler: nothing starts");
        found(finding, &alert);
    }
    if (scene->server->store_full) {
        alert.kind = "StoreFull";
        alert.severity = SEVERITY_CRITICAL;
        alert.hint = "make room on the controller's disk";
        (void)snprintf(alert.text, sizeof(alert.text), "the controller's disk is full: jobs run on, nothing is taken");
        found(finding, &alert);
    }
    if (scene->server->store_damaged[0]) {
        alert.kind = "StoreDamaged";
        alert.severity = SEVERITY_CRITICAL;
        alert.hint = "muster cluster backup FILE, now; then look at the disk";
        (void)snprintf(alert.text, sizeof(alert.text), "the state is damaged: %.200s", scene->server->store_damaged);
        found(finding, &alert);
    }
    if (scene->server->selfcheck->since) {
        alert.kind = "StateDiffers";
        alert.severity = SEVERITY_CRITICAL;
        alert.since = scene->server->selfcheck->since;
        alert.hint = "muster doctor --deep says all of it; please report it";
        (void)snprintf(alert.text, sizeof(alert.text), "the state of the controller contradicts itself: %s",
                       scene->server->selfcheck->last.lines[0]);
        found(finding, &alert);
        alert.since = 0;
    }
    if (scene->registry->node_count == 0) {
        alert.kind = "NoNodes";
        alert.severity = SEVERITY_CRITICAL;
        alert.hint = "muster-agent join URL TOKEN";
        (void)snprintf(alert.text, sizeof(alert.text), "no node has joined yet");
        found(finding, &alert);
    }
}

/* The job that holds this GPU. */
static const struct ctl_job *holder(const struct scene *scene, uint32_t node, uint32_t gpu)
{
    for (size_t i = 0; i < scene->registry->live_count; i++) {
        const struct ctl_attempt *attempt = attempt_last(scene->registry->live[i]);

        for (uint32_t t = 0; attempt && !attempt->ended && t < attempt->task_count; t++)
            for (uint16_t g = 0; attempt->tasks[t].node == node && g < attempt->tasks[t].gpu_count; g++)
                if (attempt->tasks[t].gpus[g] == gpu)
                    return scene->registry->live[i];
    }
    return NULL;
}

static void find_gpu(struct finding *finding, const struct ctl_node *node, uint32_t g, const char *name)
{
    const struct ctl_gpu *gpu = &node->gpus[g];
    const struct gpu_past *past = watch_gpu(finding->scene->server->watch, node, g);
    struct alert alert = { .severity = SEVERITY_CRITICAL, .kind = "GpuUnhealthy", .node = name, .gpu = (int)g };

    if (!gpu->ok) {
        alert.hint = "muster node show NODE; repair it, then muster gpu resume NODE:INDEX";
        (void)snprintf(alert.text, sizeof(alert.text), "GPU %u of %s is out of order: %s", g, name, gpu->reason);
        found(finding, &alert);
    }
    alert.severity = SEVERITY_WARNING;
    if (gpu->foreign) {
        alert.kind = "ForeignUse";
        alert.hint = "muster node show NODE names the process";
        (void)snprintf(alert.text, sizeof(alert.text), "GPU %u of %s is used by a process that muster did not start", g,
                       name);
        found(finding, &alert);
    }
    if (!past || finding->severity != SEVERITY_WARNING)
        return;
    if (past->idle_since && finding->scene->now - past->idle_since >= IDLE_AFTER) {
        alert.kind = "IdleAllocated";
        alert.since = past->idle_since;
        alert.job = holder(finding->scene, node->name, g);
        alert.hint = "ask its owner, or muster cancel JOB";
        (void)snprintf(alert.text, sizeof(alert.text), "GPU %u of %s is allocated and below 5 %% for %lld minutes", g,
                       name, (long long)((finding->scene->now - past->idle_since) / USEC_MIN));
        found(finding, &alert);
    }
    if (past->stall_since && finding->scene->now - past->stall_since >= STALL_AFTER) {
        alert.kind = "Stalled";
        alert.since = past->stall_since;
        alert.job = holder(finding->scene, node->name, g);
        alert.hint = "a collective may hang: muster exec JOB -- py-spy dump, or requeue it";
        (void)snprintf(alert.text, sizeof(alert.text), "GPU %u of %s is busy and cold for %lld minutes", g, name,
                       (long long)((finding->scene->now - past->stall_since) / USEC_MIN));
        found(finding, &alert);
    }
}

/* Nothing of it starts elsewhere by itself. */
static bool waits_for_person(const struct finding *finding, const struct ctl_node *node)
{
    return !node->lease && node_runs(batcher_ctl(finding->scene->server->batcher), node);
}

/* What agents have said of late: of themselves, and of tasks they cannot end. */
static void find_odd(struct finding *finding, const struct ctl_node *node, const char *name)
{
    struct alert alert = { .severity = SEVERITY_CRITICAL, .kind = "NodeTwice", .gpu = -1, .node = name };

    if (node_refused_rival(finding->scene, node)) {
        alert.since = node->rival;
        alert.hint = "two machines made from one image? Give one another name and let it join again; if it has "
                     "replaced the former one, which is off: muster node lost NODE";
        (void)snprintf(alert.text, sizeof(alert.text), "another agent says that it is node %s and is refused, at %s",
                       name, node->rival_at);
        found(finding, &alert);
    }
    if (node->connected && node->stuck_seconds) {
        alert.kind = "TaskStuck";
        alert.since = 0;
        alert.hint =
            "a process waits in the kernel: look for a file system or a GPU that does not answer on NODE, or reboot "
            "it";
        (void)snprintf(alert.text, sizeof(alert.text),
                       "job %lld on node %s was killed %lld s ago and is not gone; its GPUs are not given to others",
                       (long long)node->stuck_job, name, (long long)node->stuck_seconds);
        found(finding, &alert);
    }
}

static void find_nodes(struct finding *finding)
{
    const struct registry *registry = finding->scene->registry;

    for (uint32_t n = 0; n < registry->node_count; n++) {
        const struct ctl_node *node = &registry->nodes[n];
        struct alert alert = { .severity = SEVERITY_CRITICAL, .kind = "NodeSilent", .gpu = -1 };

        alert.node = names_get(&registry->node_names, node->name);
        if (node->forgotten || !node->joined)
            continue;
        if (node->connected && (node->ahead > CLOCK_MAX || node->ahead < -CLOCK_MAX)) {
            struct alert clock = { .severity = SEVERITY_WARNING, .kind = "ClockSkew", .gpu = -1, .node = alert.node };

            clock.hint = "set its clock (NTP): times in its output are wrong";
            (void)snprintf(clock.text, sizeof(clock.text), "the clock of node %s is %lld s %s", alert.node,
                           llabs((long long)(node->ahead / USEC_SEC)), node->ahead > 0 ? "ahead" : "behind");
            found(finding, &clock);
        }
        find_odd(finding, node, alert.node);
        if (node->lost || node->silent) {
            alert.since = node->seen;
            alert.hint = node->lost ? "bring it back, or muster node forget NODE"
                         : waits_for_person(finding, node)
                             ? "look at its muster-agent; if the machine is off: muster node lost NODE"
                             : "look at its muster-agent";
            (void)snprintf(alert.text, sizeof(alert.text), "node %s %s%s%s", alert.node,
                           node->lost ? "is lost: its jobs were given up" : "is silent",
                           !node->lost && waits_for_person(finding, node) ? ", and its jobs wait for it" : "",
                           fence_said(finding->scene->server->fence, n));
            found(finding, &alert);
        } else if (node->drained) {
            alert.severity = node->rest_until ? SEVERITY_WARNING : SEVERITY_INFO;
            alert.kind = "NodeDrained";
            alert.hint = node->rest_until
                             ? "look at its muster-agent; it is tried again by itself, or by muster node resume NODE"
                             : "muster node resume NODE";
            (void)snprintf(alert.text, sizeof(alert.text), "node %s is drained: %s", alert.node, node->drain_reason);
            found(finding, &alert);
        }
        for (uint32_t g = 0; g < node->gpu_count; g++)
            find_gpu(finding, node, g, alert.node);
    }
}

/* Owed and not had: somebody whose request is inside the guarantee has waited for GPUs for a minute. */
static void find_vcs(struct finding *finding)
{
    const struct scene *scene = finding->scene;

    for (uint32_t v = 0; scene->core && v < core_vc_count(scene->core); v++) {
        struct alert alert = { .severity = SEVERITY_WARNING, .kind = "BelowGuarantee", .gpu = -1 };
        struct vc_sum sum;
        int64_t waiting = 0;

        vc_sum(scene, v, &sum);
        for (size_t i = 0; i < scene->registry->live_count; i++) {
            const struct ctl_job *job = scene->registry->live[i];
            enum reason reason = render_reason_now(scene, job);

            if (job->vc == v && job->phase == PHASE_JOB_PENDING && job->gate == GATE_NONE && job->wants.priority >= 0 &&
                sum.used + (int64_t)jobspec_gpus(&job->wants) * job->wants.share <= sum.guaranteed &&
                scene->now - job->reason_since >= USEC_MIN &&
                (reason == REASON_INSUFFICIENT_GPUS || reason == REASON_FRAGMENTED ||
                 reason == REASON_NODES_UNHEALTHY)) {
                waiting++;
                if (!alert.since || job->reason_since < alert.since)
                    alert.since = job->reason_since;
            }
        }
        if (!waiting)
            continue;
        alert.vc = vc_name(scene, v);
        alert.hint = "muster why JOB says what stands in the way";
        (void)snprintf(alert.text, sizeof(alert.text), "virtual cluster %s has %g of the %g GPUs it is owed; %lld wait",
                       alert.vc, (double)sum.used / MGPU_ONE, (double)sum.guaranteed / MGPU_ONE, (long long)waiting);
        found(finding, &alert);
    }
}

void alerts_put(const struct scene *scene, struct json_write *json, const char *key)
{
    struct finding finding = { .scene = scene, .json = json };

    json_write_array(json, key);
    for (int s = 0; s < SEVERITIES; s++) {
        finding.severity = (enum severity)s;
        find_scheduler(&finding);
        find_nodes(&finding);
        find_vcs(&finding);
    }
    json_write_close(json);
}

void rest_alerts(struct request *request)
{
    struct buf out = BUF_INIT((size_t)8 << 20);
    struct json_write json;
    struct scene scene;

    scene_fill(&scene, request);
    json_write_init(&json, &out, false);
    json_write_object(&json, NULL);
    json_write_text(&json, "apiVersion", "v1");
    json_write_text(&json, "kind", "AlertList");
    alerts_put(&scene, &json, "items");
    json_write_null(&json, "next");
    json_write_close(&json);
    reply_buf(request, 200, &out);
}
