/* SPDX-License-Identifier: Apache-2.0 */
/* off_gpu.c - see off_gpu.h. A program says in its environment where the node side of its runtime listens. */
#include "agent/off_gpu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/procs.h"
#include "gpurt/tool.h"

enum { WAIT_S = 300 };

/* One line, and whether it was carried out: an answer may be a refusal. */
static int ask_line(const char *socket_path, const char *line)
{
    char text[512];
    int r = tool_ask(socket_path, line, WAIT_S, text, sizeof(text), NULL);

    return r < 0 || strncmp(text, "error", 5) != 0 ? r : -EIO;
}

static int ask_one(pid_t pid, const void *arg)
{
    const bool *off = arg;
    char socket_path[TOOL_PATH_MAX], line[64];

    if (procs_variable(pid, "MUSTER_GPU_SOCKET", socket_path, sizeof(socket_path)) < 0)
        return -ENOENT;
    (void)snprintf(line, sizeof(line), "%s %d", *off ? "release" : "resume", (int)pid);
    return ask_line(socket_path, line);
}

struct limit {
    int64_t memory_mib, percent;
};

static int limit_one(pid_t pid, const void *arg)
{
    const struct limit *limit = arg;
    char socket_path[TOOL_PATH_MAX], line[128];
    int r;

    if (procs_variable(pid, "MUSTER_GPU_SOCKET", socket_path, sizeof(socket_path)) < 0)
        return -ENOENT;
    (void)snprintf(line, sizeof(line), "%s %d", limit->percent == 0 ? "pause" : "resume", (int)pid);
    r = ask_line(socket_path, line);
    if (r < 0 || limit->percent == 0)
        return r;
    (void)snprintf(line, sizeof(line), "set %d share=%lld memory=%lld", (int)pid, (long long)limit->percent * 10,
                   (long long)limit->memory_mib << 20);
    return ask_line(socket_path, line);
}

/* In a process of its own, which asks each program that has the library; 0: none has. */
static pid_t ask_start(const pid_t *pids, int count, int (*ask)(pid_t pid, const void *arg), const void *arg)
{
    bool any = false;
    pid_t child;

    for (int i = 0; i < count && !any; i++)
        any = procs_maps(pids[i], "/libmuster_gpu.so");
    if (!any)
        return 0;
    child = fork();
    if (child != 0)
        return child < 0 ? -errno : child;
    for (int i = 0; i < count; i++)
        if (procs_maps(pids[i], "/libmuster_gpu.so"))
            any = ask(pids[i], arg) == 0 && any;
    _exit(any ? 0 : 1);
}

pid_t limit_gpu_start(const pid_t *pids, int count, int64_t memory_mib, int64_t percent)
{
    const struct limit limit = { memory_mib, percent };

    return ask_start(pids, count, limit_one, &limit);
}

pid_t off_gpu_start(const pid_t *pids, int count, bool off)
{
    return ask_start(pids, count, ask_one, &off);
}
