/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* bulk.h - large copies between host and GPU: does a neighbour's disturb the guaranteed job's, and into what are they
 * cut then?
 *
 * The guaranteed job's own copies are timed, alone and beside others, by size, each as a moving average of weight 1/8.
 * When those beside others take a tenth longer, copies of its neighbours above 64 MiB go in pieces of 16. The book is
 * pure.
 */
#include <stdbool.h>
#include <stdint.h>

#define BULK_LEAST ((uint64_t)1 << 20) /* smaller ones are not timed */
#define BULK_LARGE ((uint64_t)64 << 20)
#define BULK_PIECE ((uint64_t)16 << 20)
#define BULK_SIZES 16

struct bulk_book {
    struct {
        uint32_t alone, beside; /* ns a MiB; 0 = never seen */
    } at[BULK_SIZES];           /* by powers of two from BULK_LEAST on */
};

static inline void bulk_mean(uint32_t *mean, uint64_t value)
{
    value = value < UINT32_MAX ? value : UINT32_MAX;
    *mean = *mean ? (uint32_t)((7 * (uint64_t)*mean + value) / 8) : (uint32_t)value;
}

/* A copy of `bytes` took `ns`; with others on the GPU, or alone. Do they disturb? */
static inline bool bulk_learn(struct bulk_book *book, uint64_t bytes, uint64_t ns, bool others)
{
    uint32_t i = 0;

    while (i + 1 < BULK_SIZES && bytes >> (21 + i))
        i++;
    bulk_mean(others ? &book->at[i].beside : &book->at[i].alone, ns / (bytes >> 20 ? bytes >> 20 : 1));
    if (!others)
        book->at[i].beside = 0;
    return others && book->at[i].alone && (uint64_t)book->at[i].beside * 10 > (uint64_t)book->at[i].alone * 11;
}

struct arena;
struct arena *arena_mine(void); /* guaranteed.c: of the first of its GPUs, or NULL */
/* copy.c. The guaranteed job waited for the stream: if its last call was a large copy there, that is what it took. */
void bulk_waited(const void *stream);
