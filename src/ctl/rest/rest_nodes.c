/* SPDX-License-Identifier: Apache-2.0 */
/* rest_nodes.c - nodes, GPUs and virtual clusters. */
#include <errno.h>
#include <string.h>

#include "ctl/rest/rest.h"
#include "wire/text/decimal.h"
#include "wire/text/duration.h"

void rest_nodes_list(struct request *request)
{
    static const char *const known[] = { "state", "limit", NULL };
    struct buf out = BUF_INIT((size_t)64 << 20);
    struct json_write json;
    struct scene scene;
    char state[32];
    int some;

    if (!query_known(request, known))
        return;
    some = query_word(request, "state", state, sizeof(state));
    if (some < 0)
        return;
    scene_fill(&scene, request);
    list_begin(&json, &out, "NodeList");
    for (size_t i = 0; i < scene.registry->node_count; i++) {
        const struct ctl_node *node = &scene.registry->nodes[i];
        struct node_use use;

        if (node->forgotten)
            continue;
        if (some) {
            node_use(&scene, node, &use);
            if (strcmp(node_state(node, &use), state) != 0)
                continue;
        }
        render_node(&scene, &json, node, false);
    }
    list_end(&json, NULL);
    reply_buf(request, 200, &out);
}

/* The node of the path; NULL, answered. */
static const struct ctl_node *request_node(struct request *request)
{
    const struct ctl_node *node = registry_node_find(server_book(request_server(request)), request->params[0]);

    if (!node || node->forgotten) {
        reply_problem(request, 404, "NotFound", NULL, "no node %.80s", request->params[0]);
        return NULL;
    }
    return node;
}

static void node_reply(struct request *request, const struct ctl_node *node)
{
    struct buf out = BUF_INIT((size_t)8 << 20);
    struct json_write json;
    struct scene scene;

    scene_fill(&scene, request);
    json_write_init(&json, &out, false);
    render_node(&scene, &json, node, true);
    reply_buf(request, 200, &out);
}

void rest_node_get(struct request *request)
{
    const struct ctl_node *node = request_node(request);

    if (node)
        node_reply(request, node);
}

static void offered_node(struct request *request, const struct entry_result *result)
{
    const struct ctl_node *node;

    if (result->code < 0) {
        reply_refused(request, result);
        return;
    }
    node = request_node(request);
    if (node)
        node_reply(request, node);
}

/* {"drain":true,"reason","deadline"}, {"reboot":true,"reason","deadline"} or {"drain":false}, for a node or one of its
 * GPUs (-1: the node), which cannot be started anew alone. */
static void drain_patch(struct request *request, int gpu)
{
    const char *const keys[] = { "drain", "reason", "deadline", gpu < 0 ? "reboot" : NULL, NULL };
    json_t *body = request_object(request, keys), *drain;
    struct entry entry = { 0 };
    const char *reason, *deadline;
    usec_t at = 0;
    bool reboot;

    if (!body)
        return;
    reboot = json_is_true(json_object_get(body, "reboot"));
    if (reboot)
        (void)json_object_set_new(body, "drain", json_true());
    drain = json_object_get(body, "drain");
    reason = json_string_value(json_object_get(body, "reason"));
    deadline = json_string_value(json_object_get(body, "deadline"));
    if (!json_is_boolean(drain))
        reply_problem(request, 400, "BadRequest", NULL, "drain: expected true or false");
    else if (json_is_true(drain) && (!reason || !*reason))
        reply_problem(request, 400, "BadRequest", NULL, "reason: say why it is drained");
    else if (deadline && instant_parse(deadline, strlen(deadline), &at) < 0)
        reply_problem(request, 400, "BadRequest", NULL, "deadline: expected a time like 2026-01-31T12:00:00Z");
    if (request->answered) {
        json_decref(body);
        return;
    }
    if (json_is_true(drain))
        entry = (struct entry){ .kind = ENTRY_DRAIN,
                                .drain = { .node = entry_text(request->params[0]),
                                           .by = entry_text(request->who.user),
                                           .reason = entry_text(reason),
                                           .gpu = { gpu >= 0 ? GIVEN_VALUE : GIVEN_NOT, gpu >= 0 ? gpu : 0 },
                                           .deadline = at,
                                           .reboot = reboot } };
    else
        entry = (struct entry){ .kind = ENTRY_UNDRAIN,
                                .undrain = { .node = entry_text(request->params[0]),
                                             .by = entry_text(request->who.user),
                                             .gpu = { gpu >= 0 ? GIVEN_VALUE : GIVEN_NOT, gpu >= 0 ? gpu : 0 } } };
    request_offer(request, &entry, offered_node);
    json_decref(body);
}

/* {"labels":{NAME:VALUE or null}}: given by people, over those the agent told. */
static void label_patch(struct request *request)
{
    static const char *const keys[] = { "labels", NULL };
    json_t *body = request_object(request, keys);

    if (!body)
        return;
    request_offer_json(request, ENTRY_LABEL,
                       json_pack("{s:s, s:O, s:s}", "node", request->params[0], "set", json_object_get(body, "labels"),
                                 "by", request->who.user),
                       offered_node);
    json_decref(body);
}

/* {"lost":true}: an administrator confirms that its machine is off. What it ran starts elsewhere (ADR 55). */
static void lost_patch(struct request *request, const struct ctl_node *node)
{
    static const char *const keys[] = { "lost", NULL };
    json_t *body = request_object(request, keys);
    char why[ENTRY_NAME_MAX + 32];

    if (!body)
        return;
    if (!json_is_true(json_object_get(body, "lost")))
        reply_problem(request, 400, "BadRequest", NULL, "lost: expected true");
    else if (!node->silent || node->connected)
        reply_problem(request, 409, "Conflict", "muster node drain", "node %s is heard: drain it", request->params[0]);
    else {
        (void)snprintf(why, sizeof(why), "%.255s said that it is off", request->who.user);
        request_offer(request,
                      &(struct entry){ .kind = ENTRY_LOST,
                                       .lost = { .node = entry_text(request->params[0]), .why = entry_text(why) } },
                      offered_node);
    }
    json_decref(body);
}

static bool body_has(const struct http_message *m, const char *key)
{
    return m->body_size && memmem(m->body, m->body_size, key, strlen(key));
}

void rest_node_patch(struct request *request)
{
    const struct http_message *m = request->message;
    const struct ctl_node *node = request_node(request);

    if (!node)
        return;
    if (body_has(m, "\"labels\""))
        label_patch(request);
    else if (body_has(m, "\"lost\""))
        lost_patch(request, node);
    else
        drain_patch(request, -1);
}

void rest_node_delete(struct request *request)
{
    if (request_node(request))
        request_offer(request,
                      &(struct entry){ .kind = ENTRY_FORGET,
                                       .forget = { .node = entry_text(request->params[0]),
                                                   .revoke = query_flag(request, "revoke") } },
                      offered_nothing);
}

/* The GPU of the path; -1, answered. */
static int request_gpu(struct request *request)
{
    const struct ctl_node *node = request_node(request);
    int64_t index;

    if (!node)
        return -1;
    if (decimal_parse_i64(request->params[1], strlen(request->params[1]), &index) < 0 || index < 0 ||
        index >= node->gpu_count) {
        reply_problem(request, 404, "NotFound", NULL, "node %.80s has no GPU %.20s", request->params[0],
                      request->params[1]);
        return -1;
    }
    return (int)index;
}

void rest_gpu_get(struct request *request)
{
    int index = request_gpu(request);
    struct buf out = BUF_INIT((size_t)1 << 20);
    struct json_write json;
    struct scene scene;

    if (index < 0)
        return;
    scene_fill(&scene, request);
    json_write_init(&json, &out, false);
    render_gpu(&scene, &json, registry_node_find(scene.registry, request->params[0]), (uint32_t)index);
    reply_buf(request, 200, &out);
}

void rest_gpu_patch(struct request *request)
{
    int index = request_gpu(request);

    if (index >= 0)
        drain_patch(request, index);
}

void rest_gpus(struct request *request)
{
    struct buf out = BUF_INIT((size_t)8 << 20);
    struct json_write json;
    struct scene scene;

    scene_fill(&scene, request);
    list_begin(&json, &out, "GpuSummaryList");
    render_gpu_summary(&scene, &json);
    list_end(&json, NULL);
    reply_buf(request, 200, &out);
}

void rest_vcs_list(struct request *request)
{
    struct buf out = BUF_INIT((size_t)16 << 20);
    struct json_write json;
    struct scene scene;

    scene_fill(&scene, request);
    list_begin(&json, &out, "VcList");
    for (uint32_t i = 0; scene.core && i < core_vc_count(scene.core); i++)
        if (vc_open(&scene, i))
            render_vc(&scene, &json, i, NULL);
    list_end(&json, NULL);
    reply_buf(request, 200, &out);
}

/* Number of the virtual cluster of the path; UINT32_MAX, answered. */
uint32_t request_vc(struct request *request, struct scene *scene)
{
    scene_fill(scene, request);
    for (uint32_t i = 0; scene->core && i < core_vc_count(scene->core); i++)
        if (strcmp(vc_name(scene, i), request->params[0]) == 0)
            return i;
    reply_problem(request, 404, "NoSuchVc", NULL, "no virtual cluster %.80s", request->params[0]);
    return UINT32_MAX;
}

void rest_vc_get(struct request *request)
{
    struct buf out = BUF_INIT((size_t)1 << 20);
    struct json_write json;
    struct scene scene;
    uint32_t vc = request_vc(request, &scene);

    if (vc == UINT32_MAX)
        return;
    json_write_init(&json, &out, false);
    render_vc(&scene, &json, vc, "Vc");
    reply_buf(request, 200, &out);
}
