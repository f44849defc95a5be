/* SPDX-License-Identifier: Apache-2.0 */
/* ask_forward.c - a connection to a port of a running task.
 *
 * Jobs share the network of the node, so a port alone says nothing about whose it is: one is connected to only where a
 * process of the task itself listens. What other people's jobs, or the node, serve on the loopback stays out of reach.
 * A socket in a network that the job has made is none of ours, and one that is bound to an address of another machine
 * (IP_FREEBIND) leads there: this process is root, and rules of a firewall may let only root out.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/ask/ask.h"
#include "agent/util.h"
#include "base/alloc.h"

enum { PIDS_MAX = 4096, FORWARDS_MAX = 64, STATE_LISTEN = 10 };

static bool pid_has_socket(pid_t pid, unsigned long inode)
{
    char path[64], want[64], have[64];
    const struct dirent *entry;
    bool found = false;
    DIR *dir;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    (void)snprintf(want, sizeof(want), "socket:[%lu]", inode);
    dir = opendir(path);
    while (dir && !found && (entry = readdir(dir))) {
        ssize_t n = readlinkat(dirfd(dir), entry->d_name, have, sizeof(have) - 1);

        have[n > 0 ? n : 0] = '\0';
        found = strcmp(have, want) == 0;
    }
    if (dir)
        (void)closedir(dir);
    return found;
}

/* Words of an address as the kernel prints them: each as it lies in memory. Everywhere means the loopback. */
static bool address_read(const char *text, unsigned int port, struct sockaddr_storage *ret)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;
    uint32_t words[4];

    *ret = (struct sockaddr_storage){ 0 };
    if (strlen(text) == 8 && sscanf(text, "%8x", &words[0]) == 1) { /* NOLINT(cert-err34-c): the kernel's words */
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
        v4->sin_addr.s_addr = words[0] ? words[0] : htonl(INADDR_LOOPBACK);
        return true;
    }
    if (strlen(text) != 32 || /* NOLINTNEXTLINE(cert-err34-c) */
        sscanf(text, "%8x%8x%8x%8x", &words[0], &words[1], &words[2], &words[3]) != 4)
        return false;
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons((uint16_t)port);
    memcpy(&v6->sin6_addr, words, sizeof(words));
    if (IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr))
        v6->sin6_addr = in6addr_loopback;
    return true;
}

static bool address_same(const struct sockaddr *one, const struct sockaddr *two)
{
    if (one->sa_family != two->sa_family)
        return false;
    if (one->sa_family == AF_INET)
        return ((const struct sockaddr_in *)(const void *)one)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)(const void *)two)->sin_addr.s_addr;
    return one->sa_family == AF_INET6 &&
           IN6_ARE_ADDR_EQUAL(&((const struct sockaddr_in6 *)(const void *)one)->sin6_addr,
                              &((const struct sockaddr_in6 *)(const void *)two)->sin6_addr);
}

/* Is it an address of this machine? One of version 4 in the words of version 6 becomes what it is. */
static bool address_local(struct sockaddr_storage *at)
{
    const struct sockaddr_in6 six = *(const struct sockaddr_in6 *)at;
    struct sockaddr_in *four = (struct sockaddr_in *)at;
    struct ifaddrs *list = NULL;
    bool found = false;

    if (at->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
        *at = (struct sockaddr_storage){ 0 };
        four->sin_family = AF_INET;
        four->sin_port = six.sin6_port;
        memcpy(&four->sin_addr, &six.sin6_addr.s6_addr[12], 4);
    }
    if (at->ss_family == AF_INET && ntohl(four->sin_addr.s_addr) >> 24 == 127)
        return true;
    if (getifaddrs(&list) < 0)
        return false;
    for (const struct ifaddrs *entry = list; entry && !found; entry = entry->ifa_next)
        found = entry->ifa_addr && address_same(entry->ifa_addr, (const struct sockaddr *)at);
    freeifaddrs(list);
    return found;
}

/* Who listens on this port, among these processes: where to connect to. */
static bool listener_find(const char *table, unsigned int port, const pid_t *pids, int count,
                          struct sockaddr_storage *ret)
{
    char path[64], line[512], address[40];
    bool found = false;
    FILE *file;

    (void)snprintf(path, sizeof(path), "/proc/self/net/%s", table);
    file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof(line), file)) {
        unsigned int here, state;
        unsigned long inode;

        /* NOLINTNEXTLINE(cert-err34-c): the kernel's own words */
        if (sscanf(line, " %*d: %39[0-9A-F]:%x %*[0-9A-F]:%*x %x %*x:%*x %*x:%*x %*x %*u %*d %lu", address, &here,
                   &state, &inode) != 4 ||
            state != STATE_LISTEN || here != port)
            continue;
        for (int i = 0; i < count && !found; i++)
            found = pid_has_socket(pids[i], inode) && address_read(address, port, ret) && address_local(ret);
    }
    if (file)
        (void)fclose(file);
    return found;
}

/* Who listens is on this machine, and is there: it does not take long. */
static int port_connect(const struct sockaddr_storage *to)
{
    socklen_t size = to->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    int fd = socket(to->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), r;

    if (fd < 0)
        return -errno;
    if (connect(fd, (const struct sockaddr *)to, size) < 0 && errno != EINPROGRESS) {
        r = -errno;
        close(fd);
        return r;
    }
    return fd;
}

static bool too_many(const struct agent *agent, int64_t job)
{
    int count = 0;

    for (const struct ask *ask = agent->asks; ask; ask = ask->next)
        count += ask->forwards == job;
    return count >= FORWARDS_MAX;
}

void ask_forward(struct agent *agent, const json_t *frame)
{
    const struct task_id which = { util_i64(frame, "job", 0), (uint32_t)util_i64(frame, "attempt", 0),
                                   (uint32_t)util_i64(frame, "rank", 0) };
    int64_t id = util_i64(frame, "id", 0), port = util_i64(frame, "port", 0);
    struct task *task = task_find(agent, &which);
    const char *wrong = ask_enterable(task);
    struct sockaddr_storage to;
    char words[128];
    pid_t *pids;
    int count, fd, r;

    if (!wrong && (port < 1 || port > UINT16_MAX))
        wrong = "port: expected 1 to 65535";
    if (!wrong && too_many(agent, which.job))
        wrong = "too many connections to ports of this job at once";
    if (wrong) {
        ask_refuse(agent, id, task ? "Conflict" : "NotFound", wrong);
        return;
    }
    pids = mem_zalloc(PIDS_MAX, sizeof(*pids));
    count = pids ? task_pids(task, pids, PIDS_MAX) : 0;
    count = count < PIDS_MAX ? count : PIDS_MAX;
    if (count == 0 || (!listener_find("tcp", (unsigned int)port, pids, count, &to) &&
                       !listener_find("tcp6", (unsigned int)port, pids, count, &to))) {
        (void)snprintf(words, sizeof(words), "nothing of job %lld listens on port %lld here", (long long)which.job,
                       (long long)port);
        ask_refuse(agent, id, "NotFound", words);
        mem_free(pids);
        return;
    }
    mem_free(pids);
    fd = port_connect(&to);
    r = fd < 0 ? fd : ask_carry(agent, id, which.job, fd);
    if (r < 0)
        ask_refuse(agent, id, "Internal", strerror(-r));
}
