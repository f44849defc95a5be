/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_admin.c - muster node, gpu drain, sched, cluster: the cluster, changed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/fmt.h"
#include "cli/listing.h"
#include "cli/verbs/live.h"
#include "wire/text/duration.h"
#include "wire/text/hostlist.h"

static void line(const char *label, const char *text)
{
    if (text && *text)
        (void)printf("  %-10s %s\n", label, text);
}

/* The values of a list with blanks between; "-" where there are none. */
static void list_line(const char *label, json_t *list)
{
    json_t *item;
    size_t i;

    if (!json_is_array(list))
        return;
    (void)printf("  %-10s", label);
    json_array_foreach(list, i, item)
    {
        if (json_is_string(item))
            (void)printf(" %s", json_string_value(item));
        else
            (void)printf(" %lld", (long long)json_integer_value(item));
    }
    (void)puts(json_array_size(list) ? "" : " -");
}

/* "  jobs 4127 4130" behind a GPU that has some. */
static void gpu_jobs(json_t *jobs)
{
    json_t *item;
    size_t i;

    if (json_array_size(jobs))
        (void)printf("  jobs");
    json_array_foreach(jobs, i, item)(void) printf(" %lld", (long long)json_integer_value(item));
}

static void node_print(const struct command_args *args, json_t *node)
{
    json_t *gpu;
    char memory[FMT_MAX];
    size_t i;

    (void)args;
    json_harmless(node);
    (void)printf("Node %s  %s\n", fmt_text(node, "name"), fmt_text(node, "state"));
    line("reason", fmt_text(node, "reason"));
    line("address", fmt_text(node, "address"));
    line("version", fmt_text(node, "version"));
    if (!fmt_null(node, "cpus"))
        (void)printf("  %-10s %lld, memory %s\n", "cpus", (long long)fmt_i64(node, "cpus"),
                     fmt_bytes((uint64_t)fmt_i64(node, "memory_bytes"), memory));
    list_line("enforced", json_object_get(node, "fences"));
    list_line("jobs", json_object_get(node, "jobs"));
    line("reserved", fmt_text(node, "reservation"));
    json_array_foreach(json_object_get(node, "gpu_list"), i, gpu)
    {
        (void)printf("  GPU %-3lld %-9s %s  %lld%%  %lld MiB  %lld W  %lld C", (long long)fmt_i64(gpu, "index"),
                     fmt_text(gpu, "state"), fmt_text(node, "sku"), (long long)fmt_i64(gpu, "util"),
                     (long long)fmt_i64(gpu, "memory_used_mib"), (long long)fmt_i64(gpu, "power_watts"),
                     (long long)fmt_i64(gpu, "temperature_celsius"));
        gpu_jobs(json_object_get(gpu, "jobs"));
        (void)printf("%s%s\n", *fmt_text(gpu, "reason") ? "  " : "", fmt_text(gpu, "reason"));
    }
}

int cmd_node_show(struct command_args *args)
{
    char path[400];

    live_path(path, sizeof(path), "/nodes/%s", args->words[0]);
    return live_get(args, path, node_print);
}

/* One node or GPU after another. */
struct drain {
    const struct command_args *args;
    struct client *client;
    const char *method, *past;
    json_t *body;
    int failed, done, last;
};

static int drain_one(struct drain *drain, const char *node, const char *gpu)
{
    CLEANUP_ANSWER struct answer answer = { 0 };
    struct problem problem;
    char path[500];
    int r;

    live_path(path, sizeof(path), "/nodes/%s", node);
    if (gpu)
        (void)snprintf(path + strlen(path), sizeof(path) - strlen(path), "/gpus/%.20s", gpu);
    if (args_has(drain->args, "revoke"))
        (void)snprintf(path + strlen(path), sizeof(path) - strlen(path), "?revoke=1");
    r = client_call(drain->client, drain->method, path, drain->body, &answer, &problem);
    if (r) {
        drain->failed++;
        drain->last = problem_print(&problem);
        return 0;
    }
    drain->done++;
    if (!cli_json)
        (void)printf("%s %s%s%s\n", drain->past, node, gpu ? ":" : "", gpu ? gpu : "");
    else
        show_json(answer.json);
    return 0;
}

static int drain_node(void *arg, const char *node)
{
    struct drain *drain = arg;
    const char *gpus = args_value(drain->args, "gpus");
    char list[256];
    char *save = NULL;

    if (!gpus)
        return drain_one(drain, node, NULL);
    (void)snprintf(list, sizeof(list), "%s", gpus);
    for (char *gpu = strtok_r(list, ",", &save); gpu; gpu = strtok_r(NULL, ",", &save))
        (void)drain_one(drain, node, gpu);
    return 0;
}

static int drain_all(struct command_args *args, struct drain *drain)
{
    CLEANUP(client_free) struct client *client = NULL;
    struct error err = { 0 };
    int r = live_client(args, &client);

    drain->args = args;
    drain->client = client;
    for (int i = 0; r == 0 && i < args->word_count; i++) {
        r = hostlist_each(args->words[i], drain_node, drain, &err);
        if (r < 0)
            r = cli_fail(r, &err);
    }
    json_decref(drain->body);
    if (r)
        return r;
    return drain->failed == 0 ? CODE_DONE : drain->done ? CODE_PARTIAL : drain->last;
}

/* {"drain":true,"reason","deadline"}; NULL after words about what is wrong. */
static json_t *drain_body(const struct command_args *args)
{
    const char *reason = args_value(args, "reason"), *deadline = args_value(args, "deadline");
    json_t *body;
    usec_t span;

    if (!reason || !*reason) {
        (void)args_wrong(args, "--reason TEXT is needed: whoever finds the node drained wants to know why");
        return NULL;
    }
    if (deadline && duration_parse(deadline, strlen(deadline), &span) < 0) {
        (void)args_wrong(args, "--deadline: expected a time such as 2h, got '%.40s'", deadline);
        return NULL;
    }
    body = json_pack("{s:b, s:s}", "drain", 1, "reason", reason);
    if (deadline) {
        CLEANUP_BUF struct buf at = BUF_INIT(64);

        instant_put(&at, fmt_now() + span);
        (void)json_object_set_new(body, "deadline", json_string(at.data));
    }
    return body;
}

int cmd_node_drain(struct command_args *args)
{
    struct drain drain = { .method = "PATCH", .past = "Draining", .body = drain_body(args) };

    return drain.body ? drain_all(args, &drain) : CODE_USAGE;
}

int cmd_node_reboot(struct command_args *args)
{
    struct drain drain = { .method = "PATCH", .past = "Rebooting", .body = drain_body(args) };

    if (args_has(args, "gpus")) {
        json_decref(drain.body);
        return args_wrong(args, "--gpus: a node is started anew as a whole");
    }
    if (drain.body)
        (void)json_object_set_new(drain.body, "reboot", json_true());
    return drain.body ? drain_all(args, &drain) : CODE_USAGE;
}

int cmd_node_resume(struct command_args *args)
{
    struct drain drain = { .method = "PATCH", .past = "Resumed", .body = json_pack("{s:b}", "drain", 0) };

    return drain_all(args, &drain);
}

int cmd_node_lost(struct command_args *args)
{
    struct drain drain = { .method = "PATCH", .past = "Lost", .body = json_pack("{s:b}", "lost", 1) };

    return drain_all(args, &drain);
}

int cmd_node_forget(struct command_args *args)
{
    struct drain drain = { .method = "DELETE", .past = args_has(args, "revoke") ? "Revoked" : "Forgot" };

    return drain_all(args, &drain);
}

/* NODE:INDEX[,INDEX...]. */
static int gpu_all(struct command_args *args, struct drain *drain)
{
    CLEANUP(client_free) struct client *client = NULL;
    int r = live_client(args, &client);

    drain->args = args;
    drain->client = client;
    for (int i = 0; r == 0 && i < args->word_count; i++) {
        char *colon = strrchr(args->words[i], ':'), *save = NULL;

        if (!colon || !colon[1]) {
            r = args_wrong(args, "'%.60s': expected NODE:INDEX, such as gpu03:5", args->words[i]);
            break;
        }
        *colon = '\0';
        for (char *gpu = strtok_r(colon + 1, ",", &save); gpu; gpu = strtok_r(NULL, ",", &save))
            (void)drain_one(drain, args->words[i], gpu);
    }
    json_decref(drain->body);
    if (r)
        return r;
    return drain->failed == 0 ? CODE_DONE : drain->done ? CODE_PARTIAL : drain->last;
}

int cmd_gpu_drain(struct command_args *args)
{
    struct drain drain = { .method = "PATCH", .past = "Draining", .body = drain_body(args) };

    return drain.body ? gpu_all(args, &drain) : CODE_USAGE;
}

int cmd_gpu_resume(struct command_args *args)
{
    struct drain drain = { .method = "PATCH", .past = "Resumed", .body = json_pack("{s:b}", "drain", 0) };

    return gpu_all(args, &drain);
}

static void yaml_print(const struct command_args *args, json_t *json)
{
    (void)args;
    show_yaml(json, 0);
}

static void sched_print(const struct command_args *args, json_t *json)
{
    const char *key;
    json_t *value;

    (void)args;
    json_object_foreach(json, key, value)
    {
        char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);

        if (strcmp(key, "apiVersion") != 0 && strcmp(key, "kind") != 0 && strcmp(key, "policies") != 0)
            (void)printf("%-14s %s\n", key, text ? text : json_string_value(value));
        mem_free(text);
    }
}

int cmd_sched_diag(struct command_args *args)
{
    return live_get(args, "/scheduler", sched_print);
}

static int sched_patch(struct command_args *args, json_t *body, const char *words)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer answer = { 0 };
    struct problem problem;
    int r = live_client(args, &client);

    if (r == 0 && client_call(client, "PATCH", "/scheduler", body, &answer, &problem))
        r = problem_print(&problem);
    json_decref(body);
    if (r == 0 && !show_object(args, answer.json))
        (void)puts(words);
    return r;
}

int cmd_sched_pause(struct command_args *args)
{
    bool pause = strcmp(args->command->name, "pause") == 0;

    return sched_patch(args, json_pack("{s:b}", "paused", pause),
                       pause ? "Paused: what runs goes on, nothing starts" : "Resumed");
}

int cmd_sched_policy(struct command_args *args)
{
    return sched_patch(args, json_pack("{s:s}", "policy", args->words[0]), "Changed");
}

int cmd_sched_trace(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    struct job_ref_text ref;
    struct problem problem;
    char path[128];
    int r = live_client(args, &client);

    if (r)
        return r;
    if (client_whole_job(client, args->words[0], &ref, &problem))
        return problem_print(&problem);
    (void)snprintf(path, sizeof(path), "/scheduler/trace/%lld", (long long)ref.id);
    return live_get(args, path, yaml_print);
}

static void status_print(const struct command_args *args, json_t *version)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer sched = { 0 };
    struct problem problem;
    json_t *gpus = NULL, *item;
    size_t i;

    (void)printf("Cluster %s  muster %s\n", fmt_text(version, "cluster"), fmt_text(version, "version"));
    if (client_new(args, &client, &problem))
        return;
    (void)printf("  %-10s %s\n", "controller", client_url(client));
    if (client_call(client, "GET", "/scheduler", NULL, &sched, &problem) == 0)
        (void)printf("  %-10s %s%s, %lld running, %lld waiting, %lld agents\n", "scheduler",
                     fmt_text(sched.json, "policy"),
                     json_is_true(json_object_get(sched.json, "paused")) ? " (paused)" : "",
                     (long long)fmt_i64(sched.json, "running"), (long long)fmt_i64(sched.json, "waiting"),
                     (long long)fmt_i64(sched.json, "agents"));
    if (client_list(client, "/gpus", &gpus, &problem) == 0)
        json_array_foreach(gpus, i, item)(void)
            printf("  %-10s %lld %s: %lld used, %lld free, %lld down\n", i ? "" : "gpus",
                   (long long)fmt_i64(item, "total"), fmt_text(item, "sku"), (long long)fmt_i64(item, "used"),
                   (long long)fmt_i64(item, "free"), (long long)fmt_i64(item, "down"));
    json_decref(gpus);
}

static void leader_print(const struct command_args *args, json_t *version)
{
    CLEANUP(client_free) struct client *client = NULL;
    struct problem problem;

    if (client_new(args, &client, &problem) == 0)
        (void)printf("%s  cluster %s, muster %s\n", client_url(client), fmt_text(version, "cluster"),
                     fmt_text(version, "version"));
}

/* There is one controller; who answers decides. */
int cmd_cluster_leader(struct command_args *args)
{
    return live_get(args, "/version", leader_print);
}

int cmd_cluster_status(struct command_args *args)
{
    return live_get(args, "/version", status_print);
}
