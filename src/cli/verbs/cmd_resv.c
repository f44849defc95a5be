/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_resv.c - muster resv: nodes kept for some people's jobs, for a time; muster node label and health. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/fmt.h"
#include "cli/listing.h"
#include "cli/verbs/live.h"
#include "wire/text/duration.h"
#include "wire/text/hostlist.h"

static const struct column resv_columns[] = {
    { "NAME", false, false, false, false },  { "STATE", false, false, true, false },
    { "START", false, false, false, false }, { "END", false, false, false, false },
    { "NODES", false, false, false, true },  { "FOR", false, false, false, true },
    { "REASON", false, false, false, true },
};

/* "alice, vc nlp", or everybody. */
static void whom(json_t *resv, char *text, size_t size)
{
    json_t *item;
    size_t i, length = 0;

    text[0] = '\0';
    json_array_foreach(json_object_get(resv, "users"), i, item)
    {
        (void)snprintf(text + length, size - length, "%s%.40s", length ? "," : "", json_string_value(item));
        length = strlen(text);
    }
    json_array_foreach(json_object_get(resv, "vcs"), i, item)
    {
        (void)snprintf(text + length, size - length, "%svc %.40s", length ? "," : "", json_string_value(item));
        length = strlen(text);
    }
    if (!length)
        (void)snprintf(text, size, "everybody");
}

int cmd_resv_ls(struct command_args *args)
{
    struct listing table;
    json_t *items = NULL, *item;
    size_t i;
    int r = live_list(args, "/reservations", &items);

    if (r)
        return r;
    listing_init(&table, resv_columns, sizeof(resv_columns) / sizeof(resv_columns[0]));
    json_array_foreach(items, i, item)
    {
        char stamp[FMT_MAX], people[256];

        whom(item, people, sizeof(people));
        listing_add(&table, fmt_text(item, "name"));
        listing_add(&table, fmt_text(item, "state"));
        listing_add(&table, fmt_stamp(fmt_time(item, "start"), stamp));
        listing_add(&table, fmt_stamp(fmt_time(item, "end"), stamp));
        listing_add(&table, fmt_text(item, "nodes"));
        listing_add(&table, people);
        listing_add(&table, fmt_text(item, "reason"));
    }
    r = listing_show(&table, args, "ReservationList", items);
    listing_done(&table);
    json_decref(items);
    return r;
}

static void time_put(json_t *body, const char *key, usec_t at)
{
    CLEANUP_BUF struct buf text = BUF_INIT(64);

    instant_put(&text, at);
    if (!text.error)
        (void)json_object_set_new(body, key, json_string(text.data));
}

static void list_put(json_t *body, const char *key, const char *text)
{
    json_t *list = json_array();
    char copy[1024], *save = NULL;

    (void)snprintf(copy, sizeof(copy), "%s", text);
    for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save))
        (void)json_array_append_new(list, json_string(word));
    (void)json_object_set_new(body, key, list);
}

/* --start, --end or --duration, --lead; a usage error is told. */
static int times_read(const struct command_args *args, json_t *body, bool create)
{
    const char *start = args_value(args, "start"), *end = args_value(args, "end"), *span = args_value(args, "duration");
    const char *lead = args_value(args, "lead");
    usec_t from = fmt_now(), until, length;

    if (start && !fmt_when(start, false, &from))
        return args_wrong(args, "--start: expected now, now+2h or 2026-01-31T18:00, got '%.40s'", start);
    if (start || create)
        time_put(body, "start", from);
    if (span && duration_parse(span, strlen(span), &length) < 0)
        return args_wrong(args, "--duration: expected a time such as 8h, got '%.40s'", span);
    if (end && !fmt_when(end, false, &until))
        return args_wrong(args, "--end: expected now+8h or 2026-01-31T18:00, got '%.40s'", end);
    if (span)
        time_put(body, "end", from + length);
    else if (end)
        time_put(body, "end", until);
    else if (create)
        return args_wrong(args, "--end WHEN or --duration TIME is needed: until when?");
    if (lead && duration_parse(lead, strlen(lead), &length) < 0)
        return args_wrong(args, "--lead: expected a time such as 2h, got '%.40s'", lead);
    if (lead)
        (void)json_object_set_new(body, "lead_seconds", json_integer(length / USEC_SEC));
    return 0;
}

/* create, set: by the name of the command. */
int cmd_resv_put(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer answer = { 0 };
    bool create = strcmp(args->command->name, "create") == 0;
    json_t *body = json_object();
    struct problem problem;
    char path[300];
    int r = times_read(args, body, create);

    if (r == 0 && create && !args_has(args, "nodes"))
        r = args_wrong(args, "--nodes LIST is needed: which nodes?");
    if (args_value(args, "nodes"))
        (void)json_object_set_new(body, "nodes", json_string(args_value(args, "nodes")));
    if (args_value(args, "user"))
        list_put(body, "users", args_value(args, "user"));
    if (args_value(args, "vc"))
        list_put(body, "vcs", args_value(args, "vc"));
    if (args_value(args, "reason"))
        (void)json_object_set_new(body, "reason", json_string(args_value(args, "reason")));
    if (create)
        (void)json_object_set_new(body, "name", json_string(args->words[0]));
    live_path(path, sizeof(path), "/reservations/%s", args->words[0]);
    if (r == 0)
        r = live_client(args, &client);
    if (r == 0 &&
        client_call(client, create ? "POST" : "PUT", create ? "/reservations" : path, body, &answer, &problem))
        r = problem_print(&problem);
    json_decref(body);
    if (r == 0 && !show_object(args, answer.json))
        (void)printf("%s reservation %s; jobs use it with --reservation %s\n", create ? "Made" : "Changed",
                     args->words[0], args->words[0]);
    return r;
}

int cmd_resv_rm(struct command_args *args)
{
    return live_remove(args, "/reservations/%s", "Ended reservation");
}

/* NODE label[=value]... label-: a label that ends in '-' is taken away. */
struct labelling {
    struct client *client;
    json_t *body;
    int failed, last;
};

static int label_one(void *arg, const char *node)
{
    CLEANUP_ANSWER struct answer answer = { 0 };
    struct labelling *to = arg;
    struct problem problem;
    char path[400];

    live_path(path, sizeof(path), "/nodes/%s", node);
    if (client_call(to->client, "PATCH", path, to->body, &answer, &problem)) {
        to->last = problem_print(&problem);
        to->failed++;
    } else {
        json_t *shown = cli_json ? answer.json : json_object_get(answer.json, "labels");
        char *text = json_dumps(shown, JSON_COMPACT | (cli_json ? 0 : JSON_SORT_KEYS));

        (void)printf("%s%s%s\n", cli_json ? "" : node, cli_json ? "" : " ", text ? text : "");
        free(text); /* jansson's */
    }
    return 0;
}

int cmd_node_label(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    json_t *set = json_object();
    struct labelling to = { .body = json_pack("{s:o}", "labels", set) };
    struct error err = { 0 };
    int r = live_client(args, &client);

    to.client = client;
    for (int i = 1; i < args->word_count; i++) {
        char word[200], *equals;

        (void)snprintf(word, sizeof(word), "%s", args->words[i]);
        equals = strchr(word, '=');
        if (equals)
            *equals++ = '\0';
        if (!equals && word[0] && word[strlen(word) - 1] == '-') {
            word[strlen(word) - 1] = '\0';
            (void)json_object_set_new(set, word, json_null());
        } else {
            (void)json_object_set_new(set, word, json_string(equals ? equals : ""));
        }
    }
    if (r == 0) {
        r = hostlist_each(args->words[0], label_one, &to, &err);
        r = r < 0 ? cli_fail(r, &err) : to.failed ? to.last : 0;
    }
    json_decref(to.body);
    return r;
}

static const struct column health_columns[] = {
    { "NODE", false, false, false, false },  { "GPU", true, false, false, false },
    { "STATE", false, false, true, false },  { "UTIL", true, false, false, false },
    { "MEMORY", true, false, false, false }, { "POWER", true, false, false, false },
    { "TEMP", true, false, false, false },   { "JOBS", false, false, false, true },
    { "REASON", false, false, false, true },
};

static void health_add(struct listing *table, const char *node, json_t *gpu)
{
    char *jobs = json_dumps(json_object_get(gpu, "jobs"), JSON_COMPACT);

    listing_add(table, node);
    listing_addf(table, "%lld", (long long)fmt_i64(gpu, "index"));
    listing_add(table, fmt_text(gpu, "state"));
    listing_addf(table, "%lld%%", (long long)fmt_i64(gpu, "util"));
    listing_addf(table, "%lldM", (long long)fmt_i64(gpu, "memory_used_mib"));
    listing_addf(table, "%lldW", (long long)fmt_i64(gpu, "power_watts"));
    listing_addf(table, "%lldC", (long long)fmt_i64(gpu, "temperature_celsius"));
    listing_add(table, jobs ? jobs : "");
    listing_add(table, *fmt_text(gpu, "reason") ? fmt_text(gpu, "reason") : "-");
    free(jobs); /* jansson's */
}

/* GPUs that are not as they should be; of a node, or with --all, all of them. */
int cmd_node_health(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    struct problem problem;
    struct listing table;
    json_t *nodes = NULL, *node, *gpu, *shown = json_array();
    size_t i, g;
    bool all = args_has(args, "all") || args->word_count;
    int r = live_client(args, &client);

    if (r == 0 && client_list(client, "/nodes", &nodes, &problem))
        r = problem_print(&problem);
    listing_init(&table, health_columns, sizeof(health_columns) / sizeof(health_columns[0]));
    json_array_foreach(nodes, i, node)
    {
        CLEANUP_ANSWER struct answer answer = { 0 };
        const char *name = fmt_text(node, "name");
        char path[400];

        if (r || (args->word_count && strcmp(args->words[0], name) != 0))
            continue;
        live_path(path, sizeof(path), "/nodes/%s", name);
        if (client_call(client, "GET", path, NULL, &answer, &problem)) {
            r = problem_print(&problem);
            continue;
        }
        json_array_foreach(json_object_get(answer.json, "gpu_list"), g, gpu)
        {
            const char *state = fmt_text(gpu, "state");

            if (!all && strcmp(state, "unhealthy") != 0 && strcmp(state, "foreign") != 0 &&
                strcmp(state, "drained") != 0)
                continue;
            health_add(&table, name, gpu);
            (void)json_object_set_new(gpu, "node", json_string(name));
            (void)json_array_append(shown, gpu);
        }
    }
    if (r == 0)
        r = listing_show(&table, args, "GpuList", shown);
    listing_done(&table);
    json_decref(nodes);
    json_decref(shown);
    return r;
}
