/* SPDX-License-Identifier: Apache-2.0 */
/* save.c - the last rung: a program saves itself, by a function of its own or told by a signal. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "gpurt/lost.h"
#include "gpurt/node.h"

/* A handler of the program's runs only when its launch has returned, so the gate opens first. */
int ladder_signal(struct node *node, struct client *client, int number, uint32_t save_s, bool force, struct error *err)
{
    int r;

    if (number != SIGUSR1 && number != SIGUSR2 && number != SIGTERM && number != SIGINT)
        return error_set(err, -EINVAL, "signal %d is none of USR1, USR2, INT and TERM", number);
    if (client->state == CLIENT_FAILED && !save_s) { /* there is nothing to resume */
        const char *how =
            process_ends(client->pid, number) ? "failed, signal sent, which ends it" : "failed, signal sent";

        (void)kill(client->pid, number);
        ladder_tell(node, client, "ok", how);
        return 0;
    }
    client->signal = number;
    client->save_s = save_s;
    client->save_force = force;
    r = ladder_order(node, client, CLIENT_RUNNING, err);
    if (r < 0)
        client->signal = 0;
    return r;
}

/* The program saved itself; or it cannot, or raised, and is told by the signal. One that would be ended by that, and
 * has saved nothing, is sent it only by force: what would be lost is said before. */
void save_done(struct node *node, struct client *client, int r)
{
    char text[320], lost[128];
    const char *why = r == -ENOSYS ? "it defines no muster_on_checkpoint()"
                      : r == -EIO  ? "its muster_on_checkpoint() raised an exception"
                                   : "no step of it ended in time";
    bool ends = r < 0 && process_ends(client->pid, client->signal), forced = client->save_force;

    client->step = STEP_NONE;
    process_lost(client, lost, sizeof(lost));
    if (r >= 0) {
        client->saved_ns = node_now();
        (void)snprintf(text, sizeof(text), "saved by its own muster_on_checkpoint() in %.3f s",
                       (double)client->moved.ns / 1e9);
    } else if (ends && !forced) {
        (void)snprintf(text, sizeof(text),
                       "not saved: %s, and signal %d would end it, because it does not catch it; lost would be %s. "
                       "--force sends it all the same",
                       why, client->signal, lost);
    } else {
        (void)kill(client->pid, client->signal);
        if (ends)
            (void)snprintf(text, sizeof(text), "signal %d sent, which ends it; %s. Lost is %s", client->signal, why,
                           lost);
        else
            (void)snprintf(text, sizeof(text), "signal %d sent; %s", client->signal, why);
    }
    client->signal = 0;
    ladder_tell(node, client, ends && !forced ? "error" : "ok", text);
}
