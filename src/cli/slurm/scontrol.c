/* SPDX-License-Identifier: Apache-2.0 */
/* scontrol.c - scontrol: jobs are held, released, requeued and changed by our own verbs; show is scontrol_show.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/fmt.h"
#include "cli/slurm/slurm.h"
#include "cli/verbs/live.h"

enum { WORDS_MAX = 256 };

static int verb_run(const char *verb, const char *full, int argc, char **argv)
{
    return command_run(command_find(live_commands, verb), full, argc, argv);
}

static int not_here(const char *what)
{
    struct problem problem;

    (void)problem_set(&problem, CODE_USAGE, "", "scontrol %.60s is not supported", what);
    problem_hint(&problem,
                 "there are show job|node|partition|config|hostnames|hostlist|licenses, hold, release, requeue, "
                 "suspend, resume, update JobId=N|NodeName=N, wait_job, write batch_script, ping, version");
    return problem_print(&problem);
}

/* hold 12,13 and hold jobid=12: each job is a word of our verb. */
static int act(const char *verb, int argc, char **argv)
{
    char *more[WORDS_MAX], *save = NULL;
    char name[32];
    int n = 0;

    (void)snprintf(name, sizeof(name), "%s", verb);
    more[n++] = name;
    for (int i = 0; i < argc; i++) {
        char *list = strncasecmp(argv[i], "jobid=", 6) == 0 ? argv[i] + 6 : argv[i];

        for (char *word = strtok_r(list, ",", &save); word && n < WORDS_MAX - 1; word = strtok_r(NULL, ",", &save))
            more[n++] = word;
    }
    more[n] = NULL;
    return verb_run(verb, "scontrol", n, more);
}

static const char *value_of(int argc, char **argv, const char *key)
{
    size_t length = strlen(key);

    for (int i = 0; i < argc; i++)
        if (strncasecmp(argv[i], key, length) == 0 && argv[i][length] == '=')
            return argv[i] + length + 1;
    return NULL;
}

/* update NodeName=N State=DRAIN Reason=..., or State=RESUME. */
static int node_update(int argc, char **argv)
{
    const struct command *node = command_find(live_commands, "node");
    const char *name = value_of(argc, argv, "nodename"), *state = value_of(argc, argv, "state");
    const char *reason = value_of(argc, argv, "reason");
    char words[4][512];
    char *more[5] = { words[0], words[1], words[2], words[3], NULL };
    bool drain = state && strcasecmp(state, "drain") == 0;

    if (!state || (!drain && strcasecmp(state, "resume") != 0 && strcasecmp(state, "undrain") != 0))
        return not_here("update NodeName= without State=DRAIN or State=RESUME");
    (void)snprintf(words[0], sizeof(words[0]), "%s", drain ? "drain" : "resume");
    (void)snprintf(words[1], sizeof(words[1]), "%s", name);
    if (!drain)
        more[2] = NULL;
    (void)snprintf(words[2], sizeof(words[2]), "--reason");
    (void)snprintf(words[3], sizeof(words[3]), "%s", reason ? reason : "scontrol update");
    return command_run(command_find(node->sub, words[0]), "scontrol update", drain ? 4 : 2, more);
}

/* update JobId=N TimeLimit=2:00:00 Priority=high Partition=x Comment=y, as `muster set`. */
static int job_update(int argc, char **argv)
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
    for (int i = 0; i < argc && n < 16; i++) {
        char *equals = strchr(argv[i], '='), key[64];
        size_t k = 0;

        if (!equals)
            return not_here(argv[i]);
        (void)snprintf(key, sizeof(key), "%.*s", (int)(equals - argv[i]), argv[i]);
        if (strcasecmp(key, "jobid") == 0 || strcasecmp(key, "job") == 0) {
            (void)snprintf(set, sizeof(words[0]), "%s", equals + 1);
            more[1] = set;
            continue;
        }
        if (strcasecmp(key, "nice") == 0) {
            (void)fprintf(stderr, "scontrol: Nice has no effect here: use Priority\n");
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
    if (!more[1])
        return not_here("update without JobId");
    if (n == 2)
        return CODE_DONE;
    more[n] = NULL;
    return verb_run("set", "scontrol update", n, more);
}

/* Slurm's words, which tools look for. */
static int ping(void)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer answer = { 0 };
    struct command_args args = { .full = "scontrol ping" };
    struct problem problem;
    char host[256] = "localhost";
    bool up = client_new(&args, &client, &problem) == 0 &&
              client_call(client, "GET", "/whoami", NULL, &answer, &problem) != CODE_UNREACHABLE;

    (void)gethostname(host, sizeof(host) - 1);
    (void)printf("Slurmctld(primary) at %s is %s\n", client && up ? host : host, up ? "UP" : "DOWN");
    return up ? CODE_DONE : CODE_FAILED;
}

/* write batch_script JOB [FILE]; "-" is standard output. */
static int script_write(int argc, char **argv)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer answer = { 0 };
    struct command_args args = { .full = "scontrol write" };
    struct problem problem;
    struct job_ref_text ref;
    char path[64], file[256];
    const char *text;
    FILE *out;

    if (argc < 1)
        return not_here("write batch_script without a job");
    if (client_new(&args, &client, &problem) || client_job(client, argv[0], &ref, &problem))
        return problem_print(&problem);
    (void)snprintf(path, sizeof(path), "/jobs/%lld", (long long)ref.id);
    if (client_call(client, "GET", path, NULL, &answer, &problem))
        return problem_print(&problem);
    text = fmt_text(json_object_get(answer.json, "spec"), "run");
    (void)snprintf(file, sizeof(file), "%s", argc > 1 ? argv[1] : "");
    if (argc < 2)
        (void)snprintf(file, sizeof(file), "slurm-%lld.sh", (long long)ref.id);
    out = strcmp(file, "-") == 0 ? stdout : fopen(file, "we");
    if (!out || fputs(text, out) < 0 || (out != stdout && fclose(out) != 0)) {
        (void)problem_set(&problem, CODE_FAILED, "", "%s: %s", file, strerror(errno));
        return problem_print(&problem);
    }
    if (out != stdout)
        (void)printf("batch script for job %lld written to %s\n", (long long)ref.id, file);
    return CODE_DONE;
}

/* The words without flags; *ret_one_line: -o was among them. A flag that is not known is refused. */
static int words_gather(int argc, char **argv, char **words, bool *ret_one_line)
{
    int n = 0;

    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];

        if (strcmp(word, "-o") == 0 || strcmp(word, "--oneliner") == 0)
            *ret_one_line = true;
        else if (strcmp(word, "-d") != 0 && strcmp(word, "--details") != 0 && strcmp(word, "-a") != 0 &&
                 strcmp(word, "--all") != 0 && strcmp(word, "-Q") != 0 && strcmp(word, "--quiet") != 0 &&
                 strcmp(word, "-v") != 0 && strcmp(word, "-dd") != 0) {
            if (word[0] == '-' && word[1])
                return -EINVAL;
            if (n < WORDS_MAX)
                words[n++] = argv[i];
        }
    }
    return n;
}

static int show(int argc, char **argv, bool one_line)
{
    int r = slurm_scontrol_show(argc, argv, one_line);

    if (r != -ENOSYS)
        return r;
    if (argc > 0 && strncasecmp(argv[0], "lic", 3) == 0)
        return verb_run("licenses", "scontrol show licenses", 1, argv);
    if (argc > 0 && strncasecmp(argv[0], "res", 3) == 0) {
        const struct command *resv = command_find(live_commands, "resv");

        return command_run(command_find(resv->sub, "ls"), "scontrol show reservation", 1, argv);
    }
    return not_here(argc > 0 ? argv[0] : "show");
}

int slurm_scontrol(int argc, char **argv)
{
    static const char *const acts[][2] = { { "hold", "hold" },       { "uhold", "hold" },      { "release", "release" },
                                           { "requeue", "requeue" }, { "suspend", "suspend" }, { "resume", "resume" } };
    char *words[WORDS_MAX];
    bool one_line = false;
    int n = words_gather(argc, argv, words, &one_line);

    if (n < 0)
        return not_here("with a flag other than -o, -d, -a, -Q and --version");
    if (n == 0)
        return not_here("without a verb");
    for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++)
        if (strcasecmp(words[0], acts[i][0]) == 0)
            return act(acts[i][1], n - 1, words + 1);
    if (strcasecmp(words[0], "update") == 0)
        return value_of(n - 1, words + 1, "nodename") ? node_update(n - 1, words + 1) : job_update(n - 1, words + 1);
    if (strcasecmp(words[0], "ping") == 0)
        return ping();
    if (strcasecmp(words[0], "version") == 0)
        return slurm_version();
    if (strcasecmp(words[0], "wait_job") == 0)
        return verb_run("wait", "scontrol wait_job", n, words);
    if (strcasecmp(words[0], "write") == 0 && n > 1 && strcasecmp(words[1], "batch_script") == 0)
        return script_write(n - 2, words + 2);
    if (strcasecmp(words[0], "show") == 0)
        return show(n - 1, words + 1, one_line);
    return not_here(words[0]);
}
