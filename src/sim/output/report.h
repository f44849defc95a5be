/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* report.h - finished runs as one HTML file that needs nothing else.
 *
 * Numbers stand in the page as text and tables, so they are there without JavaScript; plots are drawn by the script
 * in report/report.js from data embedded beside it. Everything a user named is escaped. However many runs and jobs,
 * the file stays below REPORT_BYTES_MAX: series are thinned, extremes kept, and what does not fit is left out of the
 * plots, not out of the tables.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/error.h"
#include "sim/output/output_group.h"
#include "sim/result.h"

struct trace;
struct cluster_spec;

#define REPORT_BYTES_MAX ((size_t)5 << 20)

/* Writes the report of `count` (>= 1) runs whose summaries are filled. Runs that differ in the seed only are taken
 * together; plots show the first of them. `trace` and `cluster` name things where a run itself borrows none; both may
 * be NULL. -ENOMEM, -E2BIG; errors of the stream stay with the stream. */
int report_write(FILE *out, const struct run_result *const *runs, size_t count, const struct trace *trace,
                 const struct cluster_spec *cluster, struct error *err);

/* The same with a section of its own before the plots, ready HTML; NULL = none. */
struct report_more {
    const struct trace *trace;
    const struct cluster_spec *cluster;
    const struct buf *section;
};
int report_write_with(FILE *out, const struct run_result *const *runs, size_t count, const struct report_more *more,
                      struct error *err);

/* What report_write() hands to its parts. */
struct report_input {
    const struct run_groups *groups;
    const struct trace *trace;
    const struct cluster_spec *cluster;
};

/* The trace (the cluster) of a run: its own, else that of the report. May be NULL. */
const struct trace *report_trace(const struct report_input *input, const struct run_result *run);
const struct cluster_spec *report_cluster(const struct report_input *input, const struct run_result *run);

/* How much is drawn. */
struct report_detail {
    size_t runs; /* the first so many groups of runs */
    bool gantt;
};

/* The data the script draws from, as one JSON object. -ENOMEM, -E2BIG. */
int report_data(struct buf *out, const struct report_input *input, const struct report_detail *detail);

struct json_write;

/* Its parts, in files of their own: virtual clusters, what policies tell, and the bars of the Gantt chart. */
int report_data_vcs(struct json_write *json, const struct report_input *input, const struct run_result *run);
void report_data_told(struct json_write *json, const struct run_result *run);
int report_data_gantt(struct json_write *json, const struct report_input *input, const struct run_result *run);
