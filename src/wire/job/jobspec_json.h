/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* jobspec_json.h - a jobspec as JSON, field by field: for snapshots, and for emulated jobs that come from a trace. */
#include <jansson.h>

#include "model/jobspec.h"

json_t *wants_json(const struct jobspec *spec);             /* zeros are left out */
void wants_read(const json_t *json, struct jobspec *spec);  /* what is not told is 0 */
void wants_from_doc(const char *doc, struct jobspec *spec); /* the same of its text */
