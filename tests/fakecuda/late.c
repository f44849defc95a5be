/* SPDX-License-Identifier: Apache-2.0 */
/* late.c - a part of the driver that is loaded while the program runs, as the real one's compiler is: what it looks up
 * must be the driver's own. */
#include <dlfcn.h>

__attribute__((visibility("default"))) void *late_asks(void *driver, const char *name);
void *late_asks(void *driver, const char *name)
{
    void *found = dlsym(driver, name);

    __asm__ volatile("" : "+r"(found)); /* no tail call: whoever asks is told by the return address */
    return found;
}
