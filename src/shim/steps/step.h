/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* step.h - the ends of steps: who sees them, and what is done at them. */
#include "shim/shim.h"

/* --- step.c */
void step_launch(CUfunction f, uint64_t key); /* tiers 2 and 3 look at a launch */
void step_boundary(enum page_tier tier);
/* The optimizer `which` has made a step. One of several in a mini-batch is no boundary: rounds.h. */
void step_optimizer(enum page_tier tier, uint64_t which);
void step_poll(void); /* helper: tier 4 */

/* --- python.c */
void python_try(void);
/* Asks the framework to drop its cache: at once, which in the middle of a step is little, and `again` at its end if
 * that was not enough. False: it cannot be, or was asked before. */
bool python_trim(bool again);
bool python_trimming(void); /* just now, in the program's own thread */
bool python_trimmed(void);
int python_save(void);       /* 0: asked for; -ENOSYS: the program cannot */
int python_stats(void);      /* PyTorch's own book is read when a step ends; 0, or -ENOSYS */
int python_stats_read(void); /* as python_saved() */
int python_saved(void);      /* 0, -EAGAIN: not yet, -ENOSYS, -EIO: it raised */

/* --- measure.c: how long the next steps take. A look returns true, once, when that many have ended or time is up. */
void measure_begin(uint64_t seq, uint64_t steps, uint64_t deadline_ns);
bool measure_look(uint64_t *ret_seq, int64_t *ret_us, uint64_t *ret_start);

/* --- dump.c */
int dump_begin(uint64_t own_ns); /* 0, or -errno: nothing has changed */
bool dump_away(void);            /* helper: still on its own; false once it may register */
bool dump_lasts(void);           /* its time is not up: it stays as it is */

/* --- arena.c: the helper's; a descriptor is only looked at */
void arena_take(const struct message_device *d, int fd);
void beside_take(const struct message_device *d, int fd);
void arena_leave_all(void); /* nobody is on the GPU but us, as far as is known from then on */
