/* SPDX-License-Identifier: Apache-2.0 */
/* What the batcher asks of its store, and when: which batches may be synced later, and that nothing an agent is told
 * follows from one that was not. The store here only counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/log/batcher.h"
#include "ctl/state/registry.h"
#include "store/store_ops.h"

static struct {
    struct store store;
    struct batcher *batcher;
    usec_t now;
    size_t hard, lazy, syncs;
    size_t launches, acks, early; /* orders; those that came while something was not synced */
    uint64_t reports;
    void (*work)(void *), (*done)(void *); /* given to the worker */
    void *work_arg;
} scene;

static int commit_fn(struct store *store, const struct store_write *write, struct error *err)
{
    (void)store;
    (void)err;
    *(write->lazy ? &scene.lazy : &scene.hard) += 1;
    return 0;
}

static int sync_fn(struct store *store, struct error *err)
{
    (void)store;
    (void)err;
    scene.syncs++;
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

static void turn(void)
{
    batcher_turn(scene.batcher);
    while (scene.work) {
        void (*work)(void *) = scene.work;

        scene.work = NULL;
        work(scene.work_arg);
        scene.done(scene.work_arg);
    }
}

static bool alone_fn(void *arg)
{
    (void)arg;
    return true;
}

static void wake_fn(void *arg, usec_t at)
{
    (void)arg;
    (void)at;
}

static bool order_fn(void *arg, const char *node, const struct agent_frame *frame)
{
    json_t *tree = json_loadb(frame->text, frame->size, JSON_REJECT_DUPLICATES, NULL);

    (void)arg;
    (void)node;
    assert_string_equal(json_string_value(json_object_get(tree, "t")), agent_down_name(frame->kind));
    scene.acks += frame->kind == DOWN_ACK;
    if (frame->kind == DOWN_WELCOME)
        assert_int_equal(json_integer_value(json_object_get(tree, "v")), AGENT_PROTOCOL);
    if (frame->kind == DOWN_WELCOME)
        assert_int_equal(json_integer_value(json_object_get(tree, "beat_ms")), 7000);
    json_decref(tree);
    if (frame->kind == DOWN_ORDER && frame->order == ORDER_LAUNCH) {
        scene.launches++;
        scene.early += batcher_behind(scene.batcher);
    }
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

static void hello(int64_t lease_ms)
{
    json_t *frame = json_pack("{s:s, s:s, s:s, s:s, s:{s:s, s:[{s:i}]}}", "t", "hello", "agent", "a1", "boot", "b1",
                              "address", "127.0.0.1", "inventory", "sku", "H100", "gpus", "index", 0);
    struct error err = { 0 };

    if (lease_ms >= 0)
        (void)json_object_set_new(frame, "lease_ms", json_integer(lease_ms));
    assert_int_equal(batcher_agent_hello(scene.batcher, "n0", frame, &err), 0);
    json_decref(frame);
    turn();
}

static int begin(bool lease_ends)
{
    static const struct store_ops ops = { .name = "counts", .commit = commit_fn, .sync = sync_fn, .load = load_fn };
    static const struct batcher_host host = { .now = now_fn,
                                              .work = work_fn,
                                              .alone = alone_fn,
                                              .settles = true,
                                              .wake_at = wake_fn,
                                              .order = order_fn,
                                              .event = event_fn,
                                              .fatal = fatal_fn };
    struct batcher_config config = { .ctl = { .cluster = "test",
                                              .policy = "fifo",
                                              .jobs_max = 64,
                                              .finished_keep = 10,
                                              .lease = 60 * USEC_SEC,
                                              .lease_ends = lease_ends,
                                              .node_timeout = 30 * USEC_SEC,
                                              .beat = 7 * USEC_SEC,
                                              .grace = USEC_SEC },
                                     .pending_max = 100 };
    struct error err = { 0 };

    memset(&scene, 0, sizeof(scene));
    scene.now = 1000 * USEC_SEC;
    scene.store.ops = &ops;
    assert_int_equal(batcher_new(&config, &host, &scene.store, &scene.batcher, &err), 0);
    return 0;
}

static int setup(void **state)
{
    (void)state;
    (void)begin(true);
    hello(-1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    batcher_free(scene.batcher);
    return 0;
}

static void done_fn(void *arg, const struct entry_result *result)
{
    *(int64_t *)arg = result->id;
}

static int64_t submit(void)
{
    json_t *body = json_pack("{s:{s:s, s:i, s:[s]}, s:s, s:i, s:i}", "spec", "name", "a", "gpus", 1, "args", "true",
                             "user", "ann", "uid", 1, "gid", 1);
    struct entry_result ret = { 0 };
    int64_t id = 0;
    int r;

    scene.now += USEC_MSEC;
    r = batcher_offer_json(scene.batcher, ENTRY_SUBMIT, body, done_fn, &id, &ret);

    if (r < 0)
        fail_msg("%s", ret.text.text);
    turn();
    return id;
}

static void report(int64_t job, const char *what)
{
    json_t *frame = json_pack("{s:s, s:I, s:I, s:i, s:i, s:s, s:s, s:i, s:i}", "t", "report", "seq",
                              (json_int_t)++scene.reports, "job", (json_int_t)job, "attempt", 0, "rank", 0, "state",
                              what, "cause", "exit", "exit", 0, "signal", 0);
    struct error err = { 0 };

    scene.now += USEC_MSEC;
    assert_int_equal(batcher_agent_frame(scene.batcher, "n0", frame, &err), 0);
    json_decref(frame);
    turn();
}

static enum phase_of_job phase_of(int64_t job)
{
    return registry_find(ctl_registry(batcher_ctl(scene.batcher)), job)->phase;
}

/* What an agent of the first release says, with what a newer one may add; and what one says that is too old. */
static void test_versions(void **state)
{
    static const char *const hellos[] = {
        "{\"t\":\"hello\",\"node\":\"n1\",\"agent\":\"a1\",\"boot\":\"b1\",\"address\":\"127.0.0.1\",\"inventory\":"
        "{\"sku\":\"H100\",\"gpus\":[{\"index\":0}]}}",
        "{\"t\":\"hello\",\"v\":1,\"node\":\"n1\",\"agent\":\"a1\",\"boot\":\"b1\",\"address\":\"127.0.0.1\","
        "\"version\":"
        "\"0.1.0\",\"inventory\":{\"sku\":\"H100\",\"gpus\":[{\"index\":0}]},\"tasks\":[],\"seq\":0}",
        "{\"t\":\"hello\",\"v\":2,\"new\":{\"of\":[2]},\"node\":\"n1\",\"agent\":\"a1\",\"boot\":\"b1\",\"address\":"
        "\"127.0.0.1\",\"inventory\":{\"sku\":\"H100\",\"new\":1,\"gpus\":[{\"index\":0,\"new\":true}]}}",
    };
    struct error err = { 0 };
    json_t *frame;

    (void)state;
    for (size_t i = 0; i < sizeof(hellos) / sizeof(*hellos); i++) {
        frame = json_loads(hellos[i], 0, NULL);
        assert_int_equal(batcher_agent_hello(scene.batcher, "n1", frame, &err), 0);
        json_decref(frame);
        turn();
        assert_true(registry_node_find(ctl_registry(batcher_ctl(scene.batcher)), "n1")->joined);
    }
    frame = json_loads(
        "{\"t\":\"report\",\"seq\":1,\"new\":[1],\"gpu\":{\"index\":0,\"ok\":false,\"reason\":\"x\",\"new\":1}}", 0,
        NULL);
    assert_int_equal(batcher_agent_frame(scene.batcher, "n1", frame, &err), 0);
    json_decref(frame);
    turn();
    assert_false(registry_node_find(ctl_registry(batcher_ctl(scene.batcher)), "n1")->gpus[0].ok);
    frame = json_pack("{s:s, s:i, s:s}", "t", "hello", "v", 0, "agent", "a1");
    assert_int_equal(batcher_agent_hello(scene.batcher, "n2", frame, &err), -EPROTONOSUPPORT);
    assert_non_null(strstr(err.text, "upgrade the agent"));
    json_decref(frame);
}

/* An end is shown when it is written; it is synced when the acknowledgement is to go, or with the next submission. */
static void test_end_later(void **state)
{
    int64_t job = submit();
    size_t hard = scene.hard;

    (void)state;
    assert_int_equal(scene.launches, 1);
    report(job, "running");
    report(job, "exited");
    assert_int_equal(phase_of(job), PHASE_JOB_COMPLETED);
    assert_int_equal(scene.hard, hard);
    assert_int_equal(scene.lazy, 2);
    assert_int_equal(scene.acks, 2);
    assert_int_equal(scene.syncs, 0);
    assert_true(batcher_behind(scene.batcher));
    assert_true(batcher_settled(scene.batcher));
    assert_false(batcher_behind(scene.batcher));
    assert_int_equal(scene.syncs, 1);

    job = submit();
    report(job, "exited");
    assert_true(batcher_behind(scene.batcher));
    (void)submit();
    assert_false(batcher_behind(scene.batcher));
    assert_int_equal(scene.syncs, 1);
    assert_int_equal(scene.early, 0);
}

/* What starts because another ended is an order: the host hears that it has to wait for the disk. */
static void test_order_waits(void **state)
{
    int64_t first = submit(), second = submit();

    (void)state;
    assert_int_equal(scene.launches, 1);
    report(first, "running");
    report(first, "exited");
    assert_int_equal(phase_of(first), PHASE_JOB_COMPLETED);
    assert_int_equal(scene.launches, 2);
    assert_int_equal(scene.early, 1);
    batcher_settle(scene.batcher);
    assert_int_equal(scene.syncs, 1);
    assert_false(batcher_behind(scene.batcher));
    report(second, "exited");
    batcher_agent_gone(scene.batcher, "n0"); /* it will not be acknowledged */
    assert_false(batcher_behind(scene.batcher));
    assert_int_equal(scene.syncs, 2);
}

/* Nothing is heard for so long; whether the node is lost then, and was not a moment before. */
static bool lost_after(usec_t span)
{
    const struct ctl_node *node = ctl_registry(batcher_ctl(scene.batcher))->nodes;
    usec_t until = scene.now + span;
    bool early = false;

    while (scene.now < until) {
        early = node->lost;
        scene.now += until - scene.now < USEC_SEC ? until - scene.now : USEC_SEC;
        turn();
    }
    return node->lost && !early;
}

static void beat(int64_t lease_ms)
{
    json_t *frame = json_pack("{s:s, s:i, s:I}", "t", "beat", "n", 1, "lease_ms", (json_int_t)lease_ms);
    struct error err = { 0 };

    assert_int_equal(batcher_agent_frame(scene.batcher, "n0", frame, &err), 0);
    json_decref(frame);
    turn();
}

/* Agents that do not say have the lease they are told. */
static void test_lease_old(void **state)
{
    (void)state;
    assert_true(lost_after(77 * USEC_SEC));
}

/* One that had none is believed when it says that it has one now. */
static void test_lease_new(void **state)
{
    (void)state;
    (void)begin(true);
    hello(0);
    (void)lost_after(1000 * USEC_SEC);
    assert_false(ctl_registry(batcher_ctl(scene.batcher))->nodes->lost);
    beat(1000); /* another than it was told */
    (void)lost_after(1000 * USEC_SEC);
    assert_false(ctl_registry(batcher_ctl(scene.batcher))->nodes->lost);
    beat(60000);
    assert_true(lost_after(77 * USEC_SEC));
}

/* Nor is one that becomes shorter relied on before. */
static void test_lease_shorter(void **state)
{
    (void)state;
    (void)begin(true);
    hello(600000);
    assert_true(lost_after(752 * USEC_SEC));
    hello(600000);
    beat(60000);
    assert_true(lost_after(77 * USEC_SEC));
}

/* Without leases silence alone loses no node. */
static void test_lease_none(void **state)
{
    (void)state;
    (void)begin(false);
    hello(1);
    beat(0);
    (void)lost_after(2000 * USEC_SEC);
    assert_false(ctl_registry(batcher_ctl(scene.batcher))->nodes->lost);
    assert_true(ctl_registry(batcher_ctl(scene.batcher))->nodes->silent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_versions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_end_later, setup, teardown),
        cmocka_unit_test_setup_teardown(test_order_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lease_old, setup, teardown),
        cmocka_unit_test_teardown(test_lease_new, teardown),
        cmocka_unit_test_teardown(test_lease_shorter, teardown),
        cmocka_unit_test_teardown(test_lease_none, teardown),
    };

    return cmocka_run_group_tests_name("batcher", tests, NULL, NULL);
}
