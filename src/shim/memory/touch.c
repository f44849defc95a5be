/* SPDX-License-Identifier: Apache-2.0 */
/* touch.c - which segments does a step use, and which are cold?
 *
 * One step in 256 is looked at: the arguments of its launches are searched for addresses inside our segments (a
 * framework's kernels that work on many tensors carry their addresses by value). A wrong guess costs time, never
 * content. The segments are sorted once when such a step begins; ours is then a binary search and an add.
 */
#include "shim/shim.h"

#define EVERY 256u
#define FIRST 4u
#define PARAMS 256u
#define PARAM_BYTES 8192u

_Atomic uint32_t touch_on;

static struct {
    CUdeviceptr base, end;
    uint32_t segment;
} sorted[TOUCH_SEGMENTS];
static uint32_t sorted_count;
static _Atomic uint32_t scanners;                /* threads that read the sorted list */
static _Atomic uint64_t preparing;               /* the one that writes it */
static _Atomic uint32_t touches[TOUCH_SEGMENTS]; /* launches that had its address, in the step that was looked at */
static _Atomic uint64_t looked_at;               /* births up to here have been looked at */
static _Atomic uint32_t looked;

static void sorted_build(void)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < vmm_segments() && n < TOUCH_SEGMENTS; i++) {
        uint64_t base, size, born;
        uint32_t k;

        if (!vmm_look(i, &base, &size, &born))
            continue;
        atomic_store_explicit(&touches[i], 0, memory_order_relaxed);
        if (born >= atomic_load(&looked_at))
            atomic_store(&looked_at, born + 1);
        for (k = n; k > 0 && sorted[k - 1].base > base; k--) /* nearly sorted already, as addresses grow */
            sorted[k] = sorted[k - 1];
        sorted[k].base = base;
        sorted[k].end = base + size;
        sorted[k].segment = i;
        n++;
    }
    sorted_count = n;
}

void touch_step(uint64_t seq)
{
    if (atomic_load_explicit(&touch_on, memory_order_relaxed)) {
        atomic_store(&touch_on, 0);
        atomic_store(&looked, 1);
        return;
    }
    if (shim.mode != MODE_SPILL || seq % EVERY != FIRST || !flag_try(&preparing))
        return;
    if (atomic_load(&scanners) && inside_count() == 0) /* they scan inside: whoever did has jumped out */
        atomic_store(&scanners, 0);
    if (atomic_load(&scanners) == 0) {
        sorted_build();
        atomic_store(&touch_on, 1);
    }
    flag_end(&preparing);
}

static void value_touch(uint64_t value)
{
    uint32_t low = 0, high = sorted_count;

    if (high == 0 || value < sorted[0].base || value >= sorted[high - 1].end)
        return;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;

        if (value < sorted[middle].base)
            high = middle;
        else
            low = middle;
    }
    if (value < sorted[low].end)
        atomic_fetch_add_explicit(&touches[sorted[low].segment], 1, memory_order_relaxed);
}

static bool param_size(CUfunction f, size_t index, size_t *size)
{
    size_t offset;

    if (HAVE(cuFuncGetParamInfo) && REAL(cuFuncGetParamInfo)(f, index, &offset, size) == CUDA_SUCCESS)
        return true;
    return HAVE(cuKernelGetParamInfo) &&
           REAL(cuKernelGetParamInfo)((CUkernel)(void *)f, index, &offset, size) == CUDA_SUCCESS;
}

static void bytes_scan(const void *at, size_t size)
{
    const char *p = at;

    for (size_t i = 0; i + sizeof(uint64_t) <= size && i < PARAM_BYTES; i += sizeof(uint64_t)) {
        uint64_t value;

        __builtin_memcpy(&value, p + i, sizeof(value));
        value_touch(value);
    }
}

void touch_scan(CUfunction f, void **params, void **extra)
{
    size_t size = 0;

    if (capture_any()) /* recorded, not run; and the driver is asked nothing meanwhile */
        return;
    atomic_fetch_add(&scanners, 1);
    if (params && atomic_load(&touch_on))
        for (size_t i = 0; i < PARAMS && param_size(f, i, &size); i++)
            bytes_scan(params[i], size);
    /* 1 the buffer, 2 the address of its size, 0 the end */
    if (!params && extra && extra[0] == (void *)1 && extra[2] == (void *)2 && extra[3] && atomic_load(&touch_on))
        bytes_scan(extra[1], *(size_t *)extra[3]);
    atomic_fetch_sub(&scanners, 1);
}

/* Coldest first: what the step did not touch, then the least touched bytes; what is younger than the step that was
 * looked at counts as in use. Equal ones by age. */
static uint64_t heat_of(uint32_t segment)
{
    const struct segment *s = vmm_segment(segment);

    if (!atomic_load(&looked) || s->born >= atomic_load(&looked_at))
        return UINT64_MAX;
    return (uint64_t)atomic_load_explicit(&touches[segment], memory_order_relaxed) * (s->size / VMM_GRAIN);
}

static bool colder(uint32_t a, uint32_t b)
{
    uint64_t heat_a = heat_of(a), heat_b = heat_of(b);

    return heat_a != heat_b ? heat_a < heat_b : vmm_segment(a)->born < vmm_segment(b)->born;
}

uint32_t touch_order(int gpu, bool hottest, uint32_t *order)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < vmm_segments(); i++)
        if (vmm_segment(i)->live && !vmm_segment(i)->fixed && vmm_segment(i)->gpu == gpu)
            order[n++] = i;
    for (uint32_t gap = n / 2; gap > 0; gap /= 2) /* in place and without memory of its own */
        for (uint32_t i = gap; i < n; i++) {
            uint32_t x = order[i], k = i;

            for (; k >= gap && colder(hottest ? order[k - gap] : x, hottest ? x : order[k - gap]); k -= gap)
                order[k] = order[k - gap];
            order[k] = x;
        }
    return n;
}
