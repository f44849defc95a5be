/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* digest.h - the digests and checksums of the store.
 *
 * Batches form a chain: the digest of each is taken over the digest of the one before, its number and its content. Who
 * has the digest of the last one knows all that came before it. Where only chance is the enemy (a sector, a page), a
 * CRC-32 is enough: it finds every error of up to 32 bits in a row and every three single bits.
 */
#include <stddef.h>
#include <stdint.h>

#include "store/store.h"

enum { DIGEST_BYTES = 16 };

struct digest {
    unsigned char bytes[DIGEST_BYTES];
};

/* XXH3 of 128 bits, kept ready (ADR 59). One thread at a time. */
struct digester;

int digester_new(struct digester **ret_digester);
void digester_free(struct digester *digester);

/* What follows `before`; 0 or -ENOMEM. */
int digest_next(struct digester *digester, const struct digest *before, uint64_t seq, const void *data, size_t size,
                struct digest *ret);
/* Of a snapshot: the same, but no batch can have it. */
int digest_snapshot(struct digester *digester, const struct digest *at, uint64_t seq, const void *data, size_t size,
                    struct digest *ret);
/* Of a finished job: 64 bits over all its columns. */
int digest_job(struct digester *digester, const struct store_job *job, int64_t *ret_sum);

/* Where the chain of a store begins that has none yet, but a past: at random. The first batch of all follows zeros. */
int digest_begin(struct digest *ret);
bool digest_same(const struct digest *a, const struct digest *b);

/* Of a block at a place: the same bytes at another place have another sum. */
uint32_t block_sum(uint32_t place, const void *data, size_t size);
