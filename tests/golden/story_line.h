/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* story_line.h - a line of a story: its words, and what one of them says. Errors name file and line. */
#include <stddef.h>

#include "story.h"

enum { WORDS_MAX = 40 };

struct line {
    struct story *story;
    int number;
    char *words[WORDS_MAX];
    size_t count;
    struct error *err;
};

int line_wrong(const struct line *line, const char *what, const char *word);
/* An error that does not know where it is. */
int line_prefixed(const struct line *line, int r);
/* The value of "key=value", NULL if the word is another one. */
const char *word_value(const char *word, const char *key);
int line_span(const struct line *line, const char *text, usec_t *ret);
int line_number(const struct line *line, const char *text, int32_t *ret);
/* One of the words, as its number; NULL ends them. */
int line_choice(const struct line *line, const char *text, const char *const *words, uint8_t *ret);
/* SKUS_MAX when there is none of that name. */
uint32_t story_sku(const struct story *story, const char *name);

/* submit NAME gpus=... (story_job.c) */
int line_submit(const struct line *line, usec_t at);
