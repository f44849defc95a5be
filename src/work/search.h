/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* search.h - the batch search of solve/gga.h by all cores, within rounds and a time budget.
 *
 * With the same problem, parameters and rounds the plan is the same on any number of cores. A time budget is looked at
 * between two epochs only; where it cut the search short, `rounds` of the answer repeats it exactly.
 */
#include "base/error.h"
#include "base/units.h"
#include "solve/gga.h"

struct search_request {
    const struct gga_problem *problem;
    struct gga_params params;
    uint32_t rounds;  /* generations at most; 0: 30 + T without an improvement, as the paper's code has it */
    usec_t budget;    /* of real time; 0: none */
    unsigned threads; /* 0: all cores */
    /* Called after every epoch, with the best so far; may be NULL. */
    void (*watch)(void *arg, uint32_t rounds, usec_t elapsed, double best);
    void *watch_arg;
};

struct search_answer {
    double best;     /* objective of the plan */
    double best_fit; /* of best fit in order; INFINITY: it found no place for some job */
    uint32_t rounds; /* generations that were run */
    usec_t elapsed;
};

/* Fills ret_place[task_count]. -ENOSPC: no valid plan was found, some job must wait; -ENOMEM. */
int search_run(const struct search_request *request, uint32_t *ret_place, struct search_answer *ret_answer,
               struct error *err) __attribute__((warn_unused_result));
