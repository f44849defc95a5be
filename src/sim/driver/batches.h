/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* batches.h - the mini-batches that running jobs of a simulation finish, as their nodes would measure them.
 *
 * For policies that ask for it (`batches` of a planner or tuner): while a job runs under the same circumstances, one
 * report at the end of every window (--set batch-reports=60s) of how many mini-batches a second it did in that window,
 * with noise, how busy its GPUs were, and its memory. A change of circumstances (start, move, a neighbour that comes or
 * goes) begins a new window. A table of speeds says what a mini-batch is; without one, a job does one a second alone.
 */
#include "sim/driver/driver.h"

struct batches;

/* *ret is NULL where no policy listens. -ENOMEM. */
int batches_new(const struct driver_config *config, const struct world *world, struct batches **ret, struct error *err);
void batches_free(struct batches *batches);

/* The next instant at which a window ends. All of these take NULL. */
usec_t batches_next(const struct batches *batches);

/* The job runs under new circumstances from now on, with so much true progress. */
void batches_begin(struct batches *batches, uint32_t job, usec_t now, usec_t progress);

/* The job whose window ends; it is to be given its true progress, or told that it does not run. */
uint32_t batches_take(const struct batches *batches);
void batches_stop(struct batches *batches, uint32_t job);

/* What is measured of it; begins its next window. `busy`: true utilisation of its GPUs in percent. */
struct report batches_report(struct batches *batches, uint32_t job, usec_t now, usec_t progress, int64_t busy);
