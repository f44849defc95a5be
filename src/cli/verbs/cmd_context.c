/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_context.c - muster context, logout: the controllers that are known, and the tokens kept for them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/client/context.h"
#include "cli/fmt.h"
#include "cli/listing.h"
#include "cli/verbs/live.h"

static const struct column context_columns[] = {
    { "CURRENT", false, false, false, false },
    { "NAME", false, false, false, false },
    { "URL", false, false, false, true },
    { "TOKEN", false, false, false, false },
};

static int contexts_show(const struct command_args *args, json_t *file)
{
    const char *name, *current = json_string_value(json_object_get(file, "current"));
    json_t *one, *items = json_array();
    struct listing table;
    int r;

    listing_init(&table, context_columns, 4);
    table.names = 1;
    json_object_foreach(json_object_get(file, "contexts"), name, one)
    {
        bool now = current && strcmp(name, current) == 0;

        listing_add(&table, now ? "*" : " ");
        listing_add(&table, name);
        listing_add(&table, fmt_text(one, "url"));
        listing_add(&table, *fmt_text(one, "token") ? "yes" : "no");
        (void)json_array_append_new(
            items, json_pack("{s:s, s:s, s:b}", "name", name, "url", fmt_text(one, "url"), "current", now));
    }
    r = listing_show(&table, args, "ContextList", items);
    listing_done(&table);
    json_decref(items);
    return r;
}

/* The context of that name; NULL, the problem is printed. */
static json_t *context_get(json_t *file, const char *name, int *ret_code)
{
    json_t *one = json_object_get(json_object_get(file, "contexts"), name);
    struct problem problem;

    if (one)
        return one;
    (void)problem_set(&problem, CODE_NOT_FOUND, "NotFound", "no context '%.60s'", name);
    problem_hint(&problem, "muster context lists them; muster login URL --name %.60s makes it", name);
    *ret_code = problem_print(&problem);
    return NULL;
}

static int contexts_write(json_t *file)
{
    struct error err = { 0 };
    int r = context_file_write(file, &err);

    return r < 0 ? cli_fail(r, &err) : CODE_DONE;
}

/* Lists contexts, or makes one the current. */
int cmd_context(struct command_args *args)
{
    struct error err = { 0 };
    json_t *file = NULL;
    int r = context_file_read(&file, &err);

    if (r < 0)
        return cli_fail(r, &err);
    if (args->word_count && context_get(file, args->words[0], &r)) {
        (void)json_object_set_new(file, "current", json_string(args->words[0]));
        r = contexts_write(file);
    }
    if (r == 0 && (!args->word_count || cli_json))
        r = contexts_show(args, file);
    json_decref(file);
    return r;
}

/* All of them or none: a name that is not there is most likely a slip. */
int cmd_context_rm(struct command_args *args)
{
    struct error err = { 0 };
    json_t *file = NULL, *contexts;
    int r = context_file_read(&file, &err);
    bool current = false;

    if (r < 0)
        return cli_fail(r, &err);
    contexts = json_object_get(file, "contexts");
    for (int i = 0; i < args->word_count && context_get(file, args->words[i], &r); i++)
        current |= strcmp(args->words[i], fmt_text(file, "current")) == 0;
    for (int i = 0; r == 0 && i < args->word_count; i++)
        (void)json_object_del(contexts, args->words[i]);
    if (r == 0 && current)
        (void)json_object_del(file, "current");
    if (r == 0)
        r = contexts_write(file);
    if (r == 0 && cli_json) {
        r = contexts_show(args, file);
    } else if (r == 0) {
        for (int i = 0; i < args->word_count; i++)
            (void)printf("Removed context %s\n", args->words[i]);
        (void)fflush(stdout);
        if (current && json_object_size(contexts))
            (void)fprintf(stderr, "none is current now; muster context NAME chooses one\n");
    }
    json_decref(file);
    return r;
}

/* Ends the token at the controller. One that is over already has ended. */
static int token_revoke(const struct command_args *args, json_t *one)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer who = { 0 }, answer = { 0 };
    struct problem problem;
    char path[300];
    int r;

    (void)setenv("MUSTER_URL", fmt_text(one, "url"), 1);
    (void)setenv("MUSTER_TOKEN", fmt_text(one, "token"), 1);
    if (*fmt_text(one, "ca"))
        (void)setenv("MUSTER_CACERT", fmt_text(one, "ca"), 1);
    r = live_client(args, &client);
    if (r)
        return r;
    r = client_call(client, "GET", "/whoami", NULL, &who, &problem);
    if (r == CODE_DENIED)
        return 0;
    if (r == 0 && *fmt_text(who.json, "token")) {
        live_path(path, sizeof(path), "/tokens/%s", fmt_text(who.json, "token"));
        r = client_call(client, "DELETE", path, NULL, &answer, &problem);
    }
    if (r == 0)
        return 0;
    problem_hint(&problem, "muster logout without --revoke forgets it here only");
    return problem_print(&problem);
}

/* Which one is meant: by its name, or the one that other verbs use. NULL, the problem is printed. */
static const char *context_meant(const struct command_args *args, json_t *file, int *ret_code)
{
    const char *name = args->word_count ? args->words[0] : args_value(args, "context");
    struct problem problem;

    if (!name)
        name = getenv("MUSTER_CONTEXT");
    if (!name || !*name)
        name = json_string_value(json_object_get(file, "current"));
    if (name)
        return name;
    (void)problem_set(&problem, CODE_NOT_FOUND, "NotFound", "no context is current: there is nothing to forget");
    problem_hint(&problem, "muster context lists them; muster logout NAME");
    *ret_code = problem_print(&problem);
    return NULL;
}

static void logout_tell(const char *name, json_t *one, bool had, bool revoked)
{
    json_t *told;

    if (cli_json) {
        told = json_pack("{s:s, s:s, s:s, s:s, s:b}", "apiVersion", "v1", "kind", "Logout", "name", name, "url",
                         fmt_text(one, "url"), "revoked", revoked);
        show_json(told);
        json_decref(told);
    } else if (!had) {
        (void)printf("Not logged in to %s; context %s has no token\n", fmt_text(one, "url"), name);
    } else {
        (void)printf("Logged out of %s; context %s has no token any more\n", fmt_text(one, "url"), name);
        (void)fflush(stdout); /* in this order */
        if (!revoked)
            (void)fprintf(stderr,
                          "it is forgotten here, and good for whoever has it elsewhere; --revoke ends it too\n");
    }
}

/* Forgets the token of a context. */
int cmd_logout(struct command_args *args)
{
    struct error err = { 0 };
    json_t *file = NULL, *one = NULL;
    const char *name;
    bool had, revoke = args_has(args, "revoke");
    int r;

    if (args_has(args, "url")) /* a token is for nobody but its controller */
        return args_wrong(args, "it is a context's token that is forgotten; name it");
    r = context_file_read(&file, &err);
    if (r < 0)
        return cli_fail(r, &err);
    name = context_meant(args, file, &r);
    if (name)
        one = context_get(file, name, &r);
    had = one && *fmt_text(one, "token");
    if (had && revoke)
        r = token_revoke(args, one);
    if (r == 0 && had) {
        (void)json_object_del(one, "token");
        r = contexts_write(file);
    }
    if (r == 0)
        logout_tell(name, one, had, had && revoke);
    json_decref(file);
    return r;
}
