/* SPDX-License-Identifier: Apache-2.0 */
/* The audit of the controller's state: quiet in every state that a job goes through, and of anything that is not as it
 * should be it says so in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/state/audit.h"
#include "ctl/state/state_internal.h"
#include "ctl_play.h"

static struct play *begin(void)
{
    struct play *play = malloc(sizeof(*play));

    assert_non_null(play);
    play_init(play, "fifo-skip");
    play_join(play, "n0", 4);
    play_join(play, "n1", 4);
    return play;
}

static struct ctl *inside(struct play *play)
{
    return (struct ctl *)(uintptr_t)batcher_ctl(play->batcher);
}

static void check_quiet(struct play *play)
{
    struct state_audit audit = { 0 };

    assert_true(state_audit(inside(play), &audit));
    if (audit.count)
        fail_msg("%s", audit.lines[0]);
}

static void check_says(struct play *play, const char *words)
{
    struct state_audit audit = { 0 };

    (void)state_audit(inside(play), &audit);
    for (size_t i = 0; i < audit.count && i < AUDIT_LINES_MAX; i++)
        if (strstr(audit.lines[i], words))
            return;
    fail_msg("expected '%s', got '%s'", words, audit.count ? audit.lines[0] : "nothing");
}

/* One thing is changed behind everybody's back, told, and put back. */
#define BROKEN(place, value, words)                                                                                    \
    do {                                                                                                               \
        __typeof__(place) was = (place);                                                                               \
                                                                                                                       \
        (place) = (value);                                                                                             \
        check_says(play, words);                                                                                       \
        (place) = was;                                                                                                 \
        check_quiet(play);                                                                                             \
    } while (0)

static void test_says(void **state)
{
    struct play *play = begin();
    int64_t runs = play_submit(play, "{\"gpus\":8,\"args\":[\"x\"]}", NULL);
    int64_t waits = play_submit(play, "{\"gpus\":8,\"args\":[\"x\"]}", NULL), held;
    struct ctl *ctl = inside(play);
    struct ctl_job *job = registry_get(&ctl->registry, runs), *other = registry_get(&ctl->registry, waits);
    struct ctl_attempt *attempt = attempt_now(job);
    const struct ctl_job *element;

    (void)state;
    held = play_submit(play, "{\"gpus\":1,\"hold\":true,\"args\":[\"x\"]}", NULL);
    assert_true(play_submit(play, "{\"gpus\":8,\"array\":\"0-2%1\",\"args\":[\"x\"]}", NULL) > 0);
    element = ctl->registry.live[ctl->registry.live_count - 1];
    check_quiet(play);
    BROKEN(attempt->state, ATTEMPT_STOPPING, "is stopping, and it is not told why");
    BROKEN(attempt->state, ATTEMPT_PLACED, "its attempt is placed, and the core has it RUNNING");
    BROKEN(attempt->state, ATTEMPT_OVER, "attempt 0 is over and a task of it is left");
    BROKEN(attempt->ended, 1, "is running and has an end");
    BROKEN(attempt->tasks[0].gpus[1], 7, "and its attempt 0 is not there");
    BROKEN(attempt->tasks[0].gpu_count, 3, "and its attempt 0 is on 7");
    BROKEN(attempt->tasks[0].state, TASK_STATE_COUNT, "rank 0 of attempt 0 is nowhere, or in no state");
    BROKEN(job->phase, PHASE_JOB_PENDING, "it is shown as PENDING");
    BROKEN(job->link, LINK_REENTERING, "it is still reentering");
    BROKEN(job->gen, job->gen + 1, "of the core is not its own");
    BROKEN(element->source->array->inside, 2, "of it are in the core, and 2 are counted");
    BROKEN(other->slot, job->slot, "of the core is not its own");
    BROKEN(registry_get(&ctl->registry, held)->gate, GATE_NONE, "nothing keeps it out of the core");
    BROKEN(ctl->by_index[job->index], other, "is not its own");
    BROKEN(ctl->by_slot[job->slot], NULL, "nobody knows the job that is there");
    BROKEN(ctl->free_count, ctl->free_count - 1, "numbers are free, of");
    BROKEN(ctl->deadlines, 1, "are counted");
    BROKEN(ctl->registry.submitted, 7, "7 jobs were submitted; 0 have ended and 6 have not");
    BROKEN(ctl->registry.nodes[0].drained, true, "node n0: it is down, and the core has it up");
    play_done(play);
    free(play);
}

/* In parts it finds what it finds at once. */
static void test_parts(void **state)
{
    struct play *play = begin();
    struct state_audit audit = { .jobs_max = 3 };
    int turns = 1;

    (void)state;
    for (int i = 0; i < 10; i++)
        assert_true(play_submit(play, "{\"gpus\":1,\"args\":[\"x\"]}", NULL) > 0);
    inside(play)->registry.live[7]->phase = PHASE_JOB_COMPLETING;
    while (!state_audit(inside(play), &audit))
        turns++;
    assert_int_equal(turns, 4);
    assert_int_equal(audit.jobs, 10);
    assert_int_equal(audit.count, 1);
    assert_int_equal(audit.from, 0);
    play_done(play);
    free(play);
}

/* Quiet whatever a job does. */
static void test_quiet(void **state)
{
    static const enum entry_kind acts[] = { ENTRY_SUSPEND, ENTRY_RESUME, ENTRY_REQUEUE, ENTRY_SUSPEND, ENTRY_CANCEL };
    struct play *play = begin();
    int64_t jobs[2];
    char body[64];

    (void)state;
    jobs[0] = play_submit(play, "{\"gpus\":8,\"args\":[\"x\"]}", NULL);
    jobs[1] = play_submit(play, "{\"gpus\":8,\"args\":[\"x\"]}", NULL);
    for (size_t i = 0; i < sizeof(acts) / sizeof(*acts); i++)
        for (int k = 0; k < 2; k++) {
            (void)snprintf(body, sizeof(body), "{\"job\":%lld}", (long long)jobs[k]);
            (void)play_offer(play, acts[i], body, NULL);
            check_quiet(play); /* orders are under way */
            play_settle(play);
            check_quiet(play);
        }
    assert_string_equal(play_state(play, jobs[0]), "CANCELLED");
    assert_string_equal(play_state(play, jobs[1]), "CANCELLED");
    play_done(play);
    free(play);
}

/* A rank says with its end that it had run for long: the time limit of its gang, which has not left yet, counts from
 * then. */
static void test_start_told_late(void **state)
{
    struct play *play = malloc(sizeof(*play));
    struct ctl_attempt *attempt;
    struct error err = { 0 };
    json_t *frame;
    int64_t id;

    (void)state;
    assert_non_null(play);
    play_init(play, "fifo-skip");
    play->config.ctl.virtual_time = false;
    play_restart(play);
    play_join(play, "n0", 4);
    play_join(play, "n1", 4);
    play->slow = true;
    id = play_submit(
        play, "{\"nodes\":2,\"per_node\":{\"gpu\":4},\"launch\":\"node\",\"args\":[\"x\"],\"time\":\"100s\"}", NULL);
    assert_true(id > 0);
    attempt = attempt_now(registry_get(&inside(play)->registry, id));
    assert_true(attempt->started > 0);
    attempt->placed -= USEC_MIN; /* as where its nodes were slow to say that it runs */
    check_quiet(play);
    frame = json_pack("{s:s, s:I, s:I, s:I, s:I, s:s, s:s, s:i, s:i, s:I, s:I}", "t", "report", "seq",
                      (json_int_t)++play->seq[0], "job", (json_int_t)id, "attempt", (json_int_t)0, "rank",
                      (json_int_t)0, "state", "exited", "cause", "exit", "exit", 1, "signal", 0, "started",
                      (json_int_t)(play->now - 30 * USEC_SEC), "at", (json_int_t)play->now);
    assert_int_equal(batcher_agent_frame(play->batcher, "n0", frame, &err), 0);
    json_decref(frame);
    play_settle(play);
    attempt = attempt_now(registry_get(&inside(play)->registry, id));
    assert_int_equal(attempt->number, 0);
    assert_int_equal(attempt->started, play->now - 30 * USEC_SEC);
    check_quiet(play);
    play_done(play);
    free(play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start_told_late),
        cmocka_unit_test(test_says),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_quiet),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
