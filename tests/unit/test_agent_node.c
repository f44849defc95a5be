/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent knows of its node: groups of processes and their fences, CPUs, GPUs and their places. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/task/cgroup.h"
#include "agent/task/cpus.h"
#include "agent/task/procs.h"
#include "agent_dir.h"
#include "base/alloc.h"
#include "gpu/gpu.h"

static struct error err;

static char *file_of(const char *name)
{
    struct bytes text = { 0 };

    assert_int_equal(util_file_get(dir, name, 4096, &text, &err), 0);
    return text.data;
}

static void expect_file(const char *name, const char *content)
{
    char *text = file_of(name);

    assert_string_equal(text, content);
    mem_free(text);
}

/* A folder in the place of a group with all controllers: what would be written. */
static void limits_are_written(void **state)
{
    const struct cgroup_limits limits = { .memory = 1 << 30, .cpus = 6, .cpuset = "0-5", .pids = 100 };
    static const char *const files[] = { "memory.max",  "memory.swap.max", "memory.oom.group", "cpu.max",
                                         "cpuset.cpus", "pids.max",        "cgroup.procs" };
    char path[128], name[160];

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/task", place);
    assert_int_equal(mkdir(path, 0700), 0);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        (void)snprintf(name, sizeof(name), "%s/%s", path, files[i]);
        assert_true(close(open(name, O_CREAT | O_WRONLY, 0600)) == 0);
    }
    assert_int_equal(cgroup_make(path, FENCE_MEMORY | FENCE_CPU | FENCE_CPUSET | FENCE_PIDS, &limits, &err), 0);
    expect_file("task/memory.max", "1073741824");
    expect_file("task/cpu.max", "600000 100000");
    expect_file("task/cpuset.cpus", "0-5");
    expect_file("task/pids.max", "100");
    assert_int_equal(cgroup_kill(path), -ENOSYS);
    assert_int_equal(cgroup_number(path, "memory.max", NULL), 1 << 30);
    assert_int_equal(cgroup_number(path, "memory.max", "low"), -1);
}

static void no_groups_are_said_to_be_none(void **state)
{
    struct cgroup_tree tree;

    (void)state;
    cgroup_find("", "x", &tree);
    assert_string_equal(tree.path, "");
    assert_string_equal(tree.why, "no limits: groups were turned off");
    cgroup_find(place, "x", &tree); /* a folder that is none */
    assert_string_equal(tree.path, "");
    assert_non_null(strstr(tree.why, "is not a control group"));
}

/* The kernel's own answer: EPERM from the fence, ENXIO from a device without driver. */
static void fence_try(unsigned int major)
{
    struct cgroup_tree tree;
    char path[600], node[2][128];
    const int minors[] = { 3 };

    cgroup_find(NULL, "test-devices", &tree);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(node[i], sizeof(node[i]), "%s/gpu%u-%d", place, major, i);
        if (geteuid() != 0 || !(tree.fences & FENCE_DEVICES) ||
            mknod(node[i], S_IFCHR | 0600, (dev_t)(major << 8 | (3U + (unsigned int)i))) < 0) {
            (void)rmdir(tree.path);
            skip();
        }
    }
    (void)snprintf(path, sizeof(path), "%s/task", tree.path);
    assert_int_equal(
        cgroup_make(path, tree.fences,
                    &(struct cgroup_limits){
                        .gpu_major = (int)major, .gpu_minors = minors, .gpu_count = 1, .fence_gpus = true },
                    &err),
        0);
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        int status = 0;

        if (child == 0)
            _exit(cgroup_enter(path) < 0                          ? 1
                  : open("/dev/null", O_RDONLY) < 0               ? 2
                  : open(node[i], O_RDONLY) < 0 && errno == EPERM ? 3
                                                                  : 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), i == 0 ? 0 : 3);
    }
    assert_int_equal(cgroup_remove(path), 0);
    (void)rmdir(tree.path);
}

static void devices_are_fenced(void **state)
{
    (void)state;
    fence_try(MAJOR_NVIDIA);
    fence_try(MAJOR_DRM);
}

static void cpus_near_their_gpus(void **state)
{
    struct cpu_map map = { .count = 8 };
    uint16_t got[8];

    (void)state;
    for (uint16_t i = 0; i < 8; i++) {
        map.number[i] = (uint16_t)(10 + i);
        map.numa[i] = i < 4 ? 0 : 1;
    }
    assert_int_equal(cpus_take(&map, 3, 1 << 1, got), 3);
    assert_int_equal(got[0], 14);
    assert_int_equal(got[2], 16);
    assert_int_equal(cpus_take(&map, 2, 1 << 1, got), 2); /* one is left there, the other comes from elsewhere */
    assert_int_equal(got[0], 17);
    assert_int_equal(got[1], 10);
    assert_int_equal(cpus_take(&map, 4, 0, got), 0); /* three are left */
    cpus_mark(&map, 14, false);
    assert_int_equal(cpus_take(&map, 4, 0, got), 4);
    cpus_read(&map);
    assert_true(map.count > 0);
}

static void gpus_that_are_not_there(void **state)
{
    struct gpus *gpus = NULL;
    struct gpu_health health;
    char path[128];

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/health", place);
    assert_int_equal(gpus_open_fake("8:H100", path, &gpus, &err), 0);
    assert_int_equal(gpus->count, 8);
    assert_int_equal(gpus->memory_mib, 81559);
    assert_int_equal(gpus->info[7].numa, 1);
    gpus->ops->health(gpus, 3, &health);
    assert_true(health.ok);
    assert_int_equal(util_file_put(dir, "health", "3 XID 79\n5\n", 11, false), 0);
    gpus->ops->health(gpus, 3, &health);
    assert_false(health.ok);
    assert_string_equal(health.reason, "XID 79");
    gpus->ops->health(gpus, 5, &health);
    assert_false(health.ok);
    gpus->ops->health(gpus, 4, &health);
    assert_true(health.ok);
    gpus_close(gpus);
    assert_int_equal(gpus_open_fake("x", NULL, &gpus, &err), -EINVAL);
    assert_int_equal(gpus_open_fake("257:H100", NULL, &gpus, &err), -EINVAL);
    assert_int_equal(gpus_open_fake("8:", NULL, &gpus, &err), -EINVAL);
}

static void products_have_short_names(void **state)
{
    static const char *const pairs[][2] = {
        { "NVIDIA H100 80GB HBM3", "H100" }, { "Tesla V100-SXM2-32GB", "V100" },
        { "NVIDIA A100-SXM4-80GB", "A100" }, { "NVIDIA GeForce RTX 4090", "RTX4090" },
        { "NVIDIA H200", "H200" },           { "Tesla T4", "T4" },
        { "NVIDIA L40S", "L40S" },           { "Something", "Something" }
    };
    char name[64];

    (void)state;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        gpu_sku_name(pairs[i][0], name, sizeof(name));
        assert_string_equal(name, pairs[i][1]);
    }
}

static void places_of_gpus(void **state)
{
    static const char *const buses[] = { "0000:11:00.0", "0000:12:00.0", "0000:21:00.0", "0000:22:00.0",
                                         "0000:91:00.0", "0000:92:00.0", "0000:a1:00.0", "0000:a2:00.0" };
    const char *source = getenv("MUSTER_SOURCE");
    struct gpus *gpus = NULL;
    char xml[1024];

    (void)state;
    if (!source)
        skip();
    (void)snprintf(xml, sizeof(xml), "%s/tests/agent/topology/eight.xml", source);
    assert_int_equal(gpus_open_fake("8:H100", NULL, &gpus, &err), 0);
    for (size_t i = 0; i < 8; i++)
        (void)snprintf(gpus->info[i].bus, sizeof(gpus->info[i].bus), "%s", buses[i]);
    assert_int_equal(gpu_topology(gpus, xml, &err), 0);
    assert_int_equal(gpus->sockets, 2);
    assert_int_equal(gpus->groups, 2);
    assert_int_equal(gpus->info[1].numa, 0);
    assert_int_equal(gpus->info[4].numa, 1);
    /* One is missing: the rest is not regular any more, and nothing is promised. */
    gpus->count = 7;
    assert_int_equal(gpu_topology(gpus, xml, &err), 0);
    assert_int_equal(gpus->sockets, 1);
    assert_int_equal(gpus->groups, 1);
    (void)snprintf(gpus->info[0].bus, sizeof(gpus->info[0].bus), "0000:ff:00.0");
    assert_int_equal(gpu_topology(gpus, xml, &err), -ENOENT);
    assert_int_equal(gpu_topology(gpus, "/no/such.xml", &err), -EINVAL);
    gpus_close(gpus);
}

static void what_is_known_of_processes(void **state)
{
    char value[64];
    pid_t child = fork(), found[8];

    (void)state;
    if (child == 0) {
        (void)pause();
        _exit(0);
    }
    assert_int_equal(procs_parent(child), getpid());
    assert_true(procs_started(child) > 0);
    assert_int_equal(procs_below(getpid(), 0, found, 8), 1);
    assert_int_equal(found[0], child);
    assert_int_equal(procs_below(getpid(), child, found, 8), 0);
    assert_int_equal(procs_variable(child, "NO_SUCH_VARIABLE_HERE", value, sizeof(value)), -ENOENT);
    assert_int_equal(kill(child, 9), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(procs_parent(child), 0);
}

/* Processes that cannot be examined do not count as gone: the GPUs of a running task would be given to another job. */
static void processes_not_examined_are_not_gone(void **state)
{
    struct rlimit limit, none;
    pid_t found[8];
    int last = dup(0), marked;

    (void)state;
    assert_true(last > 0);
    close(last);
    assert_int_equal(procs_marked("NO_SUCH_MARK=here", found, 8), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int more = 0; more < 2; more++) { /* not even the list; the list alone */
        none = (struct rlimit){ (rlim_t)last + (rlim_t)more, limit.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        marked = procs_marked("NO_SUCH_MARK=here", found, 8);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        assert_int_equal(marked, -EMFILE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(limits_are_written, dir_open, dir_close),
        cmocka_unit_test_setup_teardown(no_groups_are_said_to_be_none, dir_open, dir_close),
        cmocka_unit_test_setup_teardown(devices_are_fenced, dir_open, dir_close),
        cmocka_unit_test(cpus_near_their_gpus),
        cmocka_unit_test_setup_teardown(gpus_that_are_not_there, dir_open, dir_close),
        cmocka_unit_test(products_have_short_names),
        cmocka_unit_test(places_of_gpus),
        cmocka_unit_test(what_is_known_of_processes),
        cmocka_unit_test(processes_not_examined_are_not_gone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
