/* SPDX-License-Identifier: Apache-2.0 */
/* suggest.c - see suggest.h. */
#include "wire/text/suggest.h"

#include <stdio.h>
#include <string.h>

enum { WORD_MAX = 40, CUT_AT = 40 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Letters put in, left out, changed, or two beside one another swapped; three rows at a time. */
static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t rows[3][WORD_MAX + 1];

    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i - 1) % 3], *over = rows[(i + 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], over[j - 2] + 1);
        }
    }
    return rows[a_length % 3][b_length];
}

const char *suggest_word(const char *text, size_t length, const char *const *words, size_t count)
{
    const char *best = NULL;
    size_t best_distance = length / 3 + 2;

    if (length == 0 || length > WORD_MAX)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        size_t word_length = strlen(words[i]);
        size_t d = word_length <= WORD_MAX ? distance(text, length, words[i], word_length) : WORD_MAX;

        if (d < best_distance && d < word_length) {
            best_distance = d;
            best = words[i];
        }
    }
    return best;
}

const char *suggest_shown(const char *text, size_t length, char shown[SHOWN_MAX])
{
    size_t at = 0;

    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];

        if (at >= CUT_AT) {
            memcpy(shown + at, "...", 3);
            at += 3;
            break;
        }
        if (c < 0x20 || c == 0x7f)
            at += (size_t)snprintf(shown + at, SHOWN_MAX - at, "\\x%02x", c);
        else
            shown[at++] = (char)c;
    }
    shown[at] = '\0';
    return shown;
}
