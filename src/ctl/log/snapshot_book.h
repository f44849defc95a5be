/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* snapshot_book.h - the registry of snapshots of former versions, one document in JSON, as items (snapshot.h). */
#include <jansson.h>

#include "ctl/state/settings/settings_record.h"
#include "ctl/state/snapshot.h"

/* All but the jobs; then those. -EPROTONOSUPPORT, -EBADMSG, -ENOMEM. */
int snapshot_book(const json_t *registry, struct buf *out, struct error *err);
int snapshot_jobs(const json_t *registry, struct buf *out, struct error *err);
/* Types of GPUs, which were none of the lists. */
int snapshot_skus(const json_t *registry, struct record_list *skus);
