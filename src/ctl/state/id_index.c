/* SPDX-License-Identifier: Apache-2.0 */
/* id_index.c - see id_index.h. Ids are given out in a row, so a product with the golden ratio spreads them evenly. */
#include "ctl/state/id_index.h"

#include <assert.h>
#include <errno.h>

#include "base/alloc.h"

static uint32_t *bucket_of(const struct id_index *index, int64_t id)
{
    return &index->first[(uint64_t)id * 0x9e3779b97f4a7c15ULL >> (64 - index->bits)];
}

int id_index_init(struct id_index *index, size_t slots)
{
    index->bits = 4;
    while (index->bits < 31 && (size_t)1 << index->bits < slots)
        index->bits++;
    index->first = mem_zalloc((size_t)1 << index->bits, sizeof(*index->first));
    index->next = mem_zalloc(slots, sizeof(*index->next));
    return index->first && index->next ? 0 : -ENOMEM;
}

void id_index_done(struct id_index *index)
{
    mem_free(index->first);
    mem_free(index->next);
}

void id_index_put(struct id_index *index, int64_t id, size_t slot)
{
    uint32_t *first = bucket_of(index, id);

    assert(slot < UINT32_MAX - 1);
    index->next[slot] = *first;
    *first = (uint32_t)slot + 1;
}

void id_index_remove(struct id_index *index, int64_t id, size_t slot)
{
    uint32_t *at = bucket_of(index, id);

    while (*at && *at != slot + 1)
        at = &index->next[*at - 1];
    assert(*at);
    *at = index->next[slot];
}

uint32_t id_index_first(const struct id_index *index, int64_t id)
{
    return *bucket_of(index, id) - 1; /* 0 becomes ID_INDEX_NONE */
}

uint32_t id_index_next(const struct id_index *index, uint32_t slot)
{
    return index->next[slot] - 1;
}
