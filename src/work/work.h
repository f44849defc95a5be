/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* work.h - carries out what a core asks to have computed (model/solve.h): one solver a kind.
 *
 * Not pure: a solver may allocate, call libraries that do, and use threads where their number does not show. But it is
 * a function of its request: no clock, no chance, so that a simulation repeats itself and a daemon may compute an
 * answer anew that was lost. A driver may call it on any thread, one call at a time.
 */
#include <stdint.h>

#include "base/error.h"
#include "model/solve.h"

struct work_answer {
    int64_t *words; /* owned by the caller: room for `capacity` */
    uint32_t count, capacity;
};

/* Fills the answer. -EINVAL (no such kind, or a request that makes no sense), -ENOSPC (no room for the answer),
 * -ENOMEM; then the answer has no words, which is what the core is to be told. */
int work_run(enum solve_kind kind, const int64_t *words, uint32_t count, struct work_answer *answer, struct error *err);
