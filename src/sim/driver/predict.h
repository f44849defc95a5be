/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* predict.h - what a trained estimator makes of a request before it is submitted, and how it learns from finished jobs.
 *
 * Predictions travel in the request; the core never asks. Features and targets have the names of trace columns: model,
 * user, vc, batch, gpus, gpu_servers, servers, priority in; memory_mib, utilisation, bandwidth, launch, save, estimate
 * out. A model that cannot be read or wants something else is named in a warning, and requests are taken as stated; so
 * is a request that lacks a value the model wants.
 */
#include "base/error.h"
#include "model/trace.h"
#include "sim/world/world.h"

struct predictor;

enum { PREDICT_WARNING_MAX = 256 };

/* *ret_predictor NULL: none is asked for, or it cannot be used, and `warning` says why. -ENOMEM only. */
int predictor_new(const struct trace *trace, const struct world_config *config, char warning[PREDICT_WARNING_MAX],
                  struct predictor **ret_predictor, struct error *err);
void predictor_free(struct predictor *predictor);

/* Replaces what is predicted in the request. NULL predictor: nothing. */
void predictor_ask(struct predictor *predictor, uint32_t job, struct jobspec *spec);

/* A job is over: what was measured of it is learned from; every `retrain` of them a new estimator takes the old one's
 * place, whole. */
int predictor_learn(struct predictor *predictor, uint32_t job, struct error *err);

/* Requests it could not say anything of. */
uint64_t predictor_misses(const struct predictor *predictor);
