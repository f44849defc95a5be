/* SPDX-License-Identifier: Apache-2.0 */
/* guarantee.c - see guarantee.h. */
#include "wire/cluster/guarantee.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "wire/text/decimal.h"

static const char *const unit_names[GUARANTEE_UNITS] = {
    [GUARANTEE_GPUS] = "gpu",   [GUARANTEE_GROUPS] = "group", [GUARANTEE_SOCKETS] = "socket",
    [GUARANTEE_NODES] = "node", [GUARANTEE_RACKS] = "rack",   [GUARANTEE_DOMAINS] = "domain",
};

static void blanks_skip(const char *text, size_t *at)
{
    while (text[*at] == ' ' || text[*at] == '\t')
        (*at)++;
}

static int count_read(const char *text, size_t *at, int64_t max, int64_t *ret_count, struct error *err)
{
    size_t length = strspn(text + *at, "0123456789");

    if (length == 0 || decimal_parse_i64(text + *at, length, ret_count) < 0 || *ret_count < 1 || *ret_count > max)
        return error_set(err, -EINVAL, "expected a number, 1 to %lld", (long long)max);
    *at += length;
    return 0;
}

/* A word of letters, and where it ends. */
static size_t word_length(const char *text, size_t at)
{
    size_t length = 0;

    while ((text[at + length] >= 'a' && text[at + length] <= 'z') ||
           (text[at + length] >= 'A' && text[at + length] <= 'Z'))
        length++;
    return length;
}

static bool word_is(const char *text, size_t length, const char *word)
{
    size_t full = strlen(word);

    if (length != full && !(length == full + 1 && (text[full] | 32) == 's'))
        return false;
    for (size_t i = 0; i < full; i++)
        if ((text[i] | 32) != word[i])
            return false;
    return true;
}

static int unit_read(const char *text, size_t *at, struct guarantee *part, struct error *err)
{
    size_t length = word_length(text, *at);

    for (part->unit = 0; length > 0 && part->unit < GUARANTEE_UNITS; part->unit++) {
        if (word_is(text + *at, length, unit_names[part->unit])) {
            *at += length;
            return 0;
        }
    }
    part->unit = GUARANTEE_GPUS;
    if (length > 0 || (text[*at] != '\0' && text[*at] != '+'))
        return error_set(err, -EINVAL, "expected gpus, groups, sockets, nodes, racks or domains");
    return 0; /* a bare number is GPUs */
}

/* "in 4s", "in 4". */
static int together_read(const char *text, size_t *at, struct guarantee *part, struct error *err)
{
    size_t length = word_length(text, *at);
    int64_t together;
    int r;

    if (length == 0)
        return 0;
    if (!word_is(text + *at, length, "in") || length != 2 || part->unit != GUARANTEE_GPUS)
        return error_set(err, -EINVAL,
                         part->unit == GUARANTEE_GPUS ? "expected 'in', '+' or the end" : "expected '+' or the end");
    *at += length;
    blanks_skip(text, at);
    r = count_read(text, at, UINT16_MAX, &together, err);
    if (r < 0)
        return r;
    part->together = (uint16_t)together;
    *at += (text[*at] | 32) == 's';
    return 0;
}

int guarantee_parse(const char *text, size_t *at, struct guarantee *ret_part, struct error *err)
{
    struct guarantee part = *ret_part;
    int64_t count;
    int r;

    blanks_skip(text, at);
    if (text[*at] == '\0' && *at > 0)
        return 0;
    part.together = 0;
    r = count_read(text, at, (int64_t)CLUSTER_GPUS_MAX, &count, err);
    if (r < 0)
        return r;
    part.count = (uint32_t)count;
    blanks_skip(text, at);
    r = unit_read(text, at, &part, err);
    if (r < 0)
        return r;
    blanks_skip(text, at);
    r = together_read(text, at, &part, err);
    if (r < 0)
        return r;
    blanks_skip(text, at);
    if (text[*at] == '+' && text[*at + 1] != '\0')
        (*at)++;
    else if (text[*at] != '\0')
        return error_set(err, -EINVAL, "expected '+' and another part, or the end");
    *ret_part = part;
    return 1;
}

void guarantee_put(struct buf *out, const struct guarantee *part)
{
    buf_printf(out, "%u %s%s", part->count, unit_names[part->unit], part->count == 1 ? "" : "s");
    if (part->together > 0)
        buf_printf(out, " in %us", part->together);
}

int span_parse(const char *text, size_t length, usec_t *ret_span)
{
    static const struct {
        char letter;
        usec_t unit;
    } units[] = { { 'd', USEC_DAY }, { 'h', USEC_HOUR }, { 'm', USEC_MIN }, { 's', USEC_SEC } };
    size_t at = 0, next = 0;
    usec_t span = 0;

    while (at < length) {
        size_t digits = 0, u = next;
        int64_t number;

        while (at + digits < length && text[at + digits] >= '0' && text[at + digits] <= '9')
            digits++;
        if (digits == 0 || decimal_parse_i64(text + at, digits, &number) < 0 || at + digits == length)
            return -EINVAL;
        while (u < 4 && units[u].letter != text[at + digits])
            u++;
        if (u == 4)
            return -EINVAL;
        if (__builtin_mul_overflow(number, units[u].unit, &number) || __builtin_add_overflow(span, number, &span))
            return -ERANGE;
        at += digits + 1;
        next = u + 1;
    }
    if (length == 0)
        return -EINVAL;
    *ret_span = span;
    return 0;
}
