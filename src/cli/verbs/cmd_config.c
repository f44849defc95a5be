/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_config.c - muster config, vc create|set|rm, user: virtual clusters, policies and limits, changed; and what a
 * change would do to jobs before it is made. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/fmt.h"
#include "cli/listing.h"
#include "cli/verbs/live.h"
#include "io/file.h"
#include "wire/hived/hived_settings.h"
#include "wire/text/decimal.h"
#include "wire/text/yaml_doc.h"
#include "wire/text/yaml_json.h"

static void yaml_print(const struct command_args *args, json_t *json)
{
    (void)args;
    show_yaml(json, 0);
}

int cmd_config_show(struct command_args *args)
{
    return live_get(args, "/config", yaml_print);
}

static void file_print(const struct command_args *args, json_t *json)
{
    (void)args;
    (void)puts("# The cluster as its agents report it, in the form of a cluster file (muster-cluster(5)).");
    show_yaml(json_object_get(json, "file"), 0);
}

int cmd_config_discover(struct command_args *args)
{
    return live_get(args, "/config/discover", file_print);
}

int cmd_config_reload(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer answer = { 0 };
    struct problem problem;
    int r = live_client(args, &client);

    if (r == 0 && client_call(client, "POST", "/config/reload", NULL, &answer, &problem))
        r = problem_print(&problem);
    if (r == 0 && !show_object(args, answer.json))
        (void)puts("Reloaded");
    return r;
}

static void cells_warn(const char *words)
{
    (void)fprintf(stderr, "muster: warning: %s\n", words);
}

/* HiveD's configuration: its cells are for the controller, what it has for Kubernetes is not. */
static int cells_load(const char *path, const struct bytes *bytes, json_t *config, struct error *err)
{
    static const char *const others[] = { "kubeApiServerAddress", "kubeConfigFilePath", "webServerAddress",
                                          "forcePodBindThreshold", "waitingPodSchedulingBlockMilliSec" };
    struct yaml_doc doc;
    int r = yaml_open(file_label(path), bytes, &doc, err);

    if (r < 0)
        return r;
    r = hived_settings_read(&doc, config, cells_warn, err);
    yaml_close(&doc);
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        (void)json_object_del(config, others[i]);
    return r;
}

/* A YAML file as JSON, for the controller to judge. */
static int yaml_load(const char *path, json_t **ret_json)
{
    CLEANUP_BYTES struct bytes bytes = { 0 };
    struct error err = { 0 };
    int r = file_read(path, YAML_BYTES_MAX, &bytes, &err);

    if (r == 0)
        r = yaml_to_json(file_label(path), &bytes, ret_json, &err);
    if (r == 0 && hived_settings_any(*ret_json))
        r = cells_load(path, &bytes, *ret_json, &err);
    if (r == 0 && !json_is_object(*ret_json)) {
        json_decref(*ret_json);
        *ret_json = NULL;
        r = error_set(&err, -EINVAL, "%s: expected keys with values, such as vcs: and policy: (muster.yaml(5))",
                      file_label(path));
    }
    return r < 0 ? cli_fail(r, &err) : 0;
}

/* What differs, key by key; how many lines that are. Keys that only one side has count. */
static int diff_show(const char *path, json_t *now, json_t *wanted)
{
    const char *key;
    json_t *value;
    char *before, *after, deeper[512];
    int lines = 0;

    if (json_is_object(wanted) && (!now || json_is_object(now))) {
        json_object_foreach(wanted, key, value)
        {
            (void)snprintf(deeper, sizeof(deeper), "%s%s%s", path, *path ? "." : "", key);
            lines += diff_show(deeper, json_object_get(now, key), value);
        }
        json_object_foreach(now, key, value)
        {
            (void)snprintf(deeper, sizeof(deeper), "%s%s%s", path, *path ? "." : "", key);
            if (!json_object_get(wanted, key))
                lines += diff_show(deeper, value, NULL);
        }
        return lines;
    }
    if (json_equal(now, wanted) || (!now && !wanted))
        return 0;
    before = now ? json_dumps(now, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    after = wanted ? json_dumps(wanted, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    (void)printf("%s: %s -> %s\n", path, before ? before : "(not set)", after ? after : "(not set)");
    free(before); /* jansson's */
    free(after);
    return 1;
}

static void touched_show(const char *word, json_t *list)
{
    json_t *item;
    size_t i;

    json_array_foreach(list, i, item)(void)
        printf("%s job %lld of %s: %lld GPUs in %s\n", word, (long long)fmt_i64(item, "job"), fmt_text(item, "user"),
               (long long)fmt_i64(item, "gpus"), fmt_text(item, "vc"));
}

/* What the controller says a change would do. */
static void preview_show(json_t *diff)
{
    int lines;

    json_harmless(diff);
    lines = diff_show("", json_object_get(diff, "before"), json_object_get(diff, "after"));
    if (lines == 0)
        (void)puts("nothing would change");
    touched_show("preempts", json_object_get(diff, "preempts"));
    touched_show("starts", json_object_get(diff, "starts"));
    if (json_array_size(json_object_get(diff, "preempts")) == 0)
        (void)puts("no job would be preempted");
}

int cmd_config_put(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer answer = { 0 };
    bool apply = strcmp(args->command->name, "apply") == 0, diff = strcmp(args->command->name, "diff") == 0;
    struct problem problem;
    json_t *config = NULL;
    int r = yaml_load(args->words[0], &config);

    if (r)
        return r;
    r = live_client(args, &client);
    if (r == 0 && client_call(client, "PUT",
                              apply  ? "/config"
                              : diff ? "/config?diff=1"
                                     : "/config?validate=1",
                              config, &answer, &problem))
        r = problem_print(&problem);
    if (r == 0 && !show_object(args, answer.json)) {
        if (diff)
            preview_show(answer.json);
        else
            (void)printf("%s: %s\n", args->words[0], apply ? "applied" : "valid");
    }
    json_decref(config);
    return r;
}

/* "quota.H100=32" into a tree; numbers are numbers, nothing after '=' is null: the key is taken away. */
static int pair_read(const struct command_args *args, const char *word, json_t *to)
{
    const char *value = strchr(word, '='), *dot;
    char key[128], inner[128] = "";
    int64_t number;
    json_t *tree, *leaf;

    if (!value || value == word || (size_t)(value - word) >= sizeof(key))
        return args_wrong(args, "'%.60s': expected KEY=VALUE, such as quota.H100=32, borrow=50%% or policy=las", word);
    (void)snprintf(key, sizeof(key), "%.*s", (int)(value - word), word);
    value++;
    dot = strchr(key, '.');
    if (dot) {
        (void)snprintf(inner, sizeof(inner), "%s", dot + 1);
        key[dot - key] = '\0';
    }
    leaf = !*value || strcmp(value, "null") == 0 || strcmp(value, "none") == 0                ? json_null()
           : decimal_parse_i64(value, strlen(value), &number) == 0 && strcmp(key, "set") != 0 ? json_integer(number)
                                                                                              : json_string(value);
    if (!*inner)
        return json_object_set_new(to, key, leaf) < 0 ? CODE_FAILED : 0;
    tree = json_object_get(to, key);
    if (!json_is_object(tree)) {
        tree = json_object();
        (void)json_object_set_new(to, key, tree);
    }
    return json_object_set_new(tree, inner, leaf) < 0 ? CODE_FAILED : 0;
}

static int vc_send(struct command_args *args, const char *method, const char *path, json_t *body, const char *past)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer answer = { 0 };
    struct problem problem;
    char full[400];
    int r = live_client(args, &client);

    (void)snprintf(full, sizeof(full), "%s%s", path, args_has(args, "dry-run") ? "?diff=1" : "");
    if (r == 0 && client_call(client, method, full, body, &answer, &problem))
        r = problem_print(&problem);
    if (r)
        return r;
    if (!answer.json && cli_json) { /* it is gone: there is nothing else to tell of it */
        json_t *gone = json_pack("{s:s, s:s, s:s, s:b}", "apiVersion", "v1", "kind", "Vc", "name", args->words[0],
                                 "closed", strcmp(method, "DELETE") == 0);

        show_json(gone);
        json_decref(gone);
    } else if (!answer.json || !show_object(args, answer.json)) {
        if (args_has(args, "dry-run"))
            preview_show(answer.json);
        else
            (void)printf("%s virtual cluster %s\n", past, args->words[0]);
    }
    return 0;
}

/* create, set, rm: by the name of the command. */
int cmd_vc_put(struct command_args *args)
{
    const char *name = args->command->name;
    json_t *body = json_object();
    char path[300];
    int r = 0;

    for (int i = 1; r == 0 && i < args->word_count; i++)
        r = pair_read(args, args->words[i], body);
    live_path(path, sizeof(path), "/vcs/%s", args->words[0]);
    if (r == 0 && strcmp(name, "create") == 0) {
        (void)json_object_set_new(body, "name", json_string(args->words[0]));
        r = vc_send(args, "POST", "/vcs", body, "Created");
    } else if (r == 0 && strcmp(name, "rm") == 0) {
        r = vc_send(args, "DELETE", path, NULL, "Removed");
    } else if (r == 0 && args->word_count < 2) {
        r = args_wrong(args, "expected NAME KEY=VALUE...");
    } else if (r == 0) {
        r = vc_send(args, "PUT", path, body, "Changed");
    }
    json_decref(body);
    return r;
}

static const struct column user_columns[] = {
    { "USER", false, false, false, false },    { "RUNNING", true, false, false, false },
    { "PENDING", true, false, false, false },  { "GPUS", true, false, false, false },
    { "MAX-GPUS", true, false, false, false }, { "MAX-JOBS", true, false, false, false },
};

static void limit_add(struct listing *table, json_t *item, const char *key)
{
    if (fmt_null(item, key))
        listing_add(table, "-");
    else
        listing_addf(table, "%lld", (long long)fmt_i64(item, key));
}

int cmd_user_ls(struct command_args *args)
{
    struct listing table;
    json_t *items = NULL, *item;
    size_t i;
    int r = live_list(args, "/users", &items);

    if (r)
        return r;
    listing_init(&table, user_columns, sizeof(user_columns) / sizeof(user_columns[0]));
    json_array_foreach(items, i, item)
    {
        listing_add(&table, fmt_text(item, "name"));
        listing_addf(&table, "%lld", (long long)fmt_i64(item, "running_jobs"));
        listing_addf(&table, "%lld", (long long)fmt_i64(item, "pending_jobs"));
        listing_addf(&table, "%lld", (long long)fmt_i64(item, "gpus"));
        limit_add(&table, item, "max_gpus");
        limit_add(&table, item, "max_jobs");
    }
    r = listing_show(&table, args, "UserList", items);
    listing_done(&table);
    json_decref(items);
    return r;
}

/* NAME [max_gpus=N|none] [max_jobs=N|none]: shown, or changed. */
int cmd_user_limits(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer answer = { 0 };
    json_t *body = json_object();
    struct problem problem;
    char path[300], gpus[32] = "no limit", jobs[32] = "no limit";
    int r = 0;

    for (int i = 1; r == 0 && i < args->word_count; i++)
        r = pair_read(args, args->words[i], body);
    live_path(path, sizeof(path), "/users/%s/limits", args->words[0]);
    if (r == 0)
        r = live_client(args, &client);
    if (r == 0 && client_call(client, args->word_count > 1 ? "PUT" : "GET", path, args->word_count > 1 ? body : NULL,
                              &answer, &problem))
        r = problem_print(&problem);
    json_decref(body);
    if (r || show_object(args, answer.json))
        return r;
    if (!fmt_null(answer.json, "max_gpus"))
        (void)snprintf(gpus, sizeof(gpus), "%lld", (long long)fmt_i64(answer.json, "max_gpus"));
    if (!fmt_null(answer.json, "max_jobs"))
        (void)snprintf(jobs, sizeof(jobs), "%lld", (long long)fmt_i64(answer.json, "max_jobs"));
    (void)printf("User %s  GPUs %s, jobs %s\n", args->words[0], gpus, jobs);
    return 0;
}
