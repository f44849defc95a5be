/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* gzip.h - gzip blocks in memory; pure, bytes to bytes. */
#include <stdbool.h>

#include "base/buf.h"

/* Does it begin like a gzip file? */
bool gzip_is(const void *data, size_t size);

/* Inflates all members, one after the other, into at most `max` bytes. -EBADMSG for damaged or cut data or anything
 * but zero bytes after the last member, naming the byte; -E2BIG, -ENOMEM. */
int gzip_inflate(const void *data, size_t size, size_t max, struct bytes *ret_bytes, struct error *err)
    __attribute__((warn_unused_result));
