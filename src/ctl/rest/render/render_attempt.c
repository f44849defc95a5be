/* SPDX-License-Identifier: Apache-2.0 */
/* render_attempt.c - a run of a job and its tasks as JSON. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "core/ledger/ledger.h"
#include "ctl/rest/render/render.h"
#include "wire/job/roles.h"

static void put_exit(struct json_write *json, bool over, int code, int signal)
{
    if (over)
        json_write_i64(json, "exit_code", code);
    else
        json_write_null(json, "exit_code");
    if (over && signal)
        json_write_i64(json, "signal", signal);
    else
        json_write_null(json, "signal");
}

/* The tasks of roles on the node of this rank: [{"role","index","gpus","exit_code","signal"}]. */
static void put_roles(struct json_write *json, const struct submission *s, const struct role_task *tasks,
                      const struct ctl_attempt *attempt, uint32_t rank)
{
    uint32_t count = tasks ? roles_tasks(s) : 0;

    json_write_array(json, "roles");
    for (uint32_t i = 0; i < count; i++) {
        const struct job_role *role = &s->roles[tasks[i].role];
        const struct ctl_role_end *end;

        if (tasks[i].node != rank)
            continue;
        end = role_end_find(s, attempt, role, tasks[i].index);
        json_write_object(json, NULL);
        json_write_text(json, "role", role->name);
        json_write_i64(json, "index", tasks[i].index);
        json_write_i64(json, "gpus", tasks[i].gpu_count);
        put_exit(json, end != NULL, end ? end->exit : 0, end ? end->signal : 0);
        json_write_close(json);
    }
    json_write_close(json);
}

/* Where each task of its roles is; NULL: there is no memory for it. */
static struct role_task *tasks_of(const struct submission *s, const struct ctl_attempt *attempt)
{
    struct role_node *nodes = mem_zalloc(attempt->task_count + 1, sizeof(*nodes));
    struct role_task *tasks = NULL;

    for (uint32_t i = 0; nodes && i < attempt->task_count; i++)
        nodes[i] = (struct role_node){ attempt->tasks[i].part, attempt->tasks[i].gpu_count };
    if (nodes)
        (void)roles_pack(s, nodes, attempt->task_count, &tasks);
    mem_free(nodes);
    return tasks;
}

void render_tasks(const struct scene *scene, struct json_write *json, const char *key, const struct ctl_job *job,
                  const struct ctl_attempt *attempt)
{
    struct role_task *roles = attempt && job->spec->role_count ? tasks_of(job->spec, attempt) : NULL;

    json_write_array(json, key);
    for (uint32_t i = 0; attempt && i < attempt->task_count; i++) {
        const struct ctl_task *task = &attempt->tasks[i];

        json_write_object(json, NULL);
        json_write_i64(json, "rank", i);
        json_write_text(json, "node", node_name(scene, task->node));
        json_write_array(json, "gpus");
        for (uint16_t g = 0; g < task->gpu_count; g++)
            json_write_i64(json, NULL, task->gpus[g]);
        json_write_close(json);
        json_write_text(json, "state", task_state_name((enum task_state)task->state));
        put_exit(json, task->state == TASK_EXITED || task->state == TASK_KEPT, task->exit, task->signal);
        json_write_bool(json, "oom", task->oom);
        json_write_text(json, "cause", task_cause_shown(task));
        put_time(json, "start_time", task->started);
        put_time(json, "end_time", task->ended);
        put_roles(json, job->spec, roles, attempt, i);
        json_write_close(json);
    }
    json_write_close(json);
    mem_free(roles);
}

static uint32_t gpus_of(const struct ctl_attempt *attempt)
{
    uint32_t count = 0;

    for (uint32_t t = 0; t < attempt->task_count; t++)
        count += attempt->tasks[t].gpu_count;
    return count;
}

/* GPUs it goes on with: those of the next attempt, or where there is none yet what the core has given it. */
static uint32_t gpus_after(const struct scene *scene, const struct ctl_job *job, const struct ctl_attempt *attempt)
{
    const struct ledger *ledger = scene->core && job_in_core(job) ? core_ledger(scene->core) : NULL;
    uint32_t count = 0;

    if (attempt + 1 < job->attempts + job->attempt_count)
        return gpus_of(attempt + 1);
    if (!ledger)
        return gpus_of(attempt);
    for (uint32_t s = core_job(scene->core, job->slot)->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job)
        count += !ledger->shares[s].leaving;
    return count;
}

const char *attempt_stop_word(const struct scene *scene, const struct ctl_job *job, const struct ctl_attempt *attempt)
{
    /* To the nodes one is as the other: it leaves, and is launched anew. */
    if (attempt->stop_cause == STOP_CAUSE_MIGRATE && gpus_after(scene, job, attempt) != gpus_of(attempt))
        return "resize";
    return stop_cause_name((enum stop_cause)attempt->stop_cause);
}

void render_attempt(const struct scene *scene, struct json_write *json, const struct ctl_job *job,
                    const struct ctl_attempt *attempt, bool tasks)
{
    usec_t ran = attempt->ended ? attempt->ran : attempt->started ? scene->now - attempt->started : 0;

    json_write_object(json, NULL);
    json_write_i64(json, "number", attempt->number);
    json_write_text(json, "state", phase_name(attempt->phase));
    put_time(json, "placed_time", attempt->placed);
    put_time(json, "start_time", attempt->started);
    put_time(json, "end_time", attempt->ended);
    json_write_i64(json, "ran_seconds", (ran > 0 ? ran : 0) / USEC_SEC);
    put_exit(json, attempt->ended != 0, attempt->exit, attempt->signal);
    json_write_text(json, "stop_kind", attempt_stop_word(scene, job, attempt));
    if (attempt->stop_by)
        json_write_i64(json, "stop_by", attempt->stop_by);
    else
        json_write_null(json, "stop_by");
    if (attempt->refusal)
        json_write_text(json, "refusal", attempt->refusal);
    else
        json_write_null(json, "refusal");
    if (tasks)
        render_tasks(scene, json, "tasks", job, attempt);
    json_write_close(json);
}

/* Where nobody says for how long its tasks go on, nobody but a person or its agent can say that they have ended. */
static void silent_words(const struct scene *scene, const struct ctl_node *node, char *text, size_t size)
{
    const char *name = node_name(scene, node->name);
    const struct conf *conf = scene->server->conf;

    if (node->lease)
        (void)snprintf(text, size, "its node %s is silent; it starts elsewhere when the lease of the node is over",
                       name);
    else
        (void)snprintf(text, size,
                       "its node %s is silent; it starts elsewhere when its agent has said that it ended, %s"
                       "or somebody that the machine is off: muster node lost %s",
                       name, conf->fence == CONF_FENCE_PROGRAM ? "its machine was switched off, " : "", name);
}

bool render_node_silent(const struct scene *scene, const struct ctl_job *job, const char **ret_code, char *text,
                        size_t size)
{
    const struct ctl_attempt *attempt = attempt_last(job);

    for (uint32_t t = 0;
         attempt && !phase_over(job->phase) && job->phase != PHASE_JOB_PENDING && t < attempt->task_count; t++) {
        const struct ctl_task *task = &attempt->tasks[t];
        const struct ctl_node *node = &scene->registry->nodes[task->node];

        if (task->state == TASK_EXITED || task->state == TASK_REFUSED || node->lost)
            continue;
        if (node->silent) {
            *ret_code = "NodeSilent";
            silent_words(scene, node, text, size);
            return true;
        }
        if (node->connected && node->stuck_job == job->id) {
            *ret_code = "TaskStuck";
            (void)snprintf(text, size, "node %s cannot end it: a process waits in the kernel since %lld s",
                           node_name(scene, node->name), (long long)node->stuck_seconds);
            return true;
        }
    }
    return false;
}
