/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* output.h - a finished run as JSON, CSV and a table for the terminal.
 *
 * All read a run_result whose summary metrics_compute() has filled. Errors of the stream stay with the stream: the
 * caller asks ferror() when it closes it.
 */
#include <stdbool.h>
#include <stdio.h>

#include "sim/result.h"

struct trace;

/* One run as one JSON object on several lines; with series > 0 also over time, in at most so many stretches, and its
 * percentiles. -ENOMEM. */
int output_json(FILE *out, const struct run_result *run, size_t series);

/* Several: {"apiVersion":"v1","kind":"SimRunList","items":[...],"next":null}. -ENOMEM. */
int output_json_list(FILE *out, const struct run_result *const *runs, size_t count, size_t series);

/* One line a job, in the order of the trace, under a header. `trace` gives names and may be NULL. */
void output_jobs_csv(FILE *out, const struct run_result *run, const struct trace *trace);

/* The summary for people. One run: a list with exact seconds. Several: one line each, speedup against the first;
 * runs that differ in the seed only share three lines (min, mean, max). `colour`: escape codes for the best values,
 * which carry a '*' in any case. -ENOMEM. */
int output_table(FILE *out, const struct run_result *const *runs, size_t count, bool colour);
