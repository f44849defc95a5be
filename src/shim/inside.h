/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* inside.h - which threads are between submit_enter() and submit_leave(), or wait for the GPU. Included by shim.h.
 *
 * Every thread has a record of its own and writes how deep it is and where on its stack. A handler of the program may
 * jump out of a call of ours (siglongjmp), which then never leaves. Its frame is gone from the stack, and that is how
 * it is noticed: the stack ends above it, or what the frame was marked with is overwritten. The thread itself looks
 * when it calls again, and the helper at threads that sleep, once a second and whenever it waits for quiet. A thread
 * that ended is not inside either.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define INSIDE_THREADS 1024u /* those that come after are counted together, and not looked after */
#define INSIDE_DEEP 4u       /* a handler in a handler in ...; what is deeper ends with these */
#define INSIDE_DEPTH 0xffu
#define INSIDE_MARK 0x6d75737465724973ull

struct inside_mark { /* in the frame: its own address and what it is for, and not by chance */
    volatile uint64_t mark;
};
enum mark_kind { MARK_SUBMIT = 1, MARK_WAIT, MARK_HOLD };

struct inside {
    _Atomic uint64_t word; /* how often it entered, times 256, and how deep it is now: one word, to exchange at once */
    _Atomic uintptr_t frame[INSIDE_DEEP];
    _Atomic uintptr_t wait; /* the mark of a wait for the GPU; 0 none */
    uintptr_t own;          /* the thread's own data */
    _Atomic int32_t tid;    /* 0 = free */
} __attribute__((aligned(64)));

/* Has the frame at `at` gone, when the stack ends at `end` now? Stacks grow downwards. A thread's own data lie above
 * its stack, and the first thread's stack above everything: an end on the other side of them is of another stack, a
 * handler's own perhaps, and says nothing. */
static inline bool frame_left(uintptr_t at, uintptr_t end, uintptr_t own)
{
    return at <= end && !(own > at && own < end);
}

/* The same of this thread, or what it was marked with is overwritten. UINTPTR_MAX is never gone. */
bool frame_gone(uintptr_t at, enum mark_kind kind, uintptr_t end);

static inline void frame_mark(struct inside_mark *mark, enum mark_kind kind)
{
    mark->mark = (uintptr_t)mark ^ INSIDE_MARK ^ (uint64_t)kind;
}

static inline uintptr_t thread_own(void)
{
    uintptr_t own;

    __asm__("mov %%fs:0, %0" : "=r"(own));
    return own;
}

bool thread_gone(int32_t tid); /* of this process */

struct submit;
void inside_enter(struct submit *submit);
bool inside_already(const struct submit *submit); /* this thread, in a call that a handler has interrupted? */
void inside_leave(const struct submit *submit);
uint64_t inside_count(void);   /* how many calls are inside */
uint32_t inside_waiters(void); /* threads that wait for the GPU */
/* Changes whenever a call of ours begins or ends; 0: nobody is in one. */
uint64_t inside_look(void);
void inside_wait(struct inside_mark *at);
void inside_wait_end(void);
void inside_tidy(void); /* helper: whoever jumped out is not inside */
