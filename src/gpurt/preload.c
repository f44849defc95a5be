/* SPDX-License-Identifier: Apache-2.0 */
/* preload.c - see preload.h. */
#include "gpurt/preload.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int preload_find(const char *program, char *library, struct error *err)
{
    static const char *const places[] = { "libmuster_gpu.so",
                                          "../lib/libmuster_gpu.so",
                                          "../lib/x86_64-linux-gnu/libmuster_gpu.so",
                                          "../lib64/libmuster_gpu.so",
                                          "../../lib/libmuster_gpu.so",
                                          "../../lib/x86_64-linux-gnu/libmuster_gpu.so",
                                          "../../lib64/libmuster_gpu.so" };
    const char *given = getenv("MUSTER_GPU_LIBRARY"), *slash = strrchr(program, '/');
    char candidate[PATH_MAX];

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (given)
            (void)snprintf(candidate, sizeof(candidate), "%s", given);
        else if ((size_t)snprintf(candidate, sizeof(candidate), "%.*s/%s", (int)(slash ? slash - program : 0), program,
                                  places[i]) >= sizeof(candidate))
            continue;
        if (access(candidate, R_OK) == 0 && realpath(candidate, library)) {
            if (strpbrk(library, " :"))
                return error_set(err, -EINVAL, "%s: a preloaded library's path may hold no blank or colon", library);
            return 0;
        }
    }
    return error_set(err, -ENOENT, "libmuster_gpu.so is not beside %s; set MUSTER_GPU_LIBRARY", program);
}

bool preload_python(const char *library, char *folder)
{
    static const char *const places[] = { "muster/python", "src/shim/python" };
    const char *slash = strrchr(library, '/');
    char file[PATH_MAX + 32];

    for (size_t i = 0; slash && i < sizeof(places) / sizeof(places[0]); i++) {
        int n = snprintf(folder, PATH_MAX, "%.*s/%s", (int)(slash - library), library, places[i]);

        (void)snprintf(file, sizeof(file), "%s/sitecustomize.py", folder);
        if (n > 0 && n < PATH_MAX && access(file, R_OK) == 0)
            return true;
    }
    return false;
}
