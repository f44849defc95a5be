/* SPDX-License-Identifier: Apache-2.0 */
/* rest_resv.c - reservations: nodes for some people's jobs, for a time; and labels of nodes. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/record.h"
#include "ctl/rest.h"
#include "wire/duration.h"
#include "wire/hostlist.h"

#define SECONDS_MAX ((json_int_t)1 << 40)

static json_t *resv_json(const struct scene *scene, const json_t *resv, bool whole)
{
    usec_t start = json_integer_value(json_object_get(resv, "start"));
    json_t *out =
        json_pack("{s:O, s:O, s:o, s:o, s:I, s:O?, s:O?, s:O?, s:s}", "name", json_object_get(resv, "name"), "nodes",
                  json_object_get(resv, "nodes"), "start", record_time(start), "end",
                  record_time(json_integer_value(json_object_get(resv, "end"))), "lead_seconds",
                  json_integer_value(json_object_get(resv, "lead")) / USEC_SEC, "users", json_object_get(resv, "users"),
                  "vcs", json_object_get(resv, "vcs"), "reason", json_object_get(resv, "reason"), "state",
                  resv_active(resv, scene->now) ? "active" : "planned");

    if (whole) {
        (void)json_object_set_new(out, "apiVersion", json_string("v1"));
        (void)json_object_set_new(out, "kind", json_string("Reservation"));
    }
    return out;
}

static void resv_put(struct json_write *json, const json_t *resv)
{
    json_write_object(json, NULL);
    json_write_text(json, "name", json_string_value(json_object_get(resv, "name")));
    json_write_text(json, "nodes", json_string_value(json_object_get(resv, "nodes")));
    put_time(json, "start", json_integer_value(json_object_get(resv, "start")));
    put_time(json, "end", json_integer_value(json_object_get(resv, "end")));
    json_write_close(json);
}

/* The next one on the nodes of a job that will not be over by then. */
static const json_t *resv_leaves(const struct scene *scene, const struct book_job *job)
{
    const struct book_attempt *attempt = book_attempt(job);
    usec_t until = attempt && attempt->started && job->wants.time_limit ? attempt->started + job->wants.time_limit : 0;
    const json_t *first = NULL;

    for (uint32_t t = 0; attempt && !attempt->ended && t < attempt->task_count; t++) {
        const json_t *resv =
            resv_next(scene->book, node_name(scene, attempt->tasks[t].node), job->wants.kept, scene->now, until);

        if (resv && (!first || json_integer_value(json_object_get(resv, "start")) <
                                   json_integer_value(json_object_get(first, "start"))))
            first = resv;
    }
    return first;
}

void resvs_put(const struct scene *scene, struct json_write *json, const struct book_job *job)
{
    const json_t *resv;
    size_t i;

    json_write_array(json, "reservations");
    if (job->phase == PHASE_JOB_PENDING) {
        json_array_foreach(scene->book->resvs, i, resv) if (json_integer_value(json_object_get(resv, "stage")) > 0 &&
                                                            json_integer_value(json_object_get(resv, "number")) !=
                                                                job->wants.kept) resv_put(json, resv);
    } else if (!phase_over(job->phase)) {
        resv = resv_leaves(scene, job);
        if (resv)
            resv_put(json, resv);
    }
    json_write_close(json);
}

void rest_resvs_list(struct request *request)
{
    json_t *items = json_array(), *resv;
    struct scene scene;
    size_t i;

    scene_fill(&scene, request);
    json_array_foreach(scene.book->resvs, i, resv)(void) json_array_append_new(items, resv_json(&scene, resv, false));
    reply_tree(
        request, 200,
        json_pack("{s:s, s:s, s:o, s:n}", "apiVersion", "v1", "kind", "ReservationList", "items", items, "next"));
}

void rest_resv_get(struct request *request)
{
    const json_t *resv = resv_find(server_book(request_server(request)), request->params[0]);
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

/* A time in words or a number of seconds; what is not told is taken from what there was. -EINVAL, answered. */
static int time_take(struct request *request, json_t *body, const char *key, const json_t *had, usec_t standard)
{
    const json_t *value = json_object_get(body, key);
    const char *text = json_string_value(value);
    usec_t at = standard;

    if (!value && had)
        at = json_integer_value(json_object_get(had, key));
    else if (json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) <= SECONDS_MAX)
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
    const struct book_node *node = book_node_find(server_book(request_server(arg)), name);

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

/* Takes the body: what a reservation is to be, over what it was. */
static void resv_offer(struct request *request, json_t *body, const json_t *had)
{
    static const char *const kept[] = { "nodes", "users", "vcs", "reason" };
    const json_t *lead = json_object_get(body, "lead_seconds");
    json_int_t span = json_integer_value(lead ? lead : had ? json_object_get(had, "lead") : NULL);

    if (!resv_good(request, body) || time_take(request, body, "start", had, clock_now()) < 0 ||
        time_take(request, body, "end", had, 0) < 0) {
        json_decref(body);
        return;
    }
    (void)json_object_set_new(body, "lead", json_integer(lead ? span * USEC_SEC : span));
    (void)json_object_del(body, "lead_seconds");
    for (size_t i = 0; had && i < 4; i++)
        if (!json_object_get(body, kept[i]) && json_object_get(had, kept[i]))
            (void)json_object_set(body, kept[i], json_object_get(had, kept[i]));
    request_offer(request, ENTRY_RESV, body, offered_resv);
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
    const json_t *had = resv_find(server_book(request_server(request)), request->params[0]);
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
    request_offer(request, ENTRY_RESV, json_pack("{s:s, s:b}", "name", request->params[0], "remove", 1),
                  offered_nothing);
}
