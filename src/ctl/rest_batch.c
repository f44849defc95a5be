/* SPDX-License-Identifier: Apache-2.0 */
/* rest_batch.c - arrays, and one action for several jobs. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/part.h"
#include "ctl/past.h"
#include "ctl/rest.h"
#include "wire/decimal.h"

enum { BATCH_MAX = 10000 };

void array_reply(struct request *request, int status, int64_t id)
{
    const struct book *book = server_book(request_server(request));
    const struct book_job **all;
    size_t count = array_elements(book, id, &all);
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
static int64_t array_id(struct request *request, const struct book_job **ret_element)
{
    const struct book *book = server_book(request_server(request));
    const struct book_job **all = NULL;
    struct scene scene;
    int64_t id = 0;
    size_t count = 0;

    if (decimal_parse_i64(request->params[0], strlen(request->params[0]), &id) == 0)
        count = array_elements(book, id, &all);
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
    const struct book_job *element;
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
    const struct book_job *element;
    int64_t id = array_id(request, &element);
    struct scene scene;

    if (!id)
        return;
    scene_fill(&scene, request);
    if (!auth_governs(&request->who, scene.book, element, scene.cluster)) {
        reply_problem(request, 403, "NotAllowed", NULL, "array %" PRId64 " is not yours", id);
        return;
    }
    request_offer(
        request, ENTRY_CANCEL,
        json_pack("{s:I, s:s, s:b}", "job", (json_int_t)id, "by", request->who.user, "now", query_flag(request, "now")),
        on_array_cancelled);
}

/* One action for several jobs: offered together, answered when the last is applied, and when those that the book does
 * not have have been looked for in the store, one after another. */

struct batch {
    struct request *request;
    size_t count, left;
    size_t looked; /* for those before this one the store has been asked */
    struct batch_item {
        struct batch *batch;
        int64_t id;
        bool unknown; /* to the book */
        struct entry_result result;
    } * items;
};

static void batch_reply(struct batch *batch)
{
    struct buf out = BUF_INIT((size_t)16 << 20);
    struct json_write json;

    list_begin(&json, &out, "BatchResult");
    for (size_t i = 0; i < batch->count; i++) {
        const struct batch_item *item = &batch->items[i];
        const char *code = "";
        int status = item->result.code < 0 ? refusal_status(&item->result, &code) : 200;

        json_write_object(&json, NULL);
        json_write_i64(&json, "id", item->id);
        json_write_bool(&json, "ok", item->result.code >= 0);
        json_write_i64(&json, "status", status);
        json_write_text(&json, "code", code);
        json_write_text(&json, "detail", item->result.code < 0 ? item->result.text.text : "");
        json_write_close(&json);
    }
    list_end(&json, NULL);
    reply_buf(batch->request, 200, &out);
    request_drop(batch->request);
    mem_free(batch->items);
    mem_free(batch);
}

static void on_batch_item(void *arg, const struct entry_result *result)
{
    struct batch_item *item = arg;

    item->result = *result;
    if (--item->batch->left == 0)
        batch_reply(item->batch);
}

static const char *const batch_actions[] = { "cancel", "hold", "release", "requeue", "suspend", "resume", "signal" };
static const enum entry_kind batch_kinds[] = { ENTRY_CANCEL,  ENTRY_HOLD,   ENTRY_RELEASE, ENTRY_REQUEUE,
                                               ENTRY_SUSPEND, ENTRY_RESUME, ENTRY_SIGNAL };

static int batch_filter(struct request *request, json_t *body, struct job_filter *filter)
{
    const char *text;
    json_t *ids = json_object_get(body, "ids");

    *filter = (struct job_filter){ 0 };
    if ((text = json_string_value(json_object_get(body, "user"))) != NULL)
        (void)snprintf(filter->user, sizeof(filter->user), "%s", text);
    if ((text = json_string_value(json_object_get(body, "vc"))) != NULL)
        (void)snprintf(filter->vc, sizeof(filter->vc), "%s", text);
    if ((text = json_string_value(json_object_get(body, "name"))) != NULL)
        (void)snprintf(filter->name, sizeof(filter->name), "%s", text);
    text = json_string_value(json_object_get(body, "state"));
    if (text && filter_state(filter, text) < 0) {
        reply_problem(request, 400, "BadRequest", NULL, "state: there is no '%.40s'", text);
        return -EINVAL;
    }
    if (ids && (!json_is_array(ids) || json_array_size(ids) > BATCH_MAX)) {
        reply_problem(request, 400, "BadRequest", NULL, "ids: a list of at most %d", BATCH_MAX);
        return -EINVAL;
    }
    if (!ids && !filter->user[0] && !filter->vc[0] && !filter->name[0] && !filter->phases) {
        reply_problem(request, 400, "BadRequest", NULL, "say which: ids, user, vc, name or state");
        return -EINVAL;
    }
    return 0;
}

/* The jobs it means that the caller may change; those named by id are kept to be refused one by one. */
static size_t batch_choose(const struct scene *scene, json_t *body, const struct job_filter *filter,
                           struct batch *batch)
{
    json_t *ids = json_object_get(body, "ids");
    size_t n = 0, most = ids ? json_array_size(ids) : scene->book->live_count;

    batch->items = mem_zalloc(most + 1, sizeof(*batch->items));
    if (!batch->items)
        return 0;
    for (size_t i = 0; i < most && n < BATCH_MAX; i++) {
        const struct book_job *job =
            ids ? book_find(scene->book, json_integer_value(json_array_get(ids, i))) : scene->book->live[i];

        if (!ids && (!filter_takes(scene, filter, job) || !auth_governs(scene->who, scene->book, job, scene->cluster)))
            continue;
        batch->items[n].batch = batch;
        batch->items[n++].id = ids ? json_integer_value(json_array_get(ids, i)) : job->id;
    }
    return n;
}

/* A job of the past, or none: what a single verb says of it. */
static void item_refuse(struct batch_item *item, const struct request *request, const json_t *record)
{
    struct book_job *job = record ? past_read(drive_ctl(request_server(request)->drive), record) : NULL;
    struct error *text = &item->result.text;
    struct scene scene;

    scene_fill(&scene, request);
    if (!job)
        item->result.code = error_set(text, -ENOENT, "no job %" PRId64, item->id);
    else if (!auth_governs(&request->who, scene.book, job, scene.cluster))
        item->result.code = error_set(text, -EPERM, "job %" PRId64 " is not yours", item->id);
    else
        item->result.code = error_set(text, -EALREADY, "job %" PRId64 " is over", item->id);
    if (job)
        book_job_free(job);
}

static void batch_look(struct batch *batch);

static void on_batch_past(void *arg, json_t *records)
{
    struct batch *batch = arg;

    item_refuse(&batch->items[batch->looked++], batch->request, json_array_get(records, 0));
    batch->left--;
    batch_look(batch);
}

static void batch_look(struct batch *batch)
{
    const struct server *server = request_server(batch->request);

    for (; batch->looked < batch->count; batch->looked++) {
        struct batch_item *item = &batch->items[batch->looked];

        if (!item->unknown)
            continue;
        if (item->id > 0 && item->id < server_book(server)->next_id &&
            drive_history_get(server->drive, item->id, on_batch_past, batch) == 0)
            return;
        item_refuse(item, batch->request, NULL);
        batch->left--;
    }
    if (--batch->left == 0)
        batch_reply(batch);
}

static void batch_run(struct request *request, struct batch *batch, size_t action, int signal,
                      const struct scene *scene)
{
    batch->left = batch->count + 1;
    for (size_t i = 0; i < batch->count; i++) {
        struct batch_item *item = &batch->items[i];
        const struct book_job *job = book_find(scene->book, item->id);
        struct entry_result refused = { 0 };
        json_t *body;

        item->unknown = !job;
        if (!job)
            continue;
        if (!auth_governs(&request->who, scene->book, job, scene->cluster))
            refused.code = error_set(&refused.text, -EPERM, "job %" PRId64 " is not yours", item->id);
        if (refused.code == 0) {
            body = json_pack("{s:I, s:s}", "job", (json_int_t)item->id, "by", request->who.user);
            if (body && batch_kinds[action] == ENTRY_SIGNAL)
                (void)json_object_set_new(body, "signal", json_integer(signal));
            if (drive_offer(request_server(request)->drive, batch_kinds[action], body, on_batch_item, item, &refused) ==
                0)
                continue;
        }
        item->result = refused;
        batch->left--;
    }
    batch_look(batch);
}

void rest_jobs_batch(struct request *request)
{
    static const char *const keys[] = { "action", "ids", "user", "vc", "state", "name", "signal", NULL };
    json_t *body = request_object(request, keys);
    const char *action = json_string_value(json_object_get(body, "action"));
    int signal = (int)json_integer_value(json_object_get(body, "signal"));
    struct job_filter filter;
    struct batch *batch;
    struct scene scene;
    size_t i = 0;

    if (!body)
        return;
    while (i < 7 && (!action || strcmp(action, batch_actions[i]) != 0))
        i++;
    if (i == 7)
        reply_problem(request, 400, "BadRequest", NULL,
                      "action: expected cancel, hold, release, requeue, suspend, resume or signal");
    if (i == 7 || batch_filter(request, body, &filter) < 0) {
        json_decref(body);
        return;
    }
    scene_fill(&scene, request);
    batch = mem_zalloc(1, sizeof(*batch));
    if (batch) {
        batch->request = request_hold(request);
        batch->count = batch_choose(&scene, body, &filter, batch);
        if (batch->items)
            batch_run(request, batch, i, signal, &scene);
    } else {
        reply_problem(request, 503, "Busy", NULL, "out of memory");
    }
    json_decref(body);
}
