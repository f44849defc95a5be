/* SPDX-License-Identifier: Apache-2.0 */
/* inside.c - see inside.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shim/shim.h"

static struct inside threads[INSIDE_THREADS];
static struct inside many; /* of all that found no room */
static _Atomic uint32_t threads_high;

bool thread_gone(int32_t tid)
{
    int saved = errno;
    bool gone = syscall(SYS_tgkill, getpid(), tid, 0) < 0 && errno == ESRCH;

    errno = saved;
    return gone;
}

static bool slot_claim(uint32_t i, int32_t tid)
{
    struct inside *slot = &threads[i];
    int32_t was = 0;

    if (!atomic_compare_exchange_strong(&slot->tid, &was, tid))
        return false;
    atomic_store(&slot->word, 0);
    atomic_store(&slot->wait, 0);
    slot->own = thread_own();
    return true;
}

/* A thread's first call. What threads that ended have left is taken when nothing else is free. */
static __attribute__((noinline)) struct inside *inside_join(void)
{
    int32_t tid = (int32_t)syscall(SYS_gettid);

    shim_thread.inside = &many;
    for (int again = 0; again < 2 && shim_thread.inside == &many; again++) {
        for (uint32_t i = 0; i < INSIDE_THREADS && again; i++) {
            int32_t old = atomic_load(&threads[i].tid);

            if (old && thread_gone(old))
                (void)atomic_compare_exchange_strong(&threads[i].tid, &old, 0);
        }
        for (uint32_t i = 0; i < INSIDE_THREADS; i++)
            if (atomic_load_explicit(&threads[i].tid, memory_order_relaxed) == 0 && slot_claim(i, tid)) {
                uint32_t high = atomic_load(&threads_high);

                while (high <= i && !atomic_compare_exchange_weak(&threads_high, &high, i + 1))
                    ;
                shim_thread.inside = &threads[i];
                break;
            }
    }
    return shim_thread.inside;
}

/* Has something else been written there since? Asked of the kernel: the memory itself may be gone. */
static bool mark_gone(uintptr_t at, enum mark_kind kind)
{
    uint64_t seen = 0;
    struct iovec to = { &seen, sizeof(seen) }, from = { (void *)at, sizeof(seen) };
    int saved = errno;
    long n = syscall(SYS_process_vm_readv, getpid(), &to, 1ul, &from, 1ul, 0ul);
    bool gone = n < 0 ? errno == EFAULT : n == (long)sizeof(seen) && seen != (at ^ INSIDE_MARK ^ (uint64_t)kind);

    errno = saved;
    return gone;
}

bool frame_gone(uintptr_t at, enum mark_kind kind, uintptr_t end)
{
    return at != UINTPTR_MAX && (frame_left(at, end, thread_own()) || mark_gone(at, kind));
}

/* How deep it still is: frames that have left the stack were jumped out of. */
static uint32_t depth_kept(const struct inside *slot, uint32_t depth, uintptr_t end)
{
    while (depth) {
        uint32_t known = depth < INSIDE_DEEP ? depth : INSIDE_DEEP;
        uintptr_t at = atomic_load_explicit(&slot->frame[known - 1], memory_order_relaxed);

        if (!frame_left(at, end, slot->own) && !mark_gone(at, MARK_SUBMIT))
            break;
        depth = known - 1;
    }
    return depth;
}

void inside_enter(struct submit *submit)
{
    struct inside *mine = shim_thread.inside;
    uint64_t word;
    uint32_t depth;

    if (unlikely(!mine))
        mine = inside_join();
    if (unlikely(mine == &many)) {
        atomic_fetch_add(&many.word, 1);
        return;
    }
    word = atomic_load_explicit(&mine->word, memory_order_relaxed);
    depth = (uint32_t)(word & INSIDE_DEPTH);
    if (unlikely(depth))
        depth = depth_kept(mine, depth, (uintptr_t)&submit->mark);
    submit->depth = depth;
    frame_mark(&submit->mark, MARK_SUBMIT);
    if (likely(depth < INSIDE_DEEP))
        atomic_store_explicit(&mine->frame[depth], (uintptr_t)&submit->mark, memory_order_relaxed);
    (void)atomic_exchange(&mine->word, ((word >> 8) + 1) << 8 | (depth + 1));
}

bool inside_already(const struct submit *submit)
{
    struct inside *mine = shim_thread.inside;
    uint32_t depth =
        !mine || mine == &many ? 0 : (uint32_t)(atomic_load_explicit(&mine->word, memory_order_relaxed) & INSIDE_DEPTH);

    return depth && depth_kept(mine, depth, (uintptr_t)&submit->mark);
}

void inside_leave(const struct submit *submit)
{
    struct inside *mine = shim_thread.inside;
    uint64_t word;

    if (unlikely(mine == &many)) {
        atomic_fetch_sub_explicit(&many.word, 1, memory_order_release);
        return;
    }
    word = atomic_load_explicit(&mine->word, memory_order_relaxed);
    atomic_store_explicit(&mine->word, (word & ~(uint64_t)INSIDE_DEPTH) | submit->depth, memory_order_release);
}

uint64_t inside_count(void)
{
    uint64_t sum = atomic_load(&many.word);

    for (uint32_t i = 0; i < atomic_load(&threads_high); i++)
        sum += atomic_load(&threads[i].word) & INSIDE_DEPTH;
    return sum;
}

/* Those without a record of their own are not known to wait: the helper looks for them. */
void inside_wait(struct inside_mark *at)
{
    struct inside *mine = shim_thread.inside;

    frame_mark(at, MARK_WAIT);
    if (unlikely(!mine))
        mine = inside_join();
    if (likely(mine != &many))
        atomic_store_explicit(&mine->wait, (uintptr_t)at, memory_order_release);
}

void inside_wait_end(void)
{
    atomic_store_explicit(&shim_thread.inside->wait, 0, memory_order_relaxed);
}

uint32_t inside_waiters(void)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < atomic_load(&threads_high); i++)
        n += atomic_load_explicit(&threads[i].wait, memory_order_relaxed) != 0;
    return n;
}

uint64_t inside_look(void)
{
    uint64_t sum = 0, inside = 0;

    for (uint32_t i = 0; i < atomic_load(&threads_high); i++) {
        uint64_t word = atomic_load_explicit(&threads[i].word, memory_order_relaxed);
        uint64_t wait = atomic_load_explicit(&threads[i].wait, memory_order_relaxed);

        inside |= (word & INSIDE_DEPTH) | wait;
        sum = (sum ^ word ^ wait << 32) * 0x100000001b3ULL + 1;
    }
    return inside ? sum | 1 : 0;
}

/* Where the stack of a thread that sleeps in the kernel ends: the last but one of what /proc says. 0: it runs, or
 * nobody tells. */
static uintptr_t stack_end(int32_t tid)
{
    char path[64], text[256], *at;
    uintptr_t end = 0;
    int fd, saved = errno;
    ssize_t n;

    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)tid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    if (n > 0) {
        text[n] = '\0';
        at = strrchr(text, ' ');
        if (at) {
            *at = '\0';
            at = strrchr(text, ' ');
        }
        end = at ? (uintptr_t)strtoull(at + 1, NULL, 16) : 0;
    }
    errno = saved;
    return end;
}

/* What is exchanged is what was read before the look: a thread that entered since has another word. */
static void slot_tidy(struct inside *slot)
{
    uint64_t word = atomic_load(&slot->word), left;
    uintptr_t wait = atomic_load(&slot->wait), end;
    int32_t tid = atomic_load(&slot->tid);

    if (!tid || (!(word & INSIDE_DEPTH) && !wait))
        return;
    left = word & ~(uint64_t)INSIDE_DEPTH;
    if (!thread_gone(tid)) {
        end = stack_end(tid);
        if (!end)
            return;
        left |= depth_kept(slot, (uint32_t)(word & INSIDE_DEPTH), end - 1); /* a frame that begins there is alive */
        if (wait && !frame_left(wait, end - 1, slot->own) && !mark_gone(wait, MARK_WAIT))
            wait = 0;
    }
    if (left != word)
        (void)atomic_compare_exchange_strong(&slot->word, &word, left);
    if (wait)
        (void)atomic_compare_exchange_strong(&slot->wait, &wait, 0);
}

void inside_tidy(void)
{
    for (uint32_t i = 0; i < atomic_load(&threads_high); i++)
        slot_tidy(&threads[i]);
}
