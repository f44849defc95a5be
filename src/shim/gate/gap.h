/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* gap.h - how long will the guaranteed job be idle this time?
 *
 * One moving average of length and of mean deviation for each position in the step, both with weight 1/8. The
 * prediction is mean - deviation, 0 when that position was never seen. A gap has the position it began at, wherever in
 * it the step's boundary is told. Pure.
 */
#include <stdint.h>

#define GAP_POSITIONS 64

struct gap_book {
    struct {
        uint32_t mean_us, deviation_us;
        uint32_t seen;
    } at[GAP_POSITIONS];
    uint32_t position; /* of the gap that comes next, counted from the step's boundary */
    uint32_t gap;      /* of the one that is, or was last */
};

static inline void gap_boundary(struct gap_book *book)
{
    book->position = 0;
}

/* A gap begins: how long will it be? */
static inline uint32_t gap_begin(struct gap_book *book)
{
    uint32_t p = book->position < GAP_POSITIONS ? book->position : GAP_POSITIONS - 1;

    book->gap = p;
    book->position = p + 1;
    if (!book->at[p].seen || book->at[p].mean_us <= book->at[p].deviation_us)
        return 0;
    return book->at[p].mean_us - book->at[p].deviation_us;
}

/* It was none. */
static inline void gap_void(struct gap_book *book)
{
    book->position = book->gap;
}

/* It is over. */
static inline void gap_end(struct gap_book *book, uint32_t length_us)
{
    uint32_t p = book->gap;
    int64_t mean = book->at[p].mean_us, dev = book->at[p].deviation_us, diff = (int64_t)length_us - mean;

    if (!book->at[p].seen) {
        book->at[p].seen = 1;
        book->at[p].mean_us = length_us;
        return;
    }
    book->at[p].mean_us = (uint32_t)(mean + diff / 8);
    book->at[p].deviation_us = (uint32_t)(dev + ((diff < 0 ? -diff : diff) - dev) / 8);
}
