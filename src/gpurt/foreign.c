/* SPDX-License-Identifier: Apache-2.0 */
/* foreign.c - see foreign.h. */
#include "gpurt/foreign.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "gpu/gpu.h"
#include "gpurt/node.h"
#include "gpurt/seen.h"

#define LOOK_NS 1000000000ULL
#define SEEN_NS (5 * LOOK_NS) /* by looking through all processes, which is more work */
#define MIB_BYTES ((uint64_t)1 << 20)
#define GIB (1024.0 * 1024 * 1024)
#define ROW_MAX 320u

void foreign_open(struct node *node)
{
    struct error err = { 0 };

    if (gpus_open_nvml(&node->foreigners.gpus, &err) < 0)
        node->foreigners.gpus = NULL;
}

void foreign_close(struct node *node)
{
    gpus_close(node->foreigners.gpus);
    node->foreigners.gpus = NULL;
}

bool foreign_uuid(const char *text, uint8_t *ret)
{
    size_t n = 0;

    text += strncmp(text, "GPU-", 4) == 0 ? 4 : 0;
    memset(ret, 0, 16);
    for (; *text && n < 32; text++) {
        const char *digits = "0123456789abcdef", *at = strchr(digits, *text | 0x20);

        if (*text == '-')
            continue;
        if (!at)
            return false;
        ret[n / 2] = (uint8_t)(ret[n / 2] << 4 | (uint8_t)(at - digits));
        n++;
    }
    return n == 32;
}

static void gpu_look(struct node *node, const struct gpu_sample *sample, const uint8_t *uuid, bool *ret_known)
{
    struct foreigners *f = &node->foreigners;

    for (uint32_t i = 0; i < sample->pid_count; i++) {
        struct client *client = node_find(node, sample->pids[i]);

        if (client) {
            client->util = sample->pid_util[i];
            context_seen(client, uuid, sample->pid_mib[i]);
            *ret_known = true;
        } else if (f->count < FOREIGN_MAX) {
            f->one[f->count] =
                (struct foreign){ .pid = sample->pids[i], .bytes = (uint64_t)sample->pid_mib[i] * MIB_BYTES };
            memcpy(f->one[f->count++].uuid, uuid, 16);
        }
    }
    for (int i = 0; i < PAGE_GPUS; i++)
        if (node->gpu[i].used && memcmp(node->gpu[i].uuid, uuid, 16) == 0) {
            memory_seen(node, i, sample->memory_mib);
            node->gpu[i].clocks.power_w = sample->power_w;
            node->gpu[i].clocks.util = sample->util;
            node->gpu[i].clocks.temp = sample->temp;
        }
}

/* A GPU that fell off the bus, or that the driver has an error of, says so in the listings. */
static void health_look(struct node *node, uint32_t index, const uint8_t *uuid)
{
    struct gpus *gpus = node->foreigners.gpus;
    struct gpu_health health;

    gpus->ops->health(gpus, index, &health);
    for (int i = 0; i < PAGE_GPUS; i++)
        if (node->gpu[i].used && memcmp(node->gpu[i].uuid, uuid, 16) == 0) {
            memcpy(node->gpu[i].clocks.ill, health.reason, sizeof(health.reason));
            node->gpu[i].clocks.known |= health.reason[0] != '\0';
        }
}

static void look_without(struct node *node, uint64_t now)
{
    struct foreigners *f = &node->foreigners;
    uint32_t kept = 0;

    if (now - f->seen_ns < SEEN_NS && f->seen_ns)
        return;
    f->seen_ns = now;
    f->count = seen_look(f->one, FOREIGN_MAX);
    for (uint32_t i = 0; i < f->count; i++)
        if (!node_find(node, f->one[i].pid))
            f->one[kept++] = f->one[i];
    f->count = kept;
}

void foreign_turn(struct node *node, uint64_t now)
{
    struct foreigners *f = &node->foreigners;
    bool known = false, contexts = false;

    if (!f->gpus || f->gpus->count == 0) {
        look_without(node, now);
        return;
    }
    if (now - f->seen_ns < LOOK_NS)
        return;
    f->seen_ns = now;
    f->count = 0;
    contexts_before(node);
    for (uint32_t i = 0; i < f->gpus->count; i++) {
        struct gpu_sample sample;
        uint8_t uuid[16];

        if (!foreign_uuid(f->gpus->info[i].uuid, uuid))
            continue;
        health_look(node, i, uuid);
        if (f->gpus->ops->sample(f->gpus, i, &sample) == 0)
            gpu_look(node, &sample, uuid, &known);
    }
    for (int i = 0; i < NODE_CLIENTS; i++)
        contexts |= node->client[i].fd >= 0 && node->client[i].state == CLIENT_RUNNING &&
                    node->client[i].page->memory[client_gpu(&node->client[i])].present;
    if (contexts && !known) /* in a container the driver numbers processes otherwise than we do: say nothing wrong */
        f->count = 0;
}

static void name_of(pid_t pid, char *name, size_t size)
{
    char path[64];
    FILE *file;

    (void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    file = fopen(path, "re");
    name[0] = '\0';
    if (file && !fgets(name, (int)size, file))
        name[0] = '\0';
    if (file)
        (void)fclose(file);
    for (char *c = name; *c; c++)
        if (*c == '\n' && !c[1])
            *c = '\0';
        else if (*c < ' ' || *c == '"' || *c == '\\')
            *c = ' ';
    if (!*name)
        (void)snprintf(name, size, "-");
}

size_t foreign_text(const struct node *node, char *text, size_t size)
{
    const struct foreigners *f = &node->foreigners;
    size_t n = 0;

    for (uint32_t i = 0; i < f->count && n + ROW_MAX < size; i++) {
        char name[32];

        name_of(f->one[i].pid, name, sizeof(name));
        n += (size_t)snprintf(text + n, size - n, "%-8d  %-13s  %-8s  %-7s  %5s  %8.2f  %8s  %8s  %10s  %8s  %6s  %s\n",
                              (int)f->one[i].pid, "foreign", "-", "-", "-", (double)f->one[i].bytes / GIB, "-", "-",
                              "-", "-", "-", name);
    }
    return n;
}

size_t foreign_json(const struct node *node, bool any, char *text, size_t size)
{
    const struct foreigners *f = &node->foreigners;
    size_t n = 0;

    for (uint32_t i = 0; i < f->count && n + ROW_MAX < size; i++) {
        char name[32], uuid[33];

        name_of(f->one[i].pid, name, sizeof(name));
        for (int k = 0; k < 16; k++)
            (void)snprintf(uuid + (size_t)2 * (size_t)k, 3, "%02x", f->one[i].uuid[k]);
        n += (size_t)snprintf(
            text + n, size - n,
            "%s{\"pid\":%d,\"role\":\"foreign\",\"used_bytes\":%llu,\"gpu\":\"%s\",\"program\":\"%s\"}", any ? "," : "",
            (int)f->one[i].pid, (unsigned long long)f->one[i].bytes, uuid, name);
        any = true;
    }
    return n;
}
