/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cell_replay.h - one replay script (docs/cells.md). */
#include <jansson.h>

#include "base/error.h"

struct replay_totals {
    long passed, failed, exact, equivalent, steps;
};

/* Runs all cases; a line each on standard output, or an object each in `list`. Fails only for a bad script. */
int cell_replay(const char *file, json_t *list, struct replay_totals *totals, struct error *err);
