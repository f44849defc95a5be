/* SPDX-License-Identifier: Apache-2.0 */
/* world_coord.c - an opportunistic job beside the owner of a GPU, with the node's coordinator between them.
 *
 * The loop is the node's own (coord/pair.h), run for a quarter of an hour against a modelled GPU; what each job has on
 * the average is its speed. Its answer depends on one number, how much the owner suffers from an unrestrained
 * neighbour, so it is computed once for each and remembered.
 *
 * The modelled GPU is the measured one of docs/gpu-results.md: with a gate before each launch, a neighbour that would
 * slow its owner by k when unrestrained slows it by k u / 4000 at a share of u permille, and finds 0.88 of the owner's
 * idle time at a share of 200 and all of it at 1000. The idle time is what a measured pair makes of the GPU beyond the
 * owner's own work (the sum of both speeds, less one); without a table, what the owner's utilisation leaves of it.
 */
#include "sim/world/world_coord.h"
#include "coord/pair.h"
#include "sim/world/world_internal.h"

enum { HARM_STEP = 10, STEP_LAUNCHES = 400 }; /* harm is remembered in steps of a hundredth */

#define MODEL_STEP (100 * USEC_MSEC)
#define MODEL_SPAN (900 * USEC_SEC)
#define HARM_MAX (int64_t)((WORLD_HARMS - 1) * HARM_STEP)

/* Of the owner's idle time, in parts per million. */
static int64_t found_at(uint32_t u)
{
    return u <= 200 ? (int64_t)u * 4400 : 880000 + ((int64_t)u - 200) * 150;
}

static struct world_harm loop_run(uint32_t harm, uint32_t eps)
{
    struct world_harm mean = { .known = true };
    usec_t now = 0;
    int64_t steps = 0, found = 0;
    struct pair pair;

    pair_begin(&pair, PAIR_GAPS, eps, 0);
    while (now < MODEL_SPAN) {
        uint32_t u = pair_turn(&pair, now);
        usec_t wall = MODEL_STEP + muldiv_floor(MODEL_STEP, (int64_t)harm * u, 4000 * 1000);

        pair_step(&pair, STEP_LAUNCHES, (uint32_t)wall);
        now += wall;
        found += found_at(u) * (wall / 1000);
        steps++;
    }
    mean.owner = steps * MODEL_STEP * PPM_ONE / now;
    mean.found = found / (now / 1000);
    return mean;
}

/* How each of the two does when nobody restrains the guest. False: nothing is known of them. */
static bool unrestrained(const struct world *world, const uint32_t jobs[2], const struct world_shape *shape,
                         double ret_rates[2], double *ret_idle)
{
    const struct world_tables *tables = &world->tables;
    double use[2];

    for (int i = 0; i < 2; i++)
        use[i] = world_use(world, jobs[i]) / 100.0;
    if (tables->pairs) {
        uint32_t entries[2] = { tables->pairs_entry[jobs[0]], tables->pairs_entry[jobs[1]] };
        struct world_shape one = world_shape_best(world, 1, shape->sku); /* of a gang, one worker of each is there */
        struct table_place place = { &one, tables->pairs_type[shape->sku], 1 };

        if (tables->pairs->ops->pair(tables->pairs, entries, &place, ret_rates) == 0) {
            *ret_idle = ret_rates[0] > 0 && ret_rates[1] > 0 ? ret_rates[0] + ret_rates[1] - 1 : 0;
            return true;
        }
    }
    if (!(use[0] > 0 && use[1] > 0))
        return false;
    ret_rates[0] = ret_rates[1] = use[0] + use[1] > 1 ? 1 / (use[0] + use[1]) : 1;
    *ret_idle = (1 - use[0]) / use[1];
    return true;
}

uint32_t world_use(const struct world *world, uint32_t job)
{
    uint16_t told = world->trace->jobs[job].spec.utilisation;

    return told > 100 ? 100 : told;
}

void world_beside(const struct world *world, const uint32_t jobs[2], const struct world_shape *shape, size_t guests,
                  ppm_t ret_rates[2])
{
    double rates[2] = { 0.5, 0.5 }, idle = 0;
    int64_t harm;
    struct world_harm *known;

    if (!unrestrained(world, jobs, shape, rates, &idle) || !(rates[0] > 0)) {
        ret_rates[0] = PPM_ONE; /* the guest does not fit, or would only take from its owner */
        ret_rates[1] = 0;
        return;
    }
    harm = rates[0] < 1 ? (int64_t)((1 / rates[0] - 1) * 1000 + 0.5) : 0;
    harm = harm < HARM_MAX ? harm : HARM_MAX;
    known = &world->harms[(harm + HARM_STEP / 2) / HARM_STEP];
    if (!known->known)
        *known = loop_run((uint32_t)((harm + HARM_STEP / 2) / HARM_STEP * HARM_STEP),
                          (uint32_t)(world->config.tolerance / 1000));
    idle /= (double)guests; /* they take turns */
    idle = idle < 0 ? 0 : idle > 1 ? 1 : idle;
    ret_rates[0] = known->owner;
    ret_rates[1] = (ppm_t)(idle * (double)known->found + 0.5);
}
