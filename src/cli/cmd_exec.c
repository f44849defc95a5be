/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_exec.c - muster exec, attach, shell, run --pty: a command inside a running job, through a WebSocket; and what
 * muster forward carries. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "cli/fmt.h"
#include "cli/follow.h"
#include "cli/live.h"
#include "cli/request.h"
#include "cli/session.h"

static volatile sig_atomic_t resized;

static void on_resize(int number)
{
    (void)number;
    resized = 1;
}

static void size_send(struct session *session)
{
    struct winsize size;
    char text[32];

    resized = 0;
    if (!session->tty || ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0)
        return;
    (void)snprintf(text, sizeof(text), "%ux%u", size.ws_row, size.ws_col);
    session_send(session, SAY_SIZE, text, strlen(text));
}

static void input_send(struct session *session)
{
    char data[4096];
    ssize_t got = read(STDIN_FILENO, data, sizeof(data));

    if (got > 0) {
        session_send(session, SAY_INPUT, data, (size_t)got);
    } else if (got == 0 || errno != EINTR) {
        session->input_over = true;
        session_send(session, SAY_INPUT_OVER, NULL, 0);
    }
}

static void session_loop(struct session *session)
{
    size_send(session);
    while (!session->broken && (wslay_event_want_read(session->ws) || wslay_event_want_write(session->ws))) {
        struct pollfd wait[2] = { { .fd = session->fd, .events = POLLIN }, { .fd = STDIN_FILENO, .events = POLLIN } };
        bool busy = wslay_event_want_write(session->ws) != 0;

        if (busy)
            wait[0].events |= POLLOUT;
        /* No more is read than can be sent. */
        if (poll(wait, session->input_over || busy ? 1 : 2, session->early_taken < session->early.size ? 0 : 1000) <
                0 &&
            errno != EINTR)
            break;
        if (resized)
            size_send(session);
        if (!session->input_over && wait[1].revents)
            input_send(session);
        if (!session_turn(session))
            break;
    }
}

/* A command in a job; its exit code. */
static int exec_run(struct client *client, const char *path, bool tty, struct problem *problem)
{
    struct session session = { .tty = tty };
    struct sigaction action = { .sa_handler = on_resize }, before;
    struct termios saved, raw;
    bool restore = false;
    int r = session_open(&session, client, path, problem);

    if (r == 0) {
        if (tty && tcgetattr(STDIN_FILENO, &saved) == 0) {
            raw = saved;
            cfmakeraw(&raw);
            restore = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
        }
        (void)sigaction(SIGWINCH, &action, &before);
        session_loop(&session);
        (void)sigaction(SIGWINCH, &before, NULL);
        if (restore)
            (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &saved);
    }
    session_close(&session);
    if (r)
        return problem_print(problem);
    return session.status >= 0 ? session.status : JOB_MUSTER;
}

int tunnel_run(struct client *client, const char *path)
{
    struct problem problem = { 0 };

    return exec_run(client, path, false, &problem);
}

/* One that has its place is there in a moment: it is waited for. One that waits for a place is not. */
static int starting_wait(struct client *client, int64_t id, struct problem *problem)
{
    CLEANUP_ANSWER struct answer answer = { 0 };
    json_t *job = NULL;
    char path[64];
    int r;

    problem->text[0] = '\0';
    (void)snprintf(path, sizeof(path), "/jobs/%lld?fields=state", (long long)id);
    r = client_call(client, "GET", path, NULL, &answer, problem);
    if (r == 0 && strcmp(fmt_text(answer.json, "state"), "STARTING") == 0)
        r = job_wait(client, id, JOB_STARTED, false, &job, problem);
    json_decref(job);
    return r;
}

static int exec_in(const struct command_args *args, const char *job, char *const *words, int count, bool tty)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_BUF struct buf path = BUF_INIT(16384);
    struct job_ref_text ref;
    struct problem problem;
    int r = live_client(args, &client);

    if (r)
        return r;
    if (client_job(client, job, &ref, &problem))
        return problem_print(&problem);
    r = starting_wait(client, ref.id, &problem);
    if (r)
        return problem.text[0] ? problem_print(&problem) : r;
    buf_printf(&path, "/jobs/%lld/exec?task=%d&tty=%d", (long long)ref.id, ref.rank < 0 ? 0 : ref.rank, tty ? 1 : 0);
    for (int i = 0; i < count; i++) {
        char *quoted = client_quote(words[i]);

        buf_printf(&path, "&cmd=%s", quoted ? quoted : "");
        mem_free(quoted);
    }
    if (path.error)
        return args_wrong(args, "the command is too long");
    return exec_run(client, path.data, tty, &problem);
}

int cmd_exec(struct command_args *args)
{
    bool tty = args_has(args, "tty") || (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !args_has(args, "no-tty"));

    if (args->word_count < 2)
        return args_wrong(args, "which command? muster exec JOB -- COMMAND");
    return exec_in(args, args->words[0], args->words + 1, args->word_count - 1, tty);
}

int cmd_attach(struct command_args *args)
{
    static char shell[] = "/bin/sh", login[] = "-l";
    char *words[] = { shell, login };

    return exec_in(args, args->words[0], words, 2, isatty(STDIN_FILENO));
}

/* A job that waits, a shell in it, and its end. */
static int shell_in_job(struct command_args *args, char *const *words, int count)
{
    static char sleep_word[] = "sleep", forever[] = "infinity";
    char *hold[] = { sleep_word, forever }, **before = args->words, number[32], path[64];
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer answer = { 0 }, gone = { 0 };
    CLEANUP(mem_free) char *json = NULL;
    struct problem problem = { 0 };
    json_t *job = NULL;
    int64_t id;
    int r, code, words_before = args->word_count;

    args->words = hold;
    args->word_count = 2;
    r = request_make(args, REQUEST_COMMAND, &json);
    args->words = before;
    args->word_count = words_before;
    if (r == 0)
        r = live_client(args, &client);
    if (r)
        return r;
    if (request_post(client, "/jobs", json, &answer, &problem))
        return problem_print(&problem);
    id = fmt_i64(answer.json, "id");
    if (job_wait(client, id, JOB_STARTED, false, &job, &problem))
        return problem.text[0] ? problem_print(&problem) : JOB_MUSTER;
    (void)fprintf(stderr, "muster: job %lld on %s\n", (long long)id, fmt_text(job, "nodelist"));
    json_decref(job);
    (void)snprintf(number, sizeof(number), "%lld", (long long)id);
    code = exec_in(args, number, words, count, isatty(STDIN_FILENO));
    (void)snprintf(path, sizeof(path), "/jobs/%lld?now=1", (long long)id);
    if (client_call(client, "DELETE", path, NULL, &gone, &problem))
        (void)problem_print(&problem);
    return code;
}

int run_pty(struct command_args *args)
{
    if (args->word_count == 0)
        return args_wrong(args, "which command? muster run --pty -- COMMAND");
    return shell_in_job(args, args->words, args->word_count);
}

int cmd_shell(struct command_args *args)
{
    static char shell[] = "/bin/sh", login[] = "-l";
    char *words[] = { shell, login };

    return shell_in_job(args, words, 2);
}
