/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* guarantee.h - what a virtual cluster is owed, in words, and spans of time as people write them.
 *
 *    guarantee = part { "+" part }
 *    part      = COUNT [ unit ] | COUNT "gpus" "in" COUNT [ "s" ]
 *    unit      = gpu, group, socket, node, rack, domain; also in the plural
 */
#include "base/buf.h"
#include "model/cluster.h"

/* The next part of the text from *at on, which moves behind it. 1: read, 0: there is no more, -EINVAL: words in err,
 * *at where it is wrong. Fills count, unit and together. */
int guarantee_parse(const char *text, size_t *at, struct guarantee *ret_part, struct error *err)
    __attribute__((warn_unused_result));

/* "4 nodes", "16 gpus in 4s". */
void guarantee_put(struct buf *out, const struct guarantee *part);

/* "90s", "20m", "2h30m", "1d". -EINVAL, -ERANGE. */
int span_parse(const char *text, size_t length, usec_t *ret_span) __attribute__((warn_unused_result));
