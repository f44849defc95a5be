/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* record_tree.h - records of jobs (job_record.h) and times as jansson's trees. */
#include <jansson.h>

#include "ctl/log/job_record.h"

json_t *record_time(usec_t at); /* ISO 8601 in UTC, or null */
/* The whole of it; NULL: no memory. */
json_t *record_job(const struct ctl *ctl, const struct ctl_job *job);
