/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* duration.h - spans of time, instants and sizes as people write them, and back. Exact to the microsecond and the byte.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/units.h"

/* "D-HH:MM:SS", "D-HH", "HH:MM:SS", "MM:SS", a bare number of minutes, or numbers with units: "2h30m", "1.5d", "180s",
 * "250ms". -EINVAL, -ERANGE beyond a century. */
int duration_parse(const char *text, size_t length, usec_t *ret_span);

/* The shortest form duration_parse() reads back to the same: "3600s", "0.25s". */
void duration_put(struct buf *out, usec_t span);

/* "1-02:03:04" or "02:03:04", seconds rounded down: for tables. */
void duration_put_clock(struct buf *out, usec_t span);

/* "2026-01-31", with "T12:00[:00[.000001]]" and "Z" or "+01:00" (without either it is UTC), or seconds since 1970. */
int instant_parse(const char *text, size_t length, usec_t *ret_at);

/* "2026-01-31T12:00:00.000000Z"; instant_text() returns its text. */
enum { INSTANT_CHARS = 27 };
const char *instant_text(char text[INSTANT_CHARS + 1], usec_t at);
void instant_put(struct buf *out, usec_t at);

/* A bare number is MiB; K, M, G, T, P (also KiB, MB, ...) are binary; B alone is bytes. */
int size_parse_bytes(const char *text, size_t length, uint64_t *ret_bytes);

/* The shortest form size_parse_bytes() reads back to the same: "900G", "1000B". */
void size_put_bytes(struct buf *out, uint64_t bytes);

/* "TERM", "SIGTERM" or "15". -EINVAL. */
int signal_parse(const char *text, size_t length, int *ret_signal);
const char *signal_text(int number); /* "TERM"; NULL when it has no name */
