/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup.c - see cgroup.h. Files of the group are written with one write() each, as the kernel wants them. */
#include "agent/task/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "agent/task/cgroup_device.h"
#include "agent/util.h"
#include "base/buf.h"

#define CGROUP2_MAGIC 0x63677270

static int file_path(char *out, size_t size, const char *path, const char *file)
{
    return snprintf(out, size, "%s/%s", path, file) < (int)size ? 0 : -ENAMETOOLONG;
}

static int value_write(const char *path, const char *file, const char *value)
{
    char name[CGROUP_PATH_MAX + 64];
    int fd, r = file_path(name, sizeof(name), path, file);

    if (r < 0)
        return r;
    fd = open(name, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (write(fd, value, strlen(value)) < 0)
        r = -errno;
    close(fd);
    return r;
}

static int value_read(const char *path, const char *file, char *value, size_t size)
{
    char name[CGROUP_PATH_MAX + 64];
    ssize_t n;
    int fd, r = file_path(name, sizeof(name), path, file);

    if (r < 0)
        return r;
    fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    n = read(fd, value, size - 1);
    r = n < 0 ? -errno : 0;
    close(fd);
    value[n < 0 ? 0 : n] = '\0';
    return r;
}

static bool has_word(const char *text, const char *word)
{
    size_t length = strlen(word);

    for (const char *p = text; (p = strstr(p, word)); p += length)
        if ((p == text || p[-1] == ' ') && (p[length] == ' ' || p[length] == '\n' || p[length] == '\0'))
            return true;
    return false;
}

static bool file_there(const char *path, const char *file)
{
    char name[CGROUP_PATH_MAX + 64];

    return file_path(name, sizeof(name), path, file) == 0 && access(name, W_OK) == 0;
}

/* Where the version 2 tree is mounted, or NULL. */
static const char *tree_root(void)
{
    static const char *const places[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };
    struct statfs st;

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if (statfs(places[i], &st) == 0 && (unsigned long)st.f_type == CGROUP2_MAGIC)
            return places[i];
    return NULL;
}

/* Hands the controllers that are there down one level. */
static void controllers_enable(const char *path)
{
    static const char *const wanted[] = { "cpu", "cpuset", "memory", "pids" };
    char there[256], word[16];

    if (value_read(path, "cgroup.controllers", there, sizeof(there)) < 0)
        return;
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        if (has_word(there, wanted[i])) {
            (void)snprintf(word, sizeof(word), "+%s", wanted[i]);
            (void)value_write(path, "cgroup.subtree_control", word);
        }
}

static unsigned int fences_probe(const char *parent)
{
    char probe[CGROUP_PATH_MAX + 16];
    unsigned int fences = 0;

    (void)snprintf(probe, sizeof(probe), "%s/probe", parent);
    if (mkdir(probe, 0755) < 0 && errno != EEXIST)
        return 0;
    fences |= file_there(probe, "cgroup.kill") ? FENCE_KILL : 0;
    fences |= file_there(probe, "cgroup.freeze") ? FENCE_FREEZE : 0;
    fences |= file_there(probe, "cpu.max") ? FENCE_CPU : 0;
    fences |= file_there(probe, "cpuset.cpus") ? FENCE_CPUSET : 0;
    fences |= file_there(probe, "memory.max") ? FENCE_MEMORY : 0;
    fences |= file_there(probe, "pids.max") ? FENCE_PIDS : 0;
    fences |= cgroup_device_works(probe) ? FENCE_DEVICES : 0;
    (void)rmdir(probe);
    return fences;
}

static void why_set(struct cgroup_tree *tree)
{
    unsigned int missing = (FENCE_CPU | FENCE_MEMORY) & ~tree->fences;

    if (!missing && (tree->fences & FENCE_DEVICES))
        return;
    (void)snprintf(tree->why, sizeof(tree->why), "not enforced:%s%s%s", missing & FENCE_CPU ? " cpu" : "",
                   missing & FENCE_MEMORY ? " memory" : "", tree->fences & FENCE_DEVICES ? "" : " devices");
    if (missing)
        (void)snprintf(tree->why + strlen(tree->why), sizeof(tree->why) - strlen(tree->why),
                       " (the version 2 tree at %.60s has no such controllers)", tree->path);
}

void cgroup_find(const char *parent, const char *name, struct cgroup_tree *ret_tree)
{
    const char *root = parent ? parent : tree_root();
    struct cgroup_tree tree = { 0 };

    *ret_tree = tree;
    if (!root || !*root) {
        (void)snprintf(ret_tree->why, sizeof(ret_tree->why), "no limits: %s",
                       root ? "groups were turned off" : "there is no version 2 tree of control groups");
        return;
    }
    (void)snprintf(tree.path, sizeof(tree.path), "%.300s%s", root, parent ? "" : "/muster");
    if (mkdir(tree.path, 0755) < 0 && errno != EEXIST) {
        (void)snprintf(ret_tree->why, sizeof(ret_tree->why), "no limits: %.80s: %s", tree.path, strerror(errno));
        return;
    }
    if (!parent)
        controllers_enable(root);
    controllers_enable(tree.path);
    (void)snprintf(tree.path + strlen(tree.path), sizeof(tree.path) - strlen(tree.path), "/%.100s", name);
    if (mkdir(tree.path, 0755) < 0 && errno != EEXIST) {
        (void)snprintf(ret_tree->why, sizeof(ret_tree->why), "no limits: %.80s: %s", tree.path, strerror(errno));
        return;
    }
    controllers_enable(tree.path);
    tree.fences = fences_probe(tree.path);
    if (!(tree.fences & FENCE_KILL) && !file_there(tree.path, "cgroup.procs")) {
        (void)snprintf(ret_tree->why, sizeof(ret_tree->why), "no limits: %.80s is not a control group", tree.path);
        (void)rmdir(tree.path);
        return;
    }
    why_set(&tree);
    *ret_tree = tree;
}

/* The agent's own group, and the one of all agents, as cgroup_find() made them: somebody who took them for left over
 * has removed them while they were empty. */
static void parents_make(const char *path)
{
    char parent[CGROUP_PATH_MAX], above[CGROUP_PATH_MAX];
    const char *last = strrchr(path, '/');

    (void)snprintf(parent, sizeof(parent), "%.*s", (int)(last ? last - path : 0), path);
    last = strrchr(parent, '/');
    (void)snprintf(above, sizeof(above), "%.*s", (int)(last ? last - parent : 0), parent);
    if (mkdir(above, 0755) == 0)
        controllers_enable(above);
    if (mkdir(parent, 0755) == 0)
        controllers_enable(parent);
}

int cgroup_make(const char *path, unsigned int fences, const struct cgroup_limits *limits, struct error *err)
{
    char value[64];
    int r = mkdir(path, 0755) < 0 ? -errno : 0;

    if (r == -ENOENT) {
        parents_make(path);
        r = mkdir(path, 0755) < 0 ? -errno : 0;
    }
    if (r == -EEXIST) {
        /* One of an attempt that never was may be left. */
        (void)cgroup_kill(path);
        (void)cgroup_remove(path);
        r = mkdir(path, 0755) < 0 && errno != EEXIST ? -errno : 0;
    }
    if (r < 0)
        return error_set(err, r, "%s: %s", path, strerror(-r));
    if (limits->memory && (fences & FENCE_MEMORY)) {
        (void)snprintf(value, sizeof(value), "%llu", (unsigned long long)limits->memory);
        r = value_write(path, "memory.max", value);
        (void)value_write(path, "memory.swap.max", "0");
        (void)value_write(path, "memory.oom.group", "1");
    }
    if (r == 0 && limits->cpus && (fences & FENCE_CPU)) {
        (void)snprintf(value, sizeof(value), "%llu 100000", (unsigned long long)limits->cpus * 100000ULL);
        r = value_write(path, "cpu.max", value);
    }
    if (r == 0 && limits->cpuset && (fences & FENCE_CPUSET))
        r = value_write(path, "cpuset.cpus", limits->cpuset);
    if (r == 0 && limits->mems && (fences & FENCE_CPUSET))
        r = value_write(path, "cpuset.mems", limits->mems);
    if (r == 0 && limits->pids && (fences & FENCE_PIDS)) {
        (void)snprintf(value, sizeof(value), "%u", limits->pids);
        r = value_write(path, "pids.max", value);
    }
    if (r == 0 && limits->fence_gpus && (fences & FENCE_DEVICES))
        r = cgroup_device_fence(path, limits->gpu_major == MAJOR_DRM, limits->gpu_minors, limits->gpu_count);
    if (r < 0) {
        (void)rmdir(path);
        return error_set(err, r, "%s: limits: %s", path, strerror(-r));
    }
    return 0;
}

int cgroup_enter(const char *path)
{
    return value_write(path, "cgroup.procs", "0");
}

/* What is not for want of memory is for want of the call, or of leave to use it. */
static pid_t clone_result(long pid)
{
    return pid >= 0 || pid == -EAGAIN || pid == -ENOMEM ? (pid_t)pid : -ENOSYS;
}

pid_t cgroup_fork(const char *path)
{
    struct clone_args args = { .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD };
    int group = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;
    long pid;

    if (group < 0)
        return -errno;
    args.cgroup = (unsigned int)group;
    pid = syscall(SYS_clone3, &args, sizeof(args));
    r = errno;
    close(group);
    return clone_result(pid < 0 ? -r : pid);
}

#ifndef __has_feature
#define __has_feature(name) 0
#endif

/* Sanitizers know the stacks of threads only. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&                          \
    !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer) && !__has_feature(memory_sanitizer)

enum { SPAWN_STACK = 256 << 10 };

/* The C library has no call that gives clone3() a stack: a child that came back from a function would return over what
 * its parent still needs. */
static long clone_call(const struct clone_args *args, void (*child)(void *arg), void *arg)
{
    long pid;

    __asm__ volatile("syscall\n\t"
                     "testq %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "movq %[arg], %%rdi\n\t"
                     "callq *%[child]\n\t"
                     "ud2\n"
                     "1:"
                     : "=a"(pid)
                     : "0"((long)SYS_clone3), "D"(args), "S"(sizeof(*args)), [child] "r"(child), [arg] "r"(arg)
                     : "rcx", "r11", "cc", "memory");
    return pid;
}

pid_t cgroup_spawn(const char *path, void (*child)(void *arg), void *arg)
{
    static _Alignas(16) char stack[SPAWN_STACK];
    struct clone_args args = {
        .flags = CLONE_VM | CLONE_VFORK, .exit_signal = SIGCHLD, .stack = (uintptr_t)stack, .stack_size = sizeof(stack)
    };
    int group = *path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    long pid;

    if (*path && group < 0)
        return -errno;
    if (group >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (unsigned int)group;
    }
    pid = clone_call(&args, child, arg);
    if (group >= 0)
        close(group);
    return clone_result(pid);
}

#else

pid_t cgroup_spawn(const char *path, void (*child)(void *arg), void *arg)
{
    (void)path;
    (void)child;
    (void)arg;
    return -ENOSYS;
}

#endif

int cgroup_kill(const char *path)
{
    int r = value_write(path, "cgroup.kill", "1");

    return r == -ENOENT ? -ENOSYS : r;
}

int cgroup_freeze(const char *path, bool frozen)
{
    int r = value_write(path, "cgroup.freeze", frozen ? "1" : "0");

    return r == -ENOENT ? -ENOSYS : r;
}

/* Groups the job made inside its own go first. */
int cgroup_remove(const char *path)
{
    const struct dirent *entry;
    DIR *dir;

    if (rmdir(path) == 0 || errno == ENOENT)
        return 0;
    dir = opendir(path);
    if (!dir)
        return errno == ENOENT ? 0 : -errno;
    while ((entry = readdir(dir))) {
        char below[CGROUP_PATH_MAX];

        if (entry->d_type == DT_DIR && entry->d_name[0] != '.' &&
            file_path(below, sizeof(below), path, entry->d_name) == 0)
            (void)cgroup_remove(below);
    }
    (void)closedir(dir);
    return rmdir(path) < 0 && errno != ENOENT ? -errno : 0;
}

#define OWNER_NAME "trusted.muster.state"

static void orphan_remove(const char *path)
{
    char state[PATH_MAX];
    ssize_t n = getxattr(path, OWNER_NAME, state, sizeof(state) - 1);

    if (n <= 0)
        return;
    state[n] = '\0';
    if (access(state, F_OK) < 0 && errno == ENOENT && cgroup_busy(path) == 0)
        (void)cgroup_remove(path);
}

void cgroup_own(const char *path, const char *state, bool sweep)
{
    char parent[CGROUP_PATH_MAX], beside[CGROUP_PATH_MAX];
    const struct dirent *entry;
    DIR *dir;

    (void)setxattr(path, OWNER_NAME, state, strlen(state), 0);
    (void)snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(path, '/') - path), path);
    dir = sweep ? opendir(parent) : NULL;
    while (dir && (entry = readdir(dir)))
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.' &&
            file_path(beside, sizeof(beside), parent, entry->d_name) == 0)
            orphan_remove(beside);
    if (dir)
        (void)closedir(dir);
}

int cgroup_busy(const char *path)
{
    int64_t populated = cgroup_number(path, "cgroup.events", "populated");
    pid_t pid;

    return populated >= 0 ? populated > 0 : cgroup_pids(path, &pid, 1) > 0;
}

static int pids_of_one(const char *path, pid_t *ret_pids, int count, int max)
{
    char name[CGROUP_PATH_MAX + 64];
    FILE *file;
    int pid;

    if (file_path(name, sizeof(name), path, "cgroup.procs") < 0)
        return count;
    file = fopen(name, "re");
    if (!file)
        return count;
    while (fscanf(file, "%d", &pid) == 1) { /* NOLINT(cert-err34-c): the kernel's own numbers */
        if (count < max)
            ret_pids[count] = pid;
        count++;
    }
    (void)fclose(file);
    return count;
}

static int pids_below(const char *path, pid_t *ret_pids, int count, int max)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;

    if (!dir)
        return count;
    count = pids_of_one(path, ret_pids, count, max);
    while ((entry = readdir(dir))) {
        char below[CGROUP_PATH_MAX];

        if (entry->d_type == DT_DIR && entry->d_name[0] != '.' &&
            file_path(below, sizeof(below), path, entry->d_name) == 0)
            count = pids_below(below, ret_pids, count, max);
    }
    (void)closedir(dir);
    return count;
}

int cgroup_pids(const char *path, pid_t *ret_pids, int max)
{
    return pids_below(path, ret_pids, 0, max);
}

int64_t cgroup_number(const char *path, const char *file, const char *key)
{
    char text[1024], *line, *rest = text;

    if (value_read(path, file, text, sizeof(text)) < 0)
        return -1;
    if (!key)
        return strtoll(text, NULL, 10);
    while ((line = strsep(&rest, "\n")))
        if (strncmp(line, key, strlen(key)) == 0 && line[strlen(key)] == ' ')
            return strtoll(line + strlen(key), NULL, 10);
    return -1;
}
