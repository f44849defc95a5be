/* SPDX-License-Identifier: Apache-2.0 */
/* task_progress.c - see task_progress.h. */
#include "agent/task/task_progress.h"

#include "agent/agent.h"
#include "agent/util.h"
#include "io/clock.h"

#define STALL_LEAST USEC_MIN
enum { STALL_STEPS = 20 };

static bool changed_much(int64_t rate, int64_t told)
{
    int64_t away = rate > told ? rate - told : told - rate;

    return away > told / 10;
}

void task_progress_take(struct task *task, const json_t *said)
{
    struct task_progress *p = &task->progress;
    const json_t *loss = json_object_get(said, "loss");
    enum progress_state was = p->state;

    p->step = util_i64(said, "step", util_i64(said, "samples", -1));
    p->epoch = util_i64(said, "epoch", -1);
    p->total = util_i64(said, "total", -1);
    p->rate = util_i64(said, "rate", 0);
    p->at = util_i64(said, "at", 0);
    p->source = util_flag(said, "output") ? PROGRESS_OF_OUTPUT : PROGRESS_OF_SOCKET;
    p->has_loss = p->has_loss || loss;
    if (loss)
        p->loss = json_integer_value(loss);
    p->state = PROGRESS_MOVES;
    p->fresh = true;
    if (was != PROGRESS_MOVES || (p->rate > 0 && changed_much(p->rate, p->told_rate)))
        agent_progress_now(task->agent);
}

void task_progress_counted(struct task *task, int64_t pid, int64_t steps)
{
    struct task_progress *p = &task->progress;
    enum progress_state was = p->state;

    if (was != PROGRESS_NONE && p->source != PROGRESS_OF_RUNTIME)
        return;
    if (p->pace_pid != pid)
        p->pace = (struct pace){ 0 };
    p->pace_pid = pid;
    pace_look(&p->pace, clock_boot(), steps);
    if (was != PROGRESS_NONE && steps == p->step)
        return;
    p->source = PROGRESS_OF_RUNTIME;
    p->state = PROGRESS_MOVES;
    p->step = steps;
    p->epoch = p->total = -1;
    p->at = clock_real();
    p->rate = pace_rate(&p->pace);
    p->fresh = true;
    if (was != PROGRESS_MOVES || (p->rate > 0 && changed_much(p->rate, p->told_rate)))
        agent_progress_now(task->agent);
}

/* For so long nothing has moved that it is not a step that takes long. */
static void stall_look(struct task *task, usec_t now)
{
    struct task_progress *p = &task->progress;
    usec_t patience = p->rate > 0 ? STALL_STEPS * (1000000 * USEC_SEC / p->rate) : USEC_HOUR;

    if (p->state != PROGRESS_MOVES || task->state != TASK_RUNNING || p->at == 0 ||
        now - p->at < (patience > STALL_LEAST ? patience : STALL_LEAST))
        return;
    p->state = PROGRESS_STALLED;
    p->fresh = true;
}

/* What its GPUs do: only while it is alone on them, since a card does not tell whose work it did. */
static void gpus_add(const struct task *task, json_t *row)
{
    bool alone = task_alone(task);

    (void)json_array_append_new(row, json_integer(alone ? task->progress.util : 0));
    (void)json_array_append_new(row, json_integer(alone ? (json_int_t)task->progress.memory : 0));
}

void task_use_alone(struct task *task)
{
    struct task_progress *p = &task->progress;

    if (p->rate <= 0 || p->state != PROGRESS_MOVES)
        return;
    p->alone.util = p->util;
    p->alone.memory = p->memory;
    p->alone.rate = p->rate;
}

bool task_use_beside(const struct task *task, uint32_t *ret_util, uint32_t *ret_memory)
{
    const struct task_progress *p = &task->progress;
    uint32_t gpus = launch_here(&task->launch)->gpu_count;
    int64_t util;

    if (task->agent->gpus->fake) {
        *ret_util = (uint32_t)(task->emulated ? 97 : task->busy) * gpus;
        *ret_memory = (uint32_t)(task->memory / gpus >> 20);
        return true;
    }
    if (p->alone.rate <= 0 || p->rate <= 0)
        return false;
    util = p->rate < p->alone.rate ? p->alone.util * p->rate / p->alone.rate : p->alone.util;
    *ret_util = (uint32_t)util * gpus;
    *ret_memory = p->alone.memory;
    return true;
}

json_t *agent_progress(struct agent *agent)
{
    usec_t now = clock_real();
    json_t *rows = NULL;

    for (struct task *task = agent->tasks; task; task = task->next) {
        struct task_progress *p = &task->progress;
        json_t *row;

        if (task->emulated)
            emulate_progress(task);
        if (p->state == PROGRESS_NONE || task_over(task) || !task->launch.order)
            continue;
        stall_look(task, now);
        if (!p->fresh)
            continue;
        row = json_pack("[I,I,I,i,i,I,I,I,I]", (json_int_t)task->id.job, (json_int_t)task->id.attempt,
                        (json_int_t)task->id.rank, (int)p->state, (int)p->source, (json_int_t)p->step,
                        (json_int_t)p->rate, (json_int_t)p->epoch, (json_int_t)p->total);
        gpus_add(task, row);
        (void)json_array_append_new(row, p->has_loss ? json_integer(p->loss) : json_null());
        if (!rows)
            rows = json_array();
        (void)json_array_append_new(rows, row);
        p->fresh = false;
        p->told_rate = p->rate;
    }
    return rows;
}

void agent_progress_again(struct agent *agent)
{
    for (struct task *task = agent->tasks; task; task = task->next)
        task->progress.fresh = task->progress.state != PROGRESS_NONE;
}
