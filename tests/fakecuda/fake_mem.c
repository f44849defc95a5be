/* SPDX-License-Identifier: Apache-2.0 */
/* fake_mem.c - device memory as pages of a memfd: plain, pooled, mapped; copies and fills. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake.h"

CUresult cuCtxGetDevice(CUdevice *dev);
CUresult cuCtxGetCurrent(CUcontext *ctx);

#define GRAIN 4096ull
#define DEVICES FAKE_DEVICES
#define MAPS 20480

struct device {
    int fd;
    uint64_t pages, used, others;
    uint8_t *taken;
    uint64_t low;           /* all below are taken */
    _Atomic uint64_t *card; /* pages that all processes hold together, where they share one */
};
struct extent { /* physical memory: a piece of a device, or a memfd of its own in host memory */
    int fd, dev;
    uint64_t at, size;
    int refs;
    bool shared;         /* another process has it, or may */
    struct device *card; /* the one that the memory is of; the device it was asked for may become another one */
    void *saved;         /* while the process is checkpointed */
    struct extent *next;
};

static struct device devices[DEVICES];
static int card_of[DEVICES] = { 0, 1, 2, 3 };
static struct extent *extents;
static struct {
    void *at;
    uint64_t size, offset;
    struct extent *extent;
    bool plain, managed, open;
    uint32_t access;   /* of a mapping: a bit for each GPU that may use it */
    CUcontext ctx;     /* plain memory goes with its context */
    CUmemoryPool pool; /* it is of; NULL none */
} maps[MAPS];
static int maps_high;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void fake_memory_lock(void)
{
    pthread_mutex_lock(&lock);
}

void fake_memory_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* With FAKE_CUDA_SHARED=FILE the processes that name it have one card's memory between them. One that is killed keeps
 * its part for good. */
static _Atomic uint64_t *card_open(int dev)
{
    const char *path = getenv("FAKE_CUDA_SHARED");
    int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    void *p = MAP_FAILED;

    if (fd < 0)
        return NULL;
    if (ftruncate(fd, (off_t)GRAIN) == 0)
        p = mmap(NULL, GRAIN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    return p == MAP_FAILED ? NULL : (_Atomic uint64_t *)p + dev;
}

__attribute__((destructor)) static void cards_leave(void)
{
    for (int i = 0; i < DEVICES; i++)
        if (devices[i].card)
            *devices[i].card -= devices[i].used;
}

/* Pages of the card, if there are so many. */
static bool card_take(struct device *d, uint64_t need)
{
    uint64_t held = d->card ? atomic_fetch_add(d->card, need) : d->used + d->others;

    if (held + need <= d->pages)
        return true;
    if (d->card)
        *d->card -= need;
    return false;
}

static void card_give(struct device *d, uint64_t pages)
{
    if (d->card)
        *d->card -= pages;
}

static struct device *card_get(int card)
{
    struct device *d = &devices[card];
    const char *text = getenv("FAKE_CUDA_MEMORY");
    uint64_t mib = text ? strtoull(text, NULL, 10) : 1024;

    if (!d->taken) {
        d->fd = memfd_create("fake-gpu", MFD_CLOEXEC);
        d->pages = (mib << 20) / GRAIN;
        d->taken = calloc(d->pages, 1);
        d->card = card_open(card);
        if (d->fd < 0 || ftruncate(d->fd, (off_t)(mib << 20)) < 0)
            abort();
    }
    return d;
}

static struct device *device_get(int dev)
{
    return card_get(card_of[dev]);
}

int fake_card_of(int dev)
{
    return card_of[dev];
}

FAKE_API uint64_t fake_device_used(int dev)
{
    uint64_t used;

    pthread_mutex_lock(&lock);
    used = device_get(dev)->used * GRAIN;
    pthread_mutex_unlock(&lock);
    return used;
}

FAKE_API void fake_others(int dev, uint64_t bytes)
{
    pthread_mutex_lock(&lock);
    device_get(dev)->others = bytes / GRAIN;
    pthread_mutex_unlock(&lock);
}

/* First fit; where it begins, UINT64_MAX = there is no room. The caller holds the lock. */
static uint64_t pages_take(struct device *d, uint64_t size)
{
    uint64_t need = (size + GRAIN - 1) / GRAIN, run = 0;

    if (!card_take(d, need))
        return UINT64_MAX;
    while (d->low < d->pages && d->taken[d->low])
        d->low++;
    for (uint64_t i = d->low; i < d->pages; i++) {
        run = d->taken[i] ? 0 : run + 1;
        if (run < need)
            continue;
        memset(d->taken + i + 1 - need, 1, need);
        d->used += need;
        return (i + 1 - need) * GRAIN;
    }
    card_give(d, need);
    return UINT64_MAX;
}

static void pages_give(struct device *d, uint64_t at, uint64_t size)
{
    /* Real memory forgets: whatever still reads it must notice. */
    (void)fallocate(d->fd, 0x01 | 0x02, (off_t)at, (off_t)size);
    memset(d->taken + at / GRAIN, 0, size / GRAIN);
    d->used -= size / GRAIN;
    card_give(d, size / GRAIN);
    if (at / GRAIN < d->low)
        d->low = at / GRAIN;
}

static struct extent *extent_add(struct extent extent)
{
    struct extent *e = malloc(sizeof(*e));

    *e = extent;
    e->next = extents;
    extents = e;
    return e;
}

static struct extent *extent_new(int dev, uint64_t size)
{
    struct device *d = device_get(dev);
    uint64_t at = pages_take(d, size);

    return at == UINT64_MAX ? NULL
                            : extent_add((struct extent){ .fd = d->fd,
                                                          .dev = dev,
                                                          .at = at,
                                                          .size = (size + GRAIN - 1) / GRAIN * GRAIN,
                                                          .refs = 1,
                                                          .card = d });
}

static struct extent *extent_host(uint64_t size)
{
    struct extent *e =
        extent_add((struct extent){ .fd = memfd_create("fake-host", MFD_CLOEXEC), .dev = -1, .size = size, .refs = 1 });

    if (e->fd < 0 || ftruncate(e->fd, (off_t)size) < 0)
        abort();
    return e;
}

static void extent_drop(struct extent *e)
{
    struct extent **at = &extents;

    if (--e->refs > 0)
        return;
    if (e->dev >= 0)
        pages_give(e->card, e->at, e->size);
    else
        close(e->fd);
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    free(e);
}

static int map_add(void *at, uint64_t size, struct extent *e, bool plain, CUmemoryPool pool)
{
    for (int i = 0; i < MAPS; i++)
        if (!maps[i].extent) {
            maps_high = i >= maps_high ? i + 1 : maps_high;
            maps[i].at = at;
            maps[i].size = size;
            maps[i].offset = 0;
            maps[i].extent = e;
            maps[i].plain = plain;
            maps[i].pool = pool;
            maps[i].managed = false;
            maps[i].open = plain;
            maps[i].access = 0;
            maps[i].ctx = NULL;
            return i;
        }
    abort(); /* a larger table, then */
}

CUresult fake_memory_alloc(CUdeviceptr *dptr, size_t bytes, int dev, CUmemoryPool pool)
{
    CUcontext ctx = NULL;
    struct extent *e;
    void *p;

    pthread_mutex_lock(&lock);
    e = extent_new(dev, bytes);
    if (e) {
        p = mmap(NULL, e->size, PROT_READ | PROT_WRITE, MAP_SHARED, e->fd, (off_t)e->at);
        (void)cuCtxGetCurrent(&ctx);
        maps[map_add(p, e->size, e, true, pool)].ctx = fake_root(ctx);
        *dptr = (CUdeviceptr)(uintptr_t)p;
        if (pool)
            pool->used += e->size;
        if (pool && pool->used > pool->reserved)
            fake_pool_resize(pool, pool->used);
    }
    pthread_mutex_unlock(&lock);
    return e ? 0 : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult plain_alloc(CUdeviceptr *dptr, size_t bytes)
{
    CUdevice dev;

    return cuCtxGetDevice(&dev) != 0 ? 201 : fake_memory_alloc(dptr, bytes, dev, NULL);
}

static CUresult managed_alloc(CUdeviceptr *dptr, size_t bytes)
{
    CUresult r = plain_alloc(dptr, bytes);

    pthread_mutex_lock(&lock);
    for (int i = 0; r == 0 && i < maps_high; i++)
        if (maps[i].extent && maps[i].at == (void *)(uintptr_t)*dptr)
            maps[i].managed = true;
    pthread_mutex_unlock(&lock);
    return r;
}

/* Of a pool: what that holds stays as it is. `plain` is what else may be freed. */
CUresult fake_memory_free(CUdeviceptr dptr, bool plain)
{
    CUresult r = CUDA_ERROR_INVALID_VALUE;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < maps_high; i++)
        if (maps[i].extent && maps[i].plain && (plain || maps[i].pool) && maps[i].at == (void *)(uintptr_t)dptr) {
            munmap(maps[i].at, maps[i].size);
            if (maps[i].pool)
                maps[i].pool->used -= maps[i].size;
            extent_drop(maps[i].extent);
            maps[i].extent = NULL;
            r = 0;
            break;
        }
    pthread_mutex_unlock(&lock);
    return r;
}

/* What was allocated in it; of a GPU's own context also what the pools of that GPU held. Mappings stay. */
void fake_memory_context_gone(CUcontext ctx, bool primary)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < maps_high; i++)
        if (maps[i].extent && maps[i].plain &&
            (maps[i].pool ? primary && maps[i].pool->dev == ctx->dev : maps[i].ctx == ctx)) {
            munmap(maps[i].at, maps[i].size);
            if (maps[i].pool) {
                maps[i].pool->used -= maps[i].size;
                fake_pool_resize(maps[i].pool, maps[i].pool->used);
            }
            extent_drop(maps[i].extent);
            maps[i].extent = NULL;
        }
    pthread_mutex_unlock(&lock);
}

static void (*inside_alloc)(void);

FAKE_API void fake_inside_alloc(void (*fn)(void))
{
    inside_alloc = fn;
}

FAKE_API CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytes)
{
    void (*fn)(void) = inside_alloc;

    FAKE_ENTER(cuMemAlloc_v2);
    if (!dptr || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    inside_alloc = NULL;
    if (fn)
        fn();
    return plain_alloc(dptr, bytes);
}

FAKE_API CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytes, unsigned int flags)
{
    (void)flags;
    FAKE_ENTER(cuMemAllocManaged);
    return managed_alloc(dptr, bytes);
}

FAKE_API CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height, unsigned int el)
{
    (void)el;
    FAKE_ENTER(cuMemAllocPitch_v2);
    *pitch = (width + 511) / 512 * 512;
    return plain_alloc(dptr, *pitch * height);
}

static bool map_pooled(CUdeviceptr dptr)
{
    bool pooled = false;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < maps_high && !pooled; i++)
        pooled = maps[i].extent && maps[i].pool && maps[i].at == (void *)(uintptr_t)dptr;
    pthread_mutex_unlock(&lock);
    return pooled;
}

FAKE_API CUresult cuMemFree_v2(CUdeviceptr dptr)
{
    FAKE_ENTER(cuMemFree_v2);
    if (!map_pooled(dptr)) /* what is of a pool is freed at once: that nobody uses it is the program's business */
        fake_wait_all();
    return fake_memory_free(dptr, true);
}

FAKE_API CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    CUdevice dev;
    struct device *d;

    FAKE_ENTER(cuMemGetInfo_v2);
    if (cuCtxGetDevice(&dev) != 0)
        return 201;
    d = device_get(dev);
    *free_bytes = (d->pages > d->used + d->others ? d->pages - d->used - d->others : 0) * GRAIN;
    *total = d->pages * GRAIN;
    return 0;
}

FAKE_API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    FAKE_ENTER(cuDeviceTotalMem_v2);
    *bytes = device_get(dev)->pages * GRAIN;
    return 0;
}

FAKE_API CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr dptr)
{
    CUresult r = CUDA_ERROR_NOT_FOUND;

    FAKE_ENTER(cuMemGetAddressRange_v2);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < maps_high; i++)
        if (maps[i].extent && dptr - (uintptr_t)maps[i].at < maps[i].size) {
            *base = (uintptr_t)maps[i].at;
            *size = maps[i].size;
            r = 0;
        }
    pthread_mutex_unlock(&lock);
    return r;
}

/* ---- virtual memory management */

FAKE_API CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const struct cuda_mem_prop *prop,
                              unsigned long long flags)
{
    struct extent *e;

    (void)flags;
    FAKE_ENTER(cuMemCreate);
    if (prop->location.type == CU_MEM_LOCATION_TYPE_HOST && prop->handle_types)
        return CUDA_ERROR_INVALID_VALUE; /* as on a card: host memory cannot be shared by handle */
    pthread_mutex_lock(&lock);
    e = prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? extent_new(prop->location.id, size) : extent_host(size);
    pthread_mutex_unlock(&lock);
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)e;
    return e ? 0 : CUDA_ERROR_OUT_OF_MEMORY;
}

/* A descriptor of the memory itself: it stays for as long as somebody has that open. */
FAKE_API CUresult cuMemExportToShareableHandle(void *share, CUmemGenericAllocationHandle handle, int type,
                                               unsigned long long flags)
{
    struct extent *e = (struct extent *)(uintptr_t)handle;

    (void)type, (void)flags;
    FAKE_ENTER(cuMemExportToShareableHandle);
    e->shared = true;
    *(int *)share = fcntl(e->fd, F_DUPFD_CLOEXEC, 0);
    return *(int *)share < 0 ? CUDA_ERROR_OUT_OF_MEMORY : 0;
}

FAKE_API CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *share, int type)
{
    int fd = fcntl((int)(intptr_t)share, F_DUPFD_CLOEXEC, 0);
    struct extent *e;
    struct stat st;

    (void)type;
    FAKE_ENTER(cuMemImportFromShareableHandle);
    if (fd < 0 || fstat(fd, &st) < 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    e = extent_add((struct extent){ .fd = fd, .dev = -1, .size = (uint64_t)st.st_size, .refs = 1, .shared = true });
    pthread_mutex_unlock(&lock);
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)e;
    return 0;
}

FAKE_API CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    FAKE_ENTER(cuMemRelease);
    pthread_mutex_lock(&lock);
    extent_drop((struct extent *)(uintptr_t)handle);
    pthread_mutex_unlock(&lock);
    return 0;
}

static int map_at(CUdeviceptr ptr)
{
    for (int i = 0; i < maps_high; i++)
        if (maps[i].extent && ptr >= (uintptr_t)maps[i].at && ptr < (uintptr_t)maps[i].at + maps[i].size)
            return i;
    return -1;
}

static struct extent *extent_at(CUdeviceptr ptr)
{
    int i = map_at(ptr);

    return i < 0 ? NULL : maps[i].extent;
}

/* Is it memory that the stream's GPU may not reach: another's, or mapped for others alone? */
bool fake_memory_elsewhere(CUdeviceptr ptr, CUstream stream)
{
    bool is;
    int i;

    if ((uintptr_t)stream <= 2 || !getenv("FAKE_CUDA_DEVICES"))
        return false;
    pthread_mutex_lock(&lock);
    i = map_at(ptr);
    is = i >= 0 && (maps[i].plain ? maps[i].extent->dev != stream->dev : !(maps[i].access >> stream->dev & 1));
    pthread_mutex_unlock(&lock);
    return is;
}

FAKE_API CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
    struct extent *e;

    FAKE_ENTER(cuMemRetainAllocationHandle);
    pthread_mutex_lock(&lock);
    e = extent_at((CUdeviceptr)(uintptr_t)addr);
    if (e)
        e->refs++;
    pthread_mutex_unlock(&lock);
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)e;
    return e ? 0 : CUDA_ERROR_INVALID_VALUE;
}

FAKE_API CUresult cuMemGetAllocationPropertiesFromHandle(struct cuda_mem_prop *prop,
                                                         CUmemGenericAllocationHandle handle)
{
    struct extent *e = (struct extent *)(uintptr_t)handle;

    FAKE_ENTER(cuMemGetAllocationPropertiesFromHandle);
    *prop = (struct cuda_mem_prop){ .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .location = { e->dev < 0 ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE,
                                                  e->dev < 0 ? 0 : e->dev } };
    return 0;
}

FAKE_API bool fake_is_host(CUdeviceptr ptr)
{
    struct extent *e;

    pthread_mutex_lock(&lock);
    e = extent_at(ptr);
    pthread_mutex_unlock(&lock);
    return e && e->dev < 0;
}

static uint64_t registered;

FAKE_API uint64_t fake_mapped_host(void)
{
    uint64_t sum = registered;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < maps_high; i++)
        if (maps[i].extent && maps[i].extent->dev < 0)
            sum += maps[i].size;
    pthread_mutex_unlock(&lock);
    return sum;
}

FAKE_API CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t align, CUdeviceptr at, unsigned long long f)
{
    void *p;

    (void)align, (void)at, (void)f;
    FAKE_ENTER(cuMemAddressReserve);
    p = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    *ptr = (CUdeviceptr)(uintptr_t)p;
    return p == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : 0;
}

FAKE_API CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    FAKE_ENTER(cuMemAddressFree);
    return munmap((void *)(uintptr_t)ptr, size) == 0 ? 0 : CUDA_ERROR_INVALID_VALUE;
}

FAKE_API CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                           unsigned long long flags)
{
    struct extent *e = (struct extent *)(uintptr_t)handle;
    CUresult r = 0;

    (void)flags;
    FAKE_ENTER(cuMemMap);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < maps_high; i++)
        if (maps[i].extent && (uintptr_t)maps[i].at < ptr + size && ptr < (uintptr_t)maps[i].at + maps[i].size)
            r = CUDA_ERROR_INVALID_VALUE; /* something is mapped there */
    if (r == 0 && mmap((void *)(uintptr_t)ptr, size, PROT_NONE, MAP_SHARED | MAP_FIXED, e->fd,
                       (off_t)(e->at + offset)) == MAP_FAILED)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0) {
        e->refs++;
        maps[map_add((void *)(uintptr_t)ptr, size, e, false, NULL)].offset = offset;
    }
    pthread_mutex_unlock(&lock);
    return r;
}

FAKE_API CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    CUresult r = CUDA_ERROR_INVALID_VALUE;

    FAKE_ENTER(cuMemUnmap);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < maps_high; i++)
        if (maps[i].extent && !maps[i].plain && (uintptr_t)maps[i].at >= ptr && (uintptr_t)maps[i].at < ptr + size) {
            (void)mmap(maps[i].at, maps[i].size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
            extent_drop(maps[i].extent);
            maps[i].extent = NULL;
            r = 0;
        }
    pthread_mutex_unlock(&lock);
    return r;
}

static uint64_t grants[DEVICES];

FAKE_API uint64_t fake_grants(int dev)
{
    return grants[dev];
}

FAKE_API CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const struct cuda_access *desc, size_t count)
{
    FAKE_ENTER(cuMemSetAccess);
    for (size_t i = 0; i < count; i++)
        if (desc[i].flags == CU_MEM_ACCESS_READWRITE && desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE)
            grants[desc[i].location.id % DEVICES]++;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < maps_high; i++)
        if (maps[i].extent && (uintptr_t)maps[i].at >= ptr && (uintptr_t)maps[i].at < ptr + size) {
            maps[i].open = true;
            for (size_t k = 0; k < count; k++)
                if (desc[k].location.type == CU_MEM_LOCATION_TYPE_DEVICE && desc[k].flags == CU_MEM_ACCESS_READWRITE)
                    maps[i].access |= 1u << desc[k].location.id;
                else if (desc[k].location.type == CU_MEM_LOCATION_TYPE_DEVICE)
                    maps[i].access &= ~(1u << desc[k].location.id);
        }
    pthread_mutex_unlock(&lock);
    return mprotect((void *)(uintptr_t)ptr, size, PROT_READ | PROT_WRITE) == 0 ? 0 : CUDA_ERROR_INVALID_VALUE;
}

/* Of one size, as the library's blocks are: what is registered is how many there are of them. */
static size_t register_size;

FAKE_API CUresult cuMemHostRegister_v2(void *ptr, size_t bytes, unsigned int flags)
{
    (void)ptr, (void)flags;
    FAKE_ENTER(cuMemHostRegister_v2);
    register_size = bytes;
    registered += bytes;
    return 0;
}

FAKE_API CUresult cuMemHostUnregister(void *ptr)
{
    (void)ptr;
    FAKE_ENTER(cuMemHostUnregister);
    registered -= registered < register_size ? registered : register_size;
    return 0;
}

FAKE_API CUresult cuMemHostAlloc(void **ptr, size_t bytes, unsigned int flags)
{
    (void)flags;
    FAKE_ENTER(cuMemHostAlloc);
    *ptr = malloc(bytes);
    return 0;
}

FAKE_API CUresult cuMemFreeHost(void *ptr)
{
    FAKE_ENTER(cuMemFreeHost);
    free(ptr);
    return 0;
}

/* ---- the driver's checkpoint: device memory leaves the card, and comes back to the same addresses */

/* What a checkpoint does not know: managed memory, and what other processes have of this one's or the other way. */
static _Atomic int opened;

FAKE_API CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *dptr, struct cuda_ipc_mem handle, unsigned int flags)
{
    (void)handle, (void)flags;
    FAKE_ENTER(cuIpcOpenMemHandle_v2);
    *dptr = 0x1000;
    opened++;
    return 0;
}

FAKE_API CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
    (void)dptr;
    FAKE_ENTER(cuIpcCloseMemHandle);
    opened--;
    return 0;
}

static bool memory_unknown(void)
{
    bool is = opened > 0;

    for (const struct extent *e = extents; e; e = e->next)
        is = is || e->shared;
    for (int i = 0; i < maps_high; i++)
        is = is || (maps[i].extent && maps[i].managed);
    return is;
}

static void maps_show(const struct extent *e)
{
    for (int i = 0; i < maps_high; i++) {
        int open = maps[i].open ? PROT_READ | PROT_WRITE : PROT_NONE;

        if (maps[i].extent != e)
            continue;
        if (e->saved)
            (void)mmap(maps[i].at, maps[i].size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        else
            (void)mmap(maps[i].at, maps[i].size, open, MAP_SHARED | MAP_FIXED, e->fd, (off_t)(e->at + maps[i].offset));
    }
}

CUresult fake_memory_save(void)
{
    CUresult r = 0;

    pthread_mutex_lock(&lock);
    if (memory_unknown())
        r = 801; /* not supported */
    for (struct extent *e = extents; e && r == 0; e = e->next) {
        if (e->dev < 0)
            continue;
        e->saved = malloc(e->size);
        if (!e->saved || pread(e->fd, e->saved, e->size, (off_t)e->at) != (ssize_t)e->size)
            abort();
        maps_show(e);
        pages_give(e->card, e->at, e->size);
    }
    pthread_mutex_unlock(&lock);
    return r;
}

/* Which card every device will be: all that hold memory must be named, and all names be cards. */
static CUresult cards_choose(const int *from, const int *to, unsigned int pairs, int *ret_card)
{
    bool named[DEVICES] = { false };

    memcpy(ret_card, card_of, sizeof(card_of));
    for (unsigned int i = 0; i < pairs; i++)
        for (int dev = 0; dev < DEVICES; dev++)
            if (card_of[dev] == from[i] && to[i] >= 0) {
                ret_card[dev] = to[i];
                named[dev] = true;
            }
    for (const struct extent *e = extents; e && pairs; e = e->next)
        if (e->dev >= 0 && !named[e->dev])
            return CUDA_ERROR_INVALID_VALUE;
    return pairs && !named[0] ? CUDA_ERROR_INVALID_VALUE : 0;
}

CUresult fake_memory_bring(const int *from, const int *to, unsigned int pairs)
{
    struct extent *e, *undo;
    int card[DEVICES];
    CUresult r;

    pthread_mutex_lock(&lock);
    r = cards_choose(from, to, pairs, card);
    for (e = extents; e && r == 0; e = e->next) {
        if (e->dev < 0)
            continue;
        e->card = card_get(card[e->dev]);
        e->at = pages_take(e->card, e->size);
        if (e->at == UINT64_MAX)
            break;
    }
    if (e && r == 0) {
        r = CUDA_ERROR_OUT_OF_MEMORY;
        for (undo = extents; undo != e; undo = undo->next)
            if (undo->dev >= 0)
                pages_give(undo->card, undo->at, undo->size);
    }
    for (e = extents; e && r == 0; e = e->next) {
        if (e->dev < 0)
            continue;
        e->fd = e->card->fd;
        if (pwrite(e->fd, e->saved, e->size, (off_t)e->at) != (ssize_t)e->size)
            abort();
        free(e->saved);
        e->saved = NULL;
        maps_show(e);
    }
    if (r == 0)
        memcpy(card_of, card, sizeof(card_of));
    pthread_mutex_unlock(&lock);
    return r;
}
