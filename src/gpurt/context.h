/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* context.h - how much of a GPU a process takes that nobody counts: its context, its kernels, the driver's own.
 *
 * What the card shows for the process, less what its library counts. A look is believed when nothing was allocated or
 * moved while it was taken and the one before said the same; then it is written into the process' page, in place of
 * the figure every process begins with. It is looked at again every second: a context grows with the kernels it loads.
 */
#include <stdint.h>

#include "shim/page.h"

enum { CONTEXT_GRAIN_MIB = 16 }; /* less of a difference is none */

struct context {
    uint64_t counted; /* without the context, before the look */
    uint32_t mib;     /* what the look before made of it */
    uint32_t looks;
};

struct node;
struct client;

/* Before the card is asked: what every process counts now. */
void contexts_before(struct node *node);
/* The card shows so many MiB for the process on this GPU; 0: it does not tell. */
void context_seen(struct client *client, const uint8_t *uuid, uint32_t mib);
