/* SPDX-License-Identifier: Apache-2.0 */
/* fake_rest.c - every hooked name that has no body of its own, made from the same table as the hooks: it counts the
 * call and succeeds. Also the table of names the look-up functions read. */
#include <string.h>

#include "fake.h"

#define WEAK __attribute__((weak, visibility("default")))
#define HOOK_SPECIAL(name, group, act, params, args)                                                                   \
    WEAK CUresult name params;                                                                                         \
    WEAK CUresult name params                                                                                          \
    {                                                                                                                  \
        FAKE_ENTER(name);                                                                                              \
        return 0;                                                                                                      \
    }
#define HOOK_TRACK HOOK_SPECIAL
#define HOOK_COPY(name, group, act, params, args, stream, n) HOOK_SPECIAL(name, group, act, params, args)
#include "shim/hooks.def"
#undef HOOK_SPECIAL
#undef HOOK_TRACK
#undef HOOK_COPY

/* Not hooked: the audit's other half. Their arguments stay where the caller put them. */
#define UNHOOKED(name, since)                                                                                          \
    WEAK CUresult name(void);                                                                                          \
    WEAK CUresult name(void)                                                                                           \
    {                                                                                                                  \
        FAKE_ENTER(name);                                                                                              \
        return 0;                                                                                                      \
    }
#include "unhooked.def"
#undef UNHOOKED

/* A name from the future. */
FAKE_API CUresult cuLaunchKernel_v99(void);
FAKE_API CUresult cuLaunchKernel_v99(void)
{
    FAKE_ENTER(cuLaunchKernel_v99);
    return 0;
}

FAKE_API void *fake_symbol(const char *name);
FAKE_API void *fake_symbol(const char *name)
{
    static const struct {
        const char *name;
        void *fn;
    } all[] = {
#define HOOK_SPECIAL(name, group, act, params, args) { #name, (void *)&name },
#define HOOK_TRACK HOOK_SPECIAL
#define HOOK_COPY(name, group, act, params, args, stream, n) { #name, (void *)&name },
#include "shim/hooks.def"
#define UNHOOKED(name, since) { #name, (void *)&name },
#include "unhooked.def"
#undef UNHOOKED
        { "cuLaunchKernel_v99", (void *)&cuLaunchKernel_v99 },
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(all[i].name, name) == 0)
            return all[i].fn;
    return NULL;
}
