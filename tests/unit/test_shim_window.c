/* SPDX-License-Identifier: Apache-2.0 */
/* Windows alone, in front of a driver that only counts: as many as there are pieces of memory, each at addresses of its
 * own, and what is closed is had again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "shim/shim.h"

#define MOST 65536u /* pieces of memory: vmm.c */
#define SIZE (2 * MIB)

struct shim shim;
static uint64_t reserved, mapped, fail_map, fail_access;
static bool seen[MOST * 2];
static CUdeviceptr at[MOST + 1];

void spin_lock(_Atomic uint32_t *lock)
{
    assert_int_equal(atomic_exchange(lock, 1), 0);
}

void spin_unlock(_Atomic uint32_t *lock)
{
    assert_int_equal(atomic_exchange(lock, 0), 1);
}

CUresult vmm_access(int gpu, uint32_t peers, CUdeviceptr where, uint64_t size)
{
    (void)gpu, (void)peers, (void)where, (void)size;
    return fail_access && fail_access-- ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult reserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr, unsigned long long flags)
{
    (void)alignment, (void)addr, (void)flags;
    *ptr = VMM_CHUNK + reserved;
    reserved += size;
    return CUDA_SUCCESS;
}

/* Nothing is mapped where something is. */
static CUresult map(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                    unsigned long long flags)
{
    uint64_t slot = ptr / VMM_CHUNK;

    (void)size, (void)offset, (void)handle, (void)flags;
    if (fail_map && fail_map--)
        return CUDA_ERROR_OUT_OF_MEMORY;
    assert_true(ptr % VMM_CHUNK == 0 && slot < MOST * 2 && ptr <= reserved);
    assert_false(seen[slot]);
    seen[slot] = true;
    mapped++;
    return CUDA_SUCCESS;
}

static CUresult unmap(CUdeviceptr ptr, size_t size)
{
    assert_int_equal(size, SIZE);
    assert_true(seen[ptr / VMM_CHUNK]);
    seen[ptr / VMM_CHUNK] = false;
    mapped--;
    return CUDA_SUCCESS;
}

static void test_most(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < MOST; i++)
        if (!(at[i] = window_open(0, 1000 + i, SIZE)))
            fail_msg("no window for piece %u", i);
    assert_int_equal(mapped, MOST);
    assert_int_equal(window_open(0, 1000, SIZE), at[0]); /* it has one */
    assert_int_equal(window_open(0, 999, SIZE), 0);      /* there is no more memory than that */
    window_close(1000 + 4711);
    assert_int_equal(window_open(0, 999, SIZE), at[4711]);
    window_close_all();
    assert_int_equal(mapped, 0);
    assert_int_equal(window_open(0, 999, SIZE), at[0]);
    window_close_all();
}

/* What the driver refuses leaves nothing behind, or what is closed with the memory. */
static void test_refused(void **state)
{
    (void)state;
    fail_map = 1;
    assert_int_equal(window_open(0, 7, SIZE), 0);
    assert_int_equal(mapped, 0);
    fail_access = 1;
    assert_int_equal(window_open(0, 7, SIZE), 0);
    assert_int_equal(mapped, 1);
    assert_int_not_equal(window_open(0, 7, SIZE), 0); /* the next try goes on from there */
    assert_int_equal(mapped, 1);
    assert_int_not_equal(window_open(1, 7, SIZE), 0); /* and another GPU may write it too */
    assert_int_equal(mapped, 1);
    window_close(7);
    assert_int_equal(mapped, 0);
    window_close(7); /* of one that has none */
    assert_int_equal(mapped, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_most), cmocka_unit_test(test_refused) };

    shim.real[HOOK_cuMemAddressReserve] = (void *)&reserve;
    shim.real[HOOK_cuMemMap] = (void *)&map;
    shim.real[HOOK_cuMemUnmap] = (void *)&unmap;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
