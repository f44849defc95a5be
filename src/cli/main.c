/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the verbs of muster. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cmd_cell.h"
#include "cli/cmd_estimate.h"
#include "cli/cmd_gpu.h"
#include "cli/cmd_trace.h"
#include "cli/verbs.h"
#include "wire/suggest.h"

static const struct verb verbs[] = {
    { "sim", "simulate schedulers on a trace: run, compare, gen, policies", cmd_sim },
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

int main(int argc, char **argv)
{
    return verb_dispatch("muster", verbs, argc, argv);
}
