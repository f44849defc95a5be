/* SPDX-License-Identifier: Apache-2.0 */
/* rest_jobs.c - many jobs: lists that are streamed, submissions, and one action for several. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "ctl/estimates.h"
#include "ctl/rest.h"
#include "wire/decimal.h"
#include "wire/json_read.h"

enum { LIST_STANDARD = 100, LIST_MAX = 10000, PIECE_BYTES = 49152 };

struct offered {
    struct request *request;
    offered_fn then;
};

static void on_offered(void *arg, const struct entry_result *result)
{
    struct offered *offered = arg;

    offered->then(offered->request, result);
    request_drop(offered->request);
    mem_free(offered);
}

/* spec: of a submission, where it need not be read again; taken. Else NULL. */
static void offer(struct request *request, enum entry_kind kind, json_t *body, struct submission *spec, offered_fn then)
{
    struct offered *offered = mem_zalloc(1, sizeof(*offered));
    struct drive *drive = request_server(request)->drive;
    struct entry_result refused = { 0 };
    int r;

    if (!offered || !body) {
        if (spec)
            submission_done(spec);
        mem_free(offered);
        json_decref(body);
        reply_problem(request, 503, "Busy", NULL, "out of memory");
        return;
    }
    *offered = (struct offered){ .request = request_hold(request), .then = then };
    r = spec ? drive_offer_submit(drive, body, spec, on_offered, offered, &refused)
             : drive_offer(drive, kind, body, on_offered, offered, &refused);
    if (r < 0) {
        then(request, &refused);
        request_drop(request);
        mem_free(offered);
    }
}

void request_offer(struct request *request, enum entry_kind kind, json_t *body, offered_fn then)
{
    offer(request, kind, body, NULL, then);
}

void offered_nothing(struct request *request, const struct entry_result *result)
{
    if (result->code < 0)
        reply_refused(request, result);
    else
        reply(request, 204, NULL, NULL, 0);
}

void list_begin(struct json_write *json, struct buf *out, const char *kind)
{
    json_write_init(json, out, false);
    json_write_object(json, NULL);
    json_write_text(json, "apiVersion", "v1");
    json_write_text(json, "kind", kind);
    json_write_array(json, "items");
}

void list_end(struct json_write *json, const char *next)
{
    json_write_close(json);
    if (next)
        json_write_text(json, "next", next);
    else
        json_write_null(json, "next");
    json_write_close(json);
}

/* A list on its way: ids were chosen at once, each job is looked up when its turn comes. */
struct job_list {
    struct request *request; /* held */
    struct listed {
        int64_t id;
        uint32_t ring; /* where it was among the finished; UINT32_MAX: it was not over */
    } * ids;
    size_t count, at;
    struct scene scene;
    struct json_write json;
    struct buf head; /* what json writes into; moved out piece by piece */
    char next[32];
    bool begun;
    bool merge; /* elements of an array that wait for the same reason are one item */
};

/* The job, if it is still known. Those that are over rarely move. */
static const struct book_job *listed_find(const struct book *book, const struct listed *listed)
{
    if (listed->ring < book->finished_capacity && book->finished[listed->ring] &&
        book->finished[listed->ring]->id == listed->id)
        return book->finished[listed->ring];
    return book_find(book, listed->id);
}

/* Elements of an array that wait for the same reason. */
static bool list_alike(const struct scene *scene, const struct book_job *a, const struct book_job *b)
{
    const char *one = "", *two = "";
    char text[256];

    return a->array_id && a->array_id == b->array_id && a->phase == PHASE_JOB_PENDING &&
           b->phase == PHASE_JOB_PENDING && render_reason(scene, a, &one, text, sizeof(text)) &&
           render_reason(scene, b, &two, text, sizeof(text)) && strcmp(one, two) == 0;
}

/* "3-9,12" of the job and those like it that follow; the list moves on behind them. */
static size_t list_gather(struct job_list *list, const struct book_job *job, struct buf *indices)
{
    int32_t from = job->array_index, to = from;
    size_t count = 1;

    for (; list->at < list->count; list->at++, count++) {
        const struct book_job *next = listed_find(list->scene.book, &list->ids[list->at]);

        if (!next || !list_alike(&list->scene, job, next))
            break;
        if (next->array_index != to + 1) {
            buf_printf(indices, from == to ? "%d," : "%d-%d,", from, to);
            from = next->array_index;
        }
        to = next->array_index;
    }
    buf_printf(indices, from == to ? "%d" : "%d-%d", from, to);
    return count;
}

static void list_item(struct job_list *list, const struct book_job *job)
{
    CLEANUP_BUF struct buf indices = BUF_INIT((size_t)1 << 20);

    if (list->merge && job->array_id && job->phase == PHASE_JOB_PENDING) {
        list->scene.alike = list_gather(list, job, &indices);
        list->scene.indices = list->scene.alike > 1 && !indices.error ? indices.data : NULL;
    }
    render_job(&list->scene, &list->json, job, NULL);
    list->scene.indices = NULL;
}

static int list_next(void *arg, struct buf *out)
{
    struct job_list *list = arg;

    list->head.max = out->max;
    /* They may have moved since the last piece. */
    list->scene.book = server_book(list->scene.server);
    list->scene.cluster = ctl_cluster(drive_ctl(list->scene.server->drive));
    list->scene.core = ctl_core(drive_ctl(list->scene.server->drive));
    if (!list->begun)
        list_begin(&list->json, &list->head, "JobList");
    list->begun = true;
    while (list->at < list->count && list->head.size < PIECE_BYTES) {
        const struct book_job *job = listed_find(list->scene.book, &list->ids[list->at++]);

        if (job)
            list_item(list, job);
    }
    if (list->at == list->count)
        list_end(&list->json, list->next[0] ? list->next : NULL);
    buf_put(out, list->head.data, list->head.size);
    buf_clear(&list->head);
    return list->at < list->count ? 1 : 0;
}

static void list_gone(void *arg)
{
    struct job_list *list = arg;

    request_drop(list->request);
    mem_free(list->ids);
    buf_done(&list->head);
    mem_free(list);
}

static const struct stream_ops list_stream = { .next = list_next, .gone = list_gone };

struct chosen {
    int64_t id, key;
    const char *text;
    uint32_t ring;
};

static int chosen_order(const void *a, const void *b)
{
    const struct chosen *x = a, *y = b;

    if (x->text && y->text) {
        int r = strcmp(x->text, y->text);

        if (r)
            return r;
    }
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int chosen_back(const void *a, const void *b)
{
    return chosen_order(b, a);
}

/* What jobs are sorted by. */
static int sort_key(const struct scene *scene, const struct book_job *job, const char *by, struct chosen *ret)
{
    *ret = (struct chosen){ .id = job->id, .ring = UINT32_MAX };
    if (strcmp(by, "id") == 0)
        ret->key = 0;
    else if (strcmp(by, "submit_time") == 0)
        ret->key = job->submit;
    else if (strcmp(by, "start_time") == 0)
        ret->key = job->last_start;
    else if (strcmp(by, "end_time") == 0)
        ret->key = job->end;
    else if (strcmp(by, "priority") == 0)
        ret->key = job->wants.priority;
    else if (strcmp(by, "gpus") == 0)
        ret->key = jobspec_gpus(&job->wants);
    else if (strcmp(by, "state") == 0)
        ret->key = job->phase;
    else if (strcmp(by, "user") == 0)
        ret->text = user_name(scene, job->user);
    else if (strcmp(by, "vc") == 0)
        ret->text = vc_name(scene, job->vc);
    else if (strcmp(by, "name") == 0)
        ret->text = job->spec->name ? job->spec->name : "";
    else
        return -EINVAL;
    return 0;
}

/* All jobs the filter takes. */
static size_t jobs_choose(const struct scene *scene, const struct job_filter *filter, const char *by,
                          struct chosen *out)
{
    const struct book *book = scene->book;
    size_t n = 0;

    if (filter->id_count) {
        for (size_t i = 0; i < filter->id_count; i++) {
            const struct book_job *job = book_find(book, filter->ids[i]);

            if (job && filter_takes(scene, filter, job))
                (void)sort_key(scene, job, by, &out[n++]);
        }
        return n;
    }
    for (size_t i = 0; i < book->live_count; i++)
        if (filter_takes(scene, filter, book->live[i]))
            (void)sort_key(scene, book->live[i], by, &out[n++]);
    for (size_t i = 0; (filter->all || filter->phases) && i < book->finished_capacity; i++)
        if (book->finished[i] && filter_takes(scene, filter, book->finished[i])) {
            (void)sort_key(scene, book->finished[i], by, &out[n]);
            out[n++].ring = (uint32_t)i;
        }
    return n;
}

struct list_want {
    int64_t limit;
    size_t skip;
    char by[32];
    bool back;
};

static int want_read(struct request *request, struct list_want *want)
{
    char text[64];
    struct chosen unused;
    struct book_job probe = { .spec = &(struct submission){ 0 } };
    struct scene scene;
    int64_t skip = 0;

    *want = (struct list_want){ .limit = LIST_STANDARD, .by = "id" };
    if (query_i64(request, "limit", 1, LIST_MAX, &want->limit) < 0)
        return -EINVAL;
    if (query_text(request, "cursor", text, sizeof(text))) {
        if (decimal_parse_i64(text, strlen(text), &skip) < 0 || skip < 0) {
            reply_problem(request, 400, "BadRequest", NULL, "cursor: not one of ours");
            return -EINVAL;
        }
        want->skip = (size_t)skip;
    }
    if (query_text(request, "sort", text, sizeof(text))) {
        want->back = text[0] == '-';
        (void)snprintf(want->by, sizeof(want->by), "%.30s", text + want->back);
        scene_fill(&scene, request);
        if (sort_key(&scene, &probe, want->by, &unused) < 0) {
            reply_problem(request, 400, "BadRequest", NULL,
                          "sort: expected id, submit_time, start_time, end_time, priority, gpus, state, user, vc or "
                          "name, with - for the other way round");
            return -EINVAL;
        }
    }
    return 0;
}

/* Chooses, sorts and cuts; NULL when memory is short. */
static struct job_list *list_make(struct request *request, const struct scene *scene, const struct job_filter *filter,
                                  const struct list_want *want)
{
    size_t most = filter->id_count ? filter->id_count : scene->book->live_count + scene->book->finished_count, n, from;
    struct chosen *chosen = mem_zalloc(most + 1, sizeof(*chosen));
    struct job_list *list = mem_zalloc(1, sizeof(*list));

    if (!chosen || !list) {
        mem_free(chosen);
        mem_free(list);
        return NULL;
    }
    n = jobs_choose(scene, filter, want->by, chosen);
    qsort(chosen, n, sizeof(*chosen), want->back ? chosen_back : chosen_order);
    from = want->skip < n ? want->skip : n;
    list->count = n - from < (size_t)want->limit ? n - from : (size_t)want->limit;
    list->ids = mem_zalloc(list->count + 1, sizeof(*list->ids));
    for (size_t i = 0; list->ids && i < list->count; i++)
        list->ids[i] = (struct listed){ chosen[from + i].id, chosen[from + i].ring };
    if (from + list->count < n)
        (void)snprintf(list->next, sizeof(list->next), "%zu", from + list->count);
    mem_free(chosen);
    if (!list->ids) {
        mem_free(list);
        return NULL;
    }
    list->scene = *scene;
    list->request = request_hold(request);
    list->scene.who = &list->request->who;
    return list;
}

void rest_jobs_list(struct request *request)
{
    static const char *const known[] = { "user",  "vc",    "state", "name",  "tag",    "node", "since",
                                         "until", "ids",   "all",   "limit", "cursor", "sort", "fields",
                                         "eta",   "merge", "find",  "array", NULL };
    struct job_filter filter;
    struct list_want want;
    struct job_list *list;
    struct scene scene;

    if (!query_known(request, known) || want_read(request, &want) < 0)
        return;
    scene_fill(&scene, request);
    if (scene_fields(&scene, request, JOB_FIELDS_LIST) < 0 || filter_read(request, &filter) < 0)
        return;
    list = list_make(request, &scene, &filter, &want);
    filter_done(&filter);
    if (list)
        list->merge = query_flag(request, "merge");
    if (list)
        reply_stream(request, 200, "application/json", &list_stream, list);
    else
        reply_problem(request, 503, "Busy", NULL, "out of memory");
}

/* Submissions. */

static bool is_yaml(const struct http_message *m)
{
    const char *type = http_header(m, "content-type");

    return type &&
           (strncasecmp(type, "application/yaml", 16) == 0 || strncasecmp(type, "application/x-yaml", 18) == 0 ||
            strncasecmp(type, "text/yaml", 9) == 0 || strncasecmp(type, "text/x-yaml", 11) == 0);
}

/* Agents know these. Here and not where submissions are read, so that a state with older ones can be. */
static int pattern_check(const char *key, const char *pattern, struct error *err)
{
    for (const char *c = pattern ? strchr(pattern, '%') : NULL; c && c[1]; c = strchr(c + 2, '%'))
        if (!strchr("jxaANtn%", c[1]))
            return error_set(
                err, -EINVAL,
                "%s: %%%.1s is not known; %%j is the id, %%x the name, %%a and %%A index and number of the "
                "array, %%N the node, %%t the task, %%n the attempt, %%%% a percent sign",
                key, c + 1);
    return 0;
}

/* The body as a submission; *ret_tree: as JSON, where it is. */
static int body_read(const struct http_message *m, struct submission *ret_spec, json_t **ret_tree, struct error *err)
{
    int r;

    if (is_yaml(m))
        return submission_from_yaml("body", m->body, m->body_size, ret_spec, err);
    r = json_read("job", m->body, m->body_size, ret_tree, err);
    return r == 0 ? submission_from_value(*ret_tree, ret_spec, err) : r;
}

/* The body as canonical JSON; NULL and answered when it is none. Also for plans. Our own client sends just that: then
 * it is not read a second time. */
json_t *request_submission(struct request *request, struct submission *ret_spec, bool *ret_same)
{
    const struct http_message *m = request->message;
    CLEANUP_BUF struct buf text = BUF_INIT((size_t)SUBMISSION_BYTES_MAX * 2);
    struct error err = { 0 };
    json_t *tree = NULL;
    bool same;
    int r;

    if (m->body_size == 0 || m->body_size > SUBMISSION_BYTES_MAX) {
        reply_problem(request, m->body_size ? 413 : 400, m->body_size ? "TooLarge" : "InvalidSpec", NULL,
                      m->body_size ? "a submission is at most 1 MiB" : "the body must be a submission");
        return NULL;
    }
    submission_init(ret_spec);
    r = body_read(m, ret_spec, &tree, &err);
    if (r == 0)
        r = pattern_check("output", ret_spec->output, &err);
    if (r == 0)
        r = pattern_check("error", ret_spec->error, &err);
    if (r == 0)
        r = submission_to_json(ret_spec, &text, &err);
    same = r == 0 && tree && text.size == m->body_size && memcmp(text.data, m->body, text.size) == 0;
    if (!same) {
        json_decref(tree);
        tree = NULL;
    }
    if (r == 0 && !same)
        r = json_read("spec", text.data, text.size, &tree, &err);
    if (r < 0) {
        reply_problem(request, 400, "InvalidSpec", NULL, "%s", err.text);
        submission_done(ret_spec);
        return NULL;
    }
    if (ret_spec->notify_count && !request_server(request)->conf->notify) {
        reply_problem(request, 422, "NotAllowed", "submit without it, or ask for notify in muster.yaml",
                      "this cluster tells nobody: notify has no command");
        json_decref(tree);
        submission_done(ret_spec);
        return NULL;
    }
    if (ret_same)
        *ret_same = same;
    return tree;
}

static void on_submitted(struct request *request, const struct entry_result *result)
{
    const struct book_job *job;
    struct buf out = BUF_INIT((size_t)8 << 20);
    struct json_write json;
    struct scene scene;

    if (result->code < 0) {
        reply_refused(request, result);
        return;
    }
    job = book_find(server_book(request_server(request)), result->id);
    if (!job || job->array_id) {
        reply_header(request, "Location", "/api/v1/arrays/%" PRId64, result->id);
        array_reply(request, 201, result->id);
        return;
    }
    request_made(request, result->id);
    scene_fill(&scene, request);
    if (request->message && scene_fields(&scene, request, JOB_FIELDS_ALL) < 0)
        return;
    reply_header_number(request, "Location", "/api/v1/jobs/", result->id, "");
    reply_header_number(request, "ETag", "\"v", (int64_t)job->version, "\"");
    json_write_init(&json, &out, false);
    render_job(&scene, &json, job, "Job");
    reply_buf(request, 201, &out);
}

void rest_jobs_submit(struct request *request)
{
    static const char *const known[] = { "fields", NULL };
    const char *key = http_header(request->message, "idempotency-key");
    struct submission spec;
    struct scene scene;
    json_t *tree, *body, *predicted;
    bool same = false;

    scene_fill(&scene, request);
    if (!query_known(request, known) || scene_fields(&scene, request, JOB_FIELDS_ALL) < 0)
        return;
    if (!request->who.has_uid) {
        reply_problem(request, 403, "NotAllowed", NULL, "user %s has no account on the controller", request->who.user);
        return;
    }
    if (key && (strlen(key) > 128 || !*key)) {
        reply_problem(request, 400, "BadRequest", NULL, "Idempotency-Key: from 1 to 128 bytes");
        return;
    }
    tree = request_submission(request, &spec, &same);
    if (!tree)
        return;
    predicted = estimates_ask(request_server(request)->estimates, request->who.user, &spec);
    if (!same)
        submission_done(&spec);
    body = json_pack("{s:s, s:I, s:I, s:o}", "user", request->who.user, "uid", (json_int_t)request->who.uid, "gid",
                     (json_int_t)request->who.gid, "spec", tree);
    if (body && key)
        (void)json_object_set_new(body, "key", json_string(key));
    if (predicted)
        (void)json_object_set_new(body, "predicted", predicted);
    offer(request, ENTRY_SUBMIT, body, same ? &spec : NULL, on_submitted);
}
