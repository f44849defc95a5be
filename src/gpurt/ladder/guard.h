/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* guard.h - the guardian of a released process.
 *
 * A process of its own, because the driver's checkpoint must never be interrupted and because somebody has to bring the
 * job back when the node side is gone. Before each step it journals what it is about to do: who comes after it knows
 * what may have been under way, and asks the driver how far that got.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

#define GUARD_CLAIM_S 60
#define GUARD_GPUS_MAX 544 /* sixteen UUIDs of 32 digits, with commas */

/* Those in -ING are said before the call of the driver's, CHECKPOINTED after it.
 * GUARD_FAILED: the driver has given the process up, and nothing brings it back. That stays in the journal when the
 * guardian has left, for as long as the process lives. */
enum guard_state {
    GUARD_NEW,
    GUARD_LOCKING,
    GUARD_CHECKPOINTING,
    GUARD_CHECKPOINTED,
    GUARD_RESTORING,
    GUARD_UNLOCKING,
    GUARD_FAILED,
    GUARD_STATE_COUNT
};

#define GUARD_GIVEN_UP "the driver has given the process up: end it, and start it from its last checkpoint"

struct guard_journal {
    pid_t pid;
    uint64_t start_ticks;
    enum guard_state state;
    uint64_t bytes;            /* of GPU memory, as the node side knew it, */
    char gpus[GUARD_GPUS_MAX]; /* and on which GPUs; empty: not known */
};

/* RUN_DIR/guard-PID.sock; cut off when it does not fit. */
void guard_path(const char *run_dir, pid_t pid, char *path, size_t size);

/* Writes RUN_DIR/guard-PID.journal whole or not at all. */
int guard_journal_write(const char *run_dir, const struct guard_journal *journal, struct error *err);
int guard_journal_read(const char *run_dir, pid_t pid, struct guard_journal *ret, struct error *err);
void guard_journal_remove(const char *run_dir, pid_t pid);

/* Checkpoints the process, stays, and restores it when told to or when nobody has claimed it for `claim_s`. Where the
 * journal of an earlier guardian is found, killed on its way, this one goes on from there. */
int guard_run(const char *run_dir, pid_t pid, uint64_t start_ticks, unsigned int claim_s, struct error *err);
