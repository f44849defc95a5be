/* SPDX-License-Identifier: Apache-2.0 */
/* codec.c - see codec.h. */
#include "core/snapshot/codec.h"

#include <string.h>

#include "base/rng.h"

static void raw(struct codec *c, void *data, size_t size)
{
    if (c->write) {
        c->write(c->arg, data, size);
    } else if (c->bad || size > c->size - c->at) {
        c->bad = true;
        memset(data, 0, size);
    } else {
        memcpy(data, c->data + c->at, size);
        c->at += size;
    }
}

void codec_u64(struct codec *c, uint64_t *value)
{
    unsigned char bytes[8];

    if (c->write)
        c->sum = rng_mix(c->sum ^ *value);

    for (int i = 0; c->write && i < 8; i++)
        bytes[i] = (unsigned char)(*value >> (8 * i));
    raw(c, bytes, 8);
    if (c->write)
        return;
    *value = 0;
    for (int i = 0; i < 8; i++)
        *value |= (uint64_t)bytes[i] << (8 * i);
    c->sum = rng_mix(c->sum ^ *value);
}

void codec_blob(struct codec *c, void *data, size_t size)
{
    unsigned char *at = data;

    for (size_t i = 0; i < size; i += 8) {
        uint64_t word = 0;

        for (size_t k = 0; k < 8 && i + k < size; k++)
            word |= (uint64_t)at[i + k] << (8 * k);
        codec_u64(c, &word);
        for (size_t k = 0; !c->write && k < 8 && i + k < size; k++)
            at[i + k] = (unsigned char)(word >> (8 * k));
    }
}

void codec_i64(struct codec *c, int64_t *value)
{
    uint64_t u = (uint64_t)*value;

    codec_u64(c, &u);
    *value = (int64_t)u;
}

void codec_u32(struct codec *c, uint32_t *value, uint32_t max)
{
    uint64_t u = *value;

    codec_u64(c, &u);
    if (u > max) {
        c->bad = true;
        u = 0;
    }
    *value = (uint32_t)u;
}

void codec_i32(struct codec *c, int32_t *value)
{
    int64_t i = *value;

    codec_i64(c, &i);
    if (i < INT32_MIN || i > INT32_MAX)
        c->bad = true;
    *value = (int32_t)i;
}

void codec_u8(struct codec *c, uint8_t *value, uint32_t max)
{
    uint32_t u = *value;

    codec_u32(c, &u, max);
    *value = (uint8_t)u;
}

void codec_u16(struct codec *c, uint16_t *value, uint32_t max)
{
    uint32_t u = *value;

    codec_u32(c, &u, max);
    *value = (uint16_t)u;
}

void codec_flag(struct codec *c, bool *value)
{
    uint8_t u = *value;

    codec_u8(c, &u, 1);
    *value = u;
}

void codec_ref(struct codec *c, uint32_t *value, uint32_t end)
{
    uint64_t u = *value == UINT32_MAX ? 0 : (uint64_t)*value + 1;

    codec_u64(c, &u);
    if (u > end)
        c->bad = true;
    *value = u == 0 || u > end ? UINT32_MAX : (uint32_t)(u - 1);
}
