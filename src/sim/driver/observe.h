/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* observe.h - what jobs of a simulation report of themselves: loss and speed, with noise.
 *
 * A policy that learns sees these and nothing else. Every elastic job has a loss curve of its own, drawn from seed and
 * job id: 1/(b0 k + b1) + b2 over its epochs, such that it converges (less than 1 % of the first loss an epoch, three
 * epochs in a row) in the very epoch its work ends in. What is reported of it is noisy, has spikes, and with one job in
 * four stands still for a while. Speeds are the world's, with noise.
 *
 * After its first start a job reports speeds at several sizes, a second apart: those of short runs on sample data; then
 * its loss and present speed at every period while it runs. For an oracle there are no losses, and the samples are the
 * true rates at every size.
 */
#include "model/event.h"
#include "sim/driver/driver.h"

struct observer;

/* *ret is NULL where no policy listens: then nothing is reported and nothing costs. -ENOMEM. */
int observer_new(const struct driver_config *config, const struct world *world, struct observer **ret,
                 struct error *err);
void observer_free(struct observer *observer);

/* The next instant at which somebody reports; `observer` may be NULL. */
usec_t observer_next(const struct observer *observer);

/* The job that does, whose next report is then set. It must not be asked of an observer with nothing due. */
uint32_t observer_take(struct observer *observer, usec_t now);

/* What is true of a job as it comes, in a world that tells everything (world_paces). Calls `tell` for each report.
 * `observer` may be NULL. */
int observer_arrived(const struct observer *observer, uint32_t job, int (*tell)(void *arg, const struct report *report),
                     void *arg);

/* The job runs, from now on. `observer` may be NULL. */
void observer_started(struct observer *observer, uint32_t job, usec_t now);

/* It does not, any more. */
void observer_stopped(struct observer *observer, uint32_t job);

/* A job as the world sees it. */
struct observed {
    usec_t progress;
    struct world_shape shape;
    const struct world_pace *pace;
};

/* What it reports, given its true progress, where it is and how fast. Returns how many reports, at most 2. */
int observer_reports(struct observer *observer, uint32_t job, const struct observed *seen, struct report *out);

/* Epochs the job takes in all: the truth a prediction is measured by. 0 for one that reports nothing. */
int observer_epochs(const struct observer *observer, uint32_t job);
