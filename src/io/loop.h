/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* loop.h - the one thread of the controller: timers, signals, the end of each turn, and workers for what blocks.
 *
 * Over libuv. Everything here is called on the thread of the loop; only work() runs elsewhere.
 */
#include <stdbool.h>

#include "base/error.h"
#include "base/units.h"
#include "io/clock.h" /* most who have a loop ask for the time */

struct loop;
struct uv_loop_s;

int loop_new(struct loop **ret_loop, struct error *err);
void loop_free(struct loop *loop); /* everything that was made on it is closed before */
void loop_run(struct loop *loop);  /* until loop_stop() */
void loop_stop(struct loop *loop);
struct uv_loop_s *loop_uv(struct loop *loop);

typedef void (*loop_fn)(void *arg);

/* Called at the end of each turn, before the loop sleeps. Several may be told; in the order they came. */
int loop_each_turn(struct loop *loop, loop_fn fn, void *arg);

struct loop_timer;

int loop_timer_new(struct loop *loop, loop_fn fn, void *arg, struct loop_timer **ret_timer);
void loop_timer_after(struct loop_timer *timer, usec_t span); /* once; replaces what was set */
void loop_timer_every(struct loop_timer *timer, usec_t span);
void loop_timer_stop(struct loop_timer *timer);
void loop_timer_free(struct loop_timer *timer);

int loop_signal(struct loop *loop, int number, loop_fn fn, void *arg);

/* work() on the one worker thread, in the order asked for; then done() on the loop. -ENOMEM. */
int loop_work(struct loop *loop, loop_fn work, loop_fn done, void *arg);
/* The same on a thread of its own that is there for what takes long: the store does not wait for it. */
int loop_compute(struct loop *loop, loop_fn work, loop_fn done, void *arg);
bool loop_work_alone(const struct loop *loop); /* nothing is at loop_work() */
/* Lets the workers finish what they were given, calls every done(), and ends them. */
void loop_work_finish(struct loop *loop);
