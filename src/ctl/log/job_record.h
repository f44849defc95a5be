/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* job_record.h - what is kept of a job when it is over, and the parts of it that are shown of others too. */
#include "ctl/state/registry.h"
#include "ctl/state/state.h"
#include "store/store.h"
#include "wire/text/json_write.h"

/* The whole of it, as JSON. */
void record_write(const struct ctl *ctl, const struct ctl_job *job, struct buf *out);
/* Of jobs that are over, for the store. */
struct record_rows {
    struct store_job *rows;
    size_t count, capacity;
};
/* Without memory it is in no history; the job is over all the same. */
void record_keep(struct record_rows *rows, const struct ctl *ctl, const struct ctl_job *job);
void record_rows_done(struct record_rows *rows);
/* Of a gang on several types of GPU, "H100+A100": those it last had, or asks for. Nothing of all others. */
void record_types(const struct registry *registry, const struct ctl_job *job, struct buf *out);

/* What its GPUs did in its last attempt, in percent. */
struct record_used {
    double utilisation, utilisation_dev;
    uint32_t memory_mib;
};
bool record_used(const struct ctl_job *job, struct record_used *ret); /* false: nobody knows */
/* The same, and what was expected of it; null where nobody knows. Reals have so many digits; 0: all. */
void record_write_used(struct json_write *json, const char *key, const struct ctl_job *job, int digits);
void record_write_predicted(struct json_write *json, const char *key, const struct ctl_job *job, int digits);
