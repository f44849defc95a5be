/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* id_index.h - the slots of a ring by the ids that are in them: found by hash, whatever the size of the ring. */
#include <stddef.h>
#include <stdint.h>

#define ID_INDEX_NONE UINT32_MAX

struct id_index {
    uint32_t *first; /* by hash: slot and 1; 0 none */
    uint32_t *next;  /* of the same hash, likewise */
    uint32_t bits;
};

int id_index_init(struct id_index *index, size_t slots); /* -ENOMEM */
void id_index_done(struct id_index *index);
void id_index_put(struct id_index *index, int64_t id, size_t slot);
void id_index_remove(struct id_index *index, int64_t id, size_t slot);
/* The slots that may hold the id, newest first; the caller looks which of them does. ID_INDEX_NONE: no more. */
uint32_t id_index_first(const struct id_index *index, int64_t id);
uint32_t id_index_next(const struct id_index *index, uint32_t slot);
