/* SPDX-License-Identifier: Apache-2.0 */
/* Separated values: fields that were read, written and read again are the same, and lie where they are said to. */
#include "fuzz.h"
#include "wire/text/csv.h"

static struct csv csv, again; /* too large for the stack of a fuzzer */

static void record_check(const struct bytes *input)
{
    struct buf out = BUF_INIT(1 << 22);
    struct error err = { 0 };
    int64_t number;
    double real;

    buf_text(&out, "x\n"); /* what looks like a byte order mark is one at the start of a file only */
    for (size_t i = 0; i < csv.count; i++) {
        const struct csv_field *field = &csv.fields[i];
        char *text = strndup(field->text, field->length);

        CHECK(text);
        CHECK(field->line >= 1 && field->column >= 1 && field->column <= input->size + 1);
        (void)!csv_i64(&csv, (int)i, INT64_MIN, INT64_MAX, &number, &err);
        (void)!csv_usec(&csv, (int)i, USEC_MIN, &number, &err);
        (void)!csv_double(&csv, (int)i, &real, &err);
        if (i)
            buf_char(&out, ',');
        csv_put(&out, text, ',');
        free(text);
        if (memchr(field->text, '\0', field->length)) { /* the writer takes strings */
            buf_done(&out);
            return;
        }
    }
    csv_init(&again, "f", out.data, out.size, ',');
    CHECK(csv_next(&again, &err) == 1);
    if (out.size > 2) {
        CHECK(csv_next(&again, &err) == 1);
        CHECK(again.count == csv.count);
        for (size_t i = 0; i < csv.count; i++) {
            CHECK(again.fields[i].length == csv.fields[i].length);
            CHECK(memcmp(again.fields[i].text, csv.fields[i].text, csv.fields[i].length) == 0);
        }
        CHECK(csv_next(&again, &err) == 0);
    }
    csv_done(&again);
    buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes input = fuzz_copy(data, size);
    struct error err = { 0 };
    int r;

    csv_init(&csv, "f", input.data, input.size, ',');
    while ((r = csv_next(&csv, &err)) == 1)
        record_check(&input);
    if (r < 0)
        fuzz_check_error(r, &err);
    csv_done(&csv);
    csv_init(&csv, "f", input.data, input.size, '\t');
    while (csv_next(&csv, &err) == 1)
        ;
    csv_done(&csv);
    bytes_done(&input);
    return 0;
}
