/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* import_formats.h - the foreign formats, each from import_<file>.c. */
#include "wire/trace/rows.h"

extern const struct row_format import_tiresias, import_philly, import_arrivals, import_chronus, import_workload,
    import_gavel, import_muri, import_elasticflow, import_openb, import_rubick;

int import_history_read(const char *file, const struct bytes *bytes, struct trace *ret_trace,
                        struct import_notes *ret_notes, struct error *err);
