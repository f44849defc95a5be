/* SPDX-License-Identifier: Apache-2.0 */
/* frame.c - a stream of bytes as frames: four bytes of length, most significant first, then that many bytes.
 *
 * The length is judged as soon as its four bytes are there, before anything is kept for it, so that a peer cannot make
 * us hold more than one frame of the permitted size and what arrived with it. A buffer that grew for a large frame goes
 * when that frame was taken: a thousand quiet agents must not hold eight megabytes each.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/agent/agent_msg.h"

enum { HEAD = 4, CAPACITY_KEPT = 64 << 10, FEED_MAX = 1 << 20 };

void frame_reader_init(struct frame_reader *reader, size_t max)
{
    *reader = (struct frame_reader){ .max = max };
    /* One frame that is not whole yet, and the read of which its end was part. */
    reader->buf.max = HEAD + max + FEED_MAX;
}

void frame_reader_done(struct frame_reader *reader)
{
    buf_done(&reader->buf);
    *reader = (struct frame_reader){ 0 };
}

/* -EMSGSIZE or -EBADMSG when the next length cannot be right; 0 when it can or is not there yet. */
static int head_check(const struct frame_reader *reader, size_t *ret_size, struct error *err)
{
    const unsigned char *p;
    size_t size;

    *ret_size = SIZE_MAX;
    if (reader->buf.size - reader->taken < HEAD)
        return 0;
    p = (const unsigned char *)reader->buf.data + reader->taken;
    size = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
    if (size > reader->max)
        return error_set(err, -EMSGSIZE, "frame of %zu bytes, the limit is %zu", size, reader->max);
    if (size == 0)
        return error_set(err, -EBADMSG, "empty frame");
    *ret_size = size;
    return 0;
}

static void drop_taken(struct frame_reader *reader)
{
    struct buf *buf = &reader->buf;

    if (reader->taken == 0)
        return;
    if (reader->taken == buf->size && buf->capacity > CAPACITY_KEPT) {
        mem_free(buf->data);
        *buf = (struct buf){ .max = buf->max };
    } else {
        memmove(buf->data, buf->data + reader->taken, buf->size - reader->taken);
        buf->size -= reader->taken;
    }
    reader->taken = 0;
}

int frame_reader_feed(struct frame_reader *reader, const void *data, size_t size, struct error *err)
{
    size_t next;
    int r;

    drop_taken(reader);
    r = head_check(reader, &next, err);
    if (r < 0 || size == 0)
        return r;
    buf_put(&reader->buf, data, size);
    if (reader->buf.error) {
        r = reader->buf.error;
        reader->buf.error = 0;
        return error_set(err, r, r == -E2BIG ? "more than %d bytes were fed at once" : "no memory for frames",
                         FEED_MAX);
    }
    return head_check(reader, &next, err);
}

int frame_reader_next(struct frame_reader *reader, const char **ret_data, size_t *ret_size, struct error *err)
{
    size_t size;
    int r = head_check(reader, &size, err);

    if (r < 0)
        return r;
    if (size == SIZE_MAX || reader->buf.size - reader->taken - HEAD < size)
        return 0;
    *ret_data = reader->buf.data + reader->taken + HEAD;
    *ret_size = size;
    reader->taken += HEAD + size;
    return 1;
}

size_t frame_open(struct buf *out)
{
    size_t start = out->size;

    buf_put(out, (const char[HEAD]){ 0 }, HEAD);
    return start;
}

int frame_close(struct buf *out, size_t start, struct error *err)
{
    size_t size = out->error ? 0 : out->size - start - HEAD;
    int r = out->error;

    if (r == 0 && size > 0 && size <= FRAME_BYTES_MAX) {
        const unsigned char head[HEAD] = { (unsigned char)(size >> 24), (unsigned char)(size >> 16),
                                           (unsigned char)(size >> 8), (unsigned char)size };

        memcpy(out->data + start, head, HEAD);
        return 0;
    }
    /* Whole frames are left, and others may follow. */
    out->size = start;
    out->error = 0;
    if (out->data)
        out->data[start] = '\0';
    return r < 0 ? error_set(err, r, "no room for a frame")
                 : error_set(err, -EMSGSIZE, "frame of %zu bytes, the limit is %d", size, FRAME_BYTES_MAX);
}

int frame_write(struct buf *out, const char *data, size_t size, struct error *err)
{
    size_t start;

    if (size == 0 || size > FRAME_BYTES_MAX)
        return error_set(err, -EMSGSIZE, "frame of %zu bytes, the limit is %d", size, FRAME_BYTES_MAX);
    start = frame_open(out);
    buf_put(out, data, size);
    return frame_close(out, start, err);
}
