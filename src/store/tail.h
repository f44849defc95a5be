/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* tail.h - the last batches of a log, in a file beside the database.
 *
 * A transaction of the database for each batch costs more than all else that is done for a short job. Here a batch is
 * one write, and one sync where somebody waits for it; the database takes many at once. What is read back are the
 * batches that follow the database's last one: whole, in order, none missing; what an older round has left behind them
 * is not.
 */
#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

struct tail;

/* The file in the directory, made if it is not there. */
int tail_open(const char *directory, struct tail **ret_tail, struct error *err);
void tail_close(struct tail *tail);

/* Writes a batch; it survives this process then, and the loss of power, with all before it, unless it is lazy. -errno:
 * there is no room, or the disk failed, and it is not there. */
int tail_add(struct tail *tail, uint64_t seq, const char *data, size_t size, bool lazy);
/* Everything added so far is on the disk then; 0 or -errno. Any thread may call it. */
int tail_sync(struct tail *tail);

/* Reads what was left behind the batch `seq`. */
int tail_load(struct tail *tail, uint64_t seq, struct error *err);
/* What was added or read, in order. */
int tail_each(const struct tail *tail, store_batch_fn fn, void *arg, struct error *err);
/* The database has all of it, durably: what comes next is written over it. */
void tail_clear(struct tail *tail);
