/* SPDX-License-Identifier: Apache-2.0 */
/* cli.c - see cli.h. */
#include "cli/cli.h"
#include "wire/text/json_quick.h"

#include <argp.h>
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/alloc.h"
#include "cli/listing.h"

bool cli_json;

void cli_start(int argc, char **argv)
{
    const void *random = (const void *)getauxval(AT_RANDOM); /* the kernel's gift to every program, at any address */
    size_t seed = 0;

    if (random)
        memcpy(&seed, random, sizeof(seed));
    json_object_seed(random ? seed | 1 : 0); /* by itself jansson opens a file for it */
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        bool long_form = strcmp(argv[i], "--output=json") == 0 || strcmp(argv[i], "-ojson") == 0;

        if (strcmp(argv[i], "--json") == 0 || long_form)
            cli_json = true;
        if (strcmp(argv[i], "-o") == 0 && i + 1 < argc && strcmp(argv[i + 1], "json") == 0)
            cli_json = true;
    }
}

int problem_set(struct problem *problem, int exit, const char *code, const char *words, ...)
{
    va_list args;

    *problem = (struct problem){ .exit = exit };
    (void)snprintf(problem->code, sizeof(problem->code), "%s", code);
    va_start(args, words);
    (void)vsnprintf(problem->text, sizeof(problem->text), words, args);
    va_end(args);
    return exit;
}

void problem_hint(struct problem *problem, const char *words, ...)
{
    va_list args;

    if (problem->hint_count == HINTS_MAX)
        return;
    va_start(args, words);
    (void)vsnprintf(problem->hints[problem->hint_count++], HINT_BYTES, words, args);
    va_end(args);
}

/* What a class of failures is called: RFC 9457's title. */
static const char *title_of(int exit)
{
    static const char *const titles[] = {
        [CODE_DONE] = "Done",           [CODE_FAILED] = "Failed",           [CODE_USAGE] = "Bad request",
        [CODE_NOT_FOUND] = "Not found", [CODE_DENIED] = "Not permitted",    [CODE_CONFLICT] = "Conflict",
        [CODE_REFUSED] = "Refused",     [CODE_UNREACHABLE] = "Unreachable", [CODE_PARTIAL] = "Partly done",
    };

    return exit >= 0 && exit <= CODE_PARTIAL ? titles[exit] : "Failed";
}

static void problem_json(const struct problem *problem)
{
    json_t *hints = json_array();
    json_t *json;
    char *text;

    for (int i = 0; i < problem->hint_count; i++)
        (void)json_array_append_new(hints, json_string(problem->hints[i]));
    json = json_pack("{s:s, s:s, s:o?, s:s, s:o?, s:o, s:[], s:i}", "type", "about:blank", "title",
                     title_of(problem->exit), "status", problem->status ? json_integer(problem->status) : NULL,
                     "detail", problem->text, "code", problem->code[0] ? json_string(problem->code) : NULL, "hints",
                     hints, "errors", "exit", problem->exit);
    text = json ? json_text(json, NULL) : NULL;
    (void)fprintf(stderr, "%s\n", text ? text : "{\"type\":\"about:blank\",\"title\":\"Failed\"}");
    free(text);
    json_decref(json);
}

/* Words that may quote what somebody else has named something; lines stay lines. */
static void harmless_put(const char *text)
{
    CLEANUP(mem_free) char *copy = mem_strdup(text);

    for (char *line = copy, *next; line; line = next) {
        char *end = strchr(line, '\n'), *safe;

        next = end ? end + 1 : NULL;
        if (end)
            *end = '\0';
        safe = text_harmless(line);
        (void)fprintf(stderr, "%s%s", safe ? safe : "", end ? "\n" : "");
        mem_free(safe);
    }
}

int problem_print(const struct problem *problem)
{
    if (cli_json) {
        problem_json(problem);
        return problem->exit;
    }
    (void)fputs("muster: error: ", stderr);
    harmless_put(problem->text);
    if (problem->code[0])
        (void)fprintf(stderr, " [%s]", problem->code);
    (void)fputc('\n', stderr);
    for (int i = 0; i < problem->hint_count; i++) {
        (void)fputs("hint: ", stderr);
        harmless_put(problem->hints[i]);
        (void)fputc('\n', stderr);
    }
    return problem->exit;
}

int cli_exit_of(int code)
{
    switch (code) {
    case -EINVAL:
    case -EBADMSG:
    case -E2BIG:
    case -EISDIR:
        return CODE_USAGE;
    case -ENOENT:
        return CODE_NOT_FOUND;
    case -ERANGE:
        return CODE_REFUSED;
    default:
        return CODE_FAILED;
    }
}

int cli_fail_hint(int code, const struct error *err, const char *hint)
{
    struct problem problem;

    (void)problem_set(&problem, cli_exit_of(code), "", "%s", err->text);
    if (hint)
        problem_hint(&problem, "%s", hint);
    return problem_print(&problem);
}

int cli_fail(int code, const struct error *err)
{
    return cli_fail_hint(code, err, NULL);
}

/* argp ends the program where a flag is wrong, in its own style. What it said meanwhile is told as other errors are. */
static struct {
    FILE *real, *held;
    char *text;
    size_t size;
} talk;

static void talk_flush(void)
{
    struct problem problem;
    char *line, *colon;

    if (!talk.held)
        return;
    stderr = talk.real;
    (void)fclose(talk.held);
    talk.held = NULL;
    line = talk.text ? talk.text : NULL;
    if (line && *line) {
        line[strcspn(line, "\n")] = '\0';
        colon = strstr(line, ": ");
        (void)problem_set(&problem, CODE_USAGE, "", "%s", colon ? colon + 2 : line);
        problem_hint(&problem, "%.*s --help tells more", colon ? (int)(colon - line) : 6, colon ? line : "muster");
        (void)problem_print(&problem);
    }
    free(talk.text);
    talk.text = NULL;
}

int cli_parse(const struct argp *argp, int argc, char **argv, void *input)
{
    int r;

    argp_err_exit_status = CODE_USAGE;
    talk.real = stderr;
    talk.held = open_memstream(&talk.text, &talk.size);
    if (talk.held) {
        stderr = talk.held;
        (void)atexit(talk_flush);
    }
    r = argp_parse(argp, argc, argv, 0, NULL, input);
    talk_flush();
    return r ? CODE_USAGE : CODE_DONE;
}
