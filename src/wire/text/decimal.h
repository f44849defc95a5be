/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* decimal.h - decimal digits to integers in small units, exactly, and back. */
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* `[+-]digits[.digits][e[+-]digits]` times `scale` (positive), to the nearest integer, halves up. -EINVAL when it is
 * not such a number or has more than 25 significant digits, -ERANGE when the result does not fit. */
int decimal_parse(const char *text, size_t length, int64_t scale, int64_t *ret_value);

/* `[+-]digits`. -EINVAL, -ERANGE. */
int decimal_parse_i64(const char *text, size_t length, int64_t *ret_value);

/* Writes value / scale (a power of ten) with as many decimals as needed and no more. */
void decimal_put(struct buf *out, int64_t value, int64_t scale);
