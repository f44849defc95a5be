/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* drive_part.h - the inside of the drive, shared by the files drive*.c alone. */
#include "ctl/drive.h"

#define DRIVE_LOOK_EVERY USEC_SEC
enum { LANDING_FEW = 16 };

struct offer {
    struct entry entry;
    drive_done_fn done;
    void *arg;
};

struct drive {
    struct drive_config config;
    struct drive_host host;
    struct store *store;
    struct ctl *ctl;
    struct offer *offers; /* put aside */
    size_t offer_count, offer_capacity;
    struct entry entries[LANDING_FEW]; /* of a batch that is applied, and what becomes of them */
    struct entry_result results[LANDING_FEW];
    bool urgent;          /* they are to be written in this turn */
    usec_t patient_until; /* else then */
    bool flying, failed, changed;
    bool behind;    /* the last batch was lazy: it is written, but not synced */
    uint32_t quick; /* commits in a row that the disk took at once, up to QUICK_ENOUGH */
    uint64_t since_snapshot;
    usec_t started, looked;
    usec_t rows_since;    /* finished jobs wait to be written since; 0 = none do */
    struct flight *stuck; /* there was no room for it; tried again from `retry` on */
    usec_t retry;
    bool full; /* of the store: nothing that could be refused is taken until a batch has found room */
};

/* Puts an entry aside; takes the body. */
int drive_push(struct drive *drive, enum entry_kind kind, json_t *body, drive_done_fn done, void *arg);
/* A text of an object; "" where there is none. */
const char *drive_text(const json_t *object, const char *key);
/* Reports that are durable now are acknowledged; a node that joined is welcomed, and told what it should be doing. */
void drive_answer_agents(struct drive *drive, const struct offer *offers, size_t count, uint64_t seq);
/* The same for what an agent reports: it may wait a moment, where nobody waits for it. */
int drive_push_report(struct drive *drive, json_t *body);
/* The core asks to have something computed; a sink of the controller. */
void drive_solve(void *arg, uint32_t vc, uint32_t ticket, uint32_t kind, const int64_t *words, uint32_t count);
/* Offers that nodes were not heard of, or were again; at most once in DRIVE_LOOK_EVERY. */
void drive_look_at_nodes(struct drive *drive, usec_t now);
