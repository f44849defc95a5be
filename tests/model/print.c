/* SPDX-License-Identifier: Apache-2.0 */
/* print.c - how things stand, for whoever looks into a script that fails. */
#include <stdio.h>

#include "core/core.h"
#include "ctl/state/attempt/attempt_machine.h"
#include "model.h"

static void print_attempt(const struct world *world, const struct ctl_attempt *attempt)
{
    printf("    attempt %u %s, stop %s\n", attempt->number, attempt_state_name((enum attempt_state)attempt->state),
           stop_cause_name((enum stop_cause)attempt->stop_cause));
    for (uint32_t t = 0; t < attempt->task_count; t++) {
        const struct ctl_task *task = &attempt->tasks[t];

        printf("      rank %u %s on %s '%s' GPUs", t, task_state_name((enum task_state)task->state),
               names_get(&ctl_registry(world->ctl)->node_names, task->node),
               task_cause_name((enum task_cause)task->cause));
        for (uint32_t g = 0; g < task->gpu_count; g++)
            printf(" %u", task->gpus[g]);
        printf("\n");
    }
}

static void print_job(const struct world *world, const struct ctl_job *job)
{
    const struct job *core = job_in_core(job) ? core_job(ctl_core(world->ctl), job->slot) : NULL;

    printf("  job %lld %s gate %d%s, %s, core %s%s%s, %s\n", (long long)job->id, phase_name(job->phase), (int)job->gate,
           job->held ? " held" : "", link_name((enum core_link)job->link),
           core ? job_state_name((enum job_state)core->state) : "-", core && core->parks ? " parks" : "",
           core && core->moving ? " moving" : "", reason_name(job->reason));
    for (uint32_t a = 0; a < job->attempt_count; a++)
        print_attempt(world, &job->attempts[a]);
}

static void print_agent(const struct agent *agent)
{
    printf("  %s%s: %zu orders to hear, %zu of %zu reports sent\n", agent->name, agent->connected ? "" : " away",
           agent->inbox_count, agent->sent, agent->journal_count);
    for (size_t t = 0; t < agent->task_count; t++) {
        const struct sim_task *task = &agent->tasks[t];

        printf("    %lld.%u.%u %s%s%s%s%s told '%s'\n", (long long)task->id.job, task->id.attempt, task->id.rank,
               task_state_name(task->state), task->holding ? " holding" : "", task->waiting ? " waiting" : "",
               task->go ? " go" : "",
               task->wakes   ? " wakes"
               : task->clean ? " clean"
                             : "",
               task->told);
    }
}

void world_print(const struct world *world)
{
    const struct registry *registry = ctl_registry(world->ctl);

    printf("at %lld.%06lld s:\n", (long long)(world->now / USEC_SEC), (long long)(world->now % USEC_SEC));
    for (size_t i = 0; i < registry->live_count; i++)
        print_job(world, registry->live[i]);
    for (size_t a = 0; a < world->agent_count; a++)
        print_agent(&world->agents[a]);
}
