/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* buf.h - bytes that were read, and bytes being written.
 *
 * struct bytes is a finished block. struct buf grows up to a maximum given when it is made; its first failure sticks,
 * so a writer calls buf_* freely and asks once, at the end.
 */
#include <stdarg.h>
#include <stddef.h>

#include "base/error.h"

struct bytes {
    char *data; /* owned; one '\0' follows the last byte */
    size_t size;
};

void bytes_done(struct bytes *bytes);

struct buf {
    char *data;
    size_t size, capacity, max;
    int error; /* 0, -ENOMEM or -E2BIG; once set, nothing more is written */
};

#define BUF_INIT(max_bytes)                                                                                            \
    {                                                                                                                  \
        .max = (max_bytes)                                                                                             \
    }

void buf_done(struct buf *buf);
void buf_put(struct buf *buf, const void *data, size_t size);
void buf_char(struct buf *buf, char c);
void buf_text(struct buf *buf, const char *text);
/* Fit for a query or a form: all but letters, digits, "-_.~" and those of `safe` as %XX. */
void buf_percent(struct buf *buf, const char *text, const char *safe);
void buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Forgets the content and the failure, keeps the memory. */
void buf_clear(struct buf *buf);

/* Hands the content over and leaves the buffer empty. On a failure before, names it and frees everything. */
int buf_take(struct buf *buf, struct bytes *ret_bytes, struct error *err) __attribute__((warn_unused_result));

#define CLEANUP_BYTES __attribute__((cleanup(bytes_done)))
#define CLEANUP_BUF __attribute__((cleanup(buf_done)))
