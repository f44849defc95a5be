/* SPDX-License-Identifier: Apache-2.0 */
/* What one batch takes of all that was put aside: a bounded part, agents first, then people by turns; what is asked of
 * an array is asked of its elements and answered when all have had it. The store only counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ctl/log/batcher.h"
#include "ctl/state/registry.h"
#include "store/store_ops.h"

enum { MANY = 5000, ONE_TURN = 1000, ASKED_MAX = 8000 };

static struct {
    struct store store;
    struct batcher *batcher;
    usec_t now;
    size_t commits, most; /* batches; entries of the largest */
    uint64_t reports;
    void (*work)(void *), (*done)(void *); /* given to the worker */
    void *work_arg;
} scene;

static int commit_fn(struct store *store, const struct store_write *write, struct error *err)
{
    struct entry *entries;
    size_t count;
    usec_t at;

    (void)store;
    if (!write->batch_size)
        return 0;
    assert_int_equal(batch_decode(write->batch, write->batch_size, &at, &entries, &count, err), 0);
    entries_free(entries, count);
    scene.commits++;
    scene.most = count > scene.most ? count : scene.most;
    return 0;
}

static int sync_fn(struct store *store, struct error *err)
{
    (void)store;
    (void)err;
    return 0;
}

static int load_fn(struct store *store, store_batch_fn snapshot, store_batch_fn batch, void *arg, struct error *err)
{
    (void)store;
    (void)snapshot;
    (void)batch;
    (void)arg;
    (void)err;
    return 0;
}

static usec_t now_fn(void *arg)
{
    (void)arg;
    return scene.now;
}

static int work_fn(void *arg, void (*work)(void *), void (*done)(void *), void *work_arg)
{
    (void)arg;
    scene.work = work;
    scene.done = done;
    scene.work_arg = work_arg;
    return 0;
}

/* One batch. */
static void turn(void)
{
    scene.now += USEC_MSEC;
    if (!scene.work)
        batcher_turn(scene.batcher);
    if (scene.work) {
        void (*work)(void *) = scene.work;

        scene.work = NULL;
        work(scene.work_arg);
        scene.done(scene.work_arg); /* the next is on its way then */
    }
}

static void wake_fn(void *arg, usec_t at)
{
    (void)arg;
    (void)at;
}

static bool order_fn(void *arg, const char *node, const struct agent_frame *frame)
{
    (void)arg;
    (void)node;
    (void)frame;
    return true;
}

static void event_fn(void *arg, const struct ctl_event *event)
{
    (void)arg;
    (void)event;
}

static void fatal_fn(void *arg, const struct error *err)
{
    (void)arg;
    fail_msg("%s", err->text);
}

static void turn_until(const size_t *count, size_t want)
{
    for (int i = 0; *count < want && i < 1000; i++)
        turn();
    assert_int_equal(*count, want);
}

static int setup(void **state)
{
    static const struct store_ops ops = { .name = "counts", .commit = commit_fn, .sync = sync_fn, .load = load_fn };
    static const struct batcher_host host = {
        .now = now_fn, .work = work_fn, .wake_at = wake_fn, .order = order_fn, .event = event_fn, .fatal = fatal_fn
    };
    struct batcher_config config = { .ctl = { .cluster = "test",
                                              .policy = "fifo",
                                              .jobs_max = 20000,
                                              .finished_keep = 10,
                                              .lease = 60 * USEC_SEC,
                                              .node_timeout = 30 * USEC_SEC,
                                              .beat = 7 * USEC_SEC,
                                              .grace = USEC_SEC },
                                     .pending_max = 20000 };
    struct error err = { 0 };
    json_t *hello = json_pack("{s:s, s:s, s:s, s:s, s:{s:s, s:[{s:i}]}}", "t", "hello", "agent", "a1", "boot", "b1",
                              "address", "127.0.0.1", "inventory", "sku", "H100", "gpus", "index", 0);

    (void)state;
    memset(&scene, 0, sizeof(scene));
    scene.now = 1000 * USEC_SEC;
    scene.store.ops = &ops;
    assert_int_equal(batcher_new(&config, &host, &scene.store, &scene.batcher, &err), 0);
    assert_int_equal(batcher_agent_hello(scene.batcher, "n0", hello, &err), 0);
    json_decref(hello);
    turn();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    batcher_free(scene.batcher);
    return 0;
}

/* What became of something that was asked. */
struct asked {
    size_t *count;
    size_t commits; /* batches by then */
    int code;
    int64_t id;
};

static void done_fn(void *arg, const struct entry_result *result)
{
    struct asked *asked = arg;

    asked->commits = scene.commits;
    asked->code = result->code;
    asked->id = result->id;
    ++*asked->count;
}

static void submit(const char *user, size_t elements, struct asked *asked)
{
    char text[160] = "{\"run\":\"true\",\"gpus\":1,\"hold\":true}";
    struct entry entry = { .kind = ENTRY_SUBMIT, .submit = { .uid = 1, .gid = 1 } };
    struct entry_result ret = { 0 };

    if (elements)
        (void)snprintf(text, sizeof(text), "{\"run\":\"true\",\"gpus\":1,\"hold\":true,\"array\":\"1-%zu\"}", elements);
    entry.submit.user = entry_text(user);
    entry.submit.spec = entry_text(text);
    if (batcher_offer(scene.batcher, &entry, done_fn, asked, &ret) < 0)
        fail_msg("%s", ret.text.text);
}

static void act(enum entry_kind kind, int64_t job, const char *by, struct asked *asked)
{
    struct entry entry = entry_of_job(kind, job, by);
    struct entry_result ret = { 0 };

    if (batcher_offer(scene.batcher, &entry, done_fn, asked, &ret) < 0)
        fail_msg("%s", ret.text.text);
}

static size_t live(void)
{
    return ctl_registry(batcher_ctl(scene.batcher))->live_count;
}

/* One who has an array cancelled, and one who asks for little: the second is answered by the next batch. */
static void test_array_in_parts(void **state)
{
    size_t made = 0, over = 0, small = 0;
    struct asked array = { .count = &made }, cancelled = { .count = &over }, other = { .count = &small };

    (void)state;
    submit("ann", MANY, &array);
    turn_until(&made, 1);
    scene.commits = scene.most = 0;
    act(ENTRY_CANCEL, array.id, "ann", &cancelled);
    submit("bob", 0, &other);
    turn_until(&small, 1);
    assert_int_equal(other.code, 0);
    assert_int_equal(other.commits, 1);
    assert_int_equal(over, 0);
    turn_until(&over, 1);
    assert_int_equal(cancelled.code, 0);
    assert_int_equal(live(), 1); /* bob's */
    assert_true(scene.most <= ONE_TURN + 1);
    assert_true(scene.commits >= MANY / ONE_TURN);

    /* Asked again, there is nothing left. */
    act(ENTRY_CANCEL, other.id, "bob", &other);
    turn_until(&small, 2);
    assert_int_equal(live(), 0);
}

/* Acts that some elements refuse are well when others do not; when all do, the first refusal is told. */
static void test_array_refuses(void **state)
{
    size_t made = 0, over = 0;
    struct asked array = { .count = &made }, act_on = { .count = &over };

    (void)state;
    submit("ann", MANY, &array);
    turn_until(&made, 1);
    act(ENTRY_SUSPEND, array.id, "ann", &act_on);
    turn_until(&over, 1);
    assert_int_equal(act_on.code, -EALREADY);
    act(ENTRY_RELEASE, array.id, "ann", &act_on);
    turn_until(&over, 2);
    assert_int_equal(act_on.code, 0);
    act(ENTRY_HOLD, array.id, "ann", &act_on); /* one of them has started */
    turn_until(&over, 3);
    assert_int_equal(act_on.code, 0);
}

/* Two who ask much, one long before the other, are served alike; and each in the order in which they asked. */
static void test_turns(void **state)
{
    static struct asked asked[2][ASKED_MAX];
    size_t made = 0, over[2] = { 0 };
    struct asked array = { .count = &made };

    (void)state;
    submit("ann", MANY, &array);
    turn_until(&made, 1);
    for (int user = 0; user < 2; user++)
        for (int i = 0; i < MANY; i++) {
            asked[user][i].count = &over[user];
            act(i % 2 ? ENTRY_RELEASE : ENTRY_HOLD, array.id + 1 + i, user ? "ann" : "bob", &asked[user][i]);
        }
    assert_int_equal(batcher_pending_of(scene.batcher, "ann"), MANY);
    assert_int_equal(batcher_pending_of(scene.batcher, "eve"), 0);
    turn();
    assert_int_equal(over[0], ONE_TURN / 2);
    assert_int_equal(over[1], ONE_TURN / 2);
    turn_until(&over[0], MANY);
    turn_until(&over[1], MANY);
    for (int user = 0; user < 2; user++)
        for (int i = 1; i < MANY; i++)
            assert_true(asked[user][i].commits >= asked[user][i - 1].commits);
    assert_int_equal(batcher_pending_of(scene.batcher, "ann"), 0);
}

/* What agents tell is in the next batch, whatever people ask. */
static void test_agents_first(void **state)
{
    static struct asked asked[ASKED_MAX];
    size_t made = 0, over = 0;
    struct asked array = { .count = &made };
    struct error err = { 0 };
    json_t *frame;

    (void)state;
    submit("ann", MANY, &array);
    turn_until(&made, 1);
    for (int i = 0; i < MANY; i++) {
        asked[i].count = &over;
        act(ENTRY_HOLD, array.id + 1 + i, "ann", &asked[i]);
    }
    frame = json_pack("{s:s, s:I, s:{s:i, s:b, s:s}}", "t", "report", "seq", (json_int_t)++scene.reports, "gpu",
                      "index", 0, "ok", 0, "reason", "x");
    assert_int_equal(batcher_agent_frame(scene.batcher, "n0", frame, &err), 0);
    json_decref(frame);
    turn();
    assert_false(ctl_registry(batcher_ctl(scene.batcher))->nodes[0].gpus[0].ok);
    assert_int_equal(over, ONE_TURN);
    turn_until(&over, MANY);
}

/* The last act takes all of it. */
static void test_close(void **state)
{
    size_t made = 0, over = 0;
    struct asked array = { .count = &made }, cancelled = { .count = &over };
    struct error err = { 0 };

    (void)state;
    submit("ann", MANY, &array);
    turn_until(&made, 1);
    act(ENTRY_CANCEL, array.id, "ann", &cancelled);
    assert_int_equal(batcher_close(scene.batcher, &err), 0);
    assert_int_equal(over, 1);
    assert_int_equal(live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_array_in_parts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_array_refuses, setup, teardown),
        cmocka_unit_test_setup_teardown(test_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(test_agents_first, setup, teardown),
        cmocka_unit_test_setup_teardown(test_close, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
