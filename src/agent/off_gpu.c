/* SPDX-License-Identifier: Apache-2.0 */
/* off_gpu.c - see off_gpu.h. The node side is asked by the socket the agent made; only of a task that brought the
 * library itself, each program says in its environment where its own listens. */
#include "agent/off_gpu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/shepherd/child.h"
#include "agent/task/procs.h"
#include "agent/util.h"
#include "gpurt/tool.h"

enum { WAIT_S = 300 };

struct request {
    const json_t *plan;
    const char *socket_path; /* NULL: as each program has it */
    bool off;
    int64_t memory_mib, percent;
};

/* One line, and whether it was carried out: an answer may be a refusal. A shell has the library too, and no GPU. */
static int ask_line(const char *socket_path, const char *line)
{
    char text[512];
    int r = tool_ask(socket_path, line, WAIT_S, text, sizeof(text), NULL);

    if (r == 0 && strncmp(text, "error: no process ", 18) == 0 && strstr(text, " is registered"))
        return -ENOENT;
    return r < 0 || strncmp(text, "error", 5) != 0 ? r : -EIO;
}

static int off_one(const struct request *request, const char *socket_path, pid_t pid)
{
    char line[64];

    (void)snprintf(line, sizeof(line), "%s %d", request->off ? "release" : "resume", (int)pid);
    return ask_line(socket_path, line);
}

static int limit_one(const struct request *request, const char *socket_path, pid_t pid)
{
    char line[128];
    int r;

    (void)snprintf(line, sizeof(line), "%s %d", request->percent == 0 ? "pause" : "resume", (int)pid);
    r = ask_line(socket_path, line);
    if (r < 0 || request->percent == 0)
        return r;
    (void)snprintf(line, sizeof(line), "set %d share=%lld memory=%lld", (int)pid, (long long)request->percent * 10,
                   (long long)request->memory_mib << 20);
    return ask_line(socket_path, line);
}

typedef int (*ask_fn)(const struct request *request, const char *socket_path, pid_t pid);

/* Whether it was done, or there was nothing to do. */
static bool ask_one(const struct request *request, pid_t pid, ask_fn ask)
{
    char own[TOOL_PATH_MAX];
    int r;

    if (!procs_maps(pid, "/libmuster_gpu.so"))
        return true;
    if (request->socket_path)
        (void)snprintf(own, sizeof(own), "%s", request->socket_path);
    else if (procs_variable(pid, "MUSTER_GPU_SOCKET", own, sizeof(own)) < 0)
        return false;
    r = ask(request, own, pid);
    return r == 0 || r == -ENOENT;
}

/* A socket that a program of the user names is no path for root. */
static int user_become(const json_t *plan)
{
    json_t *own;
    int r = -ENOMEM;

    if (!plan)
        return 0;
    own = json_pack("{so}", "switch", json_boolean(util_flag(plan, "owned")));
    if (own && json_object_update_missing(own, (json_t *)(uintptr_t)plan) == 0)
        r = child_become(own);
    json_decref(own);
    return r;
}

/* In a process of its own, which asks each program that has the library; 0: none has. */
static pid_t ask_start(const struct request *request, const pid_t *pids, int count, ask_fn ask)
{
    bool any = false, done = true;
    pid_t child;

    for (int i = 0; i < count && !any; i++)
        any = procs_maps(pids[i], "/libmuster_gpu.so");
    if (!any)
        return 0;
    child = fork();
    if (child != 0)
        return child < 0 ? -errno : child;
    if (!request->socket_path && user_become(request->plan) < 0)
        _exit(1);
    for (int i = 0; i < count; i++)
        done = ask_one(request, pids[i], ask) && done;
    _exit(done ? 0 : 1);
}

pid_t limit_gpu_start(const json_t *plan, const pid_t *pids, int count, int64_t memory_mib, int64_t percent)
{
    const struct request request = {
        .plan = plan, .socket_path = util_text(plan, "gpu_socket"), .memory_mib = memory_mib, .percent = percent
    };

    return ask_start(&request, pids, count, limit_one);
}

pid_t off_gpu_start(const json_t *plan, const pid_t *pids, int count, bool off)
{
    const struct request request = { .plan = plan, .socket_path = util_text(plan, "gpu_socket"), .off = off };

    return ask_start(&request, pids, count, off_one);
}
