/* SPDX-License-Identifier: Apache-2.0 */
/* buf.c - see buf.h. One byte beyond the content is always kept for the closing '\0'. */
#include "base/buf.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum { FIRST_BYTES = 256 }; /* most are no longer; growing to it by halves costs more than it saves */

void bytes_done(struct bytes *bytes)
{
    mem_free(bytes->data);
    *bytes = (struct bytes){ 0 };
}

void buf_done(struct buf *buf)
{
    mem_free(buf->data);
    *buf = (struct buf){ .max = buf->max };
}

void buf_clear(struct buf *buf)
{
    buf->size = 0;
    buf->error = 0;
}

/* Room for `more` bytes and the '\0'. False when the buffer has failed. */
static int room(struct buf *buf, size_t more)
{
    size_t need = buf->size + more + 1;

    if (buf->error)
        return buf->error;
    if (more > buf->max - buf->size)
        return buf->error = -E2BIG;
    if (more < buf->capacity - buf->size)
        return 0;
    if (need < FIRST_BYTES && buf->max >= FIRST_BYTES)
        need = FIRST_BYTES;
    return buf->error = mem_grow((void **)&buf->data, &buf->capacity, need, buf->max + 1, 1);
}

void buf_put(struct buf *buf, const void *data, size_t size)
{
    if (room(buf, size) < 0)
        return;
    if (size)
        memcpy(buf->data + buf->size, data, size);
    buf->size += size;
    buf->data[buf->size] = '\0';
}

void buf_char(struct buf *buf, char c)
{
    if (buf->error || buf->size == buf->max || buf->capacity - buf->size < 2) {
        buf_put(buf, &c, 1);
        return;
    }
    buf->data[buf->size++] = c;
    buf->data[buf->size] = '\0';
}

void buf_text(struct buf *buf, const char *text)
{
    buf_put(buf, text, strlen(text));
}

void buf_printf(struct buf *buf, const char *format, ...)
{
    char small[128];
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(small, sizeof(small), format, args);
    va_end(args);
    if (length >= 0 && (size_t)length < sizeof(small)) {
        buf_put(buf, small, (size_t)length);
        return;
    }
    if (length < 0 || room(buf, (size_t)length) < 0)
        return;
    va_start(args, format);
    (void)vsnprintf(buf->data + buf->size, (size_t)length + 1, format, args);
    va_end(args);
    buf->size += (size_t)length;
}

int buf_take(struct buf *buf, struct bytes *ret_bytes, struct error *err)
{
    int r;

    buf_put(buf, "", 0); /* even nothing is a block with its '\0' */
    r = buf->error;
    if (r < 0) {
        size_t max = buf->max;

        buf_done(buf);
        if (r == -E2BIG)
            return error_set(err, r, "more than %zu bytes", max);
        return error_set(err, r, "out of memory");
    }
    *ret_bytes = (struct bytes){ buf->data, buf->size };
    buf->data = NULL;
    buf_done(buf);
    return 0;
}

void buf_percent(struct buf *buf, const char *text, const char *safe)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("-_.~", c) ||
            strchr(safe, c))
            buf_char(buf, *text);
        else
            buf_printf(buf, "%%%02X", (unsigned)c);
    }
}
