/* SPDX-License-Identifier: Apache-2.0 */
/* net.c - connections over libuv.
 *
 * Writing tries the socket first (the cheap path) and queues the rest; one uv_write is under way at a time and takes
 * all that was queued meanwhile. With TLS the same below: plain bytes are sealed at once, sealed bytes are what is
 * queued. A connection lives until both its handles are closed.
 */
#include "io/net_part.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/buf.h"

enum { READ_BYTES = 65536, SEAL_BYTES = 16384, DISCARD_MAX = 16 << 20 };
#define LINGER_TIME (USEC_SEC)

struct net_conn {
    union {
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } handle;
    uv_timer_t timer;
    uv_write_t write;
    uv_shutdown_t half;
    size_t discarded; /* bytes that came after we had finished */
    struct net_listener *listener;
    struct tls_session *tls;
    struct buf queue, flying; /* bytes that wait; bytes of the write under way */
    void *arg;
    char peer[64];
    struct ucred peer_user; /* of a Unix socket, where `known` */
    unsigned handles;       /* not closed yet */
    bool writing, closing, accepted, paused, finishing, ended, over, last, known;
    uint64_t due; /* its deadline, by the loop's clock in milliseconds; 0: none */
    bool late;    /* that has passed; what has come since is read first */
};

static void on_close(uv_handle_t *handle);

static void conn_free(struct net_conn *conn)
{
    struct net_listener *listener = conn->listener;

    if (conn->accepted)
        listener->options.events->closed(conn->arg);
    if (conn->over && !listener->is_unix)
        peer_leave(listener, conn->peer);
    listener->conns--;
    tls_session_free(conn->tls);
    buf_done(&conn->queue);
    buf_done(&conn->flying);
    mem_free(conn);
    if (listener->closed && listener->conns == 0)
        listener_free(listener);
}

static void on_close(uv_handle_t *handle)
{
    struct net_conn *conn = handle->data;

    if (--conn->handles == 0)
        conn_free(conn);
}

void net_close(struct net_conn *conn)
{
    if (conn->closing)
        return;
    conn->closing = true;
    uv_close((uv_handle_t *)&conn->timer, on_close);
    uv_close((uv_handle_t *)&conn->handle.stream, on_close);
}

static void queue_flush(struct net_conn *conn);

static void on_half(uv_shutdown_t *request, int status)
{
    struct net_conn *conn = request->data;

    if (status < 0 || conn->ended)
        net_close(conn);
}

/* All is written. To close while bytes of the peer are unread would reset the connection and could take our last words
 * with it: so we say that we are done and wait a moment for the peer to be. */
static void linger(struct net_conn *conn)
{
    if (conn->closing)
        return;
    conn->half.data = conn;
    if (conn->ended || (conn->last && conn->listener->is_unix) ||
        uv_shutdown(&conn->half, &conn->handle.stream, on_half) < 0) {
        net_close(conn);
        return;
    }
    conn->paused = true;
    net_read_resume(conn);
    net_deadline(conn, LINGER_TIME);
}

static void on_written(uv_write_t *write, int status)
{
    struct net_conn *conn = write->data;

    conn->writing = false;
    if (conn->closing)
        return;
    if (status < 0) {
        net_close(conn);
        return;
    }
    buf_clear(&conn->flying);
    if (conn->queue.size) {
        queue_flush(conn);
        return;
    }
    buf_done(&conn->flying);
    buf_done(&conn->queue);
    if (conn->finishing)
        linger(conn);
    else if (conn->accepted && conn->listener->options.events->drained)
        conn->listener->options.events->drained(conn->arg);
}

/* Everything queued becomes one write. */
static void queue_flush(struct net_conn *conn)
{
    struct buf empty = conn->flying;
    uv_buf_t piece;

    conn->flying = conn->queue;
    conn->queue = empty;
    piece = uv_buf_init(conn->flying.data, (unsigned)conn->flying.size);
    conn->write.data = conn;
    conn->writing = true;
    if (uv_write(&conn->write, &conn->handle.stream, &piece, 1, on_written) < 0) {
        conn->writing = false;
        net_close(conn);
    }
}

/* Sealed or plain bytes towards the socket. */
static void raw_write(struct net_conn *conn, const char *data, size_t size)
{
    if (conn->closing)
        return;
    if (!conn->writing && conn->queue.size == 0) {
        uv_buf_t piece = uv_buf_init((char *)(uintptr_t)data, (unsigned)size);
        int n = uv_try_write(&conn->handle.stream, &piece, 1);

        if (n < 0 && n != UV_EAGAIN) {
            net_close(conn);
            return;
        }
        if (n > 0) {
            data += n;
            size -= (size_t)n;
        }
    }
    if (size == 0)
        return;
    conn->queue.max = conn->listener->options.queue_max;
    if (net_queued(conn) + size > conn->listener->options.queue_max) {
        net_close(conn); /* it does not read what it asked for */
        return;
    }
    buf_put(&conn->queue, data, size);
    if (conn->queue.error)
        net_close(conn);
    else if (!conn->writing)
        queue_flush(conn);
}

static void tls_flush(struct net_conn *conn)
{
    char sealed[SEAL_BYTES];
    size_t n;

    while (!conn->closing && (n = tls_drain(conn->tls, sealed, sizeof(sealed))) > 0)
        raw_write(conn, sealed, n);
}

void net_write(struct net_conn *conn, const void *data, size_t size)
{
    const char *at = data;
    struct error err;

    if (conn->closing || size == 0)
        return;
    if (!conn->tls) {
        raw_write(conn, data, size);
        return;
    }
    while (size && !conn->closing) {
        size_t part = size < SEAL_BYTES ? size : SEAL_BYTES;

        if (tls_write(conn->tls, at, part, &err) < 0) {
            net_close(conn);
            return;
        }
        tls_flush(conn);
        at += part;
        size -= part;
    }
}

size_t net_queued(const struct net_conn *conn)
{
    return conn->queue.size + (conn->writing ? conn->flying.size : 0);
}

static void conn_accept(struct net_conn *conn)
{
    struct net_listener *listener = conn->listener;

    net_deadline(conn, 0);
    conn->arg = listener->options.accept(listener->options.arg, conn);
    if (conn->arg)
        conn->accepted = true;
    else
        net_close(conn);
}

/* Sealed bytes came: opens them, and the handshake on the way. */
static void sealed_read(struct net_conn *conn, const char *data, size_t size)
{
    char plain[SEAL_BYTES];
    struct error err;
    int n;

    if (tls_feed(conn->tls, data, size, &err) < 0) {
        net_close(conn);
        return;
    }
    for (;;) {
        n = tls_read(conn->tls, plain, sizeof(plain), &err);
        tls_flush(conn);
        if (conn->closing)
            return;
        if (!conn->accepted && tls_ready(conn->tls))
            conn_accept(conn);
        if (conn->closing || n == 0)
            return;
        if (n < 0) {
            net_close(conn);
            return;
        }
        conn->listener->options.events->data(conn->arg, plain, (size_t)n);
        if (conn->closing)
            return;
    }
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    static char buffer[READ_BYTES]; /* handed over and done with before the next read */

    (void)handle;
    (void)suggested;
    *ret = uv_buf_init(buffer, sizeof(buffer));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *piece)
{
    struct net_conn *conn = stream->data;

    if (n == 0 || conn->closing)
        return;
    if (conn->finishing) {
        conn->discarded += n > 0 ? (size_t)n : 0;
        if (n < 0 || conn->discarded > DISCARD_MAX)
            net_close(conn);
        return;
    }
    if (n < 0) {
        const struct net_events *events = conn->listener->options.events;

        if (n == UV_EOF && conn->accepted && events->ended && !conn->ended) {
            conn->ended = true;
            (void)uv_read_stop(stream);
            events->ended(conn->arg);
        } else {
            net_close(conn);
        }
        return;
    }
    if (conn->tls)
        sealed_read(conn, piece->base, (size_t)n);
    else
        conn->listener->options.events->data(conn->arg, piece->base, (size_t)n);
}

void net_read_pause(struct net_conn *conn)
{
    if (!conn->paused && !conn->closing)
        (void)uv_read_stop(&conn->handle.stream);
    conn->paused = true;
}

void net_read_resume(struct net_conn *conn)
{
    if (conn->paused && !conn->closing && !conn->ended)
        (void)uv_read_start(&conn->handle.stream, on_alloc, on_read);
    conn->paused = false;
}

/* Timers come before what there is to read: a process that had no turn for long would find all its clients late, whose
 * requests lie there. So a deadline that has passed waits until that was read, once. */
static void on_deadline(uv_timer_t *timer)
{
    struct net_conn *conn = timer->data;
    uint64_t now = uv_now(timer->loop);

    if (now < conn->due || conn->due == 0) {
        if (conn->due)
            (void)uv_timer_start(timer, on_deadline, conn->due - now, 0);
        return;
    }
    if (!conn->late) {
        conn->late = true;
        (void)uv_timer_start(timer, on_deadline, 1, 0);
        return;
    }
    if (conn->accepted && !conn->finishing && conn->listener->options.events->deadline)
        conn->listener->options.events->deadline(conn->arg);
    else
        net_close(conn);
}

/* Deadlines move with every request, mostly to later: the timer is left as it is then, and looks when it comes. */
void net_deadline(struct net_conn *conn, usec_t span)
{
    uint64_t wait = (uint64_t)((span + USEC_MSEC - 1) / USEC_MSEC);

    if (conn->closing)
        return;
    conn->late = false;
    conn->due = span ? uv_now(conn->timer.loop) + wait : 0;
    if (span && (!uv_is_active((const uv_handle_t *)&conn->timer) || uv_timer_get_due_in(&conn->timer) > wait))
        (void)uv_timer_start(&conn->timer, on_deadline, wait, 0);
}

void net_last(struct net_conn *conn)
{
    conn->last = true;
}

void net_finish(struct net_conn *conn, usec_t span)
{
    if (conn->closing || conn->finishing)
        return;
    if (conn->tls) {
        tls_bye(conn->tls);
        tls_flush(conn);
    }
    conn->finishing = true;
    if (net_queued(conn) == 0)
        linger(conn);
    else
        net_deadline(conn, span);
}

static void peer_fill(struct net_conn *conn)
{
    struct sockaddr_storage address;
    int size = sizeof(address);

    if (conn->listener->is_unix) {
        socklen_t length = sizeof(conn->peer_user);
        uv_os_fd_t fd;

        /* Who it was when it connected: that does not change. */
        conn->known = uv_fileno((const uv_handle_t *)&conn->handle.stream, &fd) == 0 &&
                      getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &conn->peer_user, &length) == 0;
        (void)snprintf(conn->peer, sizeof(conn->peer), "unix");
        return;
    }
    if (uv_tcp_getpeername(&conn->handle.tcp, (struct sockaddr *)&address, &size) < 0 ||
        uv_ip_name((struct sockaddr *)&address, conn->peer, sizeof(conn->peer)) < 0)
        (void)snprintf(conn->peer, sizeof(conn->peer), "unknown");
    /* On a socket for both kinds: one machine has one name, by which it is counted. */
    if (strncmp(conn->peer, "::ffff:", 7) == 0 && strchr(conn->peer, '.'))
        memmove(conn->peer, conn->peer + 7, strlen(conn->peer + 7) + 1);
}

/* Whether a limit forbids one more. */
static bool conn_refused(struct net_conn *conn)
{
    struct net_listener *listener = conn->listener;

    if (listener->closing || listener->conns > listener->options.conns_max)
        return true;
    if (listener->is_unix)
        return false;
    conn->over = peer_enter(listener, conn->peer);
    return !conn->over;
}

/* A client on this machine has mostly asked by the time it is let in: that is read here, and not after another look at
 * all there is. */
static void read_now(struct net_conn *conn)
{
    uv_os_fd_t fd;
    uv_buf_t piece;
    ssize_t n;

    if (conn->closing || conn->paused || uv_fileno((const uv_handle_t *)&conn->handle.stream, &fd) < 0)
        return;
    on_alloc((uv_handle_t *)&conn->handle.stream, READ_BYTES, &piece);
    n = recv(fd, piece.base, piece.len, MSG_DONTWAIT);
    if (n > 0) /* its end, or what went wrong, the loop finds */
        on_read(&conn->handle.stream, n, &piece);
}

void listener_accept(uv_stream_t *server, int status)
{
    struct net_listener *listener = server->data;
    struct net_conn *conn;
    struct error err;

    if (status < 0)
        return;
    conn = mem_zalloc(1, sizeof(*conn));
    if (!conn)
        return;
    conn->listener = listener;
    if (listener->is_unix)
        (void)uv_pipe_init(loop_uv(listener->loop), &conn->handle.pipe, 0);
    else
        (void)uv_tcp_init(loop_uv(listener->loop), &conn->handle.tcp);
    (void)uv_timer_init(loop_uv(listener->loop), &conn->timer);
    conn->handle.stream.data = conn->timer.data = conn;
    conn->handles = 2;
    listener->conns++;
    if (uv_accept(server, &conn->handle.stream) < 0) {
        net_close(conn);
        return;
    }
    peer_fill(conn);
    if (conn_refused(conn)) {
        listener->refused++;
        net_close(conn);
        return;
    }
    if (listener->options.tls && tls_session_new(listener->options.tls, NULL, &conn->tls, &err) < 0) {
        net_close(conn);
        return;
    }
    if (uv_read_start(&conn->handle.stream, on_alloc, on_read) < 0)
        net_close(conn);
    else if (conn->tls)
        net_deadline(conn, listener->options.handshake);
    else
        conn_accept(conn);
    if (listener->is_unix)
        read_now(conn);
}

const char *net_peer(const struct net_conn *conn)
{
    return conn->peer;
}

bool net_peer_loopback(const struct net_conn *conn)
{
    return !conn->listener->is_unix && (strncmp(conn->peer, "127.", 4) == 0 || strcmp(conn->peer, "::1") == 0);
}

bool net_peer_user(const struct net_conn *conn, uid_t *ret_uid, gid_t *ret_gid)
{
    if (!conn->known)
        return false;
    *ret_uid = conn->peer_user.uid;
    *ret_gid = conn->peer_user.gid;
    return true;
}

usec_t net_peer_since(const struct net_conn *conn)
{
    return conn->tls ? tls_peer_since(conn->tls) : 0;
}

const char *net_peer_name(const struct net_conn *conn)
{
    return conn->tls ? tls_peer_name(conn->tls) : NULL;
}

bool net_secure(const struct net_conn *conn)
{
    return conn->tls != NULL;
}
