/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* forecast.h - when jobs will start, asked of a copy of the core.
 *
 * The copy is stepped forward as if running jobs ended at their estimates or time limits and nothing new came. One run
 * answers for all jobs that wait; it is kept until the state has changed.
 */
#include "ctl/daemon/server.h"

struct forecast;

struct eta {
    usec_t at, low, high;
    char basis[64];
};

int forecast_new(struct server *server, struct forecast **ret_forecast);
void forecast_free(struct forecast *forecast);

/* false: nobody can tell (it waits for something that has no time). */
bool forecast_eta(struct forecast *forecast, int64_t job, struct eta *ret_eta);

/* How long the user has to wait until a copy of the core may be made for a request again; 0: none. And what one took.
 */
usec_t forecast_wait(struct forecast *forecast, const char *user);
void forecast_pay(struct forecast *forecast, const char *user, usec_t took);

/* GET /jobs/{id}/why, POST /jobs:plan */
void forecast_why(struct request *request);
void forecast_plan(struct request *request);
/* GET /schedule: planned intervals. */
struct planned {
    int64_t job;
    usec_t start, end;
    uint32_t gpu_first, gpu_count; /* into gpus, numbers of the core */
};
const struct planned *forecast_planned(struct forecast *forecast, size_t *ret_count, const uint32_t **ret_gpus);
/* When a job that has GPUs is expected to leave them; 0: nobody can tell. */
usec_t forecast_leave(struct forecast *forecast, int64_t job);
