/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* batcher_internal.h - the inside of the batcher, shared by the files batcher*.c alone. */
#include "ctl/log/batcher.h"
#include "ctl/log/job_record.h"

#define BATCHER_LOOK_EVERY USEC_SEC
enum { BATCH_FEW = 16, BATCHER_OWNERS = 1024 };

struct offer_slices;

struct offer {
    struct entry entry;
    batcher_done_fn done;
    void *arg;
    uint32_t weight;             /* jobs that it concerns */
    uint16_t owner;              /* who asks, by hash; 0: agents and the controller itself */
    struct offer_slices *slices; /* owned while it waits: of an array, element by element */
};

struct offer_list {
    struct offer *items;
    size_t count, capacity;
};

struct batcher {
    struct batcher_config config;
    struct batcher_host host;
    struct store *store;
    struct ctl *ctl;
    struct offer_list queue;        /* put aside */
    uint64_t weight;                /* jobs that all of it concerns */
    uint32_t owned[BATCHER_OWNERS]; /* how much of it is whose */
    uint32_t owner_next;
    struct entry entries[BATCH_FEW]; /* of a batch that is applied, and what becomes of them */
    struct entry_result results[BATCH_FEW];
    bool urgent;          /* they are to be written in this turn */
    usec_t patient_until; /* else then */
    bool committing, failed, changed;
    bool behind;    /* the last batch was lazy: it is written, but not synced */
    uint32_t quick; /* commits in a row that the disk took at once, up to QUICK_ENOUGH */
    uint64_t since_snapshot;
    usec_t started, looked;
    struct record_rows over; /* finished jobs that are not written yet */
    usec_t rows_since;       /* they wait since; 0 = none do */
    struct batch *stuck;     /* there was no room for it; tried again from `retry` on */
    usec_t retry;
    struct buf frame; /* that is being written for an agent */
    bool full;        /* of the store: nothing that could be refused is taken until a batch has found room */
};

/* Sends batcher->frame. False: to nobody. */
bool batcher_send(struct batcher *batcher, const char *node, enum agent_down kind, enum order_kind order);
/* Puts an entry aside; takes what it holds. */
int batcher_push(struct batcher *batcher, const struct entry *entry, batcher_done_fn done, void *arg);
/* A text of an object; "" where there is none. */
const char *batcher_text(const json_t *object, const char *key);
/* Reports that are durable now are acknowledged; a node that joined is welcomed, and told what it should be doing. */
void batcher_answer_agents(struct batcher *batcher, const struct offer *offers, size_t count, uint64_t seq);
/* The same for what an agent reports: it may wait a moment, where nobody waits for it. */
int batcher_push_report(struct batcher *batcher, const struct entry *report);
/* What an agent says of how far tasks are: rows. */
int batcher_progress(struct batcher *batcher, uint32_t node, const json_t *from);
/* The core asks to have something computed; a sink of the controller. */
void batcher_solve(void *arg, uint32_t vc, uint32_t ticket, uint32_t kind, const int64_t *words, uint32_t count);
/* Offers that nodes were not heard of, or were again; at most once in BATCHER_LOOK_EVERY. */
void batcher_look_at_nodes(struct batcher *batcher, usec_t now);

/* batcher_turns.c */
int offer_weigh(struct batcher *batcher, struct offer *offer); /* as it is put aside; -ENOMEM */
void offer_drop(struct offer *offer);
/* What goes into the next batch; `all`: everything. -ENOMEM: part of it may be in the list, which is the caller's. */
int batcher_take(struct batcher *batcher, bool all, struct offer_list *ret);
