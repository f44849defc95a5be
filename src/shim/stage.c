/* SPDX-License-Identifier: Apache-2.0 */
/* stage.c - copies between the GPU and host memory that is not registered with the driver.
 *
 * A release has to take registrations back, at 20 ms a GiB, and nothing overlaps with that. So of a large eviction only
 * a part goes to registered memory; the rest passes through a small ring of registered slots, from which threads of
 * ours copy it on, while the bus is busy with both. One thread queues and watches the device's copies, the others copy
 * between ring and memory. They live for one move, hold no lock, and call no driver function but the first one.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "shim/shim.h"

#define SLOTS 16u
#define SLOT (32 * MIB)
#define WORKERS 6u
#define CPUS_MIN 8

enum slot_state { SLOT_FREE, SLOT_DEVICE, SLOT_READY, SLOT_HOST, SLOT_TAKEN }; /* TAKEN: a worker copies */

static struct {
    _Atomic uint32_t state;
    CUevent event;
    char *memory, *host;
    CUdeviceptr at;
    uint64_t size;
} slots[SLOTS];
static char *ring;
static CUstream stream;
static CUcontext context;
static const struct stage_item *items;
static uint32_t item_count;
static bool outwards;
static _Atomic uint32_t running, finished, failed;

bool stage_possible(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    if (shim.pinned_set)
        return true;
    return sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) >= CPUS_MIN && HAVE(cuMemHostAlloc) &&
           HAVE(cuEventQuery) && HAVE(cuEventCreate) && HAVE(cuStreamCreate);
}

static bool ring_make(void)
{
    void *p = NULL;

    if (ring)
        return true;
    if (REAL(cuMemHostAlloc)(&p, SLOTS * SLOT, 0) != CUDA_SUCCESS || !p)
        return false;
    for (uint32_t i = 0; i < SLOTS; i++) {
        slots[i].memory = (char *)p + i * SLOT;
        if (REAL(cuEventCreate)(&slots[i].event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
            return false;
    }
    if (REAL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return false;
    ring = p;
    return true;
}

static void nap(void)
{
    struct timespec t = { 0, 10 * 1000 };

    nanosleep(&t, NULL);
}

/* Outwards a worker empties slots the device has filled, homewards it fills what the device will read. */
static void *worker_main(void *arg)
{
    uint32_t from = outwards ? SLOT_READY : SLOT_HOST;

    (void)arg;
    while (!atomic_load(&finished)) {
        bool any = false;

        for (uint32_t i = 0; i < SLOTS; i++) {
            uint32_t want = from;

            if (!atomic_compare_exchange_strong(&slots[i].state, &want, SLOT_TAKEN))
                continue;
            any = true;
            if (outwards)
                memcpy(slots[i].host, slots[i].memory, slots[i].size);
            else
                memcpy(slots[i].memory, slots[i].host, slots[i].size);
            atomic_store(&slots[i].state, outwards ? SLOT_FREE : SLOT_READY);
        }
        if (!any)
            nap();
    }
    atomic_fetch_sub(&running, 1);
    return NULL;
}

static bool slot_queue(uint32_t i)
{
    CUresult r = outwards ? REAL(cuMemcpyDtoHAsync_v2)(slots[i].memory, slots[i].at, slots[i].size, stream)
                          : REAL(cuMemcpyHtoDAsync_v2)(slots[i].at, slots[i].memory, slots[i].size, stream);

    if (r == CUDA_SUCCESS)
        r = REAL(cuEventRecord)(slots[i].event, stream);
    atomic_store(&slots[i].state, SLOT_DEVICE);
    return r == CUDA_SUCCESS;
}

/* Which part of which item is next; false when all have been given out. */
static bool part_next(uint32_t *item, uint64_t *offset, uint32_t slot)
{
    if (*item >= item_count)
        return false;
    slots[slot].at = items[*item].at + *offset;
    slots[slot].host = items[*item].host + *offset;
    slots[slot].size = items[*item].size - *offset < SLOT ? items[*item].size - *offset : SLOT;
    *offset += slots[slot].size;
    if (*offset == items[*item].size) {
        (*item)++;
        *offset = 0;
    }
    return true;
}

/* One look at a slot. False: the driver refused something. */
static bool slot_turn(uint32_t i, uint32_t *item, uint64_t *offset, uint32_t *busy)
{
    uint32_t state = atomic_load(&slots[i].state);
    CUresult r;

    if (state == SLOT_DEVICE) {
        r = REAL(cuEventQuery)(slots[i].event);
        if (r != CUDA_SUCCESS && r != CUDA_ERROR_NOT_READY)
            return false;
        if (r == CUDA_SUCCESS)
            atomic_store(&slots[i].state, outwards ? SLOT_READY : SLOT_FREE);
        ++*busy;
    } else if (state == SLOT_READY && !outwards) {
        ++*busy;
        return slot_queue(i);
    } else if (state != SLOT_FREE) {
        ++*busy;
    } else if (part_next(item, offset, i)) {
        ++*busy;
        if (outwards)
            return slot_queue(i);
        atomic_store(&slots[i].state, SLOT_HOST);
    }
    return true;
}

static void *engine_main(void *arg)
{
    uint32_t item = 0, busy = 1;
    uint64_t offset = 0;

    (void)arg;
    if (REAL(cuCtxSetCurrent)(context) != CUDA_SUCCESS)
        atomic_store(&failed, 1);
    while (busy && !atomic_load(&failed)) {
        busy = 0;
        for (uint32_t i = 0; i < SLOTS && !atomic_load(&failed); i++)
            if (!slot_turn(i, &item, &offset, &busy))
                atomic_store(&failed, 1);
    }
    if (REAL(cuStreamSynchronize)(stream) != CUDA_SUCCESS)
        atomic_store(&failed, 1);
    atomic_store(&finished, 1);
    atomic_fetch_sub(&running, 1);
    return NULL;
}

bool stage_begin(CUcontext ctx, const struct stage_item *list, uint32_t count, bool out)
{
    if (count == 0)
        return true;
    if (!ring_make())
        return false;
    items = list;
    item_count = count;
    outwards = out;
    context = ctx;
    for (uint32_t i = 0; i < SLOTS; i++)
        atomic_store(&slots[i].state, SLOT_FREE);
    atomic_store(&finished, 0);
    atomic_store(&failed, 0);
    atomic_store(&running, 1);
    if (!helper_spawn(engine_main)) {
        atomic_store(&running, 0);
        return false;
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        atomic_fetch_add(&running, 1);
        if (!helper_spawn(worker_main)) {
            atomic_fetch_sub(&running, 1);
            if (i == 0) /* nobody to empty the ring */
                atomic_store(&failed, 1);
            break;
        }
    }
    return true;
}

bool stage_end(void)
{
    while (atomic_load(&running))
        nap();
    return !atomic_load(&failed);
}
