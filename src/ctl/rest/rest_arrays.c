/* SPDX-License-Identifier: Apache-2.0 */
/* rest_arrays.c - /arrays/{id}: a job array as one object. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/rest/rest.h"
#include "wire/text/decimal.h"

void array_reply(struct request *request, int status, int64_t id)
{
    const struct registry *registry = server_book(request_server(request));
    const struct ctl_job **all;
    size_t count = array_elements(registry, id, &all);
    uint32_t states[PHASE_JOB_COUNT] = { 0 };
    struct buf out = BUF_INIT((size_t)16 << 20);
    struct json_write json;
    struct scene scene;

    if (count == 0) {
        reply_problem(request, 404, "NotFound", NULL, "no array %" PRId64, id);
        return;
    }
    scene_fill(&scene, request);
    json_write_init(&json, &out, false);
    json_write_object(&json, NULL);
    json_write_text(&json, "apiVersion", "v1");
    json_write_text(&json, "kind", "Array");
    json_write_i64(&json, "id", id);
    if (all[0]->spec->name && render_names(&scene, all[0]))
        json_write_text(&json, "name", all[0]->spec->name);
    else
        json_write_null(&json, "name");
    json_write_i64(&json, "size", (int64_t)count);
    json_write_array(&json, "jobs");
    for (size_t i = 0; i < count; i++) {
        states[all[i]->phase]++;
        json_write_i64(&json, NULL, all[i]->id);
    }
    json_write_close(&json);
    json_write_object(&json, "states");
    for (int i = 0; i < PHASE_JOB_COUNT; i++)
        if (states[i])
            json_write_i64(&json, phase_name((enum phase_of_job)i), states[i]);
    json_write_close(&json);
    json_write_close(&json);
    mem_free(all);
    reply_buf(request, status, &out);
}

/* The array of the path, and one of its elements; 0, answered. */
static int64_t array_id(struct request *request, const struct ctl_job **ret_element)
{
    const struct registry *registry = server_book(request_server(request));
    const struct ctl_job **all = NULL;
    struct scene scene;
    int64_t id = 0;
    size_t count = 0;

    if (decimal_parse_i64(request->params[0], strlen(request->params[0]), &id) == 0)
        count = array_elements(registry, id, &all);
    *ret_element = count ? all[0] : NULL;
    mem_free(all);
    scene_fill(&scene, request);
    if (count == 0 || !render_shows(&scene, *ret_element)) {
        reply_problem(request, 404, "NotFound", NULL, "no array %.40s", request->params[0]);
        return 0;
    }
    return id;
}

void rest_array_get(struct request *request)
{
    const struct ctl_job *element;
    int64_t id = array_id(request, &element);

    if (id)
        array_reply(request, 200, id);
}

static void on_array_cancelled(struct request *request, const struct entry_result *result)
{
    int64_t id = 0;

    (void)decimal_parse_i64(request->params[0], strlen(request->params[0]), &id);
    if (result->code < 0)
        reply_refused(request, result);
    else
        array_reply(request, 200, id);
}

void rest_array_delete(struct request *request)
{
    const struct ctl_job *element;
    int64_t id = array_id(request, &element);
    struct scene scene;

    if (!id)
        return;
    scene_fill(&scene, request);
    if (!auth_governs(&request->who, scene.registry, element, scene.cluster)) {
        reply_problem(request, 403, "NotAllowed", NULL, "array %" PRId64 " is not yours", id);
        return;
    }
    request_offer(request,
                  &(struct entry){
                      .kind = ENTRY_CANCEL,
                      .cancel = { .job = id, .by = entry_text(request->who.user), .now = query_flag(request, "now") } },
                  on_array_cancelled);
}
