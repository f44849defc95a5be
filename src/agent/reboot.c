/* SPDX-License-Identifier: Apache-2.0 */
/* reboot.c - the controller asks this node to start anew.
 *
 * A real one runs the command of agent.yaml and is ended by it; what fails is told. An emulated one without a command
 * behaves as if it had: the connection goes, and it comes back with another boot.
 */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/util.h"
#include "io/child.h"
#include "io/log.h"

#define REBOOT_WALL (10 * USEC_MIN) /* for the command; the machine may go at any moment of it */

enum { REBOOT_OUT_MAX = 65536 };

static void failed(struct agent *agent, const char *why)
{
    log_err("cannot reboot", "node", agent->config.node, "why", why);
    agent_report(agent, json_pack("{s:{s:b, s:s}}", "reboot", "ok", 0, "reason", why));
}

static void on_end(void *arg, const struct child_end *end)
{
    struct agent *agent = arg;
    char why[96];

    agent->rebooting = NULL;
    if (agent->gone)
        return;
    if (end->code == 0 && !end->signal && !end->why)
        return; /* on its way */
    if (end->why)
        (void)snprintf(why, sizeof(why), "the command %.40s", end->why);
    else
        (void)snprintf(why, sizeof(why),
                       end->signal ? "the command was ended by signal %d" : "the command exited with %d",
                       end->signal ? end->signal : end->code);
    failed(agent, why);
}

static void emulate(struct agent *agent)
{
    uint64_t value = 0;

    (void)!getrandom(&value, sizeof(value), GRND_NONBLOCK);
    (void)snprintf(agent->boot, sizeof(agent->boot), "emulated-%016llx", (unsigned long long)value);
    log_info("started anew", "node", agent->config.node);
    if (agent->conn)
        conn_close(agent->conn);
}

void agent_reboot(struct agent *agent, const json_t *order)
{
    const char *command = agent->config.reboot, *boot = util_text(order, "boot");
    const char *const argv[] = { "/bin/sh", "-c", command, NULL };
    const struct child_spec spec = {
        .argv = argv, .limits = { .wall = REBOOT_WALL, .out_max = REBOOT_OUT_MAX }, .done = on_end, .arg = agent
    };
    struct error err = { 0 };

    if (agent->rebooting || !boot || strcmp(boot, agent->boot) != 0)
        return; /* at it, or done already */
    for (const struct task *task = agent->tasks; task; task = task->next)
        if (!task_over(task))
            return; /* asked again when it is gone */
    if (!command && agent->config.fake) {
        emulate(agent);
        return;
    }
    if (!command) {
        failed(agent, "its agent.yaml names no command (reboot)");
        return;
    }
    log_warn("rebooting", "node", agent->config.node, "by", command);
    if (child_start(agent->set->loop, &spec, &agent->rebooting, &err) < 0)
        failed(agent, err.text);
}
