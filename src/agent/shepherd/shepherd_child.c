/* SPDX-License-Identifier: Apache-2.0 */
/* shepherd_child.c - the forked process on its way to the user's program.
 *
 * Enters the group, takes the limits, becomes the user, and waits at the gate; everything that can fail fails before
 * it. From the fork on it never goes back: it execs or leaves. It dies with its shepherd. One that has nobody to wait
 * for may run in the shepherd's memory (cgroup_spawn()): what it makes there stays.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/shepherd/child.h"
#include "agent/shepherd/shepherd.h"
#include "agent/util.h"
#include "base/alloc.h"

static _Noreturn void child_fail(int status, char blame, const char *format, ...) __attribute__((format(printf, 3, 4)));

static _Noreturn void child_fail(int status, char blame, const char *format, ...)
{
    char text[CAUSE_MAX] = { blame };
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text + 1, sizeof(text) - 1, format, args);
    va_end(args);
    (void)util_write_all(status, text, strlen(text));
    _exit(126);
}

size_t child_groups(const json_t *plan, gid_t groups[CHILD_GROUPS_MAX])
{
    const json_t *list = json_object_get(plan, "groups"), *group;
    size_t i, count = 0;

    json_array_foreach(list, i, group) if (count < CHILD_GROUPS_MAX) groups[count++] = (gid_t)json_integer_value(group);
    if (count == 0)
        groups[count++] = (gid_t)util_i64(plan, "gid", 0);
    return count;
}

/* An agent that its unit keeps from the kernel when memory runs out does not hand that on: a job would be the last to
 * be killed for what it took itself. Before the change of user, who may no longer open this, and before namespaces are
 * joined. */
void child_oom_reset(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    (void)!write(fd, "0", 1);
    close(fd);
}

/* By the bare system calls: the C library's would change all threads of the process, and after a bare clone it still
 * believes in those of the parent and waits for them. */
int child_become(const json_t *plan)
{
    uid_t uid = (uid_t)util_i64(plan, "uid", 0);
    gid_t gid = (gid_t)util_i64(plan, "gid", 0), groups[CHILD_GROUPS_MAX];

    if (util_flag(plan, "switch") &&
        (syscall(SYS_setgroups, child_groups(plan, groups), groups) < 0 || syscall(SYS_setresgid, gid, gid, gid) < 0 ||
         syscall(SYS_setresuid, uid, uid, uid) < 0))
        return -errno;
    return util_flag(plan, "no_new_privs") && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

/* What is put into the session's keyring, tickets of Kerberos among it, is for whoever has that keyring: all tasks
 * would have that of the agent. Made as root, so that it counts against no user's share. Where the kernel has no keys,
 * or forbids them, there is nothing to share. */
void child_keyring_own(void)
{
    (void)syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
}

char **child_strings(const json_t *first, const json_t *second)
{
    size_t n = 0, count = json_array_size(first) + json_array_size(second), i;
    char **list = mem_zalloc(count + 1, sizeof(*list));
    const json_t *value;

    if (!list)
        return NULL;
    json_array_foreach(first, i, value) if (!util_env_has(second, json_string_value(value))) list[n++] =
        mem_strdup(json_string_value(value));
    json_array_foreach(second, i, value) list[n++] = mem_strdup(json_string_value(value));
    return list;
}

void child_strings_free(char **list)
{
    for (char **at = list; at && *at; at++)
        mem_free(*at);
    mem_free(list);
}

void child_signals(void)
{
    /* The rest is as the forker was made; a program that starts has no handlers. */
    static const int ours[] = { SIGHUP, SIGPIPE, SIGCHLD };
    sigset_t none;

    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
        (void)signal(ours[i], SIG_DFL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)umask(022);
}

static void limits_set(const json_t *plan)
{
    const json_t *cpus = json_object_get(plan, "affinity"), *cpu;
    struct rlimit limit;
    cpu_set_t set;
    size_t i;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    limit = (struct rlimit){ RLIM_INFINITY, RLIM_INFINITY };
    (void)setrlimit(RLIMIT_MEMLOCK, &limit); /* pinned memory and RDMA; only root may */
    if (json_array_size(cpus) == 0)
        return;
    CPU_ZERO(&set);
    json_array_foreach(cpus, i, cpu) CPU_SET((size_t)json_integer_value(cpu), &set);
    (void)sched_setaffinity(0, sizeof(set), &set);
}

static void streams_set(const struct child_ends *ends)
{
    int in = ends->in >= 0 ? ends->in : open("/dev/null", O_RDONLY);

    if (in < 0 || dup2(in, 0) < 0 || dup2(ends->out, 1) < 0 || dup2(ends->err >= 0 ? ends->err : ends->out, 2) < 0)
        child_fail(ends->status, 'S', "standard streams: %s", strerror(errno));
    if (in > 2)
        close(in);
}

/* Where all are to start together: says that it is ready, and waits. */
static void gate_pass(const struct child_ends *ends)
{
    char go = 0;
    ssize_t n;

    if (ends->gate < 0)
        return;
    (void)util_write_all(ends->status, "R", 1);
    do
        n = read(ends->gate, &go, 1);
    while (n < 0 && errno == EINTR);
    if (n != 1)
        _exit(126); /* the shepherd is gone, or the launch was called off */
}

static _Noreturn void child_exec(const struct child_ends *ends)
{
    char **argv = ends->argv;
    int r;

    gate_pass(ends);
    child_signals();
    execvpe(argv[0], argv, ends->env);
    r = errno;
    (void)dprintf(ends->status, "X%s: %s", argv[0], strerror(r));
    (void)dprintf(2, "muster: %s: %s\n", argv[0], strerror(r));
    _exit(r == ENOENT ? 127 : 126);
}

void shepherd_child(void *arg)
{
    const struct child_ends *ends = arg;
    const struct shepherd *s = ends->shepherd;
    const char *dir = util_text(s->plan, "dir"), *which;
    pid_t parent = getppid();
    int r;

    (void)setsid();
    child_oom_reset();
    if (s->cgroup[0] && !ends->in_group && (r = cgroup_enter(s->cgroup)) < 0)
        child_fail(ends->status, 'S', "%s: %s", s->cgroup, strerror(-r));
    streams_set(ends);
    r = child_binds(s->plan, s->dir, &which);
    if (r < 0)
        child_fail(ends->status, *which ? 'U' : 'S', "mount '%s': %s", which, strerror(-r));
    limits_set(s->plan);
    r = child_become(s->plan);
    if (r < 0)
        child_fail(ends->status, 'S', "become user %lld: %s", (long long)util_i64(s->plan, "uid", 0), strerror(-r));
    /* Set after the change of user, which clears it. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != parent)
        _exit(126);
    if (dir && chdir(dir) < 0)
        child_fail(ends->status, 'U', "working directory %s: %s", dir, strerror(errno));
    if (!ends->argv || !ends->env || !ends->argv[0])
        child_fail(ends->status, 'U', "nothing to run");
    child_exec(ends);
}

/* A shell with the command: of a job in a container inside of it, by the runtime that started it and as its user. */
static char **save_argv(const struct shepherd *s, const char *command)
{
    const char *words[] = { "/bin/sh", "-c", command };
    const json_t *inside = json_object_get(s->plan, "inside");
    json_t *argv = inside ? json_deep_copy(inside) : json_array();
    char **list;

    if (inside)
        (void)json_array_append(argv, json_object_get(s->plan, "container"));
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        (void)json_array_append_new(argv, json_string(words[i]));
    list = child_strings(argv, NULL);
    json_decref(argv);
    return list;
}

/* In the task's group, with its mounts, as its user, with its environment; its output goes nowhere. */
pid_t shepherd_save(struct shepherd *s, const char *command)
{
    pid_t pid = s->cgroup[0] ? cgroup_fork(s->cgroup) : -ENOSYS;
    const char *dir = util_text(s->plan, "dir");
    char **argv, **env;

    if (pid == -ENOSYS) {
        pid = fork();
        if (pid == 0 && s->cgroup[0] && cgroup_enter(s->cgroup) < 0)
            _exit(126);
    }
    if (pid != 0)
        return pid < 0 ? 0 : pid;
    (void)setsid();
    argv = save_argv(s, command);
    env = child_strings(json_object_get(s->plan, "env"), NULL);
    child_oom_reset();
    if (!argv || !env || child_become(s->plan) < 0 || (dir && chdir(dir) < 0))
        _exit(126);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    child_signals();
    execve(argv[0], argv, env);
    _exit(126);
}
