/* SPDX-License-Identifier: Apache-2.0 */
/* submission_read.c - values of a submission, one kind a function. Numbers may be written as text and the other way
 * round: a YAML file has no other way to tell 8 from "8", and nobody should have to know. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "wire/job/submission_internal.h"
#include "wire/text/decimal.h"
#include "wire/text/duration.h"
#include "wire/text/json_write.h"
#include "wire/text/suggest.h"

#define FIELD(type, rd, key) ((type *)(void *)((char *)(rd)->s + (key)->offset))
#define FIELD_OF(type, s, key) ((type const *)(const void *)((const char *)(s) + (key)->offset))

int reader_fail(struct submission_reader *rd, const char *words, ...)
{
    char text[320];
    va_list args;

    va_start(args, words);
    (void)vsnprintf(text, sizeof(text), words, args);
    va_end(args);
    rd->failed = true;
    return error_set(rd->err, -EINVAL, "%s", text);
}

int reader_memory(struct submission_reader *rd)
{
    return error_set(rd->err, -ENOMEM, "out of memory");
}

void reader_enter(struct submission_reader *rd, const char *part, size_t *ret_mark)
{
    size_t length = strlen(part);

    *ret_mark = rd->path_length;
    if (rd->path_length + length + 2 > sizeof(rd->path)) /* a message may lose the end of a path, never more */
        length = sizeof(rd->path) - rd->path_length - 2 > sizeof(rd->path) ? 0 : sizeof(rd->path) - rd->path_length - 2;
    memcpy(rd->path + rd->path_length, part, length);
    rd->path_length += length;
    if (rd->path_length + 2 <= sizeof(rd->path))
        rd->path[rd->path_length++] = '\x1f';
    rd->path[rd->path_length] = '\0';
}

void reader_leave(struct submission_reader *rd, size_t mark)
{
    if (rd->failed)
        return; /* the path is where it went wrong */
    rd->path_length = mark;
    rd->path[mark] = '\0';
}

static int key_unknown(struct submission_reader *rd, const struct submission_key *keys, size_t count, const char *name)
{
    const char *known[64], *near;
    char shown[SHOWN_MAX];

    for (size_t i = 0; i < count && i < 64; i++)
        known[i] = keys[i].name;
    near = suggest_word(name, strlen(name), known, count < 64 ? count : 64);
    rd->at_key = true;
    return reader_fail(rd, "unknown key '%s'%s%s%s", suggest_shown(name, strlen(name), shown),
                       near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

int reader_object(struct submission_reader *rd, const struct submission_key *keys, size_t count, json_t *value)
{
    const char *name;
    json_t *part;

    if (!json_is_object(value))
        return reader_fail(rd, "expected a mapping");
    json_object_foreach(value, name, part)
    {
        size_t i = 0, mark;
        int r;

        while (i < count && strcmp(keys[i].name, name) != 0)
            i++;
        reader_enter(rd, name, &mark);
        if (i == count)
            return key_unknown(rd, keys, count, name);
        r = json_is_null(part) ? 0 : keys[i].read(rd, &keys[i], part);
        if (r < 0)
            return r;
        reader_leave(rd, mark);
    }
    return 0;
}

int reader_text(struct submission_reader *rd, json_t *value, size_t max, char number[64], const char **ret_text)
{
    if (json_is_string(value)) {
        if (json_string_length(value) > max)
            return reader_fail(rd, "longer than %zu bytes", max);
        *ret_text = json_string_value(value);
        return 0;
    }
    if (json_is_integer(value)) {
        (void)snprintf(number, 64, "%lld", (long long)json_integer_value(value));
    } else if (json_is_real(value)) {
        struct buf out = BUF_INIT(63);

        json_put_double(&out, json_real_value(value));
        (void)snprintf(number, 64, "%s", out.data ? out.data : "");
        buf_done(&out);
    } else if (json_is_boolean(value)) {
        (void)snprintf(number, 64, "%s", json_is_true(value) ? "true" : "false");
    } else {
        return reader_fail(rd, "expected a text or a number");
    }
    *ret_text = number;
    return 0;
}

int reader_i64(struct submission_reader *rd, json_t *value, int64_t min, int64_t max, int64_t *ret_value)
{
    const char *text;
    char number[64], shown[SHOWN_MAX];
    int r = reader_text(rd, value, 64, number, &text);

    if (r < 0)
        return r;
    if (decimal_parse_i64(text, strlen(text), ret_value) < 0 || *ret_value < min || *ret_value > max)
        return reader_fail(rd, "expected a whole number from %lld to %lld, got '%s'", (long long)min, (long long)max,
                           suggest_shown(text, strlen(text), shown));
    return 0;
}

static int list_add(struct submission_reader *rd, json_t *value, char ***list, size_t *count)
{
    const char *text;
    char number[64], *copy;
    void *grown;
    int r = reader_text(rd, value, SUBMISSION_BYTES_MAX, number, &text);

    if (r < 0)
        return r;
    grown = mem_resize(*list, *count + 1, sizeof(**list));
    if (!grown)
        return reader_memory(rd);
    *list = grown;
    copy = mem_strdup(text);
    if (!copy)
        return reader_memory(rd);
    (*list)[(*count)++] = copy;
    return 0;
}

int reader_list(struct submission_reader *rd, json_t *value, size_t max, char ***list, size_t *count)
{
    json_t *part;
    size_t i;

    if (!json_is_array(value))
        return list_add(rd, value, list, count);
    if (json_array_size(value) > max)
        return reader_fail(rd, "more than %zu of them", max);
    json_array_foreach(value, i, part)
    {
        char name[24];
        size_t mark;
        int r;

        (void)snprintf(name, sizeof(name), "%zu", i);
        reader_enter(rd, name, &mark);
        r = list_add(rd, part, list, count);
        if (r < 0)
            return r;
        reader_leave(rd, mark);
    }
    return 0;
}

int read_text(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    const char *text = "";
    char number[64], *copy;
    int r = reader_text(rd, value, key->max ? (size_t)key->max : SUBMISSION_TEXT_MAX, number, &text);

    if (r < 0)
        return r;
    if (!*text)
        return reader_fail(rd, "is empty");
    for (const char *c = text; key->min == 0 && *c; c++) /* min 1: any characters */
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return reader_fail(rd, "control characters are not allowed here");
    copy = mem_strdup(text);
    if (!copy)
        return reader_memory(rd);
    mem_free(*FIELD(char *, rd, key));
    *FIELD(char *, rd, key) = copy;
    return 0;
}

int read_i32(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    int64_t number = 0;
    int r = reader_i64(rd, value, key->min, key->max, &number);

    if (r == 0)
        *FIELD(int32_t, rd, key) = (int32_t)number;
    return r;
}

int read_bool(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    static const char *const yes[] = { "true", "yes", "on" }, *const no[] = { "false", "no", "off" };
    const char *text = json_string_value(value);

    if (json_is_boolean(value)) {
        *FIELD(bool, rd, key) = json_is_true(value);
        return 0;
    }
    for (int i = 0; text && i < 3; i++) {
        if (strcasecmp(text, yes[i]) == 0 || strcasecmp(text, no[i]) == 0) {
            *FIELD(bool, rd, key) = strcasecmp(text, yes[i]) == 0;
            return 0;
        }
    }
    return reader_fail(rd, "expected true or false");
}

static int read_time(struct submission_reader *rd, json_t *value, usec_t *field,
                     int (*parse)(const char *text, size_t size, usec_t *ret), const char *wanted)
{
    const char *text;
    char number[64], shown[SHOWN_MAX];
    int r = reader_text(rd, value, 64, number, &text);

    if (r < 0)
        return r;
    if (parse(text, strlen(text), field) < 0)
        return reader_fail(rd, "expected %s, got '%s'", wanted, suggest_shown(text, strlen(text), shown));
    return 0;
}

int read_span(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    return read_time(rd, value, FIELD(usec_t, rd, key), duration_parse, "a time such as 24h, 2h30m, 90s or 1-12:00:00");
}

int read_instant(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    return read_time(rd, value, FIELD(usec_t, rd, key), instant_parse, "an instant such as 2026-01-31T18:00:00Z");
}

int read_size(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    const char *text;
    char number[64], shown[SHOWN_MAX];
    int r = reader_text(rd, value, 64, number, &text);

    if (r < 0)
        return r;
    if (size_parse_bytes(text, strlen(text), FIELD(uint64_t, rd, key)) < 0)
        return reader_fail(rd, "expected a size such as 900G or 512M, got '%s'",
                           suggest_shown(text, strlen(text), shown));
    return 0;
}

int read_word(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    const char *text, *near;
    char number[64], shown[SHOWN_MAX], all[200] = "";
    size_t count = 0;
    int r = reader_text(rd, value, 64, number, &text);

    if (r < 0)
        return r;
    for (; key->words[count]; count++) {
        if (strcasecmp(key->words[count], text) == 0) {
            *FIELD(int, rd, key) = (int)count;
            return 0;
        }
        (void)snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", count ? ", " : "", key->words[count]);
    }
    near = suggest_word(text, strlen(text), key->words, count);
    return reader_fail(rd, "expected one of %s, got '%s'%s%s%s", all, suggest_shown(text, strlen(text), shown),
                       near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

int read_signal(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    const char *text;
    char number[64], shown[SHOWN_MAX];
    int r = reader_text(rd, value, 64, number, &text);

    if (r < 0)
        return r;
    if (signal_parse(text, strlen(text), FIELD(int, rd, key)) < 0)
        return reader_fail(rd, "expected a signal such as TERM or USR1, got '%s'",
                           suggest_shown(text, strlen(text), shown));
    return 0;
}

int read_refused(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    (void)value;
    return reader_fail(rd, "%s", key->words[0]);
}

/* Writers: a field with its default is left out. */
void write_text(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    const char *text = *FIELD_OF(char *, s, key);

    if (text)
        json_write_text(out, key->name, text);
}

void write_i32(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    int32_t value = *FIELD_OF(int32_t, s, key);

    if (value != *FIELD_OF(int32_t, submission_defaults(), key))
        json_write_i64(out, key->name, value);
}

void write_bool(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    bool value = *FIELD_OF(bool, s, key);

    if (value != *FIELD_OF(bool, submission_defaults(), key))
        json_write_bool(out, key->name, value);
}

static void put_with(struct json_write *out, const char *key, void (*put)(struct buf *, int64_t), int64_t value)
{
    struct buf text = BUF_INIT(64);

    put(&text, value);
    json_write_text(out, key, text.data ? text.data : "");
    if (text.error)
        out->out->error = text.error;
    buf_done(&text);
}

void write_span(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    usec_t value = *FIELD_OF(usec_t, s, key);

    if (value != *FIELD_OF(usec_t, submission_defaults(), key))
        put_with(out, key->name, duration_put, value);
}

void write_instant(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    usec_t value = *FIELD_OF(usec_t, s, key);

    if (value)
        put_with(out, key->name, instant_put, value);
}

static void size_put(struct buf *out, int64_t bytes)
{
    size_put_bytes(out, (uint64_t)bytes);
}

void write_size(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    uint64_t value = *FIELD_OF(uint64_t, s, key);

    if (value)
        put_with(out, key->name, size_put, (int64_t)value);
}

void write_word(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    int value = *FIELD_OF(int, s, key);

    if (value != *FIELD_OF(int, submission_defaults(), key))
        json_write_text(out, key->name, key->words[value]);
}

void write_signal(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    int value = *FIELD_OF(int, s, key);

    if (value == 0)
        return;
    if (signal_text(value))
        json_write_text(out, key->name, signal_text(value));
    else
        json_write_i64(out, key->name, value);
}
