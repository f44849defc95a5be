/* SPDX-License-Identifier: Apache-2.0 */
/* Each route to each name of a driver of one version: hooked ones reach the wrapper, all others the driver, and what
 * that version does not have is not found. argv[1]: the version. Runs with the library preloaded (test_versions.sh). */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fake.h"

CUresult cuInit(unsigned int flags);
CUresult cuDriverGetVersion(int *version);
CUresult cuGetProcAddress(const char *symbol, void **pfn, int version, uint64_t flags);
void *fake_symbol(const char *name);

static const struct {
    const char *name; /* as it is looked up */
    int since, per_thread;
    const char *function; /* as it is exported */
} hooked[] = {
#define VERSION(name, since, per_thread, function) { #name, since, per_thread, #function },
#include "shim/versions.def"
#undef VERSION
};
static const struct {
    const char *name;
    int since;
} others[] = {
#define UNHOOKED(name, since) { #name, since },
#include "unhooked.def"
#undef UNHOOKED
};
#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static int version;
static bool
    symbol_versions; /* older ones of these drivers have them: dlvsym finds nothing of the C library's otherwise */
static void *driver;

static bool is_of(void *p, const char *library)
{
    Dl_info info;

    return p && dladdr(p, &info) && strstr(info.dli_fname, library);
}

/* NULL: not there at all. */
static void route_check(const char *route, const char *name, void *found, const char *library)
{
    if (library ? !is_of(found, library) : found != NULL)
        fail_msg("%s by %s is %s", name, route,
                 !found                          ? "not found"
                 : is_of(found, "libmuster_gpu") ? "the wrapper's"
                                                 : "the driver's");
}

static void names_check(const char *name, const char *library, const char *versioned)
{
    route_check("dlsym of the driver", name, dlsym(driver, name), library);
    route_check("dlvsym of the driver", name, dlvsym(driver, name, "libcuda.so.1"), versioned);
    if (!library) /* the library's own export may be in the way there */
        return;
    route_check("dlsym", name, dlsym(RTLD_DEFAULT, name), library);
    route_check("dlvsym", name, dlvsym(RTLD_DEFAULT, name, "libcuda.so.1"), versioned);
    route_check("dlvsym of the next", name, dlvsym(RTLD_NEXT, name, "libcuda.so.1"), versioned);
}

static void test_hooked(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(hooked); i++) {
        bool here = hooked[i].since <= version;
        void *p = NULL;

        names_check(hooked[i].function, here ? "libmuster_gpu" : NULL, here ? "libmuster_gpu" : NULL);
        if (here)
            route_check("a look-up by the driver", hooked[i].function, fake_asks(hooked[i].function), "libcuda");
        if (here && cuGetProcAddress(hooked[i].name, &p, hooked[i].since, hooked[i].per_thread ? 2 : 0) == 0)
            route_check("cuGetProcAddress", hooked[i].name, p, "libmuster_gpu");
        else if (here)
            fail_msg("%s is not found by cuGetProcAddress", hooked[i].name);
    }
}

/* Those the fake driver really does: they want arguments. */
static bool has_body(const char *name)
{
    static const char *const names[] = { "cuDeviceGet", "cuStreamWaitEvent" };

    for (size_t i = 0; i < COUNT(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return strncmp(name, "cuCheckpoint", 12) == 0;
}

static void test_others(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(others); i++) {
        bool here = others[i].since <= version;
        CUresult (*call)(void) = NULL;
        void *p = NULL;
        uint64_t before;

        names_check(others[i].name, here ? "libcuda" : NULL, here && symbol_versions ? "libcuda" : NULL);
        if (!here)
            continue;
        assert_ptr_equal(dlsym(driver, others[i].name), fake_symbol(others[i].name));
        /* By its name as it is exported: without a suffix it is what a program asks for. */
        if (!strstr(others[i].name, "_v") && !strstr(others[i].name, "_pt")) {
            assert_int_equal(cuGetProcAddress(others[i].name, &p, version, 0), 0);
            route_check("cuGetProcAddress", others[i].name, p, "libcuda");
        }
        if (has_body(others[i].name))
            continue;
        before = fake_calls(others[i].name);
        *(void **)&call = dlsym(driver, others[i].name);
        assert_int_equal(call(), 0);
        assert_int_equal(fake_calls(others[i].name), before + 1);
    }
}

static void test_version(void **state)
{
    int says = 0, hidden = 0;

    (void)state;
    assert_int_equal(cuDriverGetVersion(&says), 0);
    assert_int_equal(says, version);
    for (size_t i = 0; i < COUNT(others); i++)
        hidden += others[i].since > version;
    for (size_t i = 0; i < COUNT(hooked); i++)
        hidden += hooked[i].since > version;
    print_message("# %d names are not there\n", hidden);
    assert_true(version >= 13000 ? hidden == 0 : hidden > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_version),
        cmocka_unit_test(test_hooked),
        cmocka_unit_test(test_others),
    };

    version = argc > 1 ? atoi(argv[1]) : 13000;
    symbol_versions = version < 13000;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    return driver && cuInit(0) == 0 ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
