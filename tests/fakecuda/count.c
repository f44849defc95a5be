/* SPDX-License-Identifier: Apache-2.0 */
/* count.c - count N real|hooked: so many launches, by the driver's own function or as a program makes them. For
 * something that counts instructions: all else is the same. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"

typedef CUresult (*launch_fn)(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                              unsigned int, unsigned int, CUstream, void **);

int main(int argc, char **argv)
{
    launch_fn hooked = cuLaunchCooperativeKernel, launch = NULL;
    void *(*real)(const char *) = NULL;
    void (*step)(void) = NULL;
    CUfunction f = fake_kernel_register("nothing", NULL, 0, 0);
    CUcontext ctx;

    *(void **)&real = dlsym(RTLD_DEFAULT, "muster_gpu_real");
    *(void **)&step = dlsym(RTLD_DEFAULT, "muster_step");
    if (argc < 3 || !real || !step || cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx))
        return 1;
    step(); /* boundaries are known, as in a PyTorch job: tiers 2 and 3 do not look at launches */
    *(void **)&launch = real("cuLaunchCooperativeKernel");
    if (!launch || launch == hooked || hooked(f, 8, 1, 1, 128, 1, 1, 0, NULL, NULL))
        return 1;
    if (strcmp(argv[2], "hooked") == 0)
        launch = hooked;
    for (long i = atol(argv[1]); i > 0; i--)
        (void)launch(f, 8, 1, 1, 128, 1, 1, 0, NULL, NULL);
    return 0;
}
