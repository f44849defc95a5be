/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* drive.h - from requests to durable batches: the only way anything changes.
 *
 * A request is checked and put aside; at the end of the loop's turn everything put aside becomes one batch, is
 * committed, applied, and only then answered. Reports that nobody waits for may wait a moment for company. One batch is
 * on its way at a time. It is committed on the worker, or by
 * the loop itself as long as the disk answers within four milliseconds. Knows no sockets: the loop gives it a clock, a
 * worker and somebody to hand orders to.
 */
#include "ctl/ctl.h"
#include "store/store.h"

struct drive;

typedef void (*drive_done_fn)(void *arg, const struct entry_result *result);

/* What the loop provides. */
struct drive_host {
    usec_t (*now)(void *arg);
    /* Runs work() on the one worker thread, then done() on the loop. */
    int (*work)(void *arg, void (*work)(void *), void (*done)(void *), void *work_arg);
    /* Whether somebody waits for what agents report; NULL: as if somebody did. */
    bool (*awaited)(void *arg);
    /* Whether nothing is at work(), so that the store may be called from the loop; NULL: never. */
    bool (*alone)(void *arg);
    /* The same for computations that may take long; NULL: as work(). */
    int (*compute)(void *arg, void (*work)(void *), void (*done)(void *), void *work_arg);
    /* Orders are kept until it is settled (below): what agents report may be synced later than it is shown. */
    bool settles;
    void (*wake_at)(void *arg, usec_t at);                     /* call drive_turn() then; USEC_NEVER: not */
    bool (*order)(void *arg, const char *node, json_t *frame); /* false: to nobody */
    void (*event)(void *arg, const struct ctl_event *event);
    void (*decision)(void *arg, const char *line);
    void (*applied)(void *arg, usec_t cycle, usec_t decide); /* a batch: since it was taken up; its decisions alone */
    /* In virtual time, both may be NULL: the outbox of each step; a computation whose answer will be offered. */
    void (*stepped)(void *arg, const struct outbox *out);
    void (*solve)(void *arg, uint32_t vc, uint32_t ticket, uint32_t kind, const int64_t *words, uint32_t count);
    /* There is no room in the store: words; there is again: NULL. May be NULL. */
    void (*full)(void *arg, const struct error *err);
    void (*fatal)(void *arg, const struct error *err); /* the store failed: nothing can be promised any more */
    void *arg;
};

struct drive_config {
    struct ctl_config ctl;
    uint32_t pending_max;    /* entries put aside at one time; then -ENOSPC, "busy" */
    uint32_t snapshot_every; /* entries between snapshots */
};

/* Loads what the store has. */
int drive_new(const struct drive_config *config, const struct drive_host *host, struct store *store,
              struct drive **ret_drive, struct error *err);
void drive_free(struct drive *drive);

/* Takes the body over. Refused at once: negative, *ret filled, done is not called. */
int drive_offer(struct drive *drive, enum entry_kind kind, json_t *body, drive_done_fn done, void *arg,
                struct entry_result *ret);
/* The same of a submission that was read from the very words in the body; takes it over as well. */
int drive_offer_submit(struct drive *drive, json_t *body, struct submission *spec, drive_done_fn done, void *arg,
                       struct entry_result *ret);

/* To be called at the end of each turn of the loop, and when wake_at says so. */
void drive_turn(struct drive *drive);

/* Somebody waits for what agents report: what was put aside is written in this turn. */
void drive_hurry(struct drive *drive);

/* In virtual time: applies what was put aside at exactly this instant. */
int drive_turn_at(struct drive *drive, usec_t at);

/* What was reported is durable then. A host that says so (`settles`) asks before anything goes to an agent. Where the
 * disk is slow the last is false, and asked again at the end of the turn in which it has become true. */
bool drive_behind(const struct drive *drive);
void drive_settle(struct drive *drive);
bool drive_settled(struct drive *drive);

/* Agents. Frames are borrowed; that of a report is another one afterwards. hello is answered by welcome, keep and
 * orders when its batch is applied. */
int drive_agent_hello(struct drive *drive, const char *node, json_t *hello, struct error *err);
int drive_agent_frame(struct drive *drive, const char *node, json_t *frame, struct error *err);
void drive_agent_gone(struct drive *drive, const char *node);

struct ctl *drive_ctl(struct drive *drive);
bool drive_quiet(const struct drive *drive); /* nothing put aside, nothing on its way */

/* The last act: what is put aside, and a snapshot, written before it returns. Nothing is on its way. */
int drive_close(struct drive *drive, struct error *err);

/* Finished jobs of the store, on the worker; done on the loop with a JSON array. */
int drive_history(struct drive *drive, const struct store_query *query, void (*done)(void *arg, json_t *items),
                  void *arg);
int drive_history_get(struct drive *drive, int64_t id, void (*done)(void *arg, json_t *items), void *arg);
