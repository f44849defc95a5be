/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* snapshot_internal.h - the parts of a snapshot that have files of their own. */
#include "core/core_internal.h"
#include "core/snapshot/codec.h"

/* The job of that number, with its place in order and its timers. Lists and trees of jobs are built again later. */
void snap_job(struct codec *c, struct core *core, uint32_t index);
/* Parts of a gang on other types. */
void snap_sides(struct codec *c, uint8_t *count, struct gang_side *sides);
