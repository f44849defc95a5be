/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_whatif.c - muster whatif: the cluster's own history, or a trace, under other policies or on another cluster.
 *
 * The controller runs it; here it is asked for, waited for, and shown: one line a policy, the first to compare with.
 */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "cli/fmt.h"
#include "cli/listing.h"
#include "cli/sim/progress.h"
#include "cli/verbs/live.h"
#include "io/file.h"
#include "wire/text/duration.h"

enum { POLL_MSEC = 120, BAR_CELLS = 20 };

static const struct column columns[] = {
    { "POLICY", false, false, false, false },   { "JOBS", true, false, false, false },
    { "AVG-WAIT", true, false, false, false },  { "P95-WAIT", true, false, false, false },
    { "AVG-JCT", true, false, false, false },   { "GPU-USE", true, false, false, false },
    { "PREEMPTED", true, false, false, false }, { "FAIRNESS", true, false, false, false },
    { "WAITING", false, false, false, false },
};

static double real(json_t *json, const char *key)
{
    json_t *value = json_object_get(json, key);

    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* "12s", "3m05s", "2h10m". */
static const char *span(double seconds, char text[FMT_MAX])
{
    if (isnan(seconds))
        (void)snprintf(text, FMT_MAX, "-");
    else if (seconds < 10)
        (void)snprintf(text, FMT_MAX, "%.1fs", seconds);
    else if (seconds < 60)
        (void)snprintf(text, FMT_MAX, "%.0fs", seconds);
    else if (seconds < 3600)
        (void)snprintf(text, FMT_MAX, "%dm%02ds", (int)seconds / 60, (int)seconds % 60);
    else
        (void)snprintf(text, FMT_MAX, "%lldh%02dm", (long long)seconds / 3600, (int)((long long)seconds / 60 % 60));
    return text;
}

/* Mean waiting beside that of the longest. */
static void bar(struct listing *table, double value, double most)
{
    char text[BAR_CELLS + 1] = "";
    int cells = most > 0 && value > 0 ? (int)lround(value / most * BAR_CELLS) : 0;

    memset(text, '#', (size_t)cells);
    text[cells] = '\0';
    listing_add(table, text);
}

static int show(const struct command_args *args, json_t *sim)
{
    json_t *items = json_object_get(sim, "items"), *run;
    struct listing table;
    double most = 0;
    char text[FMT_MAX];
    size_t i;
    int r;

    if (show_object(args, sim))
        return CODE_DONE;
    json_array_foreach(items, i, run) most = fmax(most, real(run, "avg_queue_seconds"));
    listing_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    json_array_foreach(items, i, run)
    {
        double fair = real(run, "fairness_ratio");

        if (strcmp(fmt_text(run, "label"), "present") == 0)
            listing_addf(&table, "present (%s)", fmt_text(run, "policy"));
        else
            listing_add(&table, fmt_text(run, "label"));
        listing_addf(&table, "%lld", (long long)fmt_i64(run, "finished"));
        listing_add(&table, span(real(run, "avg_queue_seconds"), text));
        listing_add(&table, span(real(run, "p95_queue_seconds"), text));
        listing_add(&table, span(real(run, "avg_jct_seconds"), text));
        listing_addf(&table, "%.1f%%", 100 * real(run, "gpu_utilization_ratio"));
        listing_addf(&table, "%lld", (long long)fmt_i64(run, "preemptions"));
        if (isnan(fair))
            listing_add(&table, "-");
        else
            listing_addf(&table, "%.3f", fair);
        bar(&table, real(run, "avg_queue_seconds"), most);
    }
    r = listing_show(&table, args, "SimRunList", items);
    listing_done(&table);
    return r;
}

static int when_put(const struct command_args *args, const char *name, json_t *body)
{
    CLEANUP_BUF struct buf text = BUF_INIT(64);
    usec_t at;
    int r = when_arg(args, name, &at);

    if (r == 0 && at) {
        instant_put(&text, at);
        (void)json_object_set_new(body, name, json_string(text.data));
    }
    return r;
}

static void words_put(json_t *list, const char *text)
{
    while (*text) {
        size_t length = strcspn(text, ",");

        if (length)
            (void)json_array_append_new(list, json_stringn(text, length));
        text += length + (text[length] == ',');
    }
}

/* "2x8:H100" */
static int nodes_put(const struct command_args *args, json_t *list, const char *text)
{
    long count = 0, gpus = 0;
    char sku[64];
    int used = 0;

    if (sscanf(text, "%5ldx%3ld:%63[A-Za-z0-9_.-]%n", &count, &gpus, sku, &used) != 3 || text[used] || count < 1)
        return args_wrong(args, "--add: expected NODESxGPUS:TYPE like 2x8:H100, got '%.60s'", text);
    (void)json_array_append_new(
        list, json_pack("{s:I, s:I, s:s}", "count", (json_int_t)count, "gpus", (json_int_t)gpus, "sku", sku));
    return 0;
}

static int file_put(json_t *body, const char *key, const char *path)
{
    CLEANUP_BYTES struct bytes bytes = { 0 };
    struct error err = { 0 };
    int r = file_read(path, (size_t)64 << 20, &bytes, &err);

    if (r < 0)
        return cli_fail(r, &err);
    (void)json_object_set_new(body, key, json_stringn(bytes.data, bytes.size));
    return 0;
}

static int body_make(const struct command_args *args, json_t *body)
{
    json_t *policies = json_array(), *add = json_array(), *remove = json_array(), *set = json_object();
    int r = 0;

    (void)json_object_set_new(body, "policies", policies);
    (void)json_object_set_new(body, "add_nodes", add);
    (void)json_object_set_new(body, "remove_nodes", remove);
    (void)json_object_set_new(body, "set", set);
    for (size_t i = 0; i < args->given_count && r == 0; i++) {
        const char *name = args->given[i].opt->name, *value = args->given[i].value ? args->given[i].value : "";
        const char *equals = strchr(value, '=');

        if (strcmp(name, "policy") == 0)
            words_put(policies, value);
        else if (strcmp(name, "remove") == 0)
            words_put(remove, value);
        else if (strcmp(name, "add") == 0)
            r = nodes_put(args, add, value);
        else if (strcmp(name, "set") == 0 && !equals)
            r = args_wrong(args, "--set: expected KEY=VALUE, got '%.60s'", value);
        else if (strcmp(name, "set") == 0)
            (void)json_object_setn_new(set, value, (size_t)(equals - value), json_string(equals + 1));
    }
    if (r == 0 && json_array_size(policies) == 0)
        words_put(policies, "present,fifo,srsf,las");
    if (r == 0)
        r = when_put(args, "since", body);
    if (r == 0)
        r = when_put(args, "until", body);
    if (r == 0 && args_value(args, "trace"))
        r = file_put(body, "trace", args_value(args, "trace"));
    return r;
}

/* Until it is over; *sim is replaced by the last answer. */
static int follow(struct client *client, int64_t id, struct answer *sim, struct problem *problem)
{
    struct progress *progress = NULL;
    char path[64];
    size_t seen = 0;
    int r = 0;

    (void)snprintf(path, sizeof(path), "/sim/%lld", (long long)id);
    for (;;) {
        json_t *at = json_object_get(sim->json, "progress"), *labels = json_object_get(sim->json, "policies");
        const char *state = fmt_text(sim->json, "state");

        if (!progress && !cli_json)
            progress = progress_new(stderr, (size_t)fmt_i64(at, "total"));
        for (; seen < (size_t)fmt_i64(at, "done"); seen++)
            progress_step(progress, json_string_value(json_array_get(labels, seen)));
        if (strcmp(state, "done") == 0 || strcmp(state, "failed") == 0)
            break;
        (void)poll(NULL, 0, POLL_MSEC);
        answer_done(sim);
        r = client_call(client, "GET", path, NULL, sim, problem);
        if (r)
            break;
    }
    progress_free(progress);
    return r;
}

static int export_one(struct client *client, int64_t id, const char *folder, const char *name)
{
    CLEANUP_ANSWER struct answer answer = { 0 };
    struct problem problem;
    struct error err = { 0 };
    char path[4200];
    int r;

    (void)snprintf(path, sizeof(path), "/sim/%lld/%s", (long long)id, name);
    if (client_call(client, "GET", path, NULL, &answer, &problem))
        return problem_print(&problem);
    (void)snprintf(path, sizeof(path), "%.4000s/%s", folder, name);
    r = file_write_atomic(path, answer.text, answer.size, &err);
    return r < 0 ? cli_fail(r, &err) : 0;
}

/* The files that the runs have read, so that everybody can run them again. */
static int export_all(struct client *client, json_t *sim, const char *folder)
{
    static const char *const names[] = { "trace.csv", "cluster.yaml", "cluster-plain.yaml" };
    json_t *commands = json_object_get(sim, "commands"), *command;
    struct error err;
    size_t i;
    int r = 0;

    if (mkdir(folder, 0777) < 0 && errno != EEXIST)
        return cli_fail(error_set(&err, -errno, "--export: %s: %s", folder, strerror(errno)), &err);
    for (i = 0; i < sizeof(names) / sizeof(names[0]) && r == 0; i++)
        r = export_one(client, fmt_i64(sim, "id"), folder, names[i]);
    if (r == 0 && !cli_json) {
        (void)fprintf(stderr, "in %s, the same again:\n", folder);
        json_array_foreach(commands, i, command)(void) fprintf(stderr, "  %s\n", json_string_value(command));
    }
    return r;
}

int cmd_whatif(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer sim = { 0 };
    struct problem problem;
    json_t *body = json_object();
    int r = body_make(args, body);

    if (r == 0)
        r = live_client(args, &client);
    if (r == 0 && client_call(client, "POST", "/sim", body, &sim, &problem))
        r = problem_print(&problem);
    json_decref(body);
    if (r == 0 && follow(client, fmt_i64(sim.json, "id"), &sim, &problem))
        r = problem_print(&problem);
    if (r)
        return r;
    if (strcmp(fmt_text(sim.json, "state"), "failed") == 0) {
        (void)problem_set(&problem, CODE_FAILED, "WhatIf", "%.400s", fmt_text(sim.json, "error"));
        return problem_print(&problem);
    }
    r = show(args, sim.json);
    return r == 0 && args_value(args, "export") ? export_all(client, sim.json, args_value(args, "export")) : r;
}
