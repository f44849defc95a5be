/* SPDX-License-Identifier: Apache-2.0 */
/* resolve.c - how every route to the driver ends at a wrapper.
 *
 * Four routes lead to a driver function: a direct reference, dlsym, and the driver's two look-up functions. A direct
 * reference finds our export first. dlsym (dlsym.S) asks resolve_pick(): an exact hit in the table of names gives the
 * wrapper, unless the driver itself is asking or has no such function. The look-up functions ask the driver first and
 * substitute the returned *address*, so versions, flags and status come out right, and a variant nobody knows yet is
 * passed on. The real dlsym is never called by its public name here: that is ours. It is read out of the C library's
 * own symbol table, which works with every version of it.
 */
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stddef.h>
#include <stdlib.h>

#include "shim/shim.h"

#define SLOTS 1024u
#define RANGES 32
#define PER_THREAD 2u /* flag of a look-up: the per-thread default stream */

typedef void *(*dlsym_fn)(void *, const char *);
typedef void *(*dlvsym_fn)(void *, const char *, const char *);
typedef void *(*dlopen_fn)(const char *, int);

struct range {
    uintptr_t from, to;
};

static const char *const hook_name[FUNC_COUNT] = {
#define HOOK_SPECIAL(name, group, act, params, args) [HOOK_##name] = #name,
#define HOOK_TRACK HOOK_SPECIAL
#define HOOK_COPY(name, group, act, params, args, stream, n) [HOOK_##name] = #name,
#include "shim/hooks.def"
#undef HOOK_SPECIAL
#undef HOOK_COPY
#define NEED(name, params) [HOOK_##name] = #name,
#include "shim/needs.def"
#undef NEED
};

static void *const hook_wrapper[HOOK_COUNT] = {
#define HOOK_SPECIAL(name, group, act, params, args) [HOOK_##name] = (void *)&name,
#define HOOK_COPY(name, group, act, params, args, stream, n) [HOOK_##name] = (void *)&name,
#include "shim/hooks.def"
#undef HOOK_SPECIAL
#undef HOOK_COPY
#undef HOOK_TRACK
};

static const struct {
    const char *name;
    uint16_t since, per_thread;
    enum hook_index hook;
} versions[] = {
#define VERSION(name, since, per_thread, function) { #name, since, per_thread, HOOK_##function },
#include "shim/versions.def"
#undef VERSION
};

/* Read by dlsym.S. */
__attribute__((visibility("hidden"))) dlsym_fn resolve_real_dlsym;
__attribute__((visibility("hidden"))) dlvsym_fn resolve_real_dlvsym;
__attribute__((visibility("hidden"))) void *resolve_pick(void *handle, const char *name, uintptr_t caller);

static uint16_t name_slot[SLOTS]; /* hook + 1 */
static uint16_t real_slot[SLOTS];
static _Atomic uint32_t names_ready, driver_ready, substitutions, differs;

/* Of our own, because the C library's may be a sanitizer's that has not started yet. */
static bool text_same(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

static bool text_begins(const char *text, const char *with)
{
    while (*with && *text == *with)
        text++, with++;
    return !*with;
}

static const char *text_base(const char *path)
{
    const char *base = path;

    for (; path && *path; path++)
        if (*path == '/')
            base = path + 1;
    return base ? base : "";
}

static uint32_t name_hash(const char *name)
{
    uint32_t h = 2166136261u;

    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 16777619u;
    return h ^ (h >> 15);
}

static uint32_t address_hash(const void *p)
{
    uint64_t x = (uint64_t)(uintptr_t)p >> 4;

    x *= 0x9e3779b97f4a7c15ULL;
    return (uint32_t)(x >> 40);
}

static int name_find(const char *name)
{
    for (uint32_t i = name_hash(name) % SLOTS, n = 0; n < SLOTS && name_slot[i]; i = (i + 1) % SLOTS, n++)
        if (text_same(hook_name[name_slot[i] - 1], name))
            return name_slot[i] - 1;
    return -1;
}

/* ---- the C library's own functions, from its symbol table */

struct libc_search {
    const char *name;
    void *found;
};

static size_t symbol_count(const uint32_t *gnu_hash)
{
    uint32_t buckets = gnu_hash[0], offset = gnu_hash[1], bloom = gnu_hash[2], last = 0;
    const uint32_t *bucket = gnu_hash + 4 + (size_t)bloom * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = bucket + buckets;

    for (uint32_t i = 0; i < buckets; i++)
        if (bucket[i] > last)
            last = bucket[i];
    if (last < offset)
        return offset;
    while ((chain[last - offset] & 1u) == 0)
        last++;
    return (size_t)last + 1;
}

struct dynamic {
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *hash;
    const uint16_t *versions;
};

static void dynamic_read(const struct dl_phdr_info *info, struct dynamic *ret)
{
    *ret = (struct dynamic){ 0 };
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
            continue;
        for (const ElfW(Dyn) *d = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
             d->d_tag != DT_NULL; d++) {
            uintptr_t at = d->d_un.d_ptr < info->dlpi_addr ? d->d_un.d_ptr + info->dlpi_addr : d->d_un.d_ptr;

            if (d->d_tag == DT_SYMTAB)
                ret->symbols = (const ElfW(Sym) *)at;
            else if (d->d_tag == DT_STRTAB)
                ret->strings = (const char *)at;
            else if (d->d_tag == DT_GNU_HASH)
                ret->hash = (const uint32_t *)at;
            else if (d->d_tag == DT_VERSYM)
                ret->versions = (const uint16_t *)at;
        }
    }
}

static int libc_visit(struct dl_phdr_info *info, size_t size, void *data)
{
    struct libc_search *search = data;
    const char *base = text_base(info->dlpi_name);
    struct dynamic dyn;

    (void)size;
    if (!text_same(base, "libc.so.6") && !text_same(base, "libdl.so.2"))
        return 0;
    dynamic_read(info, &dyn);
    if (!dyn.symbols || !dyn.strings || !dyn.hash)
        return 0;
    for (size_t i = 1, n = symbol_count(dyn.hash); i < n; i++) {
        const ElfW(Sym) *s = &dyn.symbols[i];
        bool hidden = dyn.versions && (dyn.versions[i] & 0x8000u);

        if (s->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(s->st_info) != STT_FUNC ||
            !text_same(dyn.strings + s->st_name, search->name))
            continue;
        if (!search->found || !hidden) /* the default version wins */
            search->found = (void *)(info->dlpi_addr + s->st_value);
    }
    return 0;
}

void *resolve_libc(const char *name)
{
    struct libc_search search = { name, NULL };

    dl_iterate_phdr(libc_visit, &search);
    return search.found;
}

void *resolve_real(const char *name)
{
    int h = name_find(name);

    return h < 0 ? NULL : shim.real[h];
}

static void names_build(void)
{
    if (atomic_load_explicit(&names_ready, memory_order_acquire))
        return;
    /* Two threads may do this at once: they write the same values. */
    for (uint32_t h = 0; h < HOOK_COUNT; h++) {
        uint32_t i = name_hash(hook_name[h]) % SLOTS;

        while (name_slot[i] && name_slot[i] != h + 1)
            i = (i + 1) % SLOTS;
        name_slot[i] = (uint16_t)(h + 1);
    }
    resolve_real_dlvsym = (dlvsym_fn)resolve_libc("dlvsym");
    resolve_real_dlsym = (dlsym_fn)resolve_libc("dlsym");
    atomic_store_explicit(&names_ready, 1, memory_order_release);
}

void *resolve_any(const char *name)
{
    names_build();
    return resolve_real_dlsym ? resolve_real_dlsym(NULL, name) : NULL; /* NULL is RTLD_DEFAULT */
}

/* Of a library that is loaded, by its name; NULL when it is not. */
void *resolve_in(const char *library, const char *name)
{
    dlopen_fn open_fn = (dlopen_fn)resolve_libc("dlopen");
    void *handle = open_fn ? open_fn(library, 0x00001 | 0x00004) : NULL; /* RTLD_LAZY | RTLD_NOLOAD */

    names_build();
    return handle && resolve_real_dlsym ? resolve_real_dlsym(handle, name) : NULL;
}

void *resolve_next(const char *name)
{
    names_build();
    return resolve_real_dlsym ? resolve_real_dlsym((void *)-1L, name) : NULL; /* -1 is RTLD_NEXT */
}

/* ---- who is asking */

/* Objects of the driver's, as they lay in memory when `changes` was read. The driver loads more of its own while it
 * works: what is not found is looked for again when anything was loaded or unloaded since. */
struct ranges {
    uint64_t changes;
    uint32_t count;
    struct range one[RANGES];
};
static struct ranges ranges_kept[2];
static _Atomic uint32_t ranges_now, ranges_writing; /* which of the two holds; somebody fills the other */

static int range_visit(struct dl_phdr_info *info, size_t size, void *data)
{
    const char *base = text_base(info->dlpi_name);
    struct ranges *ranges = data;
    uintptr_t low = UINTPTR_MAX, high = 0;

    if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs))
        ranges->changes = info->dlpi_adds + info->dlpi_subs;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + ph->p_vaddr;

        if (ph->p_type != PT_LOAD)
            continue;
        low = from < low ? from : low;
        high = from + ph->p_memsz > high ? from + ph->p_memsz : high;
    }
    if (!text_begins(base, "libcuda.so") && !text_begins(base, "libnvidia-") &&
        !((uintptr_t)&resolve_driver >= low && (uintptr_t)&resolve_driver < high))
        return 0;
    if (ranges->count < RANGES)
        ranges->one[ranges->count++] = (struct range){ low, high };
    return 0;
}

static void ranges_read(void)
{
    struct ranges *other;

    if (atomic_exchange_explicit(&ranges_writing, 1, memory_order_acquire))
        return; /* another thread is at it: the caller's next look finds it */
    other = &ranges_kept[1 - atomic_load(&ranges_now)];
    other->count = 0;
    dl_iterate_phdr(range_visit, other);
    atomic_store_explicit(&ranges_now, 1 - atomic_load(&ranges_now), memory_order_release);
    atomic_store_explicit(&ranges_writing, 0, memory_order_release);
}

static int changes_visit(struct dl_phdr_info *info, size_t size, void *data)
{
    if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs))
        *(uint64_t *)data = info->dlpi_adds + info->dlpi_subs;
    return 1; /* every object says the same */
}

static bool range_found(uintptr_t caller)
{
    const struct ranges *ranges = &ranges_kept[atomic_load_explicit(&ranges_now, memory_order_acquire)];

    for (uint32_t i = 0; i < ranges->count; i++)
        if (caller >= ranges->one[i].from && caller < ranges->one[i].to)
            return true;
    return false;
}

static bool caller_is_driver(uintptr_t caller)
{
    uint64_t changes = 0;

    dl_iterate_phdr(changes_visit, &changes);
    if (changes != ranges_kept[atomic_load_explicit(&ranges_now, memory_order_acquire)].changes)
        ranges_read();
    return range_found(caller);
}

/* ---- the driver's functions */

static void real_index(void)
{
    for (uint32_t h = 0; h < HOOK_COUNT; h++) {
        uint32_t i = address_hash(shim.real[h]) % SLOTS, n = 0;

        if (!shim.real[h] || shim.real[h] == hook_wrapper[h])
            continue;
        while (real_slot[i] && shim.real[real_slot[i] - 1] != shim.real[h] && n++ < SLOTS)
            i = (i + 1) % SLOTS;
        if (!real_slot[i])
            real_slot[i] = (uint16_t)(h + 1);
    }
}

/* The driver must give the same address by both routes; where a tool stands between, say so. */
static void lookup_check(void)
{
    void *p = NULL;
    int status = 0;

    if (!HAVE(cuGetProcAddress_v2) || !HAVE(cuLaunchKernel))
        return;
    if (REAL(cuGetProcAddress_v2)("cuLaunchKernel", &p, 12000, 0, &status) == CUDA_SUCCESS && p &&
        p != shim.real[HOOK_cuLaunchKernel])
        atomic_store(&differs, 1);
}

bool resolve_driver(bool load)
{
    dlopen_fn open_fn;
    void *handle = NULL;

    if (atomic_load_explicit(&driver_ready, memory_order_acquire))
        return true;
    names_build();
    open_fn = (dlopen_fn)resolve_libc("dlopen");
    if (!open_fn || !resolve_real_dlsym)
        return false;
    handle = open_fn("libcuda.so.1", 0x00001 | 0x00004); /* RTLD_LAZY | RTLD_NOLOAD */
    if (!handle && load)
        handle = open_fn("libcuda.so.1", 0x00001);
    if (!handle)
        return false;
    for (uint32_t h = 0; h < FUNC_COUNT; h++)
        shim.real[h] = resolve_real_dlsym(handle, hook_name[h]);
    real_index();
    lookup_check();
    atomic_store_explicit(&driver_ready, 1, memory_order_release);
    return true;
}

/* Called by dlsym.S for every look-up of the process: it must be quick for names that are not ours. */
void *resolve_pick(void *handle, const char *name, uintptr_t caller)
{
    int saved = errno, h;
    void *found = NULL;

    (void)handle;
    names_build();
    if (name && name[0] == 'n' && name[1] == 'v' && (found = nvml_pick(name)) != NULL)
        found = caller_is_driver(caller) ? NULL : found;
    if (!name || name[0] != 'c' || name[1] != 'u' || (h = name_find(name)) < 0) {
        errno = saved;
        return found;
    }
    if (resolve_driver(false) && shim.real[h] && !caller_is_driver(caller)) {
        atomic_fetch_add_explicit(&substitutions, 1, memory_order_relaxed);
        found = hook_wrapper[h];
    }
    errno = saved;
    return found;
}

/* A function of ours in a version that is none of ours: it passes us by. */
static void variant_unknown(const char *symbol)
{
    if (name_find(symbol) < 0)
        return;
    COUNT_ADD(unknown, 1);
    shim_note("the driver has a newer %.40s than this library: it is not counted or held back; update muster", symbol);
}

/* By name and version, when addresses say nothing: a tool stands between, and stays there as what we call. */
static void substitute_named(const char *symbol, void **pfn, int version, uint64_t flags)
{
    int best = -1;

    if (!symbol)
        return;
    if (!atomic_load_explicit(&differs, memory_order_relaxed)) {
        variant_unknown(symbol);
        return;
    }
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        bool per_thread = versions[i].per_thread != 0;

        if (versions[i].since > version || (per_thread && !(flags & PER_THREAD)) ||
            !text_same(versions[i].name, symbol))
            continue;
        if (best < 0 || per_thread > versions[best].per_thread ||
            (per_thread == versions[best].per_thread && versions[i].since > versions[best].since))
            best = (int)i;
    }
    if (best < 0)
        return;
    __atomic_store_n(&shim.real[versions[best].hook], *pfn, __ATOMIC_RELEASE);
    *pfn = hook_wrapper[versions[best].hook];
    atomic_fetch_add_explicit(&substitutions, 1, memory_order_relaxed);
}

static void substitute(const char *symbol, void **pfn, int version, uint64_t flags)
{
    uint32_t i;

    if (!pfn || !*pfn)
        return;
    for (i = address_hash(*pfn) % SLOTS; real_slot[i]; i = (i + 1) % SLOTS)
        if (shim.real[real_slot[i] - 1] == *pfn) {
            *pfn = hook_wrapper[real_slot[i] - 1];
            atomic_fetch_add_explicit(&substitutions, 1, memory_order_relaxed);
            return;
        }
    substitute_named(symbol, pfn, version, flags);
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int version, uint64_t flags)
{
    CUresult r;

    (void)shim_ready();
    if (!HAVE(cuGetProcAddress))
        return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
    r = REAL(cuGetProcAddress)(symbol, pfn, version, flags);
    if (r == CUDA_SUCCESS)
        substitute(symbol, pfn, version, flags);
    return r;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int version, uint64_t flags, int *status)
{
    CUresult r;

    (void)shim_ready();
    if (!HAVE(cuGetProcAddress_v2))
        return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
    r = REAL(cuGetProcAddress_v2)(symbol, pfn, version, flags, status);
    if (r == CUDA_SUCCESS)
        substitute(symbol, pfn, version, flags);
    return r;
}

uint32_t resolve_substitutions(void)
{
    return atomic_load_explicit(&substitutions, memory_order_relaxed);
}

bool resolve_differs(void)
{
    return atomic_load_explicit(&differs, memory_order_relaxed) != 0;
}
