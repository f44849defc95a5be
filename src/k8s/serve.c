/* SPDX-License-Identifier: Apache-2.0 */
/* serve.c - see serve.h. Answers are made at once, so that a connection is either read from or written to. */
#include "k8s/serve.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/clock.h"
#include "io/log.h"

enum { READ_BYTES = 65536, REPLY_BYTES_MAX = 64 << 20 };
#define IDLE_SPAN (60 * USEC_SEC)

struct conn {
    int fd; /* -1: free */
    struct http_reader *reader;
    struct buf out;
    size_t sent;
    bool last;
    usec_t at;
};

struct serve {
    int fd;
    serve_fn fn;
    void *arg;
    char address[128];
    struct conn conns[SERVE_CONNS_MAX];
};

static int bind_any(const char *host, const char *port, struct error *err)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV };
    struct addrinfo *list = NULL;
    int fd = -1, on = 1, r = getaddrinfo(*host ? host : NULL, port, &hints, &list);

    if (r != 0)
        return error_set(err, -EINVAL, "%s:%s: %s", host, port, gai_strerror(r));
    fd = socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
        bind(fd, list->ai_addr, list->ai_addrlen) < 0 || listen(fd, 128) < 0) {
        r = error_set(err, -errno, "%s:%s: %s", host, port, strerrordesc_np(errno));
        if (fd >= 0)
            (void)close(fd);
        fd = r;
    }
    freeaddrinfo(list);
    return fd;
}

static void address_tell(struct serve *serve)
{
    struct sockaddr_storage storage;
    socklen_t size = sizeof(storage);
    char host[64] = "", port[16] = "";

    if (getsockname(serve->fd, (struct sockaddr *)&storage, &size) == 0)
        (void)getnameinfo((struct sockaddr *)&storage, size, host, sizeof(host), port, sizeof(port),
                          NI_NUMERICHOST | NI_NUMERICSERV);
    (void)snprintf(serve->address, sizeof(serve->address), strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

int serve_new(const char *address, serve_fn fn, void *arg, struct serve **ret_serve, struct error *err)
{
    const char *port = strrchr(address, ':');
    char host[64];
    struct serve *serve;
    int fd;

    if (!port || (size_t)(port - address) >= sizeof(host))
        return error_set(err, -EINVAL, "%s: expected ADDRESS:PORT", address);
    memcpy(host, address, (size_t)(port - address));
    host[port - address] = '\0';
    if (host[0] == '[' && host[strlen(host) - 1] == ']') {
        host[strlen(host) - 1] = '\0';
        memmove(host, host + 1, strlen(host));
    }
    fd = bind_any(host, port + 1, err);
    if (fd < 0)
        return fd;
    serve = mem_zalloc(1, sizeof(*serve));
    if (!serve) {
        (void)close(fd);
        return error_set(err, -ENOMEM, "no memory for the server");
    }
    *serve = (struct serve){ .fd = fd, .fn = fn, .arg = arg };
    for (size_t i = 0; i < SERVE_CONNS_MAX; i++)
        serve->conns[i].fd = -1;
    address_tell(serve);
    *ret_serve = serve;
    return 0;
}

const char *serve_address(const struct serve *serve)
{
    return serve->address;
}

static void conn_close(struct conn *conn)
{
    if (conn->fd < 0)
        return;
    (void)close(conn->fd);
    http_reader_free(conn->reader);
    buf_done(&conn->out);
    *conn = (struct conn){ .fd = -1 };
}

void serve_free(struct serve *serve)
{
    if (!serve)
        return;
    for (size_t i = 0; i < SERVE_CONNS_MAX; i++)
        conn_close(&serve->conns[i]);
    (void)close(serve->fd);
    mem_free(serve);
}

static void conn_open(struct serve *serve)
{
    static const struct http_limits limits = {
        .target_max = 8192, .head_bytes_max = 32768, .head_count_max = 100, .body_max = 16 << 20
    };
    int fd = accept4(serve->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0)
        return;
    for (size_t i = 0; i < SERVE_CONNS_MAX; i++) {
        struct conn *conn = &serve->conns[i];

        if (conn->fd >= 0)
            continue;
        *conn = (struct conn){ .fd = fd, .out = BUF_INIT(REPLY_BYTES_MAX), .at = clock_now() };
        if (http_reader_new(HTTP_REQUESTS, &limits, &conn->reader) < 0)
            conn_close(conn);
        return;
    }
    (void)close(fd);
}

static void reply_put(struct conn *conn, int status, const char *type, const struct buf *body)
{
    buf_printf(&conn->out, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: %s\r\n\r\n",
               status, http_status_text(status), type, body->size, conn->last ? "close" : "keep-alive");
    buf_put(&conn->out, body->data, body->size);
}

static void conn_answer(struct serve *serve, struct conn *conn)
{
    CLEANUP_BUF struct buf body = BUF_INIT(REPLY_BYTES_MAX);
    const struct http_message *request = http_reader_message(conn->reader);
    const char *type = "application/json";
    int status = serve->fn(serve->arg, request, &body, &type);

    conn->last = !request->keep_alive;
    if (body.error) {
        buf_clear(&body);
        status = 500;
    }
    reply_put(conn, status, type, &body);
    http_reader_next(conn->reader);
}

static void conn_write(struct conn *conn)
{
    ssize_t n = send(conn->fd, conn->out.data + conn->sent, conn->out.size - conn->sent, MSG_NOSIGNAL);

    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR)
            conn_close(conn);
        return;
    }
    conn->sent += (size_t)n;
    if (conn->sent < conn->out.size)
        return;
    conn->sent = 0;
    buf_clear(&conn->out);
    if (conn->last)
        conn_close(conn);
}

static void conn_read(struct serve *serve, struct conn *conn)
{
    char data[READ_BYTES];
    ssize_t n = read(conn->fd, data, sizeof(data));
    size_t at = 0;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        conn_close(conn);
        return;
    }
    conn->at = clock_now();
    while (at < (size_t)n && !conn->last) {
        struct buf none = BUF_INIT(1);
        size_t used = 0;
        int r = http_reader_feed(conn->reader, data + at, (size_t)n - at, &used, NULL);

        at += used;
        if (r == 1)
            conn_answer(serve, conn);
        else if (r < 0) {
            conn->last = true;
            reply_put(conn, http_reader_refusal(conn->reader), "text/plain", &none);
        } else
            break;
    }
    if (conn->out.size)
        conn_write(conn);
}

size_t serve_fds(struct serve *serve, struct client_fd *fds)
{
    size_t count = 0;

    fds[count++] = (struct client_fd){ serve->fd, POLLIN, 0 };
    for (size_t i = 0; i < SERVE_CONNS_MAX; i++)
        if (serve->conns[i].fd >= 0)
            fds[count++] = (struct client_fd){ serve->conns[i].fd, serve->conns[i].out.size ? POLLOUT : POLLIN, 0 };
    return count;
}

void serve_turn(struct serve *serve, const struct client_fd *fds, size_t count)
{
    usec_t now = clock_now();

    for (size_t i = 0; i < SERVE_CONNS_MAX; i++) {
        struct conn *conn = &serve->conns[i];

        for (size_t f = 1; f < count; f++) {
            if (conn->fd < 0 || fds[f].fd != conn->fd)
                continue;
            if (fds[f].revents & POLLOUT)
                conn_write(conn);
            else if (fds[f].revents & POLLIN)
                conn_read(serve, conn);
            break;
        }
        if (conn->fd >= 0 && now > conn->at + IDLE_SPAN)
            conn_close(conn);
    }
    if (count && fds[0].revents & POLLIN)
        conn_open(serve);
}
