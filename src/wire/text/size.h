/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* size.h - sizes of memory as people write them. */
#include <stddef.h>
#include <stdint.h>

/* "512G" to MiB: a bare number is MiB; K, M, G, T (also KiB, MB, Gi, ...) are binary. A decimal point is allowed; the
 * result is a whole number of MiB, at least one. -EINVAL. */
int size_parse_mib(const char *text, size_t length, uint32_t *ret_mib);
