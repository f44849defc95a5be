/* SPDX-License-Identifier: Apache-2.0 */
/* JSON: what the writer writes, to the byte, and what the reader refuses, to the word. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "wire/text/json_quick.h"
#include "wire/text/json_read.h"
#include "wire/text/json_write.h"

static struct error err;

static void values_write(struct json_write *json)
{
    json_write_object(json, NULL);
    json_write_text(json, "text", "a\"b\\c\n\t\x01\xc3\xa9");
    json_write_bytes(json, "broken", "x\xff\xc3(\xed\xa0\x80", 7);
    json_write_i64(json, "low", INT64_MIN);
    json_write_u64(json, "high", UINT64_MAX);
    json_write_bool(json, "yes", true);
    json_write_null(json, "nothing");
    json_write_array(json, "list");
    json_write_double(json, NULL, 0.1);
    json_write_object(json, NULL);
    json_write_close(json);
    json_write_array(json, NULL);
    json_write_close(json);
    json_write_close(json);
    json_write_close(json);
}

static void written_in_one_line(void **state)
{
    struct buf out = BUF_INIT(1000);
    struct json_write json;

    (void)state;
    json_write_init(&json, &out, false);
    values_write(&json);
    assert_string_equal(out.data, "{\"text\":\"a\\\"b\\\\c\\n\\t\\u0001\xc3\xa9\","
                                  "\"broken\":\"x\xef\xbf\xbd\xef\xbf\xbd(\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\","
                                  "\"low\":-9223372036854775808,\"high\":18446744073709551615,\"yes\":true,"
                                  "\"nothing\":null,\"list\":[0.1,{},[]]}");
    buf_done(&out);
}

static void written_for_people(void **state)
{
    struct buf out = BUF_INIT(1000);
    struct json_write json;

    (void)state;
    json_write_init(&json, &out, true);
    json_write_object(&json, NULL);
    json_write_i64(&json, "a", 1);
    json_write_array(&json, "b");
    json_write_bool(&json, NULL, false);
    json_write_close(&json);
    json_write_close(&json);
    assert_string_equal(out.data, "{\n  \"a\": 1,\n  \"b\": [\n    false\n  ]\n}\n");
    buf_done(&out);
}

static void double_is(double value, const char *text)
{
    struct buf out = BUF_INIT(100);

    json_put_double(&out, value);
    assert_string_equal(out.data, text);
    if (isfinite(value))
        assert_true(strtod(out.data, NULL) == value);
    buf_done(&out);
}

static void doubles_are_short_and_exact(void **state)
{
    (void)state;
    double_is(0, "0");
    double_is(5, "5");
    double_is(0.1, "0.1");
    double_is(1.0 / 3, "0.3333333333333333");
    double_is(0.1 + 0.2, "0.30000000000000004");
    double_is(1e300, "1e+300");
    double_is(-2.5, "-2.5");
    double_is(123456789012345680.0, "1.2345678901234568e+17");
    double_is((double)INFINITY, "null");
    double_is((double)NAN, "null");
}

static void a_full_buffer_is_noticed(void **state)
{
    struct buf out = BUF_INIT(10);
    struct bytes bytes = { 0 };
    struct json_write json;

    (void)state;
    json_write_init(&json, &out, false);
    values_write(&json);
    assert_int_equal(buf_take(&out, &bytes, &err), -E2BIG);
    assert_string_equal(err.text, "more than 10 bytes");
    assert_null(bytes.data);
}

static void read_fails(const char *text, const char *words)
{
    json_t *json = NULL;

    assert_true(json_read("t.json", text, strlen(text), &json, &err) < 0);
    assert_string_equal(err.text, words);
    assert_null(json);
}

static void read_and_refused(void **state)
{
    static const char text[] = "{\"a\": [1, 2.5, \"x\", null], \"b\": {}}";
    json_t *json = NULL;
    double value = 7;

    (void)state;
    assert_int_equal(json_read("t.json", text, strlen(text), &json, &err), 0);
    assert_int_equal(json_need("t.json", "top", json, JSON_OBJECT, &err), 0);
    assert_int_equal(json_number("t.json", "a.1", json_array_get(json_object_get(json, "a"), 1), &value, &err), 0);
    assert_true(value == 2.5);
    assert_int_equal(json_number("t.json", "a.2", json_array_get(json_object_get(json, "a"), 2), &value, &err),
                     -EINVAL);
    assert_string_equal(err.text, "t.json: a.2: expected a number, got a string");
    assert_int_equal(json_need("t.json", "b", json_object_get(json, "b"), JSON_ARRAY, &err), -EINVAL);
    assert_string_equal(err.text, "t.json: b: expected an array, got an object");
    assert_int_equal(json_need("t.json", "c", json_object_get(json, "c"), JSON_ARRAY, &err), -EINVAL);
    assert_string_equal(err.text, "t.json: c: expected an array, got nothing");
    json_decref(json);
    read_fails("{\"a\": 1,\n \"b\": }", "t.json:2:7: unexpected token near '}'");
    read_fails("{\"a\": 1, \"a\": 2}", "t.json:1:12: duplicate object key near '\"a\"'");
    read_fails("", "t.json:1:1: unexpected token near end of file");
    read_fails("[1", "t.json:1:2: ']' expected near end of file");
    read_fails("[1] x", "t.json:1:5: end of file expected near 'x'");
}

static void out_of_memory(void **state)
{
    static const char text[] = "{\"a\": [1, 2.5, \"x\", null], \"b\": {\"c\": \"d\"}}";
    json_t *json = NULL;
    size_t n = 0;
    int r;

    (void)state;
    do {
        mem_fail_at(++n);
        r = json_read("t.json", text, strlen(text), &json, &err);
        mem_fail_at(0);
    } while (r < 0 && n < 1000);
    assert_int_equal(r, 0);
    assert_true(n > 5);
    json_decref(json);
}

/* The quick reader either makes what jansson makes, or leaves it to jansson; and what is written comes back. */
static void quick_as_jansson(void **state)
{
    static const struct {
        const char *text;
        bool taken;
    } cases[] = {
        { "{\"a\":[1,-2,0.5,1e3,-0],\"b\":{\"\":\"x\\n\\\"\\\\\\/\\t\"},\"c\":[],\"d\":{},\"e\":[true,false,null]}",
          true },
        { " [ 1 , \"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\" ]\n", true },
        { "\"alone\"", true },
        { "123456789012345678", true },
        { "1.0", true },
        { "\"\\u00e9\"", false },         /* the rest is jansson's: escapes by number, */
        { "9223372036854775807", false }, /* the largest numbers, */
        { "1e-400", false },              /* the smallest, */
        { "{\"a\":1,\"a\":2}", false },   /* and all that is wrong */
        { "\"\xff\"", false },
        { "[1,]", false },
        { "{\"a\"}", false },
        { "01", false },
        { "-", false },
        { "[1] 2", false },
        { "tru", false },
        { "\"open", false },
        { "\"\n\"", false },
        { "", false },
        { "{\"a\":1,}", false },
        { "1.", false },
        { "1e", false },
        { "nul", false },
        { "[1 2]", false },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t size = strlen(cases[i].text), length = 0;
        json_t *quick = NULL, *again = NULL;
        json_t *slow = json_loadb(cases[i].text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
        char *text = json_text(slow, &length);

        assert_int_equal(json_quick_read(cases[i].text, size, &quick), cases[i].taken ? 0 : -EBADMSG);
        assert_int_equal(!text, !slow);
        if (cases[i].taken)
            assert_true(json_equal(quick, slow));
        if (text) {
            assert_int_equal(strlen(text), length);
            assert_int_equal(json_read("t.json", text, length, &again, &err), 0);
            assert_true(json_equal(again, slow));
        }
        free(text);
        json_decref(again);
        json_decref(quick);
        json_decref(slow);
    }
}

/* Every length, and every byte at every place in it: the first that does not stand for itself. */
static void the_first_special_byte(void **state)
{
    char text[40];

    (void)state;
    for (size_t length = 0; length <= sizeof(text); length++) {
        memset(text, 'a', sizeof(text));
        assert_ptr_equal(json_plain_end(text, text + length), text + length);
        for (size_t at = 0; at < length; at++) {
            for (int byte = 0; byte < 256; byte++) {
                bool plain = byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';

                memset(text, 'a', sizeof(text));
                text[at] = (char)byte;
                if (at + 1 < length)
                    text[length - 1] = '"';
                assert_ptr_equal(json_plain_end(text, text + length),
                                 plain ? text + length - (at + 1 < length) : text + at);
            }
        }
    }
}

/* However little room there is, a key is what its parts are. */
static void keys_are_whole(void **state)
{
    static const char *const keys[] = { "",    "a",        "id",
                                        "key", "state",    "a longer key of more than sixteen",
                                        "q\"", "\xc3\xa9", "line\nbreak" };

    (void)state;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        for (size_t before = 0; before < 600; before++) {
            struct buf whole = BUF_INIT(4096), parts = BUF_INIT(4096);
            bool first = before % 2;

            for (size_t k = 0; k < before; k++) {
                buf_char(&whole, 'x');
                buf_char(&parts, 'x');
            }
            json_put_key(&whole, keys[i], strlen(keys[i]), first);
            if (!first)
                buf_char(&parts, ',');
            json_put_string(&parts, keys[i], strlen(keys[i]));
            buf_char(&parts, ':');
            assert_int_equal(whole.size, parts.size);
            assert_string_equal(whole.data, parts.data);
            buf_done(&whole);
            buf_done(&parts);
        }
    }
}

static void integers_as_printf(void **state)
{
    static const int64_t some[] = { 0, INT64_MAX, INT64_MIN, -1, -10, 1794828568380840 };
    char text[32];

    (void)state;
    for (int64_t k = 0; k < 20000 + (int64_t)(sizeof(some) / sizeof(some[0])); k++) {
        int64_t value = k < 20000 ? (k - 10000) * (k % 7 ? 1 : 1000003) : some[k - 20000];
        struct buf out = BUF_INIT(64);

        (void)snprintf(text, sizeof(text), "%lld", (long long)value);
        json_put_i64(&out, value);
        assert_string_equal(out.data, text);
        buf_done(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_in_one_line),
        cmocka_unit_test(written_for_people),
        cmocka_unit_test(doubles_are_short_and_exact),
        cmocka_unit_test(a_full_buffer_is_noticed),
        cmocka_unit_test(read_and_refused),
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(quick_as_jansson),
        cmocka_unit_test(the_first_special_byte),
        cmocka_unit_test(keys_are_whole),
        cmocka_unit_test(integers_as_printf),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
