/* SPDX-License-Identifier: Apache-2.0 */
/* output_writer.c - files that a user named for output are opened and written by a process of their own.
 *
 * Their file system may hang, and whoever writes there hangs with it, in the kernel, where no signal reaches. The
 * shepherd must not: it hands over what there is as packets, and never waits to do so. When the other end takes no
 * more, the rest of a packet or two is kept here and the pipes of the task are not read until there is room again, so
 * that the task waits for its file as it would if it wrote there itself. At the end what was handed over is waited for,
 * for a moment. The writer is nobody's child and goes on by itself: what has hung is written when it no longer does.
 *
 * It writes with the user's rights, as it opened: root may go beyond a quota, and into the room that a file system
 * keeps for root.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/shepherd/child.h"
#include "agent/shepherd/shepherd.h"
#include "agent/util.h"
#include "base/alloc.h"

enum { PACKET_BYTES = 65536, OPEN_MS = 30000, END_MS = 5000, LEFT_MAX = 1 << 20 };

struct packet_head {
    uint32_t sink, size; /* bytes that follow */
    bool open;           /* they are the name of a file */
};

struct written {
    int fd; /* -1 = none */
    uint64_t lost;
};

static int file_open(const struct shepherd *s, const char *path)
{
    /* The first attempt truncates the file; ranks share it, so only one of them does. */
    bool fresh = s->id.attempt == 0 && s->id.rank == 0;
    int flags = O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY | O_NONBLOCK;
    int fd = user_open(s->plan, path, flags, 0644);

    if (fd >= 0 && (!user_file_plain(fd) || (fresh && ftruncate(fd, 0) < 0 && errno != EINVAL))) {
        close(fd);
        return -ENXIO;
    }
    if (fd >= 0 && s->id.attempt > 0)
        shepherd_attempt_header(s, fd);
    return fd;
}

static void packet_take(const struct shepherd *s, int peer, struct written *list, const struct packet_head *head,
                        char *data)
{
    struct written *to = &list[head->sink];
    int r;

    if (head->open) {
        data[head->size] = '\0';
        user_stay_end(s->plan);
        r = file_open(s, data);
        to->fd = r < 0 ? -1 : r;
        if (user_stay(s->plan) < 0)
            _exit(1); /* nothing is written as root */
        (void)send(peer, &r, sizeof(r), MSG_NOSIGNAL);
    } else if (to->fd < 0 || util_write_all(to->fd, data, head->size) < 0) {
        to->lost += head->size; /* the disk is full, or the server of it gone: the job goes on */
    }
}

/* Everything else that the shepherd has open is not to stay open with it: others wait for its end. */
static _Noreturn void writer_main(const struct shepherd *s, int peer, uint32_t count)
{
    struct written *list = mem_zalloc(count, sizeof(*list));
    char *data = mem_zalloc(1, PACKET_BYTES + 1), mark[96];
    struct packet_head head;
    struct iovec parts[] = { { &head, sizeof(head) }, { data, PACKET_BYTES } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };

    if (peer > 3)
        (void)close_range(3, (unsigned int)peer - 1, 0);
    (void)close_range((unsigned int)peer + 1, ~0U, 0);
    (void)prctl(PR_SET_NAME, "muster-output", 0, 0, 0);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    for (uint32_t i = 0; list && i < count; i++)
        list[i].fd = -1;
    while (list && data) {
        ssize_t n = recvmsg(peer, &message, 0);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < (ssize_t)sizeof(head) || head.sink >= count || head.size != (size_t)n - sizeof(head))
            break;
        packet_take(s, peer, list, &head, data);
    }
    for (uint32_t i = 0; list && i < count; i++) {
        if (list[i].fd < 0)
            continue;
        if (list[i].lost > 0) {
            int n =
                snprintf(mark, sizeof(mark), "[muster: %llu bytes were dropped]\n", (unsigned long long)list[i].lost);

            (void)util_write_all(list[i].fd, mark, (size_t)n);
        }
        close(list[i].fd);
    }
    _exit(0);
}

static bool files_wanted(const struct shepherd *s, uint32_t *ret_count)
{
    const json_t *procs = json_object_get(s->plan, "procs"), *proc;
    bool any = false;
    size_t i;

    json_array_foreach(procs, i, proc) any = any || util_text(proc, "out") || util_text(proc, "err");
    *ret_count = (uint32_t)(2 + 2 * json_array_size(procs)); /* sinks there can be */
    return any;
}

int output_writer_start(struct shepherd *s)
{
    int ends[2], status;
    uint32_t count;
    pid_t pid;

    s->writer = -1;
    s->unwritten.max = LEFT_MAX;
    if (!files_wanted(s, &count))
        return 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return -errno;
    pid = fork();
    if (pid == 0) {
        pid = fork();
        if (pid == 0)
            writer_main(s, ends[1], count);
        _exit(pid < 0);
    }
    close(ends[1]);
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        close(ends[0]);
        return -EAGAIN;
    }
    s->writer = ends[0];
    return 0;
}

static int packet_send(const struct shepherd *s, struct packet_head *head, const void *data)
{
    struct iovec parts[] = { { head, sizeof(*head) }, { (void *)(uintptr_t)data, head->size } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };

    return sendmsg(s->writer, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

int output_writer_open(struct shepherd *s, uint32_t sink, const char *path)
{
    struct packet_head head = { .sink = sink, .size = (uint32_t)strlen(path), .open = true };
    struct pollfd answer = { .fd = s->writer, .events = POLLIN };
    int r = s->writer < 0 ? -EPIPE : packet_send(s, &head, path), got;

    if (r < 0)
        return r;
    do
        got = poll(&answer, 1, OPEN_MS);
    while (got < 0 && errno == EINTR);
    if (got <= 0)
        return -ETIMEDOUT;
    return recv(s->writer, &r, sizeof(r), 0) == sizeof(r) ? (r < 0 ? r : 0) : -EPIPE;
}

static void writer_gone(struct shepherd *s)
{
    if (s->writer >= 0)
        close(s->writer);
    s->writer = -1;
    buf_clear(&s->unwritten);
}

void output_writer_put(struct shepherd *s, uint32_t sink, const void *data, size_t size)
{
    struct packet_head head = { .sink = sink, .size = (uint32_t)size };
    int r = s->writer < 0 ? -EPIPE : s->unwritten.size > 0 ? -EAGAIN : packet_send(s, &head, data);

    if (r == -EAGAIN || r == -ENOBUFS) {
        buf_put(&s->unwritten, &head, sizeof(head));
        buf_put(&s->unwritten, data, size);
    } else if (r < 0) {
        writer_gone(s);
    }
}

void output_writer_flush(struct shepherd *s)
{
    size_t used = 0;

    while (s->writer >= 0 && used < s->unwritten.size) {
        struct packet_head head;
        int r;

        memcpy(&head, s->unwritten.data + used, sizeof(head));
        r = packet_send(s, &head, s->unwritten.data + used + sizeof(head));
        if (r == -EAGAIN || r == -ENOBUFS || r == -EINTR)
            break;
        if (r < 0) {
            writer_gone(s);
            return;
        }
        used += sizeof(head) + head.size;
    }
    if (used > 0)
        s->writer_until = 0; /* it is slow, and does not hang */
    memmove(s->unwritten.data, s->unwritten.data + used, s->unwritten.size - used);
    s->unwritten.size -= used;
}

/* True: something can be done again before the end of the wait. */
static bool writer_wait(struct shepherd *s, short events)
{
    struct pollfd writer = { .fd = s->writer, .events = events };
    usec_t now = clock_boot();
    int got;

    if (!s->writer_until)
        s->writer_until = now + END_MS * USEC_MSEC;
    do
        got = s->writer_until > now ? poll(&writer, 1, (int)((s->writer_until - now) / USEC_MSEC) + 1) : 0;
    while (got < 0 && errno == EINTR);
    return got > 0;
}

bool output_writer_drain(struct shepherd *s)
{
    while (s->unwritten.size > 0 && writer_wait(s, POLLOUT))
        output_writer_flush(s);
    return s->unwritten.size == 0;
}

uint64_t output_writer_end(struct shepherd *s)
{
    uint64_t left = output_writer_drain(s) ? 0 : s->unwritten.size;
    char byte;

    if (s->writer >= 0 && left == 0) {
        (void)shutdown(s->writer, SHUT_WR);
        while (writer_wait(s, POLLIN) && recv(s->writer, &byte, 1, MSG_DONTWAIT) > 0)
            ; /* its end says that all is written */
    }
    writer_gone(s);
    buf_done(&s->unwritten);
    return left;
}
