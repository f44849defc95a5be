/* SPDX-License-Identifier: Apache-2.0 */
/* slurm.c - sbatch, srun, salloc, squeue, scancel, sinfo, sacct, scontrol, sprio, sshare and sstat as names of muster:
 * docs/slurm.md.
 *
 * Flags of jobs are the same table; the listings have Slurm's format strings. As in Slurm, a flag may be written by the
 * beginning of its name. A flag that is not in the table is an error; one that has no effect says so (job_flags.c).
 */
#include "cli/slurm/slurm.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/fmt.h"
#include "cli/listing.h"
#include "cli/verbs/live.h"
#include "wire/job/job_request.h"

enum { ARGS_MAX = 1024 };

/* Those with one cluster and exact numbers mean the same with and without the flags that are not listed. */
#define OPTS_SLURM                                                                                                     \
    { "version", 'V', NULL, "print the version", NULL }, { "verbose", 'v', NULL, NULL, NULL },                         \
        { "clusters", 'M', "NAMES", NULL, NULL }, { "noconvert", 0, NULL, NULL, NULL },                                \
        { "federation", 0, NULL, NULL, NULL }, { "local", 0, NULL, NULL, NULL }, { "url", 0, "URL", NULL, NULL },      \
        { "context", 0, "NAME", NULL, NULL },                                                                          \
    {                                                                                                                  \
        "help", 0, NULL, "this text", NULL                                                                             \
    }

static const struct opt squeue_opts[] = {
    { "noheader", 'h', NULL, "without the line of headers", "squeue" },
    { "format", 'o', "FORMAT", "%i %P %j %u %t %T %M %l %L %D %R %N %C %b %V %S %e %Q %A %F %K %r %a and others",
      NULL },
    { "Format", 'O', "FIELDS", "the same by names: JobID,Name:40,StateCompact", NULL },
    { "sort", 'S', "LETTERS", "by these letters of --format, each with - for the largest first", NULL },
    { "only-job-state", 0, NULL, "numbers and states alone", NULL },
    { "account", 'A', "NAME", "of this account", NULL },
    { "array", 'r', NULL, NULL, NULL },
    { "hide", 0, NULL, NULL, NULL },
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
    OPTS_SLURM,
    OPTS_END,
};
static const struct opt sinfo_opts[] = {
    { "noheader", 'h', NULL, "without the line of headers", "sinfo" },
    { "format", 'o', "FORMAT", "%P %R %a %l %D %t %T %N %n %G %c %m %F %A %C %E and others", NULL },
    { "partition", 'p', "NAMES", "of these virtual clusters", NULL },
    { "states", 't', "STATES", "in these states: idle,mixed,allocated,drained,draining,down", NULL },
    { "list-reasons", 'R', NULL, "nodes that are drained, and why", NULL },
    { "long", 'l', NULL, "with more columns", NULL },
    { "exact", 'e', NULL, NULL, NULL },
    { "all", 'a', NULL, NULL, NULL },
    { "responding", 'r', NULL, NULL, NULL },
    { "hide", 0, NULL, NULL, NULL },
    { "summarize", 's', NULL, "a line a virtual cluster, with sums of nodes", NULL },
    { "Node", 'N', NULL, "a line a node", NULL },
    { "nodes", 'n', "NODES", "these nodes", NULL },
    { "json", 0, NULL, "JSON", NULL },
    OPTS_SLURM,
    OPTS_END,
};
static const struct opt sacct_opts[] = {
    { "noheader", 'n', NULL, "without the line of headers", "sacct" },
    { "format", 'o', "FIELDS", "JobID,JobName,Partition,State,ExitCode,NodeList,Elapsed and others (--helpformat)",
      NULL },
    { "brief", 'b', NULL, "JobID,State,ExitCode", NULL },
    { "helpformat", 'e', NULL, "the names of all fields", NULL },
    { "delimiter", 0, "TEXT", "instead of |", NULL },
    { "name", 0, "NAME", "of this name", NULL },
    { "partition", 'r', "NAME", "of this virtual cluster", NULL },
    { "accounts", 'A', "NAME", "of this account", NULL },
    { "nodelist", 'N', "NODE", "on this node", NULL },
    { "duplicates", 'D', NULL, NULL, NULL },
    { "allclusters", 'L', NULL, NULL, NULL },
    { "array", 0, NULL, NULL, NULL },
    { "units", 0, "UNIT", NULL, NULL },
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
    OPTS_SLURM,
    OPTS_END,
};

static const struct opt sprio_opts[] = {
    { "noheader", 'h', NULL, "without the line of headers", "sprio" },
    { "format", 'o', "FORMAT", "%i %r %u %Y %S", NULL },
    { "jobs", 'j', "IDS", "these", NULL },
    { "user", 'u', "NAME", "of this user", NULL },
    { "long", 'l', NULL, "with the user", NULL },
    OPTS_SLURM,
    OPTS_END,
};
static const struct opt sshare_opts[] = {
    { "noheader", 'h', NULL, "without the line of headers", "sshare" },
    { "parsable2", 'P', NULL, "with | between", NULL },
    { "parsable", 'p', NULL, "the same", NULL },
    { "all", 'a', NULL, NULL, NULL },
    { "long", 'l', NULL, NULL, NULL },
    OPTS_SLURM,
    OPTS_END,
};
static const struct opt sstat_opts[] = {
    { "noheader", 'n', NULL, "without the line of headers", "sstat" },
    { "format", 'o', "FIELDS", "what the line of headers says", NULL },
    { "jobs", 'j', "IDS", "jobs", NULL },
    { "allsteps", 'a', NULL, NULL, NULL },
    { "parsable2", 'P', NULL, NULL, NULL },
    { "parsable", 'p', NULL, NULL, NULL },
    OPTS_SLURM,
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
      .summary = "Lists jobs, finished and not",
      .usage = "[OPTION...]",
      .opts = sacct_opts,
      .run = slurm_sacct },
    { .name = "sprio",
      .summary = "Lists priorities of pending jobs",
      .usage = "[OPTION...]",
      .opts = sprio_opts,
      .run = slurm_sprio },
    { .name = "sshare",
      .summary = "Lists shares of virtual clusters",
      .usage = "[OPTION...]",
      .opts = sshare_opts,
      .run = slurm_sshare },
    { .name = "sstat",
      .summary = "Lists steps of running jobs: there are none",
      .usage = "[OPTION...]",
      .opts = sstat_opts,
      .run = slurm_sstat },
    { 0 },
};

bool slurm_named(const char *argv0)
{
    static const char *const names[] = { "sbatch", "srun",     "salloc", "squeue", "scancel", "sinfo",
                                         "sacct",  "scontrol", "sprio",  "sshare", "sstat" };
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
    const struct opt *opt;

    if (word[0] != '-' || strchr(word, '='))
        return false;
    opt = word[1] == '-' ? command_opt(command, word + 2, strlen(word + 2), 0)
                         : command_opt(command, NULL, 0, (unsigned char)word[1]);
    return opt && opt->value && !job_flag_optional(opt->value) && (word[1] == '-' || !word[2]);
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
        else if (strcmp(word, "-Q") == 0 || strcmp(word, "--quiet") == 0 || strcmp(word, "-f") == 0 ||
                 strcmp(word, "--full") == 0 || strcmp(word, "-b") == 0 || strcmp(word, "--batch") == 0 ||
                 strcmp(word, "--verbose") == 0 || strcmp(word, "-v") == 0)
            continue; /* all processes of a job are told anyway */
        more[n++] = word;
    }
    more[n] = NULL;
    return run_as("cancel", "scancel", n, more);
}

int slurm_version(void)
{
    (void)puts("slurm-wlm " SLURM_RELEASE " (muster " MUSTER_VERSION ")");
    return CODE_DONE;
}

/* --version or -V among the flags of a command, before what it runs. */
static bool version_wanted(int argc, char **argv)
{
    for (int i = 1; i < argc && argv[i][0] == '-' && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--version") == 0 || strcmp(argv[i], "-V") == 0)
            return true;
    return false;
}

/* The nodes of a running job, where a step of another job is to run: as if we were in it. Zero, or an exit code. */
static int step_enter(const char *id)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer answer = { 0 };
    struct command_args args = { .full = "srun" };
    struct problem problem;
    struct job_ref_text ref;
    char text[64];

    if (client_new(&args, &client, &problem) || client_job(client, id, &ref, &problem))
        return problem_print(&problem);
    (void)snprintf(text, sizeof(text), "/jobs/%lld", (long long)ref.id);
    if (client_call(client, "GET", text, NULL, &answer, &problem))
        return problem_print(&problem);
    if (json_array_size(json_object_get(answer.json, "placement")) == 0) {
        (void)problem_set(&problem, CODE_CONFLICT, "", "job %.40s does not run", id);
        return problem_print(&problem);
    }
    (void)snprintf(text, sizeof(text), "%lld", (long long)ref.id);
    (void)setenv("MUSTER_JOB_ID", text, 1); /* NOLINT(concurrency-mt-unsafe): one thread */
    (void)snprintf(text, sizeof(text), "%lld", (long long)slurm_job_node_count(answer.json));
    (void)setenv("MUSTER_NNODES", text, 1);  /* NOLINT(concurrency-mt-unsafe) */
    (void)unsetenv("SLURM_NTASKS_PER_NODE"); /* NOLINT(concurrency-mt-unsafe) */
    (void)unsetenv("SLURM_NTASKS");          /* NOLINT(concurrency-mt-unsafe) */
    return 0;
}

/* srun --overlap --jobid=N CMD: the words that srun alone knows are taken out. Steps of a job always overlap. */
static int srun(int argc, char **argv)
{
    const struct command *run = command_find(live_commands, "run");
    char *more[ARGS_MAX + 1];
    const char *job = NULL;
    int n = 0, i = 1, r = 0;

    if (argc > ARGS_MAX)
        return CODE_USAGE;
    more[n++] = argv[0];
    for (; i < argc && argv[i][0] == '-' && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "-l") == 0 || strcmp(argv[i], "--label") == 0)
            (void)fprintf(stderr, "srun: --label has no effect here: lines are not marked with their task\n");
        if (strcmp(argv[i], "--overlap") == 0 || strcmp(argv[i], "--exact") == 0 || strcmp(argv[i], "-l") == 0 ||
            strcmp(argv[i], "--label") == 0 || strcmp(argv[i], "--unbuffered") == 0 || strcmp(argv[i], "-u") == 0)
            continue;
        if (strncmp(argv[i], "--jobid=", 8) == 0) {
            job = argv[i] + 8;
        } else if (strcmp(argv[i], "--jobid") == 0 && i + 1 < argc) {
            job = argv[++i];
        } else {
            more[n++] = argv[i];
            if (takes_value(run, argv[i]) && i + 1 < argc)
                more[n++] = argv[++i];
        }
    }
    for (; i < argc; i++)
        more[n++] = argv[i];
    more[n] = NULL;
    if (job)
        r = step_enter(job);
    return r ? r : run_compat("run", "srun", n, more);
}

int slurm_main(int argc, char **argv)
{
    const char *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
    const struct command *list = command_find(slurm_lists, name);

    opts_abbreviate = true;
    if (version_wanted(argc, argv))
        return slurm_version();
    if (list)
        return command_run(list, name, argc, argv);
    if (strcmp(name, "sbatch") == 0)
        return run_compat("submit", "sbatch", argc, argv);
    if (strcmp(name, "srun") == 0)
        return srun(argc, argv);
    if (strcmp(name, "salloc") == 0)
        return run_as("shell", "salloc", argc, argv);
    if (strcmp(name, "scancel") == 0)
        return scancel(argc, argv);
    return slurm_scontrol(argc, argv);
}
