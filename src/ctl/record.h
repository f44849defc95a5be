/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* record.h - what is kept of a job when it is over, and the parts of it that are shown of others too. */
#include "ctl/book.h"
#include "ctl/ctl.h"
#include "store/store.h"

json_t *record_time(usec_t at); /* ISO 8601 in UTC, or null */
/* The whole of it; NULL: no memory. */
json_t *record_job(const struct ctl *ctl, const struct book_job *job);
/* Keeps it for the store: ctl_take_done(). Without memory it is in no history; the job is over all the same. */
void record_keep(struct ctl *ctl, const struct book_job *job);
void record_rows_free(struct store_job *rows, size_t count);
/* Of a gang on several types of GPU, "H100+A100": those it last had, or asks for. Nothing of all others. */
void record_types(const struct book *book, const struct book_job *job, struct buf *out);
/* What its GPUs did in its last attempt, and what was expected of it; null where nobody knows. */
json_t *record_used(const struct book_job *job);
json_t *record_predicted(const struct book_job *job);
