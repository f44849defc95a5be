/* SPDX-License-Identifier: Apache-2.0 */
/* rest_history.c - GET /history: finished jobs from the store. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/rest/render/record_tree.h"
#include "ctl/rest/rest.h"

enum { HISTORY_MAX = 10000, RECENT_MAX = 64 };

struct looking {
    struct request *request;
    struct store_query query;
    char user[64], vc[64], state[256], name[128], find[128];
    uint32_t phases; /* the states as bits; 0: any */
    void (*then)(struct looking *looking, json_t *items);
};

static void on_history(void *arg, json_t *items)
{
    struct looking *looking = arg;

    if (items)
        looking->then(looking, items);
    else
        reply_problem(looking->request, 500, "Internal", NULL, "the store could not be read");
    request_drop(looking->request);
    mem_free(looking);
}

/* What others may not see of a stored record. */
static void record_veil(const struct scene *scene, json_t *item)
{
    if (auth_sees_record(scene->who, item))
        return;
    (void)json_object_set_new(item, "spec", json_null());
    if (scene->server->conf->privacy != PRIVACY_NAMES)
        (void)json_object_set_new(item, "name", json_null());
}

/* Whether a stored record is shown at all, and found by its name. */
static bool record_shows(const struct scene *scene, const struct looking *looking, const json_t *item)
{
    enum privacy privacy = scene->server->conf->privacy;

    return privacy == PRIVACY_NAMES || (privacy == PRIVACY_SIZES && !looking->query.name) ||
           auth_sees_record(scene->who, item);
}

static bool looking_takes(const struct scene *scene, const struct looking *looking, const struct ctl_job *job)
{
    const struct store_query *q = &looking->query;

    return (!q->user || strcmp(q->user, user_name(scene, job->user)) == 0) &&
           (!q->vc || strcmp(q->vc, vc_name(scene, job->vc)) == 0) &&
           (!looking->phases || looking->phases >> job->phase & 1) &&
           (!q->find || (job->spec->name && strcasestr(job->spec->name, q->find))) &&
           (!q->name || (job->spec->name && strcmp(q->name, job->spec->name) == 0)) &&
           (!q->since || job->end >= q->since) && (!q->until || job->end <= q->until);
}

/* A job that has just ended reaches the store with the next batch; until then it is only in memory. */
static void recent_add(const struct scene *scene, const struct looking *looking, json_t *items)
{
    const struct registry *registry = scene->registry;
    size_t count = registry->finished_count < RECENT_MAX ? registry->finished_count : RECENT_MAX;

    for (size_t i = 0; i < count && looking->query.before_id == 0; i++) {
        const struct ctl_job *job = registry->finished[(registry->finished_next + registry->finished_capacity - 1 - i) %
                                                       registry->finished_capacity];
        size_t at = 0;

        if (!job || !looking_takes(scene, looking, job))
            continue;
        while (at < json_array_size(items) &&
               json_integer_value(json_object_get(json_array_get(items, at), "id")) > job->id)
            at++;
        if (json_integer_value(json_object_get(json_array_get(items, at), "id")) != job->id)
            (void)json_array_insert_new(items, at, record_job(batcher_ctl(scene->server->batcher), job));
    }
    while (json_array_size(items) > looking->query.limit)
        (void)json_array_remove(items, json_array_size(items) - 1);
}

static void history_reply(struct looking *looking, json_t *items)
{
    json_t *last, *next = json_null();
    struct scene scene;
    char text[32];
    size_t count;

    scene_fill(&scene, looking->request);
    recent_add(&scene, looking, items);
    count = json_array_size(items);
    last = count ? json_array_get(items, count - 1) : NULL;
    if (count == looking->query.limit && last) {
        (void)snprintf(text, sizeof(text), "%" PRId64, (int64_t)json_integer_value(json_object_get(last, "id")));
        next = json_string(text);
    }
    for (size_t i = count; i-- > 0;) {
        record_veil(&scene, json_array_get(items, i));
        /* What is looked for in a name that one may not see is not found. */
        if (!record_shows(&scene, looking, json_array_get(items, i)) ||
            (looking->query.find && json_is_null(json_object_get(json_array_get(items, i), "name"))))
            (void)json_array_remove(items, i);
    }
    reply_tree(looking->request, 200,
               json_pack("{s:s, s:s, s:O, s:o}", "apiVersion", "v1", "kind", "JobList", "items", items, "next", next));
}

/* Fills the query from the request; NULL, answered. */
static struct looking *looking_new(struct request *request, void (*then)(struct looking *, json_t *))
{
    struct looking *looking = mem_zalloc(1, sizeof(*looking));
    struct job_filter filter = { 0 };
    int64_t limit = 100, before = 0;

    if (!looking) {
        reply_problem(request, 503, "Busy", NULL, "out of memory");
        return NULL;
    }
    if (query_i64(request, "limit", 1, HISTORY_MAX, &limit) < 0 ||
        query_i64(request, "cursor", 0, INT64_MAX, &before) < 0 ||
        query_time(request, "since", &looking->query.since) < 0 ||
        query_time(request, "from", &looking->query.since) < 0 ||
        query_time(request, "until", &looking->query.until) < 0 ||
        query_time(request, "to", &looking->query.until) < 0 ||
        query_states(request, looking->state, sizeof(looking->state)) < 0 ||
        query_word(request, "user", looking->user, sizeof(looking->user)) < 0 ||
        query_word(request, "vc", looking->vc, sizeof(looking->vc)) < 0 ||
        query_word(request, "name", looking->name, sizeof(looking->name)) < 0 ||
        query_word(request, "find", looking->find, sizeof(looking->find)) < 0) {
        mem_free(looking);
        return NULL;
    }
    looking->query.limit = (uint32_t)limit;
    looking->query.before_id = before;
    looking->query.user = looking->user[0] ? looking->user : NULL;
    looking->query.vc = looking->vc[0] ? looking->vc : NULL;
    looking->query.name = looking->name[0] ? looking->name : NULL;
    looking->query.find = looking->find[0] ? looking->find : NULL;
    (void)filter_state(&filter, looking->state);
    looking->phases = filter.phases;
    if (looking->state[0])
        looking->query.state = looking->state;
    looking->request = request_hold(request);
    looking->then = then;
    return looking;
}

static void looking_start(struct looking *looking)
{
    struct request *request = looking->request;

    if (batcher_history(request_server(request)->batcher, &looking->query, on_history, looking) < 0) {
        reply_problem(request, 503, "Busy", NULL, "the store is busy");
        request_drop(request);
        mem_free(looking);
    }
}

void rest_history(struct request *request)
{
    static const char *const known[] = { "since", "until", "user",  "vc",     "state",
                                         "name",  "find",  "limit", "cursor", NULL };
    struct looking *looking = query_known(request, known) ? looking_new(request, history_reply) : NULL;

    if (looking)
        looking_start(looking);
}
