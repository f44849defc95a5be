/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* session.h - a WebSocket into a running job.
 *
 * The channel makes the connection (TLS, socket, certificate); the upgrade is written by hand; wslay makes and reads
 * frames. Binary messages begin with a byte: to the job 0 input, 2 size of the terminal, 3 end of input; from it 1
 * output, 2 error output, 3 the exit status (docs/rest.md).
 */
#include <stdbool.h>
#include <stdint.h>
#include <wslay/wslay.h>

#include "base/buf.h"
#include "cli/client/client.h"

enum { SAY_INPUT = 0, SAY_SIZE = 2, SAY_INPUT_OVER = 3 };

struct session {
    struct channel *channel;
    int fd;
    wslay_event_context_ptr ws;
    struct buf early; /* bytes behind the answer to the upgrade */
    size_t early_taken;
    int status; /* of the command; -1 = not told */
    bool tty, input_over, broken;
    bool silent; /* what it says is not shown */
};

/* The client's connection becomes the session: one client, one session. */
int session_open(struct session *session, struct client *client, const char *path, struct problem *problem);
void session_send(struct session *session, uint8_t kind, const void *data, size_t size);
/* Frames in and out as far as that goes; false: it is over, or broken. */
bool session_turn(struct session *session);
void session_close(struct session *session);
