/* SPDX-License-Identifier: Apache-2.0 */
/* hold.c - see hold.h. */
#include "gpurt/ladder/hold.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/channel.h"

#define PARENTS_MOST 64 /* generations between a process and what it started */

static bool word_write(const char *path, const char *word)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool good = fd >= 0 && write(fd, word, strlen(word)) == (ssize_t)strlen(word);

    if (fd >= 0)
        close(fd);
    return good;
}

/* The path below the root of the one hierarchy; false where there is none. */
static bool cgroup_of(const char *pid, char *ret, size_t size)
{
    char path[64], line[HOLD_PATH_MAX];
    bool found = false;
    FILE *f;

    (void)snprintf(path, sizeof(path), "/proc/%s/cgroup", pid);
    f = fopen(path, "re");
    while (f && !found && fgets(line, sizeof(line), f)) {
        found = strncmp(line, "0::/", 4) == 0 && strchr(line, '\n');
        line[strcspn(line, "\n")] = '\0';
    }
    if (f)
        (void)fclose(f);
    return found && snprintf(ret, size, "%s", line + 3) < (int)size;
}

static pid_t parent_of(pid_t pid)
{
    char path[64], text[256];
    const char *at;
    int parent = 0;
    FILE *f;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    f = fopen(path, "re");
    if (!f)
        return 0;
    /* The name in brackets may hold anything; what follows the last one does not. */
    at = fgets(text, sizeof(text), f) ? strrchr(text, ')') : NULL;
    (void)fclose(f);
    return at && sscanf(at + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

static bool started_by(pid_t pid, pid_t root)
{
    for (int i = 0; i < PARENTS_MOST && pid > 1; i++) {
        if (pid == root)
            return true;
        pid = parent_of(pid);
    }
    return false;
}

/* Is everybody in there the process itself or one it started? */
static bool cgroup_only(const char *dir, pid_t root)
{
    char path[HOLD_PATH_MAX + 16];
    bool any = false, only = true;
    int pid;
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
    f = fopen(path, "re");
    while (f && only && fscanf(f, "%d", &pid) == 1) {
        only = started_by(pid, root);
        any |= pid == root;
    }
    if (f)
        (void)fclose(f);
    return any && only;
}

static void hold_undo(const char *path, pid_t pid, uint64_t start_ticks)
{
    if (*path)
        (void)word_write(path, "0");
    else if (channel_start_ticks(pid) == start_ticks)
        (void)kill(pid, SIGCONT);
}

/* Ends the hold when the pipe is closed: by us, or because we are gone. Nothing else of ours is kept open in it. */
static bool watcher_start(struct hold *hold, pid_t pid, uint64_t start_ticks)
{
    int ends[2];
    pid_t child;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return false;
    child = fork();
    if (child < 0) {
        close(ends[0]);
        close(ends[1]);
        return false;
    }
    if (child == 0) {
        char byte;

        (void)setsid();
        for (int number = 1; number < 32; number++)
            if (number != SIGKILL && number != SIGSTOP)
                (void)signal(number, SIG_IGN);
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
            (void)dup2(ends[0], fd);
        (void)syscall(SYS_close_range, 3u, ~0u, 0u);
        while (read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR)
            ;
        hold_undo(hold->path, pid, start_ticks);
        _exit(0);
    }
    close(ends[0]);
    hold->watcher = ends[1];
    return true;
}

bool hold_freeze(struct hold *hold, pid_t pid)
{
    const char *root = getenv("MUSTER_GPU_CGROUP_DIR");
    char number[16], theirs[256], ours[256], dir[HOLD_PATH_MAX - 16];

    (void)snprintf(number, sizeof(number), "%d", (int)pid);
    if (hold->kind != HOLD_NONE || !cgroup_of(number, theirs, sizeof(theirs)))
        return false;
    if (!root && strcmp(theirs, "/") == 0) /* the root of all cannot be frozen */
        return false;
    root = root ? root : "/sys/fs/cgroup";
    theirs[strcmp(theirs, "/") == 0 ? 0 : strlen(theirs)] = '\0';
    /* A cgroup below theirs would be frozen with it: that must not be ours. */
    if (*theirs && cgroup_of("self", ours, sizeof(ours)) && strncmp(ours, theirs, strlen(theirs)) == 0 &&
        ours[strlen(theirs)] == '/')
        return false;
    if (snprintf(dir, sizeof(dir), "%s%s", root, theirs) >= (int)sizeof(dir) || !cgroup_only(dir, pid))
        return false;
    (void)snprintf(hold->path, sizeof(hold->path), "%s/cgroup.freeze", dir);
    if (access(hold->path, W_OK) < 0 || !watcher_start(hold, pid, 0))
        return false;
    hold->kind = HOLD_FROZEN;
    if (!word_write(hold->path, "1"))
        hold_end(hold, pid, 0);
    return hold->kind == HOLD_FROZEN;
}

bool hold_stop(struct hold *hold, pid_t pid, uint64_t start_ticks)
{
    if (hold->kind != HOLD_NONE || channel_start_ticks(pid) != start_ticks)
        return false;
    hold->path[0] = '\0';
    if (!watcher_start(hold, pid, start_ticks))
        return false;
    hold->kind = HOLD_STOPPED;
    if (kill(pid, SIGSTOP) < 0)
        hold_end(hold, pid, start_ticks);
    return hold->kind == HOLD_STOPPED;
}

void hold_end(struct hold *hold, pid_t pid, uint64_t start_ticks)
{
    if (hold->kind == HOLD_NONE)
        return;
    hold_undo(hold->path, pid, start_ticks);
    close(hold->watcher);
    hold->kind = HOLD_NONE;
}
