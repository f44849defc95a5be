/* SPDX-License-Identifier: Apache-2.0 */
/* alloc.c - see alloc.h. */
#include "base/alloc.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local size_t fail_countdown;

static bool must_fail(void)
{
    return fail_countdown > 0 && --fail_countdown == 0;
}

void mem_fail_at(size_t nth)
{
    fail_countdown = nth;
}

/* Up to this size the allocator has blocks at hand that were freed a moment ago, where malloc looks and calloc does
 * not. */
enum { SMALL_BYTES = 1024 };

/* A call of its own, or the compiler would see malloc and memset and make calloc of them. */
__attribute__((noinline)) static void *small_new(size_t bytes)
{
    return malloc(bytes);
}

void *mem_zalloc(size_t count, size_t size)
{
    size_t bytes;
    void *block;

    if (must_fail() || __builtin_mul_overflow(count, size, &bytes))
        return NULL;
    bytes = bytes ? bytes : 1;
    if (bytes > SMALL_BYTES)
        return calloc(1, bytes);
    block = small_new(bytes);
    return block ? memset(block, 0, bytes) : NULL;
}

void *mem_resize(void *block, size_t count, size_t size)
{
    size_t bytes;

    if (must_fail() || __builtin_mul_overflow(count, size, &bytes))
        return NULL;
    bytes = bytes ? bytes : 1;
    return block ? realloc(block, bytes) : malloc(bytes);
}

void mem_free(void *block)
{
    free(block);
}

char *mem_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = mem_resize(NULL, bytes, 1);

    if (copy)
        memcpy(copy, text, bytes);
    return copy;
}

int mem_grow(void **block, size_t *capacity, size_t need, size_t max, size_t size)
{
    size_t to = *capacity ? *capacity : 16;
    void *grown;

    if (need > max)
        return -E2BIG;
    if (need <= *capacity)
        return 0;
    while (to < need)
        to *= 2;
    if (to > max)
        to = max;
    grown = mem_resize(*block, to, size);
    if (!grown)
        return -ENOMEM;
    *block = grown;
    *capacity = to;
    return 0;
}
