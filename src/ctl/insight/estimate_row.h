/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* estimate_row.h - a job as a line of the table that estimators learn from. */
#include <jansson.h>

#include "wire/job/submission.h"

#define ESTIMATE_HEADER                                                                                                \
    "program,image,user,vc,gpu_type,gpus,nodes,priority,limit_seconds,command,run_seconds,memory_mib,utilisation,"     \
    "utilisation_dev"

/* One line, its end included, the caller's (mem_free); NULL without memory, or for one that did not run. `used` as of
 * record_used(): what is not known of it counts as 0. */
char *estimate_row(const char *user, const struct submission *spec, double seconds, const json_t *used);
