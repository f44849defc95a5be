/* SPDX-License-Identifier: Apache-2.0 */
/* rest_scheduler.c - /scheduler: policy in force, pause, and the decisions about one job. */
#include <string.h>

#include "ctl/daemon/links.h"
#include "ctl/insight/feed.h"
#include "ctl/log/settings_json.h"
#include "ctl/rest/rest.h"
#include "policy/registry.h"
#include "wire/text/decimal.h"

/* All that wait, as lists have them: also those that a gate keeps out of the core. */
static int64_t pending_count(const struct registry *registry)
{
    int64_t count = 0;

    for (size_t i = 0; i < registry->live_count; i++)
        count += registry->live[i]->phase == PHASE_JOB_PENDING;
    return count;
}

void rest_scheduler_get(struct request *request)
{
    struct server *server = request_server(request);
    struct ctl *ctl = batcher_ctl(server->batcher);
    struct buf out = BUF_INIT((size_t)1 << 20);
    const struct policy *policy;
    struct json_write json;
    struct scene scene;

    scene_fill(&scene, request);
    json_write_init(&json, &out, false);
    json_write_object(&json, NULL);
    json_write_text(&json, "apiVersion", "v1");
    json_write_text(&json, "kind", "Scheduler");
    json_write_bool(&json, "paused", scene.registry->paused);
    json_write_text(&json, "policy", policy_now(server));
    json_write_u64(&json, "seq", ctl_seq(ctl));
    json_write_i64(&json, "waiting", pending_count(scene.registry));
    json_write_i64(&json, "running", scene.core ? core_running(scene.core) : 0);
    json_write_u64(&json, "decisions", scene.core ? core_decisions(scene.core) : 0);
    json_write_i64(&json, "agents", (int64_t)links_count(server->links));
    json_write_i64(&json, "clients", (int64_t)http_server_clients(server->http));
    put_time(&json, "started_time", server->started);
    put_time(&json, "last_time", ctl_now(ctl));
    json_write_array(&json, "policies");
    for (size_t i = 0; (policy = policy_at(i)) != NULL; i++) {
        json_write_object(&json, NULL);
        json_write_text(&json, "name", policy->name);
        json_write_text(&json, "summary", policy->summary);
        json_write_close(&json);
    }
    json_write_close(&json);
    json_write_close(&json);
    reply_buf(request, 200, &out);
}

static void offered_scheduler(struct request *request, const struct entry_result *result)
{
    if (result->code < 0)
        reply_refused(request, result);
    else
        rest_scheduler_get(request);
}

/* Another policy, of one virtual cluster or of those that name none. All else stays as it is configured. */
static void policy_offer(struct request *request, const char *policy, const char *vc)
{
    struct server *server = request_server(request);
    json_t *settings = settings_tree(batcher_ctl(server->batcher));
    json_t *vcs = json_object_get(settings, "vcs"), *one = vc ? json_object_get(vcs, vc) : NULL;

    if (!settings)
        settings = json_object();
    if (vc && !one && (json_object_size(vcs) > 0 || strcmp(vc, "default") != 0)) {
        reply_problem(request, 404, "NoSuchVc", NULL, "no virtual cluster %.60s", vc);
        json_decref(settings);
        return;
    }
    (void)json_object_set_new(one ? one : settings, "policy", json_string(policy));
    request_offer_json(request, ENTRY_CONFIG, settings, offered_scheduler);
}

void rest_scheduler_patch(struct request *request)
{
    static const char *const keys[] = { "paused", "policy", "vc", NULL };
    json_t *body = request_object(request, keys), *paused;
    const char *policy, *vc;

    if (!body)
        return;
    paused = json_object_get(body, "paused");
    policy = json_string_value(json_object_get(body, "policy"));
    vc = json_string_value(json_object_get(body, "vc"));
    if (json_is_boolean(paused)) {
        request_offer(
            request,
            &(struct entry){ .kind = ENTRY_PAUSE,
                             .pause = { .paused = json_is_true(paused), .by = entry_text(request->who.user) } },
            offered_scheduler);
    } else if (policy && policy_known(policy)) {
        policy_offer(request, policy, vc);
    } else {
        reply_problem(request, 400, "BadRequest", "muster sim policies lists them",
                      policy ? "policy: there is no '%.40s'" : "expected paused or policy", policy ? policy : "");
    }
    json_decref(body);
}

void rest_scheduler_trace(struct request *request)
{
    int64_t id = 0;

    if (decimal_parse_i64(request->params[0], strlen(request->params[0]), &id) < 0)
        reply_problem(request, 404, "NotFound", NULL, "no job %.40s", request->params[0]);
    else
        feed_trace(request_server(request)->feed, request, id);
}
