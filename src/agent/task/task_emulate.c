/* SPDX-License-Identifier: Apache-2.0 */
/* task_emulate.c - tasks of emulated nodes that only pretend to run: a timer instead of a process.
 *
 * For clusters of a thousand nodes on one machine. When it started is kept in the task's directory, so an agent that
 * was started anew goes on counting. Being told to stop, such a task leaves at once.
 *
 * Tasks on one GPU slow each other: each uses `training.utilisation` of its GPUs alone, EMULATED_UTIL where that is not
 * told; up to 100 % together they do not notice, beyond it they share what there is, less EMULATED_LOSS for changing
 * between them. Guests have what owners leave. Their steps, EMULATED_STEPS for a second of work, are told as those of
 * real programs are.
 */
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/task/task_emulate.h"
#include "agent/util.h"

enum { EMULATED_UTIL = 80, EMULATED_LOSS = 5, EMULATED_LEAST = 2, EMULATED_STEPS = 10, PERCENT = 100 };
#define EMULATED_TELLS (10 * USEC_SEC) /* shorter ones are over before it is of use to anybody */

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
    json_t *state = json_pack("{ss,sI,sI,si}", "state", task_state_name(now), "started", (json_int_t)task->started,
                              "end", (json_int_t)task->emulated_end, "speed", task->emulated_speed);
    int dir = task_dir(task);

    if (dir >= 0) {
        (void)util_json_put(dir, "emulated.json", state, false);
        close(dir);
    }
    json_decref(state);
}

/* Of a GPU, alone; of a part of one, that part. */
static int util_of(const struct task *task)
{
    const struct submission *spec = &task->launch.spec;
    int util = spec->utilisation ? spec->utilisation : EMULATED_UTIL;

    return spec->gpu_share > 0 && spec->gpu_share < MGPU_ONE ? util * (int)spec->gpu_share / MGPU_ONE : util;
}

static const struct launch_node *runs_at(const struct task *task)
{
    return task->state == TASK_RUNNING && task->launch.order ? launch_here(&task->launch) : NULL;
}

/* Percent of a GPU that those on it use alone. */
struct busy {
    int owners, guests;
};

/* Guests have what owners leave, and owners do not notice them. */
static int speed_on(struct busy busy, bool guest)
{
    int left = guest ? PERCENT - busy.owners : PERCENT, want = guest ? busy.guests : busy.owners;

    if (want <= left)
        return PERCENT;
    left = left * (PERCENT - EMULATED_LOSS) / want;
    return left > EMULATED_LEAST ? left : EMULATED_LEAST;
}

static int speed_of(const struct task *task, const struct busy *busy)
{
    const struct launch_node *here = launch_here(&task->launch);
    int least = PERCENT;

    for (uint32_t i = 0; i < here->gpu_count; i++) {
        int speed = speed_on(busy[here->gpus[i]], task->launch.guest);

        least = speed < least ? speed : least;
    }
    return least;
}

void emulate_settle(struct agent *agent)
{
    struct busy busy[AGENT_GPUS_MAX] = { 0 };
    usec_t now = clock_real();

    for (const struct task *task = agent->tasks; task; task = task->next) {
        const struct launch_node *here = runs_at(task);

        for (uint32_t i = 0; here && i < here->gpu_count; i++)
            *(task->launch.guest ? &busy[here->gpus[i]].guests : &busy[here->gpus[i]].owners) += util_of(task);
    }
    for (struct task *task = agent->tasks; task; task = task->next) {
        int speed = task->emulated && runs_at(task) ? speed_of(task, busy) : 0;

        if (speed == 0 || speed == task->emulated_speed || task->emulated_end <= now || task->emulated_speed < 1)
            continue;
        task->emulated_end = now + (task->emulated_end - now) * task->emulated_speed / speed;
        task->emulated_speed = speed;
        state_save(task, TASK_RUNNING);
        timer_run(task);
    }
}

void emulate_progress(struct task *task)
{
    struct task_progress *p = &task->progress;
    usec_t run = task->launch.spec.emulate_run, now = clock_real(), left = task->emulated_end - now;
    int64_t step;

    if (run < EMULATED_TELLS || task->state != TASK_RUNNING || task->emulated_speed < 1)
        return;
    left = left > 0 ? left * task->emulated_speed / PERCENT : 0;
    step = (run - (left < run ? left : run)) * EMULATED_STEPS / USEC_SEC;
    p->fresh |= step != p->step || p->state == PROGRESS_NONE;
    p->state = PROGRESS_MOVES;
    p->source = PROGRESS_OF_EMULATION;
    p->step = step;
    p->total = run * EMULATED_STEPS / USEC_SEC;
    p->epoch = -1;
    p->rate = (int64_t)EMULATED_STEPS * 1000000 * task->emulated_speed / PERCENT;
    p->at = now;
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
    task->emulated_speed = PERCENT;
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
    task->emulated_speed = (int)util_i64(state, "speed", PERCENT);
    task->suspended_at = clock_real();
    task->state = task_state_find(util_text(state, "state")) == TASK_SUSPENDED ? TASK_SUSPENDED : TASK_RUNNING;
    json_decref(state);
    task_set_state(task, task->state, NULL);
    if (task->state == TASK_RUNNING)
        timer_run(task);
}
