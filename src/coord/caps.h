/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* caps.h - how the memory of one GPU is divided between a guaranteed job and the opportunistic ones beside it.
 *
 * The guaranteed job's cap is the most it has asked for in the last minute and a margin; what it asked for counts with
 * the part that had to go to host memory. The others divide the rest, the oldest first, each at least what it needs to
 * run at all; one for which that much is not left is paused, and its memory goes to the host. When the guaranteed job
 * asks for more than its cap, the surplus is in host memory for the moment, the others are made smaller, and only as
 * they have really become smaller is its cap raised: the device is never promised twice.
 *
 * Pure; MiB; time comes with the call. Asked at every report, or once a second.
 */
#include <stdbool.h>

#include "coord/ring.h"

enum { CAPS_JOBS = 8, CAPS_MARGIN_MIB = 512, CAPS_WINDOW = 60 };

struct caps_job {
    uint32_t stable_mib; /* needs so much to run at all */
    uint32_t used_mib;   /* holds on the device, by its last report */
    uint32_t weight;     /* of what is left over; trial.h finds it. All 0: evenly */
    uint32_t cap_mib;    /* answer */
    bool paused;         /* answer: everything of it to the host */
};

struct caps {
    uint32_t total_mib, reserve_mib, margin_mib;
    bool guaranteed;   /* there is such a job */
    struct ring asked; /* by it, second by second */
    uint32_t rg_mib;   /* answer: its cap */
    uint32_t rg_want;  /* what its cap shall become */
    uint32_t rg_spilt; /* of what it asked for last, beyond its cap: in host memory */
    uint32_t count;
    struct caps_job job[CAPS_JOBS]; /* oldest first */
};

/* reserve: what the driver and others hold. */
void caps_init(struct caps *caps, uint32_t total_mib, uint32_t reserve_mib, uint32_t margin_mib);

/* The guaranteed job came; or left, and the others may have all. */
void caps_begin(struct caps *caps);
void caps_end(struct caps *caps);

/* The guaranteed job asks for so much in all, on the device and in host memory. */
void caps_report(struct caps *caps, usec_t now, uint32_t asked_mib);

/* Computes the answers. True: some cap is other than before. Orders go out in this order: pauses and lower caps, then
 * higher ones. */
bool caps_turn(struct caps *caps, usec_t now);
