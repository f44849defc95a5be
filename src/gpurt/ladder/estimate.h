/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* estimate.h - what each rung of the ladder would free and how long it would take, before one is chosen.
 *
 * Copies go at the bus' speed, the driver's checkpoint of what cannot be copied at its own, host memory that was not
 * made ready takes longest. The rates are those of an H200 until this node has measured its own: every move that was
 * made moves them by a quarter. Pure.
 */
#include <stdbool.h>
#include <stdint.h>

enum estimate_rung { RUNG_PAUSE, RUNG_EVICT, RUNG_RELEASE, RUNG_SAVE, RUNG_COUNT };

/* MiB a second, and milliseconds. */
struct estimate_rates {
    uint32_t out, back;               /* own copies */
    uint32_t make;                    /* host memory that is not there yet */
    uint32_t driver_out, driver_back; /* what is left to the driver's checkpoint */
    uint32_t driver_out_ms, driver_back_ms;
};

/* Of a process; MiB. */
struct estimate_process {
    uint64_t movable, fixed; /* on the device: what can be moved, and what cannot but for the context */
    uint64_t context;
    uint64_t prepared, host_free; /* host memory made ready; to be had besides */
    uint64_t host_limit;          /* 1 + what its own limit leaves it there; 0 = it has none */
    bool moves, releases;         /* its memory can be moved; the driver can checkpoint it */
    enum estimate_rung rung;      /* where it is */
    uint64_t away;                /* and what has left the device there */
};

struct estimate {
    bool can;
    uint64_t freed, host; /* MiB: of the GPU, of host memory taken */
    uint32_t save_ms, back_ms;
};

void estimate_rates_init(struct estimate_rates *rates);
/* So many MiB took so long. */
void estimate_learn(uint32_t *rate, uint64_t mib, uint64_t ns);
void estimate_learn_ms(uint32_t *ms, uint64_t ns);

struct estimate estimate_of(const struct estimate_rates *rates, const struct estimate_process *process,
                            enum estimate_rung rung);
/* The first rung, from where it is on, with which so much is free; RUNG_SAVE when none does: only its own checkpoint is
 * left. */
enum estimate_rung estimate_choose(const struct estimate_rates *rates, const struct estimate_process *process,
                                   uint64_t free_mib);
