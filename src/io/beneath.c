/* SPDX-License-Identifier: Apache-2.0 */
/* beneath.c - see beneath.h.
 *
 * openat2() does what the rule says in one call. Where the kernel does not have it (before 5.6, or a filter refuses
 * it) the path is walked: each folder is opened with O_NOFOLLOW below the one before, and ".." is refused.
 */
#include "io/beneath.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DEPTH_MAX = 256, SUBORDINATE_UID_MIN = 100000, RACES_MAX = 16, MODE_OWN = 0600, LIST_BYTES = 1024 };

static bool has_dots(const char *path)
{
    for (const char *p = path; (p = strstr(p, "..")); p += 2)
        if ((p == path || p[-1] == '/') && (p[2] == '/' || p[2] == '\0'))
            return true;
    return false;
}

/* The folder of the last name of the path; *ret_name is that name. */
static int parent_walk(int dir, const char *path, const char **ret_name)
{
    char name[NAME_MAX + 1];
    int at = fcntl(dir, F_DUPFD_CLOEXEC, 0);
    const char *slash;

    if (at < 0)
        return -errno;
    while ((slash = strchr(path, '/'))) {
        size_t length = (size_t)(slash - path);
        int next;

        if (length >= sizeof(name)) {
            close(at);
            return -ENAMETOOLONG;
        }
        memcpy(name, path, length);
        name[length] = '\0';
        path = slash + 1;
        if (length == 0)
            continue;
        next = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        next = next < 0 ? (errno == ENOTDIR ? -ELOOP : -errno) : next;
        close(at);
        if (next < 0)
            return next;
        at = next;
    }
    *ret_name = *path ? path : ".";
    return at;
}

static int path_walk(int dir, const char *path, int flags, mode_t mode)
{
    const char *name = path;
    int at = parent_walk(dir, path, &name), fd;

    if (at < 0)
        return at;
    fd = openat(at, name, flags | O_NOFOLLOW | O_CLOEXEC, mode);
    fd = fd < 0 ? -errno : fd;
    close(at);
    return fd;
}

int beneath_open(int dir, const char *path, int flags, mode_t mode)
{
    struct open_how how = { .flags = (uint64_t)(unsigned int)(flags | O_NOFOLLOW | O_CLOEXEC),
                            .mode = flags & O_CREAT ? mode : 0,
                            .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
    long fd;
    int races = 0;

    if (path[0] == '/' || has_dots(path))
        return -EINVAL;
    do /* it gives up where names change while it looks */
        fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));
    while (fd < 0 && (errno == EAGAIN || errno == EINTR) && races++ < RACES_MAX);
    if (fd >= 0)
        return (int)fd;
    return errno == ENOSYS || errno == EPERM ? path_walk(dir, path, flags, mode) : -errno;
}

int beneath_open_absolute(const char *path, int flags)
{
    struct open_how how = { .flags = (uint64_t)(unsigned int)(flags | O_NOFOLLOW | O_CLOEXEC),
                            .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
    int root;
    long fd;

    if (path[0] != '/' || has_dots(path))
        return -EINVAL;
    fd = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
    if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
        return fd < 0 ? -errno : (int)fd;
    root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return -errno;
    fd = path_walk(root, path, flags, 0);
    close(root);
    return (int)fd;
}

int beneath_check(int fd, const struct beneath_expected *expected)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    if (expected->kind && (st.st_mode & S_IFMT) != expected->kind)
        return expected->kind == S_IFDIR ? -ENOTDIR : -EINVAL;
    return st.st_uid != expected->owner || (st.st_mode & expected->without) ? -EPERM : 0;
}

int beneath_dir_new(int dir, const char *name, mode_t mode)
{
    if (strchr(name, '/'))
        return -EINVAL;
    return mkdirat(dir, name, mode) < 0 ? -errno : beneath_open(dir, name, O_RDONLY | O_DIRECTORY, 0);
}

static int dir_ours(int dir, const char *name)
{
    const struct beneath_expected ours = { .kind = S_IFDIR, .owner = geteuid(), .without = S_IWGRP | S_IWOTH };
    int fd = beneath_open(dir, name, O_RDONLY | O_DIRECTORY, 0), r = fd < 0 ? fd : beneath_check(fd, &ours);

    if (r < 0 && fd >= 0)
        close(fd);
    return r < 0 ? r : fd;
}

int beneath_dir_make(int dir, const char *name, mode_t mode)
{
    int fd = beneath_dir_new(dir, name, mode);

    return fd == -EEXIST ? dir_ours(dir, name) : fd;
}

int beneath_dir_ensure(int dir, const char *name, mode_t mode)
{
    int fd;

    if (strchr(name, '/'))
        return -EINVAL;
    if (mkdirat(dir, name, mode) == 0)
        return 0;
    fd = errno == EEXIST ? dir_ours(dir, name) : -errno;
    if (fd >= 0)
        close(fd);
    return fd < 0 ? fd : 0;
}

int beneath_dir_remove(int dir, const char *name)
{
    if (strchr(name, '/'))
        return -EINVAL;
    return unlinkat(dir, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int beneath_dir_path_make(int dir, const char *path, mode_t mode)
{
    int at = fcntl(dir, F_DUPFD_CLOEXEC, 0);

    if (has_dots(path)) {
        close(at);
        return -EINVAL;
    }
    while (at >= 0 && *path) {
        char name[NAME_MAX + 1];
        size_t length = strcspn(path, "/");
        int next;

        if (length >= sizeof(name)) {
            close(at);
            return -ENAMETOOLONG;
        }
        memcpy(name, path, length);
        name[length] = '\0';
        path += length + strspn(path + length, "/");
        next = length == 0 ? -EINVAL : beneath_dir_make(at, name, mode);
        close(at);
        at = next;
    }
    return at;
}

int beneath_give(int fd, uid_t uid, gid_t gid, mode_t mode)
{
    return fchmod(fd, mode) < 0 || fchown(fd, uid, gid) < 0 ? -errno : 0;
}

static int all_write(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, data, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        data += n;
        size -= (size_t)n;
    }
    return 0;
}

int beneath_file_put(int dir, const char *name, const struct beneath_content *content)
{
    char temporary[NAME_MAX + 1];
    int fd, r;

    if (strchr(name, '/'))
        return -ENOENT;
    if (snprintf(temporary, sizeof(temporary), ".%s.new", name) >= (int)sizeof(temporary))
        return -ENAMETOOLONG;
    (void)unlinkat(dir, temporary, 0);
    fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, MODE_OWN);
    if (fd < 0)
        return -errno;
    r = all_write(fd, content->data, content->size);
    /* By the descriptor: who owns the folder may have put something else under the name by now. */
    if (r == 0 && ((content->mode != MODE_OWN && fchmod(fd, content->mode) < 0) || (content->sync && fsync(fd) < 0)))
        r = -errno;
    close(fd);
    if (r == 0 && renameat(dir, temporary, dir, name) < 0)
        r = -errno;
    if (r < 0)
        (void)unlinkat(dir, temporary, 0);
    else if (content->sync && dir != AT_FDCWD && fsync(dir) < 0)
        r = -errno;
    return r;
}

int beneath_rename(int from_dir, const char *from, int to_dir, const char *to, bool replace)
{
    if (strchr(from, '/') || strchr(to, '/'))
        return -EINVAL;
    return renameat2(from_dir, from, to_dir, to, replace ? 0 : RENAME_NOREPLACE) < 0 ? -errno : 0;
}

int beneath_unlink(int dir, const char *name)
{
    if (strchr(name, '/'))
        return -EINVAL;
    return unlinkat(dir, name, 0) < 0 ? -errno : 0;
}

int beneath_link_make(int dir, const char *name, const char *target)
{
    if (strchr(name, '/'))
        return -EINVAL;
    return symlinkat(target, dir, name) < 0 ? -errno : 0;
}

/* What of a tree may be entered. */
struct tree {
    dev_t device;
    uid_t owner; /* the first user on the way; 0 = none yet */
};

static int tree_empty(int fd, struct tree tree, int depth);

static int folder_check(const struct tree *tree, const struct stat *st, int depth)
{
    if (st->st_dev != tree->device)
        return -EXDEV;
    if (depth >= DEPTH_MAX)
        return -ELOOP;
    if (tree->owner == 0 || st->st_uid == tree->owner || st->st_uid == 0 || st->st_uid >= SUBORDINATE_UID_MIN)
        return 0;
    return geteuid() == 0 ? -EPERM : 0; /* others remove only what they may */
}

/* One entry: a folder is emptied first. */
static int entry_remove(int dir, const char *name, struct tree tree, int depth)
{
    struct stat st;
    int fd, r;

    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM && errno != EACCES)
        return -errno;
    fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno; /* another process removes it too */
    r = fstat(fd, &st) < 0 ? -errno : folder_check(&tree, &st, depth);
    if (r < 0) {
        close(fd);
        return r;
    }
    tree.owner = tree.owner ? tree.owner : st.st_uid;
    r = tree_empty(fd, tree, depth + 1);
    if (unlinkat(dir, name, AT_REMOVEDIR) < 0 && errno != ENOENT && r == 0)
        r = -errno;
    return r;
}

/* Takes the descriptor. */
static int tree_empty(int fd, struct tree tree, int depth)
{
    DIR *stream = fdopendir(fd);
    const struct dirent *entry;
    int r = 0;

    if (!stream) {
        r = -errno;
        close(fd);
        return r;
    }
    while ((entry = readdir(stream))) {
        int one;

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        one = entry_remove(dirfd(stream), entry->d_name, tree, depth);
        if (one < 0 && r == 0)
            r = one;
    }
    (void)closedir(stream);
    return r;
}

int beneath_tree_remove(int dir, const char *name)
{
    struct stat st;

    if (strchr(name, '/'))
        return -EINVAL;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    return entry_remove(dir, name, (struct tree){ .device = st.st_dev }, 0);
}

/* Nothing but itself and its parent? Most folders are, and to list them takes no memory. */
static bool is_empty(int fd)
{
    _Alignas(struct dirent64) char list[LIST_BYTES];
    ssize_t n;

    if (lseek(fd, 0, SEEK_SET) < 0)
        return false;
    while ((n = getdents64(fd, list, sizeof(list))) > 0)
        for (ssize_t at = 0; at < n;) {
            const struct dirent64 *entry = (const struct dirent64 *)(const void *)(list + at);

            if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                return false;
            at += entry->d_reclen;
        }
    return n == 0;
}

int beneath_tree_empty(int fd)
{
    struct stat st;
    int copy;

    if (is_empty(fd))
        return 0;
    copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (copy < 0)
        return -errno;
    if (fstat(copy, &st) == 0)
        return tree_empty(copy, (struct tree){ .device = st.st_dev, .owner = st.st_uid }, 0);
    close(copy);
    return -EBADF;
}

static int mount_copy(int from, const char *name, unsigned int flags)
{
    struct mount_attr attr = { .attr_set = (flags & BENEATH_NOSUID ? MOUNT_ATTR_NOSUID : 0) |
                                           (flags & BENEATH_NODEV ? MOUNT_ATTR_NODEV : 0) };
    unsigned int recursive = flags & BENEATH_RECURSIVE ? AT_RECURSIVE : 0;
    unsigned int how = *name ? AT_SYMLINK_NOFOLLOW : AT_EMPTY_PATH;
    int tree = open_tree(from, name, how | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | recursive), r;

    if (tree < 0)
        return -errno;
    if (mount_setattr(tree, "", AT_EMPTY_PATH | recursive, &attr, sizeof(attr)) == 0)
        return tree;
    r = -errno;
    close(tree);
    return r;
}

int beneath_bind(int from, int onto, unsigned int flags)
{
    int tree = mount_copy(from, "", flags), r;

    if (tree < 0)
        return tree;
    r = move_mount(tree, "", onto, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0 ? -errno : 0;
    close(tree);
    return r;
}

int beneath_bind_over(int from_dir, const char *name, const char *path, unsigned int flags)
{
    int tree = strchr(name, '/') ? -EINVAL : mount_copy(from_dir, name, flags), r;

    if (tree < 0)
        return tree;
    r = move_mount(tree, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_SYMLINKS) < 0 ? -errno : 0;
    close(tree);
    return r;
}
