/* SPDX-License-Identifier: Apache-2.0 */
/* launch_bench.c - nanoseconds a launch of an empty kernel takes the calling thread: the median of many short bursts.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "shim/cuda_abi.h"

#define BURSTS 400
#define LAUNCHES 200

static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry nothing()\n{ ret; }\n";

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

#define GET(name, ...)                                                                                                 \
    CUresult (*name)(__VA_ARGS__) = NULL;                                                                              \
    *(void **)&name = dlsym(h, #name)

int main(void)
{
    void *h = dlopen("libcuda.so.1", RTLD_NOW), *module = NULL;
    static double ns[BURSTS];
    CUcontext ctx;
    CUfunction f;

    if (!h)
        return 77;
    GET(cuInit, unsigned int);
    GET(cuDevicePrimaryCtxRetain, CUcontext *, CUdevice);
    GET(cuCtxSetCurrent, CUcontext);
    GET(cuCtxSynchronize, void);
    GET(cuModuleLoadData, void **, const void *);
    GET(cuModuleGetFunction, CUfunction *, void *, const char *);
    GET(cuLaunchKernel, CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
        unsigned int, CUstream, void **, void **);
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx) || cuModuleLoadData(&module, ptx) ||
        cuModuleGetFunction(&f, module, "nothing"))
        return 1;
    for (int b = 0; b < BURSTS; b++) {
        double start;

        (void)cuCtxSynchronize();
        start = now_ns();
        for (int i = 0; i < LAUNCHES; i++)
            if (cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL))
                return 1;
        ns[b] = (now_ns() - start) / LAUNCHES;
    }
    qsort(ns, BURSTS, sizeof(ns[0]), by_value);
    (void)printf("%.1f %.1f\n", ns[BURSTS / 2], ns[BURSTS / 10]);
    return 0;
}
