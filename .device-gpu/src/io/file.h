/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* file.h - whole files in and out.
 *
 * Errors name the file, and inside gzip data the byte. "-" is standard input or output.
 */
#include "base/buf.h"

#define FILE_BYTES_MAX ((size_t)1 << 30)

/* Reads all of it; gzip is noticed by its first bytes and inflated. More than `bytes_max` bytes, packed or inflated,
 * is -E2BIG; 0 stands for FILE_BYTES_MAX. */
int file_read(const char *path, size_t bytes_max, struct bytes *ret_bytes, struct error *err)
    __attribute__((warn_unused_result));

/* Writes a temporary file beside it and renames: readers see the old content or the new one, never half of it.
 * What is not a regular file (a device, a pipe) is written in place. */
int file_write_atomic(const char *path, const void *data, size_t size, struct error *err)
    __attribute__((warn_unused_result));

/* How messages call it: "standard input" for "-", else the path. */
const char *file_label(const char *path);
