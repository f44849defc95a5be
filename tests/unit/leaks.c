/* SPDX-License-Identifier: Apache-2.0 */
/* leaks.c - of a test with the preloaded library under sanitizers: what is no leak of ours. Streams and graphs that a
 * test does not destroy are the fake driver's; what a failed dlsym() said stays with a thread that is there at the end.
 * Whoever tells functions by their addresses is started without the library, which it could not load.
 */
#include <stdlib.h>

const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:dlerror\nleak:libcuda.so.1\n";
}

__attribute__((constructor)) static void preload_forget(void)
{
    (void)unsetenv("LD_PRELOAD");
}
