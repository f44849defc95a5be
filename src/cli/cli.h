/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cli.h - what the verbs of the command line share: exit codes, errors, options.
 *
 * Standard output is data, standard error is talk. An error is "muster: error: WORDS [Code]" and lines "hint: ...";
 * with --json it is one RFC 9457 object on standard error.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    CODE_DONE,
    CODE_FAILED,
    CODE_USAGE,
    CODE_NOT_FOUND,
    CODE_DENIED,
    CODE_CONFLICT,
    CODE_REFUSED,
    CODE_UNREACHABLE,
    CODE_PARTIAL,
};

struct command_args;

enum { HINTS_MAX = 4, HINT_BYTES = 256, GIVEN_MAX = 1024 };

/* Errors are to be JSON. Set by cli_start() when --json or -o json is among the arguments before "--". */
extern bool cli_json;
void cli_start(int argc, char **argv);

/* An error as people and programs see it. */
struct problem {
    int exit;      /* CODE_* */
    int status;    /* of HTTP; 0 = it did not come from the controller */
    char code[48]; /* "Infeasible.NodeSize"; "" = none */
    char text[ERROR_TEXT_MAX];
    char hints[HINTS_MAX][HINT_BYTES];
    int hint_count;
};

int problem_set(struct problem *problem, int exit, const char *code, const char *words, ...)
    __attribute__((format(printf, 4, 5))); /* returns `exit` */
void problem_hint(struct problem *problem, const char *words, ...) __attribute__((format(printf, 2, 3)));
int problem_print(const struct problem *problem); /* returns its exit code */

/* "muster: error: TEXT"; the exit code that fits the errno. */
int cli_fail(int code, const struct error *err);
/* The same, with a hint. */
int cli_fail_hint(int code, const struct error *err, const char *hint);
int cli_exit_of(int code); /* of an errno */

/* argp in the way the verbs of sim and trace use it: "muster VERB" in messages, exit 2 on usage errors. */
struct argp;
int cli_parse(const struct argp *argp, int argc, char **argv, void *input);

/* One option of a verb. Help, completion and parsing come from the same table; a table ends with a NULL name. */
struct opt {
    const char *name;  /* long */
    int letter;        /* below 256, or 0 */
    const char *value; /* what it takes; NULL = nothing */
    const char *help;  /* NULL: not listed */
    const char *group; /* heading; NULL = the one before */
};

/* A verb of the live cluster. */
struct command {
    const char *name, *summary;
    const char *usage; /* what follows "muster NAME" in the first line of help */
    const char *about; /* further words of help; NULL */
    const struct opt *opts;
    bool stops;      /* options end at the first other word: what follows is a command */
    int least, most; /* how many other words; most -1: any */
    bool job;        /* takes the flags that describe a job */
    int (*run)(struct command_args *args);
    const char *complete;      /* what its words are: "job", "node", "vc", "file", NULL */
    const struct command *sub; /* verbs of its own, instead of run */
};

struct command_args {
    const struct command *command;
    const char *full; /* "muster node drain" */
    struct {
        const struct opt *opt;
        const char *value;
    } given[GIVEN_MAX]; /* in order */
    size_t given_count;
    char **words;
    int word_count;
    int dashes; /* how many words stood before "--"; -1 = there was none */
};

/* Parses, answers --help, runs. Returns the exit code. */
int command_run(const struct command *command, const char *full, int argc, char **argv);
void command_help(const struct command *command, const char *full);
const struct opt *command_more(const struct command *command); /* flags of a job, where it takes them; NULL */
/* The flag of that long name, or of that letter where name is NULL; NULL. */
const struct opt *command_opt(const struct command *command, const char *name, size_t length, int letter);
/* Slurm's tools write --job for --jobs: unique beginnings of long flags are taken. */
extern bool opts_abbreviate;
const struct command *command_find(const struct command *list, const char *name);

/* The last value given, or NULL; whether it was given at all. */
const char *args_value(const struct command_args *args, const char *name);
bool args_has(const struct command_args *args, const char *name);
/* A usage error, exit 2. */
int args_wrong(const struct command_args *args, const char *words, ...) __attribute__((format(printf, 2, 3)));

/* Options all live verbs have, and those of all listings. */
#define OPTS_COMMON                                                                                                    \
    { "json", 0, NULL, "JSON on standard output", "Common" }, { "url", 0, "URL", "controller; $MUSTER_URL", NULL },    \
        { "context", 0, "NAME", "cluster of the configuration file; $MUSTER_CONTEXT", NULL },                          \
        { "color", 0, "WHEN", "auto, always, never", NULL },                                                           \
    {                                                                                                                  \
        "help", 'h', NULL, "this text", NULL                                                                           \
    }
#define OPTS_LISTING                                                                                                   \
    { "output", 'o', "FORM", "table, wide, json, yaml, csv, name", "Listing" },                                        \
        { "no-header", 0, NULL, "without the line of headers", NULL },                                                 \
        { "columns", 0, "A,B", "only these, in this order", NULL },                                                    \
        { "sort", 0, "[-]COLUMN", "by this column", NULL },                                                            \
    {                                                                                                                  \
        "watch", 'w', "SECS", "again and again", NULL                                                                  \
    }
#define OPTS_END                                                                                                       \
    {                                                                                                                  \
        0                                                                                                              \
    }

/* All verbs of the live cluster, ended by one without a name. */
extern const struct command live_commands[];
