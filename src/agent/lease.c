/* SPDX-License-Identifier: Apache-2.0 */
/* lease.c - see lease.h. */
#include "agent/lease.h"

#include "agent/task/task_enforce.h"
#include "agent/util.h"
#include "io/log.h"

static void lease_watch(struct agent *agent)
{
    loop_timer_stop(agent->watch_timer);
    if (agent->lease_until && *agent->lease_until > 0)
        loop_timer_after(agent->watch_timer, *agent->lease_until - clock_boot() + USEC_MSEC);
}

void lease_renew(struct agent *agent, usec_t sent)
{
    if (agent->lease > 0 && agent->lease_until && sent + agent->lease > *agent->lease_until)
        *agent->lease_until = sent + agent->lease;
    lease_watch(agent);
}

/* As told in answer to a hello. It may be shorter than what was told before, or none: shepherds look at it again. */
void lease_set(struct agent *agent, usec_t lease)
{
    agent->lease = lease;
    if (agent->lease_until)
        *agent->lease_until = lease > 0 ? agent->hello_sent + lease : 0;
    for (struct task *task = agent->tasks; task; task = task->next)
        shep_tell(task, json_pack("{ss}", "do", "lease"));
    lease_watch(agent);
}

bool lease_over(const struct agent *agent)
{
    return agent->lease_until && *agent->lease_until > 0 && clock_boot() >= *agent->lease_until;
}

static bool node_busy(const struct agent *agent)
{
    for (const struct task *task = agent->tasks; task; task = task->next)
        if (!task_over(task))
            return true;
    return false;
}

/* How long what runs here goes on at most without another word, in ms; 0: as long as it likes. */
int64_t lease_left(const struct agent *agent)
{
    int64_t until = agent->lease_until ? *agent->lease_until : 0, left = (until - clock_boot()) / USEC_MSEC;

    if (!node_busy(agent))
        return 1;
    return until == 0 ? 0 : left > 1 ? left : 1;
}

/* The lease has run out: shepherds have seen it too; emulated tasks have none. Who of them has done nothing a moment
 * later is killed with its task, well before the controller starts it elsewhere. */
void lease_end(void *arg)
{
    struct agent *agent = arg;
    usec_t moment = agent->lease > 0 && agent->lease / 8 < TASK_PATIENCE ? agent->lease / 8 : USEC_SEC / 2;

    tasks_enforce(agent);
    if (!lease_over(agent) || !node_busy(agent))
        return;
    if (tasks_due(agent, moment, "fence")) {
        log_warn("lease ran out, tasks are killed", "node", agent->config.node);
        loop_timer_after(agent->watch_timer, moment + USEC_MSEC);
    }
    for (struct task *task = agent->tasks, *next; task; task = next) {
        next = task->next;
        if (task->emulated || task->waiting)
            task_kill(task, "fence");
    }
}

void lease_begin(struct agent *agent)
{
    if (!node_busy(agent))
        *agent->lease_until = 0; /* what it says may be of another boot */
    lease_watch(agent);
}
