/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* fmt.h - JSON values of the controller as words. Each returns its buffer. */
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/units.h"

enum { FMT_MAX = 192 };

const char *fmt_text(json_t *json, const char *key); /* "" when it is not there */
int64_t fmt_i64(json_t *json, const char *key);
bool fmt_null(json_t *json, const char *key);   /* null or not there */
usec_t fmt_time(json_t *json, const char *key); /* 0 = null */

usec_t fmt_now(void);
/* "now", "now+2h", "+2h", an instant; where the past is meant also "7d": so long ago. false: none of them. */
bool fmt_when(const char *text, bool past, usec_t *ret_at);
/* Appends &NAME=SECONDS to a query, unless at is 0. */
void fmt_query(char *text, size_t size, const char *name, usec_t at);
/* "03:12:44", "1-00:00:00". */
const char *fmt_seconds(int64_t seconds, char text[FMT_MAX]);
/* "1-00:00", "04:00:00", "00:30:00": what -t reads as the same; "-" for 0. */
const char *fmt_limit(int64_t seconds, char text[FMT_MAX]);
/* Local: "14:20" within the next or last 20 hours, else "2026-01-31 14:20". */
const char *fmt_clock(usec_t at, usec_t now, char text[FMT_MAX]);
const char *fmt_stamp(usec_t at, char text[FMT_MAX]); /* "2026-01-31 14:20:05", "-" for 0 */
/* "16 H100", "0.5 A100", "8". */
const char *fmt_gpus(json_t *job, char text[FMT_MAX]);
/* "matlab:2,foo:1"; "-" of a job that asks for none. */
/* "42% ~18:30", or "step 120"; "-" of one that says nothing of itself. */
const char *fmt_progress(json_t *progress, char text[FMT_MAX]);
const char *fmt_licenses(json_t *job, char text[FMT_MAX]);
/* Of a job with a deadline: "14:20, promised", "14:20, not promised; 16:00 could have been". */
const char *fmt_promise(json_t *promise, char text[FMT_MAX]);
/* "4130_3" or "4127". */
const char *fmt_id(json_t *job, char text[FMT_MAX]);
const char *fmt_bytes(uint64_t bytes, char text[FMT_MAX]); /* "900G" */
