/* SPDX-License-Identifier: Apache-2.0 */
/* Separated values: records, headers, fields as values, and the exact words of every refusal. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "wire/text/csv.h"
#include "wire/text/decimal.h"
#include "wire/text/suggest.h"

static struct csv csv;
static struct error err;

static void open_text(const char *text, char separator)
{
    csv_init(&csv, "t.csv", text, strlen(text), separator);
}

static void field_check(size_t index, const char *text, unsigned line, unsigned column)
{
    assert_true(index < csv.count);
    assert_int_equal(csv.fields[index].length, strlen(text));
    assert_memory_equal(csv.fields[index].text, text, strlen(text));
    assert_int_equal(csv.fields[index].line, line);
    assert_int_equal(csv.fields[index].column, column);
}

static void plain_records(void **state)
{
    (void)state;
    open_text("\xef\xbb\xbf"
              "a,bc,\r\n\n\r\n,longer than eight bytes,3\nlast",
              ',');
    assert_int_equal(csv_next(&csv, &err), 1);
    assert_int_equal(csv.count, 3);
    field_check(0, "a", 1, 1);
    field_check(1, "bc", 1, 3);
    field_check(2, "", 1, 6);
    assert_int_equal(csv_next(&csv, &err), 1);
    field_check(0, "", 4, 1);
    field_check(1, "longer than eight bytes", 4, 2);
    field_check(2, "3", 4, 26);
    assert_int_equal(csv_next(&csv, &err), 1);
    assert_int_equal(csv.count, 1);
    field_check(0, "last", 5, 1);
    assert_int_equal(csv_next(&csv, &err), 0);
    assert_int_equal(csv_next(&csv, &err), 0);
    csv_done(&csv);
}

static void quoted_records(void **state)
{
    (void)state;
    open_text("\"a,b\",\"say \"\"hi\"\"\",\"two\nlines\",\"\",\"\"\"\"\r\nx,\"y\"\r\n", ',');
    assert_int_equal(csv_next(&csv, &err), 1);
    assert_int_equal(csv.count, 5);
    field_check(0, "a,b", 1, 1);
    field_check(1, "say \"hi\"", 1, 7);
    field_check(2, "two\nlines", 1, 20);
    field_check(3, "", 2, 8);
    field_check(4, "\"", 2, 11);
    assert_int_equal(csv_next(&csv, &err), 1);
    field_check(0, "x", 3, 1);
    field_check(1, "y", 3, 3);
    assert_int_equal(csv_next(&csv, &err), 0);
    csv_done(&csv);
}

static void tabs_and_blanks(void **state)
{
    (void)state;
    open_text("LM (batch size 5)\tpython3 a, b\t\"1 \"x\"\n", '\t');
    assert_int_equal(csv_next(&csv, &err), 1);
    assert_int_equal(csv.count, 3);
    field_check(1, "python3 a, b", 1, 19);
    field_check(2, "\"1 \"x\"", 1, 32);
    csv_done(&csv);
}

static void next_fails(const char *text, const char *words)
{
    int r;

    open_text(text, ',');
    do
        r = csv_next(&csv, &err);
    while (r == 1);
    assert_true(r < 0);
    assert_string_equal(err.text, words);
    csv_done(&csv);
}

static void broken_records_are_refused(void **state)
{
    char many[600];

    (void)state;
    next_fails("a\nb,\"c", "t.csv:2:3: quote is never closed");
    next_fails("b,\"c\nd\n", "t.csv:1:3: quote is never closed");
    next_fails("b,c\"d\n", "t.csv:1:4: a quote inside a field that does not begin with one");
    next_fails("\"c\"d\n", "t.csv:1:4: expected a separator or the end of the line after the closing quote");
    memset(many, ',', sizeof(many) - 1);
    many[sizeof(many) - 1] = '\0';
    next_fails(many, "t.csv:1:257: more than 256 fields");
}

static void header_fails(const char *text, const char *words)
{
    struct csv_column columns[] = { { "id", true, 0 }, { "gpus", true, 0 }, { "user", false, 0 } };

    open_text(text, ',');
    assert_int_equal(csv_header(&csv, columns, 3, &err), -EINVAL);
    assert_string_equal(err.text, words);
    csv_done(&csv);
}

static void headers(void **state)
{
    struct csv_column columns[] = { { "id", true, 0 }, { "gpus", true, 0 }, { "user", false, 0 } };

    (void)state;
    open_text("gpus,\"id\"\n8,1\n1,2,3\n", ',');
    assert_int_equal(csv_header(&csv, columns, 3, &err), 0);
    assert_int_equal(columns[0].index, 1);
    assert_int_equal(columns[1].index, 0);
    assert_int_equal(columns[2].index, -1);
    assert_int_equal(csv_next(&csv, &err), 1);
    assert_null(csv_get(&csv, columns[2].index));
    assert_int_equal(csv_next(&csv, &err), -EINVAL);
    assert_string_equal(err.text, "t.csv:3: expected 2 fields, as in the header, got 3");
    csv_done(&csv);
    header_fails("", "t.csv:1:1: expected a header line, got nothing");
    header_fails("id,user\n", "t.csv:1:1: column 'gpus' is missing");
    header_fails("id,gpu\n", "t.csv:1:4: unknown column 'gpu'; did you mean 'gpus'?");
    header_fails("id,memory\n", "t.csv:1:4: unknown column 'memory'");
    header_fails("id,gpus,id\n", "t.csv:1:9: column 'id' comes twice");
}

static void values(void **state)
{
    static const char *const words[] = { "low", "high", "none" };
    struct csv_column columns[] = { { "n", true, 0 }, { "t", true, 0 }, { "w", true, 0 } };
    struct names names = { 0 };
    int64_t n = 77;
    uint32_t name;
    uint8_t word = 9;
    double real;

    (void)state;
    open_text("n,t,w\n-5,1.5,high\n12x,-1,medium\n70000,1e30,\n9999999999999999999,nan,\n", ',');
    assert_int_equal(csv_header(&csv, columns, 3, &err), 0);
    assert_int_equal(csv_next(&csv, &err), 1);
    assert_int_equal(csv_i64(&csv, 0, -10, 10, &n, &err), 0);
    assert_int_equal(n, -5);
    assert_int_equal(csv_usec(&csv, 1, USEC_SEC, &n, &err), 0);
    assert_int_equal(n, 1500000);
    assert_int_equal(csv_usec(&csv, 1, USEC_MIN, &n, &err), 0);
    assert_int_equal(n, 90000000);
    assert_int_equal(csv_usec(&csv, 1, USEC_MSEC, &n, &err), 0);
    assert_int_equal(n, 1500);
    assert_int_equal(csv_scaled(&csv, 1, 1000, 1000000, &n, &err), 0);
    assert_int_equal(n, 1500);
    assert_int_equal(csv_double(&csv, 1, &real, &err), 0);
    assert_true(real == 1.5);
    assert_int_equal(csv_word(&csv, 2, words, 3, &word, &err), 0);
    assert_int_equal(word, 1);
    assert_int_equal(csv_name(&csv, 2, &names, &name, &err), 0);
    assert_string_equal(names_get(&names, name), "high");
    assert_int_equal(csv_name(&csv, -1, &names, &name, &err), 0);
    assert_int_equal(name, NAME_NONE);
    names_done(&names);
    csv_done(&csv);
}

#define REFUSED(call, words)                                                                                           \
    do {                                                                                                               \
        assert_int_equal((call), -EINVAL);                                                                             \
        assert_string_equal(err.text, words);                                                                          \
    } while (0)

static void wrong_values(void **state)
{
    static const char *const words[] = { "low", "high", "none" };
    struct csv_column columns[] = { { "n", true, 0 }, { "t", true, 0 }, { "w", true, 0 } };
    struct names names = { 0 };
    int64_t n = 77;
    uint32_t name;
    uint8_t word = 9;
    double real = 7;

    (void)state;
    open_text("n,t,w\n12x,-1,medium\n70000,1e30,\x01\n9999999999999999999,nan,\n", ',');
    assert_int_equal(csv_header(&csv, columns, 3, &err), 0);
    assert_int_equal(csv_next(&csv, &err), 1);
    REFUSED(csv_i64(&csv, 0, 1, 8, &n, &err), "t.csv:2:1: n: expected a whole number from 1 to 8, got '12x'");
    REFUSED(csv_i64(&csv, 0, 1, INT64_MAX, &n, &err), "t.csv:2:1: n: expected a whole number of at least 1, got '12x'");
    REFUSED(csv_i64(&csv, 0, INT64_MIN, INT64_MAX, &n, &err), "t.csv:2:1: n: expected a whole number, got '12x'");
    REFUSED(csv_usec(&csv, 1, USEC_SEC, &n, &err), "t.csv:2:5: t: expected seconds, not negative, got '-1'");
    REFUSED(csv_word(&csv, 2, words, 3, &word, &err), "t.csv:2:8: w: expected low, high or none, got 'medium'");
    assert_int_equal(csv_next(&csv, &err), 1);
    REFUSED(csv_i64(&csv, 0, 1, 65536, &n, &err), "t.csv:3:1: n: expected a whole number from 1 to 65536, got '70000'");
    REFUSED(csv_usec(&csv, 1, USEC_MIN, &n, &err), "t.csv:3:7: t: expected at most 525600000 minutes, got '1e30'");
    REFUSED(csv_word(&csv, 2, words, 3, &word, &err), "t.csv:3:12: w: expected low, high or none, got '\\x01'");
    assert_int_equal(csv_next(&csv, &err), 1);
    REFUSED(csv_i64(&csv, 0, 0, INT64_MAX, &n, &err),
            "t.csv:4:1: n: expected a whole number of at least 0, got '9999999999999999999'");
    REFUSED(csv_double(&csv, 1, &real, &err), "t.csv:4:21: t: expected a number, got 'nan'");
    REFUSED(csv_i64(&csv, 2, 0, 1, &n, &err), "t.csv:4:25: w: expected a whole number from 0 to 1, got ''");
    assert_int_equal(n, 77);
    assert_int_equal(word, 9);
    assert_int_equal(csv_name(&csv, 2, &names, &name, &err), 0);
    assert_int_equal(name, NAME_NONE);
    csv_done(&csv);
}

static void decimal_check(const char *text, int64_t scale, int result, int64_t value)
{
    int64_t got = 77;

    assert_int_equal(decimal_parse(text, strlen(text), scale, &got), result);
    assert_int_equal(got, result ? 77 : value);
}

static void decimals_are_exact(void **state)
{
    (void)state;
    decimal_check("0", 1000000, 0, 0);
    decimal_check("1.5", 1000000, 0, 1500000);
    decimal_check("+1.", 1000000, 0, 1000000);
    decimal_check(".5", 1000000, 0, 500000);
    decimal_check("487.661836", 1000000, 0, 487661836);
    decimal_check("0.1", 1000000, 0, 100000);
    decimal_check("2.0000005", 1000000, 0, 2000001);
    decimal_check("2.00000049999999", 1000000, 0, 2000000);
    decimal_check("-2.0000005", 1000000, 0, -2000000);
    decimal_check("-2.00000051", 1000000, 0, -2000001);
    decimal_check("1.5", 60000000, 0, 90000000);
    decimal_check("1e3", 1000000, 0, 1000000000);
    decimal_check("1.25E+2", 1000, 0, 125000);
    decimal_check("125e-2", 1000, 0, 1250);
    decimal_check("1e-400", 1000000, 0, 0);
    decimal_check("0e999999999999", 1000000, 0, 0);
    decimal_check("9223372036854.775807", 1000000, 0, INT64_MAX);
    decimal_check("9223372036854.7758075", 1000000, -ERANGE, 0);
    decimal_check("1e300", 1000000, -ERANGE, 0);
    decimal_check("0.1234567890123456789012345", 1000000, 0, 123457);
    decimal_check("0.12345678901234567890123456", 1000000, -EINVAL, 0);
    decimal_check("", 1, -EINVAL, 0);
    decimal_check(".", 1, -EINVAL, 0);
    decimal_check("e5", 1, -EINVAL, 0);
    decimal_check("1e", 1, -EINVAL, 0);
    decimal_check("1.2.3", 1, -EINVAL, 0);
    decimal_check(" 1", 1, -EINVAL, 0);
    decimal_check("1 ", 1, -EINVAL, 0);
    decimal_check("0x10", 1, -EINVAL, 0);
    decimal_check("inf", 1, -EINVAL, 0);
}

static void whole_numbers(void **state)
{
    int64_t value = 77;

    (void)state;
    assert_int_equal(decimal_parse_i64("-9223372036854775808", 20, &value), 0);
    assert_true(value == INT64_MIN);
    assert_int_equal(decimal_parse_i64("9223372036854775807", 19, &value), 0);
    assert_true(value == INT64_MAX);
    assert_int_equal(decimal_parse_i64("9223372036854775808", 19, &value), -ERANGE);
    assert_int_equal(decimal_parse_i64("99999999999999999999x", 21, &value), -EINVAL);
    assert_int_equal(decimal_parse_i64("", 0, &value), -EINVAL);
    assert_int_equal(decimal_parse_i64("-", 1, &value), -EINVAL);
    assert_int_equal(decimal_parse_i64("1.0", 3, &value), -EINVAL);
}

static void decimal_written(int64_t value, int64_t scale, const char *text)
{
    struct buf out = BUF_INIT(100);
    int64_t back;

    decimal_put(&out, value, scale);
    assert_string_equal(out.data, text);
    if (value != INT64_MIN) {
        assert_int_equal(decimal_parse(out.data, out.size, scale, &back), 0);
        assert_true(back == value);
    }
    buf_done(&out);
}

static void decimals_are_written_short(void **state)
{
    (void)state;
    decimal_written(0, 1000000, "0");
    decimal_written(1500000, 1000000, "1.5");
    decimal_written(1000001, 1000000, "1.000001");
    decimal_written(20, 1000000, "0.00002");
    decimal_written(-20, 1000000, "-0.00002");
    decimal_written(460, 1000, "0.46");
    decimal_written(7, 1, "7");
    decimal_written(INT64_MAX, 1000000, "9223372036854.775807");
    decimal_written(INT64_MIN, 1, "-9223372036854775808");
}

static void written_fields_read_back(void **state)
{
    static const char *const texts[] = { "plain", "with,comma", "say \"hi\"", "two\nlines", "cr\rhere", "\"" };
    struct buf out = BUF_INIT(1000);

    (void)state;
    for (size_t i = 0; i < 6; i++) {
        if (i)
            buf_char(&out, ',');
        csv_put(&out, texts[i], ',');
    }
    csv_init(&csv, "t.csv", out.data, out.size, ',');
    assert_int_equal(csv_next(&csv, &err), 1);
    assert_int_equal(csv.count, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(csv.fields[i].length, strlen(texts[i]));
        assert_memory_equal(csv.fields[i].text, texts[i], strlen(texts[i]));
    }
    csv_done(&csv);
    buf_done(&out);
}

static void suggestions(void **state)
{
    static const char *const words[] = { "gpus", "memory", "sockets" };
    static const char *const flags[] = { "mem", "time", "tmp" };
    char shown[SHOWN_MAX];

    (void)state;
    assert_string_equal(suggest_word("gpu", 3, words, 3), "gpus");
    assert_string_equal(suggest_word("memroy", 6, words, 3), "memory");
    assert_string_equal(suggest_word("tiem", 4, flags, 3), "time"); /* one slip of the fingers */
    assert_null(suggest_word("colour", 6, words, 3));
    assert_null(suggest_word("", 0, words, 3));
    assert_string_equal(suggest_shown("a\nb", 3, shown), "a\\x0ab");
    assert_string_equal(suggest_shown("0123456789012345678901234567890123456789x", 41, shown),
                        "0123456789012345678901234567890123456789...");
}

static void out_of_memory(void **state)
{
    (void)state;
    mem_fail_at(1);
    open_text("\"a\"\"b\"\n", ',');
    assert_int_equal(csv_next(&csv, &err), -ENOMEM);
    assert_string_equal(err.text, "t.csv: out of memory");
    mem_fail_at(0);
    csv_done(&csv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_records),
        cmocka_unit_test(quoted_records),
        cmocka_unit_test(tabs_and_blanks),
        cmocka_unit_test(broken_records_are_refused),
        cmocka_unit_test(headers),
        cmocka_unit_test(values),
        cmocka_unit_test(wrong_values),
        cmocka_unit_test(decimals_are_exact),
        cmocka_unit_test(whole_numbers),
        cmocka_unit_test(decimals_are_written_short),
        cmocka_unit_test(written_fields_read_back),
        cmocka_unit_test(suggestions),
        cmocka_unit_test(out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
