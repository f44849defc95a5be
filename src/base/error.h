/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* error.h - a failure in words.
 *
 * Functions that can fail return 0 (or a count) or -errno, and put the words here. The parameter is always the
 * last and may be NULL. Both helpers return the code, so that failing is one line.
 */
#include <stdarg.h>

#define ERROR_TEXT_MAX 1024

struct error {
    int code; /* -errno, 0 when nothing failed */
    char text[ERROR_TEXT_MAX];
};

/* Replaces the text. Returns `code`. */
int error_set(struct error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Puts words and ": " before the text there is. Returns `code`. */
int error_prefix(struct error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

#ifdef __clang_analyzer__
/* The analyser reads one file at a time and cannot see that both return `code`, which callers build upon. */
#define error_set(err, code, ...) ((void)error_set(err, code, __VA_ARGS__), (code))
#define error_prefix(err, code, ...) ((void)error_prefix(err, code, __VA_ARGS__), (code))
#endif
