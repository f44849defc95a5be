/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* progress.h - how far several runs have come: one updating line on a terminal, one line a finished run elsewhere.
 *
 * Talk goes to stderr, so that data on stdout stays clean. Not thread-safe: who uses several threads calls it under a
 * lock.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/units.h"

struct progress {
    FILE *out;
    bool terminal;
    int width; /* columns; 0 = ask the terminal each time */
    size_t done, total;
    usec_t begun, drawn; /* instants of the monotonic clock; drawn -1 = not yet */
};

/* NULL when there is no memory; the other calls accept that. `out` is a terminal when it says so and TERM is not
 * "dumb". */
struct progress *progress_new(FILE *out, size_t total);

/* One more is done; `label` names it. */
void progress_step(struct progress *progress, const char *label);

/* Leaves the terminal clean. */
void progress_free(struct progress *progress);

/* The line, without its end, for at most its width: "[####------] 4/10  2.0/s  ETA 3s  label". */
void progress_render(const struct progress *progress, usec_t now, const char *label, char *line, size_t size);
