/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_queue.c - muster queue, history, prio: listings of jobs. Elements of an array that wait for the same reason share
 * a line. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/client/follow.h"
#include "cli/fmt.h"
#include "cli/listing.h"
#include "cli/verbs/live.h"

static const struct column queue_columns[] = {
    { "JOBID", false, false, false, false },    { "NAME", false, false, false, true },
    { "USER", false, false, false, false },     { "VC", false, false, false, false },
    { "PRIO", false, false, false, false },     { "STATE", false, false, true, false },
    { "GPUS", false, false, false, false },     { "ELAPSED", false, false, false, false },
    { "LIMIT", false, false, false, false },    { "NODES/REASON", false, false, false, true },
    { "SUBMITTED", false, true, false, false }, { "ATTEMPT", true, true, false, false },
    { "LICENSES", false, true, false, false },  { "PROGRESS", false, true, false, false },
};

static void where_put(struct listing *table, json_t *job)
{
    json_t *reason = json_object_get(job, "reason");
    usec_t eta = fmt_time(json_object_get(job, "eta"), "at");
    char when[FMT_MAX];

    if (!json_is_object(reason))
        listing_add(table, fmt_text(job, "nodelist"));
    else if (fmt_time(job, "kept_until"))
        listing_addf(table, "%s (%s until %s)", fmt_text(job, "nodelist"), fmt_text(reason, "code"),
                     fmt_clock(fmt_time(job, "kept_until"), fmt_now(), when));
    else if (strcmp(fmt_text(job, "state"), "STARTING") == 0)
        listing_addf(table, "%s (%s)", fmt_text(job, "nodelist"), fmt_text(reason, "code"));
    else if (eta)
        listing_addf(table, "(%s ~%s)", fmt_text(reason, "code"), fmt_clock(eta, fmt_now(), when));
    else
        listing_addf(table, "(%s)", fmt_text(reason, "code"));
}

/* Whether two elements of an array can share a line: both wait, for the same reason. */
static bool alike(json_t *a, json_t *b)
{
    json_t *one = json_object_get(a, "array"), *two = json_object_get(b, "array");

    /* The controller has put together what it could: those are whole. */
    if (*fmt_text(one, "indices") || *fmt_text(two, "indices"))
        return false;
    return json_is_object(one) && json_is_object(two) && fmt_i64(one, "id") == fmt_i64(two, "id") &&
           strcmp(fmt_text(a, "state"), "PENDING") == 0 && strcmp(fmt_text(b, "state"), "PENDING") == 0 &&
           strcmp(fmt_text(json_object_get(a, "reason"), "code"), fmt_text(json_object_get(b, "reason"), "code")) == 0;
}

/* "4130_[3-9,12]" of jobs first..end. */
static void ids_put(struct listing *table, json_t *items, size_t first, size_t end)
{
    struct buf out = BUF_INIT(1 << 20);
    json_t *array = json_object_get(json_array_get(items, first), "array");
    char text[FMT_MAX];

    if (*fmt_text(array, "indices")) {
        listing_addf(table, "%lld_[%s]", (long long)fmt_i64(array, "id"), fmt_text(array, "indices"));
        return;
    }
    if (end - first == 1) {
        listing_add(table, fmt_id(json_array_get(items, first), text));
        return;
    }
    buf_printf(&out, "%lld_[", (long long)fmt_i64(array, "id"));
    for (size_t i = first; i < end;) {
        int64_t from = fmt_i64(json_object_get(json_array_get(items, i), "array"), "index"), to = from;

        while (++i < end && fmt_i64(json_object_get(json_array_get(items, i), "array"), "index") == to + 1)
            to++;
        buf_printf(&out, "%lld", (long long)from);
        if (to > from)
            buf_printf(&out, "-%lld", (long long)to);
        buf_text(&out, i < end ? "," : "]");
    }
    listing_add(table, out.data);
    buf_done(&out);
}

static void queue_row(struct listing *table, json_t *items, size_t first, size_t end)
{
    json_t *job = json_array_get(items, first);
    char text[FMT_MAX], stamp[FMT_MAX];
    bool begun = !fmt_null(job, "start_time");
    int64_t merged = fmt_i64(json_object_get(job, "array"), "count");

    if (!merged)
        merged = (int64_t)(end - first);
    ids_put(table, items, first, end);
    listing_add(table, fmt_text(job, "name"));
    listing_add(table, fmt_text(job, "user"));
    listing_add(table, fmt_text(job, "vc"));
    listing_add(table, fmt_text(job, "priority_class"));
    listing_add(table, fmt_text(job, "state"));
    if (merged > 1)
        listing_addf(table, "%lldx%s", (long long)merged, fmt_gpus(job, text));
    else
        listing_add(table, fmt_gpus(job, text));
    listing_add(table, begun ? fmt_seconds(fmt_i64(job, "elapsed_seconds"), text) : "-");
    listing_add(table, fmt_limit(fmt_i64(job, "limit_seconds"), text));
    where_put(table, job);
    listing_add(table, fmt_stamp(fmt_time(job, "submit_time"), stamp));
    listing_addf(table, "%lld", (long long)fmt_i64(job, "attempt"));
    listing_add(table, fmt_licenses(job, text));
    listing_add(table, fmt_progress(json_object_get(job, "progress"), text));
}

/* Filters of a listing as a query. */
static int filters_put(const struct command_args *args, struct buf *path)
{
    static const struct {
        const char *flag, *key;
    } filters[] = { { "user", "user" }, { "vc", "vc" },   { "state", "state" }, { "name", "name" },
                    { "find", "find" }, { "tag", "tag" }, { "node", "node" } };
    static const char *const times[] = { "since", "until" };

    for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++) {
        const char *value = args_value(args, filters[i].flag);
        char *quoted = value ? client_quote(value) : NULL;

        if (quoted)
            buf_printf(path, "&%s=%s", filters[i].key, quoted);
        mem_free(quoted);
    }
    for (size_t i = 0; i < 2; i++) {
        char text[96] = "";
        usec_t at;
        int r = when_arg(args, times[i], &at);

        if (r)
            return r;
        fmt_query(text, sizeof(text), times[i], at);
        buf_put(path, text, strlen(text));
    }
    return 0;
}

/* Mine unless somebody or all were asked for. */
static int scope_put(const struct command_args *args, struct client *client, struct buf *path, struct problem *problem)
{
    CLEANUP_ANSWER struct answer who = { 0 };
    char *quoted;
    int r;

    if (args_has(args, "all") || args_has(args, "user"))
        return 0;
    r = client_call(client, "GET", "/whoami", NULL, &who, problem);
    if (r)
        return r;
    quoted = client_quote(fmt_text(who.json, "user"));
    buf_printf(path, "&user=%s", quoted ? quoted : "");
    mem_free(quoted);
    return 0;
}

static int queue_once(const struct command_args *args, struct client *client)
{
    const char *form = args_value(args, "output");
    bool whole = args_has(args, "json") || (form && (strcmp(form, "json") == 0 || strcmp(form, "yaml") == 0));
    CLEANUP_BUF struct buf path = BUF_INIT(4000);
    struct problem problem;
    struct listing table;
    json_t *items = NULL;
    bool once;
    int r;

    buf_printf(&path, "/jobs?eta=%d", args_has(args, "eta") ? 1 : 0);
    r = filters_put(args, &path);
    if (r)
        return r;
    if (!whole) /* what the columns show, and no more: ten thousand jobs are megabytes otherwise */
        buf_printf(&path,
                   "&merge=1&fields=id,name,user,vc,priority_class,state,array,gpus,gpu_share,gpu_type,elapsed_seconds,"
                   "limit_seconds,reason,nodelist,kept_until,start_time%s%s",
                   args_has(args, "eta") ? ",eta" : "",
                   form || args_has(args, "columns") || args_has(args, "sort")
                       ? ",submit_time,attempt,licenses,progress"
                       : "");
    r = scope_put(args, client, &path, &problem);
    once = !whole && !args_has(args, "watch"); /* what is printed as JSON is made with it too, and freed */
    if (once)
        client_once(client);
    if (r == 0)
        r = client_list(client, path.data, &items, &problem);
    if (r)
        return problem_print(&problem);
    listing_init(&table, queue_columns, sizeof(queue_columns) / sizeof(queue_columns[0]));
    for (size_t i = 0, next; i < json_array_size(items); i = next) {
        next = i + 1;
        while (next < json_array_size(items) && alike(json_array_get(items, i), json_array_get(items, next)))
            next++;
        queue_row(&table, items, i, next);
    }
    r = listing_show(&table, args, "JobList", items);
    listing_done(&table);
    if (!once)
        json_decref(items);
    return r;
}

int cmd_queue(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    const char *again = args_value(args, "watch");
    double seconds = again ? strtod(again, NULL) : 0;
    int r = live_client(args, &client);

    if (r == 0 && again && (seconds < 0.1 || seconds > 86400))
        return args_wrong(args, "--watch: expected seconds, from 0.1 on, got '%.20s'", again);
    while (r == 0) {
        if (again && isatty(STDOUT_FILENO))
            (void)fputs("\033[H\033[2J", stdout);
        r = queue_once(args, client);
        (void)fflush(stdout);
        if (!again)
            break;
        (void)poll(NULL, 0, (int)(seconds * 1000));
    }
    return r;
}

static const struct column history_columns[] = {
    { "JOBID", false, false, false, false },    { "NAME", false, false, false, true },
    { "USER", false, false, false, false },     { "VC", false, false, false, false },
    { "STATE", false, false, true, false },     { "EXIT", true, false, false, false },
    { "GPUS", false, false, false, false },     { "ELAPSED", false, false, false, false },
    { "GPU-HOURS", true, false, false, false }, { "ENDED", false, false, false, false },
    { "NODES", false, true, false, true },      { "PREEMPTED", true, true, false, false },
};

int cmd_history(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_BUF struct buf path = BUF_INIT(4000);
    struct problem problem;
    struct listing table;
    const char *limit = args_value(args, "limit");
    json_t *items = NULL, *job;
    size_t i;
    int r = live_client(args, &client);

    if (r)
        return r;
    buf_printf(&path, "/history?limit=%ld", limit ? strtol(limit, NULL, 10) : 100);
    r = filters_put(args, &path);
    if (r)
        return r;
    r = scope_put(args, client, &path, &problem);
    if (r == 0)
        r = client_list(client, path.data, &items, &problem);
    if (r)
        return problem_print(&problem);
    listing_init(&table, history_columns, sizeof(history_columns) / sizeof(history_columns[0]));
    json_array_foreach(items, i, job)
    {
        usec_t start = fmt_time(job, "start_time"), end = fmt_time(job, "end_time");
        int64_t signal = fmt_i64(job, "signal");
        char text[FMT_MAX];

        listing_add(&table, fmt_id(job, text));
        listing_add(&table, fmt_text(job, "name"));
        listing_add(&table, fmt_text(job, "user"));
        listing_add(&table, fmt_text(job, "vc"));
        listing_add(&table, fmt_text(job, "state"));
        if (signal)
            listing_addf(&table, "%lld", 128 + (long long)signal);
        else if (fmt_null(job, "exit_code") || !start) /* one that never ran ended with nothing */
            listing_add(&table, "-");
        else
            listing_addf(&table, "%lld", (long long)fmt_i64(job, "exit_code"));
        listing_add(&table, fmt_gpus(job, text));
        listing_add(&table, start && end ? fmt_seconds((end - start) / USEC_SEC, text) : "-");
        listing_addf(&table, "%.2f", (double)fmt_i64(job, "gpu_seconds") / 3600.0);
        listing_add(&table, fmt_stamp(end, text));
        listing_add(&table, fmt_text(job, "nodelist"));
        listing_addf(&table, "%lld", (long long)fmt_i64(job, "preemptions"));
    }
    r = listing_show(&table, args, "JobList", items);
    listing_done(&table);
    json_decref(items);
    return r;
}

static const struct column prio_columns[] = {
    { "POSITION", true, false, false, false }, { "JOBID", false, false, false, false },
    { "USER", false, false, false, false },    { "VC", false, false, false, false },
    { "PRIO", false, false, false, false },    { "PRIORITY", true, false, false, false },
    { "GPUS", false, false, false, false },    { "WAITED", false, false, false, false },
    { "REASON", false, false, false, false },  { "STARTS", false, false, false, false },
};

/* Why one that was asked for is not among those that wait. */
static int prio_none(struct client *client, int64_t id)
{
    struct problem problem;
    json_t *job = NULL;

    if (job_get(client, id, &job, &problem) == 0)
        (void)problem_set(&problem, CODE_CONFLICT, "Conflict", "job %lld does not wait (%s)", (long long)id,
                          fmt_text(job, "state"));
    json_decref(job);
    return problem_print(&problem);
}

int cmd_prio(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    struct problem problem;
    struct job_ref_text wanted = { 0 };
    struct listing table;
    json_t *items = NULL, *job;
    size_t i, shown = 0;
    int r = live_client(args, &client);

    if (r)
        return r;
    if (args->word_count)
        r = client_whole_job(client, args->words[0], &wanted, &problem);
    if (r == 0)
        r = client_list(client, "/queue", &items, &problem);
    if (r)
        return problem_print(&problem);
    listing_init(&table, prio_columns, sizeof(prio_columns) / sizeof(prio_columns[0]));
    json_array_foreach(items, i, job)
    {
        usec_t now = fmt_now(), eta = fmt_time(json_object_get(job, "eta"), "at");
        char text[FMT_MAX];

        if (wanted.id && fmt_i64(job, "id") != wanted.id)
            continue;
        shown++;
        listing_addf(&table, "%zu", i + 1);
        listing_add(&table, fmt_id(job, text));
        listing_add(&table, fmt_text(job, "user"));
        listing_add(&table, fmt_text(job, "vc"));
        listing_add(&table, fmt_text(job, "priority_class"));
        listing_addf(&table, "%lld", (long long)fmt_i64(job, "priority"));
        listing_add(&table, fmt_gpus(job, text));
        listing_add(&table, fmt_seconds((now - fmt_time(job, "submit_time")) / USEC_SEC, text));
        listing_add(&table, fmt_text(json_object_get(job, "reason"), "code"));
        listing_add(&table, eta ? fmt_clock(eta, now, text) : "-");
    }
    r = wanted.id && !shown ? prio_none(client, wanted.id) : listing_show(&table, args, "JobList", items);
    listing_done(&table);
    json_decref(items);
    return r;
}
