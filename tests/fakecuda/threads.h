/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* threads.h - what the programs for the thread sanitizer begin with: the library's own sources, the fake driver found
 * as the real one is, a context, a kernel, an arena and the process page. */
#include <pthread.h>
#include <stdlib.h>

#define PLAY_FAIL(...) abort()
#include "unit/shim_play.h"

#include "shim/shim.h"

void muster_step(void);
uint64_t muster_gpu_stat(const char *name);

static CUresult (*set_current)(CUcontext);
static CUcontext ctx;
static CUfunction kernel;
static struct arena arena = { .magic = PAGE_MAGIC, .rg_state = RG_IDLE, .ot_count = 1, .gap_pred_us = 500 };
static _Atomic int stop, bad;

/* 0, or the status to end with. */
static int threads_begin(void)
{
    CUfunction (*make_kernel)(const char *, void (*)(const uint64_t *), unsigned int, unsigned int);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);

    if (!driver)
        return 77;
    *(void **)&set_current = dlsym(driver, "cuCtxSetCurrent");
    *(void **)&make_kernel = dlsym(driver, "fake_kernel_register");
    kernel = make_kernel("work", NULL, 0, 20);
    __atomic_store_n(&shim.arena[0], &arena, __ATOMIC_RELEASE);
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || set_current(ctx))
        return 1;
    stat_of = muster_gpu_stat;
    page = page_find();
    return page ? 0 : 1;
}

/* Until when, from the first argument: seconds. */
static uint64_t threads_end(int argc, char **argv)
{
    return now_ns() + (argc > 1 ? strtoull(argv[1], NULL, 10) : 3) * 1000000000ULL;
}
