/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* door.h - who may come to the node side, and what they may ask of it.
 *
 * A node side that somebody starts serves that user alone: nobody else can connect. One that serves a machine
 * (MUSTER_GPU_EVERYONE=1, as a cluster's agent starts it) takes programs of every user, because those that share a GPU
 * are seldom of one. Then orders are the node side's own user's and root's: a job whose limit the cluster has set could
 * lift it otherwise, or stop a neighbour. Everybody else may look, at programs of their own.
 */
#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

#define DOOR_WAITING 64 /* connections of one user that have said nothing yet, */
#define DOOR_PROCS 384  /* and its programs, where there are other users: of NODE_PENDING and NODE_CLIENTS */

struct client;
struct node;

bool door_everyone(void);
/* Whose the other end of a connection is; (uid_t)-1: nobody can tell. */
uid_t door_user(int fd);
bool door_master(uid_t user);
/* One more connection, one more program of that user? */
bool door_waits(const struct node *node, uid_t user);
bool door_takes(const struct node *node, uid_t user);
/* The line of a tool. -EPERM with words. */
int door_asks(const struct node *node, uid_t user, const char *line, struct error *err);
/* Whether who asks is told of the program. */
bool door_shows(const struct node *node, const struct client *client);
