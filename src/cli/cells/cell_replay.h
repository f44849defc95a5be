/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cell_replay.h - one replay script (docs/cells.md). */
#include <jansson.h>

#include "base/buf.h"
#include "cli/cells/cell_run.h"

struct replay_totals {
    long passed, failed, exact, equivalent, steps;
    long hived; /* of those that passed: as HiveD itself */
};

/* How a script is answered: by HiveD's rules with ties in the order of the file, as HiveD itself with its habits, or as
 * the case was recorded. */
enum replay_manner { REPLAY_EITHER, REPLAY_DESCRIBED, REPLAY_HIVED };

struct replay_source {
    const char *file; /* as it is called in messages */
    const struct bytes *bytes;
    cell_load_fn load; /* of the clusters that the script names */
    void *context;
    enum replay_manner manner;
};

/* Runs all cases; a line each on standard output, or an object each in `list`. Fails only for a bad script. */
int cell_replay_run(const struct replay_source *source, json_t *list, struct replay_totals *totals, struct error *err)
    __attribute__((warn_unused_result));

/* The same for a file; clusters are files, their paths relative to it. */
int cell_replay(const char *file, enum replay_manner manner, json_t *list, struct replay_totals *totals,
                struct error *err) __attribute__((warn_unused_result));
