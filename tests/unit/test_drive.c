/* SPDX-License-Identifier: Apache-2.0 */
/* What the drive asks of its store, and when: which batches may be synced later, and that nothing an agent is told
 * follows from one that was not. The store here only counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/book.h"
#include "ctl/drive.h"
#include "store/store_ops.h"

static struct {
    struct store store;
    struct drive *drive;
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
    drive_turn(scene.drive);
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

static bool order_fn(void *arg, const char *node, json_t *frame)
{
    const char *kind = json_string_value(json_object_get(frame, "t"));
    const char *order = json_string_value(json_object_get(frame, "do"));

    (void)arg;
    (void)node;
    scene.acks += strcmp(kind, "ack") == 0;
    if (strcmp(kind, "welcome") == 0)
        assert_int_equal(json_integer_value(json_object_get(frame, "beat_ms")), 7000);
    if (order && strcmp(order, "launch") == 0) {
        scene.launches++;
        scene.early += drive_behind(scene.drive);
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

static int setup(void **state)
{
    static const struct store_ops ops = { .name = "counts", .commit = commit_fn, .sync = sync_fn, .load = load_fn };
    static const struct drive_host host = { .now = now_fn,
                                            .work = work_fn,
                                            .alone = alone_fn,
                                            .settles = true,
                                            .wake_at = wake_fn,
                                            .order = order_fn,
                                            .event = event_fn,
                                            .fatal = fatal_fn };
    struct drive_config config = { .ctl = { .cluster = "test",
                                            .policy = "fifo",
                                            .jobs_max = 64,
                                            .finished_keep = 10,
                                            .lease = 60 * USEC_SEC,
                                            .node_timeout = 30 * USEC_SEC,
                                            .beat = 7 * USEC_SEC,
                                            .grace = USEC_SEC },
                                   .pending_max = 100 };
    struct error err = { 0 };
    json_t *hello = json_pack("{s:s, s:s, s:s, s:s, s:{s:s, s:[{s:i}]}}", "t", "hello", "agent", "a1", "boot", "b1",
                              "address", "127.0.0.1", "inventory", "sku", "H100", "gpus", "index", 0);

    (void)state;
    memset(&scene, 0, sizeof(scene));
    scene.now = 1000 * USEC_SEC;
    scene.store.ops = &ops;
    assert_int_equal(drive_new(&config, &host, &scene.store, &scene.drive, &err), 0);
    assert_int_equal(drive_agent_hello(scene.drive, "n0", hello, &err), 0);
    json_decref(hello);
    turn();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    drive_free(scene.drive);
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
    r = drive_offer(scene.drive, ENTRY_SUBMIT, body, done_fn, &id, &ret);

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
    assert_int_equal(drive_agent_frame(scene.drive, "n0", frame, &err), 0);
    json_decref(frame);
    turn();
}

static enum phase_of_job phase_of(int64_t job)
{
    return book_find(ctl_book(drive_ctl(scene.drive)), job)->phase;
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
    assert_true(drive_behind(scene.drive));
    assert_true(drive_settled(scene.drive));
    assert_false(drive_behind(scene.drive));
    assert_int_equal(scene.syncs, 1);

    job = submit();
    report(job, "exited");
    assert_true(drive_behind(scene.drive));
    (void)submit();
    assert_false(drive_behind(scene.drive));
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
    drive_settle(scene.drive);
    assert_int_equal(scene.syncs, 1);
    assert_false(drive_behind(scene.drive));
    report(second, "exited");
    drive_agent_gone(scene.drive, "n0"); /* it will not be acknowledged */
    assert_false(drive_behind(scene.drive));
    assert_int_equal(scene.syncs, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_end_later, setup, teardown),
        cmocka_unit_test_setup_teardown(test_order_waits, setup, teardown),
    };

    return cmocka_run_group_tests_name("drive", tests, NULL, NULL);
}
