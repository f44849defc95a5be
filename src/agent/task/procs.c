/* SPDX-License-Identifier: Apache-2.0 */
/* procs.c - see procs.h. */
#include "agent/task/procs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/util.h"
#include "base/alloc.h"

struct stat_line {
    pid_t pid, parent;
    char state;
    unsigned long long start; /* ticks since boot */
    long resident;            /* pages */
    unsigned long long ticks; /* of CPU */
};

static int stat_read(pid_t pid, struct stat_line *ret)
{
    char name[64], text[1024], *p;
    int fd, field = 4, parent = 0;
    ssize_t n;

    (void)snprintf(name, sizeof(name), "/proc/%d/stat", (int)pid);
    fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    /* The name in parentheses may hold anything, a ')' too. */
    p = strrchr(text, ')');
    if (!p || strlen(p) < 4)
        return -ESRCH;
    *ret = (struct stat_line){ .pid = pid, .state = p[2] };
    for (p += 4; *p && field <= 24; field++) {
        char *end;
        unsigned long long value = strtoull(p, &end, 10);

        if (field == 4)
            parent = (int)value;
        else if (field == 14 || field == 15)
            ret->ticks += value;
        else if (field == 22)
            ret->start = value;
        else if (field == 24)
            ret->resident = (long)value;
        p = *end ? end + 1 : end;
    }
    ret->parent = parent;
    return 0;
}

pid_t procs_parent(pid_t pid)
{
    struct stat_line line;

    return stat_read(pid, &line) < 0 ? 0 : line.parent;
}

char procs_state(pid_t pid)
{
    struct stat_line line;

    return stat_read(pid, &line) < 0 ? '\0' : line.state;
}

usec_t procs_started(pid_t pid)
{
    struct stat_line line;
    long ticks = sysconf(_SC_CLK_TCK);

    return stat_read(pid, &line) < 0 ? 0 : muldiv_floor((int64_t)line.start, USEC_SEC, ticks > 0 ? ticks : 100);
}

int64_t procs_memory(pid_t pid)
{
    struct stat_line line;

    return stat_read(pid, &line) < 0 ? 0 : line.resident * sysconf(_SC_PAGESIZE);
}

usec_t procs_cpu(pid_t pid)
{
    struct stat_line line;
    long ticks = sysconf(_SC_CLK_TCK);

    return stat_read(pid, &line) < 0 ? 0 : muldiv_floor((int64_t)line.ticks, USEC_SEC, ticks > 0 ? ticks : 100);
}

bool procs_catches(pid_t pid, int number)
{
    char name[64], text[64];
    unsigned long long mask = 0;
    FILE *file;

    (void)snprintf(name, sizeof(name), "/proc/%d/status", (int)pid);
    file = fopen(name, "re");
    if (!file)
        return false;
    while (fgets(text, sizeof(text), file))
        if (strncmp(text, "SigCgt:", 7) == 0)
            mask = strtoull(text + 7, NULL, 16);
    (void)fclose(file);
    return number > 0 && number <= 64 && (mask >> (number - 1) & 1);
}

/* Descriptors or memory ran out here, which says nothing about the process. */
static bool is_shortage(int r)
{
    return r == -EMFILE || r == -ENFILE || r == -ENOMEM;
}

/* All processes there are, owned by the caller; < 0: the list is not complete. */
static int procs_all(struct stat_line **ret_lines, size_t *ret_count)
{
    size_t capacity = 0;
    const struct dirent *entry;
    DIR *dir = opendir("/proc");
    int r = dir ? 0 : -errno;

    *ret_lines = NULL;
    *ret_count = 0;
    while (dir && (entry = readdir(dir))) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        int found;

        if (pid <= 0)
            continue;
        r = mem_grow((void **)ret_lines, &capacity, *ret_count + 1, 1 << 22, sizeof(**ret_lines));
        if (r < 0)
            break;
        found = stat_read(pid, &(*ret_lines)[*ret_count]);
        if (found == 0)
            (*ret_count)++;
        else if (is_shortage(found))
            r = found;
        if (r < 0)
            break;
    }
    if (dir)
        (void)closedir(dir);
    return r;
}

int procs_below(pid_t root, pid_t skip, pid_t *ret_pids, int max)
{
    struct stat_line *lines;
    size_t count;
    int found = 0;
    bool *below, again;

    (void)procs_all(&lines, &count);
    below = lines ? mem_zalloc(count ? count : 1, sizeof(*below)) : NULL;
    again = below != NULL;

    /* A child may stand before its parent in the list: until nothing changes. */
    while (again) {
        again = false;
        for (size_t i = 0; i < count; i++) {
            if (below[i] || lines[i].pid == skip)
                continue;
            if (lines[i].parent == root)
                below[i] = again = true;
            for (size_t k = 0; k < count && !below[i]; k++)
                if (below[k] && lines[k].pid == lines[i].parent)
                    below[i] = again = true;
        }
    }
    for (size_t i = 0; below && i < count; i++)
        if (below[i] && lines[i].state != 'Z' && lines[i].state != 'X') {
            if (found < max)
                ret_pids[found] = lines[i].pid;
            found++;
        }
    mem_free(below);
    mem_free(lines);
    return found;
}

static int environ_read(pid_t pid, struct bytes *ret)
{
    char name[64];

    (void)snprintf(name, sizeof(name), "/proc/%d/environ", (int)pid);
    return util_file_get(AT_FDCWD, name, 4 << 20, ret, NULL);
}

int procs_variable(pid_t pid, const char *name, char *value, size_t size)
{
    CLEANUP_BYTES struct bytes env = { 0 };
    size_t length = strlen(name);
    int r = environ_read(pid, &env);

    if (r < 0)
        return r;
    for (const char *p = env.data; p && p < env.data + env.size; p += strlen(p) + 1)
        if (strncmp(p, name, length) == 0 && p[length] == '=') {
            (void)snprintf(value, size, "%s", p + length + 1);
            return 0;
        }
    return -ENOENT;
}

int procs_marked(const char *mark, pid_t *ret_pids, int max)
{
    struct stat_line *lines;
    size_t count;
    int r = procs_all(&lines, &count), found = 0;

    for (size_t i = 0; r == 0 && i < count; i++) {
        CLEANUP_BYTES struct bytes env = { 0 };
        int read = lines[i].state == 'Z' ? -ESRCH : environ_read(lines[i].pid, &env);

        if (is_shortage(read))
            r = read;
        if (read < 0 || !env.data)
            continue;
        for (const char *p = env.data; p < env.data + env.size; p += strlen(p) + 1)
            if (strcmp(p, mark) == 0) {
                if (found < max)
                    ret_pids[found] = lines[i].pid;
                found++;
                break;
            }
    }
    mem_free(lines);
    return r < 0 ? r : found;
}

bool procs_maps(pid_t pid, const char *library)
{
    CLEANUP_BYTES struct bytes maps = { 0 };
    char name[64];

    (void)snprintf(name, sizeof(name), "/proc/%d/maps", (int)pid);
    return util_file_get(AT_FDCWD, name, 64 << 20, &maps, NULL) == 0 && maps.data && strstr(maps.data, library) != NULL;
}
