/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* channel.h - both ends of the socket between a job process and the node side: addresses, messages with a descriptor,
 * the start time by which a process is told from a later one of the same number. Of its own, because the library in the
 * job may use nothing but libc.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

/* 0, or -ENAMETOOLONG. */
static inline int channel_address(const char *path, struct sockaddr_un *ret)
{
    size_t n = strlen(path);

    *ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
    if (n >= sizeof(ret->sun_path))
        return -ENAMETOOLONG;
    memcpy(ret->sun_path, path, n + 1);
    return 0;
}

/* A connected socket, or -errno. `flags`: SOCK_NONBLOCK or 0. */
static inline int channel_connect(const char *path, int flags)
{
    struct sockaddr_un addr;
    int fd, r = channel_address(path, &addr);

    if (r < 0)
        return r;
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0)
        return fd;
    r = -errno;
    close(fd);
    return r;
}

/* One message, with a descriptor when `pass` is one. False: not sent. Never waits. */
static inline bool channel_send(int fd, const void *data, size_t size, int pass)
{
    struct iovec iov = { .iov_base = (void *)(uintptr_t)data, .iov_len = size };
    char control[CMSG_SPACE(sizeof(int))] = { 0 };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

    if (pass >= 0) {
        struct cmsghdr *c;

        msg.msg_control = control;
        msg.msg_controllen = sizeof(control);
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &pass, sizeof(int));
    }
    return sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size;
}

/* One message and the descriptor that came with it (-1 none). 0 = closed, <0 = nothing there. Never waits. */
static inline ssize_t channel_receive(int fd, void *data, size_t size, int *ret_fd)
{
    struct iovec iov = { .iov_base = data, .iov_len = size };
    char control[CMSG_SPACE(sizeof(int))];
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
    ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    struct cmsghdr *c;

    *ret_fd = -1;
    if (n < 0)
        return n;
    c = CMSG_FIRSTHDR(&msg);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(ret_fd, CMSG_DATA(c), sizeof(int));
    return n;
}

/* When did the process start, in clock ticks since boot? 0 = there is none. */
static inline uint64_t channel_start_ticks(pid_t pid)
{
    char path[64], text[1024];
    const char *p;
    size_t n;
    FILE *f;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    f = fopen(path, "re");
    if (!f)
        return 0;
    n = fread(text, 1, sizeof(text) - 1, f);
    (void)fclose(f);
    text[n] = '\0';
    p = strrchr(text, ')'); /* the name may hold blanks */
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    return p ? strtoull(p, NULL, 10) : 0;
}
