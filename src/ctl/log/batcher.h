/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* batcher.h - from requests to durable batches: the only way anything changes.
 *
 * A request is checked and put aside; at the end of the loop's turn all of it, or what one turn has time for
 * (batcher_turns.c), becomes one batch, is committed, applied, and only then answered. Reports that nobody waits for
 * may wait a moment for company. One batch is on its way at a time. It is committed on the worker, or by the loop
 * itself as long as the disk answers within four milliseconds. Knows no sockets: the loop gives it a clock, a worker
 * and somebody to hand orders to.
 */
#include "ctl/state/state.h"
#include "store/store.h"

struct batcher;

typedef void (*batcher_done_fn)(void *arg, const struct entry_result *result);

/* What the loop provides. */
struct batcher_host {
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
    void (*wake_at)(void *arg, usec_t at); /* call batcher_turn() then; USEC_NEVER: not */
    bool (*order)(void *arg, const char *node, const struct agent_frame *frame); /* false: to nobody */
    /* What a secret says that the state keeps sealed, the caller's (mem_free); NULL: it cannot be opened. May be NULL:
     * they are kept as they are. */
    char *(*secret)(void *arg, const char *user, const char *name, const char *sealed);
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

struct batcher_config {
    struct ctl_config ctl;
    uint32_t pending_max;    /* entries put aside at one time; then -ENOSPC, "busy" */
    uint32_t snapshot_every; /* entries between snapshots */
};

/* Loads what the store has. */
int batcher_new(const struct batcher_config *config, const struct batcher_host *host, struct store *store,
                struct batcher **ret_drive, struct error *err);
void batcher_free(struct batcher *batcher);

/* Takes what the entry holds. Refused at once: negative, *ret filled, done is not called. */
int batcher_offer(struct batcher *batcher, const struct entry *entry, batcher_done_fn done, void *arg,
                  struct entry_result *ret);
/* The same of a body in JSON, read by the declaration of the kind (entry_json.h); takes the body. */
int batcher_offer_json(struct batcher *batcher, enum entry_kind kind, json_t *body, batcher_done_fn done, void *arg,
                       struct entry_result *ret);

/* To be called at the end of each turn of the loop, and when wake_at says so. */
void batcher_turn(struct batcher *batcher);

/* Somebody waits for what agents report: what was put aside is written in this turn. */
void batcher_hurry(struct batcher *batcher);

/* In virtual time: applies what was put aside at exactly this instant. */
int batcher_turn_at(struct batcher *batcher, usec_t at);

/* What was reported is durable then. A host that says so (`settles`) asks before anything goes to an agent. Where the
 * disk is slow the last is false, and asked again at the end of the turn in which it has become true. */
bool batcher_behind(const struct batcher *batcher);
void batcher_settle(struct batcher *batcher);
bool batcher_settled(struct batcher *batcher);

/* Who says hello, and where from; whether an agent of its name is connected. */
struct agent_caller {
    const char *address;
    bool connected;
};

/* Whether an agent may have the name that it gives; to be asked before hello. -EADDRINUSE: another one has it. */
int batcher_agent_admit(struct batcher *batcher, const char *node, const json_t *hello,
                        const struct agent_caller *caller, struct error *err);
/* Agents. Frames are borrowed. hello is answered by welcome, keep and
 * orders when its batch is applied. */
int batcher_agent_hello(struct batcher *batcher, const char *node, json_t *hello, struct error *err);
int batcher_agent_frame(struct batcher *batcher, const char *node, json_t *frame, struct error *err);
void batcher_agent_gone(struct batcher *batcher, const char *node);

struct ctl *batcher_ctl(struct batcher *batcher);
size_t batcher_pending_of(const struct batcher *batcher, const char *user); /* that wait to be written */
bool batcher_quiet(const struct batcher *batcher);                          /* nothing put aside, nothing on its way */

/* The last act: what is put aside, and a snapshot, written before it returns. Nothing is on its way. */
int batcher_close(struct batcher *batcher, struct error *err);

/* Finished jobs of the store, on the worker; done on the loop with a JSON array. */
int batcher_history(struct batcher *batcher, const struct store_query *query, void (*done)(void *arg, json_t *items),
                    void *arg);
int batcher_history_get(struct batcher *batcher, int64_t id, void (*done)(void *arg, json_t *items), void *arg);
