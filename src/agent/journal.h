/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* journal.h - the reports of an agent, kept until the controller has taken them.
 *
 * A report gets the next number and is written before it may be sent; it goes when it is acknowledged. The file is a
 * line with the incarnation and then a line a report, each with a sum before it. A line that was cut by a crash is the
 * last one and is dropped; one that is damaged is left out, and what follows is read. Zeros behind the last line are
 * room.
 *
 * On the disk, where it is to be durable, it must be when the controller cannot be asked to keep it: at once while
 * there is none, else when it has not answered for a moment. So a machine that loses its power may have forgotten
 * reports that were sent, and so has a file that was damaged. Whoever opens the journal leaves their numbers out: those
 * of one incarnation never repeat, for the controller takes each once. What was lost of tasks that are still known is
 * reported anew from their folders (task_recover.c).
 */
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { JOURNAL_ID_MAX = 40, JOURNAL_BOOT_MAX = 40, JOURNAL_REPORTS_MAX = 1 << 20, JOURNAL_SKIP = 1 << 16 };

struct journal_entry {
    uint64_t seq;
    json_t *report;
};

struct journal {
    int dir, fd;
    bool durable;
    char id[JOURNAL_ID_MAX]; /* the incarnation */
    char boot[JOURNAL_BOOT_MAX];
    uint64_t last;    /* number of the newest report */
    uint64_t written; /* newest that may be sent */
    uint64_t synced;  /* newest that is on the disk; never JOURNAL_SKIP behind */
    uint64_t given;   /* newest when the file was last made anew */
    uint64_t acked;
    struct journal_entry *entries; /* owned; ascending, not acknowledged */
    size_t count, capacity;
    size_t damaged;             /* lines that could not be read when it was opened */
    size_t file_size, file_end; /* where the next line goes; zeros up to here */
};

/* Reads what there is, or begins a new incarnation. `dir` is borrowed. `boot`: which of this machine's; NULL where it
 * need not be durable. */
int journal_open(struct journal *journal, int dir, const char *boot, struct error *err);
void journal_close(struct journal *journal);

/* Takes the report, sets its "seq". -ENOSPC: too many wait. */
int journal_append(struct journal *journal, json_t *report, struct error *err);
/* The newest report, where it is not in the file yet; NULL. Borrowed. */
const json_t *journal_unwritten(const struct journal *journal);
/* Forgets that one; the next has its number. */
void journal_take_back(struct journal *journal);
/* `report` says that a task exited. Where the newest report says of the same task that it runs, is not in the file yet
 * and has nothing more to say, that one is taken back, and `report` gets "ran" and its "started". */
void journal_join(struct journal *journal, json_t *report);
/* Everything appended is in the file; with `sync` on the disk as well, where durable. */
int journal_flush(struct journal *journal, bool sync, struct error *err);
/* Something that is not acknowledged would not outlast the machine. */
bool journal_at_risk(const struct journal *journal);
/* Reports up to seq are taken. */
void journal_ack(struct journal *journal, uint64_t seq);
/* The first with a higher number that may be sent; NULL. Borrowed. */
json_t *journal_after(const struct journal *journal, uint64_t seq);
