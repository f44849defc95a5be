/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_runtime.c - see gpu_runtime.h. */
#include "agent/gpu_runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/util.h"
#include "base/alloc.h"
#include "gpurt/grant.h"
#include "gpurt/preload.h"
#include "gpurt/tool.h"
#include "io/log.h"

#define AGAIN (5 * USEC_SEC) /* a node side that ends at once is not started all the time */
#define IDLE_EXIT "60"       /* it ends by itself when nobody has it */

struct gpu_runtime {
    char library[PATH_MAX], python[PATH_MAX], program[PATH_MAX];
    char place[TOOL_PATH_MAX], run_dir[TOOL_PATH_MAX], socket[TOOL_PATH_MAX];
    pid_t pid; /* the node side that we have started, to be buried; 0 = none */
    usec_t next;
};

static const char *const use_names[GPU_RUNTIME_USES] = { "shared", "all", "off" };

const char *gpu_runtime_name(enum gpu_runtime_use use)
{
    return use_names[use];
}

int gpu_runtime_find(const char *name)
{
    for (int i = 0; i < GPU_RUNTIME_USES; i++)
        if (strcmp(name, use_names[i]) == 0)
            return i;
    return -ENOENT;
}

/* The folder of the socket: where tasks are, which is in memory and everybody's to pass through. */
static int place_make(const struct agent *agent, struct gpu_runtime *rt, struct error *err)
{
    char tasks[PATH_MAX + 8], real[PATH_MAX], *slash;
    int n;

    (void)snprintf(tasks, sizeof(tasks), "%s/tasks", agent->state_path);
    if (!realpath(tasks, real) || !(slash = strrchr(real, '/')))
        return error_set(err, -errno, "%s: %s", tasks, strerror(errno));
    *slash = '\0';
    n = snprintf(rt->run_dir, sizeof(rt->run_dir), "%s/gpu/run", real);
    if (n < 0 || n > TOOL_RUN_DIR_MOST)
        return error_set(err, -ENAMETOOLONG, "%s: too long for the sockets of a node side", real);
    (void)snprintf(rt->place, sizeof(rt->place), "%.*s", n - 4, rt->run_dir);
    (void)snprintf(rt->socket, sizeof(rt->socket), "%.90s/gpu.sock", rt->place);
    if ((mkdir(rt->place, 0711) < 0 && errno != EEXIST) || chmod(rt->place, 0711) < 0 ||
        (mkdir(rt->run_dir, 0700) < 0 && errno != EEXIST))
        return error_set(err, -errno, "%s: %s", rt->place, strerror(errno));
    return 0;
}

/* `muster` is beside us; its full program, with the gpu verbs, it finds itself. */
static int program_beside(char *program, struct error *err)
{
    ssize_t n = readlink("/proc/self/exe", program, PATH_MAX - sizeof("muster"));
    char *slash;

    program[n > 0 ? n : 0] = '\0';
    slash = strrchr(program, '/');
    if (!slash)
        return error_set(err, -ENOENT, "nobody says where this program is");
    memcpy(slash + 1, "muster", sizeof("muster"));
    return access(program, X_OK) == 0 ? 0 : error_set(err, -ENOENT, "%s: %s", program, strerror(errno));
}

void gpu_runtime_open(struct agent *agent)
{
    struct gpu_runtime *rt;
    struct error err = { 0 };

    if (agent->config.gpu_runtime == GPU_RUNTIME_OFF || agent->gpus->fake || agent->gpus->amd ||
        agent->gpus->count == 0)
        return;
    rt = mem_zalloc(1, sizeof(*rt));
    if (!rt)
        return;
    if (program_beside(rt->program, &err) < 0 || preload_find(rt->program, rt->library, &err) < 0 ||
        place_make(agent, rt, &err) < 0) {
        log_warn("no GPU runtime: jobs that share a GPU are not held back", "node", agent->config.node, "why",
                 err.text);
        mem_free(rt);
        return;
    }
    if (!preload_python(rt->library, rt->python))
        rt->python[0] = '\0';
    log_info("GPU runtime", "for", gpu_runtime_name((enum gpu_runtime_use)agent->config.gpu_runtime), "library",
             rt->library);
    agent->runtime = rt;
}

void gpu_runtime_close(struct agent *agent)
{
    mem_free(agent->runtime);
    agent->runtime = NULL;
}

bool gpu_runtime_for(const struct agent *agent, const struct launch *launch)
{
    return agent->runtime && launch_here(launch)->gpu_count > 0 &&
           (agent->config.gpu_runtime == GPU_RUNTIME_ALL || launch->runtime);
}

/* The same as the variables of the task say (task_environ.c), where no program can change it. */
void gpu_runtime_grant(const struct task *task)
{
    const struct agent *agent = task->agent;
    const struct launch *l = &task->launch;
    bool part = l->spec.gpu_share > 0 && l->spec.gpu_share < MGPU_ONE;
    struct grant grant = { .role = part               ? GRANT_NONE
                                   : l->opportunistic ? GRANT_OPPORTUNISTIC
                                                      : GRANT_GUARANTEED,
                           .share = part ? (uint32_t)l->spec.gpu_share : 0,
                           .memory = l->opportunistic && l->limit_mib > 0 ? (uint64_t)l->limit_mib << 20 : 0 };
    uint32_t mib = agent->gpus->memory_mib;
    char cgroup[CGROUP_PATH_MAX];
    int r;

    if (part && mib && !grant.memory)
        grant.memory = (uint64_t)muldiv_floor((int64_t)mib << 20, l->spec.gpu_share, MGPU_ONE);
    (void)snprintf(grant.job, sizeof(grant.job), "%lld", (long long)l->id.job);
    task_cgroup(task, cgroup, sizeof(cgroup));
    r = grant_put(agent->runtime->run_dir, task->name, cgroup, &grant);
    if (r < 0)
        log_warn("the node side is not told of a task", "task", task->name, "why", strerror(-r));
}

void gpu_runtime_ungrant(const struct task *task)
{
    if (task->agent->runtime)
        grant_drop(task->agent->runtime->run_dir, task->name);
}

struct gpu_runtime_paths gpu_runtime_paths(const struct agent *agent)
{
    const struct gpu_runtime *rt = agent->runtime;

    return (struct gpu_runtime_paths){ rt->library, rt->python, rt->socket, rt->place };
}

/* Our variables but the library's own, and its. */
static char **variables(const struct gpu_runtime *rt, char set[3][PATH_MAX + 32])
{
    size_t count = 0, n = 0;
    char **list;

    while (environ[count])
        count++;
    list = mem_zalloc(count + 4, sizeof(*list));
    for (size_t i = 0; list && i < count; i++)
        if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0 && strncmp(environ[i], "MUSTER_GPU_SOCKET=", 18) != 0 &&
            strncmp(environ[i], "MUSTER_GPU_RUN_DIR=", 19) != 0)
            list[n++] = environ[i];
    (void)snprintf(set[0], sizeof(set[0]), "MUSTER_GPU_SOCKET=%s", rt->socket);
    (void)snprintf(set[1], sizeof(set[1]), "MUSTER_GPU_RUN_DIR=%s", rt->run_dir);
    (void)snprintf(set[2], sizeof(set[2]), "MUSTER_GPU_EVERYONE=1");
    for (int i = 0; list && i < 3; i++)
        list[n++] = set[i];
    return list;
}

void gpu_runtime_start(struct agent *agent)
{
    struct gpu_runtime *rt = agent->runtime;
    char *argv[] = { rt->program, "gpu", "agent", "--idle-exit", IDLE_EXIT, NULL }, set[3][PATH_MAX + 32];
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none, all;
    char **env;
    int r;

    if (rt->pid > 0 && waitpid(rt->pid, NULL, WNOHANG) != 0)
        rt->pid = 0;
    if (rt->pid > 0 || tool_answers(rt->socket) || clock_boot() < rt->next)
        return;
    rt->next = clock_boot() + AGAIN;
    env = variables(rt, set);
    if (!env)
        return;
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    (void)posix_spawnattr_init(&how);
    (void)posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    (void)posix_spawnattr_setsigmask(&how, &none);
    (void)posix_spawnattr_setsigdefault(&how, &all);
    (void)posix_spawn_file_actions_init(&files);
    (void)posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    r = posix_spawn(&rt->pid, rt->program, &files, &how, argv, env);
    if (r != 0) {
        rt->pid = 0;
        log_warn("no node side of the GPU runtime", "program", rt->program, "why", strerror(r));
    }
    (void)posix_spawn_file_actions_destroy(&files);
    (void)posix_spawnattr_destroy(&how);
    mem_free(env);
}

void gpu_runtime_turn(struct agent *agent)
{
    bool any = false;

    if (!agent->runtime)
        return;
    if (agent->runtime->pid > 0 && waitpid(agent->runtime->pid, NULL, WNOHANG) != 0)
        agent->runtime->pid = 0;
    for (const struct task *task = agent->tasks; task && !any; task = task->next)
        any = task->launch.order && !task_over(task) && gpu_runtime_for(agent, &task->launch);
    if (any)
        gpu_runtime_start(agent);
}
