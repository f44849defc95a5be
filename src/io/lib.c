/* SPDX-License-Identifier: Apache-2.0 */
#include "io/lib.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* POSIX has dlsym() give functions as data pointers. */
static int symbols_find(void *library, const char *const *names, size_t count, char *table, struct error *err)
{
    for (size_t i = count; i-- > 0;) {
        void *symbol = dlsym(library, names[i]);

        if (!symbol)
            return error_set(err, -ENOSYS, "it has no %s", names[i]);
        memcpy(table + i * sizeof(symbol), &symbol,
               sizeof(symbol)); /* the first comes last: it says that all is there */
    }
    return 0;
}

int lib_open(const char *file, const char *const *names, size_t count, void *table, struct error *err)
{
    void *first, *library;
    int r = 0;

    pthread_mutex_lock(&lock);
    memcpy(&first, table, sizeof(first));
    if (!first) {
        library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
        r = library ? symbols_find(library, names, count, table, err) : error_set(err, -ENOENT, "it is not installed");
        if (r < 0)
            r = error_prefix(err, r, "the library %s", file);
    }
    pthread_mutex_unlock(&lock);
    return r;
}
