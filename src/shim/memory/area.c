/* SPDX-License-Identifier: Apache-2.0 */
/* area.c - host memory for what leaves the GPU, in blocks, made ahead of time because that is slow.
 *
 * Two kinds. A file is memory of a NUMA node made by the driver, held by a descriptor: to let go of it costs 2 ms a GiB
 * and to take it up again 9, because the driver knows it in large pieces, and while nothing but the descriptor is left
 * the driver's checkpoint has nothing to do with it. Where the driver or the machine cannot make such memory, blocks
 * are huge pages registered with the driver: 18 ms a GiB to let go and 21 to take up. Both copy at the bus' speed.
 *
 * Only the helper comes here.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/shim.h"

#define BLOCKS 1024u
#define PIECE (32 * MIB) /* touched at a time, so that commands wait little */

static struct block {
    CUmemGenericAllocationHandle handle;
    int fd;        /* a file's; -1: pages */
    bool pinned;   /* the driver knows it just now */
    uint32_t gpus; /* of a file: a bit for each that may write it now */
} block[BLOCKS];
static uint32_t blocks;
static char *pages;       /* one reserved range of addresses for each kind; block i is at i * AREA_BLOCK of its own */
static CUdeviceptr files; /* 0 = none yet */
static bool no_files;     /* refused once */
static uint64_t touched;  /* of the next block of pages */

uint32_t area_blocks(void)
{
    return blocks;
}

/* ---- files */

static bool files_possible(void)
{
    const char *asked = getenv("MUSTER_GPU_AREA");

    return !no_files && !(asked && strcmp(asked, "pages") == 0) && HAVE(cuMemCreate) && HAVE(cuMemMap) &&
           HAVE(cuMemUnmap) && HAVE(cuMemSetAccess) && HAVE(cuMemRelease) && HAVE(cuMemAddressReserve) &&
           HAVE(cuMemExportToShareableHandle) && HAVE(cuMemImportFromShareableHandle) && HAVE(cuMemcpyDtoDAsync_v2);
}

static bool file_map(int gpu, uint32_t i)
{
    CUdeviceptr at = files + i * AREA_BLOCK;

    if (REAL(cuMemMap)(at, AREA_BLOCK, 0, block[i].handle, 0) != CUDA_SUCCESS)
        return false;
    if (vmm_access(gpu, 0, at, AREA_BLOCK) == CUDA_SUCCESS) {
        block[i].gpus = 1u << gpu;
        return true;
    }
    (void)REAL(cuMemUnmap)(at, AREA_BLOCK);
    return false;
}

static bool file_pin(int gpu, uint32_t i)
{
    if (REAL(cuMemImportFromShareableHandle)(&block[i].handle, (void *)(intptr_t)block[i].fd,
                                             CU_MEM_HANDLE_POSIX_FILE) != CUDA_SUCCESS)
        return false;
    if (file_map(gpu, i))
        return true;
    (void)REAL(cuMemRelease)(block[i].handle);
    return false;
}

static bool file_add(int gpu)
{
    struct cuda_mem_prop prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .handle_types = CU_MEM_HANDLE_POSIX_FILE,
                                  .location = { CU_MEM_LOCATION_TYPE_HOST_NUMA, 0 } };
    struct block *b = &block[blocks];
    int node = -1;

    if (!files && REAL(cuMemAddressReserve)(&files, BLOCKS * AREA_BLOCK, VMM_GRAIN, 0, 0) != CUDA_SUCCESS) {
        files = 0;
        return false;
    }
    if (HAVE(cuDeviceGetAttribute) &&
        REAL(cuDeviceGetAttribute)(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, gpu) == CUDA_SUCCESS && node > 0)
        prop.location.id = node;
    *b = (struct block){ .fd = -1 };
    if (REAL(cuMemCreate)(&b->handle, AREA_BLOCK, &prop, 0) != CUDA_SUCCESS)
        return false;
    if (REAL(cuMemExportToShareableHandle)(&b->fd, b->handle, CU_MEM_HANDLE_POSIX_FILE, 0) != CUDA_SUCCESS) {
        b->fd = -1;
    } else {
        (void)syscall(SYS_fcntl, b->fd, F_SETFD, FD_CLOEXEC); /* the C library's own is newer than what we may need */
        b->pinned = file_map(gpu, blocks);
    }
    if (b->pinned)
        return true;
    if (b->fd >= 0)
        close(b->fd);
    (void)REAL(cuMemRelease)(b->handle);
    return false;
}

/* ---- pages */

/* For every context: a block may serve another GPU the next time. */
static bool pages_register(char *at)
{
    return HAVE(cuMemHostRegister_v2) &&
           REAL(cuMemHostRegister_v2)(at, AREA_BLOCK, CU_MEMHOSTREGISTER_PORTABLE) == CUDA_SUCCESS;
}

static bool pages_piece(bool *ret_whole)
{
    char *at;

    if (!pages) {
        void *p = mmap(NULL, BLOCKS * AREA_BLOCK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (p == MAP_FAILED)
            return false;
        pages = (char *)(((uintptr_t)p + 2 * MIB - 1) / (2 * MIB) * (2 * MIB));
    }
    at = pages + blocks * AREA_BLOCK;
    if (touched == 0) {
        if (mprotect(at, AREA_BLOCK, PROT_READ | PROT_WRITE) < 0)
            return false;
        (void)madvise(at, AREA_BLOCK, MADV_HUGEPAGE);
    }
    for (uint64_t i = touched; i < touched + PIECE; i += 4096)
        at[i] = 0;
    touched += PIECE;
    *ret_whole = touched == AREA_BLOCK;
    if (!*ret_whole)
        return true;
    touched = 0;
    if (!pages_register(at)) {
        (void)madvise(at, AREA_BLOCK, MADV_DONTNEED);
        return false;
    }
    block[blocks] = (struct block){ .fd = -1, .pinned = true };
    return true;
}

/* ---- both */

bool area_add(int gpu)
{
    bool whole = false;

    if (blocks + 1 >= BLOCKS || host_spare() < (touched ? PIECE : AREA_BLOCK))
        return false;
    if (files_possible()) {
        whole = file_add(gpu);
        no_files = !whole;
    }
    if (!whole && !pages_piece(&whole))
        return false;
    if (whole)
        blocks++;
    __atomic_store_n(&shim.page->health.area_bytes, blocks * AREA_BLOCK, __ATOMIC_RELAXED);
    return true;
}

/* A block that another GPU used the last time, or that was made for it. */
static bool file_open(int gpu, uint32_t i)
{
    if (!(block[i].gpus >> gpu & 1) && vmm_access(gpu, 0, files + i * AREA_BLOCK, AREA_BLOCK) != CUDA_SUCCESS)
        return false;
    block[i].gpus |= 1u << gpu;
    return true;
}

static bool block_pin(int gpu, uint32_t i)
{
    if (!block[i].pinned && block[i].fd >= 0)
        block[i].pinned = file_pin(gpu, i);
    else if (!block[i].pinned)
        block[i].pinned = pages_register(pages + i * AREA_BLOCK);
    if (block[i].pinned && block[i].fd >= 0)
        return file_open(gpu, i);
    return block[i].pinned || block[i].fd < 0; /* pages that are not registered are slow, not wrong */
}

static void block_unpin(uint32_t i)
{
    CUdeviceptr at = files + i * AREA_BLOCK;

    if (!block[i].pinned)
        return;
    if (block[i].fd < 0) {
        if (HAVE(cuMemHostUnregister) && REAL(cuMemHostUnregister)(pages + i * AREA_BLOCK) == CUDA_SUCCESS)
            block[i].pinned = false;
    } else if (REAL(cuMemUnmap)(at, AREA_BLOCK) == CUDA_SUCCESS) {
        (void)REAL(cuMemRelease)(block[i].handle);
        block[i].pinned = false;
    }
}

/* A file that stays mapped costs the driver's checkpoint 700 ms a GiB: none stays. */
void area_unpin(uint32_t permille)
{
    uint32_t keep = blocks - (uint32_t)((uint64_t)blocks * permille / PAGE_PERMILLE);

    for (uint32_t i = 0; i < blocks && permille; i++)
        if (i >= keep || block[i].fd >= 0)
            block_unpin(i);
}

CUresult area_copy(int gpu, CUdeviceptr at, uint64_t size, uint64_t where, bool out)
{
    CUresult r = CUDA_SUCCESS;

    while (size && r == CUDA_SUCCESS) {
        uint64_t part = AREA_BLOCK - where % AREA_BLOCK;
        uint32_t i = (uint32_t)(where / AREA_BLOCK);

        part = part < size ? part : size;
        if (!block_pin(gpu, i))
            return CUDA_ERROR_OUT_OF_MEMORY;
        if (block[i].fd >= 0)
            r = REAL(cuMemcpyDtoDAsync_v2)(out ? files + where : at, out ? at : files + where, part, move_stream());
        else
            r = out ? REAL(cuMemcpyDtoHAsync_v2)(pages + where, at, part, move_stream())
                    : REAL(cuMemcpyHtoDAsync_v2)(at, pages + where, part, move_stream());
        at += part;
        where += part;
        size -= part;
    }
    return r;
}
