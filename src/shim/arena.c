/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c - the pages that the jobs of one GPU share: the arena, which the guaranteed job writes, and the neighbours',
 * which the others do. They come from the node side, and are left before an image of the process is taken.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "shim/steps/step.h"

/* A launching thread may read the one there is: the new one takes its address. */
static void page_over(void *old, void *fresh)
{
    (void)mremap(fresh, ARENA_SIZE_BYTES, ARENA_SIZE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, old);
}

static void *page_own(void)
{
    void *own = mmap(NULL, ARENA_SIZE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    return own == MAP_FAILED ? NULL : own;
}

/* Nobody is on the GPU but us, as far as is known now. */
void arena_leave_all(void)
{
    for (int i = 0; i < PAGE_GPUS; i++) {
        struct arena *own = shim.arena[i] ? page_own() : NULL;
        struct beside *said = shim.beside[i] ? page_own() : NULL;

        if (own) {
            *own = (struct arena){ .magic = PAGE_MAGIC, .abi = PAGE_ABI, .size = sizeof(*own) };
            page_over(shim.arena[i], own);
        }
        if (said) {
            said->magic = PAGE_MAGIC;
            page_over(shim.beside[i], said);
        }
    }
}

static void arena_put(int gpu, struct arena *arena)
{
    if (!shim.arena[gpu])
        __atomic_store_n(&shim.arena[gpu], arena, __ATOMIC_RELEASE);
    else
        page_over(shim.arena[gpu], arena);
}

static void beside_put(int gpu, struct beside *beside)
{
    if (!shim.beside[gpu])
        __atomic_store_n(&shim.beside[gpu], beside, __ATOMIC_RELEASE);
    else
        page_over(shim.beside[gpu], beside);
}

/* The page that came with the message, or NULL; whoever is not its writer reads it only. */
static void *page_take(const struct message_device *d, int fd, bool writer)
{
    uint64_t *page; /* both begin with their magic */

    if (d->gpu >= PAGE_GPUS || fd < 0)
        return NULL;
    page = mmap(NULL, ARENA_SIZE_BYTES, writer ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        return NULL;
    if (*page == PAGE_MAGIC)
        return page;
    (void)munmap(page, ARENA_SIZE_BYTES);
    return NULL;
}

void arena_take(const struct message_device *d, int fd)
{
    bool writer = shim.role == ROLE_GUARANTEED;
    struct arena *arena = page_take(d, fd, writer);

    if (!arena)
        return;
    if (writer) {
        __atomic_store_n(&arena->rg_pid, (uint32_t)getpid(), __ATOMIC_RELAXED);
        __atomic_store_n(&arena->rg_since_ns, clock_ns(), __ATOMIC_RELAXED);
        __atomic_store_n(&arena->rg_state, RG_IDLE, __ATOMIC_RELEASE);
    }
    arena_put((int)d->gpu, arena);
}

void beside_take(const struct message_device *d, int fd)
{
    struct beside *beside = page_take(d, fd, shim.role != ROLE_GUARANTEED);

    if (beside)
        beside_put((int)d->gpu, beside);
}
