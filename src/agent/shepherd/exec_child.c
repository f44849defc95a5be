/* SPDX-License-Identifier: Apache-2.0 */
/* exec_child.c - a command inside a running task: its group, its mounts, its user, its environment.
 *
 * The process that was forked for it stays outside, waits, and writes how it ended into the last descriptor. It dies
 * with the task, as it is in the task's group; without groups the mark in its environment is what it is found by.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/shepherd/child.h"
#include "agent/shepherd/forker.h"
#include "agent/task/cgroup.h"
#include "agent/util.h"
#include "io/beneath.h"

enum { FD_DIR, FD_IN, FD_OUT, FD_ERR, FD_STATUS };

static _Noreturn void command_run(const int fds[5], const json_t *plan, bool in_group)
{
    const char *cgroup = util_text(plan, "cgroup"), *dir = util_text(plan, "dir");
    char **argv = child_strings(json_object_get(plan, "argv"), NULL);
    char **env = child_strings(json_object_get(plan, "env"), json_object_get(plan, "more"));
    int r = 0;

    (void)setsid();
    child_oom_reset();
    if (cgroup && *cgroup && !in_group)
        r = cgroup_enter(cgroup);
    if (r == 0)
        r = child_mounts_enter(plan);
    if (r == 0)
        r = child_become(plan);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (r < 0 || dup2(fds[FD_IN], 0) < 0 || dup2(fds[FD_OUT], 1) < 0 || dup2(fds[FD_ERR], 2) < 0)
        _exit(125);
    if (util_flag(plan, "tty"))
        (void)ioctl(0, TIOCSCTTY, 0);
    if (dir && chdir(dir) < 0)
        (void)dprintf(2, "muster: %s: %s\n", dir, strerror(errno));
    if (!argv || !argv[0] || !env)
        _exit(125);
    for (char **e = env; *e; e++)
        if (strncmp(*e, "PATH=", 5) == 0)
            (void)setenv("PATH", *e + 5, 1);
    child_signals();
    execvpe(argv[0], argv, env);
    r = errno;
    (void)dprintf(2, "muster: %s: %s\n", argv[0], strerror(r));
    _exit(r == ENOENT ? 127 : 126);
}

int exec_run(const int fds[5], const char *name)
{
    json_t *plan = util_json_get(fds[FD_DIR], name);
    const char *cgroup;
    int status = 0;
    pid_t pid;

    (void)beneath_unlink(fds[FD_DIR], name);
    if (!plan)
        return 1;
    (void)prctl(PR_SET_NAME, "muster-exec", 0, 0, 0);
    (void)signal(SIGPIPE, SIG_IGN);
    child_keyring_own();
    cgroup = util_text(plan, "cgroup");
    pid = cgroup && *cgroup ? cgroup_fork(cgroup) : -ENOSYS;
    if (pid == 0)
        command_run(fds, plan, true);
    if (pid == -ENOSYS)
        pid = fork();
    if (pid == 0)
        command_run(fds, plan, false);
    for (int i = 0; i < FD_STATUS; i++)
        close(fds[i]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    (void)dprintf(fds[FD_STATUS], "%d %d\n",
                  pid < 0             ? 125
                  : WIFEXITED(status) ? WEXITSTATUS(status)
                                      : 128 + WTERMSIG(status),
                  pid > 0 && WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    return 0;
}
