/* SPDX-License-Identifier: Apache-2.0 */
/* A job that is told to leave twice: a policy preempts it while a person cancels or requeues it, or it ends meanwhile.
 * Whatever the order, and whether or not the controller is restarted between the two: the job reaches the state that
 * was asked for, the job it made room for runs, and no GPU is lost. Under every policy that preempts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/ledger/ledger.h"
#include "ctl_play.h"

#define STATE(job, text) assert_string_equal(play_state(play, job), text)

static const char *const policies[] = {
    "fifo-skip", "srtf", "srsf", "las", "singularity", "gandiva", "liquid",
};

enum way { CANCEL_AFTER, CANCEL_BEFORE, REQUEUE_AFTER, REQUEUE_BEFORE, ENDS_WELL, FAILS, WAYS };

/* Who is preempted: an opportunistic job, or one that has borrowed what another virtual cluster is owed, by number or
 * as cells. */
enum scene { GUEST, LENT, CELLS, SCENES };

static const char *const settings[SCENES] = {
    [LENT] = "{\"vcs\":{\"a\":{\"quota\":{\"H100\":4}},\"b\":{\"quota\":{\"H100\":4}}}}",
    [CELLS] = "{\"vcs\":{\"a\":{\"borrow\":8,\"guarantee\":{\"H100\":\"1 node\"}},\"b\":{\"guarantee\":{\"H100\":\"1 "
              "node\"}}}}",
};

static struct play *begin(const char *policy, enum scene scene)
{
    struct play *play = malloc(sizeof(*play));

    assert_non_null(play);
    play_init(play, policy);
    play_join(play, "n0", 4);
    play_join(play, "n1", 4);
    if (settings[scene]) {
        assert_int_equal(play_offer(play, ENTRY_CONFIG, settings[scene], NULL), 0);
        play_settle(play);
    }
    return play;
}

static void end(struct play *play)
{
    assert_int_equal(play->doubles, 0);
    play_done(play);
    free(play);
}

static int act(struct play *play, enum entry_kind kind, int64_t job)
{
    char body[64];

    (void)snprintf(body, sizeof(body), "{\"job\":%lld,\"by\":\"alice\"}", (long long)job);
    return play_offer(play, kind, body, NULL);
}

static void restart(struct play *play, bool wanted)
{
    if (!wanted)
        return;
    play_restart(play);
    play_settle(play);
}

static const struct ctl_job *job_of(struct play *play, int64_t id)
{
    return registry_find(ctl_registry(batcher_ctl(play->batcher)), id);
}

/* No job has any GPU, in the core's own opinion. */
static void check_free(struct play *play)
{
    const struct ledger *ledger = core_ledger(ctl_core(batcher_ctl(play->batcher)));

    for (uint32_t g = 0; g < ledger->topo.gpu_count; g++)
        assert_int_equal(ledger->gpus[g].shares, SHARE_NONE);
}

static void ends(struct play *play, int64_t job, int code)
{
    play_exit(play, job, 0, code, 0);
    play_exit(play, job, 1, 0, 0);
}

/* One job has all GPUs when another comes that is owed some of them. */
static bool meet(const char *policy, enum scene scene, enum way way, bool restarts)
{
    static const char guest[] = "{\"gpus\":8,\"priority\":-1,\"args\":[\"x\"]}",
                      any[] = "{\"gpus\":4,\"args\":[\"x\"]}";
    static const char of_a[] = "{\"gpus\":4,\"vc\":\"a\",\"args\":[\"x\"]}",
                      of_b[] = "{\"gpus\":4,\"vc\":\"b\",\"args\":[\"x\"]}";
    struct play *play = begin(policy, scene);
    int64_t own = scene == GUEST ? 0 : play_submit(play, of_a, NULL); /* all that its virtual cluster is owed */
    int64_t victim = play_submit(play, scene == GUEST ? guest : of_a, NULL), owed;
    bool before = way == CANCEL_BEFORE || way == REQUEUE_BEFORE;
    enum entry_kind kind = way == CANCEL_AFTER || way == CANCEL_BEFORE ? ENTRY_CANCEL : ENTRY_REQUEUE;

    play_until(play, play->now + 3600 * USEC_SEC);
    if (strcmp(play_state(play, victim), "RUNNING") != 0) { /* its policy has jobs take turns */
        assert_true(scene != GUEST);
        end(play);
        return false;
    }
    play->slow = true;
    if (before) {
        assert_int_equal(act(play, kind, victim), 0);
        play_settle(play);
        restart(play, restarts);
    }
    owed = play_submit(play, scene == GUEST ? any : of_b, NULL);
    play_settle(play);
    if (strcmp(play_state(play, victim), "RUNNING") == 0) { /* it has found another way, and that is not meant here */
        assert_true(scene != GUEST);
        end(play);
        return false;
    }
    STATE(victim, "COMPLETING");
    restart(play, restarts);
    if (way == CANCEL_AFTER || way == REQUEUE_AFTER) {
        assert_int_equal(act(play, kind, victim), 0);
        play_settle(play);
        restart(play, restarts);
    }
    if (way == ENDS_WELL || way == FAILS)
        ends(play, victim, way == FAILS);
    else
        play_leave(play, victim, 0);
    if (kind == ENTRY_CANCEL)
        STATE(victim, "CANCELLED");
    else if (way == ENDS_WELL || way == FAILS)
        STATE(victim, way == FAILS ? "FAILED" : "COMPLETED");
    play_until(play, play->now + 10 * USEC_SEC);
    STATE(owed, "RUNNING");
    play->slow = false;
    ends(play, owed, 0);
    STATE(owed, "COMPLETED");
    play_until(play, play->now + 3600 * USEC_SEC);
    if (way == REQUEUE_AFTER || way == REQUEUE_BEFORE) {
        STATE(victim, "RUNNING");
        ends(play, victim, 0);
        STATE(victim, "COMPLETED");
    }
    ends(play, own, 0);
    check_free(play);
    end(play);
    return true;
}

/* Two jobs that take turns on the same GPUs. One that is off them ends, or is cancelled; one that comes back waits for
 * the other to go off, and ends meanwhile: no GPU is lost. */
static void turns(bool comes_back, bool cancelled, bool restarts)
{
    struct play *play = begin("gandiva", GUEST);
    int64_t a = play_submit(play, "{\"gpus\":8,\"args\":[\"x\"]}", NULL);
    int64_t b = play_submit(play, "{\"gpus\":8,\"args\":[\"x\"]}", NULL), off;

    for (int i = 0; i < 100 && strcmp(play_state(play, a), "SUSPENDED") != 0; i++)
        play_until(play, play->now + 10 * USEC_SEC);
    STATE(a, "SUSPENDED");
    STATE(b, "RUNNING");
    play->drowsy = comes_back;
    for (int i = 0; i < 20 && comes_back; i++) /* until b is told to go off; it does not yet */
        play_until(play, play->now + 10 * USEC_SEC);
    off = a;
    restart(play, restarts);
    if (comes_back)
        assert_int_equal(core_job(ctl_core(batcher_ctl(play->batcher)), job_of(play, a)->slot)->state, JOB_CLAIMING);
    STATE(off, "SUSPENDED");
    if (cancelled)
        assert_int_equal(act(play, ENTRY_CANCEL, off), 0);
    else
        ends(play, off, 0);
    play_settle(play);
    STATE(off, cancelled ? "CANCELLED" : "COMPLETED");
    play->drowsy = false;
    if (comes_back)
        play_rest(play, b);
    play_until(play, play->now + 600 * USEC_SEC);
    STATE(b, "RUNNING");
    ends(play, b, 0);
    STATE(b, "COMPLETED");
    check_free(play);
    end(play);
}

static void test_turns(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++)
        turns(i & 1, i & 2, i & 4);
}

/* Its processes are where the core has it. */
static void check_place(struct play *play, int64_t id)
{
    const struct ctl *ctl = batcher_ctl(play->batcher);
    const struct ledger *ledger = core_ledger(ctl_core(ctl));
    const struct ctl_job *job = job_of(play, id);
    const struct ctl_task *task = &job->attempts[job->attempt_count - 1].tasks[0];
    uint32_t share = core_job(ctl_core(ctl), job->slot)->shares;

    assert_int_not_equal(share, SHARE_NONE);
    assert_int_equal(ctl_registry(ctl)->nodes[task->node].core_node, ledger->gpus[ledger->shares[share].gpu].node);
}

/* One that takes turns is resumed on another node, where there is room by then: its processes go there. */
static void test_turns_elsewhere(void **state)
{
    struct play *play = begin("gandiva", GUEST);
    int64_t jobs[3], off = 0;

    (void)state;
    for (int i = 0; i < 3; i++)
        jobs[i] = play_submit(play, "{\"gpus\":4,\"args\":[\"x\"]}", NULL);
    for (int i = 0; i < 100 && !off; i++) {
        play_until(play, play->now + 10 * USEC_SEC);
        for (int k = 0; k < 3; k++)
            off = strcmp(play_state(play, jobs[k]), "SUSPENDED") == 0 ? jobs[k] : off;
    }
    assert_int_not_equal(off, 0);
    for (int k = 0; k < 3; k++) { /* the one that takes no turns */
        const struct ctl_job *job = job_of(play, jobs[k]);

        if (jobs[k] != off && job->attempts[0].tasks[0].node != job_of(play, off)->attempts[0].tasks[0].node)
            play_exit(play, jobs[k], 0, 0, 0);
    }
    play_until(play, play->now + 600 * USEC_SEC);
    STATE(off, "RUNNING");
    for (int k = 0; k < 3; k++)
        if (strcmp(play_state(play, jobs[k]), "RUNNING") == 0)
            check_place(play, jobs[k]);
    end(play);
}

/* One that its policy has put off its GPUs is not put on them by a person, and one that a person has suspended goes off
 * them when its policy says so. */
static void test_turns_people(void **state)
{
    struct play *play = begin("gandiva", GUEST);
    int64_t a = play_submit(play, "{\"gpus\":8,\"args\":[\"x\"]}", NULL), b;

    (void)state;
    assert_int_equal(act(play, ENTRY_SUSPEND, a), 0);
    play_settle(play);
    STATE(a, "SUSPENDED");
    b = play_submit(play, "{\"gpus\":8,\"args\":[\"x\"]}", NULL);
    for (int i = 0; i < 100 && strcmp(play_state(play, b), "RUNNING") != 0; i++)
        play_until(play, play->now + 10 * USEC_SEC);
    STATE(b, "RUNNING");
    STATE(a, "SUSPENDED");
    assert_int_equal(act(play, ENTRY_RESUME, a), -EALREADY);
    end(play);
}

/* Of two wishes in one batch the one that ends the job counts. */
static void test_batch(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        struct play *play = begin("fifo", GUEST);
        int64_t a = play_submit(play, "{\"gpus\":8,\"args\":[\"x\"]}", NULL), b;
        char body[64];

        b = play_submit(play, "{\"gpus\":8,\"args\":[\"x\"]}", NULL);
        (void)snprintf(body, sizeof(body), "{\"job\":%lld}", (long long)b);
        for (int i = 0; i < 2; i++)
            (void)batcher_offer_json(play->batcher, i == order ? ENTRY_CANCEL : ENTRY_HOLD, json_loads(body, 0, NULL),
                                     NULL, NULL, &(struct entry_result){ 0 });
        play_settle(play);
        STATE(b, "CANCELLED");
        ends(play, a, 0);
        check_free(play);
        end(play);
    }
}

/* A node, and a GPU, that are put to use and taken out of it in one batch are out of it. */
static void test_batch_nodes(void **state)
{
    static const char *const bodies[] = { "{\"node\":\"n0\",\"reason\":\"fan\"}",
                                          "{\"node\":\"n0\",\"gpu\":0,\"reason\":\"fan\"}" };

    (void)state;
    for (int way = 0; way < 2; way++) {
        static const enum entry_kind kinds[] = { ENTRY_UNDRAIN, ENTRY_DRAIN };
        struct play *play = begin("fifo", GUEST);
        int64_t id;

        assert_int_equal(play_offer(play, ENTRY_DRAIN, bodies[way], NULL), 0);
        for (int i = 0; i < 2; i++)
            (void)batcher_offer_json(play->batcher, kinds[i], json_loads(bodies[way], 0, NULL), NULL, NULL,
                                     &(struct entry_result){ 0 });
        play_settle(play);
        id = play_submit(play, "{\"gpus\":8,\"args\":[\"x\"]}", NULL);
        assert_non_null(strstr(play_state(play, id), "PENDING"));
        end(play);
    }
}

/* Elements of an array that were set are of it all the same: no more run at a time than it says, and the next comes in
 * when one is over, also after a restart. */
static void test_array_set(void **state)
{
    struct play *play = begin("fifo", GUEST);
    int64_t array = play_submit(play, "{\"gpus\":1,\"array\":\"0-3%1\",\"args\":[\"x\"]}", NULL);
    char body[64];

    (void)state;
    (void)snprintf(body, sizeof(body), "{\"job\":%lld,\"comment\":\"mine\"}", (long long)array);
    assert_int_equal(play_offer(play, ENTRY_SET, body, NULL), 0);
    for (int64_t id = array + 1; id <= array + 4; id++) {
        play_settle(play);
        STATE(id, "RUNNING");
        for (int64_t other = id + 1; other <= array + 4; other++)
            STATE(other, "PENDING ArrayLimit");
        restart(play, id == array + 2);
        ends(play, id, 0);
    }
    end(play);
}

/* One that is held gives its turn to the next of its array. */
static void test_array_held(void **state)
{
    struct play *play = begin("fifo", GUEST);
    int64_t all = play_submit(play, "{\"gpus\":8,\"args\":[\"x\"]}", NULL);
    int64_t array = play_submit(play, "{\"gpus\":1,\"array\":\"0-1%1\",\"args\":[\"x\"]}", NULL);

    (void)state;
    STATE(array + 1, "PENDING InsufficientGpus");
    STATE(array + 2, "PENDING ArrayLimit");
    assert_int_equal(act(play, ENTRY_HOLD, array + 1), 0);
    play_settle(play);
    STATE(array + 1, "PENDING Held");
    STATE(array + 2, "PENDING InsufficientGpus");
    ends(play, all, 0);
    STATE(array + 2, "RUNNING");
    end(play);
}

/* Whatever ends a job whose cancel is on the way: it is not run again. */
static void test_cancelled_for_good(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        struct play *play = begin("fifo-skip", GUEST);
        int64_t id = play_submit(play, "{\"gpus\":4,\"args\":[\"x\"]}", NULL);

        play->slow = true;
        assert_int_equal(act(play, ENTRY_CANCEL, id), 0);
        play_settle(play);
        if (way == 0) {
            play_exit(play, id, 0, 85, 0); /* it has saved itself, and asks to be run again */
        } else {                           /* its node is lost, and there is another */
            play_away(play, "n0", true);
            assert_int_equal(play_offer(play, ENTRY_LOST, "{\"node\":\"n0\"}", NULL), 0);
            play_settle(play);
        }
        STATE(id, "CANCELLED");
        assert_int_equal(job_of(play, id)->attempt_count, 1);
        check_free(play);
        end(play);
    }
}

static void test_meet(void **state)
{
    size_t met = 0, count = sizeof(policies) / sizeof(*policies);

    (void)state;
    for (size_t p = 0; p < count; p++)
        for (int i = 0; i < SCENES * WAYS * 2; i++) {
            print_message("# %s, scene %d, way %d, restarts %d\n", policies[p], i % SCENES, i / SCENES % WAYS,
                          i / SCENES / WAYS);
            met += meet(policies[p], (enum scene)(i % SCENES), (enum way)(i / SCENES % WAYS), i / SCENES / WAYS);
        }
    assert_true(met > count * WAYS * 2 * 2); /* all of the first scene, and more than half of the others */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_array_set),       cmocka_unit_test(test_array_held),         cmocka_unit_test(test_batch),
        cmocka_unit_test(test_batch_nodes),     cmocka_unit_test(test_cancelled_for_good), cmocka_unit_test(test_turns),
        cmocka_unit_test(test_turns_elsewhere), cmocka_unit_test(test_turns_people),       cmocka_unit_test(test_meet),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
