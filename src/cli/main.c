/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - muster: finds the command and hands it the rest of the line. */
#include <stdio.h>
#include <string.h>

#include "cli/cmd_gen.h"
#include "cli/cmd_trace.h"

/* A command is one word or two; its argv[0] is the whole of it, for messages. */
static const struct command {
    const char *verb, *noun; /* noun NULL: the command has words of its own */
    char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} commands[] = {
    { "sim", "gen", (char[]){ "muster sim gen" }, cmd_sim_gen, "make up a workload" },
    { "trace", NULL, (char[]){ "muster trace" }, cmd_trace,
      "import: published traces to the native form; stat: in numbers" },
};

enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void usage(FILE *out)
{
    fputs("Usage: muster COMMAND [OPTIONS]\n\n", out);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-7s%-10s%s\n", commands[i].verb, commands[i].noun ? commands[i].noun : "",
                commands[i].summary);
    fputs("\nmuster COMMAND --help tells more.\n", out);
}

int main(int argc, char **argv)
{
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        usage(stdout);
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        puts("muster " MUSTER_VERSION);
        return 0;
    }
    for (size_t i = 0; argc > 1 && i < COMMANDS; i++) {
        int words = commands[i].noun ? 2 : 1;

        if (strcmp(argv[1], commands[i].verb) != 0)
            continue;
        if (words == 2 && (argc < 3 || strcmp(argv[2], commands[i].noun) != 0))
            continue;
        argv[words] = commands[i].name;
        return commands[i].run(argc - words, argv + words);
    }
    if (argc > 1)
        fprintf(stderr, "muster: error: unknown command '%s'\n", argv[1]);
    usage(stderr);
    return 2;
}
