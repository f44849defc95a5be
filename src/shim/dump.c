/* SPDX-License-Identifier: Apache-2.0 */
/* dump.c - a process that an image can be taken of, and what it holds of others until then.
 *
 * A tool that writes a process to disk cannot write what is at the other end of a socket or of shared memory. So on the
 * order the socket is closed and the process page and the arenas are replaced, at the same addresses, by memory of our
 * own: every other thread goes on with what it has. Limits stay as they were, and a closed gate stays closed until the
 * time is up and the node side has had time to answer: its lease says so. The time is the helper's own: while the
 * process is stopped it does not pass, and one that finds it has been stopped for a while has been written, and comes
 * back at once. Wherever it is then, it makes itself a new page and registers.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim/shim.h"

#define AWAY_MOST_NS (600 * NSEC_SEC)
#define STOPPED_NS (2 * NSEC_SEC) /* longer between two looks than any load explains */
#define WELCOME_NS (5 * NSEC_SEC) /* as long as a node side that has died is waited for */

static struct {
    uint64_t left_ns, looked_ns;
    bool away;
} dump;

/* What other threads counted between the copy and the exchange. Whoever counts, adds; so the difference is exact. */
static void words_catch_up(uint64_t *words, const uint64_t *old, const uint64_t *copied, size_t from, size_t end)
{
    for (size_t i = from / sizeof(*words); i < end / sizeof(*words); i++) {
        uint64_t more = __atomic_load_n(&old[i], __ATOMIC_RELAXED) - copied[i];

        if (more)
            (void)__atomic_fetch_add(&words[i], more, __ATOMIC_RELAXED);
    }
}

/* The process page becomes one with the same content, of `fd` or, with -1, of nobody else. */
static int page_exchange(int fd)
{
    static uint64_t copied[PAGE_SIZE_BYTES / sizeof(uint64_t)];
    int flags = fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
    void *old, *fresh;

    old =
        mremap(shim.page, 0, PAGE_SIZE_BYTES, MREMAP_MAYMOVE); /* of what is shared a length of 0 makes a second view */
    if (old == MAP_FAILED)
        return -ENOMEM;
    fresh = mmap(NULL, PAGE_SIZE_BYTES, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (fresh == MAP_FAILED)
        goto fail;
    memcpy(copied, old, sizeof(copied));
    memcpy(fresh, copied, sizeof(copied));
    if (mremap(fresh, PAGE_SIZE_BYTES, PAGE_SIZE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, shim.page) == MAP_FAILED) {
        (void)munmap(fresh, PAGE_SIZE_BYTES);
        goto fail;
    }
    words_catch_up((uint64_t *)shim.page, old, copied, offsetof(struct page, counters), offsetof(struct page, reply));
    words_catch_up((uint64_t *)shim.page, old, copied, offsetof(struct page, step), sizeof(struct page));
    (void)munmap(old, PAGE_SIZE_BYTES);
    return 0;
fail:
    (void)munmap(old, PAGE_SIZE_BYTES);
    return -ENOMEM;
}

int dump_begin(uint64_t own_ns)
{
    int fd = shim.page_fd;

    if (fd < 0)
        return -ENODEV;
    own_ns = own_ns < AWAY_MOST_NS ? own_ns : AWAY_MOST_NS;
    if (page_exchange(-1) < 0)
        return -ENOMEM;
    gate_lease_own(clock_ns() + own_ns + WELCOME_NS); /* not before: the node side writes its own there until then */
    shim.page_fd = -1;
    (void)close(fd);
    arena_leave_all();
    dump.left_ns = own_ns;
    dump.looked_ns = clock_ns();
    dump.away = true;
    return 0;
}

bool dump_away(void)
{
    uint64_t now = clock_ns(), passed = now - dump.looked_ns;
    int fd;

    if (!dump.away)
        return false;
    dump.looked_ns = now;
    if (passed < STOPPED_NS && passed < dump.left_ns) {
        dump.left_ns -= passed;
        return true;
    }
    dump.left_ns = 0;
    fd = enter_page_fd();
    if (fd < 0 || page_exchange(fd) < 0) {
        if (fd >= 0)
            (void)close(fd);
        return true; /* asked again at the next look */
    }
    gate_lease_own(clock_ns() + WELCOME_NS);
    shim.page->generation++;
    shim.page_fd = fd;
    dump.away = false;
    return false;
}

bool dump_lasts(void)
{
    return dump.away && dump.left_ns > 0;
}
