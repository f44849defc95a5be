/* SPDX-License-Identifier: Apache-2.0 */
/* rest_jobs_batch.c - POST /jobs:batch: one action for several jobs. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/rest/common/job_history.h"
#include "ctl/rest/rest.h"
#include "ctl/state/registry.h"

enum { BATCH_MAX = 10000 };

/* One action for several jobs: offered together, answered when the last is applied, and when those that the registry
 * does not have have been looked for in the store, one after another. */

struct batch {
    struct request *request;
    size_t count, left;
    size_t looked; /* for those before this one the store has been asked */
    struct batch_item {
        struct batch *batch;
        int64_t id;
        bool unknown; /* to the registry */
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
    size_t n = 0, most = ids ? json_array_size(ids) : scene->registry->live_count;

    batch->items = mem_zalloc(most + 1, sizeof(*batch->items));
    if (!batch->items)
        return 0;
    for (size_t i = 0; i < most && n < BATCH_MAX; i++) {
        const struct ctl_job *job =
            ids ? registry_find(scene->registry, json_integer_value(json_array_get(ids, i))) : scene->registry->live[i];

        if (!ids &&
            (!filter_takes(scene, filter, job) || !auth_governs(scene->who, scene->registry, job, scene->cluster)))
            continue;
        batch->items[n].batch = batch;
        batch->items[n++].id = ids ? json_integer_value(json_array_get(ids, i)) : job->id;
    }
    return n;
}

/* A job of the past, or none: what a single verb says of it. */
static void item_refuse(struct batch_item *item, const struct request *request, const json_t *record)
{
    struct ctl_job *job = record ? past_read(batcher_ctl(request_server(request)->batcher), record) : NULL;
    struct error *text = &item->result.text;
    struct scene scene;

    scene_fill(&scene, request);
    if (!job)
        item->result.code = error_set(text, -ENOENT, "no job %" PRId64, item->id);
    else if (!auth_governs(&request->who, scene.registry, job, scene.cluster))
        item->result.code = error_set(text, -EPERM, "job %" PRId64 " is not yours", item->id);
    else
        item->result.code = error_set(text, -EALREADY, "job %" PRId64 " is over", item->id);
    if (job)
        ctl_job_free(job);
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
            batcher_history_get(server->batcher, item->id, on_batch_past, batch) == 0)
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
        const struct ctl_job *job = registry_find(scene->registry, item->id);
        struct entry_result refused = { 0 };
        struct entry entry;

        item->unknown = !job;
        if (!job)
            continue;
        if (!auth_governs(&request->who, scene->registry, job, scene->cluster))
            refused.code = error_set(&refused.text, -EPERM, "job %" PRId64 " is not yours", item->id);
        if (refused.code == 0) {
            entry = entry_of_job(batch_kinds[action], item->id, request->who.user);
            if (entry.kind == ENTRY_SIGNAL)
                entry.signal.signal = signal;
            if (batcher_offer(request_server(request)->batcher, &entry, on_batch_item, item, &refused) == 0)
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
    if (batcher_pending_of(request_server(request)->batcher, request->who.user) >= BATCH_MAX) {
        reply_problem(request, 429, "TooManyOfYours", "wait for the answer to what was asked before",
                      "%d acts of yours wait to be carried out already", BATCH_MAX);
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
