/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* entry_json.h - entries from JSON: bodies of requests, frames of agents, logs that were written as JSON.
 *
 * A key is a field by its declaration; other keys are passed over. Where a field says what is expected, another type is
 * refused in these words; else the value counts as absent.
 */
#include <jansson.h>

#include "ctl/state/entry/entry.h"

/* The entry is the caller's also after a failure: entry_done(). */
int entry_from_json(enum entry_kind kind, const json_t *body, struct entry *ret, struct error *err);
/* The same of any record; -EINVAL: in words. */
int record_from_json(const struct field_list *list, const json_t *object, void *record, struct error *err);
/* A batch as older controllers wrote it: {"at":..., "e":[["submit",{...}], ...]}. */
int batch_from_json(const char *data, size_t size, usec_t *ret_at, struct entry **ret_entries, size_t *ret_count,
                    struct error *err);
/* A snapshot as former versions wrote it, its registry in JSON, in the present form. */
int snapshot_from_json(const char *data, size_t size, struct buf *out, struct error *err);
/* What an estimator says of a submission: {"run_seconds", ...}. */
void entry_predict(struct entry_submit *submit, const json_t *predicted);
/* A document for an entry to own; NULL: no memory, or no tree. */
char *entry_doc(const json_t *tree);
