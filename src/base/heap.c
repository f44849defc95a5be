/* SPDX-License-Identifier: Apache-2.0 */
/* heap.c - see heap.h. Four children a node: fewer levels and one cache line of children. */
#include "base/heap.h"

#include <assert.h>
#include <stdbool.h>

enum { ARITY = 4 };

size_t heap_size(uint32_t capacity)
{
    return (size_t)capacity * (sizeof(struct heap_entry) + sizeof(uint32_t));
}

void heap_init(struct heap *heap, void *memory, uint32_t capacity)
{
    heap->entries = memory;
    heap->where = (uint32_t *)(heap->entries + capacity);
    heap->count = 0;
    heap->capacity = capacity;
}

static bool before(struct heap_entry a, struct heap_entry b)
{
    return a.at != b.at ? a.at < b.at : a.element < b.element;
}

static void put(struct heap *heap, uint32_t position, struct heap_entry entry)
{
    heap->entries[position] = entry;
    heap->where[entry.element] = position;
}

/* Puts the entry at the position or above it. Returns where it came to lie. */
static uint32_t sift_up(struct heap *heap, uint32_t position, struct heap_entry entry)
{
    while (position > 0) {
        uint32_t up = (position - 1) / ARITY;

        if (!before(entry, heap->entries[up]))
            break;
        put(heap, position, heap->entries[up]);
        position = up;
    }
    put(heap, position, entry);
    return position;
}

/* Puts the entry at the position or below it. */
static void sift_down(struct heap *heap, uint32_t position, struct heap_entry entry)
{
    for (;;) {
        uint32_t first = position * ARITY + 1, end = first + ARITY, best = first;

        if (first >= heap->count)
            break;
        if (end > heap->count)
            end = heap->count;
        for (uint32_t c = first + 1; c < end; c++)
            if (before(heap->entries[c], heap->entries[best]))
                best = c;
        if (!before(heap->entries[best], entry))
            break;
        put(heap, position, heap->entries[best]);
        position = best;
    }
    put(heap, position, entry);
}

static void settle(struct heap *heap, uint32_t position, struct heap_entry entry)
{
    if (sift_up(heap, position, entry) == position)
        sift_down(heap, position, entry);
}

void heap_set(struct heap *heap, uint32_t element, usec_t at)
{
    uint32_t position;

    assert(element < heap->capacity);
    position = heap_has(heap, element) ? heap->where[element] : HEAP_NONE;
    if (at == USEC_NEVER) {
        if (position == HEAP_NONE)
            return;
        if (position != --heap->count)
            settle(heap, position, heap->entries[heap->count]);
        return;
    }
    if (position == HEAP_NONE)
        position = heap->count++;
    settle(heap, position, (struct heap_entry){ at, element });
}
