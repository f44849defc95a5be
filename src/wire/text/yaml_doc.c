/* SPDX-License-Identifier: Apache-2.0 */
/* yaml_doc.c - see yaml_doc.h. libyaml's document interface keeps the place of every node; its marks count from 0 and
 * in characters, which is what a caret needs. Readers walk the nodes by the shape they expect, so that neither depth
 * nor an alias of a node to itself can lead them astray. */
#include "wire/text/yaml_doc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "wire/text/decimal.h"
#include "wire/text/size.h"
#include "wire/text/suggest.h"
#include "wire/text/yaml_limits.h"

enum { LINE_SHOWN = 80 };

/* The text of a line, without its end. */
static const char *line_find(const struct yaml_doc *doc, size_t line, size_t *ret_length)
{
    const char *at = doc->text, *end = doc->text + doc->size, *stop;

    for (; line > 0; line--) {
        at = memchr(at, '\n', (size_t)(end - at));
        if (!at)
            return NULL;
        at++;
    }
    stop = memchr(at, '\n', (size_t)(end - at));
    if (!stop)
        stop = end;
    if (stop > at && stop[-1] == '\r')
        stop--;
    *ret_length = (size_t)(stop - at);
    return at;
}

/* Bytes of the first `count` characters. */
static size_t characters_size(const char *text, size_t length, size_t count)
{
    size_t i = 0;

    for (; i < length && count > 0; count--) {
        i++;
        while (i < length && ((unsigned char)text[i] & 0xc0) == 0x80)
            i++;
    }
    return i;
}

int yaml_fail_at(const struct yaml_doc *doc, yaml_mark_t mark, int code, const char *words, struct error *err)
{
    size_t length = 0, before, start;
    const char *line = line_find(doc, mark.line, &length);
    char shown[LINE_SHOWN + 1], caret[LINE_SHOWN + 1];
    size_t at = 0, caret_at = 0;

    if (!line || length == 0)
        return error_set(err, code, "%s:%zu:%zu: %s", doc->file, mark.line + 1, mark.column + 1, words);
    before = characters_size(line, length, mark.column);
    start = before > LINE_SHOWN / 2 ? before - LINE_SHOWN / 2 : 0;
    while (start > 0 && ((unsigned char)line[start] & 0xc0) == 0x80)
        start--;
    for (size_t i = start; i < length && at < LINE_SHOWN - 4; i++) {
        unsigned char c = (unsigned char)line[i];

        shown[at++] = c < 0x20 && c != '\t' ? '?' : (char)c;
        if (i < before && (c & 0xc0) != 0x80)
            caret[caret_at++] = c == '\t' ? '\t' : ' ';
    }
    shown[at] = '\0';
    caret[caret_at] = '\0';
    return error_set(err, code, "%s:%zu:%zu: %s\n  %s\n  %s^", doc->file, mark.line + 1, mark.column + 1, words, shown,
                     caret);
}

int yaml_fail(const struct yaml_doc *doc, const yaml_node_t *node, struct error *err, const char *words, ...)
{
    char text[256];
    va_list args;

    va_start(args, words);
    (void)vsnprintf(text, sizeof(text), words, args);
    va_end(args);
    return yaml_fail_at(doc, node->start_mark, -EINVAL, text, err);
}

int yaml_parser_fail(const struct yaml_doc *doc, const yaml_parser_t *parser, struct error *err)
{
    char words[256];

    if (parser->error == YAML_MEMORY_ERROR)
        return error_set(err, -ENOMEM, "%s: out of memory", doc->file);
    if (parser->error == YAML_READER_ERROR)
        return error_set(err, -EBADMSG, "%s: byte %zu: %s", doc->file, parser->problem_offset,
                         parser->problem ? parser->problem : "not text");
    (void)snprintf(words, sizeof(words), "%s%s%s", parser->problem ? parser->problem : "not YAML",
                   parser->context ? ", " : "", parser->context ? parser->context : "");
    return yaml_fail_at(doc, parser->problem_mark, -EBADMSG, words, err);
}

/* Nothing but comments may follow the first document. */
static int rest_check(struct yaml_doc *doc, yaml_parser_t *parser, struct error *err)
{
    yaml_document_t rest;
    int r = 0;

    if (!yaml_parser_load(parser, &rest))
        return yaml_parser_fail(doc, parser, err);
    if (yaml_document_get_root_node(&rest))
        r = yaml_fail(doc, yaml_document_get_root_node(&rest), err, "expected one document, got a second one");
    yaml_document_delete(&rest);
    return r;
}

int yaml_open(const char *file, const struct bytes *bytes, struct yaml_doc *doc, struct error *err)
{
    return yaml_open_within(file, bytes, YAML_VALUES_MAX, doc, err);
}

int yaml_open_within(const char *file, const struct bytes *bytes, size_t values_max, struct yaml_doc *doc,
                     struct error *err)
{
    yaml_parser_t parser;
    int r;

    *doc = (struct yaml_doc){ .file = file, .text = bytes->data, .size = bytes->size };
    if (bytes->size > YAML_BYTES_MAX)
        return error_set(err, -E2BIG, "%s: larger than %zu bytes", file, YAML_BYTES_MAX);
    r = yaml_limits_check(doc, values_max, err);
    if (r < 0)
        return r;
    if (!yaml_parser_initialize(&parser))
        return error_set(err, -ENOMEM, "%s: out of memory", file);
    yaml_parser_set_input_string(&parser, (const unsigned char *)bytes->data, bytes->size);
    if (!yaml_parser_load(&parser, &doc->document)) {
        r = yaml_parser_fail(doc, &parser, err);
    } else {
        r = rest_check(doc, &parser, err);
        if (r == 0 && !yaml_document_get_root_node(&doc->document))
            r = error_set(err, -EINVAL, "%s:1:1: expected a mapping, got an empty document", file);
        if (r < 0)
            yaml_document_delete(&doc->document);
    }
    yaml_parser_delete(&parser);
    return r;
}

void yaml_close(struct yaml_doc *doc)
{
    yaml_document_delete(&doc->document);
}

yaml_node_t *yaml_top(struct yaml_doc *doc)
{
    return yaml_document_get_root_node(&doc->document);
}

bool yaml_pair(struct yaml_doc *doc, yaml_node_t *map, size_t i, yaml_node_t **ret_key, yaml_node_t **ret_value)
{
    const yaml_node_pair_t *pair = map->data.mapping.pairs.start + i;

    if (pair >= map->data.mapping.pairs.top)
        return false;
    *ret_key = yaml_document_get_node(&doc->document, pair->key);
    *ret_value = yaml_document_get_node(&doc->document, pair->value);
    return true;
}

bool yaml_item(struct yaml_doc *doc, yaml_node_t *list, size_t i, yaml_node_t **ret_item)
{
    const yaml_node_item_t *item = list->data.sequence.items.start + i;

    if (item >= list->data.sequence.items.top)
        return false;
    *ret_item = yaml_document_get_node(&doc->document, *item);
    return true;
}

static const char *scalar(const yaml_node_t *node)
{
    return (const char *)node->data.scalar.value;
}

int yaml_map_check(struct yaml_doc *doc, yaml_node_t *map, const char *what, struct error *err)
{
    struct names seen = { 0 };
    yaml_node_t *key, *value;
    int r = 0;

    if (map->type != YAML_MAPPING_NODE)
        return yaml_fail(doc, map, err, "%s: expected a mapping", what);
    for (size_t i = 0; r == 0 && yaml_pair(doc, map, i, &key, &value); i++) {
        const char *name;
        uint32_t index;

        r = yaml_name(doc, key, "key", &name, err);
        if (r < 0)
            break;
        r = names_put(&seen, name, strlen(name), &index);
        if (r < 0)
            r = error_set(err, r, "%s: out of memory", doc->file);
        else if (index < i)
            r = yaml_fail(doc, key, err, "key '%.40s' comes twice", name);
    }
    names_done(&seen);
    return r;
}

static int key_unknown(struct yaml_doc *doc, const yaml_node_t *node, const struct yaml_key *keys, size_t count,
                       struct error *err)
{
    const char *known[32], *near;
    char shown[SHOWN_MAX];

    for (size_t i = 0; i < count && i < 32; i++)
        known[i] = keys[i].name;
    near = suggest_word(scalar(node), node->data.scalar.length, known, count < 32 ? count : 32);
    return yaml_fail(doc, node, err, "unknown key '%s'%s%s%s",
                     suggest_shown(scalar(node), node->data.scalar.length, shown), near ? "; did you mean '" : "",
                     near ? near : "", near ? "'?" : "");
}

int yaml_keys(struct yaml_doc *doc, yaml_node_t *map, struct yaml_key *keys, size_t count, struct error *err)
{
    yaml_node_t *key, *value;
    int r;

    r = yaml_map_check(doc, map, "here", err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < count; i++)
        keys[i].node = keys[i].value = NULL;
    for (size_t i = 0; yaml_pair(doc, map, i, &key, &value); i++) {
        size_t k = 0;

        while (k < count && strcmp(keys[k].name, scalar(key)) != 0)
            k++;
        if (k == count)
            return key_unknown(doc, key, keys, count, err);
        keys[k].node = key;
        keys[k].value = value;
    }
    for (size_t i = 0; i < count; i++)
        if (keys[i].required && !keys[i].value)
            return yaml_fail(doc, map, err, "key '%s' is missing", keys[i].name);
    return 0;
}

int yaml_name(struct yaml_doc *doc, const yaml_node_t *node, const char *what, const char **ret_name, struct error *err)
{
    if (node->type != YAML_SCALAR_NODE || node->data.scalar.length == 0)
        return yaml_fail(doc, node, err, "%s: expected a name", what);
    if (node->data.scalar.length > NAME_LENGTH_MAX)
        return yaml_fail(doc, node, err, "%s: expected a name of at most %zu bytes", what, NAME_LENGTH_MAX);
    for (size_t i = 0; i < node->data.scalar.length; i++)
        if ((unsigned char)scalar(node)[i] < 0x20 || scalar(node)[i] == 0x7f)
            return yaml_fail(doc, node, err, "%s: a name cannot hold control characters", what);
    *ret_name = scalar(node);
    return 0;
}

bool yaml_flag(const yaml_node_t *node, bool *ret_value)
{
    static const char *const words[] = { "true",  "True",  "TRUE",  "yes", "Yes", "YES", "on",  "On",  "ON",
                                         "false", "False", "FALSE", "no",  "No",  "NO",  "off", "Off", "OFF" };
    const size_t count = sizeof(words) / sizeof(words[0]);

    for (size_t i = 0; node->type == YAML_SCALAR_NODE && i < count; i++) {
        if (strcmp((const char *)node->data.scalar.value, words[i]) != 0)
            continue;
        *ret_value = i < count / 2;
        return true;
    }
    return false;
}

int yaml_i64(struct yaml_doc *doc, const yaml_node_t *node, int64_t min, int64_t max, int64_t *ret_value,
             struct error *err)
{
    char shown[SHOWN_MAX] = "";
    int64_t value;

    if (node->type == YAML_SCALAR_NODE) {
        if (decimal_parse_i64(scalar(node), node->data.scalar.length, &value) == 0 && value >= min && value <= max) {
            *ret_value = value;
            return 0;
        }
        (void)suggest_shown(scalar(node), node->data.scalar.length, shown);
    }
    return yaml_fail(doc, node, err, "expected a whole number from %lld to %lld%s%s%s", (long long)min, (long long)max,
                     node->type == YAML_SCALAR_NODE ? ", got '" : "", shown, node->type == YAML_SCALAR_NODE ? "'" : "");
}

int yaml_mib(struct yaml_doc *doc, const yaml_node_t *node, int64_t max, uint32_t *ret_mib, struct error *err)
{
    uint32_t mib;

    if (node->type != YAML_SCALAR_NODE || size_parse_mib(scalar(node), node->data.scalar.length, &mib) < 0 || mib > max)
        return yaml_fail(doc, node, err, "expected a size such as 512G, whole MiB, at most %lldG",
                         (long long)max >> 10);
    *ret_mib = mib;
    return 0;
}
