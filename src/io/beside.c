/* SPDX-License-Identifier: Apache-2.0 */
/* beside.c - see beside.h. */
#include "io/beside.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int beside_find(const char *name, char *path, size_t size)
{
    /* In the same folder; from PREFIX/bin or sbin; from PREFIX/libexec/muster; where the build was told to put it. */
    static const char *const places[] = {
        "", "../libexec/muster/", "../../bin/", "../../sbin/", "../bin/", "../sbin/"
    };
    ssize_t length = readlink("/proc/self/exe", path, size - 1);
    char *slash;

    path[length > 0 ? length : 0] = '\0';
    slash = strrchr(path, '/');
    for (size_t i = 0; slash && i < sizeof(places) / sizeof(places[0]); i++) {
        size_t room = size - (size_t)(slash + 1 - path);

        if (snprintf(slash + 1, room, "%s%s", places[i], name) < (int)room && access(path, X_OK) == 0)
            return 0;
    }
    if (snprintf(path, size, MUSTER_LIBEXEC "/%s", name) < (int)size && access(path, X_OK) == 0)
        return 0;
    return -ENOENT;
}
