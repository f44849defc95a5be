/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* feed.h - what happened lately, for people and browsers: the last events and decisions, and who listens.
 *
 * Events are kept in a ring; a listener is a place in it, so that a slow one costs nothing. One that falls off the end
 * is told to look again ("reset"), as is one that resumes from before it.
 */
#include "ctl/http/http_server.h"
#include "ctl/state/state.h"

struct feed;

enum { FEED_EVENTS = 8192, FEED_DECISIONS = 16384 };

int feed_new(struct loop *loop, size_t listeners_max, struct feed **ret_feed);
void feed_stop(struct feed *feed); /* its timer */
void feed_free(struct feed *feed); /* after all connections are closed */

void feed_event(struct feed *feed, const struct ctl_event *event);
void feed_decision(struct feed *feed, const char *line);

/* Server-sent events until the client leaves; or, when it did not ask for them, the events there are, as a list.
 * job: 0 = all. */
void feed_reply(struct feed *feed, struct request *request, int64_t job);
/* The decisions about a job that are still known. */
void feed_trace(struct feed *feed, struct request *request, int64_t job);
size_t feed_listeners(const struct feed *feed);
uint64_t feed_last(const struct feed *feed); /* id of the last event; 0 = none */
