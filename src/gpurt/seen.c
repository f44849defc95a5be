/* SPDX-License-Identifier: Apache-2.0 */
/* seen.c - see seen.h. */
#include "gpurt/seen.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/kernel.h"

enum { CARDS = 64 };

struct cards {
    uint32_t count;
    struct {
        int minor;
        uint8_t uuid[16];
    } one[CARDS];
};

/* "Device Minor: 0" and "GPU UUID: GPU-..." of one GPU. */
static bool card_read(const char *path, int *ret_minor, uint8_t *ret_uuid)
{
    char line[256];
    bool minor = false, uuid = false;
    FILE *f = fopen(path, "re");

    while (f && fgets(line, sizeof(line), f)) {
        const char *value = strchr(line, ':');

        if (!value)
            continue;
        value += 1 + strspn(value + 1, " \t");
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "Device Minor", 12) == 0)
            minor = sscanf(value, "%d", ret_minor) == 1;
        else if (strncmp(line, "GPU UUID", 8) == 0)
            uuid = foreign_uuid(value, ret_uuid);
    }
    if (f)
        (void)fclose(f);
    return minor && uuid;
}

static void cards_read(struct cards *ret)
{
    char path[KERNEL_PATH_MAX], name[300];
    const struct dirent *entry;
    DIR *dir;

    ret->count = 0;
    kernel_path("gpus", path);
    dir = opendir(path);
    while (dir && ret->count < CARDS && (entry = readdir(dir))) {
        if (entry->d_name[0] == '.' || strlen(entry->d_name) >= KERNEL_BUS_MAX)
            continue;
        (void)snprintf(name, sizeof(name), "gpus/%s/information", entry->d_name);
        kernel_path(name, path);
        if (card_read(path, &ret->one[ret->count].minor, ret->one[ret->count].uuid))
            ret->count++;
    }
    if (dir)
        (void)closedir(dir);
}

/* Which of the GPUs has the process open? A bit each. */
static uint64_t open_cards(const struct cards *cards, const char *pid, const char *prefix)
{
    char path[300], link[300];
    const struct dirent *entry;
    size_t length = strlen(prefix);
    uint64_t bits = 0;
    ssize_t n;
    DIR *dir;

    (void)snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
    dir = opendir(path);
    while (dir && (entry = readdir(dir))) {
        n = readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1);
        if (n <= (ssize_t)length || strncmp(link, prefix, length) != 0)
            continue;
        link[n] = '\0';
        if (link[length + strspn(link + length, "0123456789")] != '\0') /* nvidiactl, nvidia-uvm */
            continue;
        for (uint32_t i = 0; i < cards->count; i++)
            if (cards->one[i].minor == atoi(link + length))
                bits |= (uint64_t)1 << i;
    }
    if (dir)
        (void)closedir(dir);
    return bits;
}

static bool same_program(const char *pid)
{
    char path[64], theirs[512], ours[512];
    ssize_t n, m;

    (void)snprintf(path, sizeof(path), "/proc/%.20s/exe", pid);
    n = readlink(path, theirs, sizeof(theirs));
    m = readlink("/proc/self/exe", ours, sizeof(ours));
    return n > 0 && n == m && memcmp(theirs, ours, (size_t)n) == 0;
}

uint32_t seen_look(struct foreign *ret, uint32_t most)
{
    const char *dev = getenv("MUSTER_GPU_DEVICE_DIR");
    const struct dirent *entry;
    struct cards cards;
    char prefix[256];
    uint32_t count = 0;
    DIR *dir;

    cards_read(&cards);
    if (!cards.count)
        return 0;
    (void)snprintf(prefix, sizeof(prefix), "%.200s/nvidia", dev && *dev ? dev : "/dev");
    dir = opendir("/proc");
    while (dir && count < most && (entry = readdir(dir))) {
        uint64_t bits = isdigit((unsigned char)entry->d_name[0]) ? open_cards(&cards, entry->d_name, prefix) : 0;

        for (uint32_t i = 0; bits && i < cards.count && count < most && !same_program(entry->d_name); i++)
            if (bits >> i & 1) {
                ret[count] = (struct foreign){ .pid = atoi(entry->d_name) };
                memcpy(ret[count++].uuid, cards.one[i].uuid, sizeof(ret->uuid));
            }
    }
    if (dir)
        (void)closedir(dir);
    return count;
}
