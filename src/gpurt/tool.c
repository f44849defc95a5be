/* SPDX-License-Identifier: Apache-2.0 */
/* tool.c - finding, starting and asking the node side. */
#include "gpurt/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "shim/channel.h"
#include "shim/page.h"

#define START_TRIES 200
#define SOCKET_MOST 107

int tool_paths(char *run_dir, char *socket_path, struct error *err)
{
    const char *base = getenv("MUSTER_GPU_RUN_DIR"), *runtime = getenv("XDG_RUNTIME_DIR");
    const char *given = getenv("MUSTER_GPU_SOCKET");
    struct stat st;
    int n;

    if (base && *base)
        n = snprintf(run_dir, TOOL_PATH_MAX, "%s", base);
    else if (runtime && *runtime)
        n = snprintf(run_dir, TOOL_PATH_MAX, "%s/muster", runtime);
    else
        n = snprintf(run_dir, TOOL_PATH_MAX, "/tmp/muster-%u", (unsigned int)getuid());
    if (n > TOOL_RUN_DIR_MOST) /* sockets are made in it, and a guardian's name is the longest */
        return error_set(err, -ENAMETOOLONG,
                         "%.40s...: has %d characters, a directory of sockets at most %d; set "
                         "MUSTER_GPU_RUN_DIR to a shorter one",
                         run_dir, n, TOOL_RUN_DIR_MOST);
    if (given && strlen(given) > SOCKET_MOST)
        return error_set(err, -ENAMETOOLONG, "MUSTER_GPU_SOCKET: a socket's path has at most %d characters, not %zu",
                         SOCKET_MOST, strlen(given));
    if (mkdir(run_dir, 0700) < 0 && errno != EEXIST)
        return error_set(err, -errno, "%s: %s", run_dir, strerror(errno));
    if (lstat(run_dir, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != getuid())
        return error_set(err, -EPERM, "%s: not a directory of yours; set MUSTER_GPU_RUN_DIR to one", run_dir);
    if (given && *given)
        (void)snprintf(socket_path, TOOL_PATH_MAX, "%s", given);
    else
        (void)snprintf(socket_path, TOOL_PATH_MAX, "%.85s/gpu.sock", run_dir);
    return 0;
}

int tool_ask(const char *socket_path, const char *line, unsigned int wait_s, char *text, size_t size, struct error *err)
{
    struct {
        struct message_head head;
        char line[256];
    } m = { .head = { MSG_CONTROL, sizeof(m) } };
    struct pollfd p = { .events = POLLIN };
    ssize_t n;
    int fd;

    if (strlen(line) >= sizeof(m.line))
        return error_set(err, -E2BIG, "the order is longer than %zu characters", sizeof(m.line) - 1);
    memcpy(m.line, line, strlen(line) + 1);
    fd = channel_connect(socket_path, SOCK_NONBLOCK);
    if (fd == -EAGAIN)
        return error_set(err, -ETIMEDOUT, "%s: too many wait there already; the node side takes none of them",
                         socket_path);
    if (fd < 0)
        return error_set(err, -ECONNREFUSED,
                         "%s: nobody answers; `muster gpu run` or `muster gpu agent` starts the node side",
                         socket_path);
    p.fd = fd;
    n = send(fd, &m, sizeof(m.head) + strlen(line) + 1, MSG_NOSIGNAL);
    if (n < 0 || poll(&p, 1, (int)wait_s * 1000) != 1) {
        close(fd);
        return error_set(err, -ETIMEDOUT, "no answer within %u s", wait_s);
    }
    n = recv(fd, text, size - 1, 0);
    close(fd);
    if (n <= 0)
        return error_set(err, -EPIPE, "the node side closed the connection");
    text[n] = '\0';
    return 0;
}

bool tool_answers(const char *socket_path)
{
    /* Without a wait: where the queue of one that hangs is full, a connection would be waited for without an end. */
    int fd = channel_connect(socket_path, SOCK_NONBLOCK);

    if (fd >= 0)
        close(fd);
    return fd >= 0 || fd == -EAGAIN;
}

int tool_start(const char *socket_path, const char *program, struct error *err)
{
    struct timespec nap = { 0, 10 * 1000 * 1000 };
    int null;
    pid_t pid;

    if (tool_answers(socket_path))
        return 0;
    pid = fork();
    if (pid < 0)
        return error_set(err, -errno, "fork: %s", strerror(errno));
    if (pid == 0) {
        setsid();
        null = open("/dev/null", O_RDWR);
        for (int i = 0; i < 3 && null >= 0; i++)
            (void)dup2(null, i);
        (void)unsetenv("LD_PRELOAD");
        (void)setenv("MUSTER_GPU_SOCKET", socket_path, 1);
        execl(program, program, "gpu", "agent", "--idle-exit", "60", (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < START_TRIES; i++) {
        if (tool_answers(socket_path))
            return 0;
        nanosleep(&nap, NULL);
    }
    return error_set(err, -ETIMEDOUT, "the node side did not start within 2 s");
}
