/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* quantity.h - amounts of a resource as Kubernetes writes them: "2", "500m", "1.5", "64Gi", "100M", "1e3". */
#include <stdint.h>

/* In thousandths, rounded up; more than fits is INT64_MAX. -EINVAL: not an amount, or below 0. */
int quantity_parse(const char *text, int64_t *ret_milli);

/* RFC 3339 in UTC, with or without a fraction ("2026-01-02T03:04:05Z"), as microseconds since 1970. -EINVAL. */
int time_parse(const char *text, int64_t *ret_usec);

enum { TIME_TEXT_MAX = 40 };
/* With microseconds, as leases and events have it. */
void time_print(int64_t usec, char text[TIME_TEXT_MAX]);
