/* SPDX-License-Identifier: Apache-2.0 */
/* mem_view.c - what a program is told about memory. Never an error of our own, never a negative number. */
#include <stdio.h>
#include <string.h>

#include "shim/kernel.h"
#include "shim/shim.h"

#define NO_DRIVER(name)                                                                                                \
    if (unlikely(!HAVE(name)))                                                                                         \
    return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED

/* Where a GPU is after a restore on another one: a driver may go on telling the old address. */
static char bus_now[PAGE_GPUS][KERNEL_BUS_MAX];
static _Atomic uint32_t bus_known; /* a bit a GPU */

void view_moved(int gpu)
{
    char bus[KERNEL_BUS_MAX];

    atomic_fetch_and(&bus_known, ~((uint32_t)1 << gpu));
    if (!kernel_bus(shim.page->memory[gpu].uuid, bus))
        return;
    memcpy(bus_now[gpu], bus, sizeof(bus));
    atomic_fetch_or(&bus_known, (uint32_t)1 << gpu);
}

CUresult cuDeviceGetPCIBusId(char *id, int size, CUdevice dev)
{
    bool on = shim_ready();

    NO_DRIVER(cuDeviceGetPCIBusId);
    if (!on || !id || size <= 0 || dev < 0 || dev >= PAGE_GPUS || !(atomic_load(&bus_known) >> dev & 1))
        return REAL(cuDeviceGetPCIBusId)(id, size, dev);
    (void)snprintf(id, (size_t)size, "%s", bus_now[dev]);
    return CUDA_SUCCESS;
}

/* The same address in numbers. */
CUresult cuDeviceGetAttribute(int *value, int attr, CUdevice dev)
{
    bool on = shim_ready();
    unsigned int domain, bus, device;

    NO_DRIVER(cuDeviceGetAttribute);
    if (likely(!on || !atomic_load_explicit(&bus_known, memory_order_relaxed)) || !value || dev < 0 ||
        dev >= PAGE_GPUS || !(atomic_load(&bus_known) >> dev & 1) ||
        (attr != CU_DEVICE_ATTRIBUTE_PCI_BUS_ID && attr != CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID &&
         attr != CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID) ||
        sscanf(bus_now[dev], "%x:%x:%x", &domain, &bus, &device) != 3)
        return REAL(cuDeviceGetAttribute)(value, attr, dev);
    *value = (int)(attr == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID      ? bus
                   : attr == CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID ? device
                                                               : domain);
    return CUDA_SUCCESS;
}

static uint64_t view_total(int gpu, uint64_t real)
{
    uint64_t view = gpu >= 0 && gpu < PAGE_GPUS ? shim.page->limit[gpu].view_total_bytes : 0;

    return view && view < real ? view : real;
}

static uint64_t view_free(int gpu, uint64_t real)
{
    uint64_t cap = mem_cap(gpu), used;

    if (!cap)
        return real;
    mem_pool_refresh(gpu);
    used = __atomic_load_n(&shim.page->memory[gpu].used, __ATOMIC_RELAXED);
    cap = cap > used ? cap - used : 0;
    return cap < real ? cap : real;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    bool on = shim_ready();
    size_t real_free = 0, real_total = 0;
    CUresult r;
    int gpu;

    NO_DRIVER(cuMemGetInfo_v2);
    if (!on)
        return REAL(cuMemGetInfo_v2)(free_bytes, total);
    r = REAL(cuMemGetInfo_v2)(&real_free, &real_total);
    if (r != CUDA_SUCCESS)
        return r;
    gpu = enter_device();
    if (free_bytes)
        *free_bytes = view_free(gpu, real_free);
    if (total)
        *total = view_total(gpu, real_total);
    return r;
}

CUresult cuMemGetInfo(unsigned int *free_bytes, unsigned int *total)
{
    size_t wide_free = 0, wide_total = 0;
    CUresult r;

    if (!shim_ready()) {
        NO_DRIVER(cuMemGetInfo);
        return REAL(cuMemGetInfo)(free_bytes, total);
    }
    r = cuMemGetInfo_v2(&wide_free, &wide_total);
    if (r == CUDA_SUCCESS && free_bytes)
        *free_bytes = wide_free < UINT32_MAX ? (unsigned int)wide_free : UINT32_MAX;
    if (r == CUDA_SUCCESS && total)
        *total = wide_total < UINT32_MAX ? (unsigned int)wide_total : UINT32_MAX;
    return r;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    bool on = shim_ready();
    CUresult r;

    NO_DRIVER(cuDeviceTotalMem_v2);
    r = REAL(cuDeviceTotalMem_v2)(bytes, dev);
    if (on && r == CUDA_SUCCESS && bytes)
        *bytes = view_total(dev, *bytes);
    return r;
}

CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice dev)
{
    bool on = shim_ready();
    CUresult r;

    NO_DRIVER(cuDeviceTotalMem);
    r = REAL(cuDeviceTotalMem)(bytes, dev);
    if (on && r == CUDA_SUCCESS && bytes)
        *bytes = (unsigned int)view_total(dev, *bytes);
    return r;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr dptr)
{
    bool on = shim_ready();
    CUdeviceptr start;
    uint64_t length;

    NO_DRIVER(cuMemGetAddressRange_v2);
    if (!on || !vmm_range(dptr, &start, &length))
        return REAL(cuMemGetAddressRange_v2)(base, size, dptr);
    if (base)
        *base = start;
    if (size)
        *size = length;
    return CUDA_SUCCESS;
}

/* A segment of ours is several mappings; the program asked for one allocation and is told of one. */
static void attribute_fix(int attr, void *data, CUdeviceptr ptr)
{
    CUdeviceptr base;
    uint64_t size;

    if (!data || (attr != CU_POINTER_ATTRIBUTE_RANGE_START && attr != CU_POINTER_ATTRIBUTE_RANGE_SIZE) ||
        !vmm_range(ptr, &base, &size))
        return;
    if (attr == CU_POINTER_ATTRIBUTE_RANGE_START)
        *(CUdeviceptr *)data = base;
    else
        *(size_t *)data = size;
}

CUresult cuPointerGetAttribute(void *data, int attr, CUdeviceptr ptr)
{
    bool on = shim_ready();
    CUresult r;

    NO_DRIVER(cuPointerGetAttribute);
    r = REAL(cuPointerGetAttribute)(data, attr, ptr);
    if (on && r == CUDA_SUCCESS)
        attribute_fix(attr, data, ptr);
    return r;
}

CUresult cuPointerGetAttributes(unsigned int count, int *attrs, void **data, CUdeviceptr ptr)
{
    bool on = shim_ready();
    CUresult r;

    NO_DRIVER(cuPointerGetAttributes);
    r = REAL(cuPointerGetAttributes)(count, attrs, data, ptr);
    for (unsigned int i = 0; on && r == CUDA_SUCCESS && i < count; i++)
        attribute_fix(attrs[i], data[i], ptr);
    return r;
}

CUresult cuPointerSetAttribute(const void *value, int attr, CUdeviceptr ptr)
{
    bool on = shim_ready();

    NO_DRIVER(cuPointerSetAttribute);
    if (on && attr == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && vmm_range(ptr, NULL, NULL))
        return CUDA_SUCCESS; /* plain allocations accept it, mapped ones do not */
    return REAL(cuPointerSetAttribute)(value, attr, ptr);
}

CUresult cuIpcGetMemHandle(struct cuda_ipc_mem *handle, CUdeviceptr dptr)
{
    bool on = shim_ready();

    NO_DRIVER(cuIpcGetMemHandle);
    if (on) {
        __atomic_fetch_or(&shim.page->health.flags, HEALTH_SHARED, __ATOMIC_RELAXED);
        if (vmm_range(dptr, NULL, NULL))
            vmm_native_from_now();
    }
    return REAL(cuIpcGetMemHandle)(handle, dptr);
}

/* Memory of another process, or of several GPUs at once: the driver's checkpoint knows neither. One that ends it later
 * stays marked: it may hold more. */
#define SHARED(name, params, args)                                                                                     \
    CUresult name params                                                                                               \
    {                                                                                                                  \
        bool on = shim_ready();                                                                                        \
        CUresult r;                                                                                                    \
                                                                                                                       \
        NO_DRIVER(name);                                                                                               \
        r = REAL(name) args;                                                                                           \
        if (on)                                                                                                        \
            COUNT_ADD(tracked, 1);                                                                                     \
        if (on && r == CUDA_SUCCESS)                                                                                   \
            __atomic_fetch_or(&shim.page->health.flags, HEALTH_SHARED, __ATOMIC_RELAXED);                              \
        return r;                                                                                                      \
    }
SHARED(cuIpcOpenMemHandle, (CUdeviceptr * dptr, struct cuda_ipc_mem handle, unsigned int flags), (dptr, handle, flags))
SHARED(cuIpcOpenMemHandle_v2, (CUdeviceptr * dptr, struct cuda_ipc_mem handle, unsigned int flags),
       (dptr, handle, flags))
SHARED(cuImportExternalMemory, (CUexternalMemory * ext, const struct cuda_opaque *desc), (ext, desc))
SHARED(cuMemImportFromShareableHandle, (CUmemGenericAllocationHandle * handle, void *share, int type),
       (handle, share, type))
SHARED(cuMemPoolImportFromShareableHandle, (CUmemoryPool * pool, void *handle, int type, uint64_t flags),
       (pool, handle, type, flags))
SHARED(cuMemPoolImportPointer, (CUdeviceptr * dptr, CUmemoryPool pool, void *share), (dptr, pool, share))
SHARED(cuMulticastCreate, (CUmemGenericAllocationHandle * handle, const struct cuda_opaque *prop), (handle, prop))
