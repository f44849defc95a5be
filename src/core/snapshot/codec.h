/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* codec.h - numbers to bytes and back, by the same calls: a codec either writes the number it is given or replaces it
 * by the one it reads. What it reads it does not trust: a number out of its range is taken as 0 and marks the whole
 * bad.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/snapshot/snapshot.h"

struct codec {
    snap_write_fn write; /* NULL: reading */
    void *arg;
    const unsigned char *data;
    size_t size, at;
    uint64_t sum; /* over the numbers so far; the last one written tells what it must be */
    bool bad;     /* cut short, or a number out of its range */
};

void codec_u64(struct codec *c, uint64_t *value);
void codec_i64(struct codec *c, int64_t *value);
void codec_i32(struct codec *c, int32_t *value);
/* Numbers that must not exceed `max`. */
void codec_u32(struct codec *c, uint32_t *value, uint32_t max);
void codec_u16(struct codec *c, uint16_t *value, uint32_t max);
void codec_u8(struct codec *c, uint8_t *value, uint32_t max);
void codec_flag(struct codec *c, bool *value);
/* A reference to something below `end`, or none (the largest number). */
void codec_ref(struct codec *c, uint32_t *value, uint32_t end);
/* Opaque bytes of a policy, as words. */
void codec_blob(struct codec *c, void *data, size_t size);
