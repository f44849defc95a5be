/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cleanup.h - locals that own what they point at.
 *
 * CLEANUP(store_close) struct store *store = NULL; closes it at every return. take(store) hands it on and leaves
 * NULL behind.
 */
#define CLEANUP(fn) __attribute__((cleanup(cleanup_##fn)))

/* Defines what CLEANUP(fn) calls. `fn` takes a pointer and accepts NULL. */
#define DEFINE_CLEANUP(type, fn)                                                                                       \
    static inline void cleanup_##fn(type *p)                                                                           \
    {                                                                                                                  \
        fn(*p);                                                                                                        \
    }

#define take(p)                                                                                                        \
    ({                                                                                                                 \
        __typeof__(p) taken_ = (p);                                                                                    \
        (p) = NULL;                                                                                                    \
        taken_;                                                                                                        \
    })
