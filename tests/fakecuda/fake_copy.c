/* SPDX-License-Identifier: Apache-2.0 */
/* fake_copy.c - copies and fills, and what graphs hold. */
#include <stdlib.h>

#include "fake.h"

static CUresult copy(void *dst, const void *src, size_t n, CUstream stream)
{
    struct fake_work w = { .copy = { dst, src, n, -1 } };
    int code = fake_capture_submit(stream);

    if (!code)
        fake_submit(stream, &w);
    return code;
}

#define PTR(p) ((void *)(uintptr_t)(p))
#define COPY_ASYNC(name, dst_t, src_t)                                                                                 \
    FAKE_API CUresult name(dst_t dst, src_t src, size_t n, CUstream stream)                                            \
    {                                                                                                                  \
        FAKE_ENTER(name);                                                                                              \
        return copy(PTR(dst), PTR(src), n, stream);                                                                    \
    }
#define COPY_SYNC(name, dst_t, src_t)                                                                                  \
    FAKE_API CUresult name(dst_t dst, src_t src, size_t n)                                                             \
    {                                                                                                                  \
        CUresult r;                                                                                                    \
                                                                                                                       \
        FAKE_ENTER(name);                                                                                              \
        r = copy(PTR(dst), PTR(src), n, NULL);                                                                         \
        fake_wait_all();                                                                                               \
        return r;                                                                                                      \
    }

FAKE_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t n, CUstream stream)
{
    FAKE_ENTER(cuMemcpyHtoDAsync_v2);
    return fake_memory_elsewhere(dst, stream) ? 1 : copy(PTR(dst), src, n, stream);
}

FAKE_API CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t n, CUstream stream)
{
    FAKE_ENTER(cuMemcpyDtoHAsync_v2);
    return fake_memory_elsewhere(src, stream) ? 1 : copy(dst, PTR(src), n, stream);
}

FAKE_API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream)
{
    FAKE_ENTER(cuMemcpyDtoDAsync_v2);
    return fake_memory_elsewhere(dst, stream) || fake_memory_elsewhere(src, stream)
               ? 1
               : copy(PTR(dst), PTR(src), n, stream);
}

COPY_ASYNC(cuMemcpyAsync, CUdeviceptr, CUdeviceptr)
COPY_SYNC(cuMemcpyHtoD_v2, CUdeviceptr, const void *)
COPY_SYNC(cuMemcpyDtoH_v2, void *, CUdeviceptr)

FAKE_API CUresult cuMemsetD8_v2(CUdeviceptr dst, unsigned char v, size_t n)
{
    struct fake_work w = { .copy = { PTR(dst), NULL, n, v } };

    FAKE_ENTER(cuMemsetD8_v2);
    fake_submit(NULL, &w);
    fake_wait_all();
    return 0;
}

/* Graphs: how much they hold is the test's to say. */
static _Atomic uint64_t graph_bytes[FAKE_DEVICES];

FAKE_API void fake_graph_holds(int dev, uint64_t bytes)
{
    graph_bytes[dev] = bytes;
}

FAKE_API CUresult cuDeviceGetGraphMemAttribute(CUdevice dev, int attr, void *value);
FAKE_API CUresult cuDeviceGetGraphMemAttribute(CUdevice dev, int attr, void *value)
{
    FAKE_ENTER(cuDeviceGetGraphMemAttribute);
    *(uint64_t *)value = attr == CU_GRAPH_MEM_ATTR_RESERVED_CURRENT ? graph_bytes[dev] : 0;
    return 0;
}

FAKE_API CUresult cuDeviceGraphMemTrim(CUdevice dev)
{
    FAKE_ENTER(cuDeviceGraphMemTrim);
    graph_bytes[dev] = 0;
    return 0;
}
