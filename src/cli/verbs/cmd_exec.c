/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_exec.c - muster exec: a command inside a running job, through a WebSocket; and what muster forward carries. */
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
#include "cli/client/follow.h"
#include "cli/client/request.h"
#include "cli/client/session.h"
#include "cli/fmt.h"
#include "cli/verbs/live.h"

static volatile sig_atomic_t resized, told_to_end;

static void on_resize(int number)
{
    (void)number;
    resized = 1;
}

static void on_end(int number)
{
    told_to_end = number;
}

/* Told to end, or its terminal is gone: the session is closed and the terminal put right. What is ignored stays so. */
static void ends_catch(struct sigaction before[3], bool put_back)
{
    static const int numbers[] = { SIGHUP, SIGINT, SIGTERM };
    struct sigaction action = { .sa_handler = on_end };

    for (int i = 0; i < 3; i++) {
        if (put_back)
            (void)sigaction(numbers[i], &before[i], NULL);
        else if (sigaction(numbers[i], NULL, &before[i]) == 0 && before[i].sa_handler != SIG_IGN)
            (void)sigaction(numbers[i], &action, NULL);
    }
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
    while (!session->broken && !told_to_end &&
           (wslay_event_want_read(session->ws) || wslay_event_want_write(session->ws))) {
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
    struct sigaction action = { .sa_handler = on_resize }, before, ends[3];
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
        ends_catch(ends, false);
        session_loop(&session);
        ends_catch(ends, true);
        (void)sigaction(SIGWINCH, &before, NULL);
        if (restore)
            (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &saved);
    }
    session_close(&session);
    if (r)
        return problem_print(problem);
    if (told_to_end)
        return 128 + told_to_end;
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

int exec_in(const struct command_args *args, const char *job, char *const *words, int count, bool tty)
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
