/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* mark.h - how far the log had come, in a file of its own.
 *
 * Told after each batch that was synced, without a sync: what it says was there at least. So a log that ends earlier
 * than its mark has lost something, whatever it looks like. Two places are written by turns, so that one is whole.
 */
#include "store/digest.h"

struct mark {
    uint64_t generation; /* commits of the database */
    uint64_t seq;
    struct digest chain;
};

struct mark_file;

enum mark_state { MARK_NONE, MARK_DAMAGED, MARK_READ };

/* Reads only. */
enum mark_state mark_read(const char *directory, struct mark *ret_mark);

/* To be written to; what it said stays until mark_set(). */
int mark_open(const char *directory, struct mark_file **ret_file, struct error *err);
void mark_close(struct mark_file *file);
/* Where it cannot be written it only says less. */
void mark_set(struct mark_file *file, const struct mark *mark);
void mark_sync(struct mark_file *file);
