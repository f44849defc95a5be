/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* selfcheck.h - the audit of the controller's state, once an hour and in parts; what differs is an alert. */
#include "ctl/daemon/server.h"
#include "ctl/state/audit.h"

struct selfcheck {
    struct server *server;
    usec_t next;                /* the next part is due */
    usec_t since;               /* something has differed since then; 0 = nothing does */
    struct state_audit running; /* the one under way */
    struct state_audit last;    /* the last whole one */
};

int selfcheck_new(struct server *server, struct selfcheck **ret_check);
void selfcheck_free(struct selfcheck *check);
/* Called every few seconds: a part of the audit, where one is due. */
void selfcheck_tick(struct selfcheck *check, usec_t now);
