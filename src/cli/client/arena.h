/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* arena.h - JSON for a command that reads one answer, prints it and ends: memory that is only ever taken.
 *
 * Ten thousand jobs are half a million small blocks; to free them one by one takes as long as to read them. From
 * arena_use() on all JSON of the process lives until its end; json_read() must not be called any more.
 */
#include <jansson.h>

#include "base/error.h"

void arena_use(void);
/* Of the controller: keys are not looked at twice. */
int arena_read(const char *data, size_t size, json_t **ret_json, struct error *err);
