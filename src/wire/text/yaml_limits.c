/* SPDX-License-Identifier: Apache-2.0 */
/* yaml_limits.c - see yaml_limits.h.
 *
 * The time libyaml takes grows with the square of the depth and of the number of anchors, and what a reader makes of a
 * document grows with every alias by all that it stands for: nine lists of nine aliases each are a third of a milliard
 * values in 359 bytes. So the values are counted from the parser's events, an alias as what it names, before there is
 * a document, and the count ends where the limit is.
 */
#include "wire/text/yaml_limits.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

struct anchor {
    char *name;
    size_t values; /* it and all below it */
    int levels;
    bool open; /* not at its end yet */
};

/* A list or a mapping that is not at its end. */
struct level {
    size_t values_before;
    int deepest;
    size_t anchor; /* index + 1; 0: none */
};

struct count {
    const struct yaml_doc *doc;
    size_t values_max, values;
    struct level levels[YAML_DEPTH_MAX + 1];
    int depth;
    struct anchor *anchors;
    size_t anchor_count, anchor_capacity;
    struct error *err;
};

static int refuse(const struct count *count, const yaml_event_t *event, size_t max, const char *what)
{
    char words[64];

    (void)snprintf(words, sizeof(words), "more than %zu %s", max, what);
    return yaml_fail_at(count->doc, event->start_mark, -E2BIG, words, count->err);
}

static int anchor_add(struct count *count, const yaml_event_t *event, const yaml_char_t *name, size_t *ret_index)
{
    void *block = count->anchors;
    char *copy;
    int r;

    *ret_index = 0;
    if (!name)
        return 0;
    if (count->anchor_count == YAML_ANCHORS_MAX)
        return refuse(count, event, YAML_ANCHORS_MAX, "anchors");
    r = mem_grow(&block, &count->anchor_capacity, count->anchor_count + 1, YAML_ANCHORS_MAX, sizeof(*count->anchors));
    count->anchors = block;
    copy = r == 0 ? mem_strdup((const char *)name) : NULL;
    if (!copy)
        return error_set(count->err, -ENOMEM, "%s: out of memory", count->doc->file);
    count->anchors[count->anchor_count++] = (struct anchor){ .name = copy, .values = 1, .open = true };
    *ret_index = count->anchor_count;
    return 0;
}

/* Some values, and how many levels they reach below this one. */
static int values_add(struct count *count, const yaml_event_t *event, size_t values, int levels)
{
    struct level *level = &count->levels[count->depth];

    count->values += values;
    if (count->values > count->values_max)
        return refuse(count, event, count->values_max, "values, aliases written out");
    if (count->depth + levels > YAML_DEPTH_MAX)
        return refuse(count, event, YAML_DEPTH_MAX, "levels");
    level->deepest = levels > level->deepest ? levels : level->deepest;
    return 0;
}

static int on_start(struct count *count, const yaml_event_t *event, const yaml_char_t *anchor)
{
    int r = values_add(count, event, 1, 1);
    size_t index = 0;

    if (r == 0)
        r = anchor_add(count, event, anchor, &index);
    if (r == 0)
        count->levels[++count->depth] = (struct level){ .values_before = count->values - 1, .anchor = index };
    return r;
}

static void on_end(struct count *count)
{
    const struct level *level = &count->levels[count->depth--];
    struct level *above = &count->levels[count->depth];

    above->deepest = level->deepest + 1 > above->deepest ? level->deepest + 1 : above->deepest;
    if (!level->anchor || !count->anchors)
        return;
    assert(count->anchors);
    count->anchors[level->anchor - 1].values = count->values - level->values_before;
    count->anchors[level->anchor - 1].levels = level->deepest + 1;
    count->anchors[level->anchor - 1].open = false;
}

static int on_scalar(struct count *count, const yaml_event_t *event)
{
    size_t index = 0;
    int r = anchor_add(count, event, event->data.scalar.anchor, &index);

    if (r == 0 && index)
        count->anchors[index - 1].open = false;
    return r == 0 ? values_add(count, event, 1, 0) : r;
}

/* One that names nothing is the parser's to refuse. */
static int on_alias(struct count *count, const yaml_event_t *event)
{
    for (size_t i = count->anchor_count; i-- > 0;) {
        const struct anchor *anchor = &count->anchors[i];

        if (strcmp(anchor->name, (const char *)event->data.alias.anchor) != 0)
            continue;
        if (anchor->open)
            return yaml_fail_at(count->doc, event->start_mark, -EINVAL, "an alias of what it is in", count->err);
        return values_add(count, event, anchor->values, anchor->levels);
    }
    return values_add(count, event, 1, 0);
}

static int event_count(struct count *count, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SEQUENCE_START_EVENT:
        return on_start(count, event, event->data.sequence_start.anchor);
    case YAML_MAPPING_START_EVENT:
        return on_start(count, event, event->data.mapping_start.anchor);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        on_end(count);
        return 0;
    case YAML_SCALAR_EVENT:
        return on_scalar(count, event);
    case YAML_ALIAS_EVENT:
        return on_alias(count, event);
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_START_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        break;
    }
    return 0;
}

int yaml_limits_check(const struct yaml_doc *doc, size_t values_max, struct error *err)
{
    struct count count = { .doc = doc, .values_max = values_max, .err = err };
    yaml_parser_t parser;
    yaml_event_t event;
    bool end = false;
    int r = 0;

    if (!yaml_parser_initialize(&parser))
        return error_set(err, -ENOMEM, "%s: out of memory", doc->file);
    yaml_parser_set_input_string(&parser, (const unsigned char *)doc->text, doc->size);
    while (r == 0 && !end) {
        if (!yaml_parser_parse(&parser, &event)) {
            r = yaml_parser_fail(doc, &parser, err);
            break;
        }
        r = event_count(&count, &event);
        end = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    for (size_t i = 0; i < count.anchor_count; i++)
        mem_free(count.anchors[i].name);
    mem_free(count.anchors);
    return r;
}
