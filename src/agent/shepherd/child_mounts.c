/* SPDX-License-Identifier: Apache-2.0 */
/* child_mounts.c - the mount namespace of a task, in which /tmp and /dev/shm are its own.
 *
 * The shepherd makes it before anything of the job runs, and stays in it: the processes of the task, the one that keeps
 * its place and the command that saves it are forked from the shepherd and have it. A command that is run inside later
 * (`muster exec`) comes from outside and joins the namespaces of the shepherd. Nobody joins those of a process of the
 * job: a user can make namespaces too, and root in one of those would find what the user has put there.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/shepherd/child.h"
#include "agent/util.h"
#include "io/beneath.h"

bool child_mounts_own(const json_t *plan)
{
    return util_flag(plan, "private_tmp") || util_flag(plan, "private_shm");
}

int child_mounts_begin(void)
{
    return unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? -errno : 0;
}

/* What a path below /tmp is called from there; NULL: it is elsewhere. One with ".." is found by its name or not at all.
 */
static const char *below_tmp(const char *path)
{
    return path && strncmp(path, "/tmp/", 5) == 0 && !strstr(path, "..") ? path + 5 + strspn(path + 5, "/") : NULL;
}

static bool is_below(const char *path, const char *folder)
{
    size_t length = strlen(folder);

    return strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

static int carry_over(int from, const char *path)
{
    int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int onto = tmp < 0 ? -errno : beneath_dir_path_make(tmp, path, 0755);
    int r = onto < 0 ? onto : beneath_bind(from, onto, BENEATH_NOSUID | BENEATH_NODEV | BENEATH_RECURSIVE);

    if (tmp >= 0)
        close(tmp);
    if (onto >= 0)
        close(onto);
    return r;
}

/* The job's folder lies over /tmp; the agent's state and the job's working directory are carried over where they are
 * below it: the one as root, by a path without links, the other with the rights of the job's user. */
static int tmp_make(const json_t *plan, int folders, const char *name)
{
    const char *home = below_tmp(util_text(plan, "home")), *dir = below_tmp(util_text(plan, "dir"));
    int home_fd = home ? beneath_open_absolute(util_text(plan, "home"), O_PATH | O_DIRECTORY) : -1;
    bool apart = dir && !(home && is_below(dir, home));
    int dir_fd = apart ? user_open(plan, util_text(plan, "dir"), O_PATH | O_DIRECTORY, 0) : -1;
    int r = beneath_bind_over(folders, name, "/tmp", BENEATH_NOSUID | BENEATH_NODEV);

    if (r == 0 && home_fd >= 0)
        r = carry_over(home_fd, home);
    if (r == 0 && dir_fd >= 0)
        r = carry_over(dir_fd, dir);
    if (home_fd >= 0)
        close(home_fd);
    if (dir_fd >= 0)
        close(dir_fd);
    return r;
}

int child_mounts_make(const json_t *plan, int folders, const char *name)
{
    int r = util_flag(plan, "private_tmp") && name ? tmp_make(plan, folders, name) : 0;

    if (r == 0 && util_flag(plan, "private_shm") &&
        mount("shm", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") < 0)
        r = -errno;
    return r;
}

/* Is it root's, and not in a user namespace that somebody made? A number may have been given to another process. */
static bool is_keeper(pid_t pid)
{
    char path[64], text[1024];
    struct stat theirs, ours;
    unsigned int real = 1, effective = 1, saved = 1;
    const char *line;
    ssize_t n;
    int fd;

    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    line = strstr(text, "\nUid:");
    if (!line ||
        sscanf(line, "\nUid: %u %u %u", &real, &effective, &saved) != 3) /* NOLINT(cert-err34-c): the kernel's */
        return false;
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
    return real == 0 && effective == 0 && saved == 0 && stat(path, &theirs) == 0 &&
           stat("/proc/self/ns/user", &ours) == 0 && theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino;
}

int child_mounts_enter(const json_t *plan)
{
    pid_t pid = (pid_t)util_i64(plan, "shepherd", 0);
    int fd, r;

    if (!child_mounts_own(plan))
        return 0;
    fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    if (fd < 0)
        return -ESRCH;
    /* The kernel wants a working directory that no other thread (a sanitizer's) shares. */
    r = !is_keeper(pid) ? -EPERM
        : unshare(CLONE_FS) < 0 ||
                setns(fd, CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET | CLONE_NEWCGROUP) < 0
            ? -errno
            : 0;
    close(fd);
    return r;
}
