/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_login.c - muster login, whoami, token: who is asking. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/client/context.h"
#include "cli/fmt.h"
#include "cli/listing.h"
#include "cli/verbs/live.h"
#include "wire/text/decimal.h"
#include "wire/text/duration.h"

static void who_print(const struct command_args *args, json_t *who)
{
    (void)args;
    (void)printf("%s (%s%s%s, by %s)\n", fmt_text(who, "user"), fmt_text(who, "role"),
                 *fmt_text(who, "scope") ? ", scope " : "", fmt_text(who, "scope"), fmt_text(who, "via"));
}

int cmd_whoami(struct command_args *args)
{
    return live_get(args, "/whoami", who_print);
}

/* A token from --token, or from standard input so that it is not in the list of processes. */
static int token_read(const struct command_args *args, char *token, size_t size)
{
    const char *given = args_value(args, "token");

    if (given && strcmp(given, "-") != 0) {
        (void)snprintf(token, size, "%s", given);
        return 0;
    }
    if (isatty(STDIN_FILENO)) {
        char *typed = getpass("Token: ");

        (void)snprintf(token, size, "%s", typed ? typed : "");
    } else if (!fgets(token, (int)size, stdin)) {
        token[0] = '\0';
    }
    token[strcspn(token, "\r\n")] = '\0';
    return *token ? 0 : args_wrong(args, "no token came; make one with `muster token new` where you are known already");
}

/* A password from the terminal or standard input, changed for a token by the controller. */
static int password_change(const struct command_args *args, const char *user, char *token, size_t size)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer answer = { 0 };
    struct problem problem;
    char password[512] = "";
    json_t *body;
    int r;

    if (isatty(STDIN_FILENO)) {
        char *typed = getpass("Password: ");

        (void)snprintf(password, sizeof(password), "%s", typed ? typed : "");
    } else if (!fgets(password, sizeof(password), stdin)) {
        password[0] = '\0';
    }
    password[strcspn(password, "\r\n")] = '\0';
    if (!*password)
        return args_wrong(args, "no password came");
    body = json_pack("{s:s, s:s}", "user", user, "password", password);
    explicit_bzero(password, sizeof(password));
    r = live_client(args, &client);
    if (r == 0 && client_call(client, "POST", "/login", body, &answer, &problem))
        r = problem_print(&problem);
    json_decref(body);
    if (r == 0)
        (void)snprintf(token, size, "%s", fmt_text(answer.json, "token"));
    return r;
}

/* Whether what the controller says of a device login can be shown: no letters that move a terminal. */
static bool plain(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127)
            return false;
    return true;
}

/* Asks until somebody has said yes in a browser, or the time for it is over. */
static int device_wait(struct client *client, json_t *device, char *token, size_t size, struct problem *problem)
{
    int64_t interval = json_integer_value(json_object_get(device, "interval_seconds"));
    int64_t left = json_integer_value(json_object_get(device, "expires_seconds"));
    json_t *body = json_pack("{s:s}", "device_code", fmt_text(device, "device_code"));
    int r = 0;

    interval = interval < 1 ? 1 : interval > 60 ? 60 : interval;
    while (r == 0 && !*token && left > 0) {
        CLEANUP_ANSWER struct answer answer = { 0 };

        (void)sleep((unsigned)interval);
        left -= interval;
        r = client_call(client, "POST", "/login/oidc", body, &answer, problem);
        if (r == 0 && answer.status == 202)
            interval += strcmp(fmt_text(answer.json, "pending"), "slow_down") == 0 ? 5 : 0;
        else if (r == 0)
            (void)snprintf(token, size, "%s", fmt_text(answer.json, "token"));
    }
    json_decref(body);
    if (r == 0 && !*token)
        r = problem_set(problem, CODE_DENIED, "NotLoggedIn", "nobody said yes in time; try again");
    return r;
}

/* By the issuer that the cluster trusts: a code here, a browser anywhere. */
static int issuer_change(const struct command_args *args, char *token, size_t size)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer answer = { 0 };
    const char *url, *code, *whole;
    struct problem problem;
    json_t *body = json_pack("{s:b}", "device", 1);
    int r = live_client(args, &client);

    token[0] = '\0';
    if (r == 0 && client_call(client, "POST", "/login/oidc", body, &answer, &problem))
        r = problem_print(&problem);
    json_decref(body);
    if (r)
        return r;
    url = fmt_text(answer.json, "verification_uri");
    code = fmt_text(answer.json, "user_code");
    whole = fmt_text(answer.json, "verification_uri_complete");
    if (!plain(url) || !plain(code) || !plain(whole)) {
        (void)problem_set(&problem, CODE_FAILED, "", "the issuer's answer cannot be shown");
        return problem_print(&problem);
    }
    (void)fprintf(stderr, "Open %s in a browser and enter %s\n", url, code);
    if (*whole)
        (void)fprintf(stderr, "or open %s\n", whole);
    return device_wait(client, answer.json, token, size, &problem) ? problem_print(&problem) : 0;
}

/* Keeps URL and token under a name, after they have been tried. */
int cmd_login(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer who = { 0 };
    const char *name = args_value(args, "name") ? args_value(args, "name") : "default";
    const char *ca = args_value(args, "ca"), *user = args_value(args, "user");
    struct problem problem;
    struct error err = { 0 };
    CLEANUP(mem_free) char *ca_path = ca ? realpath(ca, NULL) : NULL;
    json_t *file = NULL, *one;
    char token[256];
    int r;

    if (ca && !ca_path)
        return args_wrong(args, "--ca: %s: %s", ca, strerror(errno));
    if ((user != NULL) + args_has(args, "token") + args_has(args, "oidc") > 1)
        return args_wrong(args, "give one of --user, with a password, --oidc, with a browser, or --token");
    (void)setenv("MUSTER_URL", args->words[0], 1);
    if (ca)
        (void)setenv("MUSTER_CACERT", ca, 1);
    if (user || args_has(args, "oidc"))
        (void)unsetenv("MUSTER_TOKEN");
    r = user                     ? password_change(args, user, token, sizeof(token))
        : args_has(args, "oidc") ? issuer_change(args, token, sizeof(token))
                                 : token_read(args, token, sizeof(token));
    if (r)
        return r;
    (void)setenv("MUSTER_TOKEN", token, 1);
    r = live_client(args, &client);
    if (r)
        return r;
    if (client_call(client, "GET", "/whoami", NULL, &who, &problem))
        return problem_print(&problem);
    r = context_file_read(&file, &err);
    if (r == 0) {
        one = json_pack("{s:s, s:s}", "url", args->words[0], "token", token);
        if (ca)
            (void)json_object_set_new(one, "ca", json_string(ca_path)); /* used from any folder */
        (void)json_object_set_new(json_object_get(file, "contexts"), name, one);
        (void)json_object_set_new(file, "current", json_string(name));
        r = context_file_write(file, &err);
    }
    json_decref(file);
    explicit_bzero(token, sizeof(token));
    if (r < 0)
        return cli_fail(r, &err);
    if (!show_object(args, who.json))
        (void)printf("Logged in to %s as %s (%s); context %s\n", args->words[0], fmt_text(who.json, "user"),
                     fmt_text(who.json, "role"), name);
    return CODE_DONE;
}

static const struct column token_columns[] = {
    { "ID", false, false, false, false },      { "USER", false, false, false, false },
    { "ROLE", false, false, false, false },    { "SCOPE", false, false, false, false },
    { "CREATED", false, false, false, false }, { "EXPIRES", false, false, false, false },
};

int cmd_token_ls(struct command_args *args)
{
    struct listing table;
    json_t *items = NULL, *item;
    size_t i;
    int r = live_list(args, "/tokens", &items);

    if (r)
        return r;
    listing_init(&table, token_columns, 6);
    json_array_foreach(items, i, item)
    {
        char text[FMT_MAX];

        listing_add(&table, fmt_text(item, "id"));
        listing_add(&table, fmt_text(item, "user"));
        listing_add(&table, fmt_text(item, "role"));
        listing_add(&table, fmt_text(item, "scope"));
        listing_add(&table, fmt_stamp(fmt_time(item, "created_time"), text));
        listing_add(&table, fmt_time(item, "expires_time") ? fmt_stamp(fmt_time(item, "expires_time"), text) : "never");
    }
    r = listing_show(&table, args, "TokenList", items);
    listing_done(&table);
    json_decref(items);
    return r;
}

/* The same node on a machine that was set up again: what it had before is worth nothing from then on. */
int cmd_node_rejoin(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer answer = { 0 };
    struct problem problem;
    char path[400];
    int r = live_client(args, &client);

    live_path(path, sizeof(path), "/nodes/%s", args->words[0]);
    (void)snprintf(path + strlen(path), sizeof(path) - strlen(path), "/rejoin");
    if (r == 0 && client_call(client, "POST", path, NULL, &answer, &problem))
        r = problem_print(&problem);
    if (r || show_object(args, answer.json))
        return r;
    (void)puts(fmt_text(answer.json, "token"));
    (void)fprintf(stderr, "on the node, within an hour: muster-agent join %s TOKEN --node %s\n",
                  strncmp(client_url(client), "unix:", 5) == 0 ? "https://CONTROLLER:7717" : client_url(client),
                  args->words[0]);
    return CODE_DONE;
}

int cmd_token_new(struct command_args *args)
{
    static const char *const texts[] = { "user", "role", "scope", "names" };
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer answer = { 0 };
    const char *expires = args_value(args, "expires"), *nodes = args_value(args, "nodes");
    struct problem problem;
    json_t *body = json_object();
    usec_t span;
    int r;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (args_value(args, texts[i]))
            (void)json_object_set_new(body, texts[i], json_string(args_value(args, texts[i])));
    if (args_has(args, "join"))
        (void)json_object_set_new(body, "join", json_true());
    if (nodes) {
        int64_t count;

        if (!args_has(args, "join") || decimal_parse_i64(nodes, strlen(nodes), &count) < 0) {
            json_decref(body);
            return args_wrong(args, "--nodes: expected a number, with --join, got '%.40s'", nodes);
        }
        (void)json_object_set_new(body, "nodes", json_integer(count));
    }
    if (expires) {
        if (duration_parse(expires, strlen(expires), &span) < 0) {
            json_decref(body);
            return args_wrong(args, "--expires: expected a time such as 30d, got '%.40s'", expires);
        }
        (void)json_object_set_new(body, "expires_seconds", json_integer(span / USEC_SEC));
    }
    r = live_client(args, &client);
    if (r == 0 && client_call(client, "POST", "/tokens", body, &answer, &problem))
        r = problem_print(&problem);
    json_decref(body);
    if (r || show_object(args, answer.json))
        return r;
    (void)puts(fmt_text(answer.json, "token"));
    if (args_has(args, "join"))
        /* A socket of this machine is no address for others. */
        (void)fprintf(stderr, "on the node: muster-agent join %s TOKEN\n",
                      strncmp(client_url(client), "unix:", 5) == 0 ? "https://CONTROLLER:7717" : client_url(client));
    else
        (void)fprintf(stderr, "it is shown this once; muster login URL keeps it\n");
    return CODE_DONE;
}

int cmd_token_rm(struct command_args *args)
{
    return live_remove(args, "/tokens/%s", "Removed token");
}
