/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_act.c - muster cancel, hold, release, suspend, resume, requeue, set: jobs, changed. Several at once are asked for
 * one by one; when some fail the others are done all the same, and the exit code says so. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/fmt.h"
#include "cli/listing.h"
#include "cli/verbs/live.h"
#include "wire/job/submission.h"
#include "wire/text/decimal.h"
#include "wire/text/duration.h"

/* What is done with one job: method, path after /jobs/ID, body. */
struct act {
    const char *method, *tail, *past; /* "hold": "held" */
    json_t *body;
};

static int act_send(struct client *client, int64_t id, const struct act *act, struct problem *problem)
{
    CLEANUP_ANSWER struct answer answer = { 0 };
    struct problem other;
    char path[128];
    int r;

    (void)snprintf(path, sizeof(path), "/jobs/%lld%s", (long long)id, act->tail);
    r = client_call(client, act->method, path, act->body, &answer, problem);
    if (r == CODE_NOT_FOUND && strcmp(act->method, "DELETE") == 0) { /* an array is cancelled by its number */
        (void)snprintf(path, sizeof(path), "/arrays/%lld%s", (long long)id, act->tail);
        if (client_call(client, "DELETE", path, NULL, &answer, &other) == 0)
            r = 0;
    }
    return r;
}

/* Of an array that only the store knows: its elements have the numbers that follow its own. */
static bool array_past(struct client *client, int64_t id)
{
    CLEANUP_ANSWER struct answer answer = { 0 };
    struct problem other;
    char path[64];

    (void)snprintf(path, sizeof(path), "/jobs/%lld", (long long)id + 1);
    return client_call(client, "GET", path, NULL, &answer, &other) == 0 &&
           fmt_i64(json_object_get(answer.json, "array"), "id") == id;
}

/* Each element of an array, where the number is that of one. */
static int act_array(struct client *client, int64_t id, const struct act *act, struct problem *problem)
{
    struct problem other;
    json_t *jobs = NULL, *job;
    size_t i;
    int r = act_send(client, id, act, problem), done = 0;

    if (r != CODE_NOT_FOUND || client_array(client, id, &jobs, &other))
        return r;
    json_array_foreach(jobs, i, job)
    {
        r = act_send(client, fmt_i64(job, "id"), act, problem);
        done += r == 0;
    }
    if (json_array_size(jobs) == 0 && array_past(client, id))
        r = problem_set(problem, CODE_CONFLICT, "Conflict", "array %lld is over", (long long)id);
    json_decref(jobs);
    return done ? 0 : r;
}

static int act_all(const struct command_args *args, const struct act *act)
{
    CLEANUP(client_free) struct client *client = NULL;
    struct problem problem;
    int failed = 0, last = 0, r = live_client(args, &client);
    json_t *done = json_array();

    if (r)
        return r;
    for (int i = 0; i < args->word_count; i++) {
        struct job_ref_text ref;

        r = client_whole_job(client, args->words[i], &ref, &problem);
        if (r == 0)
            r = act_array(client, ref.id, act, &problem);
        if (r) {
            last = problem_print(&problem);
            failed++;
            continue;
        }
        (void)json_array_append_new(done, json_pack("{s:I, s:b}", "id", (json_int_t)ref.id, "ok", 1));
        if (!cli_json)
            (void)printf("%s job %s\n", act->past, args->words[i]);
        (void)fflush(stdout); /* in the order in which it happened, beside what failed */
    }
    if (cli_json && json_array_size(done)) {
        json_t *list =
            json_pack("{s:s, s:s, s:O, s:n}", "apiVersion", "v1", "kind", "BatchResult", "items", done, "next");

        show_json(list);
        json_decref(list);
    }
    json_decref(done);
    return failed == 0 ? CODE_DONE : failed == args->word_count ? last : CODE_PARTIAL;
}

/* Jobs by selector: --mine, --state, --name, --user, --vc. */
static int cancel_selected(const struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer who = { 0 }, answer = { 0 };
    static const char *const keys[] = { "state", "name", "user", "vc" };
    struct problem problem;
    json_t *body = json_pack("{s:s}", "action", "cancel"), *item;
    size_t i, done = 0, failed = 0;
    int r = live_client(args, &client);

    for (size_t k = 0; r == 0 && k < 4; k++)
        if (args_value(args, keys[k]))
            (void)json_object_set_new(body, keys[k], json_string(args_value(args, keys[k])));
    if (r == 0 && !args_has(args, "user")) { /* others' jobs are meant only when said so */
        r = client_call(client, "GET", "/whoami", NULL, &who, &problem);
        if (r)
            return problem_print(&problem);
        (void)json_object_set_new(body, "user", json_string(fmt_text(who.json, "user")));
    }
    if (r == 0)
        r = client_call(client, "POST", "/jobs:batch", body, &answer, &problem);
    json_decref(body);
    if (r)
        return problem_print(&problem);
    if (!cli_json)
        json_harmless(answer.json);
    json_array_foreach(json_object_get(answer.json, "items"), i, item)
    {
        bool ok = json_is_true(json_object_get(item, "ok"));

        done += ok;
        failed += !ok;
        if (!ok)
            (void)fprintf(stderr, "muster: job %lld: %s\n", (long long)fmt_i64(item, "id"), fmt_text(item, "detail"));
    }
    if (!show_object(args, answer.json))
        (void)printf("Cancelled %zu jobs\n", done);
    return failed == 0 ? CODE_DONE : done ? CODE_PARTIAL : CODE_CONFLICT;
}

int cmd_cancel(struct command_args *args)
{
    struct act act = { "DELETE", args_has(args, "now") ? "?now=1" : "", "Cancelled", NULL };
    const char *name = args_value(args, "signal");
    int number, r;

    if (args->word_count == 0) {
        if (args_has(args, "mine") || args_has(args, "state") || args_has(args, "name") || args_has(args, "user") ||
            args_has(args, "vc"))
            return cancel_selected(args);
        return args_wrong(args, "which job? muster cancel JOB..., or --mine, --name, --state");
    }
    if (!name)
        return act_all(args, &act);
    if (signal_parse(name, strlen(name), &number) < 0)
        return args_wrong(args, "--signal: expected a signal such as USR1, got '%.20s'", name);
    act = (struct act){ "POST", "/signal", "Signalled", json_pack("{s:i}", "signal", number) };
    r = act_all(args, &act);
    json_decref(act.body);
    return r;
}

int cmd_act(struct command_args *args)
{
    static const struct {
        const char *name, *tail, *past;
    } acts[] = { { "hold", "/hold", "Held" },
                 { "release", "/release", "Released" },
                 { "suspend", "/suspend", "Suspended" },
                 { "resume", "/resume", "Resumed" },
                 { "requeue", "/requeue", "Requeued" },
                 { "now", "/checkpoint", "Told to save itself" } };

    for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++) {
        if (strcmp(acts[i].name, args->command->name) == 0) {
            struct act act = { "POST", acts[i].tail, acts[i].past, NULL };

            return act_all(args, &act);
        }
    }
    return CODE_FAILED;
}

/* "time=2h" and the like, as PATCH has them. */
static int change_add(const struct command_args *args, json_t *body, const char *word)
{
    const char *value = strchr(word, '=');
    size_t length = value ? (size_t)(value - word) : 0;
    usec_t span;
    int priority;

    if (!value++)
        return args_wrong(args, "'%.60s': expected KEY=VALUE: time, priority, vc, size, comment or tag.NAME", word);
    if (strncmp(word, "time", length) == 0 && length == 4) {
        if (duration_parse(value, strlen(value), &span) < 0)
            return args_wrong(args, "time: expected a time such as 2h30m, got '%.40s'", value);
        (void)json_object_set_new(body, "time_seconds", json_integer(span / USEC_SEC));
    } else if (strncmp(word, "priority", length) == 0 && length == 8) {
        if (priority_parse(value, &priority) < 0)
            return args_wrong(args, "priority: expected oppo, low, normal, high, urgent or a number, got '%.40s'",
                              value);
        (void)json_object_set_new(body, "priority", json_integer(priority));
    } else if (strncmp(word, "size", length) == 0 && length == 4) {
        int64_t gpus = 0;

        if (strcmp(value, "auto") != 0 &&
            (decimal_parse_i64(value, strlen(value), &gpus) < 0 || gpus < 1 || gpus > GANG_GPUS_MAX))
            return args_wrong(args, "size: expected a number of GPUs, or auto, got '%.40s'", value);
        (void)json_object_set_new(body, "size", gpus ? json_integer(gpus) : json_null());
    } else if ((strncmp(word, "vc", length) == 0 && length == 2) ||
               (strncmp(word, "comment", length) == 0 && length == 7)) {
        char key[16];

        (void)snprintf(key, sizeof(key), "%.*s", (int)length, word);
        (void)json_object_set_new(body, key, json_string(value));
    } else if (strncmp(word, "tag.", 4) == 0 && length > 4) {
        json_t *tags = json_object_get(body, "tags");
        char key[128];

        if (!tags) {
            tags = json_object();
            (void)json_object_set_new(body, "tags", tags);
        }
        (void)snprintf(key, sizeof(key), "%.*s", (int)(length - 4), word + 4);
        (void)json_object_set_new(tags, key, *value ? json_string(value) : json_null());
    } else {
        return args_wrong(args, "'%.*s' cannot be changed; there are time, priority, vc, size, comment, tag.NAME",
                          (int)length, word);
    }
    return 0;
}

int cmd_set(struct command_args *args)
{
    struct act act = { "PATCH", "", "Changed", json_object() };
    int r = 0;

    for (int i = 1; r == 0 && i < args->word_count; i++)
        r = change_add(args, act.body, args->words[i]);
    args->word_count = 1;
    if (r == 0)
        r = act_all(args, &act);
    json_decref(act.body);
    return r;
}
