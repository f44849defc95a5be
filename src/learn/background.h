/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* background.h - training beside whatever goes on: a thread trains a new estimator while the old one is asked.
 *
 * One owner calls all of these from one thread. The estimator in use changes only in trainer_poll(), whole.
 */
#include "learn/estimator.h"

struct trainer;

int trainer_new(struct trainer **ret_trainer, struct error *err);

/* Waits for a training under way. */
void trainer_free(struct trainer *trainer);

/* Begins to train on the table, which it takes over (the caller's is empty then). The names in the request must outlive
 * the training. -EBUSY: one is under way; then nothing was taken. */
int trainer_start(struct trainer *trainer, struct dataset *take_set, const struct train_request *request,
                  struct error *err);

/* 1 and the new estimator in place of *estimator, whose old content is freed; 0: none under way, or not done yet; < 0:
 * it failed, in words, and *estimator is as it was. */
int trainer_poll(struct trainer *trainer, struct estimator *estimator, struct error *err);
