/* SPDX-License-Identifier: Apache-2.0 */
/* clocks.c - see clocks.h. */
#include "gpurt/control/clocks.h"

#include <stdio.h>
#include <string.h>

#include "gpurt/node.h"

#define ROW_MAX 512u

static const struct {
    enum gpu_throttle reason;
    const char *name, *words;
} throttles[GPU_THROTTLES] = {
    { GPU_THROTTLE_SET, "set", "clocks fixed" },
    { GPU_THROTTLE_POWER, "power", "at its power limit" },
    { GPU_THROTTLE_THERMAL, "thermal", "slowed by heat" },
    { GPU_THROTTLE_BRAKE, "brake", "slowed by the power supply" },
    { GPU_THROTTLE_SYNC, "sync", "keeps step with another GPU" },
};

void clocks_note(struct clocks *clocks, const struct gpu_clocks *seen, uint64_t now)
{
    clocks->now = *seen;
    clocks->known = true;
    if (seen->reasons & CLOCKS_FOREIGN)
        clocks->foreign_ns = now;
}

bool clocks_judged(const struct clocks *clocks, uint64_t now)
{
    return !clocks->foreign_ns || now > clocks->foreign_ns + CLOCKS_LOOK_NS + CLOCKS_SETTLE_NS;
}

void clocks_turn(struct node *node, uint64_t now)
{
    struct gpus *gpus = node->foreigners.gpus;

    if (!gpus || !gpus->ops->clocks || now - node->clocks_ns < CLOCKS_LOOK_NS)
        return;
    node->clocks_ns = now;
    for (int i = 0; i < PAGE_GPUS; i++) {
        struct gpu_arena *gpu = &node->gpu[i];
        struct gpu_clocks seen;

        for (uint32_t k = 0; gpu->used && k < gpus->count; k++) {
            uint8_t uuid[16];

            if (foreign_uuid(gpus->info[k].uuid, uuid) && memcmp(uuid, gpu->uuid, sizeof(uuid)) == 0 &&
                gpus->ops->clocks(gpus, k, &seen) == 0)
                clocks_note(&gpu->clocks, &seen, now);
        }
    }
}

static void uuid_text(const uint8_t *uuid, char *text)
{
    for (int i = 0; i < 16; i++)
        (void)snprintf(text + (size_t)2 * (size_t)i, 3, "%02x", uuid[i]);
}

size_t clocks_text(const struct node *node, char *text, size_t size)
{
    size_t n = 0;

    *text = '\0';
    for (int i = 0; i < PAGE_GPUS && n + ROW_MAX < size; i++) {
        const struct clocks *c = &node->gpu[i].clocks;
        char uuid[33];

        if (!node->gpu[i].used || !c->known)
            continue;
        uuid_text(node->gpu[i].uuid, uuid);
        n += (size_t)snprintf(text + n, size - n, "GPU %.8s  %u of %u MHz  %u W  %u C  %u%% busy", uuid, c->now.sm_mhz,
                              c->now.sm_max_mhz, c->power_w, c->temp, c->util);
        for (size_t k = 0; k < GPU_THROTTLES; k++)
            if (c->now.reasons & throttles[k].reason)
                n += (size_t)snprintf(text + n, size - n, "  %s", throttles[k].words);
        if (*c->ill)
            n += (size_t)snprintf(text + n, size - n, "  out of order: %s", c->ill);
        text[n++] = '\n';
        text[n] = '\0';
    }
    return n;
}

size_t clocks_json(const struct node *node, uint64_t now, char *text, size_t size)
{
    size_t n = 0;

    *text = '\0';
    for (int i = 0; i < PAGE_GPUS && n + ROW_MAX < size; i++) {
        const struct clocks *c = &node->gpu[i].clocks;
        const char *comma = "";
        char uuid[33];

        if (!node->gpu[i].used || !c->known)
            continue;
        uuid_text(node->gpu[i].uuid, uuid);
        n += (size_t)snprintf(text + n, size - n,
                              "%s{\"gpu\":\"%s\",\"clock_mhz\":%u,\"clock_max_mhz\":%u,\"power_w\":%u,"
                              "\"temperature_c\":%u,\"busy_percent\":%u,\"judged\":%s,\"throttle\":[",
                              n ? "," : "", uuid, c->now.sm_mhz, c->now.sm_max_mhz, c->power_w, c->temp, c->util,
                              clocks_judged(c, now) ? "true" : "false");
        for (size_t k = 0; k < GPU_THROTTLES; k++)
            if (c->now.reasons & throttles[k].reason) {
                n += (size_t)snprintf(text + n, size - n, "%s\"%s\"", comma, throttles[k].name);
                comma = ",";
            }
        n += (size_t)snprintf(text + n, size - n, "],\"health\":\"%s\"}", c->ill);
    }
    return n;
}
