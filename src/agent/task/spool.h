/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* spool.h - the output of finished tasks has an end: by age, and by how much of it there is. */
#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

#define SPOOL_AGE_MAX (14 * USEC_DAY)
#define SPOOL_BYTES_MAX ((uint64_t)10 << 30)

/* Removes files of the directory, the oldest first, until none is older than `age` and all together are at most
 * `bytes`. Those `busy` says yes to stay. Returns how many went. */
int spool_trim(int dir, usec_t age, uint64_t bytes, bool (*busy)(void *arg, const char *name), void *arg);
/* The newest job of which output was removed: what is missing of newer ones was never written. */
int64_t spool_trimmed(int dir);
