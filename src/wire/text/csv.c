/* SPDX-License-Identifier: Apache-2.0 */
/* csv.c - see csv.h. The tokenizer. A plain field is one scan to the next separator or line end, eight bytes at a
 * time; only quoted fields take the slower way. */
#include "wire/text/csv.h"

#include <errno.h>
#include <string.h>

#include "wire/text/suggest.h"

void csv_init(struct csv *csv, const char *file, const char *data, size_t size, char separator)
{
    csv->file = file;
    csv->at = data;
    csv->end = data + size;
    if (size >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0)
        csv->at += 3;
    csv->line_start = csv->at;
    csv->line = 1;
    csv->record = 1;
    csv->separator = separator;
    csv->quote = separator == '\t' ? separator : '"';
    csv->count = 0;
    csv->header_count = 0;
    csv->scratch = (struct buf)BUF_INIT(CSV_RECORD_MAX);
}

void csv_done(struct csv *csv)
{
    buf_done(&csv->scratch);
}

#define ONES 0x0101010101010101ULL
#define HIGHS 0x8080808080808080ULL

/* A high bit in every byte of `word` that is zero (and perhaps in some above the lowest such byte). */
static inline uint64_t zero_bytes(uint64_t word)
{
    return (word - ONES) & ~word & HIGHS;
}

/* The first separator, line feed or quote at or after `at`. */
static const char *plain_end(const char *at, const char *end, char separator, char quote)
{
    uint64_t s = ONES * (unsigned char)separator, n = ONES * '\n', q = ONES * (unsigned char)quote;

    while (end - at >= 8) {
        uint64_t word, hit;

        memcpy(&word, at, 8);
        hit = zero_bytes(word ^ s) | zero_bytes(word ^ n) | zero_bytes(word ^ q);
        if (hit)
            break;
        at += 8;
    }
    while (at < end && *at != separator && *at != '\n' && *at != quote)
        at++;
    return at;
}

static int fail_at(const struct csv *csv, const char *at, struct error *err, const char *words)
{
    return error_set(err, -EBADMSG, "%s:%u:%zu: %s", csv->file, csv->line, (size_t)(at - csv->line_start) + 1, words);
}

/* Reads what follows an opening quote. The field points into the input while it can; from the first doubled quote on
 * it is gathered in the scratch buffer, where `offset` + 1 is kept in `text` until the record is whole. */
static int quoted_read(struct csv *csv, struct csv_field *field, bool *copied, struct error *err)
{
    const char *start = csv->at + 1, *open = csv->at;
    const char *open_line = csv->line_start;
    uint32_t open_line_number = csv->line;
    size_t scratch_start = csv->scratch.size;

    *copied = false;
    for (csv->at = start; csv->at < csv->end; csv->at++) {
        if (*csv->at == '\n') {
            csv->line++;
            csv->line_start = csv->at + 1;
        }
        if (*csv->at != '"')
            continue;
        buf_put(&csv->scratch, start, (size_t)(csv->at - start));
        if (csv->at + 1 == csv->end || csv->at[1] != '"')
            break;
        buf_char(&csv->scratch, '"');
        csv->at++;
        start = csv->at + 1;
        *copied = true;
    }
    if (csv->scratch.error == -ENOMEM)
        return error_set(err, -ENOMEM, "%s: out of memory", csv->file);
    if (csv->scratch.error || csv->at == csv->end || csv->scratch.size - scratch_start > CSV_RECORD_MAX) {
        csv->line = open_line_number;
        csv->line_start = open_line;
        return fail_at(csv, open, err, csv->at == csv->end ? "quote is never closed" : "field is too long");
    }
    field->length = (uint32_t)(csv->scratch.size - scratch_start);
    if (!*copied) {
        csv->scratch.size = scratch_start;
        field->text = start;
    }
    csv->at++;
    if (csv->at < csv->end && *csv->at != csv->separator && *csv->at != '\n' &&
        !(*csv->at == '\r' && csv->at + 1 < csv->end && csv->at[1] == '\n'))
        return fail_at(csv, csv->at, err, "expected a separator or the end of the line after the closing quote");
    return 0;
}

static int plain_read(struct csv *csv, struct csv_field *field, struct error *err)
{
    const char *start = csv->at;
    const char *stop = plain_end(start, csv->end, csv->separator, csv->quote);

    csv->at = stop;
    if (stop < csv->end && *stop == csv->quote && csv->quote != csv->separator)
        return fail_at(csv, stop, err, "a quote inside a field that does not begin with one");
    if ((size_t)(stop - start) > CSV_RECORD_MAX)
        return fail_at(csv, start, err, "field is too long");
    if (stop > start && stop[-1] == '\r' && (stop == csv->end || *stop == '\n'))
        stop--;
    field->text = start;
    field->length = (uint32_t)(stop - start);
    return 0;
}

/* Passes over lines without content. */
static void blank_skip(struct csv *csv)
{
    while (csv->at < csv->end &&
           (*csv->at == '\n' || (*csv->at == '\r' && csv->at + 1 < csv->end && csv->at[1] == '\n'))) {
        csv->at += *csv->at == '\r' ? 2 : 1;
        csv->line++;
        csv->line_start = csv->at;
    }
}

/* Copied fields lie one after the other in the scratch buffer, which may have moved while it grew. */
static void copies_place(struct csv *csv, const bool *copied)
{
    const char *at = csv->scratch.data;

    for (size_t i = 0; i < csv->count; i++) {
        if (copied[i]) {
            csv->fields[i].text = at;
            at += csv->fields[i].length;
        }
    }
}

static int record_read(struct csv *csv, struct error *err)
{
    bool copied[CSV_FIELDS_MAX];
    bool any_copied = false;

    for (;;) {
        struct csv_field *field = &csv->fields[csv->count];
        int r;

        if (csv->count == CSV_FIELDS_MAX)
            return fail_at(csv, csv->at, err, "more than 256 fields");
        field->line = csv->line;
        field->column = (uint32_t)(csv->at - csv->line_start) + 1;
        copied[csv->count] = false;
        if (csv->at < csv->end && *csv->at == '"' && csv->quote == '"')
            r = quoted_read(csv, field, &copied[csv->count], err);
        else
            r = plain_read(csv, field, err);
        if (r < 0)
            return r;
        any_copied |= copied[csv->count];
        csv->count++;
        if (csv->at == csv->end || *csv->at != csv->separator)
            break;
        csv->at++;
    }
    if (any_copied)
        copies_place(csv, copied);
    return 0;
}

int csv_next(struct csv *csv, struct error *err)
{
    int r;

    csv->count = 0;
    buf_clear(&csv->scratch);
    blank_skip(csv);
    if (csv->at >= csv->end)
        return 0;
    csv->record = csv->line;
    r = record_read(csv, err);
    if (r < 0)
        return r;
    if (csv->at < csv->end && *csv->at == '\r')
        csv->at++;
    if (csv->at < csv->end) {
        csv->at++;
        csv->line++;
        csv->line_start = csv->at;
    }
    if (csv->header_count && csv->count != csv->header_count)
        return error_set(err, -EINVAL, "%s:%u: expected %zu fields, as in the header, got %zu", csv->file, csv->record,
                         csv->header_count, csv->count);
    return 1;
}

static bool field_is(const struct csv_field *field, const char *text)
{
    return strlen(text) == field->length && memcmp(text, field->text, field->length) == 0;
}

static int header_unknown(const struct csv *csv, const struct csv_field *field, const struct csv_column *columns,
                          size_t column_count, struct error *err)
{
    const char *known[CSV_FIELDS_MAX];
    const char *near;
    char shown[SHOWN_MAX];

    for (size_t i = 0; i < column_count; i++)
        known[i] = columns[i].name;
    near = suggest_word(field->text, field->length, known, column_count);
    return error_set(err, -EINVAL, "%s:%u:%u: unknown column '%s'%s%s%s", csv->file, field->line, field->column,
                     suggest_shown(field->text, field->length, shown), near ? "; did you mean '" : "", near ? near : "",
                     near ? "'?" : "");
}

static int header_match(struct csv *csv, struct csv_column *columns, size_t column_count, struct error *err)
{
    for (size_t i = 0; i < csv->count; i++) {
        const struct csv_field *field = &csv->fields[i];
        struct csv_column *column = columns;

        while (column < columns + column_count && !field_is(field, column->name))
            column++;
        if (column == columns + column_count)
            return header_unknown(csv, field, columns, column_count, err);
        if (column->index >= 0)
            return error_set(err, -EINVAL, "%s:%u:%u: column '%s' comes twice", csv->file, field->line, field->column,
                             column->name);
        column->index = (int)i;
    }
    for (size_t i = 0; i < column_count; i++)
        if (columns[i].required && columns[i].index < 0)
            return error_set(err, -EINVAL, "%s:%u:1: column '%s' is missing", csv->file, csv->record, columns[i].name);
    return 0;
}

int csv_header(struct csv *csv, struct csv_column *columns, size_t column_count, struct error *err)
{
    int r;

    for (size_t i = 0; i < column_count; i++)
        columns[i].index = -1;
    csv->header_count = 0;
    r = csv_next(csv, err);
    if (r < 0)
        return r;
    if (r == 0)
        return error_set(err, -EINVAL, "%s:1:1: expected a header line, got nothing", csv->file);
    r = header_match(csv, columns, column_count, err);
    if (r < 0)
        return r;
    memcpy(csv->header, csv->fields, csv->count * sizeof(csv->header[0]));
    for (size_t i = 0; i < column_count; i++)
        if (columns[i].index >= 0) /* the name itself: what was read may have been in the scratch buffer */
            csv->header[columns[i].index] =
                (struct csv_field){ columns[i].name, (uint32_t)strlen(columns[i].name), 1, 1 };
    csv->header_count = csv->count;
    return 0;
}

void csv_put(struct buf *out, const char *text, char separator)
{
    const char *quote;

    if (!*text || (!strchr(text, separator) && !strpbrk(text, "\"\r\n"))) {
        buf_text(out, text);
        return;
    }
    buf_char(out, '"');
    while ((quote = strchr(text, '"'))) {
        buf_put(out, text, (size_t)(quote - text) + 1);
        buf_char(out, '"');
        text = quote + 1;
    }
    buf_text(out, text);
    buf_char(out, '"');
}
