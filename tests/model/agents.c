/* SPDX-License-Identifier: Apache-2.0 */
/* agents.c - agents as the controller meets them: they hear orders in the order they were sent, do what src/agent does
 * with each, and write down what they report until it is taken.
 *
 * Nothing happens by itself: a step says when a node hears, works, and is heard. A connection that breaks takes with it
 * what was not heard. So answers come late, after others, or once more.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "model.h"

enum { JOURNAL_MAX = 100000 };

struct agent *agent_find(struct world *world, const char *name)
{
    for (size_t i = 0; i < world->agent_count; i++)
        if (strcmp(world->agents[i].name, name) == 0)
            return &world->agents[i];
    return NULL;
}

struct sim_task *agent_task(struct agent *agent, const struct task_id *id)
{
    for (size_t i = 0; i < agent->task_count; i++) {
        const struct task_id *has = &agent->tasks[i].id;

        if (has->job == id->job && has->attempt == id->attempt && has->rank == id->rank)
            return &agent->tasks[i];
    }
    return NULL;
}

void agent_report(struct world *world, struct agent *agent, struct said report)
{
    void *block = agent->journal;

    (void)world;
    if (mem_grow(&block, &agent->journal_capacity, agent->journal_count + 1, JOURNAL_MAX, sizeof(report)) < 0)
        abort();
    agent->journal = block;
    report.seq = ++agent->seq;
    agent->journal[agent->journal_count++] = report;
}

struct said sim_said(const struct sim_task *task)
{
    return (struct said){ .id = task->id, .state = task->state, .gpu = -1, .rate = -1 };
}

void sim_say(struct world *world, struct agent *agent, struct sim_task *task, struct said report)
{
    task->state = report.state;
    task->last = report;
    task->said = true;
    if (task->state == TASK_SUSPENDED || sim_over(task))
        task->holding = false;
    if (!task->clean)
        agent_report(world, agent, report);
}

void sim_state(struct world *world, struct agent *agent, struct sim_task *task, enum task_state state)
{
    struct said report = sim_said(task);

    report.state = state;
    sim_say(world, agent, task, report);
}

void sim_repeat(struct world *world, struct agent *agent, struct sim_task *task)
{
    if (task->said)
        agent_report(world, agent, task->last);
}

void sim_end(struct world *world, struct agent *agent, struct sim_task *task, const char *cause, int code)
{
    struct said report = sim_said(task);

    if (task->state == TASK_KEPT)
        report = task->ending;
    report.state = TASK_EXITED;
    if (task->state != TASK_KEPT) {
        report.exit = code;
        report.signal = code > 128 ? code - 128 : 0;
        (void)snprintf(report.cause, sizeof(report.cause), "%s", cause);
    }
    task->waiting = false;
    sim_say(world, agent, task, report);
}

static bool goes_beside(const struct sim_task *task, const struct sim_task *other)
{
    for (uint32_t i = 0; i < task->beside_count; i++)
        if (task->beside[i] == other->id.job)
            return true;
    return false;
}

static mgpu_t gpu_held(const struct agent *agent, const struct sim_task *task, uint16_t gpu)
{
    mgpu_t held = 0;

    for (size_t i = 0; i < agent->task_count; i++) {
        const struct sim_task *other = &agent->tasks[i];

        if (other == task || !other->holding || goes_beside(task, other))
            continue;
        for (uint32_t g = 0; g < other->gpu_count; g++)
            held += other->gpus[g] == gpu ? other->share : 0;
    }
    return held;
}

bool sim_gpus_free(const struct agent *agent, const struct sim_task *task)
{
    for (uint32_t g = 0; !task->guest && g < task->gpu_count; g++)
        if (gpu_held(agent, task, task->gpus[g]) + task->share > MGPU_ONE)
            return false;
    return true;
}

/* It has processes from now on: nothing of an attempt before it may have any, wherever it is. */
static void begin_check(struct world *world, const struct agent *here, const struct sim_task *task)
{
    for (size_t a = 0; a < world->agent_count; a++)
        for (size_t i = 0; i < world->agents[a].task_count; i++) {
            const struct sim_task *other = &world->agents[a].tasks[i];

            if (other->id.job != task->id.job || other == task || sim_over(other) || !other->begun)
                continue;
            if (other->id.attempt != task->id.attempt || other->id.rank == task->id.rank)
                world_fail(world, "two at once: job %lld runs attempt %u rank %u on %s and attempt %u rank %u on %s",
                           (long long)task->id.job, task->id.attempt, task->id.rank, here->name, other->id.attempt,
                           other->id.rank, world->agents[a].name);
        }
}

static void task_begin(struct world *world, struct agent *agent, struct sim_task *task)
{
    task->waiting = task->gated = false;
    task->holding = task->begun = true;
    begin_check(world, agent, task);
    sim_state(world, agent, task, TASK_RUNNING);
}

void sim_forget(struct agent *agent, struct sim_task *task)
{
    size_t index = (size_t)(task - agent->tasks);

    memmove(task, task + 1, (agent->task_count - index - 1) * sizeof(*task));
    agent->task_count--;
}

bool agent_order(struct world *world, const char *node, const json_t *frame)
{
    struct agent *agent = agent_find(world, node);
    struct order order;
    void *block;

    if (!agent || !agent->connected || !agent->welcomed)
        return false;
    if (!order_read(frame, &order))
        return true;
    block = agent->inbox;
    if (mem_grow(&block, &agent->inbox_capacity, agent->inbox_count + 1, JOURNAL_MAX, sizeof(order)) < 0)
        abort();
    agent->inbox = block;
    agent->inbox[agent->inbox_count++] = order;
    return true;
}

static void work_leave(struct world *world, struct agent *agent, struct sim_task *task)
{
    struct said report = sim_said(task);

    report.state = TASK_EXITED;
    report.exit = 143;
    report.signal = 15;
    (void)snprintf(report.cause, sizeof(report.cause), "%s", task->told);
    if (strcmp(task->told, "peer") == 0 && task->keep_ms > 0) {
        task->ending = report;
        task->kept_until = world->now + task->keep_ms * USEC_MSEC;
        report.state = TASK_KEPT;
    }
    sim_say(world, agent, task, report);
}

/* One thing that the task is about; true: there was one. */
static bool work_one(struct world *world, struct agent *agent, struct sim_task *task)
{
    if (task->clean) {
        sim_forget(agent, task);
        return true;
    }
    if (task->waiting && sim_gpus_free(agent, task)) {
        task->waiting = false;
        task->holding = true;
    }
    if (task->told[0] && !sim_over(task) && task->state != TASK_KEPT) {
        work_leave(world, agent, task);
        return true;
    }
    if (task->waiting || sim_over(task))
        return false;
    if ((task->state == TASK_PREPARING || task->state == TASK_READY) && task->go &&
        (!task->gated || sim_gpus_free(agent, task))) {
        task_begin(world, agent, task);
        return true;
    }
    if (task->state == TASK_PREPARING && !task->go) {
        sim_state(world, agent, task, TASK_READY);
        return true;
    }
    if (task->sleeps && task->state == TASK_RUNNING) {
        task->sleeps = false;
        sim_state(world, agent, task, TASK_SUSPENDED);
        return true;
    }
    if (task->wakes && sim_gpus_free(agent, task)) {
        task->wakes = false;
        task->holding = true;
        sim_state(world, agent, task, TASK_RUNNING);
        return true;
    }
    if (task->state == TASK_KEPT && world->now >= task->kept_until) {
        sim_end(world, agent, task, "", 0);
        return true;
    }
    return false;
}

/* The oldest first: who waits for GPUs gets them in turn. */
bool agent_work(struct world *world, struct agent *agent)
{
    bool any = false;

    for (size_t i = 0; i < agent->task_count && !world_failed(world);) {
        size_t before = agent->task_count;
        bool did = work_one(world, agent, &agent->tasks[i]);

        any |= did;
        i += agent->task_count == before;
    }
    return any;
}

void agent_exit(struct world *world, struct agent *agent, struct sim_task *task, const struct said *how)
{
    const struct ctl_job *job = registry_find(ctl_registry(world->ctl), task->id.job);
    struct said report = *how;
    bool failed = how->exit != 0 || how->signal != 0;

    report.id = task->id;
    report.gpu = -1;
    report.rate = -1;
    report.state = TASK_EXITED;
    task->sleeps = task->wakes = false;
    if (failed && how->exit != 85 && job && job->spec->keep_on_fail > 0) {
        task->ending = report;
        task->kept_until = world->now + job->spec->keep_on_fail;
        report.state = TASK_KEPT;
    }
    sim_say(world, agent, task, report);
}

void agent_cut(struct world *world, struct agent *agent)
{
    for (size_t i = 0; i < agent->inbox_count; i++)
        order_done(&agent->inbox[i]);
    agent->inbox_count = 0;
    if (agent->connected)
        agent->gone = world->now;
    agent->connected = agent->welcomed = false;
}

/* Its shepherds have seen the lease run out: everything is killed, and written down. */
void agent_fence(struct world *world, struct agent *agent)
{
    agent->fenced = true;
    for (size_t i = agent->task_count; i-- > 0;) {
        struct sim_task *task = &agent->tasks[i];

        if (sim_over(task))
            continue;
        if (task->clean)
            sim_forget(agent, task);
        else
            sim_end(world, agent, task, "fence", AGENT_KILLED);
    }
}

void agent_tell(struct world *world, struct agent *agent, size_t most)
{
    while (agent->connected && agent->welcomed && agent->sent < agent->journal_count && most-- > 0) {
        const struct said *report = &agent->journal[agent->sent++];

        world_offer(world, entry_report(agent->name, agent->id, report), -1);
    }
}

void agent_again(struct world *world, struct agent *agent)
{
    if (agent->connected && agent->welcomed && agent->sent > 0)
        world_offer(world, entry_report(agent->name, agent->id, &agent->journal[agent->sent - 1]), -1);
}

void agent_return(struct world *world, struct agent *agent, enum agent_return how)
{
    if (how == RETURN_SAME)
        return;
    agent->lives++;
    if (how == RETURN_BOOT || how == RETURN_FRESH)
        (void)snprintf(agent->boot, sizeof(agent->boot), "boot%d", agent->lives);
    if (how == RETURN_FRESH) { /* its disk is another: it knows of nothing */
        (void)snprintf(agent->id, sizeof(agent->id), "%s-%d", agent->name, agent->lives);
        agent->seq = 0;
        agent->journal_count = agent->sent = agent->task_count = 0;
        return;
    }
    for (size_t i = agent->task_count; i-- > 0;) {
        struct sim_task *task = &agent->tasks[i];

        if (task->clean)
            sim_forget(agent, task);
        else if (task->begun && !sim_over(task))
            sim_end(world, agent, task, "lost", 0);
    }
}

void agent_welcome(struct world *world, struct agent *agent, uint64_t acked)
{
    size_t gone = 0;

    (void)world;
    agent->connected = agent->welcomed = true;
    agent->fenced = false;
    while (gone < agent->journal_count && agent->journal[gone].seq <= acked)
        gone++;
    if (gone > 0) /* an empty journal is no address to add to */
        memmove(agent->journal, agent->journal + gone, (agent->journal_count - gone) * sizeof(*agent->journal));
    agent->journal_count -= gone;
    agent->sent = 0;
}

void agent_free(struct agent *agent)
{
    for (size_t i = 0; i < agent->inbox_count; i++)
        order_done(&agent->inbox[i]);
    mem_free(agent->inbox);
    mem_free(agent->journal);
}
