/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* snapshot.h - the state to bytes and back.
 *
 * Field by field, in a fixed byte order, without padding or pointers: what is loaded goes on exactly as the one that
 * was saved would have, decision for decision. What can be derived (trees, free counts, sums) is not written but built
 * again. Saved between two steps, with nothing offered.
 */
#include "core/core.h"

typedef void (*snap_write_fn)(void *arg, const void *data, size_t size);

enum { SNAP_VERSION = 16 };

/* Hands the snapshot over piece by piece. */
void core_save(const struct core *core, snap_write_fn write, void *arg);

/* A core from a snapshot. Cluster, limits and policies must be those it was saved under. -EBADMSG with words when the
 * bytes are damaged or belong to another cluster; -ENOMEM. */
int core_load(const struct cluster_spec *spec, const struct core_config *config, const void *data, size_t size,
              struct core **ret_core, struct error *err);
