/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* search.h - hyper-parameter searches with a kill rule, as their tools act on a cluster.
 *
 * With --set search=10% all jobs of one user are the trials of one search. As soon as every one of them has that part
 * of its work behind it, they are compared: the search-keep best (2) go on, the others are cancelled, wherever they
 * are. How good a trial is, is drawn from seed and job id, and known to nobody else. The winner is found when the best
 * of all trials is complete and has been compared with all others.
 */
#include "sim/driver/driver_internal.h"

/* NULL where no rule is set. -ENOMEM. */
int searches_new(const struct driver_config *config, struct searches **ret, struct error *err);
void searches_free(struct searches *searches);

/* The next instant at which a trial of a search that is not decided reaches the mark; `searches` may be NULL. */
usec_t searches_next(const struct driver *d);

/* Compares what can be compared now, and cancels those that lost. */
int searches_act(struct driver *d);

/* Into the result: how many searches, and the mean and longest time from first submission to the winner. */
void searches_result(const struct driver *d);
