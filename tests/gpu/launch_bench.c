/* SPDX-License-Identifier: Apache-2.0 */
/* launch_bench.c - what the library adds to the launch of an empty kernel on a real driver.
 *
 * One process holds both functions: the wrapper and, asked of the library, the driver's own. Short bursts of the two
 * take turns, the order of each pair by chance, and each pair gives one difference; a machine that speeds up and slows
 * down does so for both. Prints the driver's own median, the median difference and its 95 % interval, in nanoseconds.
 * Without the library: the median, 0 and the interval of the driver against itself, which is what the method resolves.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "shim/cuda_abi.h"

#define PAIRS 3000
#define LAUNCHES 100

static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry nothing()\n{ ret; }\n";

typedef CUresult (*launch_fn)(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                              unsigned int, unsigned int, CUstream, void **, void **);

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

static double burst(launch_fn launch, CUfunction f, CUresult (*sync)(void))
{
    double start;

    (void)sync();
    start = now_ns();
    for (int i = 0; i < LAUNCHES; i++)
        if (launch(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL))
            exit(1);
    return (now_ns() - start) / LAUNCHES;
}

int main(void)
{
    void *h = dlopen("libcuda.so.1", RTLD_NOW), *module = NULL;
    static double own[PAIRS], added[PAIRS];
    void *(*real)(const char *) = NULL;
    launch_fn wrapper = NULL, driver = NULL;
    int half = (int)(0.98 * sqrt((double)PAIRS)); /* half the 95 % interval of a median, in ranks */
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
    *(void **)&wrapper = dlsym(h, "cuLaunchKernel");
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx) || cuModuleLoadData(&module, ptx) ||
        cuModuleGetFunction(&f, module, "nothing"))
        return 1;
    *(void **)&real = dlsym(RTLD_DEFAULT, "muster_gpu_real");
    *(void **)&driver = real ? real("cuLaunchKernel") : (void *)wrapper;
    srand(7);
    for (int i = -200; i < PAIRS; i++) {
        int first = rand() & 1;
        double a = burst(first ? driver : wrapper, f, cuCtxSynchronize);
        double b = burst(first ? wrapper : driver, f, cuCtxSynchronize);

        if (i < 0) /* warming up */
            continue;
        own[i] = first ? a : b;
        added[i] = first ? b - a : a - b;
    }
    qsort(own, PAIRS, sizeof(own[0]), by_value);
    qsort(added, PAIRS, sizeof(added[0]), by_value);
    (void)printf("%.1f %.1f %.1f %.1f\n", own[PAIRS / 2], added[PAIRS / 2], added[PAIRS / 2 - half],
                 added[PAIRS / 2 + half]);
    return 0;
}
