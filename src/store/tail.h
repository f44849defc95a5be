/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* tail.h - the last batches of a log, in a file beside the database.
 *
 * A transaction of the database for each batch costs more than all else that is done for a short job. Here a batch is
 * one write, and one sync where somebody waits for it; the database takes many at once, and each time begins a new
 * generation of the tail, written over the old one.
 *
 * Each sector says its generation and has a checksum, each batch the digest that chains it to the one before. So what a
 * loss of power left half written, which nobody was told of, is not taken for damage, nor damage for that: a sector is
 * written whole or not at all.
 */
#include <stdbool.h>
#include <stdint.h>

#include "store/digest.h"

struct tail;

/* Where the log stands: the last batch of a generation. */
struct log_place {
    uint64_t generation, seq;
    struct digest chain;
};

/* The files in the directory. `make`: they are made where they are not there; else that is an error (-EBADMSG). */
int tail_open(const char *directory, bool make, struct tail **ret_tail, struct error *err);
void tail_close(struct tail *tail);

/* Reads what follows the place, and changes nothing. -EBADMSG: something is damaged or missing, in words. *ret_end: the
 * last batch. */
int tail_load(struct tail *tail, const struct log_place *from, struct digester *digester, struct log_place *ret_end,
              struct error *err);
/* Whether a file is not as it should be, though nothing that counts is lost; words, or NULL. */
const char *tail_worn(const struct tail *tail);

/* Writes a batch and its digest; it survives this process then, and the loss of power, with all before it, unless it is
 * lazy. -errno: there is no room, or the disk failed, and it is not there. */
int tail_add(struct tail *tail, uint64_t seq, const struct digest *chain, const struct store_write *write);
/* Everything added so far is on the disk then; 0 or -errno. Any thread may call it. */
int tail_sync(struct tail *tail);

typedef int (*tail_fn)(void *arg, uint64_t seq, const struct digest *chain, const char *data, size_t size,
                       struct error *err);
/* What was added or read, in order. */
int tail_each(const struct tail *tail, tail_fn fn, void *arg, struct error *err);
/* The database has all of it, durably, as its commit `generation`: what comes next is written over it. */
void tail_clear(struct tail *tail, uint64_t generation);

/* What is on the disk is what was written there. -EBADMSG in words. */
int tail_scrub(struct tail *tail, struct error *err);
/* Every whole batch that can still be found in the files, of whatever generation, with its digest: not proved. */
int tail_salvage(struct tail *tail, tail_fn fn, void *arg, struct error *err);

/* The tail of the former version, read once: its batches behind `seq`. Nothing is changed. */
int tail_v1_each(const char *directory, uint64_t seq, store_batch_fn fn, void *arg, struct error *err);
