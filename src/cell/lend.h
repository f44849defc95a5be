/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* lend.h - the allocator for a scheduler that keeps gangs, queues and preemption itself (src/core).
 *
 * It picks devices of its virtual cluster, is told which physical ones would stand for them, makes those leave that use
 * them opportunistically, and takes them. Not to be mixed with cells_decide() on one allocator. Virtual devices are
 * cells of level 1 beyond cells_virtual_first(), physical ones those below.
 */
#include "cell/cells.h"

/* Physical devices for idle virtual ones, all of one virtual cluster; a bound one keeps its own. Those in opportunistic
 * use are avoided where that is possible. Changes nothing. -EBUSY: broken hardware is in the way, or nodes that are not
 * among `nodes` (a bit each; NULL: all are). A bound device's node is the caller's to look at. */
int cells_map(struct cells *s, const uint32_t *virt, uint32_t count, const uint64_t *nodes, uint32_t *ret_phys);

/* Takes physical devices that nobody has as those virtual ones, or, without `virt`, opportunistically. -EBUSY, and
 * nothing changed, if one is in use or cannot stand for its virtual one now. */
int cells_lend(struct cells *s, const uint32_t *virt, const uint32_t *phys, uint32_t count);

/* Gives devices back. */
void cells_return(struct cells *s, const uint32_t *phys, uint32_t count);

/* One device breaks or is repaired. It is the caller's to take it from whoever has it first. */
void cells_leaf_set(struct cells *s, uint32_t leaf, bool healthy);

/* After changes, when all of the moment are made: brings what virtual clusters see of broken hardware in order. What
 * was given back can be taken again as it was until then. */
void cells_settle(struct cells *s);

/* The next virtual device whose health may have changed; CELL_NONE: no more. */
uint32_t cells_noted(struct cells *s);

/* The cell around it, the cell it is bound to, or CELL_NONE; whether the device is broken, or bound to one that is. */
uint32_t cells_parent(const struct cells *s, uint32_t cell);
uint32_t cells_peer(const struct cells *s, uint32_t cell);
bool cells_bad(const struct cells *s, uint32_t leaf);

/* Whether a physical device was taken; with `own`, as part of a guarantee. */
bool cells_taken(const struct cells *s, uint32_t leaf, bool own);

/* A broken device that a virtual cluster was shown, put back after a restart: after health was set and all that is
 * taken was taken again. -EBADMSG: it cannot have been so. When all is put back, cells_restored() says that it is as it
 * was, settled. */
int cells_show_bad(struct cells *s, uint32_t virt, uint32_t phys);
void cells_restored(struct cells *s);
