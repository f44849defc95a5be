/* SPDX-License-Identifier: Apache-2.0 */
/* opts.c - options of the live verbs, from tables: parsing, help, and words about what is wrong. Whole names only, so
 * that a new flag can never break somebody's abbreviation; under Slurm's names, their unique beginnings too. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/client/request.h"
#include "wire/job/job_request.h"
#include "wire/text/suggest.h"

const char *args_value(const struct command_args *args, const char *name)
{
    for (size_t i = args->given_count; i-- > 0;)
        if (strcmp(args->given[i].opt->name, name) == 0)
            return args->given[i].value ? args->given[i].value : "";
    return NULL;
}

bool args_has(const struct command_args *args, const char *name)
{
    return args_value(args, name) != NULL;
}

int args_wrong(const struct command_args *args, const char *words, ...)
{
    struct problem problem;
    char text[400];
    va_list list;

    va_start(list, words);
    (void)vsnprintf(text, sizeof(text), words, list);
    va_end(list);
    (void)problem_set(&problem, CODE_USAGE, "", "%s", text);
    problem_hint(&problem, "%s --help tells more", args->full);
    return problem_print(&problem);
}

static const struct opt *opt_in(const struct opt *opts, const char *name, size_t length, int letter)
{
    for (; opts && opts->name; opts++) {
        if (name && strlen(opts->name) == length && strncmp(opts->name, name, length) == 0)
            return opts;
        if (!name && opts->letter == letter)
            return opts;
    }
    return NULL;
}

/* The flags that describe a job are a table of their own, made at run time. */
const struct opt *command_more(const struct command *command)
{
    return command->job ? request_opts() : NULL;
}

bool opts_abbreviate;

/* The one flag whose name begins so; NULL: none does, or several. A verb's own flag goes before one of the same name.
 */
static const struct opt *opt_abbreviated(const struct command *command, const char *name, size_t length)
{
    const struct opt *tables[] = { command->opts, command_more(command) }, *found = NULL;

    for (size_t t = 0; t < 2; t++)
        for (const struct opt *o = tables[t]; o && o->name; o++) {
            if (strncmp(o->name, name, length) != 0)
                continue;
            if (found && strcmp(found->name, o->name) != 0)
                return NULL;
            found = found ? found : o;
        }
    return found;
}

const struct opt *command_opt(const struct command *command, const char *name, size_t length, int letter)
{
    const struct opt *opt = opt_in(command->opts, name, length, letter);

    opt = opt ? opt : opt_in(command_more(command), name, length, letter);
    return opt || !opts_abbreviate || !name || !length ? opt : opt_abbreviated(command, name, length);
}

static int opt_unknown(const struct command_args *args, const char *name, size_t length)
{
    const char *known[192], *near;
    size_t count = 0;
    char shown[SHOWN_MAX];

    for (const struct opt *o = args->command->opts; o && o->name && count < 192; o++)
        known[count++] = o->name;
    for (const struct opt *o = command_more(args->command); o && o->name && count < 192; o++)
        known[count++] = o->name;
    near = suggest_word(name, length, known, count);
    return args_wrong(args, "unknown flag '--%s'%s%s%s", suggest_shown(name, length, shown),
                      near ? "; did you mean '--" : "", near ? near : "", near ? "'?" : "");
}

static int give(struct command_args *args, const struct opt *opt, const char *value)
{
    if (args->given_count == GIVEN_MAX)
        return args_wrong(args, "more than %d flags", GIVEN_MAX);
    args->given[args->given_count].opt = opt;
    args->given[args->given_count++].value = value;
    return 0;
}

/* A long flag at argv[*at], with its value. */
static int long_take(struct command_args *args, int argc, char **argv, int *at)
{
    const char *name = argv[*at] + 2;
    size_t length = strcspn(name, "=");
    const struct opt *opt = command_opt(args->command, name, length, 0);

    if (!opt)
        return opt_unknown(args, name, length);
    if (!opt->value && name[length])
        return args_wrong(args, "--%s takes no value", opt->name);
    if (!opt->value)
        return give(args, opt, NULL);
    if (name[length])
        return give(args, opt, name + length + 1);
    if (job_flag_optional(opt->value)) /* may stand alone: the next word is not its value */
        return give(args, opt, "");
    if (*at + 1 >= argc)
        return args_wrong(args, "--%s needs a value: %s", opt->name, opt->value);
    return give(args, opt, argv[++*at]);
}

/* Letters at argv[*at]: those without a value may stand together. */
static int letters_take(struct command_args *args, int argc, char **argv, int *at)
{
    for (const char *c = argv[*at] + 1; *c; c++) {
        const struct opt *opt = command_opt(args->command, NULL, 0, (unsigned char)*c);
        int r;

        if (!opt)
            return args_wrong(args, "unknown flag '-%c'", *c);
        if (!opt->value) {
            r = give(args, opt, NULL);
            if (r)
                return r;
            continue;
        }
        if (c[1])
            return give(args, opt, c[1] == '=' ? c + 2 : c + 1);
        if (*at + 1 >= argc)
            return args_wrong(args, "-%c needs a value: %s", *c, opt->value);
        return give(args, opt, argv[++*at]);
    }
    return 0;
}

/* Words are gathered at the front of argv. */
static int opts_parse(struct command_args *args, int argc, char **argv)
{
    int words = 1, r = 0;

    args->dashes = -1;
    for (int i = 1; i < argc && r == 0; i++) {
        if (strcmp(argv[i], "--") == 0) {
            args->dashes = words - 1;
            while (++i < argc)
                argv[words++] = argv[i];
        } else if (argv[i][0] == '-' && argv[i][1] == '-') {
            r = long_take(args, argc, argv, &i);
        } else if (argv[i][0] == '-' && argv[i][1]) {
            r = letters_take(args, argc, argv, &i);
        } else {
            argv[words++] = argv[i];
            while (args->command->stops && ++i < argc)
                argv[words++] = argv[i];
        }
    }
    args->words = argv + 1;
    args->word_count = words - 1;
    return r;
}

static void opts_help(const struct opt *opts)
{
    for (; opts && opts->name; opts++) {
        char left[64];

        if (!opts->help)
            continue;
        if (opts->group)
            (void)printf("\n%s:\n", opts->group);
        (void)snprintf(left, sizeof(left), "%s%c%s --%s%s%s", opts->letter > 0 && opts->letter < 256 ? "-" : " ",
                       opts->letter > 0 && opts->letter < 256 ? opts->letter : ' ',
                       opts->letter > 0 && opts->letter < 256 ? "," : " ", opts->name, opts->value ? "=" : "",
                       opts->value ? opts->value : "");
        (void)printf("  %-28s %s\n", left, opts->help);
    }
}

void command_help(const struct command *command, const char *full)
{
    (void)printf("Usage: %s %s\n\n%s.\n", full, command->usage ? command->usage : "VERB [OPTION...]", command->summary);
    if (command->about)
        (void)printf("\n%s\n", command->about);
    if (command->sub) {
        (void)putchar('\n');
        for (const struct command *c = command->sub; c->name; c++)
            (void)printf("  %-10s %s\n", c->name, c->summary);
        (void)printf("\n%s VERB --help tells more.\n", full);
    }
    opts_help(command_more(command));
    opts_help(command->opts);
}

const struct command *command_find(const struct command *list, const char *name)
{
    for (; list && list->name; list++)
        if (strcmp(list->name, name) == 0)
            return list;
    return NULL;
}

static int sub_run(const struct command *command, const char *full, int argc, char **argv)
{
    const struct command *sub = argc > 1 ? command_find(command->sub, argv[1]) : NULL;
    struct command_args args = { .command = command, .full = full };
    const char *known[32], *near;
    size_t count = 0;
    char name[96];

    if (sub) {
        (void)snprintf(name, sizeof(name), "%s %s", full, sub->name);
        return command_run(sub, name, argc - 1, argv + 1);
    }
    for (const struct command *c = command->sub; c->name && count < 32; c++)
        known[count++] = c->name;
    if (argc < 2)
        return args_wrong(&args, "%s: which? one of its verbs is needed", full);
    near = suggest_word(argv[1], strlen(argv[1]), known, count);
    return args_wrong(&args, "no verb '%.40s'%s%s%s", argv[1], near ? "; did you mean '" : "", near ? near : "",
                      near ? "'?" : "");
}

/* Slurm's listings have another meaning for -h. */
static bool letter_is(const struct command *command, int letter, const char *name)
{
    const struct opt *opt = command->opts ? opt_in(command->opts, NULL, 0, letter) : NULL;

    return !opt || strcmp(opt->name, name) == 0;
}

int command_run(const struct command *command, const char *full, int argc, char **argv)
{
    static struct command_args args; /* large, and one at a time */
    static char called[96];          /* lives as long as they do */
    int r;

    (void)snprintf(called, sizeof(called), "%s", full);
    args.command = command;
    args.full = called;
    args.given_count = 0; /* what is behind it is not looked at, so it is not cleared either */
    args.word_count = 0;
    if (argc > 1 &&
        (strcmp(argv[1], "--help") == 0 || (strcmp(argv[1], "-h") == 0 && letter_is(command, 'h', "help")))) {
        command_help(command, full);
        return CODE_DONE;
    }
    if (command->sub && !(command->run && (argc < 2 || !command_find(command->sub, argv[1]))))
        return sub_run(command, full, argc, argv);
    r = opts_parse(&args, argc, argv);
    if (r)
        return r;
    if (args_has(&args, "help")) {
        command_help(command, full);
        return CODE_DONE;
    }
    if (args.word_count < command->least)
        return args_wrong(&args, "something is missing: %s %s", full, command->usage);
    if (command->most >= 0 && args.word_count > command->most)
        return args_wrong(&args, "'%.60s' is one word too many", args.words[command->most]);
    return command->run(&args);
}
