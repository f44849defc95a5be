/* SPDX-License-Identifier: Apache-2.0 */
/* Why a job waits that has chosen its nodes: what is free, busy or lost elsewhere has no part in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/core_internal.h"
#include "policy/registry.h"
#include "wire/cluster/cluster.h"

static struct cluster_spec cluster;
static struct policy_setup policies[2];
static struct core *core;
static usec_t now;

/* Of the two nodes the second has the mark. */
static void bench_open(const char *yaml)
{
    struct core_config config = { .policies = policies, .limits = { .jobs = 16 } };
    struct error err = { 0 };
    struct bytes bytes = { .data = (char *)(uintptr_t)yaml, .size = strlen(yaml) };

    if (cluster_read_yaml("test", &bytes, &cluster, &err) < 0)
        fail_msg("%s", err.text);
    policy_setup(policy_find("fifo-skip"), &policies[0]);
    policy_setup(policy_find("fifo-skip"), &policies[1]);
    cluster.nodes[1].marks = 1;
    if (core_new(&cluster, &config, &core, &err) < 0)
        fail_msg("%s", err.text);
    now = 0;
}

static void bench_close(void)
{
    core_audit(core);
    core_free(core);
    cluster_spec_done(&cluster);
}

static void offer(const struct event *event, struct job_ref *ret)
{
    struct error err = { 0 };

    if (core_offer(core, event, ret, &err) < 0)
        fail_msg("%s", err.text);
    (void)core_step(core, now++);
    core_audit(core);
}

static void node_is(uint32_t node, bool up)
{
    offer(&(struct event){ .kind = EVENT_NODE, .target = node, .up = up }, NULL);
}

/* A job of so many GPUs, or parts of them, on nodes with the mark. */
static uint32_t submit(int32_t gpus, mgpu_t share, uint8_t mark)
{
    static int64_t id;
    struct jobspec spec = { .id = ++id,
                            .submit = now,
                            .estimate = USEC_HOUR,
                            .user = NAME_NONE,
                            .model = NAME_NONE,
                            .gpus = gpus,
                            .gpus_min = gpus,
                            .gpus_max = gpus,
                            .share = share,
                            .mcpus = 1000,
                            .mark = mark };
    struct job_ref ref;

    offer(&(struct event){ .kind = EVENT_SUBMIT, .spec = &spec }, &ref);
    return ref.index;
}

static const char plain[] = "nodes: {count: 2, gpus: 4, sku: G, cpus: 8}\n";

/* The other node has room enough, and is not what it asked for. */
static void test_its_node_is_lost(void **state)
{
    uint32_t whole, part;

    (void)state;
    bench_open(plain);
    node_is(1, false);
    whole = submit(2, MGPU_ONE, 1);
    part = submit(1, MGPU_ONE / 2, 1);
    assert_int_equal(core_reason(core, whole), REASON_NODES_UNHEALTHY);
    assert_int_equal(core_reason(core, part), REASON_NODES_UNHEALTHY);
    node_is(1, true);
    assert_int_equal(core_job(core, whole)->state, JOB_STARTING);
    assert_int_equal(core_job(core, part)->state, JOB_STARTING);
    bench_close();
}

/* That another node came back would not help it. */
static void test_its_node_is_busy(void **state)
{
    uint32_t job;

    (void)state;
    bench_open(plain);
    (void)submit(4, MGPU_ONE, 1);
    node_is(0, false);
    job = submit(2, MGPU_ONE, 1);
    assert_int_equal(core_reason(core, job), REASON_INSUFFICIENT_GPUS);
    job = submit(1, MGPU_ONE / 2, 1);
    assert_int_equal(core_reason(core, job), REASON_INSUFFICIENT_GPUS);
    job = submit(2, MGPU_ONE, 0);
    assert_int_equal(core_reason(core, job), REASON_NODES_UNHEALTHY);
    bench_close();
}

/* The same inside what a virtual cluster is guaranteed in nodes. */
static void test_its_node_is_lost_in_a_guarantee(void **state)
{
    uint32_t job;

    (void)state;
    bench_open("nodes: {count: 2, gpus: 4, sku: G, cpus: 8}\n"
               "vcs:\n  a: {guarantee: 1 node, borrow: none}\n  b: {quota: {G: 0}}\n");
    node_is(1, false);
    job = submit(2, MGPU_ONE, 1);
    assert_int_equal(core_reason(core, job), REASON_NODES_UNHEALTHY);
    bench_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_its_node_is_lost),
        cmocka_unit_test(test_its_node_is_busy),
        cmocka_unit_test(test_its_node_is_lost_in_a_guarantee),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
