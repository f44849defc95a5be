/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - the driver of this machine against what the preloaded library needs of it. */
#include "gpurt/check.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "shim/cuda_abi.h"
#include "shim/kernel.h"

#define HOST_VMM 145 /* device attribute: host memory can be mapped for the GPU */

static const char *const hooked[] = {
#define HOOK_SPECIAL(name, group, act, params, args) #name,
#define HOOK_TRACK HOOK_SPECIAL
#define HOOK_COPY(name, group, act, params, args, stream, n) #name,
#include "shim/hooks.def"
#undef HOOK_SPECIAL
#undef HOOK_TRACK
#undef HOOK_COPY
};

static int line(FILE *out, bool good, const char *what, const char *advice)
{
    (void)fprintf(out, "%s  %s%s%s\n", good ? "ok" : "no", what, good ? "" : ": ", good ? "" : advice);
    return good ? 0 : -EOPNOTSUPP;
}

static bool all_there(void *h, const char *const *names)
{
    for (; *names; names++)
        if (!dlsym(h, *names))
            return false;
    return true;
}

static bool host_mapped(void *h, CUresult (*init)(unsigned int))
{
    CUresult (*attribute)(int *, int, CUdevice) = NULL;
    int value = 0;

    *(void **)&attribute = dlsym(h, "cuDeviceGetAttribute");
    return init && attribute && init(0) == CUDA_SUCCESS && attribute(&value, HOST_VMM, 0) == CUDA_SUCCESS && value != 0;
}

int check_print(FILE *out)
{
    static const char *const launch[] = { "cuInit", "cuLaunchKernel", "cuMemAlloc_v2", "cuMemFree_v2", NULL };
    static const char *const move[] = { "cuMemCreate",         "cuMemMap",     "cuMemUnmap", "cuMemSetAccess",
                                        "cuMemAddressReserve", "cuMemRelease", NULL };
    static const char *const release[] = { "cuCheckpointProcessLock", "cuCheckpointProcessCheckpoint",
                                           "cuCheckpointProcessRestore", "cuCheckpointProcessUnlock", NULL };
    CUresult (*version)(int *) = NULL, (*init)(unsigned int) = NULL;
    size_t missing = 0;
    char text[256];
    int number = 0, r;
    void *h = dlopen("libcuda.so.1", RTLD_NOW);

    if (!h)
        return line(out, false, "a CUDA driver", "install NVIDIA's driver; programs run here without the runtime");
    *(void **)&version = dlsym(h, "cuDriverGetVersion");
    *(void **)&init = dlsym(h, "cuInit");
    if (version)
        (void)version(&number);
    (void)snprintf(text, sizeof(text), "a CUDA driver, %d.%d", number / 1000, number % 1000 / 10);
    (void)line(out, true, text, "");
    r = line(out, all_there(h, launch), "launches and memory can be seen", "this library is no CUDA driver we know");
    (void)line(out, all_there(h, move), "memory can be moved",
               "the driver is older than CUDA 10.2: memory is limited, `evict` is refused");
    (void)line(out, host_mapped(h, init), "memory above a limit can lie in host memory",
               "the GPU cannot map it: above its limit a program is out of memory");
    (void)line(out, all_there(h, release), "processes can be released",
               "driver 570 or newer can; `evict` works without");
    (void)line(out, kernel_branch_known(), "hardware time slices",
               "this driver branch was never tried: launches are held back without them; MUSTER_GPU_SLICE=1 tries it");
    for (size_t i = 0; i < sizeof(hooked) / sizeof(hooked[0]); i++)
        missing += dlsym(h, hooked[i]) == NULL;
    (void)fprintf(out, "    %zu of the %zu functions the runtime stands in front of are in this driver\n",
                  sizeof(hooked) / sizeof(hooked[0]) - missing, sizeof(hooked) / sizeof(hooked[0]));
    return r;
}
