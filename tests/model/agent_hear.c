/* SPDX-License-Identifier: Apache-2.0 */
/* agent_hear.c - an agent hears one order after the other, and does what src/agent does with each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

static mgpu_t share_of(const struct world *world, const struct order *order)
{
    const struct ctl_job *job = registry_find(ctl_registry(world->ctl), order->id.job);
    mgpu_t share = job ? job->spec->gpu_share : 0;

    if (order->guest)
        return 0;
    return share > 0 && share < MGPU_ONE ? share : MGPU_ONE;
}

static void launch_refuse(struct world *world, struct agent *agent, struct sim_task *task)
{
    struct said report = sim_said(task);

    report.state = TASK_REFUSED;
    report.by_user = agent->by_user;
    (void)snprintf(report.cause, sizeof(report.cause), "no image");
    agent->refuses = false;
    sim_say(world, agent, task, report);
}

static void beside_take(struct sim_task *task, const struct order *order)
{
    task->beside_count = order->beside_count;
    memcpy(task->beside, order->beside, sizeof(task->beside));
}

static void hear_launch_again(struct world *world, struct agent *agent, struct sim_task *task,
                              const struct order *order)
{
    task->end = order->end;
    beside_take(task, order);
    sim_repeat(world, agent, task);
    if (order->go && (task->state == TASK_READY || task->gated))
        task->go = true;
}

static void hear_launch(struct world *world, struct agent *agent, const struct order *order)
{
    struct sim_task *task = agent_task(agent, &order->id);

    if (task) {
        hear_launch_again(world, agent, task, order);
        return;
    }
    if (agent->task_count == AGENT_TASKS)
        abort();
    task = &agent->tasks[agent->task_count++];
    *task = (struct sim_task){ .id = order->id,
                               .born = order->born,
                               .end = order->end,
                               .state = TASK_PREPARING,
                               .gated = order->gate && !order->go,
                               .go = order->go,
                               .guest = order->guest,
                               .keep_ms = -1,
                               .share = share_of(world, order),
                               .gpu_count = order->gpu_count };
    memcpy(task->gpus, order->gpus, sizeof(task->gpus));
    for (size_t g = 0; g < order->gpu_count; g++)
        if (order->gpus[g] >= agent->gpus)
            world_fail(world, "launch: job %lld on GPU %u of %s, which has %d", (long long)order->id.job,
                       order->gpus[g], agent->name, agent->gpus);
    beside_take(task, order);
    if (agent->refuses) {
        launch_refuse(world, agent, task);
        return;
    }
    task->waiting = !task->gated && !sim_gpus_free(agent, task);
    if (!task->waiting && !task->gated)
        task->holding = true;
}

/* One that is not over is killed first, when the node works; nobody is told. */
static void hear_clean(struct agent *agent, struct sim_task *task)
{
    if (sim_over(task)) {
        sim_forget(agent, task);
        return;
    }
    task->clean = true;
    if (!task->begun)
        sim_forget(agent, task);
}

static void hear_stop(struct world *world, struct agent *agent, struct sim_task *task, const struct order *order)
{
    if (sim_over(task)) {
        sim_repeat(world, agent, task);
        return;
    }
    task->keep_ms = order->keep_ms;
    if (task->state == TASK_KEPT) {
        if (order->keep_ms <= 0)
            sim_end(world, agent, task, "", 0);
        return;
    }
    if (task->told[0])
        return; /* a second order only shortens the grace */
    if (!task->begun) {
        sim_end(world, agent, task, order->cause[0] ? order->cause : "cancel", AGENT_KILLED);
        return;
    }
    (void)snprintf(task->told, sizeof(task->told), "%s", order->cause[0] ? order->cause : "cancel");
    task->sleeps = task->wakes = false;
    if (task->state == TASK_SUSPENDED) {
        task->holding = true;
        sim_state(world, agent, task, TASK_RUNNING);
    }
    sim_state(world, agent, task, TASK_STOPPING);
}

static void hear_resume(struct world *world, struct agent *agent, struct sim_task *task)
{
    if (task->state == TASK_RUNNING || sim_over(task)) {
        sim_repeat(world, agent, task);
        return;
    }
    if (task->state != TASK_SUSPENDED)
        return;
    task->wakes = !sim_gpus_free(agent, task);
    if (task->wakes)
        return;
    task->holding = true;
    sim_state(world, agent, task, TASK_RUNNING);
}

static void hear_suspend(struct world *world, struct agent *agent, struct sim_task *task)
{
    if (task->state == TASK_SUSPENDED || sim_over(task)) {
        sim_repeat(world, agent, task);
        return;
    }
    if (task->state == TASK_KEPT)
        sim_end(world, agent, task, "", 0);
    else if (task->state == TASK_RUNNING)
        task->sleeps = true;
}

static void hear_one(struct world *world, struct agent *agent, struct sim_task *task, const struct order *order)
{
    switch (order->kind) {
    case ORDER_GO:
        beside_take(task, order);
        if (task->state == TASK_READY || task->state == TASK_PREPARING)
            task->go = true;
        else
            sim_repeat(world, agent, task);
        break;
    case ORDER_STOP:
        hear_stop(world, agent, task, order);
        break;
    case ORDER_SUSPEND:
        hear_suspend(world, agent, task);
        break;
    case ORDER_RESUME:
        hear_resume(world, agent, task);
        break;
    case ORDER_CLEAN:
        hear_clean(agent, task);
        break;
    case ORDER_LAUNCH:
    case ORDER_SIGNAL:
    case ORDER_LIMIT:
    case ORDER_REBOOT:
    case ORDER_COUNT:
        break;
    }
}

static bool keeps(const struct order *order, const struct sim_task *task)
{
    for (uint32_t i = 0; i < order->keep_count; i++) {
        const struct keep_item *item = &order->items[i];

        if (item->id.job == task->id.job && item->id.attempt == task->id.attempt && item->id.rank == task->id.rank)
            return !task->clean && item->born == task->born;
    }
    return false;
}

static void hear_keep(struct world *world, struct agent *agent, const struct order *order)
{
    agent->missed_count = 0;
    for (uint32_t i = 0; i < order->keep_count; i++) {
        const struct keep_item *item = &order->items[i];
        const struct sim_task *task = agent_task(agent, &item->id);
        struct said report = { .id = item->id, .state = TASK_EXITED, .gpu = -1, .rate = -1, .cause = "lost" };

        if ((task && !task->clean && task->born == item->born) || item->fresh)
            continue;
        agent_report(world, agent, report);
        if (agent->missed_count < AGENT_MISSED)
            agent->missed[agent->missed_count++] = item->id;
    }
    for (size_t i = agent->task_count; i-- > 0;)
        if (!keeps(order, &agent->tasks[i]))
            hear_clean(agent, &agent->tasks[i]);
}

/* An order that no task is there for: the controller has lost count of what it told whom. What it says before it has
 * heard that a task is lost is none. */
static void hear_stray(struct world *world, const struct agent *agent, const struct order *order)
{
    for (size_t i = 0; i < agent->missed_count; i++)
        if (agent->missed[i].job == order->id.job && agent->missed[i].attempt == order->id.attempt)
            return;
    if (order->kind != ORDER_CLEAN)
        world_fail(world, "stray order: %s of job %lld attempt %u, of which %s has no task", order_name(order->kind),
                   (long long)order->id.job, order->id.attempt, agent->name);
}

static void hear(struct world *world, struct agent *agent, const struct order *order)
{
    bool any = false;

    world->orders++;
    if (order->keep) {
        hear_keep(world, agent, order);
        return;
    }
    world->heard[order->kind]++;
    if (order->kind == ORDER_STOP)
        world->causes[stop_cause_find(order->cause)]++;
    if (order->kind == ORDER_LAUNCH) {
        hear_launch(world, agent, order);
        return;
    }
    if (order->kind == ORDER_REBOOT) {
        if (agent->task_count == 0) { /* it is started anew; a step, or the end, brings it back */
            agent_return(world, agent, RETURN_BOOT);
            agent_cut(world, agent);
        }
        return;
    }
    for (size_t i = agent->task_count; i-- > 0;) {
        struct sim_task *task = &agent->tasks[i];

        if (task->id.job == order->id.job && task->id.attempt == order->id.attempt) {
            any = true;
            hear_one(world, agent, task, order);
        }
    }
    if (!any)
        hear_stray(world, agent, order);
}

void agent_hear(struct world *world, struct agent *agent, size_t most)
{
    size_t done = 0;

    while (done < agent->inbox_count && done < most && agent->connected && !world_failed(world)) {
        hear(world, agent, &agent->inbox[done]);
        if (!agent->connected)
            return; /* it was told to start anew, and has lost the rest */
        order_done(&agent->inbox[done++]);
    }
    memmove(agent->inbox, agent->inbox + done, (agent->inbox_count - done) * sizeof(*agent->inbox));
    agent->inbox_count -= done;
}
