/* SPDX-License-Identifier: Apache-2.0 */
/* session.c - see session.h. */
#include "cli/client/session.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/client/channel.h"
#include "cli/fmt.h"

enum { MESSAGE_MAX = 1 << 20, HEAD_MAX = 16384 };

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
    if (!session->silent && (message->msg[0] == 1 || message->msg[0] == 2))
        write_all(message->msg[0] == 1 ? STDOUT_FILENO : STDERR_FILENO, message->msg + 1, message->msg_length - 1);
    if (message->msg[0] == 3) {
        (void)snprintf(text, sizeof(text), "%.*s", (int)message->msg_length - 1, (const char *)message->msg + 1);
        session->status = (int)strtol(text, NULL, 10) & 255;
    }
}

void session_send(struct session *session, uint8_t kind, const void *data, size_t size)
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
    (void)!getrandom(random, sizeof(random), 0);
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

int session_open(struct session *session, struct client *client, const char *path, struct problem *problem)
{
    static const struct wslay_event_callbacks callbacks = { .recv_callback = on_receive,
                                                            .send_callback = on_send,
                                                            .genmask_callback = on_mask,
                                                            .on_msg_recv_callback = on_message };
    int r;

    session->early = (struct buf)BUF_INIT(65536);
    session->status = -1;
    r = upgrade(session, client, path, problem);
    if (r == 0 && wslay_event_context_client_init(&session->ws, &callbacks, session) < 0)
        r = problem_set(problem, CODE_FAILED, "", "out of memory");
    if (r == 0)
        wslay_event_config_set_max_recv_msg_length(session->ws, MESSAGE_MAX);
    return r;
}

bool session_turn(struct session *session)
{
    if (wslay_event_recv(session->ws) < 0 || wslay_event_send(session->ws) < 0)
        return false;
    return session->status < 0 || wslay_event_want_write(session->ws);
}

void session_close(struct session *session)
{
    if (session->ws)
        wslay_event_context_free(session->ws);
    session->ws = NULL;
    buf_done(&session->early);
}
