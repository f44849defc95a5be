/* SPDX-License-Identifier: Apache-2.0 */
/* Moves that do not come off: the node a job leaves, or the one it goes to, is lost; it cannot be started there; it
 * ends by itself or is cancelled on its way. It is run again or is over, and nothing of it is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl_play.h"

#define STATE(job, text) assert_string_equal(play_state(play, job), text)

/* n0 has only `mover` when `large` comes, which wants all of it: the one leaves for n1. */
struct stage {
    int64_t rest, mover, large;
};

static struct play *begin(struct stage *ret_stage, const char *mover)
{
    struct play *play = malloc(sizeof(*play));
    int64_t first;

    assert_non_null(play);
    play_init(play, "fifo-skip+migrate");
    play_join(play, "n0", 4);
    play_join(play, "n1", 4);
    first = play_submit(play, "{\"gpus\":3,\"args\":[\"x\"]}", NULL);
    ret_stage->mover = play_submit(play, mover, NULL);
    ret_stage->rest = play_submit(play, "{\"gpus\":2,\"args\":[\"x\"]}", NULL);
    play_exit(play, first, 0, 0, 0);
    play_until(play, play->now + 3600 * USEC_SEC);
    play->slow = true;
    ret_stage->large = play_submit(play, "{\"nodes\":1,\"per_node\":{\"gpu\":4},\"args\":[\"x\"]}", NULL);
    STATE(ret_stage->mover, "COMPLETING");
    STATE(ret_stage->large, "STARTING"); /* its GPUs are given to it, but somebody is still there */
    return play;
}

static void end(struct play *play)
{
    assert_int_equal(play->doubles, 0);
    play_done(play);
    free(play);
}

static const char one[] = "{\"gpus\":1,\"args\":[\"x\"]}";

static const struct ctl_job *job_of(struct play *play, int64_t id)
{
    return registry_find(ctl_registry(batcher_ctl(play->batcher)), id);
}

static const char *node_of(struct play *play, int64_t id)
{
    const struct ctl_job *job = job_of(play, id);
    const struct ctl *ctl = batcher_ctl(play->batcher);

    return names_get(&ctl_registry(ctl)->node_names, job->attempts[job->attempt_count - 1].tasks[0].node);
}

static void lose(struct play *play, const char *node)
{
    char body[64];

    play_away(play, node, true);
    for (size_t i = 0; i < play->task_count; i++)
        if (strcmp(play->tasks[i].node, node) == 0)
            play->tasks[i].state = TASK_EXITED;
    (void)snprintf(body, sizeof(body), "{\"node\":\"%s\"}", node);
    assert_int_equal(play_offer(play, ENTRY_LOST, body, NULL), 0);
    play_settle(play);
}

static void test_moves(void **state)
{
    struct stage stage;
    struct play *play = begin(&stage, one);

    (void)state;
    play_restart(play);
    play_settle(play);
    STATE(stage.large, "STARTING");
    play_leave(play, stage.mover, 85);
    STATE(stage.mover, "RUNNING");
    STATE(stage.large, "RUNNING");
    assert_string_equal(node_of(play, stage.mover), "n1");
    assert_int_equal(job_of(play, stage.mover)->attempt_count, 2);
    assert_int_equal(job_of(play, stage.mover)->lost_usec, 0); /* it said that it was saved */
    end(play);
}

/* The node it leaves is lost before it has saved itself. */
static void test_source_lost(void **state)
{
    struct stage stage;
    struct play *play = begin(&stage, one);

    (void)state;
    lose(play, "n0");
    STATE(stage.mover, "RUNNING");
    assert_string_equal(node_of(play, stage.mover), "n1");
    assert_int_equal(job_of(play, stage.mover)->failures, 1);
    assert_true(job_of(play, stage.mover)->lost_usec >= 3600 * USEC_SEC); /* it had never saved itself */
    play_exit(play, stage.mover, 0, 0, 0);
    STATE(stage.mover, "COMPLETED");
    end(play);
}

/* The node it goes to is lost while it saves itself where it was: it does so in peace, and waits for a place. */
static void test_target_lost(void **state)
{
    struct stage stage;
    struct play *play = begin(&stage, "{\"gpus\":1,\"args\":[\"x\"],\"requeue\":false}");

    (void)state;
    lose(play, "n1");
    STATE(stage.large, "STARTING");
    STATE(stage.mover, "PENDING NodesUnhealthy"); /* a move is no end, whether it comes off or not */
    play_leave(play, stage.mover, 85);
    STATE(stage.large, "RUNNING");
    STATE(stage.mover, "PENDING NodesUnhealthy");
    play_exit(play, stage.large, 0, 0, 0);
    STATE(stage.mover, "RUNNING");
    assert_string_equal(node_of(play, stage.mover), "n0");
    end(play);
}

/* It cannot be started where it went: the node refuses it, and is given a second of rest, also by a controller that is
 * started anew meanwhile. It is tried again, from what it had saved. */
static void test_restore_fails(void **state)
{
    struct stage stage;
    struct play *play = begin(&stage, one);

    (void)state;
    play->refuses = true;
    play_leave(play, stage.mover, 85);
    assert_int_equal(job_of(play, stage.mover)->failures, 1);
    STATE(stage.mover, "PENDING NodesUnhealthy");
    play_restart(play);
    assert_string_equal(job_of(play, stage.mover)->attempts[1].refusal, "n1: restore");
    play_until(play, play->now + USEC_SEC / 2);
    STATE(stage.mover, "PENDING NodesUnhealthy");
    play_until(play, play->now + USEC_SEC);
    STATE(stage.mover, "RUNNING");
    assert_int_equal(job_of(play, stage.mover)->attempt_count, 3);
    assert_int_equal(job_of(play, stage.mover)->lost_usec, 0);
    play_exit(play, stage.mover, 0, 0, 0);
    STATE(stage.mover, "COMPLETED");
    end(play);
}

/* It ends by itself before the order comes, well or not: it is over, and not run again elsewhere. */
static void test_ends(void **state)
{
    struct stage stage;
    struct play *play = begin(&stage, one);

    (void)state;
    play_exit(play, stage.mover, 0, 0, 0);
    STATE(stage.mover, "COMPLETED");
    STATE(stage.large, "RUNNING");
    end(play);
    play = begin(&stage, one);
    play_exit(play, stage.mover, 0, 3, 0);
    STATE(stage.mover, "FAILED");
    end(play);
}

/* Cancelled on its way: in every one of these cases too. */
static void test_cancelled(void **state)
{
    static const char *const lost[] = { NULL, "n0", "n1" };

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct stage stage;
        struct play *play = begin(&stage, one);
        char body[64];

        (void)snprintf(body, sizeof(body), "{\"job\":%lld}", (long long)stage.mover);
        assert_int_equal(play_offer(play, ENTRY_CANCEL, body, NULL), 0);
        play_settle(play);
        if (lost[i])
            lose(play, lost[i]);
        play_leave(play, stage.mover, 85);
        STATE(stage.mover, "CANCELLED");
        STATE(stage.large, i == 1 ? "PENDING NodesUnhealthy" : "RUNNING");
        end(play);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moves),         cmocka_unit_test(test_source_lost), cmocka_unit_test(test_target_lost),
        cmocka_unit_test(test_restore_fails), cmocka_unit_test(test_ends),        cmocka_unit_test(test_cancelled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
