/* SPDX-License-Identifier: Apache-2.0 */
/* grant.c - see grant.h. */
#include "gpurt/grant.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GRANTS "grants"
#define CLAIMS ".claims"
enum { TEXT_MAX = PATH_MAX + 256 };

static int grants_open(const char *run_dir, int make)
{
    int fd, dir = open(run_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (dir < 0)
        return -errno;
    if (make && mkdirat(dir, GRANTS, 0700) < 0 && errno != EEXIST) {
        (void)close(dir);
        return -EIO;
    }
    fd = openat(dir, GRANTS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    (void)close(dir);
    return fd < 0 ? -errno : fd;
}

/* Where the hierarchy is mounted differs from machine to machine; processes are told their group from its root on. */
static const char *below_mount(const char *cgroup)
{
    static const char *const mounts[] = { "/sys/fs/cgroup/unified", "/sys/fs/cgroup" };

    for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++)
        if (strncmp(cgroup, mounts[i], strlen(mounts[i])) == 0 && cgroup[strlen(mounts[i])] == '/')
            return cgroup + strlen(mounts[i]);
    return cgroup;
}

int grant_put(const char *run_dir, const char *name, const char *cgroup, const struct grant *grant)
{
    char text[TEXT_MAX], part[64];
    int n, fd, r = 0, dir = grants_open(run_dir, 1);

    if (dir < 0)
        return dir;
    n = snprintf(text, sizeof(text), "%s\n%" PRIu32 " %" PRIu32 " %" PRIu64 "\n%s\n", below_mount(cgroup), grant->role,
                 grant->share, grant->memory, grant->job);
    (void)snprintf(part, sizeof(part), ".new-%ld", (long)getpid());
    (void)unlinkat(dir, part, 0);
    fd = openat(dir, part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || n >= TEXT_MAX || write(fd, text, (size_t)n) != n)
        r = -EIO;
    if (fd >= 0)
        (void)close(fd);
    if (r == 0 && renameat(dir, part, dir, cgroup[0] ? name : CLAIMS) < 0)
        r = -errno;
    (void)close(dir);
    return r;
}

void grant_drop(const char *run_dir, const char *name)
{
    int dir = grants_open(run_dir, 0);

    if (dir < 0)
        return;
    (void)unlinkat(dir, name, 0);
    (void)close(dir);
}

static int file_text(int dir, const char *path, char *text, size_t size)
{
    int fd = openat(dir, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    size_t used = 0;
    ssize_t n;

    if (fd < 0)
        return -errno;
    while (used < size - 1 && (n = read(fd, text + used, size - 1 - used)) > 0)
        used += (size_t)n;
    (void)close(fd);
    text[used] = '\0';
    return 0;
}

/* Is that the note of the group at `path`? */
static int note_read(int dir, const char *name, const char *path, size_t length, struct grant *ret)
{
    char text[TEXT_MAX];
    const char *rest;
    int used = 0;

    if (name[0] == '.' || file_text(dir, name, text, sizeof(text)) < 0)
        return -ENOENT;
    rest = strchr(text, '\n');
    if (!rest || (size_t)(rest - text) != length || strncmp(text, path, length) != 0)
        return -ENOENT;
    *ret = (struct grant){ 0 };
    if (sscanf(rest + 1, "%" SCNu32 " %" SCNu32 " %" SCNu64 "\n%n", &ret->role, &ret->share, &ret->memory, &used) < 3 ||
        used == 0)
        return -ENOENT;
    (void)snprintf(ret->job, sizeof(ret->job), "%.*s", (int)strcspn(rest + 1 + used, "\n"), rest + 1 + used);
    return 0;
}

/* Groups below that of a job are the job's: containers make some. */
static int path_find(int dir, const char *path, struct grant *ret)
{
    for (const char *at = path; *at == '/';) {
        const char *end = at + 1 + strcspn(at + 1, "/");
        char name[256];

        if ((size_t)(end - at - 1) < sizeof(name)) {
            (void)snprintf(name, sizeof(name), "%.*s", (int)(end - at - 1), at + 1);
            if (name[0] && note_read(dir, name, path, (size_t)(end - path), ret) == 0)
                return 0;
        }
        at = end;
    }
    return -ENOENT;
}

int grant_find(const char *run_dir, pid_t pid, struct grant *ret_grant)
{
    char file[64], text[TEXT_MAX], *line, *end;
    int r, dir = grants_open(run_dir, 0);

    if (dir < 0)
        return -ENOENT;
    if (faccessat(dir, CLAIMS, F_OK, 0) == 0) {
        (void)close(dir);
        return -ENODATA;
    }
    (void)snprintf(file, sizeof(file), "/proc/%d/cgroup", (int)pid);
    r = file_text(AT_FDCWD, file, text, sizeof(text));
    line = r == 0 ? strncmp(text, "0::", 3) == 0 ? text - 1 : strstr(text, "\n0::") : NULL;
    r = -ENOENT;
    if (line) {
        end = strchr(line + 4, '\n');
        if (end)
            *end = '\0';
        r = path_find(dir, line + 4, ret_grant);
    }
    (void)close(dir);
    return r;
}
