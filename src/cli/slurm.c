/* SPDX-License-Identifier: Apache-2.0 */
/* slurm.c - sbatch, srun, salloc, squeue, scancel, sinfo, sacct and scontrol as names of muster: docs/slurm.md.
 *
 * Flags of jobs are the same table; the listings have Slurm's format strings. A flag that is not in the table is an
 * error, never ignored.
 */
#include "cli/slurm.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/fmt.h"
#include "cli/listing.h"
#include "cli/live.h"

enum { ARGS_MAX = 1024 };

static const struct opt squeue_opts[] = {
    { "noheader", 'h', NULL, "without the line of headers", "squeue" },
    { "format", 'o', "FORMAT", "%i %P %j %u %t %T %M %l %D %R %N %C %b %V %S %e %Q %A %F %K %r %a %Y", NULL },
    { "long", 'l', NULL, "with limits and whole states", NULL },
    { "start", 0, NULL, "those that wait, and when they are expected to start", NULL },
    { "user", 'u', "NAMES", "of these users", NULL },
    { "me", 0, NULL, "mine", NULL },
    { "jobs", 'j', "IDS", "these", NULL },
    { "states", 't', "STATES", "in these states; all", NULL },
    { "name", 'n', "NAME", "of this name", NULL },
    { "partition", 'p', "NAME", "of this virtual cluster", NULL },
    { "nodelist", 'w', "NODE", "on this node", NULL },
    { "all", 'a', NULL, "everybody's, as always", NULL },
    { "json", 0, NULL, "JSON", NULL },
    { "url", 0, "URL", NULL, NULL },
    { "context", 0, "NAME", NULL, NULL },
    { "help", 0, NULL, "this text", NULL },
    OPTS_END,
};
static const struct opt sinfo_opts[] = {
    { "noheader", 'h', NULL, "without the line of headers", "sinfo" },
    { "format", 'o', "FORMAT", "%P %a %l %D %t %T %N %G %c %m %F", NULL },
    { "summarize", 's', NULL, "a line a virtual cluster, with sums of nodes", NULL },
    { "Node", 'N', NULL, "a line a node", NULL },
    { "nodes", 'n', "NODE", "this node", NULL },
    { "json", 0, NULL, "JSON", NULL },
    { "url", 0, "URL", NULL, NULL },
    { "context", 0, "NAME", NULL, NULL },
    { "help", 0, NULL, "this text", NULL },
    OPTS_END,
};
static const struct opt sacct_opts[] = {
    { "noheader", 'n', NULL, "without the line of headers", "sacct" },
    { "format", 'o', "FIELDS", "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode,User,Submit,Start,End,Elapsed",
      NULL },
    { "parsable2", 'P', NULL, "with | between, nothing cut", NULL },
    { "parsable", 'p', NULL, "the same, and one at the end", NULL },
    { "allocations", 'X', NULL, "jobs only, as always", NULL },
    { "jobs", 'j', "IDS", "these", NULL },
    { "user", 'u', "NAME", "of this user", NULL },
    { "allusers", 'a', NULL, "everybody's", NULL },
    { "state", 's', "STATES", "that ended so", NULL },
    { "starttime", 'S', "WHEN", "ended from then on", NULL },
    { "endtime", 'E', "WHEN", "ended before", NULL },
    { "json", 0, NULL, "JSON", NULL },
    { "url", 0, "URL", NULL, NULL },
    { "context", 0, "NAME", NULL, NULL },
    { "help", 0, NULL, "this text", NULL },
    OPTS_END,
};

static const struct command slurm_lists[] = {
    { .name = "squeue",
      .summary = "Lists jobs that are not over",
      .usage = "[OPTION...]",
      .opts = squeue_opts,
      .run = slurm_squeue },
    { .name = "sinfo", .summary = "Lists nodes", .usage = "[OPTION...]", .opts = sinfo_opts, .run = slurm_sinfo },
    { .name = "sacct",
      .summary = "Lists finished jobs",
      .usage = "[OPTION...]",
      .opts = sacct_opts,
      .run = slurm_sacct },
    { 0 },
};

bool slurm_named(const char *argv0)
{
    static const char *const names[] = {
        "sbatch", "srun", "salloc", "squeue", "scancel", "sinfo", "sacct", "scontrol"
    };
    const char *name = strrchr(argv0, '/') ? strrchr(argv0, '/') + 1 : argv0;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static int run_as(const char *verb, const char *full, int argc, char **argv)
{
    return command_run(command_find(live_commands, verb), full, argc, argv);
}

/* Whether the next word is the value of this flag. */
static bool takes_value(const struct command *command, const char *word)
{
    const struct opt *tables[] = { command->opts, command_more(command) };

    if (word[0] != '-' || strchr(word, '='))
        return false;
    for (size_t t = 0; t < 2; t++)
        for (const struct opt *o = tables[t]; o && o->name; o++) {
            if (word[1] == '-' ? strcmp(o->name, word + 2) == 0 : o->letter == word[1] && !word[2])
                return o->value != NULL;
        }
    return false;
}

/* A task that fails ends the others here too; only the other way has a flag. NULL: the word is not needed. */
static char *kill_flag(char *word)
{
    if (strcmp(word, "-K") == 0 || strcmp(word, "-K1") == 0 || strcmp(word, "--kill-on-bad-exit") == 0 ||
        strcmp(word, "--kill-on-bad-exit=1") == 0)
        return NULL;
    if (strcmp(word, "-K0") == 0 || strcmp(word, "--kill-on-bad-exit=0") == 0)
        return (char *)(uintptr_t) "--no-kill";
    return word;
}

/* sbatch and srun give jobs Slurm's variables, unless told otherwise. */
static int run_compat(const char *verb, const char *full, int argc, char **argv)
{
    static char compat[] = "--compat=slurm";
    const struct command *command = command_find(live_commands, verb);
    char *more[ARGS_MAX + 2];
    int n = 0, i = 1;

    if (argc > ARGS_MAX)
        return CODE_USAGE;
    more[n++] = argv[0];
    more[n++] = compat;
    for (; i < argc && argv[i][0] == '-' && strcmp(argv[i], "--") != 0; i++) {
        char *word = kill_flag(argv[i]);

        if (word)
            more[n++] = word;
        if (takes_value(command, argv[i]) && i + 1 < argc)
            more[n++] = argv[++i];
    }
    for (; i < argc; i++) /* the script or the command, and what is its own */
        more[n++] = argv[i];
    more[n] = NULL;
    return command_run(command, full, n, more);
}

/* scancel: -n is a name, -i asks, the rest is ours. */
static int scancel(int argc, char **argv)
{
    char *more[ARGS_MAX + 1];
    int n = 0;

    for (int i = 0; i < argc && n < ARGS_MAX; i++) {
        char *word = argv[i];

        if (strcmp(word, "-n") == 0 || strcmp(word, "--jobname") == 0)
            word = (char *)(uintptr_t) "--name";
        else if (strcmp(word, "-p") == 0 || strcmp(word, "--partition") == 0)
            word = (char *)(uintptr_t) "--vc";
        else if (strcmp(word, "--me") == 0)
            word = (char *)(uintptr_t) "--mine";
        more[n++] = word;
    }
    more[n] = NULL;
    return run_as("cancel", "scancel", n, more);
}

static int not_here(const char *what)
{
    struct problem problem;

    (void)problem_set(&problem, CODE_USAGE, "", "scontrol %.60s is not supported", what);
    problem_hint(&problem,
                 "there are show job|node|nodes, hold, release, requeue, suspend, resume, update JobId=N, ping");
    return problem_print(&problem);
}

/* update JobId=N TimeLimit=2:00:00 Priority=high Partition=x Comment=y, as `muster set`. */
static int update(int argc, char **argv)
{
    static const struct {
        const char *theirs, *ours;
    } keys[] = { { "timelimit", "time" }, { "priority", "priority" }, { "partition", "vc" }, { "comment", "comment" } };
    static char words[16][256];
    char *more[20], *set = words[0];
    int n = 2;

    (void)snprintf(words[1], sizeof(words[1]), "set");
    more[0] = words[1];
    more[1] = NULL;
    for (int i = 0; i < argc && n < 18; i++) {
        char *equals = strchr(argv[i], '='), key[64];
        size_t k = 0;

        if (!equals)
            return not_here(argv[i]);
        (void)snprintf(key, sizeof(key), "%.*s", (int)(equals - argv[i]), argv[i]);
        if (strcasecmp(key, "jobid") == 0) {
            (void)snprintf(set, sizeof(words[0]), "%s", equals + 1);
            more[1] = set;
            continue;
        }
        while (k < 4 && strcasecmp(keys[k].theirs, key) != 0)
            k++;
        if (k == 4)
            return not_here(argv[i]);
        (void)snprintf(words[n], sizeof(words[0]), "%s=%s", keys[k].ours, equals + 1);
        more[n] = words[n];
        n++;
    }
    if (!more[1] || n == 2)
        return not_here("update without JobId and a key");
    more[n] = NULL;
    return run_as("set", "scontrol update", n, more);
}

static int scontrol(int argc, char **argv)
{
    static const char *const acts[] = { "hold", "release", "requeue", "suspend", "resume" };
    const struct command *node = command_find(live_commands, "node");

    if (argc < 2)
        return not_here("without a verb");
    for (size_t i = 0; i < 5; i++)
        if (strcmp(argv[1], acts[i]) == 0)
            return run_as(acts[i], "scontrol", argc - 1, argv + 1);
    if (strcmp(argv[1], "update") == 0)
        return update(argc - 2, argv + 2);
    if (strcmp(argv[1], "ping") == 0)
        return run_as("cluster", "scontrol ping", 2,
                      (char *[]){ (char *)(uintptr_t) "cluster", (char *)(uintptr_t) "status", NULL });
    if (strcmp(argv[1], "show") != 0 || argc < 3)
        return not_here(argv[1]);
    if (strcasecmp(argv[2], "job") == 0 && argc == 4)
        return run_as("show", "scontrol show job", 2, argv + 2);
    if (strcasecmp(argv[2], "node") == 0 && argc == 4)
        return command_run(command_find(node->sub, "show"), "scontrol show node", 2, argv + 2);
    if (strcasecmp(argv[2], "nodes") == 0 || strcasecmp(argv[2], "node") == 0)
        return run_as("nodes", "scontrol show nodes", 1, argv + 2);
    if (strncasecmp(argv[2], "lic", 3) == 0 && argc == 3)
        return run_as("licenses", "scontrol show licenses", 1, argv + 2);
    return not_here(argv[2]);
}

int slurm_main(int argc, char **argv)
{
    const char *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
    const struct command *list = command_find(slurm_lists, name);

    if (list)
        return command_run(list, name, argc, argv);
    if (strcmp(name, "sbatch") == 0)
        return run_compat("submit", "sbatch", argc, argv);
    if (strcmp(name, "srun") == 0)
        return run_compat("run", "srun", argc, argv);
    if (strcmp(name, "salloc") == 0)
        return run_as("shell", "salloc", argc, argv);
    if (strcmp(name, "scancel") == 0)
        return scancel(argc, argv);
    return scontrol(argc, argv);
}
