/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* scrubber.h - the store is read again in the background. */
#include <errno.h>
#include <stdio.h>

#include "ctl/daemon/server.h"

struct scrubber;

/* The store is open. What it finds is in server->store_damaged. */
int scrubber_new(struct server *server, struct scrubber **ret_scrubber);
void scrubber_free(struct scrubber *scrubber);
