/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* kernel.h - what the kernel driver tells in files: its version, and which GPU is on which bus.
 *
 * For the preloaded library and the node side alike. MUSTER_GPU_DRIVER_DIR stands for /proc/driver/nvidia in tests.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KERNEL_PATH_MAX 512
#define KERNEL_BUS_MAX 16 /* "0000:3B:00.0" */

static inline void kernel_path(const char *name, char *path)
{
    const char *dir = getenv("MUSTER_GPU_DRIVER_DIR");

    (void)snprintf(path, KERNEL_PATH_MAX, "%.200s/%.300s", dir && *dir ? dir : "/proc/driver/nvidia", name);
}

/* Is it of a branch whose time slices were tried? */
static inline bool kernel_branch_known(void)
{
    static const char *const known[] = { " 580." };
    char path[KERNEL_PATH_MAX], text[256] = "";
    bool is = false;
    FILE *f;

    kernel_path("version", path);
    f = fopen(path, "re");
    if (!f)
        return false;
    if (!fgets(text, sizeof(text), f))
        text[0] = '\0';
    (void)fclose(f);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        is |= strstr(text, known[i]) != NULL;
    return is;
}

/* Does a control daemon of MPS serve this process? Then its work is another process' on the GPU. */
static inline bool kernel_mps(void)
{
    const char *dir = getenv("CUDA_MPS_PIPE_DIRECTORY");
    char path[KERNEL_PATH_MAX];
    int pid = 0;
    FILE *f;

    (void)snprintf(path, sizeof(path), "%.400s/nvidia-cuda-mps-control.pid", dir && *dir ? dir : "/tmp/nvidia-mps");
    f = fopen(path, "re");
    if (!f)
        return false;
    if (fscanf(f, "%d", &pid) != 1)
        pid = 0;
    (void)fclose(f);
    return pid > 0 && (kill(pid, 0) == 0 || errno != ESRCH); /* one that was killed leaves its file */
}

static inline bool kernel_is_gpu(const char *path, const char *uuid)
{
    char text[256];
    bool is = false;
    FILE *f = fopen(path, "re");

    while (f && !is && fgets(text, sizeof(text), f))
        is = strncmp(text, "GPU UUID:", 9) == 0 && strstr(text, uuid) != NULL;
    if (f)
        (void)fclose(f);
    return is;
}

/* The bus address of the GPU with this UUID, as the driver writes it. False: there is none. */
static inline bool kernel_bus(const uint8_t *uuid, char *ret)
{
    char text[64] = "GPU-", path[KERNEL_PATH_MAX], name[300];
    const struct dirent *entry;
    bool found = false;
    size_t n = 4;
    DIR *dir;

    for (int i = 0; i < 16; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                              uuid[i]);
    kernel_path("gpus", path);
    dir = opendir(path);
    while (dir && !found && (entry = readdir(dir))) {
        if (strlen(entry->d_name) >= KERNEL_BUS_MAX || entry->d_name[0] == '.')
            continue;
        (void)snprintf(name, sizeof(name), "gpus/%s/information", entry->d_name);
        kernel_path(name, path);
        found = kernel_is_gpu(path, text);
        for (size_t i = 0; found && i <= strlen(entry->d_name); i++)
            ret[i] = (char)toupper((unsigned char)entry->d_name[i]);
    }
    if (dir)
        (void)closedir(dir);
    return found;
}
