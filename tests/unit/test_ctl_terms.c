/* SPDX-License-Identifier: Apache-2.0 */
/* What a job allows to be done to it, as the controller keeps it: who may be preempted and when, what is worth another
 * attempt, and the words that tell why there is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ctl_play.h"

#define STATE(job, text) assert_string_equal(play_state(play, job), text)

static struct play *begin(const char *policy)
{
    struct play *play = malloc(sizeof(*play));

    assert_non_null(play);
    play_init(play, policy);
    return play;
}

static void end(struct play *play)
{
    assert_int_equal(play->doubles, 0);
    play_done(play);
    free(play);
}

static const char *end_of(struct play *play, int64_t id)
{
    return registry_find(ctl_registry(batcher_ctl(play->batcher)), id)->end_text;
}

/* A failure of the system does not use up what the user allows for those of the program. */
static void test_counted_apart(void **state)
{
    struct play *play = begin("fifo-skip");
    int64_t id;

    (void)state;
    play_join(play, "n0", 2);
    play_join(play, "n1", 2);
    play->refuses = true;
    id = play_submit(play, "{\"gpus\":1,\"args\":[\"x\"],\"retries\":1}", NULL);
    play_settle(play);
    STATE(id, "RUNNING");
    play_exit(play, id, 0, 0, 9);
    STATE(id, "RUNNING");
    play_restart(play); /* what was counted is not forgotten */
    play_exit(play, id, 0, 0, 9);
    STATE(id, "FAILED");
    assert_string_equal(end_of(play, id), "killed by signal 9; not retried: its retries are used up");
    end(play);
}

static void test_words(void **state)
{
    struct play *play = begin("fifo-skip");
    int64_t id;

    (void)state;
    play_join(play, "n0", 1);
    id = play_submit(play, "{\"gpus\":1,\"args\":[\"x\"],\"retries\":2}", NULL);
    play_exit(play, id, 0, 9, 0);
    assert_string_equal(end_of(play, id), "exit code 9; not retried: retries cover failures that are not its own; "
                                          "retry_on names exit codes");
    id = play_submit(play, "{\"gpus\":1,\"args\":[\"x\"],\"retries\":2,\"retry_on\":[7]}", NULL);
    play_exit(play, id, 0, 9, 0);
    assert_string_equal(end_of(play, id), "exit code 9; not retried: retry_on does not name this code");
    id = play_submit(play, "{\"gpus\":1,\"args\":[\"x\"],\"requeue\":false}", NULL);
    play_exit(play, id, 0, 85, 0);
    assert_string_equal(end_of(play, id), "exit code 85");
    /* Who did not ask for retries is told nothing of them. */
    id = play_submit(play, "{\"gpus\":1,\"args\":[\"x\"]}", NULL);
    play_exit(play, id, 0, 9, 0);
    assert_string_equal(end_of(play, id), "exit code 9");
    end(play);
}

/* A code of retry_on is tried again as often as retries says, whoever else failed the job meanwhile. */
static void test_codes(void **state)
{
    struct play *play = begin("fifo-skip");
    int64_t id;

    (void)state;
    play_join(play, "n0", 1);
    id = play_submit(play, "{\"gpus\":1,\"args\":[\"x\"],\"retries\":2,\"retry_on\":[7]}", NULL);
    play_exit(play, id, 0, 7, 0);
    STATE(id, "RUNNING");
    play_exit(play, id, 0, 85, 0);
    STATE(id, "RUNNING");
    play_exit(play, id, 0, 7, 0);
    STATE(id, "RUNNING");
    play_exit(play, id, 0, 7, 0);
    STATE(id, "FAILED");
    end(play);
}

/* A job that would be stopped for a shorter one keeps its GPU: for ever, or until it has run so long. */
static void test_preempt(void **state)
{
    static const char brief[] = "{\"gpus\":1,\"args\":[\"x\"],\"time\":\"1m\"}";
    struct play *play = begin("srtf");
    int64_t id, other;

    (void)state;
    play_join(play, "n0", 1);
    id = play_submit(play, "{\"gpus\":1,\"args\":[\"x\"],\"time\":\"1h\",\"preempt\":\"never\"}", NULL);
    other = play_submit(play, brief, NULL);
    STATE(id, "RUNNING");
    STATE(other, "PENDING InsufficientGpus");
    play_restart(play);
    play_until(play, play->now + 600 * USEC_SEC);
    STATE(id, "RUNNING");
    play_exit(play, id, 0, 0, 0);
    play_exit(play, other, 0, 0, 0);
    id = play_submit(play, "{\"gpus\":1,\"args\":[\"x\"],\"time\":\"1h\",\"min_runtime\":\"5m\"}", NULL);
    other = play_submit(play, brief, NULL);
    play_restart(play);
    play_until(play, play->now + 299 * USEC_SEC);
    STATE(id, "RUNNING");
    play_until(play, play->now + USEC_SEC);
    STATE(other, "RUNNING");
    STATE(id, "PENDING InsufficientGpus");
    end(play);
}

/* What cannot be kept is refused by name. */
static void test_refused(void **state)
{
    struct play *play = begin("fifo-skip");
    struct entry_result ret;

    (void)state;
    play_join(play, "n0", 1);
    assert_int_equal(
        play_submit(play, "{\"gpus\":1,\"args\":[\"x\"],\"priority\":\"oppo\",\"preempt\":\"never\"}", &ret), -ERANGE);
    assert_string_equal(ret.reason, "NotAllowed");
    assert_non_null(strstr(ret.text.text, "preempt: never"));
    assert_int_equal(
        play_submit(play, "{\"gpus\":1,\"args\":[\"x\"],\"priority\":\"oppo\",\"min_runtime\":\"5m\"}", &ret), -ERANGE);
    assert_non_null(strstr(ret.text.text, "min_runtime"));
    end(play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counted_apart), cmocka_unit_test(test_words),   cmocka_unit_test(test_codes),
        cmocka_unit_test(test_preempt),       cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests_name("ctl_terms", tests, NULL, NULL);
}
