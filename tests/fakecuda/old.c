/* SPDX-License-Identifier: Apache-2.0 */
/* old.c - a driver of long ago, with a handful of functions: what the library does where nearly everything is missing.
 */
#include <stdlib.h>

#include "shim/cuda_abi.h"

#define API __attribute__((visibility("default")))
static int context;

API CUresult cuInit(unsigned int flags)
{
    (void)flags;
    return 0;
}

API CUresult cuDriverGetVersion(int *version)
{
    *version = 9000;
    return 0;
}

API CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
    (void)dev;
    *ctx = (CUcontext)(void *)&context;
    return 0;
}

API CUresult cuCtxGetDevice(CUdevice *dev)
{
    *dev = 0;
    return 0;
}

API CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytes)
{
    *dptr = (CUdeviceptr)(uintptr_t)malloc(bytes);
    return *dptr ? 0 : CUDA_ERROR_OUT_OF_MEMORY;
}

API CUresult cuMemFree_v2(CUdeviceptr dptr)
{
    free((void *)(uintptr_t)dptr);
    return 0;
}

/* Its arguments stay where the caller put them. */
API CUresult cuLaunchKernel(void)
{
    return 0;
}
