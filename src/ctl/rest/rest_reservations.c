/* SPDX-License-Identifier: Apache-2.0 */
/* rest_reservations.c - reservations: nodes for some people's jobs, for a time; and labels of nodes. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/rest/render/record_tree.h"
#include "ctl/rest/rest.h"
#include "wire/text/duration.h"
#include "wire/text/hostlist.h"

#define SECONDS_MAX ((json_int_t)1 << 40)

/* null: nobody is named. */
static json_t *names_json(const struct text_list *names)
{
    json_t *out = names->count ? json_array() : json_null();

    for (size_t i = 0; i < names->count; i++)
        (void)json_array_append_new(out, json_string(names->items[i]));
    return out;
}

static json_t *resv_json(const struct scene *scene, const struct ctl_resv *resv, bool whole)
{
    json_t *out =
        json_pack("{s:s, s:s, s:o, s:o, s:I, s:o, s:o, s:s?, s:s}", "name", resv->name, "nodes", resv->nodes, "start",
                  record_time(resv->start), "end", record_time(resv->end), "lead_seconds",
                  (json_int_t)(resv->lead / USEC_SEC), "users", names_json(&resv->users), "vcs", names_json(&resv->vcs),
                  "reason", resv->reason, "state", resv_active(resv, scene->now) ? "active" : "planned");

    if (whole) {
        (void)json_object_set_new(out, "apiVersion", json_string("v1"));
        (void)json_object_set_new(out, "kind", json_string("Reservation"));
    }
    return out;
}

static void resv_put(struct json_write *json, const struct ctl_resv *resv)
{
    json_write_object(json, NULL);
    json_write_text(json, "name", resv->name);
    json_write_text(json, "nodes", resv->nodes);
    put_time(json, "start", resv->start);
    put_time(json, "end", resv->end);
    json_write_close(json);
}

/* The next one on the nodes of a job that will not be over by then. */
static const struct ctl_resv *resv_leaves(const struct scene *scene, const struct ctl_job *job)
{
    const struct ctl_attempt *attempt = attempt_last(job);
    usec_t until = attempt && attempt->started && job->wants.time_limit ? attempt->started + job->wants.time_limit : 0;
    const struct ctl_resv *first = NULL;

    for (uint32_t t = 0; attempt && !attempt->ended && t < attempt->task_count; t++) {
        const struct ctl_resv *resv =
            resv_next(scene->registry, node_name(scene, attempt->tasks[t].node), job->wants.kept, scene->now, until);

        if (resv && (!first || resv->start < first->start))
            first = resv;
    }
    return first;
}

void resvs_put(const struct scene *scene, struct json_write *json, const struct ctl_job *job)
{
    json_write_array(json, "reservations");
    if (job->phase == PHASE_JOB_PENDING) {
        for (each_record(const struct ctl_resv, resv, &scene->registry->kept.resvs))
            if (resv->stage > 0 && resv->number != job->wants.kept)
                resv_put(json, resv);
    } else if (!phase_over(job->phase)) {
        const struct ctl_resv *resv = resv_leaves(scene, job);

        if (resv)
            resv_put(json, resv);
    }
    json_write_close(json);
}

void rest_resvs_list(struct request *request)
{
    json_t *items = json_array();
    struct scene scene;

    scene_fill(&scene, request);
    for (each_record(const struct ctl_resv, resv, &scene.registry->kept.resvs))
        (void)json_array_append_new(items, resv_json(&scene, resv, false));
    reply_tree(
        request, 200,
        json_pack("{s:s, s:s, s:o, s:n}", "apiVersion", "v1", "kind", "ReservationList", "items", items, "next"));
}

void rest_resv_get(struct request *request)
{
    const struct ctl_resv *resv = resv_find(server_book(request_server(request)), request->params[0]);
    struct scene scene;

    scene_fill(&scene, request);
    if (resv)
        reply_tree(request, 200, resv_json(&scene, resv, true));
    else
        reply_problem(request, 404, "NotFound", "GET /api/v1/reservations", "no reservation %.60s", request->params[0]);
}

static void offered_resv(struct request *request, const struct entry_result *result)
{
    if (result->code < 0)
        reply_refused(request, result);
    else
        rest_resv_get(request);
}

/* A time in words or a number of seconds; what is not told is the standard. -EINVAL, answered. */
static int time_take(struct request *request, json_t *body, const char *key, usec_t standard)
{
    const json_t *value = json_object_get(body, key);
    const char *text = json_string_value(value);
    usec_t at = standard;

    if (json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) <= SECONDS_MAX)
        at = json_integer_value(value) * USEC_SEC;
    else if (value && (!text || instant_parse(text, strlen(text), &at) < 0)) {
        reply_problem(request, 400, "BadRequest", NULL, "%s: expected a time like 2026-01-31T12:00:00Z", key);
        return -EINVAL;
    }
    (void)json_object_set_new(body, key, json_integer(at));
    return 0;
}

static int node_known(void *arg, const char *name)
{
    const struct ctl_node *node = registry_node_find(server_book(request_server(arg)), name);

    if (node && !node->forgotten)
        return 0;
    reply_problem(arg, 404, "NotFound", "muster nodes lists them", "nodes: no node '%.60s'", name);
    return -ENOENT;
}

/* What an entry that was logged once may say, but nobody may say now. False: answered. */
static bool resv_good(struct request *request, const json_t *body)
{
    const json_t *lead = json_object_get(body, "lead_seconds");
    const char *nodes = json_string_value(json_object_get(body, "nodes"));

    if (lead && (!json_is_integer(lead) || json_integer_value(lead) < 0 || json_integer_value(lead) > SECONDS_MAX)) {
        reply_problem(request, 400, "BadRequest", NULL, "lead_seconds: expected a number, not negative");
        return false;
    }
    return !nodes || hostlist_each(nodes, node_known, request, NULL) != -ENOENT;
}

static void keep(json_t *body, const char *key, json_t *value)
{
    if (json_object_get(body, key))
        json_decref(value);
    else
        (void)json_object_set_new(body, key, value);
}

/* What is not said of a reservation stays as it was. */
static void resv_keep(json_t *body, const struct ctl_resv *had)
{
    keep(body, "nodes", json_string(had->nodes));
    if (had->users.count)
        keep(body, "users", names_json(&had->users));
    if (had->vcs.count)
        keep(body, "vcs", names_json(&had->vcs));
    if (had->reason)
        keep(body, "reason", json_string(had->reason));
}

/* Takes the body: what a reservation is to be, over what it was. */
static void resv_offer(struct request *request, json_t *body, const struct ctl_resv *had)
{
    const json_t *lead = json_object_get(body, "lead_seconds");
    json_int_t span = lead ? json_integer_value(lead) * USEC_SEC : had ? had->lead : 0;

    if (!resv_good(request, body) || time_take(request, body, "start", had ? had->start : clock_now()) < 0 ||
        time_take(request, body, "end", had ? had->end : 0) < 0) {
        json_decref(body);
        return;
    }
    (void)json_object_set_new(body, "lead", json_integer(span));
    (void)json_object_del(body, "lead_seconds");
    if (had)
        resv_keep(body, had);
    request_offer_json(request, ENTRY_RESV, body, offered_resv);
}

static const char *const resv_keys[] = {
    "name", "nodes", "start", "end", "lead_seconds", "users", "vcs", "reason", NULL
};

void rest_resvs_add(struct request *request)
{
    json_t *body = request_object(request, resv_keys);
    const char *name = json_string_value(json_object_get(body, "name"));

    if (!body)
        return;
    if (!name || resv_find(server_book(request_server(request)), name)) {
        reply_problem(request, name ? 409 : 400, name ? "Conflict" : "BadRequest", NULL,
                      name ? "there is a reservation %.60s already" : "name: what is it to be called?", name);
        json_decref(body);
        return;
    }
    /* The answer is the reservation of the path. */
    request_call(request, name);
    resv_offer(request, body, NULL);
}

void rest_resv_put(struct request *request)
{
    const struct ctl_resv *had = resv_find(server_book(request_server(request)), request->params[0]);
    json_t *body = had ? request_object(request, resv_keys + 1) : NULL;

    if (!had)
        reply_problem(request, 404, "NotFound", NULL, "no reservation %.60s", request->params[0]);
    if (!body)
        return;
    (void)json_object_set_new(body, "name", json_string(request->params[0]));
    resv_offer(request, body, had);
}

void rest_resv_delete(struct request *request)
{
    request_offer(
        request,
        &(struct entry){ .kind = ENTRY_RESV, .resv = { .name = entry_text(request->params[0]), .remove = true } },
        offered_nothing);
}
