/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* journal.h - the reports of an agent, kept until the controller has taken them.
 *
 * A report gets the next number and is written before it may be sent; it goes when it is acknowledged. The file is a
 * line with the incarnation and then a line a report; a line that was cut by a crash is the last one and is dropped,
 * which is right, as it was never sent. Zeros behind the last line are room. The numbers of one incarnation never
 * repeat.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { JOURNAL_ID_MAX = 40, JOURNAL_REPORTS_MAX = 1 << 20 };

struct journal_entry {
    uint64_t seq;
    json_t *report;
};

struct journal {
    int dir, fd;
    bool durable;
    char id[JOURNAL_ID_MAX]; /* the incarnation */
    uint64_t last;           /* number of the newest report */
    uint64_t written;        /* newest that may be sent */
    uint64_t acked;
    struct journal_entry *entries; /* owned; ascending, not acknowledged */
    size_t count, capacity;
    size_t file_size, file_end; /* where the next line goes; zeros up to here */
};

/* Reads what there is, or begins a new incarnation. `dir` is borrowed. */
int journal_open(struct journal *journal, int dir, bool durable, struct error *err);
void journal_close(struct journal *journal);

/* Takes the report, sets its "seq". -ENOSPC: too many wait. */
int journal_append(struct journal *journal, json_t *report, struct error *err);
/* Everything appended is in the file (and on the disk, where durable). */
int journal_flush(struct journal *journal, struct error *err);
/* Reports up to seq are taken. */
void journal_ack(struct journal *journal, uint64_t seq);
/* The first with a higher number that may be sent; NULL. Borrowed. */
json_t *journal_after(const struct journal *journal, uint64_t seq);
