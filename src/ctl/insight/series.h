/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* series.h - figures over time, in rings: the last hour finely, the last day coarser, the last month coarser still.
 *
 * A line is a name ("vc/nlp/used") and its values, in thousandths. A coarse value is the mean of the fine ones it
 * covers; what was not measured is not there. Memory is bounded by the number of lines; nothing is durable but what the
 * caller writes with series_save() now and then: figures for people, not promises.
 */
#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/units.h"

struct series;

enum {
    SERIES_TIERS = 3,
    SERIES_LINES_MAX = 2048,
    SERIES_NAME_MAX = 120,
    SERIES_NONE = -2147483647 - 1, /* not measured */
};

/* Span of a value and how many are kept. */
struct series_tier {
    usec_t step;
    uint32_t count;
};
extern const struct series_tier series_tiers[SERIES_TIERS];

int series_new(struct series **ret_series);
void series_free(struct series *series);

/* The value of a line at this instant. Past values are not changed. -ENOMEM; -ENOSPC: too many lines. */
int series_put(struct series *series, const char *name, usec_t at, int64_t value);

/* The finest tier that still reaches back to `from`. */
unsigned series_tier_for(usec_t from, usec_t now);

/* Value of the span that begins at `at` (a multiple of the step); SERIES_NONE. */
int32_t series_get(const struct series *series, const char *name, unsigned tier, usec_t at);
/* The same without looking the name up again; NULL: no such line. */
const struct series_line *series_find(const struct series *series, const char *name);
int32_t series_at(const struct series_line *line, unsigned tier, usec_t at);

/* All tiers as text, and back; -EBADMSG with the line. What is there already is kept. */
void series_save(const struct series *series, struct buf *out);
int series_load(struct series *series, const char *text, size_t size, struct error *err);
