/* SPDX-License-Identifier: Apache-2.0 */
/* series.c - see series.h.
 *
 * A ring is indexed by time: the value of the span k (time / step) is at k modulo the length, and the last span written
 * is remembered, so that a gap is noticed and emptied. The mean of a span is kept as it grows; the finest ring takes
 * the last value put into it.
 *
 * The file: a first line "muster-series 1", then one line "NAME TIER FIRST v v - v" a ring: the number of its first
 * span, and its values; '-' is none.
 */
#include "ctl/insight/series.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/text/decimal.h"

const struct series_tier series_tiers[SERIES_TIERS] = {
    { 5 * USEC_SEC, 720 },    /* an hour */
    { 60 * USEC_SEC, 1440 },  /* a day */
    { 900 * USEC_SEC, 2976 }, /* 31 days */
};

struct ring {
    int64_t last; /* span written last; -1 = none */
    int64_t sum;  /* of what was put into it */
    int32_t puts;
    int32_t *values;
};

struct series_line {
    char name[SERIES_NAME_MAX];
    struct ring rings[SERIES_TIERS];
};

struct series {
    struct series_line **lines; /* by name */
    size_t count, capacity;
};

int series_new(struct series **ret_series)
{
    *ret_series = mem_zalloc(1, sizeof(**ret_series));
    return *ret_series ? 0 : -ENOMEM;
}

static void line_free(struct series_line *line)
{
    for (unsigned t = 0; line && t < SERIES_TIERS; t++)
        mem_free(line->rings[t].values);
    mem_free(line);
}

void series_free(struct series *series)
{
    for (size_t i = 0; series && i < series->count; i++)
        line_free(series->lines[i]);
    if (series)
        mem_free(series->lines);
    mem_free(series);
}

/* First line that is not before the name. */
static size_t position(const struct series *series, const char *name)
{
    size_t low = 0, high = series->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (strcmp(series->lines[middle]->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct series_line *series_find(const struct series *series, const char *name)
{
    size_t at = position(series, name);

    return at < series->count && strcmp(series->lines[at]->name, name) == 0 ? series->lines[at] : NULL;
}

static struct series_line *line_new(const char *name)
{
    struct series_line *line = mem_zalloc(1, sizeof(*line));

    if (!line)
        return NULL;
    (void)snprintf(line->name, sizeof(line->name), "%s", name);
    for (unsigned t = 0; t < SERIES_TIERS; t++) {
        line->rings[t].last = -1;
        line->rings[t].values = mem_zalloc(series_tiers[t].count, sizeof(*line->rings[t].values));
        if (!line->rings[t].values) {
            line_free(line);
            return NULL;
        }
        for (uint32_t i = 0; i < series_tiers[t].count; i++)
            line->rings[t].values[i] = SERIES_NONE;
    }
    return line;
}

static int line_get(struct series *series, const char *name, struct series_line **ret_line)
{
    size_t at = position(series, name);
    struct series_line *line;
    int r;

    if (at < series->count && strcmp(series->lines[at]->name, name) == 0) {
        *ret_line = series->lines[at];
        return 0;
    }
    r = mem_grow((void **)&series->lines, &series->capacity, series->count + 1, SERIES_LINES_MAX,
                 sizeof(struct series_line *));
    if (r < 0)
        return r == -E2BIG ? -ENOSPC : r;
    line = line_new(name);
    if (!line)
        return -ENOMEM;
    memmove(&series->lines[at + 1], &series->lines[at], (series->count - at) * sizeof(struct series_line *));
    series->lines[at] = line;
    series->count++;
    *ret_line = line;
    return 0;
}

/* Makes `span` the last one; what lies between is not measured. */
static void ring_advance(struct ring *ring, unsigned tier, int64_t span)
{
    uint32_t count = series_tiers[tier].count;
    int64_t from = ring->last < 0 || span - ring->last > count ? span - count + 1 : ring->last + 1;

    for (int64_t s = from; s <= span; s++)
        if (s >= 0)
            ring->values[s % count] = SERIES_NONE;
    ring->last = span;
    ring->sum = 0;
    ring->puts = 0;
}

static void ring_put(struct ring *ring, unsigned tier, int64_t span, int64_t value)
{
    if (span < 0 || span < ring->last)
        return;
    if (span > ring->last)
        ring_advance(ring, tier, span);
    if (ring->puts < 1000000) {
        ring->sum += value;
        ring->puts++;
    }
    ring->values[span % series_tiers[tier].count] = (int32_t)(tier == 0 ? value : ring->sum / ring->puts);
}

int series_put(struct series *series, const char *name, usec_t at, int64_t value)
{
    struct series_line *line;
    int r = line_get(series, name, &line);

    if (r < 0)
        return r;
    value = value > INT32_MAX ? INT32_MAX : value < -INT32_MAX ? -INT32_MAX : value;
    for (unsigned t = 0; t < SERIES_TIERS; t++)
        ring_put(&line->rings[t], t, at / series_tiers[t].step, value);
    return 0;
}

unsigned series_tier_for(usec_t from, usec_t now)
{
    unsigned t = 0;

    while (t + 1 < SERIES_TIERS && now - from > series_tiers[t].step * series_tiers[t].count)
        t++;
    return t;
}

int32_t series_at(const struct series_line *line, unsigned tier, usec_t at)
{
    const struct ring *ring = &line->rings[tier];
    int64_t span = at / series_tiers[tier].step;
    uint32_t count = series_tiers[tier].count;

    if (ring->last < 0 || at < 0 || span > ring->last || ring->last - span >= count)
        return SERIES_NONE;
    return ring->values[span % count];
}

int32_t series_get(const struct series *series, const char *name, unsigned tier, usec_t at)
{
    const struct series_line *line = series_find(series, name);

    return line ? series_at(line, tier, at) : SERIES_NONE;
}

void series_save(const struct series *series, struct buf *out)
{
    buf_text(out, "muster-series 1\n");
    for (size_t i = 0; i < series->count; i++)
        for (unsigned t = 0; t < SERIES_TIERS; t++) {
            const struct ring *ring = &series->lines[i]->rings[t];
            uint32_t count = series_tiers[t].count;
            int64_t first = ring->last - count + 1;

            while (first < ring->last && (first < 0 || ring->values[first % count] == SERIES_NONE))
                first++;
            if (ring->last < 0)
                continue;
            buf_printf(out, "%s %u %" PRId64, series->lines[i]->name, t, first);
            for (int64_t s = first; s <= ring->last; s++)
                if (ring->values[s % count] == SERIES_NONE)
                    buf_text(out, " -");
                else
                    buf_printf(out, " %d", ring->values[s % count]);
            buf_char(out, '\n');
        }
}

/* The next word of the line; false at its end. */
static bool word_next(const char **at, const char *end, const char **word, size_t *length)
{
    while (*at < end && **at == ' ')
        (*at)++;
    *word = *at;
    while (*at < end && **at != ' ')
        (*at)++;
    *length = (size_t)(*at - *word);
    return *length > 0;
}

static int ring_load(struct ring *ring, unsigned tier, int64_t first, const char *at, const char *end)
{
    uint32_t count = series_tiers[tier].count, seen = 0;
    const char *word;
    size_t length;
    int64_t value;

    for (int64_t span = first; word_next(&at, end, &word, &length); span++) {
        if (++seen > count)
            return -EBADMSG;
        if (length == 1 && *word == '-')
            continue;
        if (decimal_parse_i64(word, length, &value) < 0 || value > INT32_MAX || value < -INT32_MAX)
            return -EBADMSG;
        ring_put(ring, tier, span, value);
    }
    return seen ? 0 : -EBADMSG;
}

static int line_load(struct series *series, const char *at, const char *end)
{
    const char *word;
    size_t length;
    char name[SERIES_NAME_MAX];
    struct series_line *line;
    int64_t tier, first;
    int r;

    if (!word_next(&at, end, &word, &length) || length >= sizeof(name) || memchr(word, '\0', length))
        return -EBADMSG;
    memcpy(name, word, length);
    name[length] = '\0';
    if (!word_next(&at, end, &word, &length) || decimal_parse_i64(word, length, &tier) < 0 || tier < 0 ||
        tier >= SERIES_TIERS)
        return -EBADMSG;
    if (!word_next(&at, end, &word, &length) || decimal_parse_i64(word, length, &first) < 0 || first < 0 ||
        first > INT64_MAX / series_tiers[tier].step)
        return -EBADMSG;
    r = line_get(series, name, &line);
    return r < 0 ? r : ring_load(&line->rings[tier], (unsigned)tier, first, at, end);
}

int series_load(struct series *series, const char *text, size_t size, struct error *err)
{
    static const char head[] = "muster-series 1\n";
    const char *at = text, *end = text + size;

    if (size < sizeof(head) - 1 || memcmp(text, head, sizeof(head) - 1) != 0)
        return error_set(err, -EBADMSG, "line 1: expected 'muster-series 1'");
    at += sizeof(head) - 1;
    for (size_t number = 2; at < end; number++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        int r = stop ? line_load(series, at, stop) : -EBADMSG;

        if (r < 0)
            return error_set(err, r, "line %zu: expected NAME TIER FIRST VALUE...", number);
        at = stop + 1;
    }
    return 0;
}
