/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* output_text.h - numbers, spans and other people's strings, written so that the reader gets them back.
 *
 * Nothing here fails: a write error stays with the stream (ferror). Strings may hold any bytes; what is not UTF-8
 * comes out as U+FFFD.
 */
#include <stddef.h>
#include <stdio.h>

#include "base/units.h"

/* Microseconds as seconds, exact, without trailing zeros: "90", "0.000001", "-1.5". */
void text_usec(FILE *out, usec_t usec);

/* At most six decimals, no trailing zeros; never an exponent. "null" for what is not a number. */
void text_real(FILE *out, double value);

/* JSON that is to stand in an HTML script element: '<', '>' and '&', which only its strings can hold, escaped. */
void text_script_json(FILE *out, const char *json, size_t size);

/* Text or attribute value of HTML. */
void text_html(FILE *out, const char *text);

/* A CSV field; quoted where it must be. */
void text_csv(FILE *out, const char *text);

/* One word of a shell command, quoted where it must be, as HTML. */
void text_html_shell(FILE *out, const char *text);

/* A span for people: "850ms", "42.5s", "12m30s", "7h14m", "3d05h". Returns `buffer`. */
char *text_span(char *buffer, size_t size, double seconds);

/* A share for people: "93.1%"; "-" for what is not a number. Returns `buffer`. */
char *text_ratio(char *buffer, size_t size, double ratio);

/* A count with thin groups: "1,234,567". Returns `buffer`. */
char *text_count(char *buffer, size_t size, uint64_t count);
