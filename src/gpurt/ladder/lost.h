/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* lost.h - does a signal end a process, and what goes with it? */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct client;

/* Neither caught, ignored nor blocked, as /proc tells: what USR1, USR2, INT and TERM do then is to end it. */
bool process_ends(pid_t pid, int number);
/* The time since it last saved itself, where that was seen, else since its start; in words. */
void process_lost(const struct client *client, char *text, size_t size);
