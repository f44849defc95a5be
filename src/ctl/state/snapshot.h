/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* snapshot.h - the form of a snapshot: records that are declared once, one after another.
 *
 *   the magic, the version (8 bytes)
 *   the book     all but jobs, and what the core needs to be made
 *   the lists    settings_record.h
 *   the jobs     a spec, then the jobs it made: each with what it wants, its attempts, and their tasks
 *   the core     core/snapshot
 *
 * Each part but the last has its size (8 bytes) before it. Book and jobs are items: a byte that tells the kind, the
 * length (4 bytes), the record by its list of fields (entry_field.h). Numbers have their least significant byte first.
 */
#include "ctl/state/registry.h"
#include "ctl/state/state.h"

struct saved_head {
    uint64_t seq, event, submitted;
    int64_t now, next_id;
    bool paused;
    struct number_list ended; /* by phase */
    char *settings;           /* a document */
};

struct saved_text {
    char *text;
};

struct saved_wants {
    struct jobspec spec;
    /* What is behind its lists: instant, value; licence, count; GPUs, types, of a node, CPUs, memory; exit codes. */
    struct number_list deadlines, licenses, sides, retry_on;
};

struct saved_attempt {
    struct ctl_attempt attempt;
    char *stop_kind;              /* by its name */
    struct number_list role_ends; /* of tasks of roles that have ended: number among all, exit, signal */
};

struct saved_task {
    struct ctl_task task;
    char *cause; /* by its name, or as its node has said it */
    struct number_list gpus;
};

/* X(code, struct, number in the durable form) */
#define SAVED_KINDS(X)                                                                                                 \
    X(HEAD, struct saved_head, 1)                                                                                      \
    X(USER, struct saved_text, 2)                                                                                      \
    X(NODE_NAME, struct saved_text, 3)                                                                                 \
    X(NODE, struct ctl_node, 4)                                                                                        \
    X(INVENTORY, struct saved_text, 5) /* of the node before it */                                                     \
    X(GPU, struct ctl_gpu, 6)                                                                                          \
    X(TOKEN, struct ctl_token, 7)                                                                                      \
    X(OUTCOME, struct ctl_outcome, 8)                                                                                  \
    X(KEY, struct ctl_key, 9)                                                                                          \
    X(SPEC, struct saved_text, 10)                                                                                     \
    X(JOB, struct ctl_job, 11)                                                                                         \
    X(WANTS, struct saved_wants, 12) /* of the job before it, as its attempts are */                                   \
    X(ATTEMPT, struct saved_attempt, 13)                                                                               \
    X(TASK, struct saved_task, 14)

enum saved_kind {
#define X(code, type, number) SAVED_##code,
    SAVED_KINDS(X)
#undef X
        SAVED_COUNT
};

enum { SAVED_LENGTH_BYTES = 4 };

const struct field_list *saved_fields(enum saved_kind kind);
int saved_find(uint8_t number);          /* -ENOENT */
size_t saved_size(enum saved_kind kind); /* of its struct */

/* Writes an item; the record stays the caller's, with what it points to. */
void saved_put(struct buf *out, enum saved_kind kind, const void *record);
void saved_put_wants(struct buf *out, const struct jobspec *spec);
void saved_put_text(struct buf *out, enum saved_kind kind, const char *text);
/* The magic and the version; then part by part. */
void saved_begin(struct buf *out);
void saved_part(struct buf *out, const char *data, size_t size);
