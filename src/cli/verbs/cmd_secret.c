/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_secret.c - muster secret: kept by the controller, put into the environment of jobs that ask, never shown. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/fmt.h"
#include "cli/listing.h"
#include "cli/verbs/live.h"

enum { SECRET_BYTES_MAX = 65536 };

int cmd_secret_ls(struct command_args *args)
{
    static const struct column columns[] = { { "SECRET", false, false, false, false } };
    struct listing table;
    json_t *items = NULL, *item;
    size_t i;
    int r = live_list(args, "/secrets", &items);

    if (r)
        return r;
    listing_init(&table, columns, 1);
    json_array_foreach(items, i, item) listing_add(&table, fmt_text(item, "name"));
    r = listing_show(&table, args, "SecretList", items);
    listing_done(&table);
    json_decref(items);
    return r;
}

/* From a person, unseen, or from standard input without the line break at its end; the caller's. */
static char *value_read(const char *name)
{
    char *value = mem_zalloc(SECRET_BYTES_MAX + 2, 1), prompt[96], *typed;
    size_t size;

    if (!value)
        return NULL;
    if (isatty(STDIN_FILENO)) {
        (void)snprintf(prompt, sizeof(prompt), "%.60s: ", name);
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread */
        typed = getpass(prompt);
        (void)snprintf(value, SECRET_BYTES_MAX, "%s", typed ? typed : "");
        return value;
    }
    size = fread(value, 1, SECRET_BYTES_MAX + 1, stdin);
    if (size && value[size - 1] == '\n')
        value[size - 1] = '\0';
    return value;
}

int cmd_secret_set(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer answer = { 0 };
    struct problem problem;
    char path[300], *value = value_read(args->words[0]);
    json_t *body;
    int r;

    if (!value)
        return CODE_FAILED;
    if (!*value || strlen(value) > SECRET_BYTES_MAX) {
        mem_free(value);
        return args_wrong(args, "the secret is read from standard input: from 1 to %d bytes", SECRET_BYTES_MAX);
    }
    body = json_pack("{s:s}", "value", value);
    explicit_bzero(value, SECRET_BYTES_MAX);
    mem_free(value);
    live_path(path, sizeof(path), "/secrets/%s", args->words[0]);
    r = live_client(args, &client);
    if (r == 0 && client_call(client, "PUT", path, body, &answer, &problem))
        r = problem_print(&problem);
    json_decref(body);
    if (r == 0 && cli_json) {
        body = json_pack("[s]", args->words[0]);
        names_show(args, "Kept", body);
        json_decref(body);
    } else if (r == 0) {
        (void)printf("Kept %s; ask for it with --secret %s\n", args->words[0], args->words[0]);
    }
    return r;
}

int cmd_secret_rm(struct command_args *args)
{
    return live_remove(args, "/secrets/%s", "Forgot");
}
