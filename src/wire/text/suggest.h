/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* suggest.h - words for messages: what was probably meant, and foreign text made fit to print. */
#include <stddef.h>

enum { SHOWN_MAX = 64 };

/* The nearest of `words[0..count)` by edit distance, or NULL when none is near enough to be meant. */
const char *suggest_word(const char *text, size_t length, const char *const *words, size_t count);

/* A copy for messages: cut with "..." after about 40 bytes, unprintable bytes as \xNN. Returns `shown`. */
const char *suggest_shown(const char *text, size_t length, char shown[SHOWN_MAX]);
