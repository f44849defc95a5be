/* SPDX-License-Identifier: Apache-2.0 */
/* node_reboot.c - a node is started anew: drained, left by its jobs, told, and used again when it is back with another
 * boot.
 *
 * Wanted -> (nothing runs there) -> ordered -> (it joins with another boot) -> used. A node that cannot do it says so
 * and stays drained with the reason; whoever resumes a node calls it off.
 */
#include <stdio.h>
#include <string.h>

#include "ctl/state/state_internal.h"

void reboot_set(struct ctl *ctl, struct ctl_node *node, uint32_t state)
{
    assert(state <= REBOOT_ORDERED);
    assert(node->reboot != REBOOT_WANTED || ctl->reboots > 0);
    ctl->reboots -= node->reboot == REBOOT_WANTED;
    ctl->reboots += state == REBOOT_WANTED;
    node->reboot = state;
}

static bool busy(const struct ctl *ctl, uint32_t node)
{
    const struct ctl_job *job;

    for (size_t i = 0; (job = registry_next(&ctl->registry, &i));) {
        for (uint32_t a = 0; a < job->attempt_count; a++)
            for (uint32_t t = 0; t < job->attempts[a].task_count; t++) {
                const struct ctl_task *task = &job->attempts[a].tasks[t];

                if (task->node == node && task->state != TASK_EXITED && task->state != TASK_REFUSED)
                    return true;
            }
    }
    return false;
}

void reboot_order(struct ctl *ctl, const struct ctl_node *node)
{
    if (node->reboot == REBOOT_ORDERED)
        ctl_order(ctl, node->name,
                  (struct agent_order){ .frame = DOWN_ORDER, .kind = ORDER_REBOOT, .boot = node->boot });
}

void reboot_look(struct ctl *ctl)
{
    for (uint32_t n = 0; n < ctl->registry.node_count && ctl->reboots; n++) {
        struct ctl_node *node = &ctl->registry.nodes[n];

        if (node->reboot != REBOOT_WANTED || busy(ctl, n))
            continue;
        reboot_set(ctl, node, REBOOT_ORDERED);
        ctl_event(ctl, "node.rebooting", NULL, names_get(&ctl->registry.node_names, node->name), NULL);
        reboot_order(ctl, node);
    }
}

bool reboot_back(struct ctl *ctl, struct ctl_node *node, const char *boot)
{
    if (node->reboot != REBOOT_ORDERED || strcmp(node->boot, boot) == 0)
        return false;
    reboot_set(ctl, node, REBOOT_NONE);
    node->drained = false;
    node->drain_reason[0] = '\0';
    ctl->deadlines -= node->drain_deadline != 0;
    node->drain_deadline = 0;
    sick_forget(ctl, node);
    ctl_event(ctl, "node.rebooted", NULL, names_get(&ctl->registry.node_names, node->name), NULL);
    return true;
}

void reboot_failed(struct ctl *ctl, struct ctl_node *node, const char *why)
{
    char words[sizeof(node->drain_reason) + sizeof("reboot failed: ")];

    if (node->reboot != REBOOT_ORDERED)
        return;
    reboot_set(ctl, node, REBOOT_NONE);
    (void)snprintf(words, sizeof(words), "reboot failed: %s", why);
    text_fit(node->drain_reason, sizeof(node->drain_reason), words);
    ctl_event(ctl, "node.reboot_failed", NULL, names_get(&ctl->registry.node_names, node->name),
              FACTS(fact_text("reason", why)));
}
