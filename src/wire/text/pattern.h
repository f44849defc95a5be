/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* pattern.h - regular expressions that take linear time, to find a number in a line of output.
 *
 * Known: letters, `.`, [a-z], [^a-z], \d \w \s and their opposites, * + ?, |, ( ), ^ and $. The first pair of
 * parentheses is the value; without one the whole match is. What a pattern costs is bounded by its length times that
 * of the line, whatever either of them says: there is no backtracking, and no {n,m}.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { PATTERN_TEXT_MAX = 200, PATTERN_STEPS_MAX = 512, PATTERN_SETS_MAX = 32 };

struct pattern {
    uint16_t count, sets;
    struct pattern_step {
        uint8_t op, byte;
        int16_t to, or_to; /* relative to this step */
    } steps[PATTERN_STEPS_MAX];
    uint8_t set[PATTERN_SETS_MAX][32]; /* a bit for each byte */
};

/* -EINVAL with words. */
int pattern_compile(const char *text, struct pattern *ret, struct error *err);
/* The leftmost match in the line; *ret_at and *ret_size: its value. */
bool pattern_find(const struct pattern *pattern, const char *line, size_t size, size_t *ret_at, size_t *ret_size);
