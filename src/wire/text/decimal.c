/* SPDX-License-Identifier: Apache-2.0 */
/* decimal.c - see decimal.h. Digits are gathered in 128 bits, multiplied, then divided once: no rounding but the one
 * that is named. 25 digits times the largest scale in use (microseconds of a day) stays below 2^127. */
#include "wire/text/decimal.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

enum { DIGITS_MAX = 25, EXPONENT_MAX = 1000 };

typedef unsigned __int128 wide_t;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

int decimal_parse_i64(const char *text, size_t length, int64_t *ret_value)
{
    bool negative = length && text[0] == '-';
    size_t i = length && (text[0] == '-' || text[0] == '+') ? 1 : 0;
    int64_t value = 0;

    if (i == length)
        return -EINVAL;
    for (; i < length; i++) {
        if (!is_digit(text[i]))
            return -EINVAL;
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_sub_overflow(value, text[i] - '0', &value)) {
            while (++i < length)
                if (!is_digit(text[i]))
                    return -EINVAL;
            return -ERANGE;
        }
    }
    if (!negative && value == INT64_MIN)
        return -ERANGE;
    *ret_value = negative ? value : -value; /* gathered below zero, where there is room for INT64_MIN */
    return 0;
}

struct parts {
    wide_t mantissa;
    int exponent; /* of ten */
    bool negative;
};

static int exponent_parse(const char *text, const char *end, struct parts *parts)
{
    bool negative = text < end && *text == '-';
    int exponent = 0;

    if (text < end && (*text == '-' || *text == '+'))
        text++;
    if (text == end)
        return -EINVAL;
    for (; text < end; text++) {
        if (!is_digit(*text))
            return -EINVAL;
        if (exponent < EXPONENT_MAX)
            exponent = exponent * 10 + (*text - '0');
    }
    parts->exponent += negative ? -exponent : exponent;
    return 0;
}

static int parts_parse(const char *text, size_t length, struct parts *parts)
{
    const char *end = text + length;
    bool point = false, any = false;
    int digits = 0;

    *parts = (struct parts){ .negative = length && *text == '-' };
    if (length && (*text == '-' || *text == '+'))
        text++;
    for (; text < end; text++) {
        if (*text == '.' && !point) {
            point = true;
            continue;
        }
        if ((*text == 'e' || *text == 'E') && any)
            return exponent_parse(text + 1, end, parts);
        if (!is_digit(*text))
            return -EINVAL;
        any = true;
        parts->exponent -= point;
        parts->mantissa = parts->mantissa * 10 + (unsigned)(*text - '0');
        if (parts->mantissa && ++digits > DIGITS_MAX)
            return -EINVAL;
    }
    return any ? 0 : -EINVAL;
}

int decimal_parse(const char *text, size_t length, int64_t scale, int64_t *ret_value)
{
    struct parts parts;
    wide_t value, unit = 1;
    int r;

    r = parts_parse(text, length, &parts);
    if (r < 0)
        return r;
    value = parts.mantissa * (uint64_t)scale;
    for (; parts.exponent > 0 && value; parts.exponent--) {
        value *= 10;
        if (value > INT64_MAX)
            return -ERANGE;
    }
    for (; parts.exponent < 0 && unit <= value * 2; parts.exponent++)
        unit *= 10;
    if (parts.exponent < 0) /* less than half of the last place */
        value = 0;
    else if (parts.negative) /* halves go up, which below zero is towards it */
        value = (value + (unit - 1) / 2) / unit;
    else
        value = (value + unit / 2) / unit;
    if (value > INT64_MAX)
        return -ERANGE;
    *ret_value = parts.negative ? -(int64_t)value : (int64_t)value;
    return 0;
}

void decimal_put(struct buf *out, int64_t value, int64_t scale)
{
    uint64_t whole = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    uint64_t rest = whole % (uint64_t)scale;
    uint64_t place = (uint64_t)scale / 10;
    char text[48];
    size_t at = sizeof(text);
    char tail[24];
    size_t tail_size = 0;

    for (; rest; rest %= place, place /= 10) {
        tail[tail_size++] = (char)('0' + rest / place);
        if (place == 1)
            break;
    }
    whole /= (uint64_t)scale;
    do {
        text[--at] = (char)('0' + whole % 10);
        whole /= 10;
    } while (whole);
    if (value < 0)
        text[--at] = '-';
    buf_put(out, text + at, sizeof(text) - at);
    if (tail_size) {
        buf_char(out, '.');
        buf_put(out, tail, tail_size);
    }
}
