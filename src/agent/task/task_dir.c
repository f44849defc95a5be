/* SPDX-License-Identifier: Apache-2.0 */
/* task_dir.c - where the directories of tasks are: in memory, where the machine has a place for that.
 *
 * A task is a dozen files that live as long as it: its plan, sockets, script. None of them means anything after the
 * machine has been started anew, and making and removing them on a disk costs more than everything else a launch does.
 * So STATE/tasks is a link to a directory below /run or /dev/shm; without one it is a directory like any other. What
 * must outlast the machine (journal, output) and what may be large (the task's temporary directory) stays in STATE.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/util.h"
#include "io/beneath.h"
#include "io/log.h"

enum { TARGET_MAX = 256, OLD_SECONDS = 600 };

/* One that nobody's state leads to any more: its agent was killed and its state removed. */
static void orphan_remove(int place, const char *place_path, const char *name)
{
    char owner[PATH_MAX], link[PATH_MAX + 8], target[PATH_MAX], path[PATH_MAX];
    struct stat st;
    ssize_t n;

    if (fstatat(place, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
        clock_real() / USEC_SEC - st.st_mtim.tv_sec < OLD_SECONDS)
        return;
    (void)snprintf(path, sizeof(path), "%s/owner", name);
    n = readlinkat(place, path, owner, sizeof(owner) - 1);
    if (n <= 0)
        return;
    owner[n] = '\0';
    (void)snprintf(link, sizeof(link), "%s/tasks", owner);
    n = readlink(link, target, sizeof(target) - 1);
    target[n > 0 ? n : 0] = '\0';
    (void)snprintf(path, sizeof(path), "%s/%s/tasks", place_path, name);
    if (strcmp(target, path) != 0)
        (void)beneath_tree_remove(place, name);
}

static void orphans_remove(const char *place)
{
    DIR *stream = opendir(place);
    const struct dirent *entry;

    while (stream && (entry = readdir(stream)))
        if (strncmp(entry->d_name, "muster-", 7) == 0)
            orphan_remove(dirfd(stream), place, entry->d_name);
    if (stream)
        (void)closedir(stream);
}

/* In a folder that is root's alone: `owner`, a link to the state it belongs to, and `tasks`. */
static int base_fill(int base, const char *owner)
{
    int r = beneath_link_make(base, "owner", owner);

    return r < 0 && r != -EEXIST ? r : beneath_dir_make(base, "tasks", 0711);
}

/* A new one; the descriptor of its `tasks`, whose path is `target`. Only root's outlive the session of who made them.
 */
static int memory_dir(const struct agent *agent, char *target, size_t size)
{
    static const char *const places[] = { "/run", "/dev/shm" };
    char base[TARGET_MAX / 2];
    struct statfs st;

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && geteuid() == 0; i++) {
        int fd = -1, tasks = -1;

        if (statfs(places[i], &st) < 0 || (unsigned long)st.f_type != TMPFS_MAGIC)
            continue;
        orphans_remove(places[i]);
        (void)snprintf(base, sizeof(base), "%s/muster-XXXXXX", places[i]);
        if (mkdtemp(base))
            fd = beneath_open_absolute(base, O_RDONLY | O_DIRECTORY);
        if (fd >= 0 && fchmod(fd, 0711) == 0)
            tasks = base_fill(fd, agent->state_path);
        if (fd >= 0)
            close(fd);
        if (tasks >= 0) {
            (void)snprintf(target, size, "%s/tasks", base);
            return tasks;
        }
    }
    return -ENOENT;
}

/* The one that the link leads to, which is there unless the machine was started since. Whoever else made a folder of
 * that name since then, in a place that is everybody's, is not believed. */
static int memory_dir_open(const struct agent *agent, const char *base)
{
    const struct beneath_expected ours = { .kind = S_IFDIR, .owner = geteuid(), .without = S_IWGRP | S_IWOTH };
    int fd = beneath_open_absolute(base, O_RDONLY | O_DIRECTORY), r;

    if (fd < 0)
        return fd;
    r = beneath_check(fd, &ours);
    if (r == 0)
        r = base_fill(fd, agent->state_path);
    close(fd);
    return r;
}

/* Where the link leads; "" when it is none. */
static void link_read(const struct agent *agent, char *target, size_t size)
{
    ssize_t n = readlinkat(agent->dir, "tasks", target, size - 1);

    target[n > 0 ? n : 0] = '\0';
}

static void base_of(char *target)
{
    char *slash = strrchr(target, '/');

    if (slash)
        *slash = '\0';
}

/* Users' tasks find their scripts and files by the path of the state, from the root on. */
static void way_check(const struct agent *agent)
{
    char path[PATH_MAX];
    struct stat st;

    if (geteuid() != 0 || agent->config.allow_root)
        return;
    (void)snprintf(path, sizeof(path), "%s", agent->state_path);
    for (char *end = path + strlen(path); end; end = strrchr(path, '/')) {
        *end = '\0';
        if (path[0] && stat(path, &st) == 0 && !(st.st_mode & S_IXOTH))
            log_warn("users' tasks cannot reach their files: others may not enter", "folder", path);
    }
}

int place_open(struct agent *agent)
{
    char target[TARGET_MAX], base[TARGET_MAX];
    struct stat st;
    int r;

    way_check(agent);
    if (fstatat(agent->dir, "tasks", &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISLNK(st.st_mode)) {
        agent->tasks_dir = beneath_open(agent->dir, "tasks", O_RDONLY | O_DIRECTORY, 0);
        return agent->tasks_dir < 0 ? agent->tasks_dir : 0;
    }
    link_read(agent, base, sizeof(base));
    if (base[0]) {
        base_of(base);
        agent->tasks_dir = memory_dir_open(agent, base);
        if (agent->tasks_dir >= 0)
            return 0;
        log_info("tasks are in a new place", "node", agent->config.node, "old", base, "why",
                 strerror(-agent->tasks_dir));
        r = beneath_unlink(agent->dir, "tasks");
        if (r < 0)
            return r;
    }
    agent->tasks_dir = memory_dir(agent, target, sizeof(target));
    if (agent->tasks_dir < 0) {
        agent->tasks_dir = beneath_dir_make(agent->dir, "tasks", 0711);
        return agent->tasks_dir < 0 ? agent->tasks_dir : 0;
    }
    return beneath_link_make(agent->dir, "tasks", target);
}

/* Nothing is left behind by an agent that has nothing to come back to, or will not. */
void place_leave(struct agent *agent)
{
    char target[TARGET_MAX], *folder;
    int place;

    link_read(agent, target, sizeof(target));
    if (!target[0] || (rmdir(target) < 0 && !agent->config.passing))
        return;
    (void)beneath_unlink(agent->dir, "tasks");
    base_of(target);
    folder = strrchr(target, '/');
    if (!folder)
        return;
    *folder = '\0';
    place = beneath_open_absolute(target, O_RDONLY | O_DIRECTORY);
    if (place < 0)
        return;
    (void)beneath_tree_remove(place, folder + 1);
    close(place);
}
