/* SPDX-License-Identifier: Apache-2.0 */
/* live_util.c - what most live verbs begin with. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/fmt.h"
#include "cli/listing.h"
#include "cli/verbs/live.h"
#include "wire/text/decimal.h"

int64_t live_env(const char *name, int64_t standard)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread */
    const char *text = getenv(name);
    int64_t value;

    return text && decimal_parse_i64(text, strlen(text), &value) == 0 ? value : standard;
}

bool step_inside(void)
{
    return live_env("MUSTER_JOB_ID", 0) > 0 && live_env("MUSTER_NNODES", 0) > 0;
}

int live_client(const struct command_args *args, struct client **ret_client)
{
    struct problem problem;
    int r = client_new(args, ret_client, &problem);

    return r ? problem_print(&problem) : 0;
}

int live_get(const struct command_args *args, const char *path, void (*show)(const struct command_args *, json_t *))
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer answer = { 0 };
    struct problem problem;
    int r = live_client(args, &client);

    if (r)
        return r;
    r = client_call(client, "GET", path, NULL, &answer, &problem);
    if (r)
        return problem_print(&problem);
    if (!show_object(args, answer.json))
        show(args, answer.json);
    return CODE_DONE;
}

int live_list(const struct command_args *args, const char *path, json_t **ret_items)
{
    CLEANUP(client_free) struct client *client = NULL;
    struct problem problem;
    int r = live_client(args, &client);

    if (r)
        return r;
    r = client_list(client, path, ret_items, &problem);
    return r ? problem_print(&problem) : 0;
}

/* What the controller answers with nothing but "done" is told with the names it was done to. */
void names_show(const struct command_args *args, const char *kind, json_t *names)
{
    json_t *told = json_pack("{s:s, s:s, s:O}", "apiVersion", "v1", "kind", kind, "names", names);

    (void)show_object(args, told);
    json_decref(told);
}

int live_remove(const struct command_args *args, const char *format, const char *told)
{
    CLEANUP(client_free) struct client *client = NULL;
    json_t *names = json_array();
    struct problem problem;
    int r = live_client(args, &client), failed = 0, last = 0;

    for (int i = 0; r == 0 && i < args->word_count; i++) {
        CLEANUP_ANSWER struct answer answer = { 0 };
        char path[300];

        live_path(path, sizeof(path), format, args->words[i]);
        if (client_call(client, "DELETE", path, NULL, &answer, &problem)) {
            last = problem_print(&problem);
            failed++;
        } else {
            (void)json_array_append_new(names, json_string(args->words[i]));
            if (!cli_json)
                (void)printf("%s %s\n", told, args->words[i]);
        }
    }
    if (cli_json && json_array_size(names))
        names_show(args, "Removed", names);
    json_decref(names);
    return r ? r : failed == 0 ? CODE_DONE : failed == args->word_count ? last : CODE_PARTIAL;
}

int when_arg(const struct command_args *args, const char *name, usec_t *ret_at)
{
    const char *text = args_value(args, name);

    *ret_at = 0;
    if (text && !fmt_when(text, true, ret_at))
        return args_wrong(args, "--%s: expected 10m (ago), now or 2026-01-31T18:00, got '%.40s'", name, text);
    return 0;
}

void live_path(char *path, size_t size, const char *format, const char *text)
{
    char *quoted = client_quote(text);
    const char *hole = strstr(format, "%s");

    (void)snprintf(path, size, "%.*s%s%s", (int)(hole - format), format, quoted ? quoted : "", hole + 2);
    mem_free(quoted);
}
