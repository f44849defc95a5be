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
#include "wire/agent/agent_msg.h"
#include "wire/agent/agent_order.h"
#include "wire/agent/cause.h"

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

static void order_is(struct agent_order order, const char *text)
{
    struct buf out = BUF_INIT(1 << 16);

    agent_order_write(&order, &out);
    assert_int_equal(out.error, 0);
    assert_string_equal(out.data, text);
    buf_done(&out);
}

/* Each order with all it can say, and with no more than it must. */
static void orders_as_text(void **state)
{
    const uint16_t gpus[] = { 0, 3 };
    const struct order_place places[] = { { "n1", "10.0.0.1", gpus, 2, 0 }, { "n2", "", gpus, 0, 1 } };
    struct order_secret secret = { "A", "x\"y" };
    const struct keep_task task = { { 7, 1, 2 }, true, 5 };
    struct agent_order order = { .frame = DOWN_ORDER, .kind = ORDER_LAUNCH, .job = 7, .attempt = 1, .spec = "{}" };

    (void)state;
    order.user = order.vc = order.cluster = "u";
    order_is(order,
             "{\"t\":\"order\",\"do\":\"launch\",\"job\":7,\"attempt\":1,\"rank\":0,\"go\":false,\"born\":0,"
             "\"user\":\"u\",\"uid\":0,\"gid\":0,\"spec\":{},\"place\":[],\"vc\":\"u\",\"cluster\":\"u\",\"port\":0,"
             "\"end\":0,\"resume\":false}");
    order.rank = 1;
    order.go = order.resume = order.gate = order.use = order.idle = order.runtime = true;
    order.opportunistic = order.guest = order.limited = true;
    order.place = places;
    order.place_count = 2;
    order.secrets = &secret;
    order.secret_count = 1;
    order.beside[0] = 9;
    order.beside_count = 1;
    order.memory_mib = 4;
    order.percent = 50;
    order.array_id = 6;
    order.array_index = -1;
    order_is(
        order,
        "{\"t\":\"order\",\"do\":\"launch\",\"job\":7,\"attempt\":1,\"rank\":1,\"go\":true,\"born\":0,\"user\":\"u\","
        "\"uid\":0,\"gid\":0,\"spec\":{},\"secrets\":{\"A\":\"x\\\"y\"},\"place\":[{\"node\":\"n1\",\"address\":"
        "\"10.0.0.1\",\"gpus\":[0,3]},{\"node\":\"n2\",\"address\":\"\",\"gpus\":[],\"part\":1}],\"vc\":\"u\","
        "\"cluster\":\"u\",\"port\":0,\"end\":0,\"resume\":true,\"gate\":true,\"beside\":[9],\"use\":true,\"idle\":"
        "true,"
        "\"runtime\":true,\"class\":\"opportunistic\",\"guest\":true,\"memory_mib\":4,\"percent\":50,"
        "\"array\":{\"id\":6,\"index\":-1}}");
    order.kind = ORDER_GO;
    order_is(order, "{\"t\":\"order\",\"do\":\"go\",\"job\":7,\"attempt\":1,\"beside\":[9]}");
    order.kind = ORDER_LIMIT;
    order_is(order, "{\"t\":\"order\",\"do\":\"limit\",\"job\":7,\"attempt\":1,\"memory_mib\":4,\"percent\":50}");
    order.kind = ORDER_STOP;
    order.stop = "drain";
    order_is(order, "{\"t\":\"order\",\"do\":\"stop\",\"job\":7,\"attempt\":1,\"kind\":\"drain\",\"grace_ms\":0}");
    order.resize = true;
    order.keep_ms = 1;
    order.grace_ms = 2;
    order.by = 3;
    order.signal = 10;
    order_is(order, "{\"t\":\"order\",\"do\":\"stop\",\"job\":7,\"attempt\":1,\"kind\":\"drain\",\"resize\":true,"
                    "\"keep_ms\":1,\"grace_ms\":2,\"by\":3,\"signal\":10}");
    order.kind = ORDER_SIGNAL;
    order_is(order, "{\"t\":\"order\",\"do\":\"signal\",\"job\":7,\"attempt\":1,\"signal\":10}");
    order.kind = ORDER_CLEAN;
    order_is(order, "{\"t\":\"order\",\"do\":\"clean\",\"job\":7,\"attempt\":1}");
    order.kind = ORDER_REBOOT;
    order.boot = "b";
    order_is(order, "{\"t\":\"order\",\"do\":\"reboot\",\"boot\":\"b\"}");
    order_is((struct agent_order){ .frame = DOWN_KEEP, .tasks = &task, .task_count = 1 },
             "{\"t\":\"keep\",\"tasks\":[{\"job\":7,\"attempt\":1,\"rank\":2,\"fresh\":true,\"born\":5}]}");
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

/* Causes are told apart by number; a word that a later agent may say is known to be one. */
static void test_causes(void **state)
{
    (void)state;
    for (int i = 1; i < TASK_CAUSE_OTHER; i++) {
        const char *name = task_cause_name((enum task_cause)i);

        assert_int_equal(task_cause_find(name), i);
        assert_int_equal(stop_cause_find(name), i < STOP_CAUSE_COUNT ? i : STOP_CAUSE_NONE);
    }
    assert_int_equal(task_cause_find("eaten"), TASK_CAUSE_OTHER);
    assert_int_equal(task_cause_find(""), TASK_CAUSE_NONE);
    assert_int_equal(task_cause_find(NULL), TASK_CAUSE_NONE);
    assert_int_equal(stop_cause_find("lost"), STOP_CAUSE_NONE);
    assert_string_equal(stop_cause_name(STOP_CAUSE_NONE), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_causes),
        cmocka_unit_test(words_have_names),
        cmocka_unit_test(orders_as_text),
        cmocka_unit_test(in_any_pieces),
        cmocka_unit_test(lengths_are_judged_at_once),
        cmocka_unit_test(a_large_frame_leaves_no_large_buffer),
        cmocka_unit_test(limits_of_a_writer),
        cmocka_unit_test(memory_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
