/* SPDX-License-Identifier: Apache-2.0 */
/* Mini-batch boundaries from launches alone: tier 3 by period, tier 2 by the names of kernels, tier 0 by a call. In
 * this order, because a better tier silences the worse ones. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "calls.h"

#define KERNELS 23

static uint64_t (*stat_of)(const char *);
static void (*step_now)(void);
static CUfunction kernels[KERNELS], optimizer;

static void nothing(const uint64_t *args)
{
    (void)args;
}

static void launch(CUfunction f, unsigned int grid)
{
    assert_int_equal(cuLaunchKernel(f, grid, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 0);
}

static int setup(void **state)
{
    CUcontext ctx;

    (void)state;
    *(void **)&stat_of = dlsym(RTLD_DEFAULT, "muster_gpu_stat");
    *(void **)&step_now = dlsym(RTLD_DEFAULT, "muster_step");
    for (int i = 0; i < KERNELS; i++)
        kernels[i] = fake_kernel_register("gemm", nothing, 0, 0);
    optimizer = fake_kernel_register("void multi_tensor_apply_kernel<adam>", nothing, 0, 0);
    return !stat_of || !step_now || cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx);
}

/* One step: forward and back again, so that no short shift fits. */
static void sequence(void)
{
    for (unsigned int i = 0; i < KERNELS; i++)
        launch(kernels[i], 1u << (i % 5));
    for (unsigned int i = KERNELS; i-- > 3;)
        launch(kernels[i], 64u << (i % 3));
    assert_int_equal(cuStreamSynchronize(NULL), 0);
    usleep(500);
}

static void test_period(void **state)
{
    uint64_t before, after;

    (void)state;
    for (int i = 0; i < 6000 && stat_of("tier") != 3; i++)
        sequence();
    assert_int_equal(stat_of("tier"), 3);
    before = stat_of("steps");
    for (int i = 0; i < 200; i++)
        sequence();
    after = stat_of("steps");
    assert_in_range(after - before, 195, 205);
}

static void test_kernel_names(void **state)
{
    uint64_t before;

    (void)state;
    before = stat_of("steps");
    for (int i = 0; i < 50; i++) {
        sequence();
        for (int k = 0; k < 4; k++)
            launch(optimizer, 8);
    }
    sequence();
    assert_int_equal(stat_of("tier"), 2);
    assert_in_range(stat_of("steps") - before, 50, 53); /* a few of the old tier before the first of the new */
}

/* Two networks, each with kernels of its own size; and one whose optimizer launches something else in between. */
static void test_several(void **state)
{
    uint64_t before = 0;

    (void)state;
    for (int i = 0; i < 90; i++) {
        if (i == 40)
            before = stat_of("steps");
        sequence();
        for (int k = 0; k < 4; k++)
            launch(optimizer, 8);
        sequence();
        for (int k = 0; k < 3; k++)
            launch(optimizer, 64);
        launch(kernels[0], 1);
        launch(optimizer, 512);
    }
    sequence();
    assert_int_equal(stat_of("tier"), 2);
    assert_in_range(stat_of("steps") - before, 49, 51);
}

static void test_call(void **state)
{
    uint64_t before;

    (void)state;
    step_now();
    before = stat_of("steps");
    for (int i = 0; i < 10; i++) {
        sequence();
        launch(optimizer, 8);
        step_now();
    }
    assert_int_equal(stat_of("tier"), 0);
    assert_int_equal(stat_of("steps") - before, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_period),
        cmocka_unit_test(test_kernel_names),
        cmocka_unit_test(test_several),
        cmocka_unit_test(test_call),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
