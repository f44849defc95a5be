/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_cluster.c - muster gpus, nodes, vc, report, events: the cluster, looked at. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/fmt.h"
#include "cli/listing.h"
#include "cli/verbs/live.h"
#include "wire/text/hostlist.h"

int cmd_gpus(struct command_args *args)
{
    static char mine[128];
    static struct column columns[] = {
        { "SKU", false, false, false, false },         { "TOTAL", true, false, false, false },
        { "USED", true, false, false, false },         { "FREE", true, false, false, false },
        { "DOWN", true, false, false, false },         { "FOREIGN", true, false, false, false },
        { "BIGGEST-NODE", true, false, false, false }, { "BIGGEST-GANG", true, false, false, false },
        { mine, true, false, false, false },           { "USED", true, false, false, false },
        { "CAN-BORROW", true, false, false, false },
    };
    const char *vc = args_value(args, "vc") ? args_value(args, "vc") : getenv("MUSTER_VC"); /* NOLINT */
    struct listing table;
    json_t *items = NULL, *item;
    size_t i;
    int r = live_list(args, "/gpus", &items);

    if (r)
        return r;
    if (!vc)
        vc = json_object_iter_key(json_object_iter(json_object_get(json_array_get(items, 0), "vcs")));
    if (args_value(args, "vc") && json_array_size(items) &&
        !json_object_get(json_object_get(json_array_get(items, 0), "vcs"), vc)) {
        struct problem problem;

        json_decref(items);
        (void)problem_set(&problem, CODE_NOT_FOUND, "NoSuchVc", "no virtual cluster '%.60s'", vc);
        problem_hint(&problem, "muster vc lists them");
        return problem_print(&problem);
    }
    (void)snprintf(mine, sizeof(mine), "MY-VC(%.60s) GUARANTEE", vc ? vc : "-");
    listing_init(&table, columns, vc ? 11 : 8);
    json_array_foreach(items, i, item)
    {
        json_t *of_vc = vc ? json_object_get(json_object_get(item, "vcs"), vc) : NULL;
        static const char *const keys[] = {
            "total", "used", "free", "down", "foreign", "biggest_node", "biggest_gang"
        };
        static const char *const vc_keys[] = { "guarantee", "used", "can_borrow" };

        listing_add(&table, fmt_text(item, "sku"));
        for (size_t k = 0; k < 7; k++)
            listing_addf(&table, "%lld", (long long)fmt_i64(item, keys[k]));
        for (size_t k = 0; vc && k < 3; k++)
            listing_addf(&table, "%lld", (long long)fmt_i64(of_vc, vc_keys[k]));
    }
    r = listing_show(&table, args, "GpuSummaryList", items);
    listing_done(&table);
    json_decref(items);
    return r;
}

/* "3 bob 2, 5 ann 1" */
static void holders_add(struct listing *table, json_t *holders)
{
    struct buf out = BUF_INIT(4096);
    json_t *item;
    size_t i;

    json_array_foreach(holders, i, item)
        buf_printf(&out, "%s%lld %s %lld", i ? ", " : "", (long long)fmt_i64(item, "job"), fmt_text(item, "user"),
                   (long long)fmt_i64(item, "count"));
    listing_add(table, out.data && !out.error ? out.data : "-");
    buf_done(&out);
}

int cmd_licenses(struct command_args *args)
{
    static const struct column columns[] = {
        { "NAME", false, false, false, false },   { "TOTAL", true, false, false, false },
        { "USED", true, false, false, false },    { "FREE", true, false, false, false },
        { "PENDING", true, false, false, false }, { "HELD-BY", false, false, false, true },
    };
    static const char *const keys[] = { "total", "used", "free", "pending_jobs" };
    struct listing table;
    json_t *items = NULL, *item;
    size_t i;
    int r = live_list(args, "/licenses", &items);

    if (r)
        return r;
    listing_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    json_array_foreach(items, i, item)
    {
        listing_add(&table, fmt_text(item, "name"));
        for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++)
            listing_addf(&table, "%lld", (long long)fmt_i64(item, keys[k]));
        holders_add(&table, json_object_get(item, "heldBy"));
    }
    r = listing_show(&table, args, "LicenseList", items);
    listing_done(&table);
    json_decref(items);
    return r;
}

static const struct column node_columns[] = {
    { "NODE", false, false, false, true },    { "STATE", false, false, true, false },
    { "GPUS", false, false, false, false },   { "USED", true, false, false, false },
    { "FREE", true, false, false, false },    { "FOREIGN", true, false, false, false },
    { "HEALTH", false, false, false, false }, { "REASON", false, false, false, true },
    { "ADDRESS", false, true, false, false }, { "VERSION", false, true, false, false },
};

/* Nodes that read the same but for their names and numbers. */
static bool node_alike(json_t *a, json_t *b)
{
    return strcmp(fmt_text(a, "state"), fmt_text(b, "state")) == 0 &&
           strcmp(fmt_text(a, "sku"), fmt_text(b, "sku")) == 0 &&
           strcmp(fmt_text(a, "reason"), fmt_text(b, "reason")) == 0 &&
           (fmt_i64(a, "gpus_down") > 0) == (fmt_i64(b, "gpus_down") > 0) &&
           (fmt_i64(a, "gpus_unhealthy") > 0) == (fmt_i64(b, "gpus_unhealthy") > 0) &&
           (fmt_i64(a, "foreign") > 0) == (fmt_i64(b, "foreign") > 0);
}

struct node_sum {
    const char **names;
    size_t count;
    int64_t gpus, used, free, down, unhealthy, foreign;
};

static void node_row(struct listing *table, json_t *node, struct node_sum *sum)
{
    struct buf hosts = BUF_INIT(16 << 20);

    hostlist_put(&hosts, sum->names, sum->count);
    listing_add(table, hosts.data);
    buf_done(&hosts);
    listing_add(table, fmt_text(node, "state"));
    listing_addf(table, "%lld %s", (long long)sum->gpus, fmt_text(node, "sku"));
    listing_addf(table, "%lld", (long long)sum->used);
    listing_addf(table, "%lld", (long long)sum->free);
    listing_addf(table, "%lld", (long long)sum->foreign);
    if (sum->unhealthy)
        listing_addf(table, "%lld unhealthy", (long long)sum->unhealthy);
    else if (json_is_false(json_object_get(node, "connected")))
        listing_add(table, "away");
    else if (sum->down && strncmp(fmt_text(node, "state"), "drain", 5) != 0)
        listing_addf(table, "%lld drained", (long long)sum->down);
    else
        listing_add(table, "ok");
    listing_add(table, fmt_text(node, "reason"));
    listing_add(table, sum->count == 1 ? fmt_text(node, "address") : "-");
    listing_add(table, fmt_text(node, "version"));
}

int cmd_nodes(struct command_args *args)
{
    bool each = strcmp(args->command->name, "ls") == 0 || args_has(args, "each");
    struct listing table;
    json_t *items = NULL;
    size_t count;
    bool *done;
    struct node_sum sum = { 0 };
    int r = live_list(args, "/nodes", &items);

    if (r)
        return r;
    count = json_array_size(items);
    done = mem_zalloc(count + 1, sizeof(*done));
    sum.names = mem_zalloc(count + 1, sizeof(*sum.names));
    listing_init(&table, node_columns, sizeof(node_columns) / sizeof(node_columns[0]));
    for (size_t i = 0; done && sum.names && i < count; i++) {
        json_t *first = json_array_get(items, i);

        if (done[i])
            continue;
        sum = (struct node_sum){ .names = sum.names };
        for (size_t k = i; k < count; k++) {
            json_t *node = json_array_get(items, k);

            if (done[k] || (k > i && (each || !node_alike(first, node))))
                continue;
            done[k] = true;
            sum.names[sum.count++] = fmt_text(node, "name");
            sum.gpus += fmt_i64(node, "gpus");
            sum.used += fmt_i64(node, "gpus_used");
            sum.free += fmt_i64(node, "gpus_free");
            sum.down += fmt_i64(node, "gpus_down");
            sum.unhealthy += fmt_i64(node, "gpus_unhealthy");
            sum.foreign += fmt_i64(node, "foreign");
        }
        node_row(&table, first, &sum);
    }
    mem_free(sum.names);
    mem_free(done);
    r = listing_show(&table, args, "NodeList", items);
    listing_done(&table);
    json_decref(items);
    return r;
}

static const struct column vc_columns[] = {
    { "VC", false, false, false, false },       { "SKU", false, false, false, false },
    { "GUARANTEE", true, false, false, false }, { "USED", true, false, false, false },
    { "BORROWED", true, false, false, false },  { "LENT", true, false, false, false },
    { "PENDING", true, false, false, false },   { "SHARE-7D", true, false, false, false },
    { "POLICY", false, true, false, false },
};

/* Of one type where it is told by type, else of all. */
static void amount_put(struct listing *table, json_t *vc, const char *key, const char *sku)
{
    json_t *value = json_object_get(vc, key);

    if (json_is_object(value))
        value = json_object_get(value, sku);
    if (json_is_number(value))
        listing_addf(table, "%g", json_number_value(value));
    else
        listing_add(table, "-");
}

int cmd_vc(struct command_args *args)
{
    struct listing table;
    json_t *items = NULL, *vc, *amount;
    const char *sku;
    size_t i;
    bool found = false;
    int r = live_list(args, "/vcs", &items);

    if (r)
        return r;
    listing_init(&table, vc_columns, sizeof(vc_columns) / sizeof(vc_columns[0]));
    json_array_foreach(items, i, vc)
    {
        if (args->word_count && strcmp(fmt_text(vc, "name"), args->words[0]) != 0)
            continue;
        bool first = true; /* what is of all types together is told once */

        found = true;
        json_object_foreach(json_object_get(vc, "guarantee"), sku, amount)
        {
            listing_add(&table, fmt_text(vc, "name"));
            listing_add(&table, sku);
            amount_put(&table, vc, "guarantee", sku);
            amount_put(&table, vc, "used", sku);
            amount_put(&table, vc, json_object_get(vc, "borrowed_by_sku") ? "borrowed_by_sku" : "borrowed", sku);
            amount_put(&table, vc, json_object_get(vc, "lent_by_sku") ? "lent_by_sku" : "lent", sku);
            if (first) {
                amount_put(&table, vc, "pending_gpus", sku);
                listing_addf(&table, "%.2f",
                             json_number_value(json_object_get(vc, fmt_null(vc, "share_7d") ? "share" : "share_7d")));
            } else {
                listing_add(&table, "-");
                listing_add(&table, "-");
            }
            first = false;
            listing_add(&table, fmt_text(vc, "policy"));
        }
    }
    if (args->word_count && !found) {
        struct problem problem;

        (void)problem_set(&problem, CODE_NOT_FOUND, "NoSuchVc", "no virtual cluster '%.60s'", args->words[0]);
        problem_hint(&problem, "muster vc lists them");
        r = problem_print(&problem);
    } else {
        r = listing_show(&table, args, "VcList", items);
    }
    listing_done(&table);
    json_decref(items);
    return r;
}

/* Hours with as many decimals as tell something. */
static void hours_add(struct listing *table, int64_t seconds)
{
    listing_addf(table, seconds < 36000 ? "%.2f" : "%.1f", (double)seconds / 3600.0);
}

/* Numbers of a report, by what it is about; a group alone has the first ones. */
static void report_row(struct listing *table, json_t *item, int about)
{
    json_t *mean = json_object_get(item, "mean_wait_seconds"), *most = json_object_get(item, "max_wait_seconds");
    json_t *ratio = json_object_get(item, "efficiency");
    char text[FMT_MAX];

    listing_add(table, *fmt_text(item, "key") ? fmt_text(item, "key") : "-");
    listing_addf(table, "%lld", (long long)fmt_i64(item, "jobs"));
    if (about <= 1)
        listing_addf(table, "%lld", (long long)fmt_i64(item, "failed"));
    if (about <= 2)
        hours_add(table, fmt_i64(item, "gpu_seconds"));
    if (about == 2) {
        hours_add(table, fmt_i64(item, "measured_gpu_seconds"));
        hours_add(table, fmt_i64(item, "used_gpu_seconds"));
        if (json_is_number(ratio))
            listing_addf(table, "%.1f%%", 100 * json_number_value(ratio));
        else
            listing_add(table, "-");
    }
    if (about == 0 || about == 4) {
        listing_addf(table, "%lld", (long long)fmt_i64(item, "preemptions"));
        hours_add(table, fmt_i64(item, "lost_gpu_seconds"));
    }
    if (about == 0 || about == 3)
        listing_add(table, json_is_number(mean) ? fmt_seconds((int64_t)json_number_value(mean), text) : "-");
    if (about == 3)
        listing_add(table, json_is_number(most) ? fmt_seconds((int64_t)json_number_value(most), text) : "-");
}

#define NUMBER(header)                                                                                                 \
    {                                                                                                                  \
        header, true, false, false, false                                                                              \
    }
static const struct column report_columns[][8] = {
    { { "KEY", false, false, false, false },
      NUMBER("JOBS"),
      NUMBER("FAILED"),
      NUMBER("GPU-HOURS"),
      NUMBER("PREEMPTIONS"),
      NUMBER("LOST-GPU-HOURS"),
      NUMBER("MEAN-WAIT") },
    { { "KEY", false, false, false, false }, NUMBER("JOBS"), NUMBER("FAILED"), NUMBER("GPU-HOURS") },
    { { "KEY", false, false, false, false },
      NUMBER("JOBS"),
      NUMBER("GPU-HOURS"),
      NUMBER("MEASURED"),
      NUMBER("USED"),
      NUMBER("EFFICIENCY") },
    { { "KEY", false, false, false, false }, NUMBER("JOBS"), NUMBER("MEAN-WAIT"), NUMBER("MAX-WAIT") },
    { { "KEY", false, false, false, false }, NUMBER("JOBS"), NUMBER("PREEMPTIONS"), NUMBER("LOST-GPU-HOURS") },
};
#undef NUMBER

int cmd_report(struct command_args *args)
{
    static const char *const groups[] = { "users", "vcs", "accounts", "skus", "jobs", "nodes" };
    static const char *const abouts[] = { "", "usage", "efficiency", "wait", "preemption" };
    const char *kind = args->word_count ? args->words[0] : "users", *group = args_value(args, "group");
    struct listing table;
    json_t *items = NULL, *item;
    char path[512];
    usec_t from, to;
    size_t about = 4, i = 0, count = 0;
    int r;

    while (about > 0 && strcmp(abouts[about], kind) != 0)
        about--;
    while (i < 6 && strcmp(groups[i], about ? (group ? group : "users") : kind) != 0)
        i++;
    if (i == 6 && about)
        return args_wrong(args, "--group: expected users, vcs, accounts, skus, jobs or nodes, got '%.40s'", group);
    if (i == 6)
        return args_wrong(
            args,
            "'%.40s': expected usage, efficiency, wait or preemption; or users, vcs, accounts, skus, jobs, "
            "nodes",
            kind);
    if (group && !about)
        return args_wrong(args, "--group goes with usage, efficiency, wait or preemption");
    r = when_arg(args, "start", &from);
    if (r == 0)
        r = when_arg(args, "end", &to);
    if (r)
        return r;
    (void)snprintf(path, sizeof(path), "/reports/%s?", kind);
    if (about)
        (void)snprintf(path, sizeof(path), "/reports/%s?group=%s", kind, groups[i]);
    fmt_query(path, sizeof(path), "from", from);
    fmt_query(path, sizeof(path), "to", to);
    r = live_list(args, path, &items);
    if (r)
        return r;
    while (count < 8 && report_columns[about][count].header)
        count++;
    listing_init(&table, report_columns[about], count);
    json_array_foreach(items, i, item)
    {
        report_row(&table, item, (int)about);
    }
    r = listing_show(&table, args, "ReportList", items);
    listing_done(&table);
    json_decref(items);
    return r;
}

static void event_show(json_t *event)
{
    json_t *detail = json_object_get(event, "detail");
    char stamp[FMT_MAX], *text;

    json_harmless(event);
    text = json_is_object(detail) && json_object_size(detail) ? json_dumps(detail, JSON_COMPACT) : NULL;
    (void)printf("%s  %-16s", fmt_stamp(fmt_time(event, "time"), stamp), fmt_text(event, "kind"));
    if (fmt_i64(event, "job"))
        (void)printf("  job %lld", (long long)fmt_i64(event, "job"));
    if (*fmt_text(event, "node"))
        (void)printf("  node %s", fmt_text(event, "node"));
    (void)printf("%s%s\n", text ? "  " : "", text ? text : "");
    mem_free(text);
}

/* Server-sent events come in pieces: lines are put together, "data:" lines are events. */
struct event_reader {
    struct buf line;
    char last[32]; /* id to go on from */
    bool json;
};

static void event_line(struct event_reader *reader)
{
    const char *line = reader->line.data ? reader->line.data : "";
    json_t *event;

    if (strncmp(line, "id:", 3) == 0)
        (void)snprintf(reader->last, sizeof(reader->last), "%.30s", line + 3 + strspn(line + 3, " "));
    if (strncmp(line, "data:", 5) != 0)
        return;
    event = json_loads(line + 5, 0, NULL);
    if (!event)
        return;
    if (reader->json)
        show_json(event);
    else
        event_show(event);
    (void)fflush(stdout);
    json_decref(event);
}

static int on_events(void *arg, const char *data, size_t size)
{
    struct event_reader *reader = arg;

    for (size_t i = 0; i < size; i++) {
        if (data[i] != '\n') {
            if (data[i] != '\r')
                buf_char(&reader->line, data[i]);
            continue;
        }
        event_line(reader);
        buf_clear(&reader->line);
        if (reader->line.data)
            reader->line.data[0] = '\0';
    }
    return 0;
}

int cmd_events(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    struct event_reader reader = { .line = BUF_INIT(1 << 20), .json = cli_json };
    static char resume[64];
    static const char *const headers[] = { "Accept: text/event-stream", resume, NULL };
    char path[256];
    struct problem problem;
    struct job_ref_text ref = { 0 };
    json_t *items = NULL, *event;
    size_t i;
    int r = live_client(args, &client);

    if (r == 0 && args_value(args, "job") && client_job(client, args_value(args, "job"), &ref, &problem))
        return problem_print(&problem);
    if (r)
        return r;
    (void)snprintf(path, sizeof(path), "/events?kinds=%.100s",
                   args_value(args, "kinds") ? args_value(args, "kinds") : "");
    if (ref.id)
        (void)snprintf(path + strlen(path), sizeof(path) - strlen(path), "&job=%lld", (long long)ref.id);
    if (!args_has(args, "follow")) {
        r = client_list(client, path, &items, &problem);
        if (r)
            return problem_print(&problem);
        if (cli_json) {
            json_t *list =
                json_pack("{s:s, s:s, s:O, s:n}", "apiVersion", "v1", "kind", "EventList", "items", items, "next");

            show_json(list);
            json_decref(list);
        } else {
            json_array_foreach(items, i, event) event_show(event);
        }
        json_decref(items);
        return CODE_DONE;
    }
    for (int tries = 0; tries < 5; tries++) { /* a controller that restarts is found again, and nothing is missed */
        char before[32];

        (void)snprintf(before, sizeof(before), "%s", reader.last);
        (void)snprintf(resume, sizeof(resume), *reader.last ? "Last-Event-ID: %s" : "X-Muster: events%s", reader.last);
        r = client_stream(client, path, headers, on_events, &reader, &problem);
        if (strcmp(before, reader.last) != 0)
            tries = 0;
    }
    buf_done(&reader.line);
    return r ? problem_print(&problem) : CODE_DONE;
}
