/* SPDX-License-Identifier: Apache-2.0 */
/* node_refusal.c - a node that cannot start what it is told to, by no fault of the job's.
 *
 * It is idle, so everything that waits would be sent there and fail there. It is drained by itself, for a second and
 * for twice as long each time it refuses again; what it has runs on, what it refused goes elsewhere. The first task
 * that starts there makes it well; so does whoever drains or resumes it by hand.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/state/state_internal.h"

enum { REST_DOUBLINGS = 9 }; /* 512 s */

static void rest_set(struct ctl *ctl, struct ctl_node *node, usec_t until)
{
    assert(until >= 0);
    assert(!node->rest_until || ctl->deadlines > 0);
    ctl->deadlines -= node->rest_until != 0;
    node->rest_until = until;
    ctl->deadlines += node->rest_until != 0;
}

void sick_forget(struct ctl *ctl, struct ctl_node *node)
{
    rest_set(ctl, node, 0);
    node->refusals = 0;
}

void sick_well(struct ctl *ctl, uint32_t index)
{
    /* What was told to start before it was drained may still come up: that one does not count for all. */
    if (!ctl->registry.nodes[index].rest_until)
        ctl->registry.nodes[index].refusals = 0;
}

/* Of those told to start at once only the first says something new. */
void sick_refused(struct ctl *ctl, uint32_t index, const char *words)
{
    struct ctl_node *node = &ctl->registry.nodes[index];
    char reason[sizeof(node->drain_reason) + sizeof("it could not start a task: ")];
    uint32_t doublings = node->refusals < REST_DOUBLINGS ? node->refusals : REST_DOUBLINGS;

    if (node->drained)
        return;
    node->refusals++;
    node->drained = true;
    rest_set(ctl, node, ctl->now + (USEC_SEC << doublings));
    (void)snprintf(reason, sizeof(reason), "it could not start a task: %s", words);
    text_fit(node->drain_reason, sizeof(node->drain_reason), reason);
    ctl_event(ctl, "node.drained", NULL, names_get(&ctl->registry.node_names, node->name),
              FACTS(fact_text("reason", node->drain_reason), fact_number("seconds", (int64_t)1 << doublings)));
    node_tell(ctl, node);
}

void sick_tick(struct ctl *ctl, struct ctl_node *node)
{
    if (!node->rest_until || node->rest_until > ctl->now)
        return;
    rest_set(ctl, node, 0);
    node->drained = false;
    node->drain_reason[0] = '\0';
    ctl_event(ctl, "node.resumed", NULL, names_get(&ctl->registry.node_names, node->name),
              FACTS(fact_text("reason", "it is tried again")));
    node_tell(ctl, node);
}

/* Why a rank did not start, for those who wait for the job. */
void sick_note(const struct ctl *ctl, struct ctl_attempt *attempt, struct ctl_task *task, const char *words)
{
    const char *node = names_get(&ctl->registry.node_names, task->node);
    size_t size = strlen(node) + strlen(words) + sizeof(": ");

    task->cause = TASK_CAUSE_REFUSED;
    if (attempt->refusal)
        return;
    attempt->refusal = mem_zalloc(size, 1);
    if (attempt->refusal)
        (void)snprintf(attempt->refusal, size, "%s: %s", node, words);
}
