/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl_play.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static usec_t now_fn(void *arg)
{
    struct play *play = arg;

    return play->now;
}

static int work_fn(void *arg, void (*work)(void *), void (*done)(void *), void *work_arg)
{
    (void)arg;
    work(work_arg);
    done(work_arg);
    return 0;
}

static void wake_fn(void *arg, usec_t at)
{
    (void)arg;
    (void)at;
}

static bool order_fn(void *arg, const char *node, const struct agent_frame *frame)
{
    struct play *play = arg;
    json_t *tree = json_loadb(frame->text, frame->size, JSON_REJECT_DUPLICATES, NULL);

    assert(tree);
    (void)json_array_append_new(play->orders, json_pack("{s:s, s:o}", "node", node, "frame", tree));
    return true;
}

static void event_fn(void *arg, const struct ctl_event *event)
{
    (void)arg;
    (void)event;
}

static void decision_fn(void *arg, const char *line)
{
    struct play *play = arg;
    size_t room = sizeof(play->log) - play->log_size;
    int size = snprintf(play->log + play->log_size, room, "%s\n", line);

    assert(size > 0 && (size_t)size < room);
    play->log_size += (size_t)size;
}

static void fatal_fn(void *arg, const struct error *err)
{
    (void)arg;
    fprintf(stderr, "fatal: %s\n", err->text);
    abort();
}

static void open_drive(struct play *play)
{
    struct batcher_host host = { .now = now_fn,
                                 .work = work_fn,
                                 .wake_at = wake_fn,
                                 .order = order_fn,
                                 .event = event_fn,
                                 .decision = decision_fn,
                                 .fatal = fatal_fn,
                                 .arg = play };
    struct error err = { 0 };

    if (batcher_new(&play->config, &host, play->store, &play->batcher, &err) < 0) {
        fprintf(stderr, "batcher_new: %s\n", err.text);
        abort();
    }
}

void play_init(struct play *play, const char *policy)
{
    struct error err = { 0 };

    memset(play, 0, sizeof(*play));
    play->now = 1000 * USEC_SEC;
    play->orders = json_array();
    play->config = (struct batcher_config){ .ctl = { .cluster = "test",
                                                     .policy = policy,
                                                     .jobs_max = 4096,
                                                     .finished_keep = 100,
                                                     .lease = 60 * USEC_SEC,
                                                     .node_timeout = 30 * USEC_SEC,
                                                     .grace = 10 * USEC_SEC,
                                                     .virtual_time = true },
                                            .pending_max = 100000,
                                            .snapshot_every = 0 };
    if (store_open("mem:", &play->store, &err) < 0)
        abort();
    open_drive(play);
}

void play_done(struct play *play)
{
    batcher_free(play->batcher);
    store_close(play->store);
    json_decref(play->orders);
}

static void turn(struct play *play)
{
    int r = batcher_turn_at(play->batcher, play->now);

    assert(r == 0);
    (void)r;
}

static void hello(struct play *play, size_t n, int gpus)
{
    json_t *list = json_array(), *frame;
    struct error err = { 0 };
    const struct ctl_node *node = registry_node_find(ctl_registry(batcher_ctl(play->batcher)), play->nodes[n]);

    if (gpus == 0 && node)
        gpus = node->gpu_count;
    for (int g = 0; g < gpus; g++)
        (void)json_array_append_new(list, json_pack("{s:i}", "index", g));
    frame = json_pack("{s:s, s:s, s:s, s:s, s:{s:s, s:o}}", "t", "hello", "agent", "a1", "boot", "b1", "address",
                      "127.0.0.1", "inventory", "sku", "H100", "gpus", list);
    if (batcher_agent_hello(play->batcher, play->nodes[n], frame, &err) < 0) {
        fprintf(stderr, "hello: %s\n", err.text);
        abort();
    }
    json_decref(frame);
}

void play_restart(struct play *play)
{
    batcher_free(play->batcher);
    (void)json_array_clear(play->orders);
    open_drive(play);
    for (size_t n = 0; n < play->node_count; n++)
        if (!play->away[n])
            hello(play, n, 0);
    turn(play);
}

void play_join(struct play *play, const char *name, int gpus)
{
    (void)snprintf(play->nodes[play->node_count], sizeof(play->nodes[0]), "%s", name);
    hello(play, play->node_count++, gpus);
    turn(play);
    play_settle(play);
}

static size_t node_number(struct play *play, const char *name)
{
    for (size_t n = 0; n < play->node_count; n++)
        if (strcmp(play->nodes[n], name) == 0)
            return n;
    abort();
}

void play_away(struct play *play, const char *name, bool away)
{
    size_t n = node_number(play, name);

    play->away[n] = away;
    if (away) {
        batcher_agent_gone(play->batcher, name);
    } else {
        hello(play, n, 0);
        turn(play);
    }
}

struct wait {
    bool done;
    struct entry_result result;
};

static void done_fn(void *arg, const struct entry_result *result)
{
    struct wait *wait = arg;

    wait->done = true;
    wait->result = *result;
}

int play_offer(struct play *play, enum entry_kind kind, const char *json, struct entry_result *ret)
{
    json_error_t where;
    json_t *body = json_loads(json, 0, &where);
    struct entry_result scratch, *result = ret ? ret : &scratch;
    struct wait wait = { 0 };
    int r;

    if (!body) {
        fprintf(stderr, "bad JSON in a test: %s\n", where.text);
        abort();
    }
    r = batcher_offer_json(play->batcher, kind, body, done_fn, &wait, result);
    if (r < 0)
        return r;
    turn(play);
    assert(wait.done);
    *result = wait.result;
    return wait.result.code;
}

int64_t play_submit(struct play *play, const char *json, struct entry_result *ret)
{
    struct entry_result scratch, *result = ret ? ret : &scratch;
    char text[4096];
    int r;

    (void)snprintf(text, sizeof(text), "{\"user\":\"alice\",\"uid\":1000,\"gid\":1000,\"spec\":%s}", json);
    r = play_offer(play, ENTRY_SUBMIT, text, result);
    if (r < 0)
        return r;
    play_settle(play);
    return result->id;
}

static struct play_task *find_task(struct play *play, int64_t job, uint32_t attempt, uint32_t rank)
{
    for (size_t i = 0; i < play->task_count; i++)
        if (play->tasks[i].id.job == job && play->tasks[i].id.attempt == attempt && play->tasks[i].id.rank == rank)
            return &play->tasks[i];
    return NULL;
}

static void report(struct play *play, struct play_task *task, enum task_state state, const char *cause, int code,
                   int signal)
{
    size_t n = node_number(play, task->node);
    struct error err = { 0 };
    json_t *frame = json_pack("{s:s, s:I, s:I, s:I, s:I, s:s, s:s, s:i, s:i}", "t", "report", "seq",
                              (json_int_t)++play->seq[n], "job", (json_int_t)task->id.job, "attempt",
                              (json_int_t)task->id.attempt, "rank", (json_int_t)task->id.rank, "state",
                              task_state_name(state), "cause", cause, "exit", code, "signal", signal);

    if (state == TASK_EXITED && play->at_once)
        (void)json_object_set_new(frame, "ran", json_true());
    if (state == TASK_RUNNING && task->state != TASK_RUNNING)
        task->since = play->now;
    task->state = state;
    /* Two attempts of one rank at the same time: what must never be. */
    for (size_t i = 0; i < play->task_count; i++)
        if (state == TASK_RUNNING && &play->tasks[i] != task && play->tasks[i].id.job == task->id.job &&
            play->tasks[i].id.attempt != task->id.attempt && play->tasks[i].state == TASK_RUNNING)
            play->doubles++;
    if (play->away[n]) {
        play->seq[n]--; /* its journal keeps it; a play has no journal */
    } else if (batcher_agent_frame(play->batcher, task->node, frame, &err) < 0) {
        fprintf(stderr, "report: %s\n", err.text);
        abort();
    }
    json_decref(frame);
}

static usec_t emulated(const json_t *frame)
{
    return json_integer_value(json_object_get(json_object_get(json_object_get(frame, "spec"), "emulate"), "run_usec"));
}

static void launch(struct play *play, const char *node, const json_t *frame)
{
    int64_t job = json_integer_value(json_object_get(frame, "job"));
    uint32_t attempt = (uint32_t)json_integer_value(json_object_get(frame, "attempt"));
    uint32_t rank = (uint32_t)json_integer_value(json_object_get(frame, "rank"));
    struct play_task *task = find_task(play, job, attempt, rank);

    if (task)
        return; /* sent again */
    assert(play->task_count < PLAY_TASKS);
    task = &play->tasks[play->task_count++];
    *task = (struct play_task){ .id = { job, attempt, rank }, .left = emulated(frame) };
    (void)snprintf(task->node, sizeof(task->node), "%s", node);
    task->runtime = json_is_true(json_object_get(frame, "runtime"));
    play->started++;
    if (play->refuses) {
        play->refuses = false;
        report(play, task, TASK_REFUSED, "restore", 0, 0);
        return;
    }
    if (play->at_once)
        report(play, task, TASK_EXITED, "exit", 0, 0);
    else
        report(play, task, json_is_true(json_object_get(frame, "go")) ? TASK_RUNNING : TASK_READY, "", 0, 0);
}

static void obey_task(struct play *play, struct play_task *task, const json_t *frame, int what)
{
    const char *kind = json_string_value(json_object_get(frame, "kind"));

    if (what == ORDER_GO && task->state == TASK_READY) {
        report(play, task, TASK_RUNNING, "", 0, 0);
        if (play->brief && task->id.rank == 0)
            report(play, task, TASK_EXITED, "exit", 0, 0);
    } else if (what == ORDER_STOP && task->state != TASK_EXITED && play->slow) {
        if (!task->told[0]) /* a second order only shortens the grace */
            (void)snprintf(task->told, sizeof(task->told), "%.15s", kind ? kind : "");
    } else if (what == ORDER_STOP && task->state != TASK_EXITED)
        report(play, task, TASK_EXITED, kind ? kind : "", 0, 15);
    else if (what == ORDER_SUSPEND && task->state == TASK_RUNNING && play->drowsy)
        return;
    else if (what == ORDER_SUSPEND && task->state == TASK_RUNNING)
        report(play, task, TASK_SUSPENDED, "", 0, 0);
    else if (what == ORDER_RESUME && task->state == TASK_SUSPENDED)
        report(play, task, TASK_RUNNING, "", 0, 0);
}

static void obey(struct play *play, const char *node, const json_t *frame)
{
    const char *kind = json_string_value(json_object_get(frame, "t"));
    const char *name = json_string_value(json_object_get(frame, "do"));
    int what = name ? order_find(name) : -1;

    if (play->away[node_number(play, node)] || agent_down_find(kind) != DOWN_ORDER)
        return;
    if (what == ORDER_LAUNCH) {
        launch(play, node, frame);
        return;
    }
    for (size_t i = 0; i < play->task_count; i++)
        if (play->tasks[i].id.job == json_integer_value(json_object_get(frame, "job")) &&
            play->tasks[i].id.attempt == json_integer_value(json_object_get(frame, "attempt")) &&
            strcmp(play->tasks[i].node, node) == 0)
            obey_task(play, &play->tasks[i], frame, what);
}

static void carry_out(struct play *play)
{
    json_t *orders = play->orders;

    play->orders = json_array();
    for (size_t i = 0; i < json_array_size(orders); i++)
        obey(play, json_string_value(json_object_get(json_array_get(orders, i), "node")),
             json_object_get(json_array_get(orders, i), "frame"));
    json_decref(orders);
}

/* What comes late to an instant is planned a microsecond after it. */
static bool at_once(struct play *play)
{
    usec_t wake = ctl_next_wake(batcher_ctl(play->batcher));

    if (wake > play->now + 10)
        return false;
    play->now = wake > play->now ? wake : play->now;
    return true;
}

void play_settle(struct play *play)
{
    do {
        while (json_array_size(play->orders) > 0 || !batcher_quiet(play->batcher)) {
            carry_out(play);
            if (!batcher_quiet(play->batcher))
                turn(play);
        }
        if (!at_once(play))
            return;
        turn(play);
    } while (true);
}

void play_exit(struct play *play, int64_t job, uint32_t rank, int code, int signal)
{
    for (size_t i = 0; i < play->task_count; i++)
        if (play->tasks[i].id.job == job && play->tasks[i].id.rank == rank &&
            (play->tasks[i].state == TASK_RUNNING || play->tasks[i].state == TASK_SUSPENDED))
            report(play, &play->tasks[i], TASK_EXITED, signal ? "signal" : "exit", code, signal);
    play_settle(play);
}

void play_leave(struct play *play, int64_t job, int code)
{
    for (size_t i = 0; i < play->task_count; i++)
        if (play->tasks[i].id.job == job && play->tasks[i].told[0] && play->tasks[i].state != TASK_EXITED)
            report(play, &play->tasks[i], TASK_EXITED, play->tasks[i].told, code, 0);
    play_settle(play);
}

void play_rest(struct play *play, int64_t job)
{
    for (size_t i = 0; i < play->task_count; i++)
        if (play->tasks[i].id.job == job && play->tasks[i].state == TASK_RUNNING)
            report(play, &play->tasks[i], TASK_SUSPENDED, "", 0, 0);
    play_settle(play);
}

void play_until(struct play *play, usec_t at)
{
    while (play->now < at) {
        usec_t wake = ctl_next_wake(batcher_ctl(play->batcher));

        play->now = wake < at ? (wake > play->now ? wake : play->now) : at;
        turn(play);
        play_settle(play);
    }
}

const char *play_state(struct play *play, int64_t id)
{
    static char text[128];
    const struct ctl_job *job = registry_find(ctl_registry(batcher_ctl(play->batcher)), id);
    static const char *const gates[GATE_COUNT] = {
        "", " Held", " BeginTime", " Dependency", " ArrayLimit", " SchedulerPaused"
    };

    if (!job)
        return "gone";
    (void)snprintf(text, sizeof(text), "%s%s%s%s", phase_name(job->phase), gates[job->gate],
                   job->phase == PHASE_JOB_PENDING && job_in_core(job) ? " " : "",
                   job->phase == PHASE_JOB_PENDING && job_in_core(job) ? reason_name(job->reason) : "");
    return text;
}
