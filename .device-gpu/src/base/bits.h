/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* bits.h - a set of small integers that finds its first member in a few word operations.
 *
 * Three levels of words: a bit above is set when the word below is not empty, so the first of 262,144 members is three
 * count-trailing-zeros away. Memory is the caller's, zeroed.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BITS_NONE UINT32_MAX
#define BITS_MAX ((uint32_t)1 << 24)

struct bits {
    uint64_t *word[4]; /* word[0] has a bit a member */
    uint32_t words[4];
    uint32_t size, levels;
};

size_t bits_size(uint32_t size);
void bits_init(struct bits *bits, void *zeroed_memory, uint32_t size);
void bits_set(struct bits *bits, uint32_t i);
void bits_clear(struct bits *bits, uint32_t i);

static inline bool bits_has(const struct bits *bits, uint32_t i)
{
    return bits->word[0][i / 64] >> (i % 64) & 1;
}

/* The first member at or after `from`, BITS_NONE if there is none. */
uint32_t bits_next(const struct bits *bits, uint32_t from);
