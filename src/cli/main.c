/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the verbs of muster. */
#include <stdio.h>
#include <string.h>

#include "cli/cells/cmd_cell.h"
#include "cli/cli.h"
#include "cli/sim/cmd_estimate.h"
#include "cli/sim/cmd_trace.h"
#include "cli/slurm/slurm.h"
#include "cli/verbs.h"
#include "cli/verbs/cmd_gpu.h"
#include "cli/verbs/live.h"
#include "wire/text/suggest.h"

static const struct verb verbs[] = {
    { "sim", "simulate schedulers on a trace: run, compare, replay, gen, policies", cmd_sim },
    { "cell", "virtual clusters as cells: replay, tree, ls, show", cmd_cell },
    { "estimate", "learn from finished jobs what new ones will need: train, predict, eval, show", cmd_estimate },
    { "gpu", "run CUDA programs under limits, beside one another; pause and move them", cmd_gpu },
    { "trace", "import and describe traces: import, stat", cmd_trace },
    { 0 },
};

static void usage(FILE *out, const char *name, const struct verb *list)
{
    fprintf(out, "Usage: %s VERB [OPTION...]\n\n", name);
    for (const struct verb *v = list; v->name; v++)
        fprintf(out, "  %-10s %s\n", v->name, v->summary);
    fprintf(out, "\n%s VERB --help tells more.\n", name);
}

int verb_dispatch(const char *name, const struct verb *list, int argc, char **argv)
{
    static char full[64];
    const char *words[32];
    const char *near;
    size_t count = 0;

    if (argc < 2) {
        usage(stderr, name, list);
        return CODE_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        usage(stdout, name, list);
        return CODE_DONE;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        puts("muster " MUSTER_VERSION);
        return CODE_DONE;
    }
    for (const struct verb *v = list; v->name; v++) {
        words[count++] = v->name;
        if (strcmp(argv[1], v->name) == 0) {
            /* Messages of the verb name it in full: "muster sim run: ...". */
            (void)snprintf(full, sizeof(full), "%s %s", name, v->name);
            argv[1] = full;
            return v->run(argc - 1, argv + 1);
        }
    }
    near = suggest_word(argv[1], strlen(argv[1]), words, count);
    fprintf(stderr, "%s: error: no verb '%s'%s%s%s\nhint: %s --help lists them\n", name, argv[1],
            near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "", name);
    return CODE_USAGE;
}

/* muster gpu drain|resume NODE:INDEX is of the cluster; the rest of `muster gpu` is of this machine. */
static const struct command *gpu_live(int argc, char **argv)
{
    const struct command *command =
        argc > 2 && strcmp(argv[1], "gpu") == 0 ? command_find(gpu_live_commands, argv[2]) : NULL;

    if (command && strcmp(command->name, "resume") == 0) {
        bool named = false;

        for (int i = 3; i < argc; i++)
            named = named || strchr(argv[i], ':');
        if (!named)
            return NULL; /* a process of this machine */
    }
    return command;
}

static void help_all(FILE *out)
{
    fprintf(out, "Usage: muster VERB [OPTION...]\n\nThe cluster:\n");
    for (const struct command *c = live_commands; c->name; c++)
        if (strcmp(c->name, "q") != 0)
            fprintf(out, "  %-10s %s\n", c->name, c->summary);
    fprintf(out, "\nWithout a cluster:\n");
    for (const struct verb *v = verbs; v->name; v++)
        fprintf(out, "  %-10s %s\n", v->name, v->summary);
    fprintf(out, "\nmuster VERB --help tells more. No cluster yet? musterd --dev --fake 4x8:H100 is one.\n");
}

static int verb_unknown(const char *name)
{
    const char *words[96], *near;
    struct problem problem;
    size_t count = 0;

    for (const struct command *c = live_commands; c->name && count < 96; c++)
        words[count++] = c->name;
    for (const struct verb *v = verbs; v->name && count < 96; v++)
        words[count++] = v->name;
    if (name[0] == '-') {
        (void)problem_set(&problem, CODE_USAGE, "", "'%.60s' comes before the verb", name);
        problem_hint(&problem, "muster VERB %.60s: flags follow the verb they belong to", name);
        return problem_print(&problem);
    }
    near = NULL;
    for (size_t i = 0; i < count && name[0] && name[1] && !near; i++)
        if (strncmp(words[i], name, strlen(name)) == 0)
            near = words[i]; /* its beginning: whoever stops in the middle of a word means that word */
    if (!near)
        near = suggest_word(name, strlen(name), words, count);
    (void)problem_set(&problem, CODE_USAGE, "", "no verb '%.60s'%s%s%s", name, near ? "; did you mean '" : "",
                      near ? near : "", near ? "'?" : "");
    problem_hint(&problem, "muster --help lists them");
    return problem_print(&problem);
}

int main(int argc, char **argv)
{
    const struct command *command;
    char full[96];

    cli_start(argc, argv);
    if (slurm_named(argv[0]))
        return slurm_main(argc, argv);
    if (argc < 2) {
        help_all(stderr);
        return CODE_USAGE;
    }
    if (strcmp(argv[1], "help") == 0 && argc > 2) { /* muster help VERB is muster VERB --help */
        static char flag[] = "--help";

        memmove(&argv[1], &argv[2], (size_t)(argc - 2) * sizeof(argv[0]));
        argv[argc - 1] = flag;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        help_all(stdout);
        return CODE_DONE;
    }
    if (strcmp(argv[1], "man-page") == 0)
        return cmd_man(argc - 1, argv + 1);
    command = gpu_live(argc, argv);
    if (command) {
        (void)snprintf(full, sizeof(full), "muster gpu %s", command->name);
        return command_run(command, full, argc - 2, argv + 2);
    }
    command = command_find(live_commands, argv[1]);
    if (command) {
        (void)snprintf(full, sizeof(full), "muster %s", command->name);
        return command_run(command, full, argc - 1, argv + 1);
    }
    for (const struct verb *v = verbs; v->name; v++)
        if (strcmp(v->name, argv[1]) == 0)
            return verb_dispatch("muster", verbs, argc, argv);
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
        return verb_dispatch("muster", verbs, argc, argv);
    return verb_unknown(argv[1]);
}
