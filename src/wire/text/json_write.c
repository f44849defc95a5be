/* SPDX-License-Identifier: Apache-2.0 */
/* json_write.c - see json_write.h. */
#include "wire/text/json_write.h"

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
static uint64_t special_bytes(uint64_t word)
{
    const uint64_t each = 0x0101010101010101, high = 0x8080808080808080;
    uint64_t quote = word ^ (each * '"'), slash = word ^ (each * '\\');

    return (((word - each * 0x20) & ~word) | ((quote - each) & ~quote) | ((slash - each) & ~slash) | word) & high;
}

static uint64_t eight_at(const char *at)
{
    uint64_t word;

    memcpy(&word, at, sizeof(word));
    return le64toh(word);
}

/* Whether fewer than eight bytes all stand for themselves: most keys are that short. They are laid into one word, some
 * twice, with blanks where there are too few. */
static bool few_plain(const char *at, size_t count)
{
    uint64_t word = 0x2020202020202020;
    uint32_t first, last;

    if (count >= sizeof(first)) {
        memcpy(&first, at, sizeof(first));
        memcpy(&last, at + count - sizeof(last), sizeof(last));
        word = (uint64_t)first << 32 | last;
    } else if (count) {
        word = word << 24 | (uint64_t)(unsigned char)at[0] << 16 | (uint64_t)(unsigned char)at[count / 2] << 8 |
               (unsigned char)at[count - 1];
    }
    return !special_bytes(word);
}

/* Sixteen at once, only whether there is any: as signed numbers those below a blank and those that are not ASCII are
 * all less than it. */
static bool sixteen_plain(const char *at)
{
    typedef signed char lanes_t __attribute__((vector_size(2 * EIGHT)));
    lanes_t bytes;
    uint64_t marks[2];

    memcpy(&bytes, at, sizeof(bytes));
    bytes = (lanes_t)((bytes < 0x20) | (bytes == '"') | (bytes == '\\'));
    memcpy(marks, &bytes, sizeof(marks));
    return !(marks[0] | marks[1]);
}

const char *json_plain_end(const char *at, const char *end)
{
    uint64_t marks;

    while (end - at >= 2 * EIGHT && sixteen_plain(at))
        at += 2 * EIGHT;
    if (end - at >= EIGHT) {
        for (;;) {
            marks = special_bytes(eight_at(at));
            if (marks)
                return at + __builtin_ctzll(marks) / 8;
            at += EIGHT;
            if (at == end)
                return end;
            if (end - at < EIGHT)
                at = end - EIGHT; /* some of them once more */
        }
    }
    if (few_plain(at, (size_t)(end - at)))
        return end;
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

/* A string of which the bytes before `text` stand for themselves, and that at `text` perhaps not. */
static void string_put(struct buf *out, const char *start, const char *text, const char *end)
{
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

void json_put_string(struct buf *out, const char *text, size_t length)
{
    const char *end = text + length, *plain = json_plain_end(text, end);
    char *at = space(out, length + 2);

    if (!at || plain < end) {
        string_put(out, text, plain, end);
        return;
    }
    at[0] = '"';
    if (length)
        memcpy(at + 1, text, length);
    at[length + 1] = '"';
    space_used(out, length + 2);
}

void json_put_key(struct buf *out, const char *key, size_t length, bool first)
{
    const char *end = key + length, *plain = json_plain_end(key, end);
    char *at = space(out, length + 4);

    if (!at || plain < end) {
        if (!first)
            buf_char(out, ',');
        string_put(out, key, plain, end);
        buf_char(out, ':');
        return;
    }
    *at = ',';
    at += !first;
    at[0] = '"';
    if (length)
        memcpy(at + 1, key, length);
    at[length + 1] = '"';
    at[length + 2] = ':';
    space_used(out, length + 3 + !first);
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
        buf_text(json->out, json->narrow ? " " : "  ");
}

/* What stands before a value: a comma, a line break, the key. */
static void begin(struct json_write *json, const char *key)
{
    uint64_t bit = 1ULL << json->depth;
    bool first = !(json->started & bit);

    assert(!key == !(json->objects & bit));
    json->started |= bit;
    if (key && !json->pretty) {
        json_put_key(json->out, key, strlen(key), first);
        return;
    }
    if (!first)
        buf_char(json->out, ',');
    if (json->depth)
        line_break(json);
    if (key) {
        json_put_key(json->out, key, strlen(key), true);
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

    for (; left >= 100; left /= 100) {
        unsigned pair = (unsigned)(left % 100);

        digits[--at] = (char)('0' + pair % 10);
        digits[--at] = (char)('0' + pair / 10);
    }
    digits[--at] = (char)('0' + left % 10);
    if (left >= 10)
        digits[--at] = (char)('0' + left / 10);
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
