/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's parts without a cluster: journal, launch, environment, output names, groups, GPUs and their places. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/cgroup.h"
#include "agent/cgroup_device.h"
#include "agent/conn.h"
#include "agent/cpus.h"
#include "agent/journal.h"
#include "agent/launch.h"
#include "agent/procs.h"
#include "agent/spool.h"
#include "agent/util.h"
#include "base/alloc.h"
#include "gpu/gpu.h"
#include "wire/json_read.h"

static struct error err;
static char place[64];
static int dir;

static int dir_open(void **state)
{
    (void)state;
    (void)snprintf(place, sizeof(place), "/tmp/muster-test-agent-XXXXXX");
    assert_non_null(mkdtemp(place));
    dir = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dir < 0;
}

static int dir_close(void **state)
{
    (void)state;
    close(dir);
    return util_tree_remove(AT_FDCWD, place);
}

static json_t *report(int job)
{
    return json_pack("{ss,si}", "t", "report", "job", job);
}

static void journal_survives(void **state)
{
    struct journal j;
    char id[JOURNAL_ID_MAX];

    (void)state;
    assert_int_equal(journal_open(&j, dir, "boot 1", &err), 0);
    memcpy(id, j.id, sizeof(id));
    for (int i = 1; i <= 5; i++)
        assert_int_equal(journal_append(&j, report(i), &err), 0);
    assert_null(journal_after(&j, 0)); /* not written: not to be sent */
    assert_int_equal(journal_flush(&j, true, &err), 0);
    assert_int_equal(util_i64(journal_after(&j, 0), "seq", 0), 1);
    assert_int_equal(util_i64(journal_after(&j, 3), "job", 0), 4);
    journal_ack(&j, 2);
    assert_int_equal(util_i64(journal_after(&j, 0), "seq", 0), 3);
    assert_int_equal(journal_append(&j, report(6), &err), 0); /* never written */
    journal_close(&j);

    assert_int_equal(journal_open(&j, dir, "boot 1", &err), 0);
    assert_string_equal(j.id, id);
    assert_int_equal(j.last, 5);
    assert_int_equal(util_i64(journal_after(&j, 4), "seq", 0), 5);
    assert_int_equal(journal_append(&j, report(7), &err), 0);
    assert_int_equal(j.last, 6);
    assert_int_equal(journal_flush(&j, true, &err), 0);
    journal_close(&j);

    /* After another boot a gap of numbers: lines behind it are believed as well. */
    for (int i = 2; i <= 3; i++) {
        assert_int_equal(journal_open(&j, dir, i == 2 ? "boot 2" : "boot 3", &err), 0);
        assert_int_equal(j.count, i == 2 ? 6 : 7); /* acknowledgements are not kept */
        assert_int_equal(journal_append(&j, report(6 + i), &err), 0);
        assert_int_equal(j.entries[j.count - 1].seq, 6 + (i - 1) * (JOURNAL_SKIP + 1));
        assert_int_equal(journal_flush(&j, true, &err), 0);
        journal_close(&j);
    }
    assert_int_equal(journal_open(&j, dir, "boot 3", &err), 0);
    assert_int_equal(util_i64(journal_after(&j, 6), "job", 0), 8);
    journal_ack(&j, j.last);
    assert_null(journal_after(&j, 0));
    journal_close(&j);
}

/* The power goes while reports are in the page cache only, but the controller has heard them: their numbers are not
 * used for others. */
static void journal_forgets(void **state)
{
    struct bytes disk = { 0 };
    struct journal j;
    uint64_t heard = 0;

    (void)state;
    assert_int_equal(journal_open(&j, dir, "boot 1", &err), 0);
    assert_int_equal(journal_append(&j, report(1), &err), 0);
    assert_int_equal(journal_flush(&j, true, &err), 0);
    assert_false(journal_at_risk(&j));
    assert_int_equal(util_file_get(dir, "journal", 1 << 20, &disk, &err), 0);
    for (int i = 2; i < 1000 + JOURNAL_SKIP; i++) {
        assert_int_equal(journal_append(&j, report(i), &err), 0);
        assert_int_equal(journal_flush(&j, false, &err), 0);
        assert_true(j.last - j.synced < JOURNAL_SKIP);
        if (i == 500)
            assert_true(journal_at_risk(&j));
        if (j.synced == 1)
            heard = j.last;
    }
    journal_ack(&j, j.last);
    assert_false(journal_at_risk(&j));
    journal_close(&j);
    /* Twice, while a report from before is still to be taken. */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(util_file_put(dir, "journal", disk.data, disk.size, false), 0);
        bytes_done(&disk);
        assert_int_equal(journal_open(&j, dir, i ? "boot 3" : "boot 2", &err), 0);
        assert_int_equal(j.count, 1);
        assert_int_equal(util_file_get(dir, "journal", 1 << 20, &disk, &err), 0);
        assert_int_equal(journal_append(&j, report(3), &err), 0);
        assert_int_equal(journal_flush(&j, false, &err), 0);
        assert_true(j.last > heard);
        heard = j.last;
        journal_close(&j);
    }
    bytes_done(&disk);
}

/* Whatever is cut off at the end: the whole lines before it stand, and numbers go on behind them. */
static void journal_cut_anywhere(void **state)
{
    struct bytes whole = { 0 };
    struct journal j;
    char id[JOURNAL_ID_MAX];
    size_t head;

    (void)state;
    assert_int_equal(journal_open(&j, dir, NULL, &err), 0);
    memcpy(id, j.id, sizeof(id));
    for (int i = 1; i <= 3; i++)
        assert_int_equal(journal_append(&j, report(i), &err), 0);
    assert_int_equal(journal_flush(&j, true, &err), 0);
    journal_close(&j);
    assert_int_equal(util_file_get(dir, "journal", 1 << 20, &whole, &err), 0);
    head = (size_t)(strchr(whole.data, '\n') - whole.data) + 1;
    for (size_t size = 0; size <= whole.size; size++) {
        uint64_t lines = 0;

        for (size_t i = head; i < size; i++)
            lines += whole.data[i] == '\n';
        assert_int_equal(util_file_put(dir, "journal", whole.data, size, false), 0);
        assert_int_equal(journal_open(&j, dir, NULL, &err), 0);
        assert_int_equal(j.last, lines);
        assert_int_equal(strcmp(j.id, id) == 0, size >= head);
        assert_int_equal(journal_append(&j, report(9), &err), 0);
        assert_int_equal(journal_flush(&j, true, &err), 0);
        assert_int_equal(util_i64(journal_after(&j, lines), "seq", 0), lines + 1);
        journal_close(&j);
    }
    bytes_done(&whole);
}

static void journal_shrinks(void **state)
{
    struct journal j;
    struct stat st;

    (void)state;
    assert_int_equal(journal_open(&j, dir, NULL, &err), 0);
    for (int i = 0; i < 40000; i++)
        assert_int_equal(journal_append(&j, report(i), &err), 0);
    assert_int_equal(journal_flush(&j, true, &err), 0);
    journal_ack(&j, 40000);
    assert_int_equal(fstatat(dir, "journal", &st, 0), 0);
    assert_true(st.st_size < 200);
    journal_close(&j);
    assert_int_equal(journal_open(&j, dir, NULL, &err), 0);
    assert_int_equal(j.last, 40000);
    journal_close(&j);
}

static void launch_of(const char *text, struct launch *ret)
{
    json_t *order = NULL;

    assert_int_equal(json_read("order", text, strlen(text), &order, &err), 0);
    assert_int_equal(launch_read(order, ret, &err), 0);
    json_decref(order);
}

static const char *value_of(const json_t *env, const char *name)
{
    size_t length = strlen(name), i;
    const json_t *one;

    json_array_foreach(env, i, one) if (strncmp(json_string_value(one), name, length) == 0 &&
                                        json_string_value(one)[length] == '=') return json_string_value(one) +
        length + 1;
    return NULL;
}

#define ORDER_HEAD                                                                                                     \
    "{\"job\":7,\"attempt\":1,\"rank\":1,\"uid\":1,\"gid\":1,\"user\":\"ann\",\"port\":29000,"                         \
    "\"array\":{\"id\":5,\"index\":2},\"place\":[{\"node\":\"g1\",\"address\":\"10.0.0.1\",\"gpus\":[0,1,2]},"         \
    "{\"node\":\"g2\",\"gpus\":[4,5]}],"

static void tasks_are_numbered(void **state)
{
    struct launch l;
    json_t *env;

    (void)state;
    launch_of(ORDER_HEAD "\"spec\":{\"run\":\"x\",\"launch\":\"task\"}}", &l);
    assert_int_equal(launch_procs(&l, 0), 3); /* one a GPU */
    assert_int_equal(launch_procs(&l, 1), 2);
    assert_int_equal(launch_world(&l), 5);
    env = environ_proc(&l, 1);
    assert_string_equal(value_of(env, "RANK"), "4");
    assert_string_equal(value_of(env, "LOCAL_RANK"), "1");
    assert_string_equal(value_of(env, "WORLD_SIZE"), "5");
    json_decref(env);
    launch_done(&l);
    launch_of(ORDER_HEAD "\"spec\":{\"run\":\"x\",\"launch\":\"task\",\"tasks\":7}}", &l);
    assert_int_equal(launch_procs(&l, 0), 4);
    assert_int_equal(launch_procs(&l, 1), 3);
    launch_done(&l);
    launch_of(ORDER_HEAD "\"spec\":{\"run\":\"x\",\"launch\":\"once\"}}", &l);
    assert_int_equal(launch_procs(&l, 0), 1);
    assert_int_equal(launch_procs(&l, 1), 0);
    launch_done(&l);
}

static void environment_of_a_node(void **state)
{
    const char *uuids[] = { "U0", "U1", "U2", "U3", "U4", "U5" };
    const uint16_t links[] = { 0, 0, 0, 0, 4, 4 };
    struct launch_host host = { .node = "g2",
                                .sku = "A100",
                                .rack = "r1",
                                .dir = "/d",
                                .uuids = uuids,
                                .links = links,
                                .gpu_count = 6,
                                .memory_mib = 1000,
                                .key = "k" };
    struct launch l;
    json_t *env;

    (void)state;
    launch_of(ORDER_HEAD "\"spec\":{\"run\":\"x\",\"env\":{\"PATH\":\"/mine\",\"MUSTER_JOB_ID\":\"fake\"},"
                         "\"launch\":\"node\",\"compat\":\"pai\"}}",
              &l);
    env = environ_node(&l, &host);
    assert_string_equal(value_of(env, "PATH"), "/mine");
    assert_string_equal(value_of(env, "MUSTER_JOB_ID"), "7"); /* nobody pretends to be another job */
    assert_string_equal(value_of(env, "MUSTER_TOPOLOGY"), "r1/g2/nvl4");
    assert_string_equal(value_of(env, "CUDA_VISIBLE_DEVICES"), "4,5");
    assert_string_equal(value_of(env, "MASTER_ADDR"), "10.0.0.1");
    assert_string_equal(value_of(env, "PET_NODE_RANK"), "1");
    assert_string_equal(value_of(env, "PET_NPROC_PER_NODE"), "2");
    assert_string_equal(value_of(env, "PAI_HOST_IP_taskrole_1"), "g2"); /* no address: its name */
    assert_null(value_of(env, "SLURM_JOB_ID"));
    json_decref(env);
    host.fenced = true;
    env = environ_node(&l, &host);
    assert_string_equal(value_of(env, "CUDA_VISIBLE_DEVICES"), "0,1");
    json_decref(env);
    host.container = true;
    env = environ_node(&l, &host);
    assert_string_equal(value_of(env, "NVIDIA_VISIBLE_DEVICES"), "U4,U5");
    assert_null(value_of(env, "ROCR_VISIBLE_DEVICES"));
    json_decref(env);
    host = (struct launch_host){ .node = "g2", .sku = "MI300X", .dir = "/d", .amd = true, .key = "k" };
    env = environ_node(&l, &host);
    assert_string_equal(value_of(env, "ROCR_VISIBLE_DEVICES"), "4,5");
    assert_string_equal(value_of(env, "HIP_VISIBLE_DEVICES"), "0,1"); /* of those that ROCr leaves */
    assert_null(value_of(env, "CUDA_VISIBLE_DEVICES"));
    json_decref(env);
    launch_done(&l);
}

static void sweeps_and_shares(void **state)
{
    struct launch_host host = { .node = "g2", .sku = "A100", .dir = "/d", .memory_mib = 1000 };
    struct launch l;
    json_t *env;

    (void)state;
    launch_of(ORDER_HEAD "\"spec\":{\"run\":\"x\",\"gpus\":\"0.25\",\"array\":{\"values\":{\"lr\":[1,2,3]}}}}", &l);
    env = environ_node(&l, &host);
    assert_string_equal(value_of(env, "lr"), "3");
    assert_string_equal(value_of(env, "MUSTER_GPU_FRACTION"), "0.250");
    assert_string_equal(value_of(env, "MUSTER_GPU_MEMORY_LIMIT"), "262144000");
    assert_null(value_of(env, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"));
    json_decref(env);
    host.mps = "/run/mps";
    l.spec.gpu_share = 333;
    env = environ_node(&l, &host);
    assert_string_equal(value_of(env, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "34");
    assert_string_equal(value_of(env, "CUDA_MPS_PIPE_DIRECTORY"), "/run/mps");
    json_decref(env);
    launch_done(&l);
}

static void output_names(void **state)
{
    struct launch l;
    char *name;

    (void)state;
    launch_of(ORDER_HEAD "\"spec\":{\"run\":\"x\",\"name\":\"b\",\"dir\":\"/w\"}}", &l);
    name = launch_output(&l, "o/%x-%j_%a.%A.%N.%t.%n.%%.%q", "g2", 3);
    assert_string_equal(name, "/w/o/b-7_2.5.g2.3.1.%.%q");
    mem_free(name);
    name = launch_output(&l, "/abs%", "g2", 0);
    assert_string_equal(name, "/abs%");
    mem_free(name);
    launch_done(&l);
}

static void orders_that_are_wrong(void **state)
{
    static const char *const bad[] = {
        "{}",
        "{\"place\":[]}",
        "{\"rank\":2,\"place\":[{\"node\":\"a\"}],\"spec\":{}}",
        "{\"place\":[{\"node\":\"a\",\"gpus\":[-1]}],\"spec\":{}}",
        "{\"place\":[{\"node\":\"a\",\"gpus\":[99999]}],\"spec\":{}}",
        "{\"place\":[{\"gpus\":[]}],\"spec\":{}}",
        "{\"place\":[{\"node\":\"a\"}]}",
        "{\"place\":[{\"node\":\"a\"}],\"spec\":{\"no\":1}}",
    };
    struct launch l;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        json_t *order = NULL;

        assert_int_equal(json_read("order", bad[i], strlen(bad[i]), &order, &err), 0);
        assert_true(launch_read(order, &l, &err) < 0);
        json_decref(order);
    }
}

static void base64_round(void **state)
{
    char data[40];

    (void)state;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (char)(i * 37);
    for (size_t size = 0; size <= sizeof(data); size++) {
        struct buf text = BUF_INIT(1000), back = BUF_INIT(1000);

        util_base64_put(&text, data, size);
        assert_int_equal(util_base64_get(text.data ? text.data : "", text.size, &back), 0);
        assert_int_equal(back.size, size);
        if (size)
            assert_memory_equal(back.data, data, size);
        buf_done(&text);
        buf_done(&back);
    }
    {
        struct buf back = BUF_INIT(100);

        assert_int_equal(util_base64_get("abc", 3, &back), -EINVAL);
        assert_int_equal(util_base64_get("a=bc", 4, &back), -EINVAL);
        assert_int_equal(util_base64_get("ab!c", 4, &back), -EINVAL);
        buf_done(&back);
    }
}

static void trees_are_removed_whole(void **state)
{
    (void)state;
    assert_int_equal(util_dir_make(dir, "a", 0700), 0);
    assert_int_equal(util_dir_make(dir, "a/b", 0700), 0);
    assert_int_equal(util_dir_make(dir, "keep", 0700), 0);
    assert_int_equal(util_file_put(dir, "keep/x", "x", 1, false), -ENOENT); /* names, not paths */
    assert_int_equal(symlinkat("../keep", dir, "a/link"), 0);
    assert_int_equal(util_tree_remove(dir, "a"), 0);
    assert_int_equal(faccessat(dir, "a", F_OK, 0), -1);
    assert_int_equal(faccessat(dir, "keep", F_OK, 0), 0);
    assert_int_equal(util_tree_remove(dir, "a"), 0);
}

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
static void devices_are_fenced(void **state)
{
    struct cgroup_tree tree;
    char path[600], node[2][128];
    const int minors[] = { 3 };

    (void)state;
    cgroup_find(NULL, "test-devices", &tree);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(node[i], sizeof(node[i]), "%s/gpu%d", place, i);
        if (geteuid() != 0 || !(tree.fences & FENCE_DEVICES) ||
            mknod(node[i], S_IFCHR | 0600, (dev_t)(195U << 8 | (3U + (unsigned int)i))) < 0) {
            (void)rmdir(tree.path);
            skip();
        }
    }
    (void)snprintf(path, sizeof(path), "%s/task", tree.path);
    assert_int_equal(cgroup_make(path, tree.fences,
                                 &(struct cgroup_limits){ .gpu_minors = minors, .gpu_count = 1, .fence_gpus = true },
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

static bool not_this(void *arg, const char *name)
{
    return strcmp(arg, name) == 0;
}

static void spool_keeps_the_newest(void **state)
{
    static const char *const names[] = { "1.0.0.out", "2.0.0.out", "3.0.0.out", "4.0.0.out" };

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct timespec times[2] = { { .tv_sec = 1000000 + (time_t)i }, { .tv_sec = 1000000 + (time_t)i } };

        assert_int_equal(util_file_put(dir, names[i], "0123456789", 10, false), 0);
        assert_int_equal(utimensat(dir, names[i], times, 0), 0);
    }
    /* Room for two; the oldest is still being written. */
    assert_int_equal(spool_trim(dir, USEC_NEVER, 20, not_this, (char[]){ "1.0.0.out" }), 2);
    assert_int_equal(faccessat(dir, names[0], F_OK, 0), 0);
    assert_int_equal(faccessat(dir, names[1], F_OK, 0), -1);
    assert_int_equal(faccessat(dir, names[2], F_OK, 0), -1);
    assert_int_equal(faccessat(dir, names[3], F_OK, 0), 0);
    /* Too old. */
    assert_int_equal(spool_trim(dir, USEC_SEC, 1000, not_this, (char[]){ "" }), 2);
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

static void where_to_dial(void **state)
{
    static const char *const bad[] = { "", "ftp://x", "http://", "http://x:", "http://[::1", "https://h:port" };
    struct conn_target t;

    (void)state;
    assert_int_equal(conn_target_parse("http://127.0.0.1:80/x", &t, &err), 0);
    assert_string_equal(t.host, "127.0.0.1");
    assert_string_equal(t.port, "80");
    assert_false(t.tls);
    assert_int_equal(conn_target_parse("https://[fe80::1]:9", &t, &err), 0);
    assert_string_equal(t.host, "fe80::1");
    assert_true(t.tls);
    assert_int_equal(conn_target_parse("https://ctl", &t, &err), 0);
    assert_string_equal(t.port, "7717");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(conn_target_parse(bad[i], &t, &err), -EINVAL);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(journal_survives, dir_open, dir_close),
        cmocka_unit_test_setup_teardown(journal_forgets, dir_open, dir_close),
        cmocka_unit_test_setup_teardown(journal_cut_anywhere, dir_open, dir_close),
        cmocka_unit_test_setup_teardown(journal_shrinks, dir_open, dir_close),
        cmocka_unit_test(tasks_are_numbered),
        cmocka_unit_test(environment_of_a_node),
        cmocka_unit_test(sweeps_and_shares),
        cmocka_unit_test(output_names),
        cmocka_unit_test(orders_that_are_wrong),
        cmocka_unit_test(base64_round),
        cmocka_unit_test_setup_teardown(trees_are_removed_whole, dir_open, dir_close),
        cmocka_unit_test_setup_teardown(limits_are_written, dir_open, dir_close),
        cmocka_unit_test_setup_teardown(no_groups_are_said_to_be_none, dir_open, dir_close),
        cmocka_unit_test_setup_teardown(devices_are_fenced, dir_open, dir_close),
        cmocka_unit_test_setup_teardown(spool_keeps_the_newest, dir_open, dir_close),
        cmocka_unit_test(cpus_near_their_gpus),
        cmocka_unit_test_setup_teardown(gpus_that_are_not_there, dir_open, dir_close),
        cmocka_unit_test(products_have_short_names),
        cmocka_unit_test(places_of_gpus),
        cmocka_unit_test(where_to_dial),
        cmocka_unit_test(what_is_known_of_processes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
