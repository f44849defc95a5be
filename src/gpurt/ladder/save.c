/* SPDX-License-Identifier: Apache-2.0 */
/* save.c - the last rung: a program saves itself, by a function of its own or told by a signal; and is ended after
 * that, if somebody asked for it.
 *
 * Only what has said that it is saved is ended. By force also what has not: told by the signal first, if it catches
 * that, with as much time again. What is lost is told in either case.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "gpurt/ladder/lost.h"
#include "gpurt/node.h"
#include "shim/channel.h"

#define SEC 1000000000ULL
#define KILL_NS (10 * SEC)

/* A handler of the program's runs only when its launch has returned, so the gate opens first. */
int ladder_signal(struct node *node, struct client *client, int number, uint32_t save_s, uint32_t how,
                  struct error *err)
{
    int r;

    if (number != SIGUSR1 && number != SIGUSR2 && number != SIGTERM && number != SIGINT)
        return error_set(err, -EINVAL, "signal %d is none of USR1, USR2, INT and TERM", number);
    if (client->state == CLIENT_FAILED && !save_s) { /* there is nothing to resume */
        const char *said =
            process_ends(client->pid, number) ? "failed, signal sent, which ends it" : "failed, signal sent";

        (void)kill(client->pid, number);
        ladder_tell(node, client, "ok", said);
        return 0;
    }
    client->signal = number;
    client->save_s = save_s;
    client->save_how = how;
    r = ladder_order(node, client, CLIENT_RUNNING, err);
    if (r < 0)
        client->signal = 0;
    return r;
}

static void ending_phase(struct client *client, enum ending_phase phase, int number, uint64_t within_ns)
{
    client->ending.phase = phase;
    client->ending.until_ns = node_now() + within_ns;
    if (channel_start_ticks(client->pid) == client->start_ticks)
        (void)kill(client->pid, number);
}

/* `why` it is not saved, NULL when it is. */
static void ending_begin(struct node *node, struct client *client, const char *why, const char *lost)
{
    uint64_t grace = client->save_s * SEC;
    char text[320];

    if (why && !(client->save_how & SAVE_FORCE)) {
        (void)snprintf(text, sizeof(text),
                       "not saved: %s. It was not ended; lost would be %s. --force ends it all the same", why, lost);
        client->signal = 0;
        ladder_tell(node, client, "error", text);
        return;
    }
    client->step = STEP_END;
    client->step_since_ns = node_now();
    if (why)
        (void)snprintf(client->ending.said, sizeof(client->ending.said), "ended unsaved: %s. Lost is %s", why, lost);
    else
        (void)snprintf(client->ending.said, sizeof(client->ending.said),
                       "saved by its own muster_on_checkpoint() in %.3f s, and ended", (double)client->moved.ns / 1e9);
    if (why && !process_ends(client->pid, client->signal))
        ending_phase(client, ENDING_NOTICE, client->signal, grace);
    else
        ending_phase(client, ENDING_TERM, SIGTERM, grace);
    client->signal = 0;
}

/* It has ended when its connection closes. */
void save_turn(struct node *node, struct client *client)
{
    if (node_now() < client->ending.until_ns)
        return;
    if (client->ending.phase == ENDING_NOTICE) {
        ending_phase(client, ENDING_TERM, SIGTERM, client->save_s * SEC);
    } else if (client->ending.phase == ENDING_TERM) {
        ending_phase(client, ENDING_KILL, SIGKILL, KILL_NS);
    } else {
        client->step = STEP_NONE;
        ladder_tell(node, client, "error", "signal 9 was sent, and it has not ended: the kernel waits for something");
    }
}

/* The program saved itself; or it cannot, or raised, and is told by the signal. One that would be ended by that, and
 * has saved nothing, is sent it only by force: what would be lost is said before. */
void save_done(struct node *node, struct client *client, int r)
{
    char text[320], lost[128];
    const char *why = r == -ENOSYS ? "it defines no muster_on_checkpoint()"
                      : r == -EIO  ? "its muster_on_checkpoint() raised an exception"
                                   : "no step of it ended in time";
    bool ends = r < 0 && process_ends(client->pid, client->signal), forced = (client->save_how & SAVE_FORCE) != 0;

    client->step = STEP_NONE;
    process_lost(client, lost, sizeof(lost));
    if (r >= 0)
        client->saved_ns = node_now();
    if (client->save_how & SAVE_END) {
        ending_begin(node, client, r < 0 ? why : NULL, lost);
        return;
    }
    if (r >= 0) {
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
