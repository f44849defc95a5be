/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* load.h - what the command line names, read: a cluster, a trace. */
#include "base/error.h"
#include "model/cluster.h"
#include "model/trace.h"
#include "wire/hived/hived_config.h"
#include "wire/trace/import.h"

/* A short string such as "3x8", or a file: what ends in .yaml, .yml or .csv (also .gz), "-", or, when it is no such
 * string, anything that can be opened. *ret_spec is zero before. */
int cluster_load(const char *argument, struct cluster_spec *ret_spec, struct error *err)
    __attribute__((warn_unused_result));

/* The cells of a cluster: HiveD's file as it is (with warnings, which may be NULL), ours or a short string as cells
 * found in it. `words` (may be NULL) gets how each guarantee was understood. *ret_spec is zero before. */
int cell_spec_load(const char *argument, struct cell_spec *ret_spec, struct buf *words, struct hived_warnings *warnings,
                   struct error *err) __attribute__((warn_unused_result));

/* A trace file, gzip or not. `format` is NULL for the native one; then a file that looks like a foreign one is named
 * as that in the error. Notes on foreign files go to standard error. *ret_trace is zero before. */
int trace_load(const char *path, const char *format, struct trace *ret_trace, struct error *err)
    __attribute__((warn_unused_result));

/* All GPUs of it. */
int64_t cluster_gpus(const struct cluster_spec *spec);
