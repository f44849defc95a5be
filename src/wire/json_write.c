/* SPDX-License-Identifier: Apache-2.0 */
/* json_write.c - see json_write.h. */
#include "wire/json_write.h"

#include <assert.h>
#include <endian.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EIGHT = sizeof(uint64_t) };

void json_write_init(struct json_write *json, struct buf *out, bool pretty)
{
    *json = (struct json_write){ .out = out, .pretty = pretty };
}

size_t json_utf8_length(const char *start, size_t left)
{
    const unsigned char *text = (const unsigned char *)start;
    uint32_t code;
    size_t length;

    if (text[0] < 0x80)
        return 1;
    length = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    if (text[0] < 0xc2 || text[0] > 0xf4 || length > left)
        return 0;
    code = text[0] & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (text[i] & 0x3f);
    }
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000) || (length == 3 && code < 0x800) ||
        (length == 4 && code < 0x10000))
        return 0;
    return length;
}

static void escape_put(struct buf *out, unsigned char c)
{
    static const char from[] = "\"\\\n\r\t\b\f";
    static const char to[] = "\"\\nrtbf";
    const char *hit = c ? strchr(from, c) : NULL;

    if (hit) {
        buf_char(out, '\\');
        buf_char(out, to[hit - from]);
    } else {
        buf_printf(out, "\\u%04x", c);
    }
}

/* Eight bytes at once: the high bit of each that is below a blank, a quote, a backslash or not ASCII. A byte behind
 * such a one may be marked too, which does no harm: the first is what is looked for. */
static uint64_t special_bytes(const char *at)
{
    const uint64_t each = 0x0101010101010101, high = 0x8080808080808080;
    uint64_t word, quote, slash;

    memcpy(&word, at, sizeof(word));
    word = le64toh(word);
    quote = word ^ (each * '"');
    slash = word ^ (each * '\\');
    return (((word - each * 0x20) & ~word) | ((quote - each) & ~quote) | ((slash - each) & ~slash) | word) & high;
}

const char *json_plain_end(const char *at, const char *end)
{
    uint64_t marks;

    if (end - at >= EIGHT) {
        for (;;) {
            marks = special_bytes(at);
            if (marks)
                return at + __builtin_ctzll(marks) / 8;
            at += EIGHT;
            if (at == end)
                return end;
            if (end - at < EIGHT)
                at = end - EIGHT; /* some of them once more */
        }
    }
    while (at < end && (unsigned char)(*at - 0x20) < 0x60 && *at != '"' && *at != '\\')
        at++;
    return at;
}

/* Where `size` bytes may be written at once; NULL: go through the buffer's own ways. */
static char *space(struct buf *out, size_t size)
{
    bool fits = !out->error && size < out->capacity - out->size && size <= out->max - out->size;

    return fits ? out->data + out->size : NULL;
}

static void space_used(struct buf *out, size_t size)
{
    out->size += size;
    out->data[out->size] = '\0';
}

void json_put_string(struct buf *out, const char *text, size_t length)
{
    const char *end = text + length, *start = text;
    char *at = space(out, length + 2);

    text = json_plain_end(text, end);
    if (at && text == end) {
        at[0] = '"';
        if (length)
            memcpy(at + 1, start, length);
        at[length + 1] = '"';
        space_used(out, length + 2);
        return;
    }
    buf_char(out, '"');
    for (; text < end; text = json_plain_end(text, end)) {
        size_t step = json_utf8_length(text, (size_t)(end - text));

        if (step > 1) {
            text += step;
            continue;
        }
        buf_put(out, start, (size_t)(text - start));
        if (step)
            escape_put(out, (unsigned char)*text);
        else
            buf_text(out, "\xef\xbf\xbd");
        start = ++text;
    }
    buf_put(out, start, (size_t)(end - start));
    buf_char(out, '"');
}

void json_put_double(struct buf *out, double value)
{
    char text[40];

    if (!isfinite(value)) {
        buf_text(out, "null");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    buf_text(out, text);
}

static void line_break(struct json_write *json)
{
    if (!json->pretty)
        return;
    buf_char(json->out, '\n');
    for (uint32_t i = 0; i < json->depth; i++)
        buf_text(json->out, "  ");
}

/* What stands before a value: a comma, a line break, the key. */
static void begin(struct json_write *json, const char *key)
{
    uint64_t bit = 1ULL << json->depth;

    assert(!key == !(json->objects & bit));
    if (json->started & bit)
        buf_char(json->out, ',');
    json->started |= bit;
    if (json->depth)
        line_break(json);
    if (key) {
        json_put_string(json->out, key, strlen(key));
        buf_char(json->out, ':');
        if (json->pretty)
            buf_char(json->out, ' ');
    }
}

static void open_level(struct json_write *json, const char *key, bool object)
{
    uint64_t bit;

    begin(json, key);
    assert(json->depth < JSON_DEPTH_MAX);
    buf_char(json->out, object ? '{' : '[');
    json->depth++;
    bit = 1ULL << json->depth;
    json->started &= ~bit;
    json->objects = object ? json->objects | bit : json->objects & ~bit;
}

void json_write_object(struct json_write *json, const char *key)
{
    open_level(json, key, true);
}

void json_write_array(struct json_write *json, const char *key)
{
    open_level(json, key, false);
}

void json_write_close(struct json_write *json)
{
    uint64_t bit = 1ULL << json->depth;
    bool object = json->objects & bit, any = json->started & bit;

    assert(json->depth > 0);
    json->depth--;
    if (any)
        line_break(json);
    buf_char(json->out, object ? '}' : ']');
    if (json->depth == 0 && json->pretty)
        buf_char(json->out, '\n');
}

void json_write_bytes(struct json_write *json, const char *key, const char *text, size_t length)
{
    begin(json, key);
    json_put_string(json->out, text, length);
}

void json_write_text(struct json_write *json, const char *key, const char *text)
{
    json_write_bytes(json, key, text, strlen(text));
}

void json_put_i64(struct buf *out, int64_t value)
{
    char digits[24];
    size_t at = sizeof(digits);
    uint64_t left = value < 0 ? -(uint64_t)value : (uint64_t)value;

    do {
        digits[--at] = (char)('0' + left % 10);
        left /= 10;
    } while (left);
    if (value < 0)
        digits[--at] = '-';
    buf_put(out, digits + at, sizeof(digits) - at);
}

void json_write_i64(struct json_write *json, const char *key, int64_t value)
{
    begin(json, key);
    json_put_i64(json->out, value);
}

void json_write_u64(struct json_write *json, const char *key, uint64_t value)
{
    begin(json, key);
    buf_printf(json->out, "%llu", (unsigned long long)value);
}

void json_write_double(struct json_write *json, const char *key, double value)
{
    begin(json, key);
    json_put_double(json->out, value);
}

void json_write_bool(struct json_write *json, const char *key, bool value)
{
    begin(json, key);
    buf_text(json->out, value ? "true" : "false");
}

void json_write_null(struct json_write *json, const char *key)
{
    begin(json, key);
    buf_text(json->out, "null");
}

void json_write_raw(struct json_write *json, const char *key, const char *text, size_t length)
{
    begin(json, key);
    buf_put(json->out, text, length);
}
