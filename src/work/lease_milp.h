/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* lease_milp.h - the lease plan with the most value, by CBC. Request and answer: solve/lease_words.h.
 *
 * Everything is binary: continuous lease shares would be quicker and lose a fifth where capacity is a few times the
 * largest job.
 */
#include "solve/lease_words.h"
#include "work/work.h"

/* Solves a request. -EINVAL (it makes no sense, or is too large), -ENOSPC, -ENOMEM. */
int lease_milp(const int64_t *words, uint32_t count, struct work_answer *answer, struct error *err);
