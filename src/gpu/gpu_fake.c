/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_fake.c - emulated GPUs: everything about a node but the silicon. A file tells which of them look broken. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "gpu/gpu.h"

static const struct {
    const char *name;
    uint32_t memory_mib;
} skus[] = {
    { "H200", 143771 },   { "H100", 81559 }, { "H800", 81559 },    { "A100", 81920 },  { "A800", 81920 },
    { "B200", 183359 },   { "V100", 32768 }, { "P100", 16384 },    { "T4", 15360 },    { "L4", 23034 },
    { "L40S", 46068 },    { "L40", 46068 },  { "A10", 23028 },     { "A30", 24576 },   { "A40", 46068 },
    { "K80", 11441 },     { "M60", 7618 },   { "RTX4090", 24564 }, { "MI210", 65520 }, { "MI250X", 65520 },
    { "MI300X", 196592 },
};

uint32_t gpu_sku_memory(const char *sku)
{
    for (size_t i = 0; i < sizeof(skus) / sizeof(skus[0]); i++)
        if (strcasecmp(skus[i].name, sku) == 0)
            return skus[i].memory_mib;
    return 0;
}

bool gpu_sku_amd(const char *sku)
{
    return strncasecmp(sku, "MI", 2) == 0 && isdigit((unsigned char)sku[2]);
}

/* The first word that has a digit in it: "Tesla V100-SXM2-32GB" -> "V100", "NVIDIA GeForce RTX 4090" -> "RTX4090". */
void gpu_sku_name(const char *product, char *out, size_t size)
{
    char copy[96], *rest = copy, *word, *found = NULL, *before = NULL;

    (void)snprintf(copy, sizeof(copy), "%s", product);
    while (!found && (word = strsep(&rest, " -"))) {
        if (strpbrk(word, "0123456789"))
            found = word;
        else
            before = word;
    }
    if (found && before && isdigit((unsigned char)found[0]))
        (void)snprintf(out, size, "%s%s", before, found);
    else
        (void)snprintf(out, size, "%s", found ? found : product);
}

static void fake_close(struct gpus *gpus)
{
    mem_free(gpus->inside);
}

static int fake_sample(struct gpus *gpus, uint32_t index, struct gpu_sample *ret)
{
    (void)gpus;
    (void)index;
    *ret = (struct gpu_sample){ .temp = 30, .power_w = 70 };
    return 0;
}

/* "INDEX WORDS" a line: out of order. "INDEX foreign PID": in order, and used by a process that is not ours. */
static void fake_health(struct gpus *gpus, uint32_t index, struct gpu_health *ret)
{
    FILE *file = gpus->inside ? fopen(gpus->inside, "re") : NULL;
    char line[128];

    *ret = (struct gpu_health){ .ok = true };
    if (!file)
        return;
    while (fgets(line, sizeof(line), file)) {
        char *words;
        unsigned long number = strtoul(line, &words, 10);

        if (words == line || number != index)
            continue;
        words[strcspn(words, "\n")] = '\0';
        words += strspn(words, " ");
        ret->ok = strncmp(words, "foreign ", 8) == 0;
        ret->foreign = ret->ok ? (pid_t)strtol(words + 8, NULL, 10) : 0;
        (void)snprintf(ret->reason, sizeof(ret->reason), "%.60s", ret->ok ? "" : *words ? words : "told so");
    }
    (void)fclose(file);
}

static const struct gpu_ops fake_ops = {
    .name = "fake",
    .close = fake_close,
    .sample = fake_sample,
    .health = fake_health,
};

int gpus_open_fake(const char *text, const char *health_file, struct gpus **ret_gpus, struct error *err)
{
    char *end;
    unsigned long count = strtoul(text, &end, 10);
    struct gpus *gpus;

    if (end == text || count > GPU_NODE_MAX || (*end && *end != ':') || (*end == ':' && !end[1]) || strlen(end) > 32)
        return error_set(err, -EINVAL, "emulated GPUs '%s': expected COUNT:TYPE, such as 8:H100; at most %d", text,
                         GPU_NODE_MAX);
    gpus = mem_zalloc(1, sizeof(*gpus));
    if (!gpus)
        return error_set(err, -ENOMEM, "no memory");
    gpus->ops = &fake_ops;
    gpus->fake = true;
    gpus->count = (uint32_t)count;
    gpus->sockets = count >= 4 && count % 2 == 0 ? 2 : 1;
    gpus->groups = 1;
    (void)snprintf(gpus->sku, sizeof(gpus->sku), "%s", *end == ':' ? end + 1 : "GPU");
    gpus->amd = gpu_sku_amd(gpus->sku);
    gpus->memory_mib = gpu_sku_memory(gpus->sku) ? gpu_sku_memory(gpus->sku) : 16384;
    for (uint32_t i = 0; i < gpus->count; i++) {
        struct gpu_info *info = &gpus->info[i];

        *info = (struct gpu_info){ .memory_mib = gpus->memory_mib, .minor = (int)i };
        info->numa = (int)(i * gpus->sockets / gpus->count);
        (void)snprintf(info->uuid, sizeof(info->uuid), "GPU-fake-%04x", i);
    }
    gpus->inside = health_file ? mem_strdup(health_file) : NULL;
    *ret_gpus = gpus;
    return 0;
}

void gpus_close(struct gpus *gpus)
{
    if (!gpus)
        return;
    gpus->ops->close(gpus);
    mem_free(gpus);
}
