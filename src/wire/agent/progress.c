/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - see progress.h. */
#include "wire/agent/progress.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_MAX = 40 };

static const struct {
    const char *name;
    int64_t least, most;
} words[PROGRESS_WORD_COUNT] = {
#define X(bit, name, least, most) [PROGRESS_##bit] = { name, least, most },
    PROGRESS_WORDS(X)
#undef X
};

static double unit_of(enum progress_word word)
{
    return word == PROGRESS_LOSS ? 1e9 : word == PROGRESS_EPOCH ? 1e3 : 1;
}

const char *progress_name(enum progress_word word)
{
    return words[word].name;
}

int progress_find(const char *name, size_t size)
{
    for (int i = 0; i < PROGRESS_WORD_COUNT; i++)
        if (strlen(words[i].name) == size && memcmp(words[i].name, name, size) == 0)
            return i;
    return -ENOENT;
}

int progress_set(struct progress_line *line, enum progress_word word, const char *text, size_t size)
{
    char copy[NUMBER_MAX + 1], *end;
    double value;

    if (size == 0 || size > NUMBER_MAX)
        return -EINVAL;
    memcpy(copy, text, size);
    copy[size] = '\0';
    if (strspn(copy, "+-.0123456789eE") < size)
        return -EINVAL; /* neither NaN nor infinity, nor the many other ways of strtod() */
    value = strtod(copy, &end) * unit_of(word);
    if (*end || !isfinite(value) || value < (double)words[word].least || value > (double)words[word].most)
        return -EINVAL;
    line->value[word] = (int64_t)value;
    line->given |= 1u << word;
    return 0;
}

bool progress_parse(const char *text, size_t size, struct progress_line *ret)
{
    *ret = (struct progress_line){ 0 };
    for (size_t at = 0; at < size;) {
        size_t begin = at, end, equals;
        int word;

        while (at < size && text[at] != ' ' && text[at] != '\t')
            at++;
        end = at;
        at += at < size;
        equals = begin;
        while (equals < end && text[equals] != '=')
            equals++;
        word = equals < end ? progress_find(text + begin, equals - begin) : -ENOENT;
        if (word >= 0)
            (void)progress_set(ret, (enum progress_word)word, text + equals + 1, end - equals - 1);
    }
    return ret->given != 0;
}
