/* SPDX-License-Identifier: Apache-2.0 */
/* estimate.c - see estimate.h. */
#include "gpurt/ladder/estimate.h"

#define LEAST_MIB 64u     /* a smaller move says little of a rate */
#define HOST_MORE_PART 20 /* host memory must hold a twentieth more than what is moved */
#define RATE_MOST 1000000u

void estimate_rates_init(struct estimate_rates *rates)
{
    *rates = (struct estimate_rates){ .out = 52000,
                                      .back = 52000,
                                      .make = 5000,
                                      .driver_out = 1600,
                                      .driver_back = 6300,
                                      .driver_out_ms = 400,
                                      .driver_back_ms = 250 };
}

void estimate_learn(uint32_t *rate, uint64_t mib, uint64_t ns)
{
    uint64_t seen = ns ? mib * 1000000000ULL / ns : 0;

    if (mib < LEAST_MIB || seen == 0)
        return;
    *rate = (uint32_t)((3 * (uint64_t)*rate + (seen < RATE_MOST ? seen : RATE_MOST)) / 4);
}

void estimate_learn_ms(uint32_t *ms, uint64_t ns)
{
    uint64_t seen = ns / 1000000;

    *ms = (uint32_t)((3 * (uint64_t)*ms + (seen < 600000 ? seen : 600000)) / 4);
}

static uint32_t ms_of(uint64_t mib, uint32_t rate)
{
    uint64_t ms = mib * 1000 / (rate ? rate : 1);

    return ms < UINT32_MAX / 4 ? (uint32_t)ms : UINT32_MAX / 4;
}

struct estimate estimate_of(const struct estimate_rates *rates, const struct estimate_process *process,
                            enum estimate_rung rung)
{
    struct estimate e = { .can = true };
    uint64_t moved = process->moves ? process->movable : 0, missing;
    bool allowed = process->host_limit == 0 || moved < process->host_limit;

    if (rung == RUNG_PAUSE)
        return e;
    e.freed = moved;
    e.host = moved + moved / HOST_MORE_PART;
    missing = e.host > process->prepared ? e.host - process->prepared : 0;
    e.save_ms = ms_of(moved, rates->out) + ms_of(missing, rates->make);
    e.back_ms = ms_of(moved, rates->back);
    e.can = process->moves && allowed && missing <= process->host_free;
    if (rung == RUNG_EVICT)
        return e;
    moved = process->fixed + (process->moves ? 0 : process->movable);
    e.freed += moved + process->context;
    if (rung == RUNG_SAVE) /* its own doing: nobody knows how long that takes */
        return (struct estimate){ .can = true, .freed = e.freed };
    e.host += moved;
    e.save_ms += rates->driver_out_ms + ms_of(moved, rates->driver_out);
    e.back_ms += rates->driver_back_ms + ms_of(moved, rates->driver_back);
    e.can = process->releases && allowed && e.host <= process->host_free + process->prepared;
    return e;
}

enum estimate_rung estimate_choose(const struct estimate_rates *rates, const struct estimate_process *process,
                                   uint64_t free_mib)
{
    for (enum estimate_rung rung = process->rung; rung < RUNG_SAVE; rung++) {
        struct estimate e = estimate_of(rates, process, rung);

        if (rung == process->rung) /* it is there already */
            e = (struct estimate){ .can = true };
        if (e.can && e.freed + process->away >= free_mib)
            return rung;
    }
    return RUNG_SAVE;
}
