/* SPDX-License-Identifier: Apache-2.0 */
/* bits.c - see bits.h. */
#include "base/bits.h"

#include <assert.h>

static uint32_t words_for(uint32_t size)
{
    return (size + 63) / 64;
}

size_t bits_size(uint32_t size)
{
    size_t words = 0;

    do {
        size = words_for(size ? size : 1);
        words += size;
    } while (size > 1);
    return words * sizeof(uint64_t);
}

void bits_init(struct bits *bits, void *zeroed_memory, uint32_t size)
{
    uint64_t *at = zeroed_memory;
    uint32_t left = size ? size : 1;

    assert(size <= BITS_MAX);
    bits->size = size;
    bits->levels = 0;
    do {
        left = words_for(left);
        bits->words[bits->levels] = left;
        bits->word[bits->levels++] = at;
        at += left;
    } while (left > 1);
}

void bits_set(struct bits *bits, uint32_t i)
{
    assert(i < bits->size);
    for (uint32_t level = 0; level < bits->levels; level++) {
        uint64_t *word = &bits->word[level][i / 64];
        bool was = *word != 0;

        *word |= (uint64_t)1 << (i % 64);
        if (was)
            return;
        i /= 64;
    }
}

void bits_clear(struct bits *bits, uint32_t i)
{
    assert(i < bits->size);
    for (uint32_t level = 0; level < bits->levels; level++) {
        uint64_t *word = &bits->word[level][i / 64];

        *word &= ~((uint64_t)1 << (i % 64));
        if (*word)
            return;
        i /= 64;
    }
}

uint32_t bits_next(const struct bits *bits, uint32_t from)
{
    /* Climb until a word has a member at or after the place, then go down to its first. */
    for (uint32_t level = 0; level < bits->levels; level++) {
        uint32_t at = from / 64;
        uint64_t word = at < bits->words[level] ? bits->word[level][at] >> (from % 64) : 0;

        if (word) {
            from += (uint32_t)__builtin_ctzll(word);
            while (level-- > 0)
                from = from * 64 + (uint32_t)__builtin_ctzll(bits->word[level][from]);
            return from;
        }
        from = at + 1;
    }
    return BITS_NONE;
}
