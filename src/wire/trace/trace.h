/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* trace.h - the native trace file: separated values with a header, described in docs/trace-format.md.
 *
 * What is read and written again is the same file from the second time on: columns in one order, only those in use,
 * rows by (submit, id), times with as many decimals as they need.
 */
#include "base/buf.h"
#include "model/trace.h"

/* Reads `bytes` into *ret_trace (zero before, untouched on failure). -EINVAL, -EBADMSG, -E2BIG, -ENOMEM. */
int trace_read(const char *file, const struct bytes *bytes, struct trace *ret_trace, struct error *err)
    __attribute__((warn_unused_result));

/* The same trace as bytes. The trace is sorted. */
int trace_write(const struct trace *trace, struct bytes *ret_bytes, struct error *err)
    __attribute__((warn_unused_result));

extern const char *const trace_classes[CLASS_COUNT];
extern const char *const trace_tiers[TIER_COUNT];
extern const char *const trace_slos[SLO_COUNT];
enum { TRACE_FAILS = FAIL_TIMEOUT + 1 }; /* what an attempt can do by itself */
extern const char *const trace_fails[TRACE_FAILS], *const trace_preempts[PREEMPT_MODES];
