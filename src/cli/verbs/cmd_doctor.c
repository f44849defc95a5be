/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_doctor.c - muster doctor: what is wrong between here and the controller, in the order in which it would be met.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/client/context.h"
#include "cli/fmt.h"
#include "cli/listing.h"
#include "cli/verbs/live.h"

static struct {
    json_t *items;
    int failed;
} checks;

static bool check(const char *name, bool ok, const char *words, const char *hint)
{
    (void)json_array_append_new(checks.items, json_pack("{s:s, s:b, s:s, s:s?}", "check", name, "ok", ok, "detail",
                                                        words, "hint", ok ? NULL : hint));
    checks.failed += !ok;
    if (!cli_json) {
        (void)printf("%-6s %-12s %s\n", ok ? "ok" : "WRONG", name, words);
        if (!ok && hint && *hint)
            (void)printf("       hint: %s\n", hint);
    }
    return ok;
}

static void node_checks(struct client *client)
{
    struct problem problem;
    json_t *nodes = NULL, *node;
    char words[FMT_MAX];
    size_t i, away = 0, drained = 0;

    if (client_list(client, "/nodes", &nodes, &problem)) {
        (void)check("nodes", false, problem.text, problem.hints[0]);
        return;
    }
    json_array_foreach(nodes, i, node)
    {
        away += json_is_false(json_object_get(node, "connected"));
        drained += strncmp(fmt_text(node, "state"), "drain", 5) == 0;
    }
    (void)snprintf(words, sizeof(words), "%zu, of which %zu away and %zu drained", json_array_size(nodes), away,
                   drained);
    (void)check("nodes", json_array_size(nodes) > 0 && away == 0, words,
                json_array_size(nodes) ? "muster nodes names them; look at muster-agent's log there"
                                       : "muster token new --join, then muster-agent join URL TOKEN on each node");
    json_decref(nodes);
}

static void clock_check(json_t *scheduler)
{
    usec_t there = fmt_time(scheduler, "now"), apart;
    char words[FMT_MAX];

    if (!there)
        return;
    apart = fmt_now() > there ? fmt_now() - there : there - fmt_now();
    (void)snprintf(words, sizeof(words), "%.1f s apart", (double)apart / (double)USEC_SEC);
    (void)check("clock", apart < 5 * USEC_SEC, words, "run a time service on both machines");
}

/* What the controller finds when it compares its jobs, attempts, nodes and counters with each other. */
static void deep_check(struct client *client)
{
    CLEANUP_ANSWER struct answer audit = { 0 };
    struct problem problem = { 0 };
    char words[FMT_MAX * 2];
    json_t *line;
    size_t i;

    if (client_call(client, "GET", "/audit", NULL, &audit, &problem)) {
        (void)check("state", false, problem.text, problem.hints[0]);
        return;
    }
    (void)snprintf(words, sizeof(words), "%" JSON_INTEGER_FORMAT " jobs and all counters agree",
                   json_integer_value(json_object_get(audit.json, "jobs")));
    if (json_is_true(json_object_get(audit.json, "ok")))
        (void)check("state", true, words, NULL);
    json_array_foreach(json_object_get(audit.json, "differences"), i, line)(void)
        check("state", false, json_string_value(line), "please report it, with the controller's log");
}

/* Alerts that mean that something is wrong with a node, and not only that it is away. */
static void alert_checks(struct client *client)
{
    struct problem problem;
    json_t *alerts = NULL, *alert;
    size_t i;

    if (client_list(client, "/alerts", &alerts, &problem))
        return; /* those who may not read them are not the ones to act */
    json_array_foreach(alerts, i, alert)
    {
        const char *kind = fmt_text(alert, "kind");

        if (strcmp(kind, "NodeTwice") == 0 || strcmp(kind, "TaskStuck") == 0)
            (void)check("nodes", false, fmt_text(alert, "text"), fmt_text(alert, "hint"));
    }
    json_decref(alerts);
}

static void live_checks(const struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer version = { 0 }, who = { 0 }, sched = { 0 };
    struct problem problem = { 0 };
    char words[FMT_MAX * 2];

    if (client_new(args, &client, &problem)) {
        (void)check("settings", false, problem.text, problem.hints[0]);
        return;
    }
    (void)check("settings", true, client_url(client), NULL);
    if (client_call(client, "GET", "/version", NULL, &version, &problem)) {
        (void)check("controller", false, problem.text, problem.hints[0]);
        return;
    }
    (void)snprintf(words, sizeof(words), "cluster %s, version %s", fmt_text(version.json, "cluster"),
                   fmt_text(version.json, "version"));
    (void)check("controller", true, words, NULL);
    (void)snprintf(words, sizeof(words), "here %s, there %s", MUSTER_VERSION, fmt_text(version.json, "version"));
    (void)check("versions", strcmp(fmt_text(version.json, "version"), MUSTER_VERSION) == 0, words,
                "install the same one");
    if (client_call(client, "GET", "/whoami", NULL, &who, &problem)) {
        (void)check("login", false, problem.text, problem.hints[0]);
        return;
    }
    (void)snprintf(words, sizeof(words), "%s, %s", fmt_text(who.json, "user"), fmt_text(who.json, "role"));
    (void)check("login", true, words, NULL);
    if (client_call(client, "GET", "/scheduler", NULL, &sched, &problem) == 0) {
        bool paused = json_is_true(json_object_get(sched.json, "paused"));

        (void)check("scheduler", !paused, paused ? "paused: nothing starts" : fmt_text(sched.json, "policy"),
                    "muster sched resume");
        clock_check(sched.json);
    }
    node_checks(client);
    alert_checks(client);
    if (args_has(args, "deep"))
        deep_check(client);
}

int cmd_doctor(struct command_args *args)
{
    checks.items = json_array();
    live_checks(args);
    if (cli_json) {
        json_t *list =
            json_pack("{s:s, s:s, s:O, s:n}", "apiVersion", "v1", "kind", "CheckList", "items", checks.items, "next");

        show_json(list);
        json_decref(list);
    }
    json_decref(checks.items);
    return checks.failed ? CODE_FAILED : CODE_DONE;
}
