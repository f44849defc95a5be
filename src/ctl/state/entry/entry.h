/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* entry.h - an entry of the log: a request to change the state, as a struct.
 *
 * Whoever makes one fills the member of its kind; what it points to is owned by the entry. entry_check() refuses what
 * the declaration (entry_kinds.h) does not allow; ctl_check() asks the state. A batch of entries is written and read by
 * batch_encode() and batch_decode(): compact, versioned, the same bytes for the same entries.
 */
#include "base/units.h"
#include "ctl/state/entry/entry_kinds.h"

/* X(code, name and member, fields, number in the durable form, check, apply): one row a kind. check decides whether
 * an entry may be written, and again when it is applied (but SUBMIT, whose apply knows more); NULL: always. */
#define ENTRIES(X)                                                                                                     \
    X(SUBMIT, submit, SUBMIT_FIELDS, 1, submit_check, submit_apply)                                                    \
    X(CANCEL, cancel, CANCEL_FIELDS, 2, act_check, act_apply)                                                          \
    X(HOLD, hold, HOLD_FIELDS, 3, act_check, act_apply)                                                                \
    X(RELEASE, release, RELEASE_FIELDS, 4, act_check, act_apply)                                                       \
    X(REQUEUE, requeue, REQUEUE_FIELDS, 5, act_check, act_apply)                                                       \
    X(SUSPEND, suspend, SUSPEND_FIELDS, 6, act_check, act_apply)                                                       \
    X(RESUME, resume, RESUME_FIELDS, 7, act_check, act_apply)                                                          \
    X(SIGNAL, signal, SIGNAL_FIELDS, 8, act_check, act_apply)                                                          \
    X(SET, set, SET_FIELDS, 9, act_check, act_apply)                                                                   \
    X(JOIN, join, JOIN_FIELDS, 10, join_check, join_apply)                                                             \
    X(SILENT, silent, SILENT_FIELDS, 11, node_check, silent_apply)                                                     \
    X(LOST, lost, LOST_FIELDS, 12, node_check, lost_apply)                                                             \
    X(REPORT, report, REPORT_FIELDS, 13, node_check, report_apply)                                                     \
    X(DRAIN, drain, DRAIN_FIELDS, 14, drain_check, drain_apply)                                                        \
    X(UNDRAIN, undrain, UNDRAIN_FIELDS, 15, drain_check, drain_apply)                                                  \
    X(FORGET, forget, FORGET_FIELDS, 16, forget_check, forget_apply)                                                   \
    X(CONFIG, config, CONFIG_FIELDS, 17, config_check, config_apply)                                                   \
    X(VC, vc, VC_FIELDS, 18, vc_check, vc_apply)                                                                       \
    X(LIMITS, limits, LIMITS_FIELDS, 19, NULL, limits_apply)                                                           \
    X(SECRET, secret, SECRET_FIELDS, 20, secret_check, secret_apply)                                                   \
    X(HOOK, hook, HOOK_FIELDS, 21, hook_check, hook_apply)                                                             \
    X(LABEL, label, LABEL_FIELDS, 22, label_check, label_apply)                                                        \
    X(RESV, resv, RESV_FIELDS, 23, resv_check, resv_apply)                                                             \
    X(TOKEN, token, TOKEN_FIELDS, 24, token_check, token_apply)                                                        \
    X(UNTOKEN, untoken, UNTOKEN_FIELDS, 25, NULL, untoken_apply)                                                       \
    X(SOLVED, solved, SOLVED_FIELDS, 26, NULL, solved_apply)                                                           \
    X(PAUSE, pause, PAUSE_FIELDS, 27, NULL, pause_apply)                                                               \
    X(LEASE, lease, LEASE_FIELDS, 28, node_check, lease_apply)                                                         \
    X(MEASURES, measures, MEASURES_FIELDS, 29, NULL, measures_apply)

enum entry_kind {
#define X(code, name, fields, number, check, apply) ENTRY_##code,
    ENTRIES(X)
#undef X
        ENTRY_COUNT
};

#define MEMBER(record, type, member, name, tag, since, least, most, expects) FIELD_C_##type member;
#define X(code, name, fields, number, check, apply)                                                                    \
    struct entry_##name {                                                                                              \
        fields(MEMBER, )                                                                                               \
    };
ENTRIES(X)
#undef X
#undef MEMBER

struct ctl_spec;
void ctl_spec_drop(struct ctl_spec *spec); /* registry.c */

struct entry {
    enum entry_kind kind;
    struct ctl_spec *spec; /* SUBMIT, owned: the parsed spec, where a check has read it; else NULL */
    union {
#define X(code, name, fields, number, check, apply) struct entry_##name name;
        ENTRIES(X)
#undef X
    };
};

const char *entry_name(enum entry_kind kind);
int entry_find(const char *name);            /* -ENOENT */
uint32_t entry_number(enum entry_kind kind); /* in the durable form */
int entry_of_number(uint64_t number);        /* -ENOENT */
const struct field_list *entry_fields(enum entry_kind kind);

/* The record of its kind. */
void *entry_record(struct entry *entry);
const void *entry_record_of(const struct entry *entry);

/* A copy for an entry to own; NULL stays NULL. */
char *entry_text(const char *text);

/* Nothing given. */
void entry_init(struct entry *ret, enum entry_kind kind);
/* One of the kinds that are about a job, whose records all begin alike. */
struct entry entry_of_job(enum entry_kind kind, int64_t job, const char *by);

int entry_check(const struct entry *entry, struct error *err);
/* Frees what the entry holds. */
void entry_done(struct entry *entry);
/* ["kind",{...}], for people. Secrets are not shown. */
void entry_print(const struct entry *entry, struct buf *out);
size_t entry_size(const struct entry *entry);

/* One batch. */
void batch_encode_begin(struct buf *out, usec_t at, size_t count);
void batch_encode_entry(struct buf *out, const struct entry *entry);
/* Whether the bytes are a batch in this form; the older form is JSON text. */
bool batch_is(const char *data, size_t size);
/* The entries are the caller's: entries_free(). */
int batch_decode(const char *data, size_t size, usec_t *ret_at, struct entry **ret_entries, size_t *ret_count,
                 struct error *err);
void entries_free(struct entry *entries, size_t count);
