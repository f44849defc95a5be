/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* model_file.h - an estimator as bytes: versioned, with a checksum, the same on every machine.
 *
 *   "MUSTERFC" version:u32 size:u64 checksum:u64, then `size` bytes: features, rows, seed, forests.
 *
 * All numbers are little endian; floats by their bits. A file that is cut short, damaged, of another version or whose
 * trees do not hang together is refused in words that say which, and *ret is left alone.
 */
#include "base/buf.h"
#include "model/forest.h"

enum { MODEL_FILE_VERSION = 1 };

void model_file_write(const struct estimator *estimator, struct buf *out);

/* `file` names it in messages. -EBADMSG: no such file or damaged; -EPROTO: another version; -ENOMEM. */
int model_file_read(const char *file, const void *data, size_t size, struct estimator *ret_estimator, struct error *err)
    __attribute__((warn_unused_result));
