/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_man.c - muster man-page VERB: the manual page of a live verb, in scdoc, from the table that --help shows. The
 * build runs it; page and help cannot differ. */
#include <stdio.h>
#include <string.h>

#include "cli/verbs/live.h"

static void text(const char *words)
{
    for (; *words; words++) {
        if (strchr("*_\\~", *words))
            (void)putchar('\\');
        (void)putchar(*words);
    }
}

static void synopsis(const char *full, const char *usage)
{
    (void)printf("*%s* ", full);
    text(usage ? usage : "VERB [OPTION...]");
    (void)puts("\n");
}

static void options(const struct opt *opts)
{
    for (; opts && opts->name; opts++) {
        if (!opts->help)
            continue;
        if (opts->group)
            (void)printf("## %s\n\n", opts->group);
        if (opts->letter > 0 && opts->letter < 256)
            (void)printf("*-%c*, ", opts->letter);
        (void)printf("*--%s*", opts->name);
        if (opts->value) {
            (void)putchar('=');
            text(opts->value);
        }
        (void)fputs("\n\t", stdout);
        text(opts->help);
        (void)puts("\n");
    }
}

static void page(const struct command *command)
{
    char full[64];

    (void)snprintf(full, sizeof(full), "muster %s", command->name);
    (void)printf("muster-%s(1)\n\n# NAME\n\nmuster-%s - ", command->name, command->name);
    text(command->summary);
    (void)puts("\n\n# SYNOPSIS\n");
    if (!command->sub || command->run)
        synopsis(full, command->usage);
    for (const struct command *c = command->sub; c && c->name; c++) {
        char name[96];

        (void)snprintf(name, sizeof(name), "muster %s %s", command->name, c->name);
        synopsis(name, c->usage);
    }
    (void)puts("# DESCRIPTION\n");
    text(command->summary);
    (void)puts(".\n");
    if (command->about) {
        text(command->about);
        (void)puts("\n");
    }
    for (const struct command *c = command->sub; c && c->name; c++) {
        (void)printf("*%s*\n\t", c->name);
        text(c->summary);
        (void)puts(".\n");
    }
    (void)puts("# OPTIONS\n");
    options(command_more(command));
    options(command->opts);
    for (const struct command *c = command->sub; c && c->name; c++) {
        (void)printf("# OPTIONS OF %s\n\n", c->name);
        options(c->opts);
    }
    (void)puts("# EXIT STATUS\n\n0 done, 1 failed, 2 usage, 3 no such thing, 4 not permitted, 5 wrong state, 6 "
               "refused, 7 no answer from\n"
               "the controller, 8 done in part. *run*, *wait*, *exec* and *submit -W* exit as the job did; see "
               "*muster*(1).\n");
    (void)puts("# ENVIRONMENT\n\n*MUSTER\\_URL*, *MUSTER\\_TOKEN*, *MUSTER\\_CONTEXT*, *MUSTER\\_VC*, "
               "*MUSTER\\_CACERT*; see *muster*(1).\n");
    (void)puts("# SEE ALSO\n\n*muster*(1), *muster-job*(5), *muster-reasons*(7)");
}

int cmd_man(int argc, char **argv)
{
    const struct command *command = argc == 2 ? command_find(live_commands, argv[1]) : NULL;

    if (!command) {
        (void)fprintf(stderr, "usage: muster man-page VERB\n");
        return CODE_USAGE;
    }
    page(command);
    return CODE_DONE;
}
