/* SPDX-License-Identifier: Apache-2.0 */
/* task_enforce.c - what a shepherd has not done in time the agent does itself.
 *
 * Lease, time limit, grace and kill are the shepherd's to keep, so that they are kept without an agent. But it may be
 * stopped, or hang in a file system of the user's. So each is noted here with a moment more, and when that is over the
 * shepherd is killed and what it looked after with it, by the group. A task that cannot be killed (its processes wait
 * in the kernel) keeps its GPUs until it is gone, and is told with the beats. When there is no agent either, the
 * watchdog does the same at the end of the lease (watchdog.c).
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/shepherd/remains.h"
#include "agent/task/task_enforce.h"
#include "agent/util.h"
#include "base/alloc.h"
#include "io/beneath.h"
#include "io/log.h"

#define START_LIMIT (60 * USEC_SEC)
#define GRACE_DEFAULT (30 * USEC_SEC)
#define LOOK_FIRST (5 * USEC_MSEC)
#define LOOK_MAX (500 * USEC_MSEC)
#define STUCK_AFTER (10 * USEC_SEC)

enum { HUNG_ENOUGH = 20, STUCK_MAX = 64 };

bool task_due(struct task *task, usec_t span, const char *cause)
{
    usec_t due = clock_boot() + span;

    if (task->emulated || task_over(task) || task->given_up || (task->due && task->due <= due))
        return false;
    task->due = due;
    (void)snprintf(task->due_cause, sizeof(task->due_cause), "%.15s", cause);
    return true;
}

void task_due_by_order(struct task *task, const json_t *order)
{
    const char *kind = util_text(order, "kind");
    usec_t own = task->launch.order && task->launch.spec.grace > 0 ? task->launch.spec.grace : GRACE_DEFAULT;
    usec_t grace = util_i64(order, "grace_ms", own / USEC_MSEC) * USEC_MSEC;
    usec_t keep = util_i64(order, "keep_ms", 0) * USEC_MSEC;

    (void)task_due(task, (grace > 0 ? grace : 0) + (keep > 0 ? keep : 0) + TASK_PATIENCE, kind ? kind : "cancel");
}

bool tasks_due(struct agent *agent, usec_t span, const char *cause)
{
    bool any = false;

    for (struct task *task = agent->tasks; task; task = task->next)
        any |= !task->waiting && task_due(task, span, cause);
    return any;
}

/* How it ended: as it wrote itself, if it could. */
static json_t *end_of(const struct task *task, int dir)
{
    json_t *end = dir >= 0 ? util_json_get(dir, "exit.json") : NULL;
    bool told = task->due_cause[0] != '\0';

    end = end || dir < 0 ? end : util_json_get(dir, "kept.json"); /* it had ended; only its place was kept */
    if (end)
        return end;
    if (task->unanswered)
        return json_pack("{ss,ss,ss}", "state", task_state_name(TASK_REFUSED), "cause",
                         "it was not prepared in time: its shepherd does not answer, or a file system", "blame",
                         "system");
    return json_pack("{ss,si,si,sb,ss}", "state", task_state_name(TASK_EXITED), "exit", told ? 137 : 0, "signal",
                     told ? 9 : 0, "oom", 0, "cause", told ? task->due_cause : "lost");
}

/* Is everything of it gone? */
static bool remains_gone(struct task *task, int dir)
{
    enum remains shepherd = dir >= 0 ? remains_shepherd(dir) : REMAINS_GONE;
    char cgroup[CGROUP_PATH_MAX], key[256], mark[300];

    task->hung = shepherd == REMAINS_HANGS ? task->hung + 1 : 0;
    task_cgroup(task, cgroup, sizeof(cgroup));
    (void)snprintf(mark, sizeof(mark), "MUSTER_TASK_KEY=%s", task_key(task, key, sizeof(key)));
    if (!remains_kill(cgroup, mark))
        return false;
    return shepherd == REMAINS_GONE || task->hung >= HUNG_ENOUGH;
}

static void on_look(void *arg)
{
    struct task *task = arg;
    int dir = task_dir(task);
    usec_t tried = clock_boot() - task->given_up;
    json_t *end;

    if (!remains_gone(task, dir)) {
        loop_timer_after(task->timer, tried < LOOK_FIRST ? LOOK_FIRST : tried < LOOK_MAX ? tried : LOOK_MAX);
        if (dir >= 0)
            close(dir);
        return;
    }
    end = end_of(task, dir);
    if (dir >= 0) {
        (void)beneath_tree_remove(dir, "job");
        (void)util_json_put(dir, "exit.json", end, task->agent->config.durable);
        close(dir);
    }
    task_news(task, end);
}

void task_give_up(struct task *task)
{
    int dir = task_dir(task);

    log_warn("shepherd is gone", "node", task->agent->config.node, "task", task->name);
    shep_detach(task);
    task->given_up = clock_boot();
    if (dir >= 0) {
        (void)remains_give_up(dir);
        close(dir);
    }
    if (!task->timer && loop_timer_new(task->agent->set->loop, on_look, task, &task->timer) < 0)
        return;
    loop_timer_after(task->timer, 0);
}

/* One that never was: the forker may be stopped as well. Its end makes another one. */
static void forker_blame(struct task *task)
{
    int dir = task_dir(task), note = dir < 0 ? -1 : beneath_open(dir, "shepherd", O_PATH, 0);

    if (dir >= 0 && note < 0)
        forker_replace(&task->agent->set->forker);
    if (note >= 0)
        close(note);
    if (dir >= 0)
        close(dir);
}

/* Of a task that an agent before this one began, its shepherd alone knows until it is told again. */
static void limit_look(struct task *task)
{
    const struct launch *l = &task->launch;
    usec_t grace = l->order && l->spec.grace > 0 ? l->spec.grace : GRACE_DEFAULT;

    if (task->limit && !task->due && task->started && clock_boot() > task->limit + grace)
        (void)task_due(task, TASK_PATIENCE, "timeout");
}

/* Where a lease is to be kept somebody keeps it who can neither hang nor be this process. */
static void watchdog_look(const struct agent *agent)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    int fd;

    if (!agent->lease_until || *agent->lease_until == 0)
        return;
    fd = beneath_open(agent->dir, "watchdog", O_RDWR | O_CREAT, 0600);
    if (fd < 0)
        return;
    if (fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK)
        (void)forker_watch(&agent->set->forker, agent->dir, agent->tasks_dir);
    close(fd);
}

void tasks_enforce(struct agent *agent)
{
    usec_t now = clock_boot(), limit = agent->config.start_limit ? agent->config.start_limit : START_LIMIT;
    bool real = false;

    for (struct task *task = agent->tasks, *next; task; task = next) {
        next = task->next;
        if (task->emulated || task->waiting || task->given_up || task_over(task))
            continue;
        real = true;
        limit_look(task);
        task->unanswered = !task->due && task->began && task->state == TASK_PREPARING && now - task->began > limit;
        if (!task->unanswered && (!task->due || now < task->due))
            continue;
        log_err(task->unanswered ? "a task does not come up; it is given up"
                                 : "a task does not end; it is killed by force",
                "node", agent->config.node, "task", task->name, "why",
                task->unanswered ? "its shepherd or a file system does not answer" : task->due_cause);
        if (task->unanswered)
            forker_blame(task);
        task_give_up(task);
    }
    if (real)
        watchdog_look(agent);
}

json_t *tasks_stuck(const struct agent *agent)
{
    json_t *list = NULL;
    usec_t now = clock_boot();

    for (const struct task *task = agent->tasks; task; task = task->next) {
        if (!task->given_up || task_over(task) || now - task->given_up < STUCK_AFTER ||
            json_array_size(list) >= STUCK_MAX)
            continue;
        list = list ? list : json_array();
        (void)json_array_append_new(list, json_pack("{sI,sI,sI,sI}", "job", (json_int_t)task->id.job, "attempt",
                                                    (json_int_t)task->id.attempt, "rank", (json_int_t)task->id.rank,
                                                    "seconds", (json_int_t)((now - task->given_up) / USEC_SEC)));
    }
    return list;
}
