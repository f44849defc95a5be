/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* store.h - where the controller keeps what it has promised.
 *
 * A log of batches, one snapshot that replaces the batches up to it, and finished jobs by id. All calls block; the
 * controller makes them one at a time, most on a worker thread. An implementation is a table of functions (store_mem.c,
 * store_sqlite.c); what it returned 0 for survives the loss of the process, and of power where it keeps a file, unless
 * it was to be lazy.
 *
 * All that is kept has a sum, and the batches a chain of digests. A store that is opened is whole: all that was ever
 * acknowledged is there. Else it is not opened, the words say what is missing, and nothing was changed.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/units.h"

struct store;

#define STORE_BATCH_MAX ((size_t)64 << 20)

/* One finished job, for listings of the past. `json` is the whole record. */
struct store_job {
    int64_t id;
    usec_t submit, end;
    const char *user, *vc, *state, *name;
    int64_t gpu_seconds;
    const char *json;
};

/* What a change is made of: all of it becomes durable, or nothing. */
struct store_write {
    uint64_t seq;      /* of the batch; follows the last one */
    const char *batch; /* NULL: none */
    size_t batch_size;
    const struct store_job *jobs; /* finished since the last write; an id that is there already is replaced */
    size_t job_count;
    const char *snapshot; /* NULL: none. State after batch `snapshot_seq`; batches up to it are dropped */
    size_t snapshot_size;
    uint64_t snapshot_seq;
    bool lazy; /* it survives this process, but the machine's loss of power only when store_sync() has returned */
};

struct store_query {
    usec_t since, until;          /* by end; 0 = open */
    const char *user, *vc, *name; /* NULL = any */
    const char *state;            /* NULL = any; else one, or several with commas between */
    const char *find;             /* some part of the name, large or small letters; NULL = any */
    int64_t before_id;            /* 0 = from the newest; else only smaller ids: how the next page is asked for */
    uint32_t limit;
};

typedef int (*store_batch_fn)(void *arg, uint64_t seq, const char *data, size_t size, struct error *err);
typedef int (*store_job_fn)(void *arg, const struct store_job *job, struct error *err);

/* "mem:" or a directory, made if it is not there; a second process is kept out (-EBUSY). -EBADMSG: something is damaged
 * or missing. -EPROTONOSUPPORT: another version wrote it; the one before this is read, and made one of this. */
int store_open(const char *where, struct store **ret_store, struct error *err);
void store_close(struct store *store);

int store_commit(struct store *store, const struct store_write *write, struct error *err);

/* Makes lazy commits durable, as the next one that is not lazy does too. May be called while another call is at work.
 */
int store_sync(struct store *store, struct error *err);

/* Whether the store wants to put its files in order, and time for it between two commits. */
bool store_due(const struct store *store);
void store_tidy(struct store *store);

/* The snapshot, if there is one, through `snapshot`; then the batches after it, ascending, through `batch`. */
int store_load(struct store *store, store_batch_fn snapshot, store_batch_fn batch, void *arg, struct error *err);

/* Finished jobs, newest first. */
int store_history(struct store *store, const struct store_query *query, store_job_fn each, void *arg,
                  struct error *err);
int store_history_get(struct store *store, int64_t id, store_job_fn each, void *arg, struct error *err);

/* What is damaged though nothing is lost, in words; NULL. */
const char *store_worn(struct store *store);

/* Looks whether a part of what is on the disk is still as it was written, the next one with each call. 1: there is more
 * of this round; 0: that was the last; -EBADMSG: something is not, in words. */
int store_scrub(struct store *store, struct error *err);

/* Looks a directory through while nobody uses it. `repair`: makes of it what can be opened, keeps the damaged files in
 * a folder of their own, and takes what it cannot read from `backup` (may be NULL). What it finds goes to say(), a line
 * at a time; batches that were lost though they can be read, to lost(). 0: all is well (now); -EBADMSG: it is not. */
struct store_fsck {
    bool repair;
    const char *backup;
    void (*say)(void *arg, const char *line);
    store_batch_fn lost;
    void *arg;
};
int store_fsck(const char *directory, const struct store_fsck *how, struct error *err);

/* A consistent copy in one file, while the store is in use, read again before it has its name; and a fresh store from
 * it. */
int store_backup(struct store *store, const char *to, struct error *err);
int store_restore(const char *from, const char *where, struct error *err);
