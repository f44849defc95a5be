/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* entry_row.h - the rows of the table of entries (entry.h), and what they name. For the state machine alone. */
#include "ctl/state/state.h"

/* A kind of entry, by entry.h. */
struct entry_row {
    const char *name;
    int number; /* in the durable form */
    struct field_list fields;
    int (*check)(const struct ctl *ctl, struct entry *entry, struct entry_result *ret);
    void (*apply)(struct ctl *ctl, const struct entry *entry, struct entry_result *ret);
};
const struct entry_row *entry_row(enum entry_kind kind);

/* Rows of kinds: a check may be asked of an entry that is only being thought of; apply is what the log says. */
#define CHECK(name) int name##_check(const struct ctl *ctl, struct entry *entry, struct entry_result *ret)
#define APPLY(name) void name##_apply(struct ctl *ctl, const struct entry *entry, struct entry_result *ret)
CHECK(submit);
CHECK(act);
CHECK(join);
CHECK(drain);
CHECK(forget);
CHECK(config);
CHECK(vc);
CHECK(secret);
CHECK(hook);
CHECK(label);
CHECK(resv);
CHECK(token);
CHECK(node);
APPLY(submit);
APPLY(act);
APPLY(join);
APPLY(lease);
APPLY(drain);
APPLY(forget);
APPLY(config);
APPLY(vc);
APPLY(secret);
APPLY(hook);
APPLY(label);
APPLY(resv);
APPLY(token);
APPLY(silent);
APPLY(lost);
APPLY(report);
APPLY(untoken);
APPLY(solved);
APPLY(pause);
APPLY(measures);
APPLY(limits);
#undef APPLY
#undef CHECK
