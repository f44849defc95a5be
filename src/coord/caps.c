/* SPDX-License-Identifier: Apache-2.0 */
/* caps.c - see caps.h. */
#include "coord/caps.h"

#include <assert.h>

static uint32_t less(uint32_t a, uint32_t b)
{
    return a > b ? a - b : 0;
}

static uint32_t usable(const struct caps *caps)
{
    return less(caps->total_mib, caps->reserve_mib);
}

void caps_init(struct caps *caps, uint32_t total_mib, uint32_t reserve_mib, uint32_t margin_mib)
{
    *caps = (struct caps){ .total_mib = total_mib, .reserve_mib = reserve_mib, .margin_mib = margin_mib };
    ring_init(&caps->asked);
}

void caps_begin(struct caps *caps)
{
    caps->guaranteed = true;
    caps->rg_mib = caps->rg_want = caps->rg_spilt = 0;
    ring_init(&caps->asked);
}

void caps_end(struct caps *caps)
{
    caps->guaranteed = false;
    caps->rg_mib = caps->rg_want = caps->rg_spilt = 0;
}

void caps_report(struct caps *caps, usec_t now, uint32_t asked_mib)
{
    ring_add(&caps->asked, now, 0, asked_mib);
    caps->rg_spilt = less(asked_mib, caps->rg_mib);
}

/* What everybody shall have, into target[]: those that can run have the least they need, and what is left by weight;
 * the last of them gets what division leaves. 0 = paused. */
static void divide(const struct caps *caps, uint32_t rest, uint32_t *target)
{
    uint64_t weights = 0, given = 0;
    uint32_t last = CAPS_JOBS, runs = 0;

    for (uint32_t i = 0; i < caps->count; i++) {
        const struct caps_job *job = &caps->job[i];
        bool paused = job->stable_mib > rest || rest == 0;

        target[i] = paused ? 0 : (job->stable_mib ? job->stable_mib : 1);
        rest -= target[i];
        weights += paused ? 0 : job->weight;
        runs += !paused;
        last = paused ? last : i;
    }
    for (uint32_t i = 0; i < caps->count && runs; i++) {
        uint64_t part = weights ? (uint64_t)rest * caps->job[i].weight / weights : rest / runs;

        if (!target[i])
            continue;
        part = i == last ? rest - given : part;
        given += part;
        target[i] += (uint32_t)part;
    }
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* A job grows into what nobody holds; one that cannot even have what it needs stays paused for now. */
static void grow(struct caps_job *job, uint32_t target, uint32_t *room)
{
    uint32_t held = larger(job->used_mib, job->cap_mib), cap = target;

    if (target > held && target - held > *room)
        cap = held + *room;
    if (cap < job->stable_mib || cap == 0)
        cap = job->cap_mib;
    *room -= less(cap, held);
    job->cap_mib = cap;
}

bool caps_turn(struct caps *caps, usec_t now)
{
    uint32_t want = 0, held = 0, room, before = caps->rg_mib, old[CAPS_JOBS], target[CAPS_JOBS];
    bool changed = false;

    assert(caps->count <= CAPS_JOBS);
    if (caps->guaranteed) {
        want = ring_peak(&caps->asked, now, CAPS_WINDOW) + caps->margin_mib;
        want = want < usable(caps) ? want : usable(caps);
    }
    caps->rg_want = want;
    divide(caps, usable(caps) - want, target);
    for (uint32_t i = 0; i < caps->count; i++) {
        struct caps_job *job = &caps->job[i];

        old[i] = job->cap_mib;
        job->cap_mib = target[i] < job->cap_mib ? target[i] : job->cap_mib;
        if (job->cap_mib < job->stable_mib)
            job->cap_mib = 0;
        held += larger(job->used_mib, job->cap_mib);
    }
    room = less(usable(caps), held);
    caps->rg_mib = want <= larger(caps->rg_mib, room) ? want : larger(caps->rg_mib, room);
    room = less(room, caps->rg_mib);
    for (uint32_t i = 0; i < caps->count; i++) {
        struct caps_job *job = &caps->job[i];

        if (target[i] > job->cap_mib)
            grow(job, target[i], &room);
        job->paused = job->cap_mib == 0;
        changed |= old[i] != job->cap_mib;
    }
    return changed || before != caps->rg_mib;
}
