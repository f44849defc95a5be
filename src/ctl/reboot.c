/* SPDX-License-Identifier: Apache-2.0 */
/* reboot.c - a node is started anew: drained, left by its jobs, told, and used again when it is back with another boot.
 *
 * Wanted -> (nothing runs there) -> ordered -> (it joins with another boot) -> used. A node that cannot do it says so
 * and stays drained with the reason; whoever resumes a node calls it off.
 */
#include <stdio.h>
#include <string.h>

#include "ctl/part.h"

void reboot_set(struct ctl *ctl, struct book_node *node, uint32_t state)
{
    ctl->reboots -= node->reboot == REBOOT_WANTED;
    ctl->reboots += state == REBOOT_WANTED;
    node->reboot = state;
}

static bool busy(const struct ctl *ctl, uint32_t node)
{
    for (size_t i = 0; i < ctl->book.live_count; i++) {
        const struct book_job *job = ctl->book.live[i];

        for (uint32_t a = 0; a < job->attempt_count; a++)
            for (uint32_t t = 0; t < job->attempts[a].task_count; t++) {
                const struct book_task *task = &job->attempts[a].tasks[t];

                if (task->node == node && task->state != TASK_EXITED && task->state != TASK_REFUSED)
                    return true;
            }
    }
    return false;
}

void reboot_order(struct ctl *ctl, const struct book_node *node)
{
    if (node->reboot == REBOOT_ORDERED)
        ctl_order(ctl, node->name,
                  json_pack("{s:s, s:s, s:s}", "t", agent_down_name(DOWN_ORDER), "do", order_name(ORDER_REBOOT), "boot",
                            node->boot));
}

void reboot_look(struct ctl *ctl)
{
    for (uint32_t n = 0; n < ctl->book.node_count && ctl->reboots; n++) {
        struct book_node *node = &ctl->book.nodes[n];

        if (node->reboot != REBOOT_WANTED || busy(ctl, n))
            continue;
        reboot_set(ctl, node, REBOOT_ORDERED);
        ctl_event(ctl, "node.rebooting", NULL, names_get(&ctl->book.node_names, node->name), NULL);
        reboot_order(ctl, node);
    }
}

bool reboot_back(struct ctl *ctl, struct book_node *node, const char *boot)
{
    if (node->reboot != REBOOT_ORDERED || strcmp(node->boot, boot) == 0)
        return false;
    reboot_set(ctl, node, REBOOT_NONE);
    node->drained = false;
    node->drain_reason[0] = '\0';
    ctl->deadlines -= node->drain_deadline != 0;
    node->drain_deadline = 0;
    sick_forget(ctl, node);
    ctl_event(ctl, "node.rebooted", NULL, names_get(&ctl->book.node_names, node->name), NULL);
    return true;
}

void reboot_failed(struct ctl *ctl, struct book_node *node, const json_t *report)
{
    const char *why = json_string_value(json_object_get(report, "reason"));

    if (node->reboot != REBOOT_ORDERED)
        return;
    reboot_set(ctl, node, REBOOT_NONE);
    (void)snprintf(node->drain_reason, sizeof(node->drain_reason), "reboot failed: %s", why ? why : "");
    ctl_event(ctl, "node.reboot_failed", NULL, names_get(&ctl->book.node_names, node->name),
              json_pack("{s:s}", "reason", why ? why : ""));
}
