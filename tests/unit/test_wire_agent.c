/* SPDX-License-Identifier: Apache-2.0 */
/* Frames between controller and agent: whole, in pieces, several at once, and lengths nobody may believe. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "wire/agent_msg.h"

static struct error err;

static void words_have_names(void **state)
{
    (void)state;
    for (int i = 0; i < TASK_STATE_COUNT; i++)
        assert_int_equal(task_state_find(task_state_name((enum task_state)i)), i);
    for (int i = 0; i < ORDER_COUNT; i++)
        assert_int_equal(order_find(order_name((enum order_kind)i)), i);
    for (int i = 0; i < UP_COUNT; i++)
        assert_int_equal(agent_up_find(agent_up_name((enum agent_up)i)), i);
    for (int i = 0; i < DOWN_COUNT; i++)
        assert_int_equal(agent_down_find(agent_down_name((enum agent_down)i)), i);
    assert_int_equal(task_state_find("Running"), -ENOENT);
    assert_int_equal(order_find(NULL), -ENOENT);
    assert_string_equal(task_state_name(TASK_STATE_COUNT), "unknown");
}

static void next_is(struct frame_reader *reader, const char *text)
{
    const char *data = NULL;
    size_t size = 0;

    assert_int_equal(frame_reader_next(reader, &data, &size, &err), text ? 1 : 0);
    if (text) {
        assert_int_equal(size, strlen(text));
        assert_memory_equal(data, text, size);
    }
}

static void in_any_pieces(void **state)
{
    struct buf out = BUF_INIT(1000);
    struct frame_reader reader;

    (void)state;
    assert_int_equal(frame_write(&out, "{\"t\":\"a\"}", 9, &err), 0);
    assert_int_equal(frame_write(&out, "{}", 2, &err), 0);
    assert_memory_equal(out.data, "\0\0\0\x09{", 5);
    for (size_t piece = 1; piece <= out.size; piece++) {
        char got[64] = "";

        frame_reader_init(&reader, 100);
        for (size_t at = 0; at < out.size; at += piece) {
            const char *data;
            size_t size;

            assert_int_equal(
                frame_reader_feed(&reader, out.data + at, at + piece > out.size ? out.size - at : piece, &err), 0);
            while (frame_reader_next(&reader, &data, &size, &err) == 1)
                strncat(strncat(got, data, size), "|", 2);
        }
        assert_string_equal(got, "{\"t\":\"a\"}|{}|");
        next_is(&reader, NULL);
        frame_reader_done(&reader);
    }
    buf_done(&out);
}

static void lengths_are_judged_at_once(void **state)
{
    struct frame_reader reader;
    const char *data;
    size_t size;

    (void)state;
    frame_reader_init(&reader, 10);
    assert_int_equal(frame_reader_feed(&reader, "\xff\xff\xff", 3, &err), 0);
    assert_int_equal(frame_reader_feed(&reader, "\xff", 1, &err), -EMSGSIZE);
    assert_string_equal(err.text, "frame of 4294967295 bytes, the limit is 10");
    assert_int_equal(frame_reader_next(&reader, &data, &size, &err), -EMSGSIZE);
    frame_reader_done(&reader);

    /* A good frame before a bad length is still taken. */
    frame_reader_init(&reader, 10);
    assert_int_equal(frame_reader_feed(&reader, "\0\0\0\2{}\0\0\0\xb", 10, &err), 0);
    next_is(&reader, "{}");
    assert_int_equal(frame_reader_next(&reader, &data, &size, &err), -EMSGSIZE);
    frame_reader_done(&reader);

    frame_reader_init(&reader, 10);
    assert_int_equal(frame_reader_feed(&reader, "\0\0\0\0", 4, &err), -EBADMSG);
    frame_reader_done(&reader);
}

static void a_large_frame_leaves_no_large_buffer(void **state)
{
    struct frame_reader reader;
    size_t total = 3 << 20;
    char *text = mem_zalloc(total, 1);
    const char *data;
    size_t size;

    (void)state;
    frame_reader_init(&reader, FRAME_BYTES_MAX);
    assert_int_equal(frame_reader_feed(&reader, "\0\x30\0\0", 4, &err), 0);
    for (size_t at = 0; at < total; at += 1 << 20)
        assert_int_equal(frame_reader_feed(&reader, text + at, 1 << 20, &err), 0);
    assert_int_equal(frame_reader_next(&reader, &data, &size, &err), 1);
    assert_int_equal(size, total);
    assert_int_equal(frame_reader_feed(&reader, "\0", 1, &err), 0);
    assert_true(reader.buf.capacity < 1 << 16);
    frame_reader_done(&reader);
    mem_free(text);
}

static void limits_of_a_writer(void **state)
{
    struct buf out = BUF_INIT(8);

    (void)state;
    assert_int_equal(frame_write(&out, "", 0, &err), -EMSGSIZE);
    assert_int_equal(frame_write(&out, "x", (size_t)FRAME_BYTES_MAX + 1, &err), -EMSGSIZE);
    assert_int_equal(frame_write(&out, "12345", 5, &err), -E2BIG);
    assert_int_equal(out.size, 0);
    assert_int_equal(frame_write(&out, "1234", 4, &err), 0);
    assert_int_equal(frame_write(&out, "1", 1, &err), -E2BIG);
    assert_int_equal(out.size, 8);
    assert_memory_equal(out.data,
                        "\0\0\0\4"
                        "1234",
                        9);
    buf_done(&out);
}

static void memory_fails(void **state)
{
    struct frame_reader reader;

    (void)state;
    frame_reader_init(&reader, 100);
    mem_fail_at(1);
    assert_int_equal(frame_reader_feed(&reader, "\0\0\0\2{}", 6, &err), -ENOMEM);
    mem_fail_at(0);
    assert_int_equal(frame_reader_feed(&reader, "\0\0\0\2{}", 6, &err), 0);
    next_is(&reader, "{}");
    frame_reader_done(&reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_have_names),           cmocka_unit_test(in_any_pieces),
        cmocka_unit_test(lengths_are_judged_at_once), cmocka_unit_test(a_large_frame_leaves_no_large_buffer),
        cmocka_unit_test(limits_of_a_writer),         cmocka_unit_test(memory_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
