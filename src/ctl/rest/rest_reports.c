/* SPDX-License-Identifier: Apache-2.0 */
/* rest_reports.c - GET /reports/{kind}: totals of a window of time by user, virtual cluster, account, GPU type, name of
 * job, or node; as JSON or as CSV.
 *
 * GPU time is that of attempts, cut at the ends of the window, so that totals of neighbouring windows add up. Jobs that
 * still run are counted as far as they are. Records of the store are read page by page on the worker.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/rest/render/record_tree.h"
#include "ctl/rest/rest.h"
#include "wire/text/duration.h"

enum { PAGE_JOBS = 5000, PAGES_MAX = 400, GROUPS_MAX = 100000, RECENT_MAX = 100000 };
#define RECENT USEC_MIN

#define REPORTS(X)                                                                                                     \
    X(USERS, "users")                                                                                                  \
    X(VCS, "vcs")                                                                                                      \
    X(ACCOUNTS, "accounts")                                                                                            \
    X(SKUS, "skus")                                                                                                    \
    X(JOBS, "jobs")                                                                                                    \
    X(NODES, "nodes")

enum report_kind {
#define X(code, name) REPORT_##code,
    REPORTS(X)
#undef X
        REPORT_COUNT
};

static const char *const report_names[REPORT_COUNT] = {
#define X(code, name) [REPORT_##code] = name,
    REPORTS(X)
#undef X
};

/* What a report is about: the order of its rows. All rows have all numbers. */
enum report_about { ABOUT_USAGE, ABOUT_EFFICIENCY, ABOUT_WAIT, ABOUT_PREEMPTION, ABOUT_COUNT };

static const char *const about_names[ABOUT_COUNT] = { "usage", "efficiency", "wait", "preemption" };

struct total {
    int64_t jobs, failed, preemptions, waited;
    int64_t gpu_usec, lost_usec, wait_usec, wait_max;
    int64_t measured_usec; /* GPU time of jobs whose use of it was measured */
    int64_t used_usec;     /* of that, what they used */
};

struct tally {
    struct request *request;
    enum report_kind kind;
    enum report_about about;
    struct store_query query;
    usec_t from, to, now;
    char user[64], vc[64], state[256], name[128];
    uint32_t phases; /* the states as bits; 0: any */
    struct names keys;
    struct total *totals; /* by key */
    size_t capacity;
    int64_t *recent; /* ids of records of jobs that ended just now */
    size_t recent_count, recent_capacity;
    uint32_t pages;
    int failure;
    bool csv;
};

static void report_free(struct tally *report)
{
    names_done(&report->keys);
    mem_free(report->totals);
    mem_free(report->recent);
    request_drop(report->request);
    mem_free(report);
}

static struct total *total_of(struct tally *report, const char *key)
{
    size_t had = report->capacity;
    uint32_t index;
    void *block = report->totals;
    int r = names_put(&report->keys, key, strlen(key), &index);

    if (r == 0)
        r = mem_grow(&block, &report->capacity, (size_t)index + 1, GROUPS_MAX, sizeof(*report->totals));
    report->totals = block;
    if (r < 0) {
        report->failure = r;
        return NULL;
    }
    if (report->capacity > had)
        memset(report->totals + had, 0, (report->capacity - had) * sizeof(*report->totals));
    return &report->totals[index];
}

static const char *text_of(const json_t *item, const char *key)
{
    const char *text = json_string_value(json_object_get(item, key));

    return text ? text : "";
}

static usec_t time_of(const json_t *item, const char *key)
{
    const char *text = text_of(item, key);
    usec_t at = 0;

    return *text && instant_parse(text, strlen(text), &at) == 0 ? at : 0;
}

/* GPU time of one task of an attempt inside the window. */
static int64_t task_time(const struct tally *report, const json_t *item, const json_t *attempt, const json_t *task)
{
    usec_t start = time_of(attempt, "start_time"), end = time_of(attempt, "end_time");
    int64_t share = json_integer_value(json_object_get(item, "gpu_share"));

    end = end ? end : report->now; /* the future costs nothing */
    start = start > report->from ? start : report->from;
    end = end < report->to ? end : report->to;
    if (!time_of(attempt, "start_time") || end <= start)
        return 0;
    return svc_of((int64_t)json_array_size(json_object_get(task, "gpus")) * (share ? share : MGPU_ONE), end - start);
}

static void time_add(struct total *total, const json_t *item, int64_t usec)
{
    const json_t *util = json_object_get(json_object_get(item, "used"), "utilisation");

    total->gpu_usec += usec;
    if (!json_is_number(util))
        return;
    total->measured_usec += usec;
    total->used_usec += (int64_t)((double)usec * json_number_value(util) / 100);
}

static double mean_wait(const struct total *total)
{
    return total->waited ? (double)total->wait_usec / 1e6 / (double)total->waited : 0.0;
}

static void job_add(struct total *total, const json_t *item)
{
    const char *state = text_of(item, "state");
    usec_t first = time_of(json_array_get(json_object_get(item, "attempts"), 0), "start_time");

    total->jobs++;
    total->failed += strcmp(state, "FAILED") == 0 || strcmp(state, "OUT_OF_MEMORY") == 0 ||
                     strcmp(state, "TIMEOUT") == 0 || strcmp(state, "NODE_FAIL") == 0;
    total->preemptions += json_integer_value(json_object_get(item, "preemptions"));
    total->lost_usec += json_integer_value(json_object_get(item, "lost_gpu_seconds")) * USEC_SEC;
    if (first) {
        usec_t wait = first - time_of(item, "submit_time");

        total->waited++;
        total->wait_usec += wait;
        total->wait_max = wait > total->wait_max ? wait : total->wait_max;
    }
}

/* Whether a job is told by its name to whoever asks. */
static bool item_named(const struct tally *report, const json_t *item)
{
    return request_server(report->request)->conf->privacy == PRIVACY_NAMES ||
           auth_sees_record(&report->request->who, item);
}

/* Whether whoever asks may know whose job it is. */
static bool item_shown(const struct tally *report, const json_t *item)
{
    return request_server(report->request)->conf->privacy != PRIVACY_NONE ||
           auth_sees_record(&report->request->who, item);
}

static const char *item_key(const struct tally *report, const json_t *item)
{
    switch (report->kind) {
    case REPORT_USERS:
        return item_shown(report, item) ? text_of(item, "user") : "";
    case REPORT_VCS:
        return text_of(item, "vc");
    case REPORT_ACCOUNTS:
        return item_shown(report, item) ? text_of(json_object_get(item, "spec"), "account") : "";
    case REPORT_SKUS:
        return text_of(item, "gpu_type");
    case REPORT_JOBS:
        return item_named(report, item) ? text_of(item, "name") : "";
    case REPORT_NODES:
    case REPORT_COUNT:
        break;
    }
    return "";
}

static int64_t item_time(const struct tally *report, const json_t *item)
{
    const json_t *attempts = json_object_get(item, "attempts"), *attempt, *task;
    int64_t sum = 0;
    size_t a, t;

    json_array_foreach(attempts, a, attempt)
    {
        json_array_foreach(json_object_get(attempt, "tasks"), t, task) sum += task_time(report, item, attempt, task);
    }
    return sum;
}

/* By node: what its tasks had, and of what was lost as much as of the time. The job itself counts once on each of its
 * nodes. */
static void nodes_add(struct tally *report, const json_t *item)
{
    const json_t *attempts = json_object_get(item, "attempts"), *attempt, *task;
    int64_t whole = item_time(report, item),
            lost = json_integer_value(json_object_get(item, "lost_gpu_seconds")) * USEC_SEC;
    const char *seen[64];
    size_t a, t, count = 0;

    json_array_foreach(attempts, a, attempt)
    {
        json_array_foreach(json_object_get(attempt, "tasks"), t, task)
        {
            struct total *total = total_of(report, text_of(task, "node"));
            size_t s = 0;

            if (!total)
                return;
            time_add(total, item, task_time(report, item, attempt, task));
            if (whole > 0)
                total->lost_usec +=
                    (int64_t)((double)lost * (double)task_time(report, item, attempt, task) / (double)whole);
            while (s < count && strcmp(seen[s], text_of(task, "node")) != 0)
                s++;
            if (s == count && count < 64) {
                seen[count++] = text_of(task, "node");
                job_add(total, item);
                total->lost_usec -= lost; /* of the whole job */
            }
        }
    }
}

static void item_add(struct tally *report, const json_t *item)
{
    const json_t *attempts = json_object_get(item, "attempts"), *attempt, *task;
    struct total *total;
    size_t a, t;

    if ((report->name[0] && !item_named(report, item)) || (report->user[0] && !item_shown(report, item)))
        return;
    if (report->kind == REPORT_NODES) {
        nodes_add(report, item);
        return;
    }
    total = total_of(report, item_key(report, item));
    if (!total)
        return;
    job_add(total, item);
    json_array_foreach(attempts, a, attempt)
    {
        json_array_foreach(json_object_get(attempt, "tasks"), t, task)
        {
            time_add(total, item, task_time(report, item, attempt, task));
        }
    }
}

static bool tally_takes(const struct tally *report, const struct scene *scene, const struct ctl_job *job)
{
    return (!report->user[0] || strcmp(report->user, user_name(scene, job->user)) == 0) &&
           (!report->vc[0] || strcmp(report->vc, vc_name(scene, job->vc)) == 0) &&
           (!report->name[0] || (job->spec->name && strcmp(report->name, job->spec->name) == 0)) &&
           (!report->phases || report->phases >> job->phase & 1);
}

/* Jobs that are not over are in no record yet. */
static void live_add(struct tally *report, const struct scene *scene)
{
    for (size_t i = 0; i < scene->registry->live_count && !report->failure; i++) {
        const struct ctl_job *job = scene->registry->live[i];
        json_t *item;

        if (!tally_takes(report, scene, job) || !job->first_start || job->first_start > report->to)
            continue;
        item = record_job(batcher_ctl(scene->server->batcher), job);
        item_add(report, item);
        json_decref(item);
    }
}

static bool recent_has(const struct tally *report, int64_t id)
{
    for (size_t i = 0; i < report->recent_count; i++)
        if (report->recent[i] == id)
            return true;
    return false;
}

/* A record that may also be in memory is remembered by its number. */
static void recent_note(struct tally *report, const json_t *item)
{
    void *block = report->recent;

    if (json_integer_value(json_object_get(item, "end_usec")) < report->now - RECENT)
        return;
    if (mem_grow(&block, &report->recent_capacity, report->recent_count + 1, RECENT_MAX, sizeof(int64_t)) == 0)
        ((int64_t *)block)[report->recent_count++] = json_integer_value(json_object_get(item, "id"));
    report->recent = block;
}

/* Jobs that ended so lately that their record is not written yet. */
static void finished_add(struct tally *report, const struct scene *scene)
{
    for (size_t i = 0; i < scene->registry->finished_capacity && !report->failure; i++) {
        const struct ctl_job *job = scene->registry->finished[i];
        json_t *item;

        if (!job || job->end < report->now - RECENT || job->end < report->from || job->submit > report->to ||
            !tally_takes(report, scene, job) || recent_has(report, job->id))
            continue;
        item = record_job(batcher_ctl(scene->server->batcher), job);
        item_add(report, item);
        json_decref(item);
    }
}

/* What comes first is what the report is about: most used, most held and not used, longest waits, most lost. */
static int64_t weight(const struct tally *report, uint32_t key)
{
    const struct total *t = &report->totals[key];

    switch (report->about) {
    case ABOUT_EFFICIENCY:
        return t->measured_usec - t->used_usec;
    case ABOUT_WAIT:
        return t->waited ? t->wait_usec / t->waited : -1;
    case ABOUT_PREEMPTION:
        return t->lost_usec + t->preemptions;
    case ABOUT_USAGE:
    case ABOUT_COUNT:
        break;
    }
    return t->gpu_usec;
}

static int order_by_weight(const void *a, const void *b, void *arg)
{
    const struct tally *report = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int64_t tx = weight(report, x), ty = weight(report, y);

    return tx != ty ? (tx > ty ? -1 : 1) : strcmp(names_get(&report->keys, x), names_get(&report->keys, y));
}

static void csv_field(struct buf *out, const char *text)
{
    /* A spreadsheet takes what begins so for a formula. */
    const char *guard = strchr("=+-@", text[0]) && text[0] ? "'" : "";

    buf_printf(out, "\"%s", guard);
    for (; *text; text++) {
        if (*text == '"')
            buf_char(out, '"');
        buf_char(out, *text);
    }
    buf_char(out, '"');
}

static void reply_csv(struct tally *report, const uint32_t *order)
{
    struct buf out = BUF_INIT((size_t)64 << 20);

    buf_text(&out, "key,jobs,failed,gpu_hours,preemptions,lost_gpu_hours,mean_wait_seconds,max_wait_seconds,"
                   "measured_gpu_hours,used_gpu_hours\r\n");
    for (uint32_t i = 0; i < report->keys.count; i++) {
        const struct total *t = &report->totals[order[i]];

        csv_field(&out, names_get(&report->keys, order[i]));
        buf_printf(&out, ",%" PRId64 ",%" PRId64 ",%.4f,%" PRId64 ",%.4f,%.1f,%.1f,%.4f,%.4f\r\n", t->jobs, t->failed,
                   (double)t->gpu_usec / 3.6e9, t->preemptions, (double)t->lost_usec / 3.6e9, mean_wait(t),
                   (double)t->wait_max / 1e6, (double)t->measured_usec / 3.6e9, (double)t->used_usec / 3.6e9);
    }
    if (out.error)
        reply_problem(report->request, 500, "Internal", NULL, "too much to tell");
    else
        reply(report->request, 200, "text/csv; charset=utf-8", out.data, out.size);
    buf_done(&out);
}

static void reply_json(struct tally *report, const uint32_t *order)
{
    struct buf out = BUF_INIT((size_t)64 << 20);
    struct json_write json;

    list_begin(&json, &out, "ReportList");
    for (uint32_t i = 0; i < report->keys.count; i++) {
        const struct total *t = &report->totals[order[i]];

        json_write_object(&json, NULL);
        json_write_text(&json, "key", names_get(&report->keys, order[i]));
        json_write_i64(&json, "jobs", t->jobs);
        json_write_i64(&json, "failed", t->failed);
        json_write_i64(&json, "gpu_seconds", t->gpu_usec / USEC_SEC);
        json_write_i64(&json, "gpu_usec", t->gpu_usec);
        json_write_i64(&json, "preemptions", t->preemptions);
        json_write_i64(&json, "lost_gpu_seconds", t->lost_usec / USEC_SEC);
        json_write_i64(&json, "measured_gpu_seconds", t->measured_usec / USEC_SEC);
        json_write_i64(&json, "used_gpu_seconds", t->used_usec / USEC_SEC);
        if (t->measured_usec)
            json_write_double(&json, "efficiency", (double)t->used_usec / (double)t->measured_usec);
        else
            json_write_null(&json, "efficiency");
        if (t->waited) {
            json_write_double(&json, "mean_wait_seconds", mean_wait(t));
            json_write_double(&json, "max_wait_seconds", (double)t->wait_max / 1e6);
        } else {
            json_write_null(&json, "mean_wait_seconds");
            json_write_null(&json, "max_wait_seconds");
        }
        json_write_close(&json);
    }
    json_write_close(&json);
    json_write_null(&json, "next");
    json_write_text(&json, "by", report_names[report->kind]);
    json_write_text(&json, "about", about_names[report->about]);
    put_time(&json, "from", report->from);
    put_time(&json, "to", report->to);
    json_write_close(&json);
    reply_buf(report->request, 200, &out);
}

static void report_end(struct tally *report)
{
    uint32_t *order;
    struct scene scene;

    scene_fill(&scene, report->request);
    live_add(report, &scene);
    finished_add(report, &scene);
    order = mem_zalloc(report->keys.count + 1, sizeof(*order));
    if (!order || report->failure) {
        reply_problem(report->request, report->failure == -E2BIG ? 422 : 503,
                      report->failure == -E2BIG ? "TooMuch" : "Busy", "ask for a shorter time",
                      report->failure == -E2BIG ? "more groups than a report has room for" : "out of memory");
    } else {
        for (uint32_t i = 0; i < report->keys.count; i++)
            order[i] = i;
        qsort_r(order, report->keys.count, sizeof(*order), order_by_weight, report);
        if (report->csv)
            reply_csv(report, order);
        else
            reply_json(report, order);
    }
    mem_free(order);
    report_free(report);
}

static void page_ask(struct tally *report);

static void on_page(void *arg, json_t *items)
{
    struct tally *report = arg;
    size_t count = json_array_size(items), i;
    const json_t *item;

    if (!items) {
        reply_problem(report->request, 500, "Internal", NULL, "the store could not be read");
        report_free(report);
        return;
    }
    json_array_foreach(items, i, item)
    {
        /* Ended in time, but it had begun after the window. */
        if (!report->failure && time_of(item, "submit_time") <= report->to)
            item_add(report, item);
        recent_note(report, item);
        report->query.before_id = json_integer_value(json_object_get(item, "id"));
    }
    if (count < PAGE_JOBS || report->failure || !request_conn(report->request)) {
        report_end(report);
    } else if (++report->pages == PAGES_MAX) {
        reply_problem(report->request, 422, "TooMuch", "ask for a shorter time", "more than %d jobs",
                      PAGE_JOBS * PAGES_MAX);
        report_free(report);
    } else {
        page_ask(report);
    }
}

static void page_ask(struct tally *report)
{
    if (batcher_history(request_server(report->request)->batcher, &report->query, on_page, report) == 0)
        return;
    reply_problem(report->request, 503, "Busy", NULL, "the store is busy");
    report_free(report);
}

/* Window, filters, form; -EINVAL, answered. */
static int report_read(struct request *request, struct tally *report)
{
    const char *accept = http_header(request->message, "accept");
    struct job_filter filter = { 0 };
    char format[16] = "";
    int r;

    report->to = report->now = clock_now();
    if (query_time(request, "from", &report->from) < 0 || query_time(request, "to", &report->to) < 0 ||
        query_states(request, report->state, sizeof(report->state)) < 0)
        return -EINVAL;
    report->csv = accept && http_list_has(accept, "text/csv");
    r = query_word(request, "format", format, sizeof(format));
    if (r < 0)
        return r;
    if (r) {
        if (strcmp(format, "csv") != 0 && strcmp(format, "json") != 0) {
            reply_problem(request, 400, "BadRequest", NULL, "format: expected json or csv");
            return -EINVAL;
        }
        report->csv = strcmp(format, "csv") == 0;
    }
    report->query = (struct store_query){ .since = report->from, .limit = PAGE_JOBS };
    if (query_word(request, "user", report->user, sizeof(report->user)) < 0 ||
        query_word(request, "vc", report->vc, sizeof(report->vc)) < 0 ||
        query_word(request, "name", report->name, sizeof(report->name)) < 0)
        return -EINVAL;
    report->query.user = report->user[0] ? report->user : NULL;
    report->query.vc = report->vc[0] ? report->vc : NULL;
    report->query.name = report->name[0] ? report->name : NULL;
    (void)filter_state(&filter, report->state);
    report->phases = filter.phases;
    if (report->state[0])
        report->query.state = report->state;
    return 0;
}

static int name_find(const char *const *names, int count, const char *name)
{
    int i = 0;

    while (i < count && strcmp(names[i], name) != 0)
        i++;
    return i;
}

/* By whom, and what about: /reports/vcs, /reports/wait?group=vcs. False: answered. */
static bool report_kinds(struct request *request, enum report_kind *ret_kind, enum report_about *ret_about)
{
    int kind = name_find(report_names, REPORT_COUNT, request->params[0]), about = ABOUT_USAGE;
    char group[16];
    int grouped = query_word(request, "group", group, sizeof(group));

    if (grouped < 0)
        return false;
    if (kind == REPORT_COUNT || grouped) {
        about = name_find(about_names, ABOUT_COUNT, request->params[0]);
        kind = name_find(report_names, REPORT_COUNT, grouped ? group : "users");
    }
    if (about == ABOUT_COUNT)
        reply_problem(request, 404, "NotFound", "usage, efficiency, wait, preemption (with group=); or a group alone",
                      "no report '%.40s'", request->params[0]);
    else if (kind == REPORT_COUNT)
        reply_problem(request, 400, "BadRequest", NULL, "group: expected users, vcs, accounts, skus, jobs or nodes");
    if (about == ABOUT_COUNT || kind == REPORT_COUNT)
        return false;
    *ret_kind = (enum report_kind)kind;
    *ret_about = (enum report_about)about;
    return true;
}

void rest_reports(struct request *request)
{
    static const char *const known[] = { "from", "to", "user", "vc", "state", "name", "format", "group", NULL };
    struct tally *report;
    enum report_kind kind;
    enum report_about about;

    if (!report_kinds(request, &kind, &about))
        return;
    if (!query_known(request, known))
        return;
    report = mem_zalloc(1, sizeof(*report));
    if (!report) {
        reply_problem(request, 503, "Busy", NULL, "out of memory");
        return;
    }
    report->kind = kind;
    report->about = about;
    if (report_read(request, report) < 0) {
        mem_free(report);
        return;
    }
    report->request = request_hold(request);
    page_ask(report);
}
