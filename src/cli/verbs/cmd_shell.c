/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_shell.c - muster shell, run --pty, attach: a terminal in a job; and a job that ends with the program that waits
 * for it.
 *
 * A shell must not hold GPUs when nobody is there. Three things see to that, the weaker the later:
 *
 *   guard     a process beside this one cancels the job when this one is gone without having said that all is well:
 *             killed, or its terminal closed. `muster run` has one too.
 *   input     what keeps the job's place reads standard input, which comes from here through the controller: when the
 *             machine of here or its network is lost, that ends, and the job with it. It ends also where nobody has
 * connected in two minutes: who asked for it was gone before it started. limits    a time limit, and one of idle GPUs.
 *
 * With --detach there is neither guard nor input, and what is left is the time limit.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/client/follow.h"
#include "cli/client/guard.h"
#include "cli/client/input.h"
#include "cli/client/request.h"
#include "cli/fmt.h"
#include "cli/verbs/live.h"

#define SHELL_TIME "8h"
#define SHELL_IDLE "2h"
/* Waits for a first line, then for the end of its input. */
#define HOLDER "timeout 120 head -n 1 >/dev/null && exec cat >/dev/null"
/* The shell of the account on that node; accounts that have none, and images without accounts, get sh. */
#define SHELL                                                                                                          \
    "s=$(getent passwd \"$(id -u)\" 2>/dev/null | cut -d: -f7); case $s in *nologin|*/false|'') s=/bin/sh;; esac; "    \
    "[ -x \"$s\" ] || s=/bin/sh; SHELL=$s; export SHELL; exec \"$s\" -l"

static char sh_word[] = "/bin/sh", command_word[] = "-c", shell_text[] = SHELL;

int cmd_attach(struct command_args *args)
{
    char *words[] = { sh_word, command_word, shell_text };

    return exec_in(args, args->words[0], words, 3, isatty(STDIN_FILENO));
}

/* A flag that was not given. */
static void flag_default(struct command_args *args, const char *name, const char *value)
{
    if (args_has(args, name) || !value || !*value)
        return;
    for (const struct opt *opt = request_opts(); opt->name; opt++)
        if (strcmp(opt->name, name) == 0) {
            args->given[args->given_count].opt = opt;
            args->given[args->given_count++].value = (char *)(uintptr_t)value;
            return;
        }
}

static const char *shell_setting(const char *name, const char *usual)
{
    const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe): one thread */

    return value && *value ? value : usual;
}

/* `muster input` for the job, with a pipe that ends when we do. */
static pid_t input_hold(const struct command_args *args, int64_t id, int *ret_end)
{
    int ends[2], own = dup(STDIN_FILENO);
    pid_t pid = -1;

    if (own >= 0 && pipe2(ends, O_CLOEXEC) == 0) {
        (void)fcntl(own, F_SETFD, FD_CLOEXEC);
        if (dup2(ends[0], STDIN_FILENO) >= 0)
            pid = input_start(args, id);
        (void)dup2(own, STDIN_FILENO);
        (void)close(ends[0]);
        (void)!write(ends[1], "begin\n", 6);
        *ret_end = ends[1];
    }
    if (own >= 0)
        (void)close(own);
    return pid;
}

/* The submission of what keeps the place. */
static int holder_request(struct command_args *args, const char *name, char **ret_json)
{
    static const struct opt input = { "input", 0, "TASKS", NULL, NULL };
    static char forever[] = "sleep infinity", holder[] = HOLDER;
    bool detach = args_has(args, "detach");
    char *hold[] = { sh_word, command_word, detach ? forever : holder }, **before = args->words;
    int r, words_before = args->word_count;

    flag_default(args, "name", name);
    flag_default(args, "time", shell_setting("MUSTER_SHELL_TIME", SHELL_TIME));
    flag_default(args, "idle-timeout", shell_setting("MUSTER_SHELL_IDLE", SHELL_IDLE));
    if (!detach)
        flag_default(args, "preempt", "cancel"); /* another attempt would have nobody in it */
    args->given[args->given_count].opt = &input;
    args->given[args->given_count++].value = detach ? "none" : "all";
    args->words = hold;
    args->word_count = 3;
    r = request_make(args, REQUEST_RUN, ret_json);
    args->words = before;
    args->word_count = words_before;
    return r;
}

/* A terminal that was closed ends the shell in it as `exit` does: the two are told apart by whether it is still there.
 */
static bool terminal_lost(bool was_terminal)
{
    return was_terminal && !isatty(STDIN_FILENO);
}

/* In a job that has started; its exit code. */
static int terminal_run(struct command_args *args, struct client *client, int64_t id, char *const *words, int count)
{
    bool detach = args_has(args, "detach"), terminal = isatty(STDIN_FILENO);
    struct problem problem = { 0 };
    pid_t input = 0;
    char number[32];
    int end = -1, code;

    if (!detach)
        input = input_hold(args, id, &end);
    (void)snprintf(number, sizeof(number), "%lld", (long long)id);
    code = exec_in(args, number, words, count, terminal);
    if (detach && (code == JOB_MUSTER || code > 128 || terminal_lost(terminal))) {
        (void)fprintf(stderr, "muster: job %s goes on: muster attach %s, muster cancel %s\n", number, number, number);
    } else if (job_cancel(client, id, true, &problem)) {
        (void)problem_print(&problem);
    }
    if (end >= 0)
        (void)close(end);
    input_stop(input);
    return code;
}

/* A job that keeps its place, a terminal in it, and its end. */
static int shell_in_job(struct command_args *args, const char *name, char *const *words, int count)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer answer = { 0 };
    CLEANUP(mem_free) char *json = NULL;
    struct problem problem = { 0 };
    struct guard guard;
    json_t *job = NULL;
    int64_t id;
    int r = holder_request(args, name, &json), code;

    if (r == 0)
        r = live_client(args, &client);
    if (r)
        return r;
    if (request_post(client, "/jobs", json, &answer, &problem))
        return problem_print(&problem);
    id = fmt_i64(answer.json, "id");
    if (guard_start(args, id, &guard) < 0)
        (void)fprintf(stderr, "muster: job %lld is not cancelled when this program is killed\n", (long long)id);
    if (job_wait(client, id, JOB_STARTED, false, &job, &problem)) {
        code = problem.text[0] ? problem_print(&problem) : JOB_MUSTER;
        if (!args_has(args, "detach"))
            (void)job_cancel(client, id, true, &problem);
        guard_stop(&guard);
        return code;
    }
    (void)fprintf(stderr, "muster: job %lld on %s\n", (long long)id, fmt_text(job, "nodelist"));
    json_decref(job);
    code = terminal_run(args, client, id, words, count);
    guard_stop(&guard);
    return code;
}

int run_pty(struct command_args *args)
{
    if (args->word_count == 0)
        return args_wrong(args, "which command? muster run --pty -- COMMAND");
    return shell_in_job(args, NULL, args->words, args->word_count);
}

int cmd_shell(struct command_args *args)
{
    char *words[] = { sh_word, command_word, shell_text };

    return shell_in_job(args, "shell", words, 3);
}
