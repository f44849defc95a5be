/* SPDX-License-Identifier: Apache-2.0 */
/* Memory the program maps itself, as PyTorch's expandable segments are; memory peers read; which segment is cold. This
 * test plays the node side. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "calls.h"
#include "unit/shim_play.h"

#define MIB (1ull << 20)
#define PIECES 6
#define PIECE (4 * MIB)
#define ALL (PIECES * PIECE)

void muster_step(void) __attribute__((weak)); /* the library's */

static const struct cuda_mem_prop prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                           .handle_types = 1,
                                           .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
static const struct cuda_access own = { { CU_MEM_LOCATION_TYPE_DEVICE, 0 }, CU_MEM_ACCESS_READWRITE };
static CUcontext ctx[2];
static CUdeviceptr base;
static CUmemGenericAllocationHandle handle[PIECES];

static void write_all(CUdeviceptr at, uint64_t size, uint64_t seed)
{
    for (uint64_t k = 0; k < size / 4096; k++)
        ((uint64_t *)(uintptr_t)at)[k * 512] = seed + k;
}

static void expect_all(CUdeviceptr at, uint64_t size, uint64_t seed)
{
    for (uint64_t k = 0; k < size / 4096; k++)
        assert_int_equal(((uint64_t *)(uintptr_t)at)[k * 512], seed + k);
}

static int setup(void **state)
{
    (void)state;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx[0], 0) || cuDevicePrimaryCtxRetain(&ctx[1], 1) ||
        cuCtxSetCurrent(ctx[0]))
        return 1;
    return play_begin();
}

static void pieces_map(void)
{
    assert_int_equal(cuMemAddressReserve(&base, 2 * ALL, 0, 0, 0), 0);
    for (int i = 0; i < PIECES; i++) {
        assert_int_equal(cuMemCreate(&handle[i], PIECE, &prop, 0), 0);
        assert_int_equal(cuMemMap(base + (CUdeviceptr)i * PIECE, PIECE, 0, handle[i], 0), 0);
    }
}

static void pieces_unmap(void)
{
    assert_int_equal(cuMemUnmap(base, ALL), 0);
    for (int i = 0; i < PIECES; i++)
        assert_int_equal(cuMemRelease(handle[i]), 0);
    assert_int_equal(cuMemAddressFree(base, 2 * ALL), 0);
    assert_int_equal(stat_of("used"), 0);
    assert_int_equal(stat_of("host_backed"), 0);
    assert_int_equal(stat_of("movable"), 0);
    assert_int_equal(fake_device_used(0), 0);
}

static void closed(bool is)
{
    __atomic_store_n(&page->control.lease_until_ns, now_ns() + 60000000000ULL, __ATOMIC_SEQ_CST);
    __atomic_store_n(&page->control.gate, is ? GATE_CLOSED : GATE_OPEN, __ATOMIC_SEQ_CST);
}

static void test_pieces_move(void **state)
{
    struct cuda_mem_prop seen;

    (void)state;
    pieces_map();
    assert_int_equal(stat_of("used"), ALL);
    assert_int_equal(stat_of("movable"), 0); /* nobody may touch them yet */
    assert_int_equal(cuMemSetAccess(base, ALL, &own, 1), 0);
    assert_int_equal(stat_of("movable"), ALL);
    write_all(base, ALL, 7);
    assert_int_equal(command(OP_SPILL_TO, ALL / 2), ALL / 2);
    assert_int_equal(fake_device_used(0), ALL / 2);
    expect_all(base, ALL, 7);
    assert_int_equal(cuMemGetAllocationPropertiesFromHandle(&seen, handle[0]), 0);
    assert_int_equal(seen.location.type, CU_MEM_LOCATION_TYPE_DEVICE); /* what the program asked for */
    assert_int_equal(command(OP_PROMOTE, 0), ALL / 2);
    expect_all(base, ALL, 7);
    for (int i = 0; i < 3; i++) { /* again and again, also where no host memory was made ahead */
        assert_int_equal(command(OP_SPILL_TO, PIECE), ALL - PIECE);
        expect_all(base, ALL, 7);
        assert_int_equal(command(OP_PROMOTE, 0), ALL - PIECE);
        expect_all(base, ALL, 7);
    }
    closed(true);
    assert_int_equal(command(OP_EVICT_ALL, 0), ALL);
    assert_int_equal(fake_device_used(0), 0);
    assert_int_equal(command(OP_RELOAD_ALL, 0), ALL);
    closed(false);
    expect_all(base, ALL, 7);
    assert_int_equal(command(OP_SPILL_TO, ALL / 2), ALL / 2); /* half of them go while they lie in host memory */
    pieces_unmap();
}

#define SMALL (2 * MIB)
#define SMALLS 20 /* two groups of eight, and four */

/* What is made ahead has been made. */
static void stocked(void)
{
    for (uint64_t before = 1, now = 0; before != now; now = (uint64_t)stat_of("pool_bytes")) {
        before = (uint64_t)stat_of("pool_bytes");
        usleep(100000);
    }
}

/* How many calls of the driver a spill takes, of pieces as small as they are: each is unmapped, mapped and made
 * readable where it is, and nowhere else, for the memory it goes to has a window that was opened before. Host memory
 * that the program frees is kept, with its window: the next spill makes none. */
static void test_pieces_calls(void **state)
{
    CUmemGenericAllocationHandle small[SMALLS];
    uint64_t all = SMALLS * SMALL, granted, unmapped, created, mapped;
    CUdeviceptr range = 0;

    (void)state;
    for (int round = 0; round < 2; round++) {
        assert_int_equal(cuMemAddressReserve(&range, all, 0, 0, 0), 0);
        for (int i = 0; i < SMALLS; i++) {
            assert_int_equal(cuMemCreate(&small[i], SMALL, &prop, 0), 0);
            assert_int_equal(cuMemMap(range + (CUdeviceptr)i * SMALL, SMALL, 0, small[i], 0), 0);
        }
        assert_int_equal(cuMemSetAccess(range, all, &own, 1), 0);
        write_all(range, all, 31);
        stocked();
        granted = fake_calls("cuMemSetAccess");
        unmapped = fake_calls("cuMemUnmap");
        created = fake_calls("cuMemCreate");
        mapped = fake_calls("cuMemMap");
        assert_int_equal(command(OP_SPILL_TO, 1), all);
        assert_int_equal(fake_calls("cuMemUnmap") - unmapped, SMALLS);
        if (round > 0) {
            assert_int_equal(fake_calls("cuMemSetAccess") - granted, SMALLS);
            assert_int_equal(fake_calls("cuMemMap") - mapped, SMALLS);
            assert_int_equal(fake_calls("cuMemCreate"), created);
        }
        expect_all(range, all, 31);
        assert_int_equal(cuMemUnmap(range, all), 0);
        for (int i = 0; i < SMALLS; i++)
            assert_int_equal(cuMemRelease(small[i]), 0);
        assert_int_equal(cuMemAddressFree(range, all), 0);
        assert_int_equal(stat_of("host_backed"), 0);
        assert_true(stat_of("pool_bytes") >= all);
    }
}

/* The driver's checkpoint pays for all that is mapped: before it no window is open, afterwards they open again. */
static void test_windows(void **state)
{
    (void)state;
    pieces_map();
    assert_int_equal(cuMemSetAccess(base, ALL, &own, 1), 0);
    write_all(base, ALL, 41);
    assert_int_equal(command(OP_SPILL_TO, 1), ALL);
    assert_int_equal(command(OP_PROMOTE, 0), ALL);
    stocked();
    assert_true(fake_mapped_host() >= ALL);
    closed(true);
    assert_int_equal(command(OP_EVICT_ALL, PAGE_PERMILLE), ALL);
    assert_int_equal(fake_mapped_host(), 0);
    assert_int_equal(command(OP_RELOAD_ALL, 0), ALL);
    closed(false);
    expect_all(base, ALL, 41);
    for (int i = 0; i < 50 && fake_mapped_host() < ALL; i++)
        usleep(100000);
    assert_true(fake_mapped_host() >= ALL);
    assert_int_equal(command(OP_SPILL_TO, 1), ALL);
    expect_all(base, ALL, 41);
    pieces_unmap();
}

/* Host memory is made ahead for every GPU, also while the first one's has nothing to be made. */
static void test_stock_each(void **state)
{
    CUdeviceptr second = 0;
    uint64_t before;

    (void)state;
    for (before = 1; before != fake_mapped_host();) { /* nor windows to be opened */
        before = fake_mapped_host();
        usleep(500000);
    }
    before = (uint64_t)stat_of("pool_bytes");
    page->limit[1].host_pool_bytes = 3 * SMALL;
    assert_int_equal(cuCtxSetCurrent(ctx[1]), 0);
    assert_int_equal(cuMemAlloc_v2(&second, 3 * SMALL), 0);
    for (int i = 0; i < 50 && stat_of("pool_bytes") == before; i++)
        usleep(100000);
    assert_int_equal(stat_of("pool_bytes"), before + 3 * SMALL);
    page->limit[1].host_pool_bytes = 0;
    assert_int_equal(cuMemFree_v2(second), 0);
    assert_int_equal(cuCtxSetCurrent(ctx[0]), 0);
}

/* Memory of the second GPU moves as the first one's does, in turns with it: by streams of its own. */
static void test_second_gpu(void **state)
{
    CUdeviceptr first = 0, second = 0;

    (void)state;
    assert_int_equal(cuMemAlloc_v2(&first, PIECE), 0);
    assert_int_equal(cuCtxSetCurrent(ctx[1]), 0);
    assert_int_equal(cuMemAlloc_v2(&second, 2 * PIECE), 0);
    write_all(first, PIECE, 51);
    write_all(second, 2 * PIECE, 52);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(command(OP_SPILL_TO, 1), PIECE);
        assert_int_equal(command_gpu(1, OP_SPILL_TO, 1), 2 * PIECE);
        assert_true(fake_is_host(first) && fake_is_host(second));
        assert_int_equal(fake_device_used(1), 0);
        expect_all(first, PIECE, 51);
        expect_all(second, 2 * PIECE, 52);
        assert_int_equal(command_gpu(1, OP_PROMOTE, 0), 2 * PIECE);
        assert_int_equal(command(OP_PROMOTE, 0), PIECE);
        assert_false(fake_is_host(first) || fake_is_host(second));
        expect_all(first, PIECE, 51);
        expect_all(second, 2 * PIECE, 52);
    }
    assert_int_equal(cuMemFree_v2(second), 0);
    assert_int_equal(cuCtxSetCurrent(ctx[0]), 0);
    assert_int_equal(cuMemFree_v2(first), 0);
}

/* What somebody else may hold stays: exported, mapped twice. */
static void test_pieces_shared(void **state)
{
    CUmemGenericAllocationHandle again = 0;
    int fd = -1;

    (void)state;
    pieces_map();
    assert_int_equal(cuMemSetAccess(base, ALL, &own, 1), 0);
    write_all(base, ALL, 9);
    assert_int_equal(cuMemExportToShareableHandle(&fd, handle[0], 1, 0), 0);
    assert_int_equal(cuMemMap(base + ALL, PIECE, 0, handle[1], 0), 0);
    assert_int_equal(stat_of("movable"), ALL - 2 * PIECE);
    assert_int_equal(command(OP_SPILL_TO, 1), ALL - 2 * PIECE);
    assert_int_equal(stat_of("used"), 2 * PIECE);
    expect_all(base, ALL, 9);
    assert_int_equal(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(base + 3 * PIECE + 100)), 0);
    assert_int_equal(again, handle[3]);
    assert_int_equal(cuMemRelease(again), 0);
    assert_int_equal(command(OP_PROMOTE, 0), ALL - 2 * PIECE);
    assert_int_equal(cuMemUnmap(base + ALL, PIECE), 0);
    pieces_unmap();
}

/* Whose memory is another process', or bound to several GPUs, cannot be released: whoever is the first to ask for it.
 * What the driver refuses marks nobody. */
static void test_shared(void **state)
{
    struct cuda_ipc_mem token = { 0 };
    CUmemGenericAllocationHandle other = 0;
    CUexternalMemory outside = NULL;
    CUmemoryPool pool = NULL;
    CUdeviceptr at = 0;
    struct {
        const char *name;
        CUresult result;
        uint64_t flags;
    } seen[9];
    int n = 0;

    (void)state;
#define SEEN(call, name_)                                                                                              \
    do {                                                                                                               \
        __atomic_fetch_and(&page->health.flags, ~(uint64_t)HEALTH_SHARED, __ATOMIC_SEQ_CST);                           \
        seen[n].name = (name_);                                                                                        \
        seen[n].result = (call);                                                                                       \
        seen[n++].flags = page->health.flags & HEALTH_SHARED;                                                          \
    } while (0)
    SEEN(cuIpcOpenMemHandle(&at, token, 1), "cuIpcOpenMemHandle");
    SEEN(cuIpcOpenMemHandle_v2(&at, token, 1), "cuIpcOpenMemHandle_v2");
    SEEN(cuImportExternalMemory(&outside, NULL), "cuImportExternalMemory");
    SEEN(cuMemPoolImportFromShareableHandle(&pool, NULL, 1, 0), "cuMemPoolImportFromShareableHandle");
    SEEN(cuMemPoolImportPointer(&at, pool, NULL), "cuMemPoolImportPointer");
    SEEN(cuMulticastCreate(&other, NULL), "cuMulticastCreate");
    SEEN(cuIpcGetMemHandle(&token, base), "cuIpcGetMemHandle");
    for (int i = 0; i < n; i++)
        if (seen[i].result != CUDA_SUCCESS || !seen[i].flags)
            fail_msg("%s: %d, and the process is not marked", seen[i].name, seen[i].result);
    fake_fail("cuIpcOpenMemHandle_v2", 1, 201);
    SEEN(cuIpcOpenMemHandle_v2(&at, token, 1), "refused");
    assert_int_equal(seen[n - 1].result, 201);
    assert_int_equal(seen[n - 1].flags, 0);
#undef SEEN
}

/* Above the limit: refused once, so that the framework drops its cache; then from host memory. */
static void test_pieces_capped(void **state)
{
    CUmemGenericAllocationHandle more = 0;

    (void)state;
    pieces_map();
    page->limit[0].cap_bytes = ALL;
    assert_int_equal(cuMemCreate(&more, PIECE, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuMemCreate(&more, PIECE, &prop, 0), 0);
    assert_int_equal(cuMemMap(base + ALL, PIECE, 0, more, 0), 0);
    assert_int_equal(cuMemSetAccess(base, ALL + PIECE, &own, 1), 0);
    assert_int_equal(stat_of("host_backed"), PIECE);
    assert_true(fake_is_host(base + ALL));
    write_all(base, ALL + PIECE, 3);
    page->limit[0].cap_bytes = 2 * ALL;
    assert_int_equal(command(OP_PROMOTE, 0), PIECE);
    assert_false(fake_is_host(base + ALL));
    expect_all(base, ALL + PIECE, 3);
    page->limit[0].cap_bytes = 0;
    assert_int_equal(cuMemUnmap(base + ALL, PIECE), 0);
    assert_int_equal(cuMemRelease(more), 0);
    pieces_unmap();
}

/* What a framework asks for after a refusal may be many pieces, and slow to make: none of them is refused again. */
static void test_pieces_many(void **state)
{
    CUmemGenericAllocationHandle more[8] = { 0 };
    struct timespec nap = { 0, 150000000 };
    uint64_t soft = stat_of("soft_refusals");

    (void)state;
    page->limit[0].cap_bytes = PIECE;
    assert_int_equal(cuMemCreate(&more[0], 2 * PIECE, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    for (int i = 0; i < 8; i++) {
        nanosleep(&nap, NULL);
        assert_int_equal(cuMemCreate(&more[i], 2 * PIECE, &prop, 0), 0);
    }
    assert_int_equal(stat_of("soft_refusals"), soft + 1);
    for (int i = 0; i < 8; i++)
        assert_int_equal(cuMemRelease(more[i]), 0);
    page->limit[0].cap_bytes = 0;
}

/* What a graph is recorded with stays where it is: no host memory, and no invitation to drop a cache. Host memory has
 * an end as well. */
static void test_pieces_bounds(void **state)
{
    CUmemGenericAllocationHandle more = 0, another = 0;
    CUstream stream = NULL;
    CUgraph graph = NULL;
    uint64_t soft = stat_of("soft_refusals");

    (void)state;
    page->limit[0].cap_bytes = PIECE;
    assert_int_equal(cuStreamCreate(&stream, 1), 0);
    assert_int_equal(cuStreamBeginCapture_v2(stream, 0), 0);
    assert_int_equal(cuMemCreate(&more, 3 * PIECE, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuStreamEndCapture(stream, &graph), 0);
    assert_int_equal(stat_of("soft_refusals"), soft);
    assert_int_equal(cuMemCreate(&more, 3 * PIECE, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(stat_of("soft_refusals"), soft + 1);
    assert_int_equal(cuMemCreate(&more, 3 * PIECE, &prop, 0), 0);
    assert_int_equal(stat_of("host_backed"), 3 * PIECE);
    page->limit[0].host_cap_bytes = 5 * PIECE;
    for (int i = 0; i < 3; i++)
        assert_int_equal(cuMemCreate(&another, 3 * PIECE, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(stat_of("host_backed"), 3 * PIECE);
    page->limit[0].host_cap_bytes = 0;
    assert_int_equal(cuMemRelease(more), 0);
    assert_int_equal(stat_of("host_backed"), 0);
    page->limit[0].cap_bytes = 0;
}

/* A peer that got access has it on memory that is there, on new memory, and on moved memory. */
static void test_peers(void **state)
{
    CUdeviceptr a, b;
    uint64_t before;

    (void)state;
    assert_int_equal(cuMemAlloc_v2(&a, PIECE), 0);
    before = fake_grants(1);
    assert_int_equal(cuCtxSetCurrent(ctx[1]), 0);
    assert_int_equal(cuCtxEnablePeerAccess(ctx[0], 0), 0);
    assert_int_equal(cuCtxSetCurrent(ctx[0]), 0);
    assert_int_equal(fake_grants(1), before + 1);
    assert_int_equal(cuMemAlloc_v2(&b, PIECE), 0);
    assert_int_equal(fake_grants(1), before + 2);
    assert_int_equal(stat_of("movable"), 2 * PIECE);
    assert_int_equal(command(OP_SPILL_TO, 1), 2 * PIECE);
    assert_int_equal(fake_grants(1), before + 4);
    assert_int_equal(command(OP_PROMOTE, 0), 2 * PIECE);
    assert_int_equal(cuCtxSetCurrent(ctx[1]), 0);
    assert_int_equal(cuCtxDisablePeerAccess(ctx[0]), 0);
    assert_int_equal(cuCtxSetCurrent(ctx[0]), 0);
    before = fake_grants(1);
    assert_int_equal(command(OP_SPILL_TO, 1), 2 * PIECE);
    assert_int_equal(command(OP_PROMOTE, 0), 2 * PIECE);
    assert_int_equal(fake_grants(1), before);
    assert_int_equal(cuMemFree_v2(a), 0);
    assert_int_equal(cuMemFree_v2(b), 0);
}

static void nothing(const uint64_t *args)
{
    (void)args;
}

/* Of three segments the step uses the first and the last: the one between goes first, and comes home last. */
static void test_cold(void **state)
{
    CUfunction f = fake_kernel_register("uses", nothing, 2, 0);
    CUdeviceptr at[3];

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(cuMemAlloc_v2(&at[i], PIECE), 0);
    do /* at least once: until then windows of time pass for steps */
        muster_step();
    while (stat_of("steps") % 256 != 4);
    for (int i = 0; i < 4; i++) {
        uint64_t x = at[0] + 4096, y = i ? at[0] : at[2];
        void *params[2] = { &x, &y };

        assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL), 0);
    }
    muster_step();
    assert_int_equal(cuStreamSynchronize(NULL), 0);
    assert_int_equal(command(OP_SPILL_TO, 2 * PIECE), PIECE);
    assert_true(fake_is_host(at[1]));
    assert_int_equal(command(OP_SPILL_TO, PIECE), PIECE);
    assert_true(fake_is_host(at[2]) && !fake_is_host(at[0]));
    assert_int_equal(command(OP_PROMOTE, PIECE), PIECE);
    assert_true(fake_is_host(at[1]) && !fake_is_host(at[2]));
    assert_int_equal(command(OP_PROMOTE, 0), PIECE);
    for (int i = 0; i < 3; i++)
        assert_int_equal(cuMemFree_v2(at[i]), 0);
}

#define RACES 4000

static pthread_barrier_t meet;
static CUmemGenericAllocationHandle racing;
static CUdeviceptr raced;

static void *unmap_all(void *arg)
{
    (void)arg;
    (void)cuCtxSetCurrent(ctx[0]);
    for (int i = 0; i < RACES; i++) {
        (void)pthread_barrier_wait(&meet);
        (void)cuMemUnmap(raced, PIECE);
        (void)pthread_barrier_wait(&meet);
    }
    return NULL;
}

/* One thread takes the last reference, another the last mapping, at once: the memory is given back once. */
static void test_pieces_race(void **state)
{
    uint64_t used = stat_of("used"), released;
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_barrier_init(&meet, NULL, 2), 0);
    assert_int_equal(cuMemAddressReserve(&raced, PIECE, 0, 0, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, unmap_all, NULL), 0);
    for (int i = 0; i < RACES; i++) {
        assert_int_equal(cuMemCreate(&racing, PIECE, &prop, 0), 0);
        assert_int_equal(cuMemMap(raced, PIECE, 0, racing, 0), 0);
        released = fake_calls("cuMemRelease");
        (void)pthread_barrier_wait(&meet);
        for (uint64_t until = now_ns() + (uint64_t)(i % 400) * 100; now_ns() < until;) /* the other is under way */
            ;
        assert_int_equal(cuMemRelease(racing), 0);
        (void)pthread_barrier_wait(&meet);
        assert_int_equal(fake_calls("cuMemRelease"), released + 1);
        assert_int_equal(stat_of("used"), used);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_pieces_move),   cmocka_unit_test(test_pieces_calls),
                                        cmocka_unit_test(test_windows),       cmocka_unit_test(test_stock_each),
                                        cmocka_unit_test(test_second_gpu),    cmocka_unit_test(test_pieces_shared),
                                        cmocka_unit_test(test_pieces_capped), cmocka_unit_test(test_pieces_many),
                                        cmocka_unit_test(test_pieces_bounds), cmocka_unit_test(test_peers),
                                        cmocka_unit_test(test_cold),          cmocka_unit_test(test_shared),
                                        cmocka_unit_test(test_pieces_race) };

    return cmocka_run_group_tests(tests, setup, NULL);
}
