/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* audit.h - whether the controller's jobs, attempts, nodes and counters agree with each other and with the core.
 *
 * Runs between two batches, when every instant is over. Checked builds run it after each batch and stop at a
 * difference; in production it runs once an hour and when an administrator asks (`muster doctor --deep`), and a
 * difference is told.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AUDIT_LINES_MAX = 16, AUDIT_LINE_BYTES = 200 };

struct state_audit {
    int64_t from;    /* jobs with greater ids are looked at; moves on, and is 0 again after the last */
    size_t jobs_max; /* so many at a time; 0 = all */
    size_t jobs;     /* were looked at */
    size_t count;    /* differences, also those that had no line left */
    char lines[AUDIT_LINES_MAX][AUDIT_LINE_BYTES];
};

struct ctl;
/* Adds what it finds. True: the last job was reached, and with it all that is counted over all of them. */
bool state_audit(const struct ctl *ctl, struct state_audit *audit);
