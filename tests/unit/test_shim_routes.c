/* SPDX-License-Identifier: Apache-2.0 */
/* Every route to the driver, for every hooked name. Runs with the library preloaded in front of the fake driver. */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "calls.h"

static const char *const names[] = {
#define HOOK_SPECIAL(name, group, act, params, args) #name,
#define HOOK_TRACK HOOK_SPECIAL
#define HOOK_COPY(name, group, act, params, args, stream, n) #name,
#include "shim/hooks.def"
};
#define NAME_COUNT (sizeof(names) / sizeof(names[0]))

void *fake_symbol(const char *name);

static bool in_shim(void *p)
{
    Dl_info info;

    return p && dladdr(p, &info) && strstr(info.dli_fname, "libmuster_gpu");
}

static bool in_driver(void *p)
{
    Dl_info info;

    return p && dladdr(p, &info) && strstr(info.dli_fname, "libcuda");
}

static void *driver_handle(void)
{
    void *h = dlopen("libcuda.so.1", RTLD_NOW);

    assert_non_null(h);
    return h;
}

/* The very first call may be a look-up, before cuInit. */
static void test_lookup_first(void **state)
{
    void *p = NULL;
    int status = 7;

    (void)state;
    assert_int_equal(cuGetProcAddress_v2("cuLaunchKernel", &p, 12000, 0, &status), 0);
    assert_int_equal(status, 0);
    assert_true(in_shim(p));
}

static void test_dlsym_handle(void **state)
{
    void *h = driver_handle();

    (void)state;
    for (size_t i = 0; i < NAME_COUNT; i++) {
        if (!in_shim(dlsym(h, names[i])))
            fail_msg("%s by handle does not reach the wrapper", names[i]);
        if (!in_shim(dlsym(RTLD_DEFAULT, names[i])))
            fail_msg("%s by default does not reach the wrapper", names[i]);
        /* Asked twice, the answer is the same: no history. */
        if (!in_shim(dlsym(RTLD_NEXT, names[i])) || !in_shim(dlsym(RTLD_NEXT, names[i])))
            fail_msg("%s by RTLD_NEXT does not reach the wrapper", names[i]);
    }
}

static void test_lookup_by_address(void **state)
{
    static const struct {
        const char *name;
        int version, flags;
        const char *expect;
    } cases[] = {
        { "cuMemAlloc", 3020, 0, "cuMemAlloc_v2" },
        { "cuLaunchKernel", 7000, 2, "cuLaunchKernel_ptsz" },
        { "cuLaunchKernel", 7000, 0, "cuLaunchKernel" },
        { "cuMemcpyHtoD", 7000, 2, "cuMemcpyHtoD_v2_ptds" },
        { "cuCtxSynchronize", 2000, 0, "cuCtxSynchronize" },
        { "cuCtxSynchronize", 13000, 0, "cuCtxSynchronize_v2" },
        { "cuGetProcAddress", 11030, 0, "cuGetProcAddress" },
        { "cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2" },
        { "cuStreamBeginCapture", 10010, 0, "cuStreamBeginCapture_v2" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        void *p = NULL;
        int status = 7;

        assert_int_equal(cuGetProcAddress_v2(cases[i].name, &p, cases[i].version, (uint64_t)cases[i].flags, &status),
                         0);
        assert_int_equal(status, 0);
        if (p != dlsym(RTLD_DEFAULT, cases[i].expect))
            fail_msg("%s version %d flags %d is not %s", cases[i].name, cases[i].version, cases[i].flags,
                     cases[i].expect);
    }
}

/* Every name, in every version and for both kinds of stream, by both look-up functions. */
static void test_lookup_all(void **state)
{
    static const struct {
        const char *name;
        int since, per_thread;
    } rows[] = {
#define VERSION(name, since, per_thread, function) { #name, since, per_thread },
#include "shim/versions.def"
#undef VERSION
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t flags = rows[i].per_thread ? 2 : 0;
        void *p = NULL, *old = NULL;
        int status = 7;

        if (cuGetProcAddress_v2(rows[i].name, &p, rows[i].since, flags, &status) != 0 || status != 0 || !in_shim(p))
            fail_msg("%s of %d by cuGetProcAddress_v2 does not reach the wrapper", rows[i].name, rows[i].since);
        if (cuGetProcAddress(rows[i].name, &old, rows[i].since, flags) != 0 || old != p)
            fail_msg("%s of %d by cuGetProcAddress does not reach the wrapper", rows[i].name, rows[i].since);
    }
}

/* A version of a function of ours that nobody knows yet: the driver's own answer, counted, and said with what to do. */
static void test_lookup_future(void **state)
{
    uint64_t (*stat)(const char *), before;
    void *p = NULL;
    int status = 7;

    (void)state;
    *(void **)&stat = dlsym(RTLD_DEFAULT, "muster_gpu_stat");
    assert_non_null(stat);
    before = stat("unknown");
    assert_int_equal(cuGetProcAddress_v2("cuEventQuery", &p, 99000, 0, &status), 0);
    assert_true(in_shim(p)); /* this driver has none */
    assert_int_equal(stat("unknown"), before);
    assert_int_equal(setenv("FAKE_CUDA_VERSION", "99000", 1), 0);
    assert_int_equal(cuGetProcAddress_v2("cuEventQuery", &p, 99000, 0, &status), 0);
    assert_int_equal(status, 0);
    assert_true(in_driver(p));
    assert_ptr_equal(p, fake_symbol("cuLaunchKernel_v99"));
    assert_int_equal(stat("unknown"), before + 1);
    assert_int_equal(cuGetProcAddress_v2("cuModuleLoadData", &p, 99000, 0, &status),
                     0); /* none of ours: nothing to say */
    assert_int_equal(stat("unknown"), before + 1);
    assert_int_equal(unsetenv("FAKE_CUDA_VERSION"), 0);
}

/* What the table does not hold goes to the driver, whatever it is called. */
static void test_unhooked(void **state)
{
    void *h = driver_handle(), *p = NULL;
    int status = 7;

    (void)state;
    assert_true(in_driver(dlsym(h, "cuModuleLoadData")));
    assert_true(in_driver(dlsym(h, "cuLaunchKernel_v99")));
    assert_null(dlsym(h, "cudnnCreate"));
    assert_null(dlsym(RTLD_DEFAULT, "curl_easy_init"));
    assert_int_equal(cuGetProcAddress_v2("cuModuleLoadData", &p, 12000, 0, &status), 0);
    assert_true(in_driver(p));
    assert_int_equal(cuGetProcAddress_v2("cuNoSuchThing", &p, 12000, 0, &status), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(status, 1);
}

/* The runtime's first probe has an empty name and version 0; a status of NULL is allowed. */
static void test_empty_name(void **state)
{
    void *p = (void *)1;
    int status = 7;

    (void)state;
    assert_int_equal(cuGetProcAddress_v2("", &p, 0, 0, &status), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(status, 1);
    assert_int_equal(cuGetProcAddress_v2("cuInit", &p, 2000, 0, NULL), 0);
    assert_true(in_shim(p));
}

/* The driver's own look-ups must find the driver. */
static void test_caller_is_driver(void **state)
{
    (void)state;
    assert_true(in_shim(dlsym(driver_handle(), "cuInit"))); /* anybody else finds us there */
    assert_true(in_driver(fake_asks("cuInit")));
    assert_ptr_equal(fake_asks("cuLaunchKernel"), fake_symbol("cuLaunchKernel"));
}

/* A part of it that is loaded later as well, and one that is unloaded is nobody any more. */
static void test_caller_is_late(void **state)
{
    void *late = dlopen("libnvidia-late.so", RTLD_NOW), *driver = driver_handle();
    void *(*asks)(void *, const char *) = NULL;

    (void)state;
    assert_non_null(late);
    *(void **)&asks = dlsym(late, "late_asks");
    assert_non_null(asks);
    assert_ptr_equal(asks(driver, "cuInit"), fake_symbol("cuInit"));
    assert_ptr_equal(asks(driver, "cuLaunchKernel"), fake_symbol("cuLaunchKernel"));
    assert_true(in_shim(dlsym(driver, "cuInit")));
    assert_int_equal(dlclose(late), 0);
    assert_true(in_shim(dlsym(driver, "cuInit")));
}

static void test_direct(void **state)
{
    uint64_t before = fake_calls("cuMemcpyHtoD_v2");
    char from[4] = "abc", to[4] = "";

    (void)state;
    assert_int_equal(cuInit(0), 0);
    assert_true(in_shim((void *)&cuInit));
    assert_int_equal(cuMemcpyHtoD_v2((CUdeviceptr)(uintptr_t)to, from, 4), 0);
    assert_string_equal(to, "abc");
    assert_int_equal(fake_calls("cuMemcpyHtoD_v2"), before + 1);
}

static void test_errno_and_versions(void **state)
{
    (void)state;
    errno = 1234;
    (void)dlsym(RTLD_DEFAULT, "cuInit");
    assert_int_equal(errno, 1234);
    assert_non_null(dlvsym(RTLD_DEFAULT, "memcpy", "GLIBC_2.14"));
    assert_non_null(dlsym(RTLD_DEFAULT, "malloc"));
}

/* A copy above 64 MiB in pieces of 16 (MUSTER_GPU_SPLIT=1, as beside a guaranteed job that suffers), smaller ones
 * whole; the content is the same. */
static void test_bulk(void **state)
{
    size_t bytes = (80 << 20) + 4100, words = bytes / sizeof(uint32_t);
    uint32_t *from = malloc(bytes), *to = calloc(1, bytes);
    uint64_t in = fake_calls("cuMemcpyHtoDAsync_v2"), out = fake_calls("cuMemcpyDtoH_v2");
    CUdeviceptr at = 0;
    CUcontext ctx;

    (void)state;
    assert_non_null(from);
    assert_non_null(to);
    for (size_t i = 0; i < words; i++)
        from[i] = (uint32_t)(i * 2654435761u);
    assert_int_equal(cuDevicePrimaryCtxRetain(&ctx, 0), 0);
    assert_int_equal(cuCtxSetCurrent(ctx), 0);
    assert_int_equal(cuMemAlloc_v2(&at, bytes), 0);
    assert_int_equal(cuMemcpyHtoDAsync_v2(at, from, bytes, NULL), 0);
    assert_int_equal(cuStreamSynchronize(NULL), 0);
    assert_int_equal(cuMemcpyDtoH_v2(to, at, bytes), 0);
    assert_memory_equal(from, to, bytes);
    assert_int_equal(fake_calls("cuMemcpyHtoDAsync_v2"), in + 6);
    assert_int_equal(fake_calls("cuMemcpyDtoH_v2"), out + 6);
    assert_int_equal(cuMemcpyDtoH_v2(to, at, 64 << 20), 0);
    assert_int_equal(fake_calls("cuMemcpyDtoH_v2"), out + 7);
    fake_fail("cuMemcpyDtoH_v2", 2, 719); /* an error ends it, and is the program's */
    assert_int_equal(cuMemcpyDtoH_v2(to, at, bytes), 719);
    assert_int_equal(fake_calls("cuMemcpyDtoH_v2"), out + 9);
    fake_fail("", 0, 0);
    assert_int_equal(cuMemFree_v2(at), 0);
    free(from);
    free(to);
}

/* A forked child is inert and can still look things up; so can a program it starts. */
static void test_fork(void **state)
{
    uint64_t (*stat)(const char *) = NULL;
    int status;
    pid_t pid;

    (void)state;
    *(void **)&stat = dlsym(RTLD_DEFAULT, "muster_gpu_stat");
    assert_non_null(stat);
    assert_int_equal(stat("on"), 1);
    pid = fork();
    if (pid == 0)
        _exit(stat("on") == 0 && dlsym(RTLD_DEFAULT, "cuInit") ? 0 : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(MUSTER_SANITIZED)
    assert_int_equal(system("true"), 0); /* a shell is no sanitizer's program, and could not load the library */
#endif
    assert_int_equal(stat("on"), 1);
    assert_int_equal(stat("no such name"), UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lookup_first),
        cmocka_unit_test(test_dlsym_handle),
        cmocka_unit_test(test_lookup_by_address),
        cmocka_unit_test(test_lookup_all),
        cmocka_unit_test(test_lookup_future),
        cmocka_unit_test(test_unhooked),
        cmocka_unit_test(test_empty_name),
        cmocka_unit_test(test_caller_is_driver),
        cmocka_unit_test(test_caller_is_late),
        cmocka_unit_test(test_direct),
        cmocka_unit_test(test_errno_and_versions),
        cmocka_unit_test(test_bulk),
        cmocka_unit_test(test_fork),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
