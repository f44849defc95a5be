/* SPDX-License-Identifier: Apache-2.0 */
/* emulate.c - tasks of emulated nodes that only pretend to run: a timer instead of a process.
 *
 * For clusters of a thousand nodes on one machine. When it started is kept in the task's directory, so an agent that
 * was started anew goes on counting. Being told to stop, such a task leaves at once.
 */
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/util.h"

static void on_emulated_end(void *arg)
{
    struct task *task = arg;

    emulate_end(task, task->launch.spec.emulate_exit, "exit");
}

static void on_time_limit(void *arg)
{
    emulate_end(arg, 0, "timeout");
}

static void timer_set(struct task *task, usec_t at, bool limit)
{
    usec_t now = clock_real();

    loop_timer_free(task->timer);
    task->timer = NULL;
    if (loop_timer_new(task->agent->set->loop, limit ? on_time_limit : on_emulated_end, task, &task->timer) == 0)
        loop_timer_after(task->timer, at > now ? at - now : 0);
}

static void timer_run(struct task *task)
{
    bool limit = task->launch.end && task->launch.end < task->emulated_end;

    timer_set(task, limit ? task->launch.end : task->emulated_end, limit);
}

/* Before it is told: an agent that dies in between goes on from what it has told. */
static void state_save(const struct task *task, enum task_state now)
{
    json_t *state = json_pack("{ss,sI,sI}", "state", task_state_name(now), "started", (json_int_t)task->started, "end",
                              (json_int_t)task->emulated_end);
    int dir = task_dir(task);

    if (dir >= 0) {
        (void)util_json_put(dir, "emulated.json", state, false);
        close(dir);
    }
    json_decref(state);
}

int emulate_start(struct task *task)
{
    if (task->launch.go)
        emulate_go(task);
    else
        task_set_state(task, TASK_READY, NULL);
    return 0;
}

void emulate_go(struct task *task)
{
    task->started = clock_real();
    task->emulated_end = task->started + task->launch.spec.emulate_run;
    state_save(task, TASK_RUNNING);
    task_set_state(task, TASK_RUNNING, json_pack("{sI}", "started", (json_int_t)task->started));
    timer_run(task);
}

void emulate_end(struct task *task, int code, const char *cause)
{
    json_t *end;
    int dir;

    if (task_over(task))
        return;
    if (task->timer)
        loop_timer_stop(task->timer);
    end = json_pack("{ss,si,si,sb,ss,sI}", "state", task_state_name(TASK_EXITED), "exit", code, "signal",
                    code > 128 ? code - 128 : 0, "oom", 0, "cause", cause, "started", (json_int_t)task->started);
    dir = task_dir(task);
    if (dir >= 0) {
        (void)util_json_put(dir, "exit.json", end, task->agent->config.durable);
        close(dir);
    }
    task_news(task, end);
}

void emulate_stop(struct task *task, const json_t *order)
{
    const char *kind = util_text(order, "kind");

    emulate_end(task, 143, kind ? kind : "cancel");
}

void emulate_suspend(struct task *task, bool suspend)
{
    usec_t now = clock_real();

    if (suspend) {
        task->suspended_at = now;
        if (task->timer)
            loop_timer_stop(task->timer);
    } else {
        task->emulated_end += now - task->suspended_at;
        timer_run(task);
    }
    state_save(task, suspend ? TASK_SUSPENDED : TASK_RUNNING);
    task_set_state(task, suspend ? TASK_SUSPENDED : TASK_RUNNING, NULL);
}

void emulate_recover(struct task *task, int dir)
{
    json_t *state = util_json_get(dir, "emulated.json");

    task->emulated = true;
    if (!state) {
        emulate_start(task);
        return;
    }
    task->started = util_i64(state, "started", 0);
    task->emulated_end = util_i64(state, "end", 0);
    task->suspended_at = clock_real();
    task->state = task_state_find(util_text(state, "state")) == TASK_SUSPENDED ? TASK_SUSPENDED : TASK_RUNNING;
    json_decref(state);
    task_set_state(task, task->state, NULL);
    if (task->state == TASK_RUNNING)
        timer_run(task);
}
