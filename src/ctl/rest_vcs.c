/* SPDX-License-Identifier: Apache-2.0 */
/* rest_vcs.c - virtual clusters, users' limits and the configuration, changed; and what a change would do. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/rest.h"

/* Keys of a virtual cluster that may be set; the cluster file has the same. */
static const char *const vc_keys[] = { "name",          "quota",       "guarantee", "borrow", "policy",
                                       "max_user_gpus", "min_runtime", "optimise",  "set",    NULL };

/* Jobs that a change of settings would stop or start at once, and the change itself. Takes the settings. */
static void preview_reply(struct request *request, json_t *settings)
{
    struct ctl *ctl = drive_ctl(request_server(request)->drive);
    json_t *preempts, *starts;
    struct entry_result result = { 0 };
    int r = ctl_preview(ctl, settings, &preempts, &starts, &result.text);

    if (r < 0) {
        result.code = r;
        reply_refused(request, &result);
        json_decref(preempts);
        json_decref(starts);
    } else {
        reply_tree(request, 200,
                   json_pack("{s:s, s:s, s:O, s:O, s:o, s:o}", "apiVersion", "v1", "kind", "ConfigDiff", "before",
                             ctl_settings(ctl), "after", settings, "preempts", preempts, "starts", starts));
    }
    json_decref(settings);
}

static void offered_vc(struct request *request, const struct entry_result *result)
{
    if (result->code < 0)
        reply_refused(request, result);
    else if (!ctl_core(drive_ctl(request_server(request)->drive)))
        reply(request, 204, NULL, NULL, 0); /* before the first node there is nothing to show */
    else
        rest_vc_get(request);
}

/* Offers a change of one virtual cluster, or tells what it would do. Takes the body. */
static void vc_offer(struct request *request, json_t *body)
{
    struct entry_result result;
    json_t *settings;

    (void)json_object_set_new(body, "by", json_string(request->who.user));
    if (!query_flag(request, "diff")) {
        request_offer(request, ENTRY_VC, body, offered_vc);
        return;
    }
    settings = ctl_settings_with(drive_ctl(request_server(request)->drive), body, &result);
    json_decref(body);
    if (settings)
        preview_reply(request, settings);
    else
        reply_refused(request, &result);
}

void rest_vcs_add(struct request *request)
{
    static const char *const known[] = { "diff", NULL };
    json_t *set = request_object(request, vc_keys);
    const char *name = json_string_value(json_object_get(set, "name"));
    json_t *body;

    if (!set)
        return;
    if (!query_known(request, known)) {
        json_decref(set);
        return;
    }
    if (!name) {
        reply_problem(request, 400, "BadRequest", NULL, "name: what is it to be called?");
        json_decref(set);
        return;
    }
    /* The answer is the virtual cluster of the path. */
    request_call(request, name);
    body = json_pack("{s:s, s:b}", "name", name, "create", 1);
    (void)json_object_del(set, "name");
    (void)json_object_set_new(body, "set", set);
    vc_offer(request, body);
}

void rest_vc_put(struct request *request)
{
    static const char *const known[] = { "diff", NULL };
    json_t *set = request_object(request, vc_keys + 1), *body;

    if (!set)
        return;
    if (!query_known(request, known)) {
        json_decref(set);
        return;
    }
    body = json_pack("{s:s, s:o}", "name", request->params[0], "set", set);
    vc_offer(request, body);
}

void rest_vc_delete(struct request *request)
{
    request_offer(request, ENTRY_VC,
                  json_pack("{s:s, s:b, s:s}", "name", request->params[0], "close", 1, "by", request->who.user),
                  offered_nothing);
}

/* What one user may have. "*": all that have no limits of their own. */

void rest_limits_get(struct request *request)
{
    const struct book *book = server_book(request_server(request));
    const char *user = request->params[0];
    int64_t gpus = limits_get(book, user, "max_gpus"), jobs = limits_get(book, user, "max_jobs");
    bool own = json_object_get(book->limits, user) != NULL;

    reply_tree(request, 200,
               json_pack("{s:s, s:s, s:s, s:o, s:o, s:b}", "apiVersion", "v1", "kind", "Limits", "user", user,
                         "max_gpus", gpus < 0 ? json_null() : json_integer(gpus), "max_jobs",
                         jobs < 0 ? json_null() : json_integer(jobs), "own", own));
}

static void offered_limits(struct request *request, const struct entry_result *result)
{
    if (result->code < 0)
        reply_refused(request, result);
    else
        rest_limits_get(request);
}

void rest_limits_put(struct request *request)
{
    static const char *const keys[] = { "max_gpus", "max_jobs", NULL };
    json_t *body = request_object(request, keys);

    if (!body)
        return;
    (void)json_object_set_new(body, "user", json_string(request->params[0]));
    request_offer(request, ENTRY_LIMITS, body, offered_limits);
}

/* Configuration: what the virtual clusters are now, and another one. */

void rest_config_get(struct request *request)
{
    struct server *server = request_server(request);
    struct buf out = BUF_INIT((size_t)16 << 20);
    struct json_write json;
    struct scene scene;
    const char *license;
    json_t *count;

    scene_fill(&scene, request);
    json_write_init(&json, &out, false);
    json_write_object(&json, NULL);
    json_write_text(&json, "apiVersion", "v1");
    json_write_text(&json, "kind", "Config");
    json_write_text(&json, "cluster", server->conf->cluster);
    json_write_text(&json, "policy", policy_now(server));
    json_write_i64(&json, "lease_seconds", server->conf->lease / USEC_SEC);
    json_write_i64(&json, "node_timeout_seconds", server->conf->node_timeout / USEC_SEC);
    json_write_array(&json, "vcs");
    for (uint32_t i = 0; scene.core && i < core_vc_count(scene.core); i++)
        if (vc_open(&scene, i))
            render_vc(&scene, &json, i, NULL);
    json_write_close(&json);
    json_write_object(&json, "licenses");
    json_object_foreach(json_object_get(ctl_settings(drive_ctl(server->drive)), "licenses"), license, count)
        json_write_i64(&json, license, json_integer_value(count));
    json_write_close(&json);
    json_write_close(&json);
    reply_buf(request, 200, &out);
}

static void offered_config(struct request *request, const struct entry_result *result)
{
    if (result->code < 0)
        reply_refused(request, result);
    else
        rest_config_get(request);
}

void rest_config_put(struct request *request)
{
    static const char *const keys[] = { "vcs", "policy", "set", "licenses", NULL };
    struct server *server = request_server(request);
    json_t *body = request_object(request, keys);
    struct entry entry = { .kind = ENTRY_CONFIG, .body = body };
    struct entry_result result = { 0 };

    if (!body)
        return;
    settings_arrange(ctl_settings(drive_ctl(server->drive)), body, false);
    if (query_flag(request, "diff")) {
        preview_reply(request, body);
    } else if (query_flag(request, "validate")) {
        if (ctl_check(drive_ctl(server->drive), &entry, &result) < 0)
            reply_refused(request, &result);
        else
            rest_config_get(request);
        json_decref(body);
    } else {
        request_offer(request, ENTRY_CONFIG, body, offered_config);
    }
}

/* The cluster file that what agents report amounts to. */
void rest_config_discover(struct request *request)
{
    json_t *tree = ctl_describe(drive_ctl(request_server(request)->drive));

    if (tree)
        reply_tree(request, 200, json_pack("{s:s, s:s, s:o}", "apiVersion", "v1", "kind", "ClusterFile", "file", tree));
    else
        reply_problem(request, 503, "Busy", NULL, "out of memory");
}

void rest_config_reload(struct request *request)
{
    struct server *server = request_server(request);
    struct error err = { 0 };

    if (!server->reload) {
        reply_problem(request, 409, "Conflict", "musterd --config FILE", "the controller was started without a file");
        return;
    }
    if (server->reload(server->reload_arg, &err) < 0) {
        reply_problem(request, 400, "BadRequest", NULL, "%s", err.text);
        return;
    }
    rest_config_get(request);
}
