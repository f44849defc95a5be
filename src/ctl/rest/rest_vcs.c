/* SPDX-License-Identifier: Apache-2.0 */
/* rest_vcs.c - virtual clusters, users' limits and the configuration, changed; and what a change would do. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/log/entry_json.h"
#include "ctl/log/settings_json.h"
#include "ctl/rest/rest.h"
#include "wire/hived/hived_settings.h"

/* Keys of a virtual cluster that may be set; the cluster file has the same. */
static const char *const vc_keys[] = { "name",        "quota",    "guarantee", "borrow",     "policy", "max_user_gpus",
                                       "min_runtime", "optimise", "set",       "priorities", "access", NULL };

/* Which jobs a change would stop, and start: lists of {"job","user","vc","gpus","how"}. */
struct touched {
    const struct server *server;
    json_t *preempts, *starts;
};

static void touched_add(void *arg, const struct ctl_job *job, enum decision_kind how)
{
    const struct touched *touched = arg;
    const struct cluster_spec *cluster = ctl_cluster(batcher_ctl(touched->server->batcher));
    json_t *list = how == DECISION_START ? touched->starts
                   : how == DECISION_STOP || how == DECISION_KILL || how == DECISION_SUSPEND || how == DECISION_MIGRATE
                       ? touched->preempts
                       : NULL;

    if (list)
        (void)json_array_append_new(list, json_pack("{s:I, s:s, s:s, s:I, s:s}", "job", (json_int_t)job->id, "user",
                                                    names_get(&server_book(touched->server)->users, job->user), "vc",
                                                    names_get(&cluster->names, cluster->vcs[job->vc].name), "gpus",
                                                    (json_int_t)jobspec_gpus(&job->wants), "how", decision_name(how)));
}

/* Jobs that a change of settings would stop or start at once, and the change itself. */
static void preview_reply(struct request *request, const struct setting_value *settings)
{
    struct ctl *ctl = batcher_ctl(request_server(request)->batcher);
    struct touched touched = { request_server(request), json_array(), json_array() };
    struct entry_result result = { 0 };
    int r = ctl_preview(ctl, settings, touched_add, &touched, &result.text);

    if (r < 0) {
        result.code = r;
        reply_refused(request, &result);
        json_decref(touched.preempts);
        json_decref(touched.starts);
    } else {
        reply_tree(request, 200,
                   json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "apiVersion", "v1", "kind", "ConfigDiff", "before",
                             settings_tree(ctl), "after", setting_tree(settings), "preempts", touched.preempts,
                             "starts", touched.starts));
    }
}

static void offered_vc(struct request *request, const struct entry_result *result)
{
    if (result->code < 0)
        reply_refused(request, result);
    else if (!ctl_core(batcher_ctl(request_server(request)->batcher)))
        reply(request, 204, NULL, NULL, 0); /* before the first node there is nothing to show */
    else
        rest_vc_get(request);
}

/* Offers a change of one virtual cluster, or tells what it would do. Takes the keys that are set. */
static void vc_offer(struct request *request, json_t *set, const char *name, bool create)
{
    struct entry entry = {
        .kind = ENTRY_VC,
        .vc = { .name = entry_text(name), .set = entry_doc(set), .create = create, .by = entry_text(request->who.user) }
    };
    struct entry_result result;
    struct setting_value settings;
    int r;

    json_decref(set);
    if (!query_flag(request, "diff")) {
        request_offer(request, &entry, offered_vc);
        return;
    }
    r = ctl_settings_with(batcher_ctl(request_server(request)->batcher), &entry, &settings, &result);
    entry_done(&entry);
    if (r < 0) {
        reply_refused(request, &result);
        return;
    }
    preview_reply(request, &settings);
    setting_done(&settings);
}

void rest_vcs_add(struct request *request)
{
    static const char *const known[] = { "diff", NULL };
    json_t *set = request_object(request, vc_keys);
    const char *name = json_string_value(json_object_get(set, "name"));

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
    (void)json_object_del(set, "name");
    vc_offer(request, set, request->params[0], true);
}

void rest_vc_put(struct request *request)
{
    static const char *const known[] = { "diff", NULL };
    json_t *set = request_object(request, vc_keys + 1);

    if (!set)
        return;
    if (!query_known(request, known)) {
        json_decref(set);
        return;
    }
    vc_offer(request, set, request->params[0], false);
}

void rest_vc_delete(struct request *request)
{
    request_offer(
        request,
        &(struct entry){
            .kind = ENTRY_VC,
            .vc = { .name = entry_text(request->params[0]), .close = true, .by = entry_text(request->who.user) } },
        offered_nothing);
}

/* What one user may have. "*": all that have no limits of their own. */

void rest_limits_get(struct request *request)
{
    const struct registry *registry = server_book(request_server(request));
    const char *user = request->params[0];
    int64_t gpus = limits_gpus(registry, user), jobs = limits_jobs(registry, user);
    bool own = limits_find(registry, user, true) != NULL;

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
    request_offer_json(request, ENTRY_LIMITS, body, offered_limits);
}

/* Configuration: what the virtual clusters are now, and another one. */

void rest_config_get(struct request *request)
{
    struct server *server = request_server(request);
    struct buf out = BUF_INIT((size_t)16 << 20);
    struct json_write json;
    struct scene scene;
    const struct setting_value *licenses = setting_find(ctl_settings(batcher_ctl(server->batcher)), "licenses");

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
    for (size_t i = 0; i < setting_count(licenses); i++)
        json_write_i64(&json, licenses->members[i].name, licenses->members[i].number);
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

/* Takes the body. */
static void config_preview(struct request *request, json_t *body)
{
    struct entry_result result = { 0 };
    struct setting_value settings;
    char *doc = entry_doc(body);

    json_decref(body);
    result.code = setting_read(doc, &settings, &result.text);
    mem_free(doc);
    if (result.code < 0) {
        reply_refused(request, &result);
        return;
    }
    preview_reply(request, &settings);
    setting_done(&settings);
}

void rest_config_put(struct request *request)
{
    static const char *const keys[] = {
        "vcs", "policy", "set", "licenses", "physicalCluster", "virtualClusters", NULL
    };
    struct server *server = request_server(request);
    json_t *body = request_object(request, keys), *was;
    struct entry entry = { .kind = ENTRY_CONFIG };
    struct entry_result result = { 0 };

    if (!body)
        return;
    was = settings_tree(batcher_ctl(server->batcher));
    settings_arrange(was, body, false);
    json_decref(was);
    result.code = hived_settings_fill(body, &result.text);
    if (result.code < 0) {
        reply_refused(request, &result);
        json_decref(body);
    } else if (query_flag(request, "diff")) {
        config_preview(request, body);
    } else if (query_flag(request, "validate")) {
        entry.config.settings = entry_doc(body);
        if (ctl_check(batcher_ctl(server->batcher), &entry, &result) < 0)
            reply_refused(request, &result);
        else
            rest_config_get(request);
        entry_done(&entry);
        json_decref(body);
    } else {
        request_offer_json(request, ENTRY_CONFIG, body, offered_config);
    }
}

/* The cluster file that what agents report amounts to. */
void rest_config_discover(struct request *request)
{
    json_t *tree = describe_tree(batcher_ctl(request_server(request)->batcher));

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
