/* SPDX-License-Identifier: Apache-2.0 */
/* window.c - addresses of our own at which host memory can be written while no address of the program's shows it.
 *
 * On an H200 it takes 0.28 ms to make 20 MiB of host memory readable for the GPU and 0.08 ms to unmap them, as much
 * together as to copy them. So the window of host memory that is held ready is opened ahead of time, and stays. The
 * driver's checkpoint pays for all that is mapped: before it, windows are closed.
 */
#include "shim/shim.h"

#define RANGE 64u /* windows of one reserved range of addresses */
/* As many windows as there are pieces of memory (vmm.c): one for which there is none could not leave the GPU. */
#define RANGES 1024u
#define WINDOWS (RANGE * RANGES)

#define TAKEN (~(CUmemGenericAllocationHandle)0) /* being closed, or the driver would not */

static CUmemGenericAllocationHandle shown[WINDOWS]; /* 0 = no window here */
static struct {
    uint64_t size;
    uint32_t gpus; /* a bit for each that may write */
} window[WINDOWS];
static CUdeviceptr ranges[RANGES];
static uint32_t high;
static _Atomic uint32_t lock; /* of `shown` and `high`. Only the helper opens; who owns the handle closes */

static CUdeviceptr address(uint32_t i)
{
    return ranges[i / RANGE] + i % RANGE * VMM_CHUNK;
}

/* Where `handle` is shown; 0: where none is. WINDOWS: nowhere. */
static uint32_t place_of(CUmemGenericAllocationHandle handle)
{
    uint32_t i = 0;

    while (i < high && shown[i] != handle)
        i++;
    return i < high || (!handle && high < WINDOWS) ? i : WINDOWS;
}

static void place_set(uint32_t i, CUmemGenericAllocationHandle handle)
{
    spin_lock(&lock);
    shown[i] = handle;
    spin_unlock(&lock);
}

/* A place for it, with addresses. */
static uint32_t place_take(CUmemGenericAllocationHandle handle)
{
    uint32_t i;

    spin_lock(&lock);
    i = place_of(0);
    if (i < WINDOWS) {
        shown[i] = handle;
        high = i >= high ? i + 1 : high;
    }
    spin_unlock(&lock);
    if (i < WINDOWS && !ranges[i / RANGE] &&
        REAL(cuMemAddressReserve)(&ranges[i / RANGE], RANGE * VMM_CHUNK, VMM_GRAIN, 0, 0) != CUDA_SUCCESS) {
        ranges[i / RANGE] = 0;
        place_set(i, 0);
        return WINDOWS;
    }
    return i;
}

CUdeviceptr window_open(int gpu, CUmemGenericAllocationHandle handle, uint64_t size)
{
    uint32_t i, bit = 1u << gpu;

    spin_lock(&lock);
    i = place_of(handle);
    spin_unlock(&lock);
    if (i < WINDOWS && window[i].gpus & bit)
        return address(i);
    if (i == WINDOWS) {
        i = place_take(handle);
        if (i == WINDOWS)
            return 0;
        if (REAL(cuMemMap)(address(i), size, 0, handle, 0) != CUDA_SUCCESS) {
            place_set(i, 0);
            return 0;
        }
        window[i].size = size;
        window[i].gpus = 0;
    }
    if (vmm_access(gpu, 0, address(i), size) != CUDA_SUCCESS)
        return 0; /* closed with the memory */
    window[i].gpus |= bit;
    return address(i);
}

/* One the driver will not unmap stays as it is, and its addresses with it. */
static void place_close(uint32_t i)
{
    if (REAL(cuMemUnmap)(address(i), window[i].size) == CUDA_SUCCESS)
        place_set(i, 0);
}

void window_close(CUmemGenericAllocationHandle handle)
{
    uint32_t i;

    spin_lock(&lock);
    i = place_of(handle);
    if (i < WINDOWS)
        shown[i] = TAKEN;
    spin_unlock(&lock);
    if (i < WINDOWS)
        place_close(i);
}

void window_close_all(void)
{
    for (uint32_t i = 0; i < high; i++) {
        bool open;

        spin_lock(&lock);
        open = shown[i] && shown[i] != TAKEN;
        if (open)
            shown[i] = TAKEN;
        spin_unlock(&lock);
        if (open)
            place_close(i);
    }
}
