/* SPDX-License-Identifier: Apache-2.0 */
/* gzip.c - see gzip.h. zlib does the work; its memory comes from base/alloc.h, so that tests can make it fail. */
#include "io/gzip.h"

#include <errno.h>
#include <stdint.h>
#include <zlib.h>

#include "base/alloc.h"

enum { CHUNK = 64 * 1024 };

bool gzip_is(const void *data, size_t size)
{
    const unsigned char *bytes = data;

    return size >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

static void *zlib_alloc(void *opaque, unsigned count, unsigned size)
{
    (void)opaque;
    return mem_zalloc(count, size);
}

static void zlib_free(void *opaque, void *block)
{
    (void)opaque;
    mem_free(block);
}

/* Inflates one member that starts at *at and moves *at behind it. */
static int member_inflate(z_stream *z, const unsigned char *data, size_t size, size_t *at, struct buf *out,
                          struct error *err)
{
    unsigned char chunk[CHUNK];
    int r = Z_OK;

    while (r != Z_STREAM_END) {
        size_t left = size - *at;
        unsigned give = left > CHUNK ? CHUNK : (unsigned)left;
        unsigned taken;

        z->next_in = (unsigned char *)(uintptr_t)(data + *at);
        z->avail_in = give;
        z->next_out = chunk;
        z->avail_out = CHUNK;
        r = inflate(z, Z_NO_FLUSH);
        taken = give - z->avail_in;
        *at += taken;
        buf_put(out, chunk, CHUNK - z->avail_out);
        if (out->error == -E2BIG)
            return error_set(err, -E2BIG, "inflates to more than %zu bytes", out->max);
        if (out->error || r == Z_MEM_ERROR)
            return error_set(err, -ENOMEM, "out of memory");
        if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
            return error_set(err, -EBADMSG, "damaged gzip data at byte %zu (%s)", *at, z->msg ? z->msg : "unknown");
        if (r != Z_STREAM_END && taken == 0 && z->avail_out == CHUNK)
            return error_set(err, -EBADMSG, "gzip data is cut short at byte %zu", *at);
    }
    return 0;
}

/* The offset of the first byte that is not zero, or `size`: tape blocks and some tools pad with zeros. */
static size_t padding_skip(const unsigned char *data, size_t size, size_t at)
{
    while (at < size && data[at] == 0)
        at++;
    return at;
}

int gzip_inflate(const void *data, size_t size, size_t max, struct bytes *ret_bytes, struct error *err)
{
    CLEANUP_BUF struct buf out = BUF_INIT(max);
    z_stream z = { .zalloc = zlib_alloc, .zfree = zlib_free };
    size_t at = 0;
    int r;

    if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK)
        return error_set(err, -ENOMEM, "out of memory");
    do {
        r = member_inflate(&z, data, size, &at, &out, err);
        if (r == 0 && !gzip_is((const char *)data + at, size - at) && padding_skip(data, size, at) < size)
            r = error_set(err, -EBADMSG, "neither gzip data nor the end of the file at byte %zu", at);
        if (r == 0)
            (void)inflateReset(&z);
    } while (r == 0 && gzip_is((const char *)data + at, size - at));
    (void)inflateEnd(&z);
    return r < 0 ? r : buf_take(&out, ret_bytes, err);
}
