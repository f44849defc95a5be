/* SPDX-License-Identifier: Apache-2.0 */
/* json_quick.c - see json_quick.h. */
#include "wire/text/json_quick.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/text/json_write.h"

enum { QUICK_DEPTH_MAX = 64, QUICK_NUMBER_MAX = 60 };
#define QUICK_TEXT_MAX ((size_t)1 << 31)

struct quick {
    const char *at, *end;
    int depth;
    struct buf text; /* a string without its escapes */
};

static int quick_value(struct quick *in, json_t **ret);

static void skip_blanks(struct quick *in)
{
    while (in->at < in->end && (*in->at == ' ' || *in->at == '\n' || *in->at == '\r' || *in->at == '\t'))
        in->at++;
}

static bool take(struct quick *in, char c)
{
    skip_blanks(in);
    if (in->at == in->end || *in->at != c)
        return false;
    in->at++;
    return true;
}

/* The escape at `at`, which is a backslash; \u is left to jansson. */
static int take_escape(struct quick *in)
{
    static const char from[] = "\"\\/nrtbf", to[] = "\"\\/\n\r\t\b\f";
    const char *hit = in->end - in->at > 1 && in->at[1] ? strchr(from, in->at[1]) : NULL;

    if (!hit)
        return -EBADMSG;
    buf_char(&in->text, to[hit - from]);
    in->at += 2;
    return in->text.error;
}

/* A string behind its first quote: a piece of the input where it has no escapes, else of `text`. */
static int quick_string(struct quick *in, const char **ret_text, size_t *ret_size)
{
    const char *start = in->at;
    bool whole = true;

    for (;;) {
        in->at = json_plain_end(in->at, in->end);
        if (in->at == in->end)
            return -EBADMSG;
        if (*in->at == '"')
            break;
        if (*in->at == '\\') {
            if (whole)
                buf_clear(&in->text);
            whole = false;
            buf_put(&in->text, start, (size_t)(in->at - start));
            int r = take_escape(in);
            if (r < 0)
                return r;
            start = in->at;
        } else {
            size_t length = json_utf8_length(in->at, (size_t)(in->end - in->at));

            if ((unsigned char)*in->at < 0x20 || length == 0)
                return -EBADMSG;
            in->at += length;
        }
    }
    if (!whole)
        buf_put(&in->text, start, (size_t)(in->at - start));
    *ret_text = whole ? start : in->text.data;
    *ret_size = whole ? (size_t)(in->at - start) : in->text.size;
    in->at++;
    return whole ? 0 : in->text.error;
}

static size_t digits(struct quick *in)
{
    const char *start = in->at;

    while (in->at < in->end && *in->at >= '0' && *in->at <= '9')
        in->at++;
    return (size_t)(in->at - start);
}

static int quick_real(struct quick *in, const char *start, json_t **ret)
{
    char text[QUICK_NUMBER_MAX + 1];
    size_t size;
    double value;

    if (in->at < in->end && *in->at == '.') {
        in->at++;
        if (digits(in) == 0)
            return -EBADMSG;
    }
    if (in->at < in->end && (*in->at == 'e' || *in->at == 'E')) {
        in->at++;
        if (in->at < in->end && (*in->at == '+' || *in->at == '-'))
            in->at++;
        if (digits(in) == 0)
            return -EBADMSG;
    }
    size = (size_t)(in->at - start);
    if (size > QUICK_NUMBER_MAX)
        return -EBADMSG;
    memcpy(text, start, size);
    text[size] = '\0';
    value = strtod(text, NULL);
    if (!isfinite(value) || (value == 0 && strpbrk(text, "eE"))) /* too large, perhaps too small: jansson's to say */
        return -EBADMSG;
    *ret = json_real(value);
    return *ret ? 0 : -ENOMEM;
}

static int quick_number(struct quick *in, json_t **ret)
{
    const char *start = in->at, *first;
    bool minus = *in->at == '-';
    int64_t value = 0;
    size_t count;

    in->at += minus;
    first = in->at;
    count = digits(in);
    if (count == 0 || (count > 1 && *first == '0'))
        return -EBADMSG;
    if (in->at < in->end && (*in->at == '.' || *in->at == 'e' || *in->at == 'E'))
        return quick_real(in, start, ret);
    if (count > 18)
        return -EBADMSG;
    for (; first < in->at; first++)
        value = value * 10 + (*first - '0');
    *ret = json_integer(minus ? -value : value);
    return *ret ? 0 : -ENOMEM;
}

static int quick_word(struct quick *in, const char *word, json_t *value, json_t **ret)
{
    size_t size = strlen(word);

    if ((size_t)(in->end - in->at) < size || memcmp(in->at, word, size) != 0)
        return -EBADMSG;
    in->at += size;
    *ret = value;
    return 0;
}

/* One key and its value; a key that is there already leaves the size as it is. */
static int quick_pair(struct quick *in, json_t *object)
{
    size_t before = json_object_size(object), size;
    json_t *value = NULL;
    char key[128];
    const char *text;
    int r;

    if (!take(in, '"'))
        return -EBADMSG;
    r = quick_string(in, &text, &size);
    if (r == 0 && size > sizeof(key))
        r = -EBADMSG;
    if (r < 0)
        return r;
    memcpy(key, text, size); /* the value may need `text` */
    if (!take(in, ':'))
        return -EBADMSG;
    r = quick_value(in, &value);
    if (r == 0 && json_object_setn_new_nocheck(object, key, size, value) < 0)
        r = -ENOMEM;
    return r == 0 && json_object_size(object) == before ? -EBADMSG : r;
}

static int quick_object(struct quick *in, json_t *object)
{
    if (take(in, '}'))
        return 0;
    do {
        int r = quick_pair(in, object);

        if (r < 0)
            return r;
    } while (take(in, ','));
    return take(in, '}') ? 0 : -EBADMSG;
}

static int quick_array(struct quick *in, json_t *array)
{
    if (take(in, ']'))
        return 0;
    do {
        json_t *value = NULL;
        int r = quick_value(in, &value);

        if (r == 0 && json_array_append_new(array, value) < 0)
            r = -ENOMEM;
        if (r < 0)
            return r;
    } while (take(in, ','));
    return take(in, ']') ? 0 : -EBADMSG;
}

static int quick_container(struct quick *in, bool object, json_t **ret)
{
    json_t *made = object ? json_object() : json_array();
    int r = made ? 0 : -ENOMEM;

    in->at++;
    if (in->depth == QUICK_DEPTH_MAX)
        r = -EBADMSG;
    in->depth++;
    if (r == 0)
        r = object ? quick_object(in, made) : quick_array(in, made);
    in->depth--;
    if (r < 0)
        json_decref(made);
    else
        *ret = made;
    return r;
}

static int quick_value(struct quick *in, json_t **ret)
{
    const char *text;
    size_t size;
    int r;

    skip_blanks(in);
    if (in->at == in->end)
        return -EBADMSG;
    switch (*in->at) {
    case '{':
    case '[':
        return quick_container(in, *in->at == '{', ret);
    case '"':
        in->at++;
        r = quick_string(in, &text, &size);
        if (r < 0)
            return r;
        *ret = json_stringn_nocheck(text ? text : "", size);
        return *ret ? 0 : -ENOMEM;
    case 't':
        return quick_word(in, "true", json_true(), ret);
    case 'f':
        return quick_word(in, "false", json_false(), ret);
    case 'n':
        return quick_word(in, "null", json_null(), ret);
    default:
        return quick_number(in, ret);
    }
}

int json_quick_read(const char *data, size_t size, json_t **ret_json)
{
    struct quick in = { .at = data, .end = data + size, .text = BUF_INIT(QUICK_TEXT_MAX) };
    json_t *json = NULL;
    int r = quick_value(&in, &json);

    skip_blanks(&in);
    if (r == 0 && in.at != in.end)
        r = -EBADMSG;
    buf_done(&in.text);
    if (r == 0)
        *ret_json = json;
    else
        json_decref(json);
    return r;
}

static void put_real(struct buf *out, double value)
{
    size_t start = out->size;

    json_put_double(out, value);
    if (!out->error && !strpbrk(out->data + start, ".en"))
        buf_text(out, ".0");
}

static void put_object(struct buf *out, const json_t *json)
{
    json_t *object = (json_t *)(uintptr_t)json; /* walking it takes no const */
    bool first = true;

    buf_char(out, '{');
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
        json_put_key(out, json_object_iter_key(at), json_object_iter_key_len(at), first);
        first = false;
        json_put(out, json_object_iter_value(at));
    }
    buf_char(out, '}');
}

void json_put(struct buf *out, const json_t *json)
{
    if (!json)
        return;
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        put_object(out, json);
        break;
    case JSON_ARRAY:
        buf_char(out, '[');
        for (size_t i = 0; i < json_array_size(json); i++) {
            if (i)
                buf_char(out, ',');
            json_put(out, json_array_get(json, i));
        }
        buf_char(out, ']');
        break;
    case JSON_STRING:
        json_put_string(out, json_string_value(json), json_string_length(json));
        break;
    case JSON_INTEGER:
        json_put_i64(out, json_integer_value(json));
        break;
    case JSON_REAL:
        put_real(out, json_real_value(json));
        break;
    case JSON_TRUE:
        buf_put(out, "true", 4);
        break;
    case JSON_FALSE:
        buf_put(out, "false", 5);
        break;
    case JSON_NULL:
        buf_put(out, "null", 4);
        break;
    }
}

char *json_text(const json_t *json, size_t *ret_size)
{
    struct buf out = BUF_INIT(QUICK_TEXT_MAX);
    struct bytes text = { 0 };

    json_put(&out, json);
    if (!json || buf_take(&out, &text, NULL) < 0) {
        buf_done(&out);
        return NULL;
    }
    if (ret_size)
        *ret_size = text.size;
    return text.data;
}
