/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cluster_cells.h - the cells that a cluster description implies, and what its guarantees are in them.
 *
 * Nodes of one GPU type and one inner shape are a chain: GPU, group, socket, node, rack, domain; a level that is not
 * there, or that differs in size from place to place, is left out. "16 gpus in 4s" brings a level of four GPUs when
 * there is none. A quota without words is GPUs in the largest cells that make it up.
 */
#include "base/buf.h"
#include "model/cluster.h"

/* Fills a spec that is all zero; on failure it is empty again, and *ret_guarantee (may be NULL) is the number of the
 * guarantee that cannot be had, or CELL_NONE. `words` (may be NULL) gets one line a guarantee that tells how it was
 * understood: "nlp: A100: 16 gpus in 4s = 4 sockets". */
int cluster_cells(const struct cluster_spec *cluster, struct cell_spec *ret_spec, struct buf *words,
                  uint32_t *ret_guarantee, struct error *err) __attribute__((warn_unused_result));
