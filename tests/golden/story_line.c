/* SPDX-License-Identifier: Apache-2.0 */
/* story_line.c - see story_line.h. */
#include "story_line.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int line_wrong(const struct line *line, const char *what, const char *word)
{
    return error_set(line->err, -EINVAL, "%s:%d: %s%s%s%s", line->story->file, line->number, what, word ? ": '" : "",
                     word ? word : "", word ? "'" : "");
}

int line_prefixed(const struct line *line, int r)
{
    return error_prefix(line->err, r, "%s:%d", line->story->file, line->number);
}

const char *word_value(const char *word, const char *key)
{
    size_t length = strlen(key);

    return strncmp(word, key, length) == 0 && word[length] == '=' ? word + length + 1 : NULL;
}

int line_span(const struct line *line, const char *text, usec_t *ret)
{
    int r = world_parse_span(text, ret, line->err);

    return r < 0 ? line_prefixed(line, r) : 0;
}

int line_number(const struct line *line, const char *text, int32_t *ret)
{
    char *end;
    long value = strtol(text, &end, 10);

    if (end == text || *end || value < -1000000 || value > 1000000)
        return line_wrong(line, "expected a number", text);
    *ret = (int32_t)value;
    return 0;
}

int line_choice(const struct line *line, const char *text, const char *const *words, uint8_t *ret)
{
    for (uint8_t i = 0; words[i]; i++)
        if (strcmp(words[i], text) == 0) {
            *ret = i;
            return 0;
        }
    return line_wrong(line, "unknown word", text);
}

uint32_t story_sku(const struct story *story, const char *name)
{
    for (uint32_t s = 0; s < story->cluster.sku_count; s++)
        if (strcmp(names_get(&story->cluster.names, story->cluster.skus[s].name), name) == 0)
            return s;
    return SKUS_MAX;
}
