/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_exec.c - muster exec, attach, shell, run --pty: a command inside a running job, through a WebSocket; and what
 * muster forward carries.
 *
 * The channel makes the connection (TLS, socket, certificate); the upgrade is written by hand; wslay makes and reads
 * frames.
 * Binary messages begin with a byte: to the job 0 input, 2 size of the terminal, 3 end of input; from it 1 output,
 * 2 error output, 3 the exit status (docs/rest.md).
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <termios.h>
#include <unistd.h>
#include <wslay/wslay.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "cli/channel.h"
#include "cli/fmt.h"
#include "cli/follow.h"
#include "cli/live.h"
#include "cli/request.h"

enum { MESSAGE_MAX = 1 << 20, HEAD_MAX = 16384 };

struct session {
    struct channel *channel;
    int fd;
    wslay_event_context_ptr ws;
    struct buf early; /* bytes behind the answer to the upgrade */
    size_t early_taken;
    int status; /* of the command; -1 = not told */
    bool tty, input_over, broken;
};

static volatile sig_atomic_t resized;

static void on_resize(int number)
{
    (void)number;
    resized = 1;
}

static ssize_t on_receive(wslay_event_context_ptr ws, uint8_t *data, size_t size, int flags, void *arg)
{
    struct session *session = arg;
    ssize_t n;

    (void)flags;
    if (session->early_taken < session->early.size) {
        size_t got = session->early.size - session->early_taken;

        got = got < size ? got : size;
        memcpy(data, session->early.data + session->early_taken, got);
        session->early_taken += got;
        return (ssize_t)got;
    }
    n = channel_recv(session->channel, data, size);
    if (n > 0)
        return n;
    wslay_event_set_error(ws, n == -EAGAIN ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
    session->broken = session->broken || n != -EAGAIN;
    return -1;
}

static ssize_t on_send(wslay_event_context_ptr ws, const uint8_t *data, size_t size, int flags, void *arg)
{
    struct session *session = arg;
    ssize_t n = channel_send(session->channel, data, size);

    (void)flags;
    if (n >= 0)
        return n;
    wslay_event_set_error(ws, n == -EAGAIN ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
    session->broken = session->broken || n != -EAGAIN;
    return -1;
}

static int on_mask(wslay_event_context_ptr ws, uint8_t *data, size_t size, void *arg)
{
    (void)ws, (void)arg;
    return getrandom(data, size, 0) == (ssize_t)size ? 0 : -1;
}

static void write_all(int fd, const uint8_t *data, size_t size)
{
    while (size > 0) {
        ssize_t put = write(fd, data, size);

        if (put < 0 && errno != EINTR)
            return;
        if (put > 0) {
            data += put;
            size -= (size_t)put;
        }
    }
}

static void on_message(wslay_event_context_ptr ws, const struct wslay_event_on_msg_recv_arg *message, void *arg)
{
    struct session *session = arg;
    char text[16] = "";

    (void)ws;
    if (message->opcode != WSLAY_BINARY_FRAME || message->msg_length == 0)
        return;
    if (message->msg[0] == 1 || message->msg[0] == 2)
        write_all(message->msg[0] == 1 ? STDOUT_FILENO : STDERR_FILENO, message->msg + 1, message->msg_length - 1);
    if (message->msg[0] == 3) {
        (void)snprintf(text, sizeof(text), "%.*s", (int)message->msg_length - 1, (const char *)message->msg + 1);
        session->status = (int)strtol(text, NULL, 10) & 255;
    }
}

static void message_send(struct session *session, uint8_t kind, const void *data, size_t size)
{
    uint8_t *copy = mem_zalloc(size + 1, 1);
    struct wslay_event_msg message = { .opcode = WSLAY_BINARY_FRAME, .msg = copy, .msg_length = size + 1 };

    if (!copy)
        return;
    copy[0] = kind;
    if (size)
        memcpy(copy + 1, data, size);
    (void)wslay_event_queue_msg(session->ws, &message);
    mem_free(copy);
}

static void size_send(struct session *session)
{
    struct winsize size;
    char text[32];

    resized = 0;
    if (!session->tty || ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0)
        return;
    (void)snprintf(text, sizeof(text), "%ux%u", size.ws_row, size.ws_col);
    message_send(session, 2, text, strlen(text));
}

static int send_all(struct session *session, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t sent = channel_send(session->channel, data, size);
        struct pollfd wait = { .fd = session->fd, .events = POLLOUT };

        if (sent == -EAGAIN)
            (void)poll(&wait, 1, 10000);
        else if (sent < 0)
            return -EIO;
        data += sent > 0 ? sent : 0;
        size -= sent > 0 ? (size_t)sent : 0;
    }
    return 0;
}

/* Reads until the empty line; what came behind it is kept for wslay. */
static int head_read(struct session *session, struct buf *head)
{
    char data[4096];

    for (;;) {
        struct pollfd wait = { .fd = session->fd, .events = POLLIN };
        ssize_t got = channel_recv(session->channel, data, sizeof(data));
        const char *end;

        if (got == -EAGAIN) {
            if (poll(&wait, 1, 30000) <= 0)
                return -ETIMEDOUT;
            continue;
        }
        if (got <= 0 || head->size + (size_t)got > HEAD_MAX)
            return -EIO;
        buf_put(head, data, (size_t)got);
        end = memmem(head->data, head->size, "\r\n\r\n", 4);
        if (end) {
            size_t length = (size_t)(end - head->data) + 4;

            buf_put(&session->early, head->data + length, head->size - length);
            head->data[length - 4] = '\0';
            return 0;
        }
    }
}

static int upgrade(struct session *session, struct client *client, const char *path, struct problem *problem)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    CLEANUP_BUF struct buf out = BUF_INIT(65536), head = BUF_INIT(HEAD_MAX + 8192);
    unsigned char random[22] = { 0 };
    const char *token;
    char key[25], host[CHANNEL_HOST_MAX];
    int r = client_connect(client, &session->channel, &token, problem);

    if (r)
        return r;
    session->fd = channel_fd(session->channel);
    channel_host(client_url(client), host);
    (void)getrandom(random, sizeof(random), 0);
    for (int i = 0; i < 22; i++)
        key[i] = letters[i == 21 ? (random[i] & 3) << 4 : random[i] & 63]; /* 16 bytes: the last letter has two bits */
    memcpy(key + 22, "==", 3);
    buf_printf(&out,
               "GET /api/v1%s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
               "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n",
               path, host, key);
    if (*token)
        buf_printf(&out, "Authorization: Bearer %s\r\n", token);
    buf_text(&out, "\r\n");
    if (out.error || send_all(session, out.data, out.size) < 0 || head_read(session, &head) < 0)
        return problem_set(problem, CODE_UNREACHABLE, "Unreachable",
                           "the connection ended while the session was set up");
    if (strncmp(head.data, "HTTP/1.1 101", 12) != 0) {
        const char *body = session->early.data ? session->early.data : "";
        json_t *json = json_loads(body, 0, NULL);
        const char *detail = *fmt_text(json, "detail") ? fmt_text(json, "detail") : head.data;
        int status = (int)strtol(head.data + 9, NULL, 10);

        (void)problem_set(problem,
                          status == 404                    ? CODE_NOT_FOUND
                          : status == 409                  ? CODE_CONFLICT
                          : status == 403 || status == 401 ? CODE_DENIED
                                                           : CODE_FAILED,
                          fmt_text(json, "code"), "%s", detail);
        problem->status = status;
        json_decref(json);
        return problem->exit;
    }
    return 0;
}

static void input_send(struct session *session)
{
    char data[4096];
    ssize_t got = read(STDIN_FILENO, data, sizeof(data));

    if (got > 0) {
        message_send(session, 0, data, (size_t)got);
    } else if (got == 0 || errno != EINTR) {
        session->input_over = true;
        message_send(session, 3, NULL, 0);
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
        if (wslay_event_recv(session->ws) < 0 || wslay_event_send(session->ws) < 0)
            break;
        if (session->status >= 0 && !wslay_event_want_write(session->ws))
            break;
    }
}

/* A command in a job; its exit code. */
static int exec_run(struct client *client, const char *path, bool tty, struct problem *problem)
{
    static const struct wslay_event_callbacks callbacks = { .recv_callback = on_receive,
                                                            .send_callback = on_send,
                                                            .genmask_callback = on_mask,
                                                            .on_msg_recv_callback = on_message };
    struct session session = { .early = BUF_INIT(65536), .status = -1, .tty = tty };
    struct sigaction action = { .sa_handler = on_resize }, before;
    struct termios saved, raw;
    bool restore = false;
    int r = upgrade(&session, client, path, problem);

    if (r == 0 && wslay_event_context_client_init(&session.ws, &callbacks, &session) < 0)
        r = problem_set(problem, CODE_FAILED, "", "out of memory");
    if (r == 0) {
        wslay_event_config_set_max_recv_msg_length(session.ws, MESSAGE_MAX);
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
        wslay_event_context_free(session.ws);
    }
    buf_done(&session.early);
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
