/* SPDX-License-Identifier: Apache-2.0 */
/* context.c - see context.h. */
#include "gpurt/context.h"

#include <string.h>

#include "gpurt/node.h"

#define MIB_BYTES ((uint64_t)1 << 20)

static uint64_t counted(const struct page_memory *m)
{
    uint64_t used = __atomic_load_n(&m->used, __ATOMIC_RELAXED);
    uint64_t context = __atomic_load_n(&m->class_bytes[CLASS_CONTEXT], __ATOMIC_RELAXED);

    return used > context ? used - context : 0;
}

void contexts_before(struct node *node)
{
    for (int i = 0; i < NODE_CLIENTS; i++) {
        struct client *c = &node->client[i];

        for (int k = 0; k < PAGE_GPUS && c->fd >= 0; k++)
            c->context[k].counted = counted(&c->page->memory[k]);
    }
}

static bool close_to(uint64_t a, uint64_t b)
{
    return (a > b ? a - b : b - a) <= CONTEXT_GRAIN_MIB;
}

static void gpu_seen(struct client *client, int gpu, uint32_t mib)
{
    struct context *context = &client->context[gpu];
    struct page_limit *limit = &client->page->limit[gpu];
    uint64_t now = counted(&client->page->memory[gpu]), told = limit->context_bytes / MIB_BYTES;
    uint32_t own;

    /* One that is evicted or released holds less than it will; one that allocates was seen before or after. */
    if (client->state != CLIENT_RUNNING || client->step != STEP_NONE || now != context->counted ||
        mib <= now / MIB_BYTES) {
        context->looks = 0;
        return;
    }
    own = mib - (uint32_t)(now / MIB_BYTES);
    context->looks = context->looks && close_to(own, context->mib) ? context->looks + 1 : 1;
    context->mib = own;
    if (context->looks > 1 && (told == 0 || !close_to(own, told)))
        __atomic_store_n(&limit->context_bytes, own * MIB_BYTES, __ATOMIC_RELAXED);
}

void context_seen(struct client *client, const uint8_t *uuid, uint32_t mib)
{
    for (int i = 0; i < PAGE_GPUS && client->fd >= 0; i++)
        if (client->page->memory[i].present && memcmp(client->page->memory[i].uuid, uuid, 16) == 0)
            gpu_seen(client, i, mib);
}
