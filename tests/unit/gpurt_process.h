/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* gpurt_process.h - a node side that is played, and a process on its first GPU: registered, with a page, nobody behind
 * it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "gpurt/node.h"

/* With one GPU of so many bytes, and nobody on it; NULL: out of memory. */
static inline struct node *node_make(uint64_t total_bytes)
{
    struct node *node = mem_zalloc(1, sizeof(*node));

    if (!node)
        return NULL;
    node_empty(node);
    node->gpu[0].used = true;
    node->gpu[0].total_bytes = total_bytes;
    return node;
}

static inline void node_drop(struct node *node)
{
    for (int i = 0; i < NODE_CLIENTS; i++)
        mem_free(node->client[i].page);
    mem_free(node);
}

static inline struct client *process_make(struct node *node, int slot, uint32_t role)
{
    struct client *c = &node->client[slot];

    *c = (struct client){ .fd = 1 << 20, .pid = 1000 + slot, .role = role, .guardian = -1 };
    c->page = mem_zalloc(1, sizeof(struct page));
    assert_non_null(c->page);
    for (int i = 0; i < PAGE_GPUS; i++)
        c->arena[i] = -1;
    c->arena[0] = 0;
    c->joined = ++node->joined;
    c->page->memory[0].present = 1;
    return c;
}
