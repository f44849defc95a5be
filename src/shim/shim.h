/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* shim.h - what the files of the preloaded library know of each other.
 *
 * Rules of this library: no abort, exit or assert; nothing is allocated after start but from fixed tables; no lock is
 * held across a driver call or a wait; errno is left as it was; an unknown thing is passed on and counted. `shim.on` is
 * the one word a hooked call looks at when nothing was asked of us.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/cuda_abi.h"
#include "shim/page.h"

#define EXPORT __attribute__((visibility("default")))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define TLS __thread __attribute__((tls_model("initial-exec")))
#define MIB ((uint64_t)1 << 20)
#define NSEC_USEC ((uint64_t)1000)
#define NSEC_MSEC (1000 * NSEC_USEC)
#define NSEC_SEC (1000 * NSEC_MSEC)

#include "shim/context.h"
#include "shim/inside.h"
#include "shim/thread.h"

/* Number and type of every hooked function. */
#define HOOK_SPECIAL(name, group, act, params, args)                                                                   \
    typedef CUresult(*fn_##name) params;                                                                               \
    EXPORT CUresult name params;
#define HOOK_TRACK HOOK_SPECIAL
#define HOOK_COPY(name, group, act, params, args, stream, n) HOOK_SPECIAL(name, group, act, params, args)
#include "shim/hooks.def"
#undef HOOK_SPECIAL
#undef HOOK_COPY
#define NEED(name, params) typedef CUresult(*fn_##name) params;
#include "shim/needs.def"
#undef NEED

enum hook_index {
#define HOOK_SPECIAL(name, group, act, params, args) HOOK_##name,
#define HOOK_COPY(name, group, act, params, args, stream, n) HOOK_##name,
#include "shim/hooks.def"
#undef HOOK_SPECIAL
#undef HOOK_COPY
#undef HOOK_TRACK
    HOOK_COUNT,
    NEED_FIRST = HOOK_COUNT - 1,
#define NEED(name, params) HOOK_##name,
#include "shim/needs.def"
#undef NEED
    FUNC_COUNT
};

enum shim_mode { MODE_COUNT_ONLY, MODE_CAP, MODE_SPILL };

struct shim {
    _Atomic uint32_t on;       /* 0: inert, every wrapper is a jump; 1: active; else SHIM_NOT_STARTED, SHIM_LEAVING */
    _Atomic uint32_t hold;     /* HOLD_ALL: submissions wait; HOLD_SHORT: little is kept in flight. A futex */
    _Atomic uint32_t captures; /* stream captures under way */
    _Atomic uint32_t stopping;
    uint32_t role, mode, window_us, leak_from; /* the last two of the gate, for experiments */
    uint32_t tier_min;                         /* better signals of a step than this one are ignored; for experiments */
    _Atomic bool registered;
    bool required, debug, split, warm;
    bool context_told; /* the environment says how large a context is */
    int page_fd;
    struct page *page;                             /* never NULL: a private page until one is given */
    struct arena *arena[PAGE_GPUS];                /* NULL until given */
    struct beside *beside[PAGE_GPUS];              /* NULL until given */
    uint64_t memory_bytes, host_bytes, pool_bytes; /* what the environment asked for */
    uint32_t share;                                /* permille of the time; 0 = not asked */
    void *real[FUNC_COUNT];
};
extern struct shim shim;

/* The driver's own function; NULL when this driver has none. */
#define REAL(name) ((fn_##name)shim.real[HOOK_##name])
#define HAVE(name) (shim.real[HOOK_##name] != NULL)

/* --- resolve.c */
/* Finds the driver if it is loaded (or loads it when `load`) and fills shim.real. True when it is there. */
bool resolve_driver(bool load);
void *resolve_libc(const char *name);
void *resolve_any(const char *name); /* a symbol of any loaded object, or NULL */
void *resolve_in(const char *library, const char *name);
void *resolve_next(const char *name); /* the object after us, for what we stand in front of */
void *resolve_real(const char *name); /* the driver's, of a hooked name */
uint32_t resolve_substitutions(void);
bool resolve_differs(void);

void *nvml_pick(const char *name); /* our answer to this question, NULL: the library's own */

/* --- enter.c */
/* First use: environment, driver, registration. Cheap afterwards. */
void enter_start(void);
void enter_context(CUcontext ctx, CUdevice dev); /* a context came to be */
uint32_t enter_context_gone(CUcontext ctx);      /* its number; 0: not known */
void enter_uuids(void);                          /* which GPUs are these now? */
CUcontext enter_context_of(int gpu);
int enter_device(void);                   /* GPU of the calling thread's context; -1 none */
int enter_stream_device(CUstream stream); /* GPU of the stream */
int enter_page_fd(void);                  /* memory for a process page, to be handed on; -1 */
uint64_t clock_ns(void);
long futex_wait(const _Atomic uint32_t *word, uint32_t seen, uint64_t timeout_ns);
void futex_wake(_Atomic uint32_t *word);
void nap_ns(uint64_t ns);
void shim_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline struct page_counters *counters_mine(void)
{
    if (unlikely(shim_thread.stripe == 0)) {
        static _Atomic uint32_t next;
        shim_thread.stripe = 1 + (atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) % PAGE_STRIPES);
    }
    return &shim.page->counters[shim_thread.stripe - 1];
}

#define COUNT_ADD(field, n) __atomic_fetch_add(&counters_mine()->field, (uint64_t)(n), __ATOMIC_RELAXED)

#define SHIM_NOT_STARTED 2u /* before the first call */
#define SHIM_LEAVING 3u     /* the process exits: inert, but what is ours is still given back as ours */
#define HOLD_ALL 1u
#define HOLD_SHORT 2u
/* The first call of all resolves the driver and registers. */
static inline uint32_t shim_state(void)
{
    uint32_t on = atomic_load_explicit(&shim.on, memory_order_acquire);

    if (unlikely(on == SHIM_NOT_STARTED)) {
        enter_start();
        on = atomic_load_explicit(&shim.on, memory_order_acquire);
    }
    return on;
}

/* False: inert, pass the call on. */
static inline bool shim_ready(void)
{
    return shim_state() == 1;
}

#include "shim/capture.h"

/* Has this thread begun a capture that is under way? What it calls without naming a stream is part of that. */
static inline bool thread_captures(void)
{
    return capture_any() && capture_mine();
}

/* --- gate/gate.c */
/* Waits until a submission may go on, and counts it as inside until submit_leave(). */
struct submit {
    struct page_counters *stripe;
    uint64_t key;
    CUstream stream;
    uint32_t cost_us, depth; /* of its thread's record, before it entered */
    int32_t probe;           /* slot of a timing probe, -1 none */
    bool gated, brief;
    bool captured; /* it is recorded, or an error: the driver's alone */
    struct inside_mark mark;
};
enum submit_kind { SUBMIT_KERNEL, SUBMIT_GRAPH, SUBMIT_COPY, SUBMIT_MEMORY }; /* memory: waits as a copy does */
void submit_enter(struct submit *submit, enum submit_kind kind, uint64_t key, CUstream stream);
void submit_enter_capture(struct submit *submit); /* it begins one: waits as a copy does, and is inside */
void submit_leave(struct submit *submit, CUresult result);
bool gate_quiet(uint64_t deadline_ns);  /* helper: nobody is between enter and leave */
struct admit_rule gate_rule(void);      /* what holds now: admit.h */
void gate_lease_own(uint64_t until_ns); /* nobody else will write one for a while */
void gate_hold(void);
void gate_release(void);

/* --- gate/fence.c: estimates and what is in flight (opportunistic side) */
uint32_t fence_estimate(uint64_t key);
int32_t fence_probe_begin(uint64_t key, CUstream stream);
void fence_probe_end(int32_t probe, CUstream stream);
void fence_submitted(CUstream stream, uint32_t cost_us);
uint64_t fence_inflight_us(void);
void fence_poll(void);
void fence_cover(CUstream stream);

/* --- gate/slice.c */
int slice_set(uint32_t us); /* 0, or -errno: time slices are off */
uint32_t slice_groups(void);

/* --- helper.c */
void helper_start(void);
int helper_register(void); /* 0, or -errno within 50 ms; -EINPROGRESS: the helper sees to the rest */
bool helper_welcome(void); /* is it registered? Waits for the answer if one is to come, 2 s at most */
#define NOTE_ALONE "no node side has answered "
void helper_device(int gpu);
void helper_need(int gpu, uint64_t bytes);
void helper_forked(void);
bool helper_thread(void *(*run)(void *)); /* one of ours: no signals, a small stack. False: none can be had */

#include "shim/gate/guaranteed.h"
#include "shim/memory/mem.h"
#include "shim/steps/step.h"
