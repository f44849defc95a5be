/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* capture.h - stream captures under way, and what may be called meanwhile. Included by shim.h, whose words it uses.
 *
 * A stream that is capturing records what is launched into it, from whichever thread: PyTorch's backward pass has a
 * thread of its own. Nothing of ours may be recorded with it. And while a capture that was begun in the global mode is
 * under way anywhere in the process, a call that does not go through a stream (a query of an event, an allocation)
 * makes it invalid, unless the thread that calls has said that it knows what it does: its mode is "relaxed".
 *
 * `shim.captures` is what a call looks at first, and 0 but for the time a program builds its graphs.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/cuda_abi.h"
#include "shim/inside.h"

static inline bool capture_any(void)
{
    return unlikely(atomic_load_explicit(&shim.captures, memory_order_relaxed) != 0);
}

/* Does what is submitted to this stream become part of a graph, or would it be an error? Asked only if capture_any().
 */
bool capture_into(CUstream stream);
bool capture_mine(void); /* has this thread begun one that is under way? */

/* Around a call of the program's own that begins one, inside a submission. No handler runs in between, as by
 * signals_hold(): one that jumped out would leave a capture that nobody ends. */
void capture_begin(struct inside_mark *mark); /* of the caller */
void capture_begun(CUstream stream, bool per_thread, int mode, CUresult r);
void capture_ended(CUstream stream, bool per_thread, CUresult r);
uint64_t capture_of(CUstream stream); /* 0 none; for capture_drop(), when the stream has been destroyed */
void capture_drop(uint64_t capture);
void capture_context_gone(CUcontext ctx);
void capture_tidy(void); /* helper: those whose thread has gone are over */

/* Around calls of our own that would make a capture invalid. False: none may be made now. A capture that begins waits
 * until those that saw none are over. */
bool capture_own_begin(int *ret_mode);
void capture_own_end(int mode);

/* The same for a call that costs so little that nobody is to wait for it. */
bool capture_relax(int *ret_mode);
void capture_restore(int mode);
bool capture_forbids(void); /* a capture is under way, and this driver knows no relaxed mode */
