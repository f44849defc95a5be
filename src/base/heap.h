/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* heap.h - the earliest of many instants.
 *
 * Element i of a fixed range has at most one instant. Equal instants come out by ascending index, so that the order
 * never depends on history. Memory is the caller's: heap_size() bytes, set up once.
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/units.h"

#define HEAP_NONE UINT32_MAX

/* An instant beside its element, so that comparing children stays within one cache line. */
struct heap_entry {
    usec_t at;
    uint32_t element;
};

struct heap {
    struct heap_entry *entries; /* the heap */
    uint32_t *where;            /* by element: position in entries[]; means something only if that entry agrees */
    uint32_t count, capacity;
};

size_t heap_size(uint32_t capacity);
void heap_init(struct heap *heap, void *memory, uint32_t capacity);

/* Gives the element its instant, new or changed. USEC_NEVER takes it out. */
void heap_set(struct heap *heap, uint32_t element, usec_t at);

/* Whether the element has an instant. Nothing is set up for this: an element that was never set points at an entry that
 * is another's, or at none, so memory that is never used is never touched. */
static inline bool heap_has(const struct heap *heap, uint32_t element)
{
    uint32_t position = heap->where[element];

    return position < heap->count && heap->entries[position].element == element;
}

static inline void heap_clear(struct heap *heap, uint32_t element)
{
    if (heap_has(heap, element))
        heap_set(heap, element, USEC_NEVER);
}

/* The instant of an element, USEC_NEVER if it has none. */
static inline usec_t heap_at(const struct heap *heap, uint32_t element)
{
    return heap_has(heap, element) ? heap->entries[heap->where[element]].at : USEC_NEVER;
}

/* The earliest instant, USEC_NEVER if empty; and the element that has it. */
static inline usec_t heap_next(const struct heap *heap)
{
    return heap->count ? heap->entries[0].at : USEC_NEVER;
}

static inline uint32_t heap_first(const struct heap *heap)
{
    return heap->count ? heap->entries[0].element : HEAP_NONE;
}
