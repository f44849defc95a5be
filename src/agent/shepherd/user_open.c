/* SPDX-License-Identifier: Apache-2.0 */
/* user_open.c - a path that a user named, opened with the rights of that user.
 *
 * The real and the saved user stay root, so the user can neither signal nor trace this process meanwhile, and a file
 * system that the user serves (FUSE) refuses instead of holding this process up. The effective user changes, not only
 * the one for files: /proc/sys asks for the effective one. Links of /proc that lead to what this process has open
 * (/proc/self/fd/7) are refused. By the bare system calls, which change this thread alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "agent/shepherd/child.h"
#include "agent/util.h"

static int user_enter(const json_t *plan)
{
    gid_t groups[CHILD_GROUPS_MAX];

    if (syscall(SYS_setgroups, child_groups(plan, groups), groups) < 0 ||
        syscall(SYS_setresgid, -1, (gid_t)util_i64(plan, "gid", 0), -1) < 0 ||
        syscall(SYS_setresuid, -1, (uid_t)util_i64(plan, "uid", 0), -1) < 0)
        return -errno;
    return 0;
}

static void user_leave(void)
{
    if (syscall(SYS_setresuid, -1, 0, -1) < 0 || syscall(SYS_setresgid, -1, 0, -1) < 0 ||
        syscall(SYS_setgroups, 0, NULL) < 0)
        _exit(1); /* neither user nor root: nothing may follow */
}

int user_open(const json_t *plan, const char *path, int flags, mode_t mode)
{
    struct open_how how = { .flags = (uint64_t)(unsigned int)(flags | O_CLOEXEC),
                            .mode = flags & O_CREAT ? mode : 0,
                            .resolve = RESOLVE_NO_MAGICLINKS };
    bool owned = util_flag(plan, "owned");
    int r = owned ? user_enter(plan) : 0;
    long fd;

    if (r == 0) {
        fd = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
        r = fd < 0 ? -errno : (int)fd;
    }
    if (owned)
        user_leave();
    return r;
}

int user_stay(const json_t *plan)
{
    return util_flag(plan, "owned") ? user_enter(plan) : 0;
}

void user_stay_end(const json_t *plan)
{
    if (util_flag(plan, "owned"))
        user_leave();
}

bool user_file_plain(int fd)
{
    /* Their files ask who writes, and that is root. */
    static const unsigned long not_plain[] = { PROC_SUPER_MAGIC,    SYSFS_MAGIC,   CGROUP_SUPER_MAGIC,
                                               CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC, TRACEFS_MAGIC,
                                               SECURITYFS_MAGIC,    SELINUX_MAGIC, BPF_FS_MAGIC };
    struct statfs fs;
    struct stat st;

    if (fstat(fd, &st) < 0 || (!S_ISREG(st.st_mode) && !S_ISCHR(st.st_mode)) || fstatfs(fd, &fs) < 0)
        return false;
    for (size_t i = 0; i < sizeof(not_plain) / sizeof(not_plain[0]); i++)
        if ((unsigned long)fs.f_type == not_plain[i])
            return false;
    return true;
}
