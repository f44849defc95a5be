/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* guest.h - for this folder only: opportunistic jobs on GPUs that others own. */
#include "core/core_internal.h"

/* It holds its GPUs as a guest. */
bool guest_is(const struct core *core, const struct job *job);

/* The use of its GPUs was measured. */
void guest_measured(struct core *core, uint32_t job, const struct report *report);
