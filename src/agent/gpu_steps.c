/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_steps.c - mini-batches of programs that say nothing of themselves: the node side of the GPU runtime counts them,
 * and is asked for them now and then, by the worker, since it may be busy. */
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/gpu_runtime.h"
#include "base/alloc.h"
#include "gpurt/tool.h"
#include "io/loop.h"

enum { STEPS_TEXT = 65536, STEPS_PIDS = 512, STEPS_WAIT_S = 1 };

/* One question. Outlives its agent where that ends meanwhile. */
struct gpu_steps {
    struct agent *agent; /* NULL: it is gone */
    char socket[TOOL_PATH_MAX];
    int result;
    char text[STEPS_TEXT];
};

static void steps_ask(void *arg)
{
    struct gpu_steps *ask = arg;

    ask->result = tool_ask(ask->socket, "steps", STEPS_WAIT_S, ask->text, sizeof(ask->text), NULL);
}

/* The process of the task that counts, by lines "PID STEPS": the first of those that have made a step. */
static bool steps_of(const char *text, const pid_t *pids, int count, pid_t *ret_pid, int64_t *ret_steps)
{
    bool any = false;

    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        char *end;
        long pid = strtol(line, &end, 10);
        long long steps = strtoll(end, NULL, 10);

        for (int i = 0; i < count && steps > 0; i++)
            if (pids[i] == (pid_t)pid && (!any || pids[i] < *ret_pid)) {
                *ret_pid = pids[i];
                *ret_steps = steps;
                any = true;
            }
    }
    return any;
}

static void steps_done(void *arg)
{
    struct gpu_steps *ask = arg;
    struct agent *agent = ask->agent;
    pid_t pids[STEPS_PIDS], pid = 0;
    int64_t steps = 0;

    if (agent)
        agent->steps = NULL;
    for (struct task *task = agent && ask->result == 0 ? agent->tasks : NULL; task; task = task->next) {
        int count;

        if (task->state != TASK_RUNNING || task->emulated || !task->launch.order ||
            !gpu_runtime_for(agent, &task->launch))
            continue;
        count = task_pids(task, pids, STEPS_PIDS);
        if (steps_of(ask->text, pids, count < STEPS_PIDS ? count : STEPS_PIDS, &pid, &steps))
            task_progress_counted(task, pid, steps);
    }
    mem_free(ask);
}

void gpu_steps_look(struct agent *agent)
{
    struct gpu_steps *ask;
    bool any = false;

    for (const struct task *task = agent->runtime ? agent->tasks : NULL; task && !any; task = task->next)
        any = task->state == TASK_RUNNING && task->launch.order && gpu_runtime_for(agent, &task->launch);
    if (!any || agent->steps)
        return; /* one at a time */
    ask = mem_zalloc(1, sizeof(*ask));
    if (!ask)
        return;
    ask->agent = agent;
    memcpy(ask->socket, gpu_runtime_paths(agent).socket, strlen(gpu_runtime_paths(agent).socket) + 1);
    agent->steps = ask;
    if (loop_work(agent->set->loop, steps_ask, steps_done, ask) < 0) {
        agent->steps = NULL;
        mem_free(ask);
    }
}

void gpu_steps_close(struct agent *agent)
{
    if (agent->steps)
        agent->steps->agent = NULL;
    agent->steps = NULL;
}
