/* SPDX-License-Identifier: Apache-2.0 */
/* csv_field.c - see csv.h. Fields as values, and what is said when they are not. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/text/csv.h"
#include "wire/text/decimal.h"
#include "wire/text/suggest.h"

const struct csv_field *csv_get(const struct csv *csv, int index)
{
    const struct csv_field *field;

    if (index < 0 || (size_t)index >= csv->count)
        return NULL;
    field = &csv->fields[index];
    return field->length ? field : NULL;
}

/* "FILE:LINE:COLUMN: NAME: " in front of the text. */
static int place_prefix(const struct csv *csv, int index, int code, struct error *err)
{
    char name[SHOWN_MAX] = "";
    const struct csv_field *field;

    if (index < 0 || (size_t)index >= csv->count)
        return error_prefix(err, code, "%s:%u:1", csv->file, csv->record);
    field = &csv->fields[index];
    if ((size_t)index < csv->header_count)
        (void)suggest_shown(csv->header[index].text, csv->header[index].length, name);
    if (*name)
        (void)error_prefix(err, code, "%s", name);
    return error_prefix(err, code, "%s:%u:%u", csv->file, field->line, field->column);
}

static const char *field_shown(const struct csv *csv, int index, char shown[SHOWN_MAX])
{
    if (index < 0 || (size_t)index >= csv->count)
        return suggest_shown("", 0, shown);
    return suggest_shown(csv->fields[index].text, csv->fields[index].length, shown);
}

int csv_expected(const struct csv *csv, int index, struct error *err, const char *what, ...)
{
    char words[256], shown[SHOWN_MAX];
    va_list args;

    va_start(args, what);
    (void)vsnprintf(words, sizeof(words), what, args);
    va_end(args);
    (void)error_set(err, -EINVAL, "expected %s, got '%s'", words, field_shown(csv, index, shown));
    return place_prefix(csv, index, -EINVAL, err);
}

int csv_fail(const struct csv *csv, int index, int code, struct error *err, const char *words, ...)
{
    char text[256];
    va_list args;

    va_start(args, words);
    (void)vsnprintf(text, sizeof(text), words, args);
    va_end(args);
    (void)error_set(err, code, "%s", text);
    return place_prefix(csv, index, code, err);
}

int csv_i64(const struct csv *csv, int index, int64_t min, int64_t max, int64_t *ret_value, struct error *err)
{
    const struct csv_field *field = csv_get(csv, index);
    int64_t value;

    if (!field || decimal_parse_i64(field->text, field->length, &value) < 0 || value < min || value > max) {
        if (max == INT64_MAX && min == INT64_MIN)
            return csv_expected(csv, index, err, "a whole number");
        if (max == INT64_MAX)
            return csv_expected(csv, index, err, "a whole number of at least %lld", (long long)min);
        return csv_expected(csv, index, err, "a whole number from %lld to %lld", (long long)min, (long long)max);
    }
    *ret_value = value;
    return 0;
}

int csv_scaled(const struct csv *csv, int index, int64_t scale, int64_t max, int64_t *ret_value, struct error *err)
{
    const struct csv_field *field = csv_get(csv, index);
    int64_t value;

    if (!field || decimal_parse(field->text, field->length, scale, &value) < 0 || value < 0 || value > max)
        return csv_expected(csv, index, err, "a number from 0 to %lld", (long long)(max / scale));
    *ret_value = value;
    return 0;
}

static const char *unit_name(usec_t unit)
{
    if (unit == USEC_SEC)
        return "seconds";
    if (unit == USEC_MIN)
        return "minutes";
    if (unit == USEC_MSEC)
        return "milliseconds";
    return "time units";
}

int csv_usec(const struct csv *csv, int index, usec_t unit, usec_t *ret_value, struct error *err)
{
    const struct csv_field *field = csv_get(csv, index);
    int64_t value;
    int r = field ? decimal_parse(field->text, field->length, unit, &value) : -EINVAL;

    if (r == -ERANGE || (r == 0 && value > CSV_SPAN_MAX))
        return csv_expected(csv, index, err, "at most %lld %s", (long long)(CSV_SPAN_MAX / unit), unit_name(unit));
    if (r < 0 || value < 0)
        return csv_expected(csv, index, err, "%s, not negative", unit_name(unit));
    *ret_value = value;
    return 0;
}

int csv_name(const struct csv *csv, int index, struct names *names, uint32_t *ret_name, struct error *err)
{
    const struct csv_field *field = csv_get(csv, index);
    int r;

    *ret_name = NAME_NONE;
    if (!field)
        return 0;
    r = names_put(names, field->text, field->length, ret_name);
    if (r == -ENAMETOOLONG)
        return csv_expected(csv, index, err, "a name of at most %zu bytes, none of them zero", NAME_LENGTH_MAX);
    if (r == -E2BIG)
        return csv_fail(csv, index, r, err, "more than %zu different names", NAMES_MAX);
    if (r < 0)
        return csv_fail(csv, index, r, err, "out of memory");
    return 0;
}

int csv_word(const struct csv *csv, int index, const char *const *words, size_t count, uint8_t *ret_value,
             struct error *err)
{
    const struct csv_field *field = csv_get(csv, index);
    char list[200] = "";
    size_t at = 0;

    for (size_t i = 0; field && i < count; i++) {
        if (strlen(words[i]) == field->length && memcmp(words[i], field->text, field->length) == 0) {
            *ret_value = (uint8_t)i;
            return 0;
        }
    }
    for (size_t i = 0; i < count && at < sizeof(list); i++)
        at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%s",
                               i == 0           ? ""
                               : i + 1 == count ? " or "
                                                : ", ",
                               words[i]);
    return csv_expected(csv, index, err, "%s", list);
}

int csv_double(const struct csv *csv, int index, double *ret_value, struct error *err)
{
    const struct csv_field *field = csv_get(csv, index);
    char text[64], *end;
    double value;

    if (!field || field->length >= sizeof(text))
        return csv_expected(csv, index, err, "a number");
    memcpy(text, field->text, field->length);
    text[field->length] = '\0';
    value = strtod(text, &end);
    if (*end || end == text || !isfinite(value) || strpbrk(text, "xX \t\n\v\f\r"))
        return csv_expected(csv, index, err, "a number");
    *ret_value = value;
    return 0;
}
