/* SPDX-License-Identifier: Apache-2.0 */
/* rungs.c - the estimates of a process: what its page says, put to estimate.h; what its moves taught. */
#include <stdio.h>

#include "gpurt/node.h"

#define MIB_BYTES ((uint64_t)1 << 20)

static void process_read(const struct client *c, struct estimate_process *ret)
{
    struct memory_sum all = memory_all(c);
    uint64_t device = all.movable > all.host ? all.movable - all.host : 0;

    *ret = (struct estimate_process){
        .movable = device / MIB_BYTES,
        .fixed = all.used > device + all.context ? (all.used - device - all.context) / MIB_BYTES : 0,
        .context = all.context / MIB_BYTES,
        .prepared = c->page->health.area_bytes / MIB_BYTES,
        .host_free = memory_host_free(c) / MIB_BYTES,
        .host_limit = memory_host_told(c) == UINT64_MAX ? 0 : 1 + memory_host_told(c) / MIB_BYTES,
        .moves = c->mode == 2 && !(c->page->health.flags & HEALTH_NO_MOVE),
        .releases = !(c->page->health.flags & (HEALTH_NO_CHECKPOINT | HEALTH_SHARED)),
        .rung = c->state == CLIENT_RELEASED  ? RUNG_RELEASE
                : c->state == CLIENT_EVICTED ? RUNG_EVICT
                                             : RUNG_PAUSE,
        .away = c->state >= CLIENT_EVICTED ? all.saved / MIB_BYTES : 0,
    };
    if (c->state == CLIENT_RELEASED) /* its page tells what it was before */
        ret->away += ret->fixed + ret->context;
}

enum estimate_rung rungs_choose(const struct node *node, const struct client *client, uint64_t free_bytes)
{
    struct estimate_process process;

    process_read(client, &process);
    return estimate_choose(&node->rates, &process, (free_bytes + MIB_BYTES - 1) / MIB_BYTES);
}

void rungs_text(const struct node *node, const struct client *client, uint64_t free_bytes, char *text, size_t size)
{
    static const char *const names[RUNG_COUNT] = { "pause", "evict", "release", "checkpoint" };
    enum estimate_rung chosen = rungs_choose(node, client, free_bytes);
    struct estimate_process process;
    size_t n;

    process_read(client, &process);
    if (client->state == CLIENT_RELEASED)
        process.fixed = process.context = 0;
    n = (size_t)snprintf(text, size, "%-10s  %3s  %9s  %9s  %7s  %7s  %s\n", "RUNG", "CAN", "FREES-MIB", "HOST-MIB",
                         "SAVE-S", "BACK-S", "CHOICE");
    for (enum estimate_rung rung = RUNG_PAUSE; rung < RUNG_COUNT && n < size; rung++) {
        struct estimate e = estimate_of(&node->rates, &process, rung);
        char save[16] = "-", back[16] = "-";

        if (rung != RUNG_SAVE) {
            (void)snprintf(save, sizeof(save), "%.3f", e.save_ms / 1e3);
            (void)snprintf(back, sizeof(back), "%.3f", e.back_ms / 1e3);
        }
        n += (size_t)snprintf(text + n, size - n, "%-10s  %3s  %9llu  %9llu  %7s  %7s  %s\n", names[rung],
                              e.can ? "yes" : "no", (unsigned long long)e.freed, (unsigned long long)e.host, save, back,
                              rung == chosen ? "*" : "");
    }
}

void rungs_learn(struct node *node, const struct client *client, enum ladder_step step)
{
    struct estimate_rates *rates = &node->rates;
    uint64_t mib = client->moved.bytes / MIB_BYTES, driver_ns = (uint64_t)(client->driver_s * 1e9);
    struct estimate_process process;

    if (step == STEP_EVICT)
        estimate_learn(&rates->out, mib, client->moved.ns);
    else if (step == STEP_RELOAD)
        estimate_learn(&rates->back, mib, client->moved.ns);
    else if (step == STEP_RELEASE || step == STEP_RESTORE) {
        process_read(client, &process);
        if (process.fixed < 256) /* then it is what the driver takes for a context and nothing else */
            estimate_learn_ms(step == STEP_RELEASE ? &rates->driver_out_ms : &rates->driver_back_ms, driver_ns);
    }
}
