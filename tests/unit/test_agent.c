/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's parts without a cluster: journal, launch, environment, output names, where to dial. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/conn.h"
#include "agent/journal.h"
#include "agent/task/launch.h"
#include "agent/task/spool.h"
#include "agent_dir.h"
#include "base/alloc.h"
#include "wire/text/json_read.h"

static struct error err;

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
    assert_null(journal_unwritten(&j));
    assert_int_equal(journal_append(&j, report(9), &err), 0);
    assert_int_equal(util_i64(journal_unwritten(&j), "job", 0), 9);
    journal_take_back(&j);
    assert_null(journal_unwritten(&j));
    assert_int_equal(journal_append(&j, report(6), &err), 0); /* never written */
    assert_int_equal(util_i64(journal_unwritten(&j), "seq", 0), 6);
    journal_close(&j);

    assert_int_equal(journal_open(&j, dir, "boot 1", &err), 0);
    assert_string_equal(j.id, id);
    assert_int_equal(j.last, 5 + JOURNAL_SKIP); /* what was behind, and is cut off, was never there */
    assert_int_equal(util_i64(journal_after(&j, 4), "seq", 0), 5);
    assert_int_equal(journal_append(&j, report(7), &err), 0);
    assert_int_equal(j.last, 6 + JOURNAL_SKIP);
    assert_int_equal(journal_flush(&j, true, &err), 0);
    journal_close(&j);

    /* Behind a gap of numbers lines are believed as well. */
    for (int i = 2; i <= 3; i++) {
        assert_int_equal(journal_open(&j, dir, i == 2 ? "boot 2" : "boot 3", &err), 0);
        assert_int_equal(j.count, i == 2 ? 6 : 7); /* acknowledgements are not kept */
        assert_int_equal(journal_append(&j, report(6 + i), &err), 0);
        assert_int_equal(j.entries[j.count - 1].seq, 6 + JOURNAL_SKIP + (i - 1) * (JOURNAL_SKIP + 1));
        assert_int_equal(journal_flush(&j, true, &err), 0);
        journal_close(&j);
    }
    assert_int_equal(journal_open(&j, dir, "boot 3", &err), 0);
    assert_int_equal(util_i64(journal_after(&j, 6), "job", 0), 7);
    journal_ack(&j, j.last);
    assert_null(journal_after(&j, 0));
    journal_close(&j);
}

/* A report about task 7.1.0 in `state`; takes `more`, what else it says. */
static json_t *task_report(const char *state, json_t *more)
{
    json_t *made =
        json_pack("{ss,si,si,si,si,ss}", "t", "report", "at", 2000, "job", 7, "attempt", 1, "rank", 0, "state", state);

    if (more)
        json_object_update(made, more);
    json_decref(more);
    return made;
}

/* The start and the end of a short task are one report, which says when the task started also where the end alone does
 * not: where the shepherd was killed, it is the agent that reports the end, and only the start had the time. */
static void start_and_end_are_joined(void **state)
{
    struct journal j;
    json_t *end = task_report("exited", json_pack("{ss}", "cause", "lost"));

    (void)state;
    assert_int_equal(journal_open(&j, dir, "boot 1", &err), 0);
    assert_int_equal(journal_append(&j, task_report("running", json_pack("{si}", "started", 1000)), &err), 0);
    journal_join(&j, end);
    assert_true(util_flag(end, "ran"));
    assert_int_equal(util_i64(end, "started", 0), 1000);
    assert_null(journal_unwritten(&j));
    assert_int_equal(journal_append(&j, end, &err), 0);
    assert_int_equal(util_i64(journal_unwritten(&j), "seq", 0), 1);

    /* An end that has the time keeps it; one of another task, and a start that says more, stay two reports. */
    assert_int_equal(journal_append(&j, task_report("running", json_pack("{si}", "started", 1000)), &err), 0);
    end = task_report("exited", json_pack("{si,si}", "started", 1001, "rank", 1));
    journal_join(&j, end);
    assert_null(json_object_get(end, "ran"));
    json_object_set_new(end, "rank", json_integer(0));
    journal_join(&j, end);
    assert_int_equal(util_i64(end, "started", 0), 1001);
    assert_true(util_flag(end, "ran"));
    json_decref(end);
    assert_int_equal(
        journal_append(&j, task_report("running", json_pack("{si,si}", "started", 1000, "progress", 5)), &err), 0);
    end = task_report("exited", NULL);
    journal_join(&j, end);
    assert_null(json_object_get(end, "ran"));
    json_decref(end);
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
        assert_int_equal(j.last, size >= head ? lines + JOURNAL_SKIP : 0);
        assert_int_equal(strcmp(j.id, id) == 0, size >= head);
        assert_int_equal(journal_append(&j, report(9), &err), 0);
        assert_int_equal(journal_flush(&j, true, &err), 0);
        assert_int_equal(util_i64(journal_after(&j, lines), "seq", 0), j.last);
        journal_close(&j);
    }
    bytes_done(&whole);
}

/* One bit anywhere: the lines that it is not in are all there, and no number is used again. */
static void journal_damaged_anywhere(void **state)
{
    struct bytes whole = { 0 }, kept = { 0 };
    struct journal j;
    char id[JOURNAL_ID_MAX];
    size_t head;

    (void)state;
    assert_int_equal(journal_open(&j, dir, "boot 1", &err), 0);
    memcpy(id, j.id, sizeof(id));
    for (int i = 1; i <= 5; i++)
        assert_int_equal(journal_append(&j, report(i), &err), 0);
    assert_int_equal(journal_flush(&j, true, &err), 0);
    journal_close(&j);
    assert_int_equal(util_file_get(dir, "journal", 1 << 20, &whole, &err), 0);
    head = (size_t)(strchr(whole.data, '\n') - whole.data) + 1;
    for (size_t at = 0; at < strlen(whole.data); at++) {
        bool newline = whole.data[at] == '\n';

        whole.data[at] = (char)(whole.data[at] ^ 1 << at % 7);
        assert_int_equal(util_file_put(dir, "journal", whole.data, whole.size, false), 0);
        assert_int_equal(journal_open(&j, dir, "boot 1", &err), 0);
        assert_true(j.damaged > 0 || (newline && at + 1 == strlen(whole.data)) || at >= head);
        assert_int_equal(strcmp(j.id, id) == 0, at >= head);
        if (at >= head) {
            assert_in_range(j.count, newline ? 3 : 4, 5);
            assert_true(j.last > 5);
        }
        for (size_t i = 0; i < j.count; i++) /* none is another than it was */
            assert_int_equal(util_i64(j.entries[i].report, "job", 0), j.entries[i].seq);
        assert_int_equal(journal_append(&j, report(9), &err), 0);
        assert_int_equal(journal_flush(&j, true, &err), 0);
        journal_close(&j);
        whole.data[at] = (char)(whole.data[at] ^ 1 << at % 7);
    }
    assert_int_equal(util_file_get(dir, "journal.damaged", 1 << 20, &kept, &err), 0);
    assert_int_equal(kept.size, whole.size);
    bytes_done(&kept);
    bytes_done(&whole);
}

/* As the former version wrote it; one of a later version is left as it is. */
static void journal_of_another_version(void **state)
{
    static const char former[] = "{\"agent\": \"abc\", \"base\": 7, \"given\": 7, \"boot\": \"x\"}\n"
                                 "{\"t\": \"report\", \"job\": 8, \"seq\": 8}\n";
    static const char later[] = "af20bb91 {\"v\":3,\"agent\":\"abc\"}\n";
    struct journal j;

    (void)state;
    assert_int_equal(util_file_put(dir, "journal", former, sizeof(former) - 1, false), 0);
    assert_int_equal(journal_open(&j, dir, "x", &err), 0);
    assert_string_equal(j.id, "abc");
    assert_int_equal(j.count, 1);
    journal_close(&j);
    assert_int_equal(journal_open(&j, dir, "x", &err), 0);
    assert_int_equal(j.count, 1);
    assert_int_equal(j.damaged, 0);
    journal_close(&j);
    assert_int_equal(util_file_put(dir, "journal", later, sizeof(later) - 1, false), 0);
    assert_int_equal(journal_open(&j, dir, "x", &err), -EPROTONOSUPPORT);
    assert_non_null(strstr(err.text, "a later version"));
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
    assert_int_equal(j.last, 40000 + JOURNAL_SKIP);
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
    assert_int_equal(mkdirat(dir, "a", 0700), 0);
    assert_int_equal(mkdirat(dir, "a/b", 0700), 0);
    assert_int_equal(mkdirat(dir, "keep", 0700), 0);
    assert_int_equal(util_file_put(dir, "keep/x", "x", 1, false), -ENOENT); /* names, not paths */
    assert_int_equal(symlinkat("../keep", dir, "a/link"), 0);
    assert_int_equal(beneath_tree_remove(dir, "a"), 0);
    assert_int_equal(faccessat(dir, "a", F_OK, 0), -1);
    assert_int_equal(faccessat(dir, "keep", F_OK, 0), 0);
    assert_int_equal(beneath_tree_remove(dir, "a"), 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(journal_survives, dir_open, dir_close),
        cmocka_unit_test_setup_teardown(start_and_end_are_joined, dir_open, dir_close),
        cmocka_unit_test_setup_teardown(journal_forgets, dir_open, dir_close),
        cmocka_unit_test_setup_teardown(journal_cut_anywhere, dir_open, dir_close),
        cmocka_unit_test_setup_teardown(journal_damaged_anywhere, dir_open, dir_close),
        cmocka_unit_test_setup_teardown(journal_of_another_version, dir_open, dir_close),
        cmocka_unit_test_setup_teardown(journal_shrinks, dir_open, dir_close),
        cmocka_unit_test(tasks_are_numbered),
        cmocka_unit_test(environment_of_a_node),
        cmocka_unit_test(sweeps_and_shares),
        cmocka_unit_test(output_names),
        cmocka_unit_test(orders_that_are_wrong),
        cmocka_unit_test(base64_round),
        cmocka_unit_test_setup_teardown(trees_are_removed_whole, dir_open, dir_close),
        cmocka_unit_test_setup_teardown(spool_keeps_the_newest, dir_open, dir_close),
        cmocka_unit_test(where_to_dial),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
