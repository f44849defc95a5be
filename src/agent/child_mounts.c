/* SPDX-License-Identifier: Apache-2.0 */
/* child_mounts.c - folders that are a task's own: a mount namespace in which /tmp and /dev/shm are others than the
 * node's, made by each of its processes on its way and entered by what is run inside the task later.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/child.h"
#include "agent/util.h"

static bool has_own(const json_t *plan)
{
    return util_flag(plan, "private_tmp") || util_flag(plan, "private_shm");
}

/* Makes every directory on the way; they exist only in the private place. */
static int dirs_make(char *path)
{
    for (char *p = path + 1; *p; p++)
        if (*p == '/') {
            *p = '\0';
            if (mkdir(path, 0755) < 0 && errno != EEXIST)
                return -errno;
            *p = '/';
        }
    return mkdir(path, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

/* A /tmp of its own: the task's directory. What the job needs of the old one, its working
 * directory and its task's, is carried over. */
static int tmp_make(const json_t *plan)
{
    const char *tmp = util_text(plan, "tmp"), *kept[] = { util_text(plan, "dir"), util_text(plan, "home") };
    int from[2] = { -1, -1 }, r = 0;

    if (!util_flag(plan, "private_tmp") || !tmp)
        return 0;
    for (int i = 0; i < 2; i++)
        if (kept[i] && strncmp(kept[i], "/tmp/", 5) == 0)
            from[i] = open(kept[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (chmod(tmp, 01777) < 0 || mount(tmp, "/tmp", NULL, MS_BIND, NULL) < 0)
        return -errno;
    for (int i = 0; i < 2 && r == 0; i++)
        if (from[i] >= 0) {
            char source[64], path[PATH_MAX];

            (void)snprintf(source, sizeof(source), "/proc/self/fd/%d", from[i]);
            (void)snprintf(path, sizeof(path), "%s", kept[i]);
            r = dirs_make(path);
            if (r == 0 && mount(source, path, NULL, MS_BIND | MS_REC, NULL) < 0)
                r = -errno;
        }
    return r;
}

int child_mounts_make(const json_t *plan)
{
    int r;

    if (!has_own(plan))
        return 0;
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return -errno;
    r = tmp_make(plan);
    if (r == 0 && util_flag(plan, "private_shm") &&
        mount("shm", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") < 0)
        r = -errno;
    return r;
}

int child_mounts_enter(const json_t *plan, pid_t pid)
{
    char path[64];
    int fd, r = 0;

    if (pid <= 0 || !has_own(plan))
        return 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    /* The kernel wants a working directory that no other thread (a sanitizer's) shares. */
    if (unshare(CLONE_FS) < 0 || setns(fd, CLONE_NEWNS) < 0)
        r = -errno;
    close(fd);
    return r;
}
