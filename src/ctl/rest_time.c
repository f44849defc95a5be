/* SPDX-License-Identifier: Apache-2.0 */
/* rest_time.c - the queue in order, what ran and what is planned, finished jobs, totals. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/ledger.h"
#include "ctl/forecast.h"
#include "ctl/record.h"
#include "ctl/rest.h"
#include "wire/decimal.h"

enum { HISTORY_MAX = 10000, QUEUE_MAX = 10000, RECENT_MAX = 64 };

/* Pending jobs in the order the scheduler would take them as far as it is known: by expected start, then by priority,
 * then as they came. */
struct waiting {
    const struct book_job *job;
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

static bool reason_is(const struct scene *scene, const struct book_job *job, const char *wanted)
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
    list = mem_zalloc(scene.book->live_count + 1, sizeof(*list));
    for (size_t i = 0; list && i < scene.book->live_count; i++)
        if (scene.book->live[i]->phase == PHASE_JOB_PENDING) {
            list[n].job = scene.book->live[i];
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

static void interval_put(struct json_write *json, int64_t job, const char *node, usec_t start, usec_t end)
{
    json_write_object(json, NULL);
    json_write_i64(json, "job", job);
    json_write_text(json, "node", node);
    put_time(json, "start", start);
    put_time(json, "end", end);
}

/* Attempts that touched the window. */
static void past_put(const struct scene *scene, struct json_write *json, const struct book_job *job, usec_t from,
                     usec_t to)
{
    for (uint32_t a = 0; a < job->attempt_count; a++) {
        const struct book_attempt *attempt = &job->attempts[a];

        if (!attempt->started || attempt->started > to || (attempt->ended && attempt->ended < from))
            continue;
        for (uint32_t t = 0; t < attempt->task_count; t++) {
            interval_put(json, job->id, node_name(scene, attempt->tasks[t].node), attempt->started, attempt->ended);
            json_write_array(json, "gpus");
            for (uint16_t g = 0; g < attempt->tasks[t].gpu_count; g++)
                json_write_i64(json, NULL, attempt->tasks[t].gpus[g]);
            json_write_close(json);
            json_write_i64(json, "attempt", attempt->number);
            json_write_text(json, "user", user_name(scene, job->user));
            json_write_text(json, "vc", vc_name(scene, job->vc));
            json_write_text(json, "state", phase_name(attempt->phase));
            json_write_bool(json, "planned", false);
            json_write_close(json);
        }
    }
}

/* The node of the book that is this node of the core. */
static const char *core_node_name(const struct scene *scene, uint32_t node)
{
    for (size_t i = 0; i < scene->book->node_count; i++)
        if (scene->book->nodes[i].core_node == node)
            return node_name(scene, (uint32_t)i);
    return "";
}

static void planned_put(const struct scene *scene, struct json_write *json, usec_t to)
{
    const struct ledger *ledger = scene->core ? core_ledger(scene->core) : NULL;
    const uint32_t *gpus;
    size_t count;
    const struct planned *planned = forecast_planned(scene->server->forecast, &count, &gpus);

    for (size_t i = 0; ledger && i < count && planned[i].start <= to; i++) {
        const struct book_job *job = book_find(scene->book, planned[i].job);
        uint32_t at = 0;

        while (job && render_shows(scene, job) && at < planned[i].gpu_count) {
            uint32_t node = ledger->gpus[gpus[planned[i].gpu_first + at]].node;

            interval_put(json, planned[i].job, core_node_name(scene, node), planned[i].start, planned[i].end);
            json_write_array(json, "gpus");
            for (; at < planned[i].gpu_count && ledger->gpus[gpus[planned[i].gpu_first + at]].node == node; at++)
                json_write_i64(json, NULL, gpus[planned[i].gpu_first + at] - ledger->topo.nodes[node].first_gpu);
            json_write_close(json);
            json_write_i64(json, "attempt", job->attempt_count);
            json_write_text(json, "user", user_name(scene, job->user));
            json_write_text(json, "vc", vc_name(scene, job->vc));
            json_write_text(json, "state", "PENDING");
            json_write_bool(json, "planned", true);
            json_write_close(json);
        }
    }
}

void rest_schedule(struct request *request)
{
    static const char *const known[] = { "from", "to", NULL };
    struct buf out = BUF_INIT((size_t)64 << 20);
    struct json_write json;
    struct scene scene;
    usec_t from, to;

    scene_fill(&scene, request);
    from = scene.now - 6 * USEC_HOUR;
    to = scene.now + USEC_DAY;
    if (!query_known(request, known) || query_time(request, "from", &from) < 0 || query_time(request, "to", &to) < 0)
        return;
    list_begin(&json, &out, "ScheduleList");
    for (size_t i = 0; i < scene.book->finished_capacity; i++)
        if (scene.book->finished[i] && render_shows(&scene, scene.book->finished[i]))
            past_put(&scene, &json, scene.book->finished[i], from, to);
    for (size_t i = 0; i < scene.book->live_count; i++)
        if (render_shows(&scene, scene.book->live[i]))
            past_put(&scene, &json, scene.book->live[i], from, to);
    planned_put(&scene, &json, to);
    json_write_close(&json);
    json_write_null(&json, "next");
    json_write_array(&json, "nodes");
    for (size_t i = 0; i < scene.book->node_count; i++)
        if (!scene.book->nodes[i].forgotten)
            json_write_text(&json, NULL, node_name(&scene, (uint32_t)i));
    json_write_close(&json);
    put_time(&json, "now", scene.now);
    json_write_close(&json);
    reply_buf(request, 200, &out);
}

/* Finished jobs of the store. */

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

static bool looking_takes(const struct scene *scene, const struct looking *looking, const struct book_job *job)
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
    const struct book *book = scene->book;
    size_t count = book->finished_count < RECENT_MAX ? book->finished_count : RECENT_MAX;

    for (size_t i = 0; i < count && looking->query.before_id == 0; i++) {
        const struct book_job *job =
            book->finished[(book->finished_next + book->finished_capacity - 1 - i) % book->finished_capacity];
        size_t at = 0;

        if (!job || !looking_takes(scene, looking, job))
            continue;
        while (at < json_array_size(items) &&
               json_integer_value(json_object_get(json_array_get(items, at), "id")) > job->id)
            at++;
        if (json_integer_value(json_object_get(json_array_get(items, at), "id")) != job->id)
            (void)json_array_insert_new(items, at, record_job(drive_ctl(scene->server->drive), job));
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

    if (drive_history(request_server(request)->drive, &looking->query, on_history, looking) < 0) {
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

static void limit_put(struct json_write *json, const char *key, int64_t value)
{
    if (value < 0)
        json_write_null(json, key);
    else
        json_write_i64(json, key, value);
}

/* Whether people who have no job to be seen are told: where others' jobs are not there at all, neither are they. */
static bool user_shown(const struct scene *scene, const char *name)
{
    return scene->server->conf->privacy != PRIVACY_NONE || scene->who->role == ROLE_ADMIN ||
           strcmp(name, scene->who->user) == 0;
}

void rest_users(struct request *request)
{
    struct buf out = BUF_INIT((size_t)64 << 20);
    struct json_write json;
    struct scene scene;
    struct use {
        int64_t gpus, running, pending;
    } * use;

    scene_fill(&scene, request);
    use = mem_zalloc(scene.book->users.count + 1, sizeof(*use));
    if (!use) {
        reply_problem(request, 503, "Busy", NULL, "out of memory");
        return;
    }
    for (size_t i = 0; i < scene.book->live_count; i++) {
        const struct book_job *job = scene.book->live[i];

        if (job->user >= scene.book->users.count || !render_shows(&scene, job))
            continue;
        if (job->phase == PHASE_JOB_PENDING) {
            use[job->user].pending++;
        } else {
            use[job->user].running++;
            use[job->user].gpus += jobspec_gpus(&job->wants);
        }
    }
    list_begin(&json, &out, "UserList");
    for (uint32_t i = 0; i < scene.book->users.count; i++) {
        if (!user_shown(&scene, user_name(&scene, i)) && use[i].running + use[i].pending == 0)
            continue;
        json_write_object(&json, NULL);
        json_write_text(&json, "name", user_name(&scene, i));
        json_write_i64(&json, "gpus", use[i].gpus);
        json_write_i64(&json, "running_jobs", use[i].running);
        json_write_i64(&json, "pending_jobs", use[i].pending);
        limit_put(&json, "max_gpus", limits_get(scene.book, user_name(&scene, i), "max_gpus"));
        limit_put(&json, "max_jobs", limits_get(scene.book, user_name(&scene, i), "max_jobs"));
        json_write_close(&json);
    }
    list_end(&json, NULL);
    mem_free(use);
    reply_buf(request, 200, &out);
}
