/* SPDX-License-Identifier: Apache-2.0 */
/* submission_array.c - arrays: indices "0-99%8", or the values of parameters, of which every combination is an element.
 * The first parameter changes slowest. Written canonically as rows, one an element. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/job/submission_internal.h"
#include "wire/text/decimal.h"
#include "wire/text/json_write.h"
#include "wire/text/suggest.h"

enum { KEYS_MAX = 16, INDEX_MAX = 1 << 30 };

static int index_compare(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return (x > y) - (x < y);
}

static bool number_at(const char **at, int64_t max, int64_t *ret)
{
    size_t length = strspn(*at, "0123456789");

    if (length == 0 || length > 10 || decimal_parse_i64(*at, length, ret) < 0 || *ret > max)
        return false;
    *at += length;
    return true;
}

/* One of "7", "0-99", "0-99:4", appended. 0, -EINVAL, -E2BIG, -ENOMEM. */
static int range_add(const char **at, int32_t **indices, size_t *count, size_t *capacity)
{
    int64_t from, to, step = 1;

    if (!number_at(at, INDEX_MAX, &from))
        return -EINVAL;
    to = from;
    if (**at == '-' && (++*at, !number_at(at, INDEX_MAX, &to)))
        return -EINVAL;
    if (**at == ':' && (++*at, !number_at(at, INDEX_MAX, &step)))
        return -EINVAL;
    if (to < from || step < 1)
        return -EINVAL;
    for (; from <= to; from += step) {
        int r = mem_grow((void **)indices, capacity, *count + 1, SUBMISSION_ARRAY_MAX, sizeof(**indices));

        if (r < 0)
            return r;
        (*indices)[(*count)++] = (int32_t)from;
    }
    return 0;
}

/* "0-99:2,7%8". The list is sorted; an index that comes twice is refused. */
static int indices_parse(const char *text, int32_t **ret_indices, size_t *ret_count, int64_t *ret_parallel)
{
    int32_t *indices = NULL;
    size_t count = 0, capacity = 0;
    const char *at = text;
    int r;

    do
        r = range_add(&at, &indices, &count, &capacity);
    while (r == 0 && *at == ',' && *++at);
    if (r == 0 && *at == '%' && (++at, !number_at(&at, SUBMISSION_ARRAY_MAX, ret_parallel)))
        r = -EINVAL;
    if (r == 0 && *at)
        r = -EINVAL;
    if (r == 0)
        qsort(indices, count, sizeof(*indices), index_compare);
    for (size_t i = 1; r == 0 && i < count; i++)
        if (indices[i] == indices[i - 1])
            r = -EEXIST;
    if (r < 0) {
        mem_free(indices);
        return r;
    }
    *ret_indices = indices;
    *ret_count = count;
    return 0;
}

int submission_set_array(struct submission *s, const char *text, struct error *err)
{
    int64_t parallel = 0;
    int32_t *indices = NULL;
    size_t count = 0;
    char shown[SHOWN_MAX];
    int r = indices_parse(text, &indices, &count, &parallel);

    if (r == -ENOMEM)
        return error_set(err, r, "out of memory");
    if (r == -E2BIG)
        return error_set(err, -EINVAL, "an array has at most %d elements", SUBMISSION_ARRAY_MAX);
    if (r == -EEXIST)
        return error_set(err, -EINVAL, "an index comes twice in '%s'", suggest_shown(text, strlen(text), shown));
    if (r < 0)
        return error_set(err, -EINVAL, "expected indices such as 0-99, 0-99%%8 or 1,3,5-9:2, got '%s'",
                         suggest_shown(text, strlen(text), shown));
    mem_free(s->array);
    s->array = indices;
    s->array_count = count;
    s->array_parallel = (uint32_t)parallel;
    return 0;
}

int read_gang(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    (void)key;
    if (!json_is_boolean(value))
        return reader_fail(rd, "expected true or false");
    rd->s->one_by_one = json_is_false(value);
    return 0;
}

void write_gang(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    (void)out;
    (void)key;
    (void)s; /* it is an array by then */
}

int gang_split(struct submission_reader *rd)
{
    struct submission *s = rd->s;
    struct error words = { 0 };
    char text[32];

    if (!s->one_by_one)
        return 0;
    s->one_by_one = false;
    if (s->array || s->role_count)
        return reader_fail(rd, "gang: false is for a job of like tasks: it goes with neither array nor roles");
    if (s->nodes != s->nodes_max && s->nodes_max)
        return reader_fail(rd, "gang: false needs the number of tasks: nodes: N");
    if (s->nodes <= 1)
        return 0;
    if (!s->gpus_per_node && s->gpus)
        return reader_fail(rd, "gang: false needs per_node.gpu: what each task has");
    (void)snprintf(text, sizeof(text), "0-%d", s->nodes - 1);
    if (submission_set_array(s, text, &words) < 0)
        return reader_fail(rd, "gang: false: %s", words.text);
    s->nodes = s->nodes_max = 1;
    return 0;
}

struct axis {
    char **values;
    size_t count;
};

static void axes_done(struct axis *axes)
{
    for (size_t k = 0; k < KEYS_MAX; k++) {
        for (size_t i = 0; i < axes[k].count; i++)
            mem_free(axes[k].values[i]);
        mem_free(axes[k].values);
    }
}

/* "0-3" in place of a list stands for the numbers. */
static int axis_numbers(struct submission_reader *rd, const char *text, struct axis *axis)
{
    int32_t *indices = NULL;
    size_t count = 0;
    int64_t parallel = 0;
    int r = indices_parse(text, &indices, &count, &parallel);

    if (r == -ENOMEM)
        return reader_memory(rd);
    if (r < 0)
        return reader_fail(rd, "expected a list of values, or numbers such as 0-3");
    axis->values = mem_zalloc(count, sizeof(*axis->values));
    for (size_t i = 0; axis->values && i < count; i++) {
        char number[16];

        (void)snprintf(number, sizeof(number), "%d", indices[i]);
        axis->values[i] = mem_strdup(number);
        if (!axis->values[i])
            break;
        axis->count++;
    }
    mem_free(indices);
    return axis->values && axis->count == count ? 0 : reader_memory(rd);
}

static bool is_parameter(const char *name)
{
    for (const char *c = name; *c; c++)
        if (!isalpha((unsigned char)*c) && *c != '_' && (c == name || !isdigit((unsigned char)*c)))
            return false;
    return *name != '\0';
}

static int key_add(struct submission_reader *rd, const char *name)
{
    struct submission *s = rd->s;
    void *grown;

    if (!is_parameter(name))
        return reader_fail(rd, "a parameter is named with letters, digits and _");
    if (s->array_key_count == KEYS_MAX)
        return reader_fail(rd, "more than %d parameters", KEYS_MAX);
    for (size_t i = 0; i < s->array_key_count; i++)
        if (strcmp(s->array_keys[i], name) == 0)
            return reader_fail(rd, "parameter '%s' comes twice", name);
    grown = mem_resize(s->array_keys, s->array_key_count + 1, sizeof(*s->array_keys));
    if (!grown)
        return reader_memory(rd);
    s->array_keys = grown;
    s->array_keys[s->array_key_count] = mem_strdup(name);
    if (!s->array_keys[s->array_key_count])
        return reader_memory(rd);
    s->array_key_count++;
    return 0;
}

/* Room for `rows` elements, numbered from 0, with all their values. */
static int rows_make(struct submission_reader *rd, size_t rows)
{
    struct submission *s = rd->s;

    if (rows == 0 || rows > SUBMISSION_ARRAY_MAX)
        return reader_fail(rd, "expected 1 to %d combinations, got %zu", SUBMISSION_ARRAY_MAX, rows);
    s->array = mem_zalloc(rows, sizeof(*s->array));
    s->array_values = mem_zalloc(rows * s->array_key_count, sizeof(*s->array_values));
    if (!s->array || !s->array_values)
        return reader_memory(rd);
    s->array_count = rows;
    for (size_t i = 0; i < rows; i++)
        s->array[i] = (int32_t)i;
    return 0;
}

static int axes_cross(struct submission_reader *rd, const struct axis *axes)
{
    struct submission *s = rd->s;
    size_t rows = 1;
    int r;

    for (size_t k = 0; k < s->array_key_count; k++) {
        rows *= axes[k].count;
        if (rows > SUBMISSION_ARRAY_MAX)
            return reader_fail(rd, "more than %d combinations", SUBMISSION_ARRAY_MAX);
    }
    r = rows_make(rd, rows);
    for (size_t i = 0; r == 0 && i < rows; i++) {
        size_t rest = i;

        for (size_t k = s->array_key_count; k-- > 0;) {
            char *copy = mem_strdup(axes[k].values[rest % axes[k].count]);

            rest /= axes[k].count;
            if (!copy)
                return reader_memory(rd);
            s->array_values[i * s->array_key_count + k] = copy;
        }
    }
    return r;
}

static int read_values(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    struct axis axes[KEYS_MAX] = { 0 };
    const char *name;
    json_t *part;
    int r = 0;

    (void)key;
    if (!json_is_object(value) || json_object_size(value) == 0)
        return reader_fail(rd, "expected a mapping of parameters to their values");
    if (rd->s->array_key_count)
        return reader_fail(rd, "give either values or keys and rows");
    json_object_foreach(value, name, part)
    {
        struct axis *axis = &axes[rd->s->array_key_count];
        size_t mark;

        reader_enter(rd, name, &mark);
        r = key_add(rd, name);
        if (r == 0)
            r = json_is_string(part) ? axis_numbers(rd, json_string_value(part), axis)
                                     : reader_list(rd, part, SUBMISSION_ARRAY_MAX, &axis->values, &axis->count);
        if (r == 0 && axis->count == 0)
            r = reader_fail(rd, "has no values");
        if (r < 0)
            break;
        reader_leave(rd, mark);
    }
    if (r == 0)
        r = axes_cross(rd, axes);
    axes_done(axes);
    return r;
}

static int read_keys(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    json_t *part;
    size_t i;
    int r = 0;

    (void)key;
    if (!json_is_array(value) || json_array_size(value) == 0)
        return reader_fail(rd, "expected a list of parameters");
    if (rd->s->array_key_count)
        return reader_fail(rd, "give either values or keys and rows");
    json_array_foreach(value, i, part)
    {
        if (!json_is_string(part))
            return reader_fail(rd, "expected a list of parameters");
        r = key_add(rd, json_string_value(part));
        if (r < 0)
            break;
    }
    return r;
}

static int read_rows(struct submission_reader *rd, json_t *value)
{
    struct submission *s = rd->s;
    json_t *row;
    size_t i;
    int r;

    if (!json_is_array(value))
        return reader_fail(rd, "expected a list of lists");
    r = rows_make(rd, json_array_size(value));
    if (r < 0)
        return r;
    json_array_foreach(value, i, row)
    {
        if (json_array_size(row) != s->array_key_count)
            return reader_fail(rd, "row %zu: expected a list of %zu values", i, s->array_key_count);
        for (size_t k = 0; k < s->array_key_count; k++) {
            const char *text;
            char number[64], *copy;

            r = reader_text(rd, json_array_get(row, k), SUBMISSION_TEXT_MAX, number, &text);
            if (r < 0)
                return r;
            copy = mem_strdup(text);
            if (!copy)
                return reader_memory(rd);
            s->array_values[i * s->array_key_count + k] = copy;
        }
    }
    return 0;
}

static int indices_take(struct submission_reader *rd, json_t *value)
{
    const char *text;
    char number[64];
    int64_t parallel = rd->s->array_parallel;
    int r = reader_text(rd, value, SUBMISSION_BYTES_MAX, number, &text);

    if (r < 0)
        return r;
    r = submission_set_array(rd->s, text, rd->err);
    rd->failed = r < 0;
    if (r == 0 && rd->s->array_parallel == 0)
        rd->s->array_parallel = (uint32_t)parallel;
    return r;
}

static int read_indices(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    (void)key;
    if (rd->s->array)
        return reader_fail(rd, "give either indices or values");
    return indices_take(rd, value);
}

static int read_later(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    (void)rd, (void)key, (void)value; /* rows need keys, which may come after them: read_array() reads them last */
    return 0;
}

static const struct submission_key array_keys[] = {
    { .name = "indices", .read = read_indices },
    { .name = "keys", .read = read_keys },
    { .name = "parallel",
      .read = read_i32,
      .offset = offsetof(struct submission, array_parallel),
      .max = SUBMISSION_ARRAY_MAX },
    { .name = "rows", .read = read_later },
    { .name = "values", .read = read_values },
};

int read_array(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    json_t *rows = json_object_get(value, "rows");
    size_t mark;
    int r;

    (void)key;
    if (!json_is_object(value))
        return indices_take(rd, value);
    r = reader_object(rd, array_keys, sizeof(array_keys) / sizeof(array_keys[0]), value);
    if (r < 0)
        return r;
    if (rows) {
        reader_enter(rd, "rows", &mark);
        if (rd->s->array || rd->s->array_key_count == 0)
            return reader_fail(rd, "rows go with keys, and with nothing else");
        r = read_rows(rd, rows);
        if (r < 0)
            return r;
        reader_leave(rd, mark);
    }
    if (!rd->s->array || (rd->s->array_key_count && !rd->s->array_values))
        return reader_fail(rd, "expected indices, values, or keys and rows");
    return 0;
}

static void indices_write(struct json_write *out, const char *key, const struct submission *s)
{
    struct buf text = BUF_INIT(SUBMISSION_BYTES_MAX);

    for (size_t i = 0; i < s->array_count;) {
        size_t end = i + 1;

        while (end < s->array_count && s->array[end] == s->array[end - 1] + 1)
            end++;
        buf_printf(&text, "%s%d", i ? "," : "", s->array[i]);
        if (end - i > 1)
            buf_printf(&text, "-%d", s->array[end - 1]);
        i = end;
    }
    json_write_text(out, key, text.data ? text.data : "");
    if (text.error)
        out->out->error = text.error;
    buf_done(&text);
}

void write_array(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    if (!s->array)
        return;
    json_write_object(out, key->name);
    if (!s->array_key_count)
        indices_write(out, "indices", s);
    if (s->array_key_count) {
        json_write_array(out, "keys");
        for (size_t k = 0; k < s->array_key_count; k++)
            json_write_text(out, NULL, s->array_keys[k]);
        json_write_close(out);
    }
    if (s->array_parallel)
        json_write_i64(out, "parallel", s->array_parallel);
    if (s->array_key_count) {
        json_write_array(out, "rows");
        for (size_t i = 0; i < s->array_count; i++) {
            json_write_array(out, NULL);
            for (size_t k = 0; k < s->array_key_count; k++)
                json_write_text(out, NULL, s->array_values[i * s->array_key_count + k]);
            json_write_close(out);
        }
        json_write_close(out);
    }
    json_write_close(out);
}
