/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* hostlist.h - many names in few letters: gpu[01-02,05]. */
#include "base/buf.h"

enum { HOSTLIST_MAX = 1 << 16 };

/* Sorted by prefix and number; names that differ only in digits of one width before an equal tail share a bracket.
 * `names` is sorted in place. */
void hostlist_put(struct buf *out, const char **names, size_t count);

/* Calls `each` with every name, in the order written. -EINVAL with words; what `each` returns below zero. */
int hostlist_each(const char *text, int (*each)(void *arg, const char *name), void *arg, struct error *err);
