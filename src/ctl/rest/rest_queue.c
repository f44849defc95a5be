/* SPDX-License-Identifier: Apache-2.0 */
/* rest_queue.c - GET /queue: pending jobs in expected order of start. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/insight/forecast.h"
#include "ctl/rest/rest.h"

enum { QUEUE_MAX = 10000 };

/* Pending jobs in the order the scheduler would take them as far as it is known: by expected start, then by priority,
 * then as they came. */
struct waiting {
    const struct ctl_job *job;
    struct eta eta;
    bool known;
};

static int waiting_order(const void *a, const void *b)
{
    const struct waiting *x = a, *y = b;
    usec_t at = x->known ? x->eta.at : USEC_NEVER, bt = y->known ? y->eta.at : USEC_NEVER;

    if (at != bt)
        return at < bt ? -1 : 1;
    if (x->job->wants.priority != y->job->wants.priority)
        return x->job->wants.priority > y->job->wants.priority ? -1 : 1;
    if (x->job->submit != y->job->submit)
        return x->job->submit < y->job->submit ? -1 : 1;
    return x->job->id < y->job->id ? -1 : x->job->id > y->job->id;
}

struct place_in_queue {
    int64_t position, gpus_ahead;
};

struct queue_want {
    const struct job_filter *filter;
    int64_t skip, limit;
    char reason[64]; /* code; empty = any */
};

static bool reason_is(const struct scene *scene, const struct ctl_job *job, const char *wanted)
{
    const char *code;
    char text[256];

    return !*wanted || (render_reason(scene, job, &code, text, sizeof(text)) && strcmp(code, wanted) == 0);
}

/* Those before it, the GPUs they ask for, and itself. */
static void waiting_put(const struct scene *scene, struct json_write *json, const struct waiting *waiting,
                        const struct place_in_queue *place)
{
    render_job_begin(scene, json, waiting->job);
    json_write_i64(json, "position", place->position);
    json_write_i64(json, "gpus_ahead", place->gpus_ahead);
    json_write_close(json);
}

/* One page of the queue; its place counts all that wait, whoever is shown. */
static void queue_page(const struct scene *scene, struct json_write *json, const struct queue_want *want,
                       const struct waiting *list, size_t n)
{
    struct place_in_queue place = { 0 };
    int64_t at = 0, last = want->skip + want->limit;
    char next[32];

    for (size_t i = 0; i < n; i++) {
        place.position++;
        if (filter_takes(scene, want->filter, list[i].job) && reason_is(scene, list[i].job, want->reason)) {
            if (at >= want->skip && at < last)
                waiting_put(scene, json, &list[i], &place);
            at++;
        }
        place.gpus_ahead += jobspec_gpus(&list[i].job->wants);
    }
    json_write_close(json);
    (void)snprintf(next, sizeof(next), "%" PRId64, last);
    if (at > last)
        json_write_text(json, "next", next);
    else
        json_write_null(json, "next");
    json_write_i64(json, "total", at);
    json_write_close(json);
}

void rest_queue(struct request *request)
{
    static const char *const known[] = { "vc",     "user",  "name",   "find",   "array",
                                         "reason", "limit", "cursor", "fields", NULL };
    struct buf out = BUF_INIT((size_t)64 << 20);
    struct waiting *list;
    struct job_filter filter;
    struct queue_want want = { .filter = &filter, .limit = 1000 };
    struct json_write json;
    struct scene scene;
    size_t n = 0;

    scene_fill(&scene, request);
    if (!query_known(request, known) || query_i64(request, "limit", 1, QUEUE_MAX, &want.limit) < 0 ||
        query_i64(request, "cursor", 0, INT32_MAX, &want.skip) < 0 ||
        scene_fields(&scene, request, JOB_FIELDS_LIST & ~FIELD_BIT(FIELD_PLACEMENT)) < 0 ||
        query_word(request, "reason", want.reason, sizeof(want.reason)) < 0 || filter_read(request, &filter) < 0)
        return;
    filter.phases = 1U << PHASE_JOB_PENDING;
    list = mem_zalloc(scene.registry->live_count + 1, sizeof(*list));
    for (size_t i = 0; list && i < scene.registry->live_count; i++)
        if (scene.registry->live[i]->phase == PHASE_JOB_PENDING) {
            list[n].job = scene.registry->live[i];
            list[n].known = forecast_eta(scene.server->forecast, list[n].job->id, &list[n].eta);
            n++;
        }
    if (list)
        qsort(list, n, sizeof(*list), waiting_order);
    scene.eta = true;
    list_begin(&json, &out, "JobList");
    queue_page(&scene, &json, &want, list, n);
    mem_free(list);
    filter_done(&filter);
    reply_buf(request, 200, &out);
}
