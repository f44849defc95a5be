/* SPDX-License-Identifier: Apache-2.0 */
#include "store/digest.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <xxhash.h>
#include <zlib.h>

#include "base/alloc.h"

struct digester {
    XXH3_state_t *state;
};

enum { HEAD_BYTES = DIGEST_BYTES + 17 };

enum digest_kind { DIGEST_BATCH = 1, DIGEST_SNAPSHOT, DIGEST_JOB };

int digester_new(struct digester **ret_digester)
{
    struct digester *digester = mem_zalloc(1, sizeof(*digester));

    if (digester)
        digester->state = XXH3_createState();
    if (!digester || !digester->state) {
        digester_free(digester);
        return -ENOMEM;
    }
    *ret_digester = digester;
    return 0;
}

void digester_free(struct digester *digester)
{
    if (!digester)
        return;
    (void)XXH3_freeState(digester->state);
    mem_free(digester);
}

/* What stands before the content: nothing of one kind, place or length has the digest of another. */
static void head_fill(unsigned char *head, enum digest_kind kind, const struct digest *before, uint64_t seq,
                      uint64_t size)
{

    head[0] = (unsigned char)kind;
    memcpy(head + 1, before->bytes, DIGEST_BYTES);
    for (int i = 0; i < 8; i++) {
        head[1 + DIGEST_BYTES + i] = (unsigned char)(seq >> 8 * i);
        head[9 + DIGEST_BYTES + i] = (unsigned char)(size >> 8 * i);
    }
}

static int linked(struct digester *digester, const unsigned char *head, const void *data, size_t size,
                  struct digest *ret)
{
    static_assert(sizeof(XXH128_canonical_t) == DIGEST_BYTES, "a digest is one of XXH3");
    XXH128_canonical_t sum;

    if (XXH3_128bits_reset(digester->state) != XXH_OK ||
        XXH3_128bits_update(digester->state, head, HEAD_BYTES) != XXH_OK ||
        XXH3_128bits_update(digester->state, data, size) != XXH_OK)
        return -ENOMEM;
    XXH128_canonicalFromHash(&sum, XXH3_128bits_digest(digester->state));
    memcpy(ret->bytes, sum.digest, DIGEST_BYTES);
    return 0;
}

int digest_next(struct digester *digester, const struct digest *before, uint64_t seq, const void *data, size_t size,
                struct digest *ret)
{
    unsigned char head[HEAD_BYTES];

    head_fill(head, DIGEST_BATCH, before, seq, size);
    return linked(digester, head, data, size, ret);
}

int digest_snapshot(struct digester *digester, const struct digest *at, uint64_t seq, const void *data, size_t size,
                    struct digest *ret)
{
    unsigned char head[HEAD_BYTES];

    head_fill(head, DIGEST_SNAPSHOT, at, seq, size);
    return linked(digester, head, data, size, ret);
}

/* Texts go in with their final zero: no two rows have the same bytes. */
int digest_job(struct digester *digester, const struct store_job *job, int64_t *ret_sum)
{
    const char *const texts[] = { job->user, job->vc, job->state, job->name, job->json };
    const int64_t numbers[] = { DIGEST_JOB, job->id, job->submit, job->end, job->gpu_seconds };
    bool good = XXH3_64bits_reset(digester->state) == XXH_OK &&
                XXH3_64bits_update(digester->state, numbers, sizeof(numbers)) == XXH_OK;

    for (size_t i = 0; good && i < sizeof(texts) / sizeof(texts[0]); i++) {
        const char *text = texts[i] ? texts[i] : "";

        good = XXH3_64bits_update(digester->state, text, strlen(text) + 1) == XXH_OK;
    }
    if (!good)
        return -ENOMEM;
    *ret_sum = (int64_t)XXH3_64bits_digest(digester->state);
    return 0;
}

int digest_begin(struct digest *ret)
{
    return getrandom(ret->bytes, DIGEST_BYTES, 0) == DIGEST_BYTES ? 0 : -EIO;
}

bool digest_same(const struct digest *a, const struct digest *b)
{
    return memcmp(a->bytes, b->bytes, DIGEST_BYTES) == 0;
}

uint32_t block_sum(uint32_t place, const void *data, size_t size)
{
    uLong sum = crc32(0, (const Bytef *)&place, sizeof(place));

    return (uint32_t)crc32_z(sum, data, size);
}
