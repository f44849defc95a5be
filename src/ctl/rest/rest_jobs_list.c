/* SPDX-License-Identifier: Apache-2.0 */
/* rest_jobs_list.c - lists of jobs: chosen, sorted, put together and cut at once, then streamed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/rest/rest.h"
#include "wire/text/decimal.h"

enum { LIST_STANDARD = 100, LIST_MAX = 10000, PIECE_BYTES = 49152 };

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

/* What is one item of a list. */
enum list_merge {
    MERGE_NONE,    /* a job */
    MERGE_WAITING, /* neighbours of an array that wait for the same reason */
    MERGE_ARRAYS,  /* all elements of an array that the filter takes */
};

/* A list on its way: ids were chosen at once, each job is looked up when its turn comes. */
struct job_list {
    struct request *request; /* held */
    struct listed {
        int64_t id;
        uint32_t ring;  /* where it was among the finished; UINT32_MAX: it was not over */
        uint32_t alike; /* elements of its array it stands for; 0: it is one for itself */
    } * ids;
    size_t count, at;
    struct scene scene;
    struct json_write json;
    struct buf head; /* what json writes into; moved out piece by piece */
    char next[32];
    bool begun;
    enum list_merge merge;
};

/* The job, if it is still known. Those that are over rarely move. */
static const struct ctl_job *listed_find(const struct registry *registry, const struct listed *listed)
{
    if (listed->ring < registry->finished_capacity && registry->finished[listed->ring] &&
        registry->finished[listed->ring]->id == listed->id)
        return registry->finished[listed->ring];
    return registry_find(registry, listed->id);
}

/* Elements of an array that wait for the same reason. */
static bool list_alike(const struct scene *scene, const struct ctl_job *a, const struct ctl_job *b)
{
    const char *one = "", *two = "";
    char text[256];

    if (!a->array_id || a->array_id != b->array_id || a->phase != PHASE_JOB_PENDING || b->phase != PHASE_JOB_PENDING)
        return false;
    /* Most are told apart, or not, without the words. */
    if (a->gate == b->gate && !a->wants.license_count && !b->wants.license_count &&
        render_reason_now(scene, a) == render_reason_now(scene, b))
        return true;
    return render_reason(scene, a, &one, text, sizeof(text)) && render_reason(scene, b, &two, text, sizeof(text)) &&
           strcmp(one, two) == 0;
}

/* "3-9,12" of the job and those like it that follow; the list moves on behind them. */
static size_t list_gather(struct job_list *list, const struct ctl_job *job, struct buf *indices)
{
    int32_t from = job->array_index, to = from;
    size_t count = 1;

    for (; list->at < list->count; list->at++, count++) {
        const struct ctl_job *next = listed_find(list->scene.registry, &list->ids[list->at]);

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

static void list_item(struct job_list *list, const struct ctl_job *job, uint32_t alike)
{
    CLEANUP_BUF struct buf indices = BUF_INIT((size_t)1 << 20);

    list->scene.alike = alike;
    if (list->merge == MERGE_WAITING && job->array_id && job->phase == PHASE_JOB_PENDING) {
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
    list->scene.registry = server_book(list->scene.server);
    list->scene.cluster = ctl_cluster(batcher_ctl(list->scene.server->batcher));
    list->scene.core = ctl_core(batcher_ctl(list->scene.server->batcher));
    if (!list->begun)
        list_begin(&list->json, &list->head, "JobList");
    list->begun = true;
    while (list->at < list->count && list->head.size < PIECE_BYTES) {
        const struct listed *listed = &list->ids[list->at++];
        const struct ctl_job *job = listed_find(list->scene.registry, listed);

        if (job)
            list_item(list, job, listed->alike);
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
static int sort_key(const struct scene *scene, const struct ctl_job *job, const char *by, struct chosen *ret)
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
        ret->text = job->spec->name && render_names(scene, job) ? job->spec->name : "";
    else
        return -EINVAL;
    return 0;
}

/* All jobs the filter takes. */
static size_t jobs_choose(const struct scene *scene, const struct job_filter *filter, const char *by,
                          struct chosen *out)
{
    const struct registry *registry = scene->registry;
    size_t n = 0;

    if (filter->id_count) {
        for (size_t i = 0; i < filter->id_count; i++) {
            const struct ctl_job *job = registry_find(registry, filter->ids[i]);

            if (job && filter_takes(scene, filter, job))
                (void)sort_key(scene, job, by, &out[n++]);
        }
        return n;
    }
    for (size_t i = 0; i < registry->live_count; i++)
        if (filter_takes(scene, filter, registry->live[i]))
            (void)sort_key(scene, registry->live[i], by, &out[n++]);
    for (size_t i = 0; (filter->all || filter->phases) && i < registry->finished_capacity; i++)
        if (registry->finished[i] && filter_takes(scene, filter, registry->finished[i])) {
            (void)sort_key(scene, registry->finished[i], by, &out[n]);
            out[n++].ring = (uint32_t)i;
        }
    return n;
}

static const struct ctl_job *chosen_job(const struct scene *scene, const struct chosen *chosen)
{
    return listed_find(scene->registry, &(struct listed){ .id = chosen->id, .ring = chosen->ring });
}

/* How many of those that begin at `from` make no more items than the limit. */
static size_t waiting_span(const struct scene *scene, const struct chosen *chosen, size_t from, size_t n, size_t limit)
{
    const struct ctl_job *last = NULL;
    size_t at = from, items = 0;

    for (; n - from > limit && at < n; at++) {
        const struct ctl_job *job = chosen_job(scene, &chosen[at]);

        if ((!last || !list_alike(scene, last, job)) && items++ == limit)
            return at - from;
        last = job;
    }
    return n - from;
}

struct element {
    int64_t array;
    size_t at; /* in the list */
    bool runs;
};

static int element_order(const void *a, const void *b)
{
    const struct element *x = a, *y = b;

    if (x->array != y->array)
        return x->array < y->array ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* One array: the first of it that runs, or else the first, takes the first one's place; the others have no number. */
static size_t array_fold(const struct element *elements, size_t count, struct chosen *chosen, uint32_t *alike)
{
    size_t first = elements[0].at, end = 1, shown = first;
    bool runs = elements[0].runs;

    for (; end < count && elements[end].array == elements[0].array; end++)
        if (!runs && elements[end].runs) {
            shown = elements[end].at;
            runs = true;
        }
    chosen[first] = chosen[shown];
    alike[first] = end > 1 ? (uint32_t)end : 0;
    for (size_t i = 1; i < end; i++)
        chosen[elements[i].at].id = 0;
    return end;
}

/* Leaves one of each array, where the first of it was; alike: how many it stands for. */
static int arrays_fold(const struct scene *scene, struct chosen *chosen, size_t *n, uint32_t *alike)
{
    struct element *elements = mem_zalloc(*n + 1, sizeof(*elements));
    size_t count = 0, kept = 0;

    if (!elements)
        return -ENOMEM;
    for (size_t i = 0; i < *n; i++) {
        const struct ctl_job *job = chosen_job(scene, &chosen[i]);

        if (job->array_id)
            elements[count++] = (struct element){ job->array_id, i, job->phase == PHASE_JOB_RUNNING };
    }
    qsort(elements, count, sizeof(*elements), element_order);
    for (size_t i = 0; i < count;)
        i += array_fold(elements + i, count - i, chosen, alike);
    for (size_t i = 0; i < *n; i++)
        if (chosen[i].id) {
            alike[kept] = alike[i];
            chosen[kept++] = chosen[i];
        }
    *n = kept;
    mem_free(elements);
    return 0;
}

struct list_want {
    int64_t limit;
    size_t skip; /* jobs; of arrays put together: items */
    enum list_merge merge;
    char by[32];
    bool back;
};

static int want_read(struct request *request, struct list_want *want)
{
    char text[64];
    struct chosen unused;
    struct ctl_job probe = { .spec = &(struct submission){ 0 } };
    struct scene scene;
    int64_t skip = 0;

    *want = (struct list_want){ .limit = LIST_STANDARD, .by = "id" };
    if (query_i64(request, "limit", 1, LIST_MAX, &want->limit) < 0)
        return -EINVAL;
    if (query_i64(request, "cursor", 0, INT64_MAX, &skip) < 0 || query_word(request, "merge", text, sizeof(text)) < 0)
        return -EINVAL;
    want->skip = (size_t)skip;
    want->merge = query_flag(request, "merge") ? MERGE_WAITING : MERGE_NONE;
    if (strcmp(text, "arrays") == 0)
        want->merge = MERGE_ARRAYS;
    if (query_word(request, "sort", text, sizeof(text)) < 0)
        return -EINVAL;
    if (text[0]) {
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

/* Those of the page. alike: NULL, or of each how many it stands for. */
static struct listed *page_cut(const struct chosen *chosen, const uint32_t *alike, size_t from, size_t count)
{
    struct listed *ids = mem_zalloc(count + 1, sizeof(*ids));

    for (size_t i = 0; ids && i < count; i++)
        ids[i] = (struct listed){ chosen[from + i].id, chosen[from + i].ring, alike ? alike[from + i] : 0 };
    return ids;
}

/* Chooses, sorts, merges and cuts; NULL when memory is short. */
static struct job_list *list_make(struct request *request, const struct scene *scene, const struct job_filter *filter,
                                  const struct list_want *want)
{
    size_t most = filter->id_count ? filter->id_count : scene->registry->live_count + scene->registry->finished_count,
           n, from;
    struct chosen *chosen = mem_zalloc(most + 1, sizeof(*chosen));
    uint32_t *alike = want->merge == MERGE_ARRAYS ? mem_zalloc(most + 1, sizeof(*alike)) : NULL;
    struct job_list *list = mem_zalloc(1, sizeof(*list));

    if (list && chosen && (alike || want->merge != MERGE_ARRAYS)) {
        n = jobs_choose(scene, filter, want->by, chosen);
        qsort(chosen, n, sizeof(*chosen), want->back ? chosen_back : chosen_order);
        if (!alike || arrays_fold(scene, chosen, &n, alike) == 0) {
            from = want->skip < n ? want->skip : n;
            list->count = n - from < (size_t)want->limit ? n - from : (size_t)want->limit;
            if (want->merge == MERGE_WAITING)
                list->count = waiting_span(scene, chosen, from, n, (size_t)want->limit);
            list->ids = page_cut(chosen, alike, from, list->count);
            if (from + list->count < n)
                (void)snprintf(list->next, sizeof(list->next), "%zu", from + list->count);
        }
    }
    mem_free(chosen);
    mem_free(alike);
    if (!list || !list->ids) {
        mem_free(list);
        return NULL;
    }
    list->merge = want->merge;
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
        reply_stream(request, 200, "application/json", &list_stream, list);
    else
        reply_problem(request, 503, "Busy", NULL, "out of memory");
}
