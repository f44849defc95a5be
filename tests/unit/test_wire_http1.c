/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1: messages in any pieces, limits to the byte, and what is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "wire/http/http1.h"

static struct error err;
static const struct http_limits small = {
    .target_max = 40, .head_bytes_max = 100, .head_count_max = 4, .body_max = 20
};

static struct http_reader *reader_new(enum http_side side, const struct http_limits *limits)
{
    struct http_reader *reader = NULL;

    assert_int_equal(http_reader_new(side, limits, &reader), 0);
    return reader;
}

/* Feeds the text in pieces of `piece` bytes until a message is whole; the rest is left. */
static int feed(struct http_reader *reader, const char *text, size_t size, size_t piece, size_t *ret_used)
{
    size_t at = 0;

    while (at < size) {
        size_t used, length = piece < size - at ? piece : size - at;
        char *copy = malloc(length);
        int r;

        assert_non_null(copy);
        memcpy(copy, text + at, length);
        r = http_reader_feed(reader, copy, length, &used, &err);
        free(copy);
        at += used;
        *ret_used = at;
        if (r)
            return r;
        assert_int_equal(used, length);
    }
    return 0;
}

static void request_in_any_pieces(void **state)
{
    static const char text[] =
        "POST /api/v1/jobs?x=1 HTTP/1.1\r\nHost: a\r\nX-Long:   b c  \r\nContent-Length: 5\r\n\r\n"
        "helloGET / HTTP/1.1\r\n\r\n";

    (void)state;
    for (size_t piece = 1; piece < sizeof(text); piece++) {
        struct http_reader *reader = reader_new(HTTP_REQUESTS, &small);
        const struct http_message *m = http_reader_message(reader);
        size_t used, more;

        assert_true(http_reader_idle(reader));
        assert_int_equal(feed(reader, text, sizeof(text) - 1, piece, &used), 1);
        assert_string_equal(m->method, "POST");
        assert_string_equal(m->target, "/api/v1/jobs?x=1");
        assert_int_equal(m->head_count, 3);
        assert_string_equal(http_header(m, "x-LONG"), "b c");
        assert_null(http_header(m, "x-lon"));
        assert_true(m->keep_alive);
        assert_int_equal(m->body_size, 5);
        assert_string_equal(m->body, "hello");
        http_reader_next(reader);
        assert_int_equal(feed(reader, text + used, sizeof(text) - 1 - used, piece, &more), 1);
        assert_string_equal(m->method, "GET");
        assert_int_equal(m->body_size, 0);
        assert_int_equal(used + more, sizeof(text) - 1);
        http_reader_free(reader);
    }
}

static void chunks_and_upgrades(void **state)
{
    static const char chunked[] = "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: "
                                  "100-continue\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n";
    static const char upgrade[] =
        "GET /agent/v1 HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: muster-agent\r\n\r\n\x01\x02";
    struct http_reader *reader = reader_new(HTTP_REQUESTS, &small);
    const struct http_message *m = http_reader_message(reader);
    size_t used;

    (void)state;
    assert_int_equal(feed(reader, chunked, 72, 72, &used), 0);
    assert_true(http_reader_expects(reader));
    assert_false(http_reader_expects(reader));
    assert_int_equal(feed(reader, chunked + 72, sizeof(chunked) - 1 - 72, 3, &used), 1);
    assert_string_equal(m->body, "abcdefg");
    http_reader_next(reader);
    assert_int_equal(feed(reader, upgrade, sizeof(upgrade) - 1, 1000, &used), 1);
    assert_true(m->upgrade);
    assert_int_equal(used, sizeof(upgrade) - 3);
    http_reader_next(reader); /* not granted: goes on as HTTP */
    assert_int_equal(feed(reader, "GET /b HTTP/1.0\r\n\r\n", 19, 4, &used), 1);
    assert_string_equal(m->target, "/b");
    assert_false(m->keep_alive);
    http_reader_free(reader);
}

struct refusal {
    const char *text;
    int status;
};

static void refused(void **state)
{
    static const struct refusal cases[] = {
        { "GET /2345678901234567890123456789012345678901 HTTP/1.1\r\n\r\n", 414 },
        { "GET / HTTP/1.1\r\nA: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\nE: 5\r\n\r\n", 431 },
        { "GET / HTTP/1.1\r\nA: "
          "3456789012345678901234567890123456789012345678901234567890123456789012345678901234567890"
          "123456789012345\r\n\r\n",
          431 },
        { "POST / HTTP/1.1\r\nContent-Length: 21\r\n\r\n", 413 },
        { "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n15\r\n123456789012345678901\r\n0\r\n\r\n", 413 },
        { "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400 },
        { "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400 },
        { "GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", 400 },
        { "GET / HTTP/1.1\r\nA: b\r\n\tc\r\n\r\n", 400 },
        { "GET / HTTP/1.1\nA: b\n\n", 400 },
        { "GET / HTTP/1.1\r\nA b\r\n\r\n", 400 },
        { "GET / HTTP/1.1\r\nA: \x01\r\n\r\n", 400 },
        { "GET / HTTP/2.0\r\n\r\n", 400 },
        { "FROB / HTTP/1.1\r\n\r\n", 400 },
        { "\x16\x03\x01\x02", 400 },
        { "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (size_t piece = 1; piece < 60; piece += 1) {
            struct http_reader *reader = reader_new(HTTP_REQUESTS, &small);
            size_t used;
            int r = feed(reader, cases[i].text, strlen(cases[i].text), piece, &used);

            if (r >= 0 || http_reader_refusal(reader) != cases[i].status)
                fail_msg("case %zu, pieces of %zu: %d, status %d, %s", i, piece, r, http_reader_refusal(reader),
                         err.text);
            assert_true(http_reader_feed(reader, "x", 1, &used, &err) < 0);
            http_reader_free(reader);
        }
}

static void responses(void **state)
{
    static const char text[] = "HTTP/1.1 200 OK\r\nContent-Type: a\r\n\r\nabc";
    struct http_reader *reader = reader_new(HTTP_RESPONSES, &small);
    const char *data;
    size_t used, size;

    (void)state;
    assert_int_equal(feed(reader, text, sizeof(text) - 1, 7, &used), 0);
    assert_true(http_reader_in_body(reader));
    http_reader_drain(reader, &data, &size);
    assert_int_equal(size, 3);
    assert_memory_equal(data, "abc", 3);
    assert_int_equal(http_reader_end(reader, &err), 1);
    assert_int_equal(http_reader_message(reader)->status, 200);
    http_reader_free(reader);
    reader = reader_new(HTTP_RESPONSES, &small);
    assert_int_equal(feed(reader, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", 40, 40, &used), 0);
    assert_int_equal(http_reader_end(reader, &err), -EPIPE);
    http_reader_free(reader);
}

static void targets(void **state)
{
    char text[] = "a%20b+c%2f", bad[] = "%0", zero[] = "%00", words[] = "a+b";
    const char *value;
    size_t size;

    (void)state;
    assert_int_equal(http_unescape(text, false), 0);
    assert_string_equal(text, "a b+c/");
    assert_int_equal(http_unescape(words, true), 0);
    assert_string_equal(words, "a b");
    assert_int_equal(http_unescape(bad, false), -EINVAL);
    assert_int_equal(http_unescape(zero, false), -EINVAL);
    assert_true(http_query_find("a=1&&b&cmd=x&cmd=y", "cmd", 1, &value, &size));
    assert_int_equal(size, 1);
    assert_memory_equal(value, "y", 1);
    assert_true(http_query_find("a=1&&b&cmd=x", "b", 0, &value, &size));
    assert_int_equal(size, 0);
    assert_false(http_query_find("a=1", "c", 0, &value, &size));
    assert_true(http_list_has("keep-alive, Upgrade", "upgrade"));
    assert_true(http_list_has("a;q=1 , b", "a"));
    assert_false(http_list_has("upgraded", "upgrade"));
}

static void without_memory(void **state)
{
    static const char text[] = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";

    (void)state;
    for (size_t n = 1; n < 40; n++) {
        struct http_reader *reader = NULL;
        size_t used;
        int r;

        mem_fail_at(n);
        r = http_reader_new(HTTP_REQUESTS, &small, &reader);
        if (r == 0)
            r = http_reader_feed(reader, text, sizeof(text) - 1, &used, &err);
        mem_fail_at(0);
        http_reader_free(reader);
        if (r == 1)
            return;
        assert_true(r < 0);
    }
    fail();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_in_any_pieces),
        cmocka_unit_test(chunks_and_upgrades),
        cmocka_unit_test(refused),
        cmocka_unit_test(responses),
        cmocka_unit_test(targets),
        cmocka_unit_test(without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
