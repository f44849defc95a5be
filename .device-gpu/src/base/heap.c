/* SPDX-License-Identifier: Apache-2.0 */
/* heap.c - see heap.h. Four children a node: fewer levels and one cache line of children. */
#include "base/heap.h"

#include <assert.h>
#include <stdbool.h>

enum { ARITY = 4 };

size_t heap_size(uint32_t capacity)
{
    return (size_t)capacity * (sizeof(usec_t) + 2 * sizeof(uint32_t));
}

void heap_init(struct heap *heap, void *memory, uint32_t capacity)
{
    heap->at = memory;
    heap->where = (uint32_t *)(heap->at + capacity);
    heap->order = heap->where + capacity;
    heap->count = 0;
    heap->capacity = capacity;
    for (uint32_t i = 0; i < capacity; i++)
        heap->where[i] = HEAP_NONE;
}

static bool before(const struct heap *heap, uint32_t a, uint32_t b)
{
    return heap->at[a] != heap->at[b] ? heap->at[a] < heap->at[b] : a < b;
}

static void put(struct heap *heap, uint32_t position, uint32_t element)
{
    heap->order[position] = element;
    heap->where[element] = position;
}

static void sift_up(struct heap *heap, uint32_t position)
{
    uint32_t element = heap->order[position];

    while (position > 0) {
        uint32_t up = (position - 1) / ARITY;

        if (!before(heap, element, heap->order[up]))
            break;
        put(heap, position, heap->order[up]);
        position = up;
    }
    put(heap, position, element);
}

static void sift_down(struct heap *heap, uint32_t position)
{
    uint32_t element = heap->order[position];

    for (;;) {
        uint32_t first = position * ARITY + 1, best = HEAP_NONE;

        for (uint32_t c = first; c < first + ARITY && c < heap->count; c++)
            if (best == HEAP_NONE || before(heap, heap->order[c], heap->order[best]))
                best = c;
        if (best == HEAP_NONE || !before(heap, heap->order[best], element))
            break;
        put(heap, position, heap->order[best]);
        position = best;
    }
    put(heap, position, element);
}

static void take_out(struct heap *heap, uint32_t element)
{
    uint32_t position = heap->where[element];
    uint32_t last;

    heap->where[element] = HEAP_NONE;
    last = heap->order[--heap->count];
    if (last == element)
        return;
    put(heap, position, last);
    sift_up(heap, position);
    sift_down(heap, heap->where[last]);
}

void heap_set(struct heap *heap, uint32_t element, usec_t at)
{
    assert(element < heap->capacity);
    if (at == USEC_NEVER) {
        if (heap->where[element] != HEAP_NONE)
            take_out(heap, element);
        return;
    }
    heap->at[element] = at;
    if (heap->where[element] == HEAP_NONE)
        put(heap, heap->count++, element);
    sift_up(heap, heap->where[element]);
    sift_down(heap, heap->where[element]);
}
