/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* json_pool.h - the memory of jansson's trees.
 *
 * A controller makes and drops some three hundred small pieces for each job, which fall between the sizes the system's
 * allocator is quick at: it keeps seven of a size at hand, and goes the long way for the rest. A thread that says so
 * keeps more of them. They are blocks of base/alloc.h like any other, so trees may be made before, and freed on other
 * threads.
 */
#include <stddef.h>

/* From now on jansson takes its memory here. */
void json_pool_use(void);
/* This thread keeps what its trees no longer need, some hundred KiB at most; json_pool_drop() gives it back. Nothing is
 * kept where the address sanitizer watches over freed memory. */
void json_pool_keep(void);
void json_pool_drop(void);
