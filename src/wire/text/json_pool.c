/* SPDX-License-Identifier: Apache-2.0 */
/* json_pool.c - see json_pool.h. One list for each size the allocator hands out: 24, 40, 56, ... bytes. */
#include "wire/text/json_pool.h"

#include <jansson.h>
#include <malloc.h>
#include <stdbool.h>

#include "base/alloc.h"

enum { SIZES = 16, SIZE_FIRST = 24, SIZE_STEP = 16, KEPT_MAX = 256 };

#if defined(__SANITIZE_ADDRESS__)
#define WATCHED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WATCHED 1
#endif
#endif
#ifndef WATCHED
#define WATCHED 0
#endif

struct block {
    struct block *next;
};

static _Thread_local struct {
    struct block *first;
    unsigned count;
} kept[SIZES];
static _Thread_local bool keeps;

static void *pool_take(size_t size)
{
    size_t at = size <= SIZE_FIRST ? 0 : (size - SIZE_FIRST + SIZE_STEP - 1) / SIZE_STEP;
    struct block *block;

    if (at >= SIZES)
        return mem_resize(NULL, size, 1);
    block = kept[at].first;
    if (!block)
        return mem_resize(NULL, SIZE_FIRST + at * SIZE_STEP, 1);
    kept[at].first = block->next;
    kept[at].count--;
    return block;
}

static void pool_leave(void *memory)
{
    struct block *block = memory;
    size_t at = keeps && block ? (malloc_usable_size(block) - SIZE_FIRST) / SIZE_STEP : SIZES;

    if (at >= SIZES || kept[at].count == KEPT_MAX) {
        mem_free(memory);
        return;
    }
    block->next = kept[at].first;
    kept[at].first = block;
    kept[at].count++;
}

void json_pool_use(void)
{
    json_set_alloc_funcs(pool_take, pool_leave);
}

void json_pool_keep(void)
{
    json_pool_use();
    keeps = !WATCHED;
}

void json_pool_drop(void)
{
    keeps = false;
    for (size_t at = 0; at < SIZES; at++) {
        while (kept[at].first) {
            struct block *block = kept[at].first;

            kept[at].first = block->next;
            mem_free(block);
        }
        kept[at].count = 0;
    }
}
