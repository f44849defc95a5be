/* SPDX-License-Identifier: Apache-2.0 */
/* child_binds.c - folders of the node for a container, taken as its user and held fast.
 *
 * A runtime that runs as root opens what it is told by name, with root's rights, some time after we have looked:
 * whoever owns a folder on the way can put a link there meanwhile. So each is opened here, once, with the rights of the
 * user; what was opened is bound to a place that only root can change, in a mount namespace that ends with the process;
 * and that place is what the runtime is told.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/child.h"
#include "agent/util.h"

static const char *bind_text(const json_t *bind, size_t which)
{
    const char *text = json_string_value(json_array_get(bind, which));

    return text ? text : "";
}

/* With the rights of the user and no others; the capabilities of root go with its user id. */
static int open_as_user(const json_t *plan, const char *path)
{
    int fd, r;

    (void)setfsgid((gid_t)util_i64(plan, "gid", 0));
    (void)setfsuid((uid_t)util_i64(plan, "uid", 0));
    fd = open(path, O_PATH | O_CLOEXEC);
    r = fd < 0 ? -errno : fd;
    (void)setfsuid(0);
    (void)setfsgid(0);
    return r;
}

static int bind_make(int fd, const char *to)
{
    char from[64];
    struct stat st;
    int point;

    if (fstat(fd, &st) < 0)
        return -errno;
    if (S_ISDIR(st.st_mode)) {
        if (mkdir(to, 0700) < 0 && errno != EEXIST)
            return -errno;
    } else {
        point = open(to, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (point < 0)
            return -errno;
        (void)close(point);
    }
    (void)snprintf(from, sizeof(from), "/proc/self/fd/%d", fd);
    return mount(from, to, NULL, MS_BIND | MS_REC, NULL) < 0 ? -errno : 0;
}

int child_binds(const json_t *plan, const char **ret_which)
{
    const json_t *binds = json_object_get(plan, "binds"), *bind;
    const char *folder = util_text(plan, "binds_at");
    gid_t groups[CHILD_GROUPS_MAX];
    size_t i;
    int r = 0;

    *ret_which = "";
    if (json_array_size(binds) == 0 || !folder)
        return 0;
    if (!util_flag(plan, "private_tmp") &&
        (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0))
        return -errno;
    if (mkdir(folder, 0700) < 0 && errno != EEXIST)
        return -errno;
    if (syscall(SYS_setgroups, child_groups(plan, groups), groups) < 0)
        return -errno;
    json_array_foreach(binds, i, bind)
    {
        int fd;

        if (r < 0)
            break;
        *ret_which = bind_text(bind, 0);
        fd = open_as_user(plan, *ret_which);
        r = fd < 0 ? fd : bind_make(fd, bind_text(bind, 1));
        if (fd >= 0)
            (void)close(fd);
    }
    return r;
}
