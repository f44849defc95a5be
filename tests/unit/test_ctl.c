/* SPDX-License-Identifier: Apache-2.0 */
/* The controller without sockets: jobs come, start, end, are stopped; nodes come and go; restarts forget nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/state/snapshot.h"
#include "ctl_play.h"

static struct play *play_new(const char *policy)
{
    struct play *play = malloc(sizeof(*play));

    assert_non_null(play);
    play_init(play, policy);
    return play;
}

static void play_free(struct play *play)
{
    play_done(play);
    free(play);
}

#define STATE(job, text) assert_string_equal(play_state(play, job), text)

static const char one[] = "{\"name\":\"a\",\"gpus\":1,\"args\":[\"true\"]}";

static void test_life(void **state)
{
    struct play *play = play_new("fifo-skip");
    struct entry_result ret;
    int64_t id;

    (void)state;
    assert_int_equal(play_submit(play, one, &ret), -ERANGE); /* nobody has joined */
    play_join(play, "n0", 2);
    id = play_submit(play, one, &ret);
    assert_int_equal(id, 1);
    STATE(id, "RUNNING");
    play_exit(play, id, 0, 0, 0);
    STATE(id, "COMPLETED");
    id = play_submit(play, one, NULL);
    play_exit(play, id, 0, 3, 0);
    STATE(id, "FAILED");
    assert_int_equal(play_submit(play, "{\"gpus\":1,\"colour\":\"red\"}", &ret), -EINVAL);
    assert_non_null(strstr(ret.text.text, "colour"));
    assert_int_equal(play_submit(play, "{\"gpus\":9,\"args\":[\"x\"]}", &ret), -ERANGE);
    assert_non_null(strstr(ret.reason, "Infeasible"));
    play_free(play);
}

/* What a node tells in one report is what it would have told in two. */
static void test_moment(void **state)
{
    struct ctl_job job[2];
    struct ctl_task task[2];

    (void)state;
    for (int once = 0; once < 2; once++) {
        struct play *play = play_new("fifo-skip");
        const struct ctl_job *found;
        int64_t id;

        play_join(play, "n0", 2);
        play->at_once = once;
        id = play_submit(play, one, NULL);
        if (!once)
            play_exit(play, id, 0, 0, 0);
        STATE(id, "COMPLETED");
        found = registry_find(ctl_registry(batcher_ctl(play->batcher)), id);
        assert_non_null(found);
        job[once] = *found;
        task[once] = found->attempts[0].tasks[0];
        play_free(play);
    }
    assert_true(task[0].started > 0);
    assert_int_equal(task[0].started, task[1].started);
    assert_int_equal(task[0].ended, task[1].ended);
    assert_int_equal(job[0].version, job[1].version);
    assert_int_equal(job[0].first_start, job[1].first_start);
    assert_int_equal(job[0].end, job[1].end);
    assert_int_equal(job[0].exit, job[1].exit);
}

/* Who shares GPUs, or leaves them while it lives, runs under the GPU runtime; nobody else has its library. */
static void test_runtime(void **state)
{
    static const struct {
        const char *policy, *job;
        bool runtime;
    } cases[] = {
        { "fifo-skip", "{\"gpus\":1,\"args\":[\"x\"]}", false },
        { "fifo-skip", "{\"gpus\":0.5,\"args\":[\"x\"]}", true },
        { "las", "{\"gpus\":1,\"args\":[\"x\"]}", false },
        { "antman", "{\"gpus\":1,\"args\":[\"x\"]}", true },
        { "gandiva", "{\"gpus\":1,\"args\":[\"x\"]}", true },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct play *play = play_new(cases[i].policy);

        play_join(play, "n0", 4);
        (void)play_submit(play, cases[i].job, NULL);
        assert_int_equal(play->task_count, 1);
        assert_int_equal(play->tasks[0].runtime, cases[i].runtime);
        play_free(play);
    }
}

static void test_gang(void **state)
{
    struct play *play = play_new("fifo-skip");
    int64_t a, b;

    (void)state;
    play_join(play, "n0", 4);
    play_join(play, "n1", 4);
    a = play_submit(play, "{\"nodes\":2,\"per_node\":{\"gpu\":4},\"launch\":\"node\",\"args\":[\"x\"]}", NULL);
    STATE(a, "RUNNING");
    b = play_submit(play, one, NULL);
    STATE(b, "PENDING InsufficientGpus");
    /* One rank ends well: the others go on. Then it is over. */
    play_exit(play, a, 0, 0, 0);
    STATE(a, "RUNNING");
    play_exit(play, a, 1, 0, 0);
    STATE(a, "COMPLETED");
    STATE(b, "RUNNING");
    play_exit(play, b, 0, 0, 0);
    /* One rank fails: the gang ends. */
    a = play_submit(play, "{\"nodes\":2,\"per_node\":{\"gpu\":4},\"launch\":\"node\",\"args\":[\"x\"]}", NULL);
    play_exit(play, a, 1, 7, 0);
    STATE(a, "FAILED");
    assert_int_equal(registry_find(ctl_registry(batcher_ctl(play->batcher)), a)->exit, 7);
    play_free(play);
}

/* A rank that has ended before the others say that they run keeps nobody from being so, nor from being suspended. */
static void test_gang_brief(void **state)
{
    struct play *play = play_new("fifo-skip");
    char body[32];
    int64_t job;

    (void)state;
    play_join(play, "n0", 4);
    play_join(play, "n1", 4);
    play->brief = true;
    job = play_submit(play, "{\"nodes\":2,\"per_node\":{\"gpu\":4},\"launch\":\"node\",\"args\":[\"x\"]}", NULL);
    STATE(job, "RUNNING");
    (void)snprintf(body, sizeof(body), "{\"job\":%d}", (int)job);
    assert_int_equal(play_offer(play, ENTRY_SUSPEND, body, NULL), 0);
    play_settle(play);
    STATE(job, "SUSPENDED");
    assert_int_equal(play_offer(play, ENTRY_RESUME, body, NULL), 0);
    play_settle(play);
    STATE(job, "RUNNING");
    play_exit(play, job, 1, 0, 0);
    STATE(job, "COMPLETED");
    play_free(play);
}

static void test_gates(void **state)
{
    struct play *play = play_new("fifo-skip");
    struct entry_result ret;
    int64_t a, b, c, d, array;
    char text[256];

    (void)state;
    play_join(play, "n0", 8);
    a = play_submit(play, one, NULL);
    (void)snprintf(text, sizeof(text), "{\"gpus\":1,\"args\":[\"x\"],\"after\":{\"ok\":[%lld]}}", (long long)a);
    b = play_submit(play, text, NULL);
    (void)snprintf(text, sizeof(text), "{\"gpus\":1,\"args\":[\"x\"],\"after\":{\"notok\":[%lld]}}", (long long)a);
    c = play_submit(play, text, NULL);
    STATE(b, "PENDING Dependency");
    play_exit(play, a, 0, 0, 0);
    STATE(b, "RUNNING");
    STATE(c, "CANCELLED");
    assert_int_equal(play_submit(play, "{\"gpus\":1,\"args\":[\"x\"],\"after\":{\"ok\":[999]}}", &ret), -ERANGE);
    d = play_submit(play, "{\"gpus\":1,\"args\":[\"x\"],\"hold\":true}", NULL);
    STATE(d, "PENDING Held");
    (void)snprintf(text, sizeof(text), "{\"job\":%lld}", (long long)d);
    assert_int_equal(play_offer(play, ENTRY_RELEASE, text, NULL), 0);
    play_settle(play);
    STATE(d, "RUNNING");
    /* Ten of them, three at a time. */
    array = play_submit(play, "{\"gpus\":1,\"args\":[\"x\"],\"array\":{\"indices\":\"0-9\",\"parallel\":3}}", NULL);
    STATE(array + 3, "RUNNING");
    STATE(array + 4, "PENDING ArrayLimit");
    play_exit(play, array + 2, 0, 0, 0);
    STATE(array + 4, "RUNNING");
    STATE(array + 5, "PENDING ArrayLimit");
    (void)snprintf(text, sizeof(text), "{\"job\":%lld}", (long long)array);
    assert_int_equal(play_offer(play, ENTRY_CANCEL, text, NULL), 0);
    play_settle(play);
    STATE(array + 4, "CANCELLED");
    STATE(array + 10, "CANCELLED");
    assert_int_equal(play_offer(play, ENTRY_CANCEL, text, &ret), -EALREADY);
    assert_int_equal(play_offer(play, ENTRY_CANCEL, "{\"job\":12345}", &ret), -ENOENT);
    play_free(play);
}

static void test_time(void **state)
{
    struct play *play = play_new("fifo-skip");
    struct play *real = play;
    int64_t id;

    (void)state;
    play->config.ctl.virtual_time = true;
    play_join(play, "n0", 2);
    id = play_submit(play, "{\"gpus\":1,\"args\":[\"x\"],\"begin\":\"1970-01-01T00:17:00Z\"}", NULL);
    STATE(id, "PENDING BeginTime");
    play_until(play, 1021 * USEC_SEC);
    STATE(id, "RUNNING");
    play_free(real);
}

static void test_failures(void **state)
{
    struct play *play = play_new("fifo-skip");
    int64_t id;

    (void)state;
    play_join(play, "n0", 2);
    /* Checkpointed and wants to go on. */
    id = play_submit(play, one, NULL);
    play_exit(play, id, 0, 85, 0);
    STATE(id, "RUNNING");
    assert_int_equal(registry_find(ctl_registry(batcher_ctl(play->batcher)), id)->attempt_count, 2);
    /* Killed by nobody knows whom: as often as it asks for. */
    id = play_submit(play, "{\"gpus\":1,\"args\":[\"x\"],\"retries\":1}", NULL);
    play_exit(play, id, 0, 0, 9);
    STATE(id, "RUNNING");
    play_exit(play, id, 0, 0, 9);
    STATE(id, "FAILED");
    /* The user's error is not retried, but for codes that the user names. */
    play_exit(play, 1, 0, 0, 0);
    id = play_submit(play, "{\"gpus\":1,\"args\":[\"x\"],\"retries\":1}", NULL);
    play_exit(play, id, 0, 1, 0);
    STATE(id, "FAILED");
    id = play_submit(play, "{\"gpus\":1,\"args\":[\"x\"],\"retries\":1,\"retry_on\":[7]}", NULL);
    play_exit(play, id, 0, 7, 0);
    STATE(id, "RUNNING");
    play_free(play);
}

static void test_lost_node(void **state)
{
    struct play *play = play_new("fifo-skip");
    int64_t gang, single;

    (void)state;
    play_join(play, "n0", 2);
    play_join(play, "n1", 2);
    play_join(play, "n2", 2);
    gang = play_submit(play, "{\"nodes\":2,\"per_node\":{\"gpu\":2},\"launch\":\"node\",\"args\":[\"x\"]}", NULL);
    single = play_submit(play, "{\"gpus\":2,\"args\":[\"x\"],\"requeue\":false}", NULL);
    STATE(gang, "RUNNING");
    STATE(single, "RUNNING");
    play_away(play, "n1", true);
    play_away(play, "n2", true);
    assert_int_equal(play_offer(play, ENTRY_SILENT, "{\"node\":\"n1\"}", NULL), 0);
    STATE(gang, "RUNNING"); /* it may still be there */
    assert_int_equal(play_offer(play, ENTRY_LOST, "{\"node\":\"n1\"}", NULL), 0);
    assert_int_equal(play_offer(play, ENTRY_LOST, "{\"node\":\"n2\"}", NULL), 0);
    play_settle(play);
    STATE(gang, "PENDING NodesUnhealthy");
    STATE(single, "NODE_FAIL");
    /* Both come back, having killed what they ran. */
    for (size_t i = 0; i < play->task_count; i++)
        if (strcmp(play->tasks[i].node, "n0") != 0)
            play->tasks[i].state = TASK_EXITED;
    play_away(play, "n1", false);
    play_settle(play);
    STATE(gang, "RUNNING");
    assert_int_equal(play->doubles, 0);
    play_free(play);
}

/* The last node with GPUs is taken out of the cluster. Its job waits for another, through a restart too. */
static void test_last_node(void **state)
{
    struct play *play = play_new("fifo-skip");
    struct error err = { 0 };
    int64_t job;

    (void)state;
    play_join(play, "n0", 2);
    job = play_submit(play, "{\"gpus\":2,\"args\":[\"x\"]}", NULL);
    STATE(job, "RUNNING");
    play_away(play, "n0", true);
    assert_int_equal(play_offer(play, ENTRY_LOST, "{\"node\":\"n0\"}", NULL), 0);
    assert_int_equal(play_offer(play, ENTRY_FORGET, "{\"node\":\"n0\"}", NULL), 0);
    play_settle(play);
    STATE(job, "PENDING NodesUnhealthy");
    assert_int_equal(batcher_close(play->batcher, &err), 0); /* with a snapshot */
    play_restart(play);
    STATE(job, "PENDING NodesUnhealthy");
    play->task_count = 0; /* what it ran has ended with it */
    play_join(play, "n1", 2);
    STATE(job, "RUNNING");
    assert_int_equal(play->doubles, 0);
    play_free(play);
}

/* The state as it is written, with a node without GPUs that had joined when those took no jobs. */
static void save_before(const struct ctl *ctl, const char *inventory, struct buf *out)
{
    const struct ctl_node bare = { .joined = true, .core_node = UINT32_MAX };
    struct buf now = BUF_INIT((size_t)1 << 20), book = BUF_INIT((size_t)1 << 20);
    struct error err = { 0 };
    const char *at;
    uint64_t length;

    assert_int_equal(ctl_save(ctl, &now, &err), 0);
    saved_begin(out);
    at = now.data + out->size;
    memcpy(&length, at, sizeof(length));
    at += sizeof(length) + length;
    buf_put(&book, at - length, length);
    saved_put_text(&book, SAVED_NODE_NAME, "bare");
    saved_put(&book, SAVED_NODE, &bare);
    saved_put_text(&book, SAVED_INVENTORY, inventory);
    saved_part(out, book.data, book.size);
    buf_put(out, at, (size_t)(now.data + now.size - at));
    assert_int_equal(out->error, 0);
    buf_done(&now);
    buf_done(&book);
}

/* A controller that is newer than its state: nodes without GPUs take jobs when their agents are heard again. */
static void test_bare_before(void **state)
{
    static const char inventory[] = "{\"sku\":\"\",\"gpus\":[],\"cpus\":8}";
    struct play *play = play_new("fifo-skip");
    struct buf before = BUF_INIT((size_t)1 << 20);
    struct entry join = { .kind = ENTRY_JOIN };
    struct error err = { 0 };
    struct ctl *ctl = NULL;

    (void)state;
    play_join(play, "n0", 2);
    save_before(batcher_ctl(play->batcher), inventory, &before);
    assert_int_equal(ctl_load(&play->config.ctl, before.data, before.size, &ctl, &err), 0);
    assert_int_equal(ctl_cluster(ctl)->bare_count, 0);
    join.join = (struct entry_join){ .node = entry_text("bare"),
                                     .agent = entry_text("a1"),
                                     .boot = entry_text("b1"),
                                     .address = entry_text(""),
                                     .inventory = entry_text(inventory) };
    ctl_apply(ctl, 1, play->now, &join, 1, NULL);
    assert_int_equal(ctl_cluster(ctl)->bare_count, 1);
    assert_int_equal(registry_node_find(ctl_registry(ctl), "bare")->core_node, 1);
    entry_done(&join);
    ctl_free(ctl);
    buf_done(&before);
    play_free(play);
}

/* What the batcher says of a node that fell silent: with whom nobody was told of. */
static void silent(struct play *play, const char *name, int joins, const char *untold)
{
    char body[128];

    (void)snprintf(body, sizeof(body), "{\"node\":\"%s\",\"joins\":%d,\"untold\":[%s]}", name, joins, untold);
    assert_int_equal(play_offer(play, ENTRY_SILENT, body, NULL), 0);
    play_settle(play);
}

/* The list is believed as long as the node has not joined since, and of tasks that are still to be launched. */
static void test_untold(void **state)
{
    struct play *play = play_new("fifo-skip");
    int64_t first, job;
    char task[32];

    (void)state;
    play_join(play, "n0", 2);
    play_join(play, "n1", 2);
    first = play_submit(play, "{\"gpus\":2,\"nodelist\":\"n0\",\"args\":[\"x\"]}", NULL);
    STATE(first, "RUNNING");
    play_away(play, "n1", true);
    job = play_submit(play, "{\"gpus\":2,\"args\":[\"x\"],\"requeue\":false}", NULL);
    STATE(job, "STARTING");
    (void)snprintf(task, sizeof(task), "[%d,0,0]", (int)job);
    silent(play, "n1", 0, task);
    STATE(job, "STARTING"); /* of before it joined */
    silent(play, "n1", 1, "[99,0,0],[1,0,0],[2,1,0],[2,0,7],7,[]");
    STATE(job, "STARTING"); /* of nobody */
    STATE(first, "RUNNING");
    play_restart(play);
    STATE(job, "STARTING");
    silent(play, "n1", 1, task);
    STATE(job, "PENDING NodesUnhealthy");
    assert_int_equal(registry_find(ctl_registry(batcher_ctl(play->batcher)), job)->failures, 0);
    silent(play, "n1", 1, task); /* once is enough */
    play_away(play, "n1", false);
    play_settle(play);
    STATE(job, "RUNNING");
    (void)snprintf(task, sizeof(task), "[%d,1,0]", (int)job);
    silent(play, "n1", 2, task);
    STATE(job, "RUNNING"); /* told meanwhile */
    assert_int_equal(play->doubles, 0);
    play_free(play);
}

/* A controller that dies after every turn does what one does that lives. */
static void test_restarts(void **state)
{
    struct play *play = play_new("srtf"), *other = play_new("srtf");

    (void)state;
    for (int round = 0; round < 2; round++) {
        struct play *p = round ? other : play;

        play_join(p, "n0", 4);
        play_join(p, "n1", 4);
        for (int i = 0; i < 40; i++) {
            char text[256];

            (void)snprintf(text, sizeof(text), "{\"gpus\":%d,\"args\":[\"x\"],\"time\":\"%ds\"}", 1 + i % 5,
                           100 - i * 2);
            assert_true(play_submit(p, text, NULL) > 0);
            if (round)
                play_restart(p);
            play_settle(p);
            p->now += USEC_SEC;
            if (i % 3 == 0)
                play_exit(p, i / 3 + 1, 0, 0, 0);
            if (round && i == 20) {
                struct error err;

                p->config.snapshot_every = 10;
                assert_int_equal(batcher_close(p->batcher, &err), 0);
                play_restart(p);
                play_settle(p);
            }
        }
    }
    assert_int_equal(core_digest(ctl_core(batcher_ctl(play->batcher))),
                     core_digest(ctl_core(batcher_ctl(other->batcher))));
    assert_int_equal(other->doubles, 0);
    for (int64_t id = 1; id <= 40; id++) {
        const struct ctl_job *a = registry_find(ctl_registry(batcher_ctl(play->batcher)), id);
        const struct ctl_job *b = registry_find(ctl_registry(batcher_ctl(other->batcher)), id);

        if (!b) /* finished before a snapshot: it is in the history */
            continue;
        assert_int_equal(a->phase, b->phase);
        assert_int_equal(a->attempt_count, b->attempt_count);
    }
    play_free(play);
    play_free(other);
}

/* Policies and virtual clusters change under running and waiting jobs; nodes join. */
static void test_config(void **state)
{
    struct play *play = play_new("fifo-skip");
    struct entry_result ret;
    int64_t a, b;

    (void)state;
    play_join(play, "n1", 4);
    a = play_submit(play, "{\"gpus\":4,\"args\":[\"x\"]}", NULL);
    b = play_submit(play, "{\"gpus\":4,\"args\":[\"x\"]}", NULL);
    STATE(a, "RUNNING");
    STATE(b, "PENDING InsufficientGpus");
    assert_int_equal(play_offer(play, ENTRY_CONFIG, "{\"policy\":\"nonsense\"}", &ret), -ENOENT);
    assert_int_equal(play_offer(play, ENTRY_CONFIG, "{\"policy\":\"srsf\"}", &ret), 0);
    play_settle(play);
    STATE(a, "RUNNING");
    STATE(b, "PENDING InsufficientGpus");
    play_join(play, "n0", 4); /* sorts before the other one */
    STATE(b, "RUNNING");
    assert_int_equal(play_offer(play, ENTRY_CONFIG,
                                "{\"policy\":\"las\",\"vcs\":{\"nlp\":{\"quota\":{\"H100\":4}},"
                                "\"cv\":{\"quota\":{\"H100\":4},\"policy\":\"fifo\"}}}",
                                &ret),
                     0);
    play_settle(play);
    assert_true(play_submit(play, "{\"gpus\":1,\"vc\":\"cv\",\"args\":[\"x\"]}", &ret) > 0);
    assert_int_equal(play_submit(play, "{\"gpus\":1,\"vc\":\"hr\",\"args\":[\"x\"]}", &ret), -ERANGE);
    assert_string_equal(ret.reason, "NoSuchVc");
    play_exit(play, a, 0, 0, 0);
    play_exit(play, b, 0, 0, 0);
    STATE(b, "COMPLETED");
    play_restart(play);
    play_settle(play);
    assert_string_equal(names_get(&ctl_cluster(batcher_ctl(play->batcher))->names,
                                  ctl_cluster(batcher_ctl(play->batcher))->vcs[1].name),
                        "cv");
    play_free(play);
}

static void test_people(void **state)
{
    struct play *play = play_new("fifo-skip");
    struct entry_result ret;
    int64_t id;
    char text[128];

    (void)state;
    play_join(play, "n0", 1);
    id = play_submit(play, one, NULL);
    (void)snprintf(text, sizeof(text), "{\"job\":%lld}", (long long)id);
    assert_int_equal(play_offer(play, ENTRY_SUSPEND, text, &ret), 0);
    play_settle(play);
    STATE(id, "SUSPENDED");
    assert_int_equal(play_offer(play, ENTRY_RESUME, text, &ret), 0);
    play_settle(play);
    STATE(id, "RUNNING");
    assert_int_equal(play_offer(play, ENTRY_REQUEUE, text, &ret), 0);
    play_settle(play);
    STATE(id, "RUNNING");
    assert_int_equal(registry_find(ctl_registry(batcher_ctl(play->batcher)), id)->attempt_count, 2);
    assert_int_equal(play_offer(play, ENTRY_HOLD, text, &ret), -EALREADY);
    assert_int_equal(play_offer(play, ENTRY_CANCEL, text, &ret), 0);
    play_settle(play);
    STATE(id, "CANCELLED");
    assert_int_equal(play_offer(play, ENTRY_DRAIN, "{\"node\":\"n0\",\"reason\":\"fan\"}", &ret), 0);
    id = play_submit(play, one, NULL);
    STATE(id, "PENDING NodesUnhealthy");
    assert_int_equal(play_offer(play, ENTRY_UNDRAIN, "{\"node\":\"n0\"}", &ret), 0);
    play_settle(play);
    STATE(id, "RUNNING");
    play_free(play);
}

static void test_idempotent(void **state)
{
    struct play *play = play_new("fifo-skip");
    struct entry_result ret;
    const char body[] = "{\"user\":\"bob\",\"key\":\"k1\",\"spec\":{\"gpus\":1,\"args\":[\"x\"]}}";
    int64_t first;

    (void)state;
    play_join(play, "n0", 1);
    assert_int_equal(play_offer(play, ENTRY_SUBMIT, body, &ret), 0);
    first = ret.id;
    play_restart(play);
    assert_int_equal(play_offer(play, ENTRY_SUBMIT, body, &ret), 0);
    assert_int_equal(ret.id, first);
    assert_int_equal(ctl_registry(batcher_ctl(play->batcher))->submitted, 1);
    play_free(play);
}

static int64_t keyed(struct play *play, int number)
{
    struct entry_result ret;
    char body[128], text[64];

    (void)snprintf(body, sizeof(body), "{\"user\":\"bob\",\"key\":\"k%d\",\"spec\":{\"gpus\":1,\"args\":[\"x\"]}}",
                   number);
    assert_int_equal(play_offer(play, ENTRY_SUBMIT, body, &ret), 0);
    (void)snprintf(text, sizeof(text), "{\"job\":%lld}", (long long)ret.id);
    (void)play_offer(play, ENTRY_CANCEL, text, &(struct entry_result){ 0 });
    return ret.id;
}

/* The last 4096 are known, after a restart from a snapshot as well; older ones make another job. */
static void test_keys_many(void **state)
{
    struct play *play = play_new("fifo-skip");
    int64_t id[REGISTRY_KEYS + 10];

    (void)state;
    play->config.snapshot_every = 500;
    play_restart(play);
    play_join(play, "n0", 1);
    for (int i = 0; i < REGISTRY_KEYS + 10; i++)
        id[i] = keyed(play, i);
    for (int again = 0; again < 2; again++) {
        for (int i = 10; i < REGISTRY_KEYS + 10; i += 7)
            assert_int_equal(keyed(play, i), id[i]);
        play_restart(play);
    }
    assert_int_equal(ctl_registry(batcher_ctl(play->batcher))->submitted, REGISTRY_KEYS + 10);
    assert_int_not_equal(keyed(play, 3), id[3]);
    play_free(play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_life),        cmocka_unit_test(test_moment),     cmocka_unit_test(test_gang),
        cmocka_unit_test(test_runtime),     cmocka_unit_test(test_gates),      cmocka_unit_test(test_time),
        cmocka_unit_test(test_failures),    cmocka_unit_test(test_lost_node),  cmocka_unit_test(test_untold),
        cmocka_unit_test(test_restarts),    cmocka_unit_test(test_config),     cmocka_unit_test(test_people),
        cmocka_unit_test(test_idempotent),  cmocka_unit_test(test_keys_many),  cmocka_unit_test(test_last_node),
        cmocka_unit_test(test_bare_before), cmocka_unit_test(test_gang_brief),
    };

    return cmocka_run_group_tests_name("ctl", tests, NULL, NULL);
}
