/* SPDX-License-Identifier: Apache-2.0 */
/* rest_sim.c - /sim: comparisons of policies on the cluster's own history or on a trace. */
#include <errno.h>
#include <string.h>

#include "ctl/insight/whatif.h"
#include "ctl/rest/render/record_tree.h"
#include "ctl/rest/rest.h"
#include "io/file.h"
#include "wire/text/decimal.h"

static const char *const state_names[WHATIF_STATES] = { "waiting", "running", "done", "failed" };

/* What gives the same figures at a prompt, from the exported files. */
static json_t *commands_of(const struct whatif *w)
{
    json_t *out = json_array();

    for (size_t i = 0; i < w->policy_count; i++) {
        const struct whatif_policy *policy = &w->policies[i];
        struct buf text = BUF_INIT(8192);

        buf_printf(&text,
                   "muster sim compare --cluster %s --trace trace.csv --policy %s --set infeasible=skip --set "
                   "unknown-vc=spread",
                   policy->present ? "cluster.yaml" : "cluster-plain.yaml", policy->name);
        for (size_t s = 0; s < policy->setting_count; s++)
            buf_printf(&text, " --set %s=%s", policy->settings[s].key, policy->settings[s].value);
        if (!text.error)
            (void)json_array_append_new(out, json_stringn(text.data, text.size));
        buf_done(&text);
    }
    return out;
}

static json_t *whatif_json(const struct whatif *w, bool whole)
{
    json_t *policies = json_array(), *out;

    for (size_t i = 0; i < w->policy_count; i++)
        (void)json_array_append_new(policies, json_string(w->policies[i].label));
    out = json_pack("{s:s, s:s, s:I, s:s, s:s, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "apiVersion", "v1",
                    "kind", "Sim", "id", (json_int_t)w->id, "user", w->user, "state", state_names[w->state],
                    "created_time", record_time(w->created), "ended_time", record_time(w->ended), "source",
                    w->from_trace ? "trace" : "history", "since", record_time(w->since), "until", record_time(w->until),
                    "jobs", w->jobs < 0 ? json_null() : json_integer(w->jobs), "policies", policies, "error",
                    w->error[0] ? json_string(w->error) : json_null(), "progress",
                    json_pack("{s:I, s:I, s:s}", "done", (json_int_t)w->done, "total", (json_int_t)w->policy_count,
                              "step", w->step));
    if (!whole || !out)
        return out;
    (void)json_object_set_new(out, "notes", json_string(w->notes));
    (void)json_object_set_new(out, "commands", commands_of(w));
    (void)json_object_set(out, "items", w->runs);
    return out;
}

static bool may_see(const struct request *request, const struct whatif *w)
{
    return request->who.role == ROLE_ADMIN || strcmp(request->who.user, w->user) == 0;
}

/* {id} as a comparison of the caller's; answered otherwise. */
static const struct whatif *request_whatif(struct request *request)
{
    const char *text = request->params[0];
    const struct whatif *w;
    int64_t id = 0;

    if (decimal_parse_i64(text, strlen(text), &id) < 0)
        id = 0;
    w = whatif_find(request_server(request)->whatifs, id);
    if (w && may_see(request, w))
        return w;
    reply_problem(request, 404, "NotFound", "the newest 16 are kept, until the controller ends", "no comparison %.40s",
                  text);
    return NULL;
}

void rest_sim_list(struct request *request)
{
    const struct whatifs *all = request_server(request)->whatifs;
    json_t *items = json_array();
    const struct whatif *w;

    for (size_t i = 0; (w = whatif_at(all, i)); i++)
        if (may_see(request, w))
            (void)json_array_append_new(items, whatif_json(w, false));
    reply_tree(request, 200,
               json_pack("{s:s, s:s, s:o, s:n}", "apiVersion", "v1", "kind", "SimList", "items", items, "next"));
}

void rest_sim_add(struct request *request)
{
    static const char *const keys[] = { "since",     "until",        "trace", "policies", "set",
                                        "add_nodes", "remove_nodes", "vcs",   NULL };
    json_t *body = request_object(request, keys);
    const struct whatif *w = NULL;
    struct error err = { 0 };
    int r;

    if (!body)
        return;
    r = whatif_add(request_server(request)->whatifs, body, request->who.user, &w, &err);
    json_decref(body);
    if (r == -EBUSY) {
        reply_header(request, "Retry-After", "5");
        reply_problem(request, 429, "Busy", NULL, "%s", err.text);
    } else if (r == -EINVAL) {
        reply_problem(request, 400, "BadRequest", NULL, "%s", err.text);
    } else if (r < 0) {
        reply_problem(request, 503, "Unavailable", NULL, "%s", err.text);
    } else {
        reply_header(request, "Location", "/api/v1/sim/%lld", (long long)w->id);
        reply_tree(request, 202, whatif_json(w, true));
    }
}

void rest_sim_get(struct request *request)
{
    const struct whatif *w = request_whatif(request);

    if (w)
        reply_tree(request, 200, whatif_json(w, true));
}

void rest_sim_delete(struct request *request)
{
    const struct whatif *w = request_whatif(request);

    if (!w)
        return;
    (void)whatif_remove(request_server(request)->whatifs, w->id);
    reply(request, 204, NULL, NULL, 0);
}

/* The files that the runs read. */
void rest_sim_file(struct request *request)
{
    static const char *const names[] = { "trace.csv", "cluster.yaml", "cluster-plain.yaml", NULL };
    const struct whatif *w = request_whatif(request);
    CLEANUP_BYTES struct bytes bytes = { 0 };
    const char *const *name = names;
    char path[4200];

    if (!w)
        return;
    while (*name && strcmp(*name, request->params[1]) != 0)
        name++;
    (void)snprintf(path, sizeof(path), "%s/%s", w->folder, *name ? *name : "");
    if (!*name || file_read(path, (size_t)64 << 20, &bytes, NULL) < 0) {
        reply_problem(request, 404, "NotFound", "trace.csv is there when the history was read",
                      "no file %.40s; expected trace.csv, cluster.yaml or cluster-plain.yaml", request->params[1]);
        return;
    }
    reply(request, 200, strcmp(*name, "trace.csv") == 0 ? "text/csv; charset=utf-8" : "application/yaml", bytes.data,
          bytes.size);
}
