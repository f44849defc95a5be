/* SPDX-License-Identifier: Apache-2.0 */
/* A job that goes elsewhere inside its guarantee while others are there who are owed nothing: in its virtual cluster it
 * is there at once, in the cluster when they have left; whatever befalls it in between. And gangs that choose nodes
 * which can be bound one by one, but not any of them together. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "core/contract/plan.h"
#include "core/core_internal.h"
#include "core/snapshot/snapshot.h"
#include "policy/registry.h"
#include "wire/cluster/cluster.h"

/* ---- a planner that does as it is told, inside the guarantee ---- */

static void (*order)(struct plan *plan);

static void told_plan(struct planner_ctx *ctx, struct plan *plan)
{
    (void)ctx;
    if (order && !plan_borrows(plan))
        order(plan);
}

static const struct planner_ops planner_told = { .name = "told", .summary = "does as it is told", .plan = told_plan };

struct bench {
    struct cluster_spec cluster;
    struct policy_setup policies[2];
    struct core_config config;
    struct core *core;
    const struct outbox *out; /* of the last step */
    usec_t now;
};

static struct bench bench;
static uint32_t e, f, o; /* jobs: e and f are guaranteed, o is opportunistic */

static const char two_nodes[] = "nodes: {count: 2, gpus: 4, sku: G}\n"
                                "vcs:\n  a: {guarantee: 1 node, borrow: none}\n  b: {quota: {G: 0}}\n";

static void bench_open(const char *yaml)
{
    struct error err = { 0 };
    struct bytes bytes = { .data = (char *)(uintptr_t)yaml, .size = strlen(yaml) };

    bench = (struct bench){ .config = { .limits = { .jobs = 16 } } };
    order = NULL;
    if (cluster_read_yaml("test", &bytes, &bench.cluster, &err) < 0)
        fail_msg("%s", err.text);
    policy_setup(policy_find("fifo-skip"), &bench.policies[0]);
    policy_setup(policy_find("fifo-skip"), &bench.policies[1]);
    bench.policies[0].planner = &planner_told;
    bench.config.policies = bench.policies;
    if (core_new(&bench.cluster, &bench.config, &bench.core, &err) < 0)
        fail_msg("%s", err.text);
}

static void bench_close(void)
{
    core_audit(bench.core);
    core_free(bench.core);
    cluster_spec_done(&bench.cluster);
}

static void step(usec_t at)
{
    bench.now = at;
    bench.out = core_step(bench.core, at);
    core_audit(bench.core);
}

static uint32_t submit(uint32_t vc, int32_t gpus, int32_t most, enum job_class klass)
{
    static int64_t id;
    struct jobspec spec = { .id = ++id,
                            .submit = bench.now,
                            .estimate = USEC_HOUR,
                            .user = NAME_NONE,
                            .model = NAME_NONE,
                            .gpus = gpus,
                            .gpus_min = gpus,
                            .gpus_max = most,
                            .share = MGPU_ONE,
                            .klass = (uint8_t)klass };
    struct event event = { .kind = EVENT_SUBMIT, .target = vc, .spec = &spec };
    struct job_ref ref;
    struct error err = { 0 };

    if (core_offer(bench.core, &event, &ref, &err) < 0)
        fail_msg("%s", err.text);
    return ref.index;
}

static void tell(uint32_t job, struct event event)
{
    struct error err = { 0 };

    event.job = job;
    event.gen = core_job(bench.core, job)->gen;
    if (core_offer(bench.core, &event, NULL, &err) < 0)
        fail_msg("%s", err.text);
}

static void started(uint32_t job)
{
    tell(job, (struct event){ .kind = EVENT_STARTED, .rate = PPM_ONE, .progress = PROGRESS_OWN });
    step(bench.now);
    assert_int_equal(core_job(bench.core, job)->state, JOB_RUNNING);
}

static void stopped(uint32_t job)
{
    tell(job, (struct event){ .kind = EVENT_STOPPED, .progress = PROGRESS_OWN });
    step(bench.now);
}

/* How often the last step ordered that of the job. */
static int ordered(enum effect_kind kind, uint32_t job)
{
    int count = 0;

    for (size_t i = 0; i < bench.out->effect_count; i++)
        count += bench.out->effects[i].kind == kind && bench.out->effects[i].job == job;
    return count;
}

static const struct job *at(uint32_t job)
{
    return core_job(bench.core, job);
}

/* ---- orders ---- */

static void start_e(struct plan *plan)
{
    if (at(e)->state == JOB_PENDING)
        assert_int_equal(plan_start(plan, e, &(struct placement){ (const uint32_t[]){ 0 }, 1 }), 0);
}

static void grow_e(struct plan *plan)
{
    assert_int_equal(plan_move(plan, e, &(struct placement){ (const uint32_t[]){ 0, 1, 2, 3 }, 4 }), 0);
}

static void stop_e(struct plan *plan)
{
    assert_int_equal(plan_stop(plan, e, STOP_REQUEUE), 0);
}

static void stop_and_keep_e(struct plan *plan)
{
    assert_int_equal(plan_stop(plan, e, STOP_REQUEUE), 0);
    assert_int_equal(plan_keep(plan, e), 0);
}

/* e goes to the other GPUs of the virtual cluster, and f is given the one it had. */
static void swap_e(struct plan *plan)
{
    assert_int_equal(plan_move(plan, e, &(struct placement){ (const uint32_t[]){ 1, 2, 3 }, 3 }), 0);
    assert_int_equal(plan_start(plan, f, &(struct placement){ (const uint32_t[]){ 0 }, 1 }), 0);
}

static void obey(void (*what)(struct plan *plan), usec_t when)
{
    order = what;
    bench.core->vcs[0].dirty = bench.core->vcs[0].awake = true;
    step(when);
    order = NULL;
}

/* An opportunistic job on six GPUs, e on one of the other two. */
static void beside_six(void)
{
    bench_open(two_nodes);
    o = submit(1, 6, 6, CLASS_OPPORTUNISTIC);
    step(0);
    started(o);
    e = submit(0, 1, 4, CLASS_GUARANTEED);
    obey(start_e, USEC_SEC);
    started(e);
}

/* e there told to grow to a whole node. */
static void grown(void)
{
    beside_six();
    obey(grow_e, 10 * USEC_SEC);
    assert_int_equal(ordered(EFFECT_STOP, o), 1);
    assert_int_equal(ordered(EFFECT_MIGRATE, e), 0);
    assert_true(job_defers(at(e)));
    assert_int_equal(at(e)->gpus, 4);
    assert_int_equal(at(e)->runs_on, 1);
    assert_int_equal(at(e)->blocked, 2);
    assert_int_equal(bench.core->vcs[0].own->topo.pools[0].free, 0); /* as its policy sees it, it is there */
}

/* The opportunistic job has left 20 seconds later; e goes at that instant. */
static void has_grown(void)
{
    usec_t ran = 29 * USEC_SEC;

    step(30 * USEC_SEC);
    assert_true(job_defers(at(e)));
    stopped(o);
    assert_int_equal(ordered(EFFECT_MIGRATE, e), 1);
    assert_int_equal(at(e)->state, JOB_STARTING);
    assert_int_equal(at(e)->runs_on, 0);
    assert_int_equal(at(e)->blocked, 0);
    assert_true(job_progress(at(e), bench.now) == ran);                   /* it ran all the while, */
    assert_true(job_attained(at(e), bench.now) == svc_of(MGPU_ONE, ran)); /* on the one GPU it had */
    started(e);
    assert_int_equal(at(e)->migrations, 1);
    assert_int_equal(at(e)->resizes, 1);
}

static void test_grows_when_they_have_left(void **state)
{
    (void)state;
    grown();
    has_grown();
    bench_close();
}

/* ---- what may come in between ---- */

static void save_piece(void *arg, const void *data, size_t size)
{
    buf_put(arg, data, size);
}

/* A whole snapshot, but for the number of its form: refused, and why. */
static void other_version(const struct buf *saved)
{
    uint64_t *words = mem_zalloc(saved->size, 1), sum = 0;
    size_t count = saved->size / sizeof(*words);
    struct error err = { 0 };
    struct core *none;

    assert_non_null(words);
    memcpy(words, saved->data, saved->size);
    words[1]++;
    for (size_t i = 0; i + 1 < count; i++)
        sum = rng_mix(sum ^ words[i]);
    words[count - 1] = sum;
    assert_int_equal(core_load(&bench.cluster, &bench.config, words, saved->size, &none, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "written by another version of muster"));
    mem_free(words);
}

static void test_survives_a_restart(void **state)
{
    CLEANUP_BUF struct buf first = BUF_INIT(1 << 24), second = BUF_INIT(1 << 24);
    struct error err = { 0 };
    struct core *again;

    (void)state;
    grown();
    core_save(bench.core, save_piece, &first);
    other_version(&first);
    if (core_load(&bench.cluster, &bench.config, first.data, first.size, &again, &err) < 0)
        fail_msg("%s", err.text);
    core_save(again, save_piece, &second);
    assert_int_equal(first.size, second.size);
    assert_memory_equal(first.data, second.data, first.size);
    core_free(bench.core);
    bench.core = again;
    core_audit(again);
    has_grown();
    bench_close();
}

static void test_survives_a_cluster_made_anew(void **state)
{
    uint32_t same[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    struct error err = { 0 };
    struct core *again;

    (void)state;
    grown();
    if (core_carry(bench.core, &bench.cluster, &bench.config, same, &again, &err) < 0)
        fail_msg("%s", err.text);
    core_free(bench.core);
    bench.core = again;
    step(bench.now);
    assert_true(job_defers(at(e)));
    has_grown();
    bench_close();
}

static void test_ends_before(void **state)
{
    (void)state;
    grown();
    tell(e, (struct event){ .kind = EVENT_ENDED, .fail = FAIL_NONE, .progress = PROGRESS_OWN });
    step(20 * USEC_SEC);
    assert_int_equal(at(e)->state, JOB_FREE);
    assert_int_equal(bench.core->ledger.share_count, 6); /* only what the other is leaving */
    stopped(o);
    assert_int_equal(ordered(EFFECT_MIGRATE, e), 0);
    step(21 * USEC_SEC);
    assert_true(job_holds(at(o)->state)); /* and it comes back */
    bench_close();
}

static void test_cancelled_before(void **state)
{
    (void)state;
    grown();
    tell(e, (struct event){ .kind = EVENT_CANCEL });
    step(20 * USEC_SEC);
    assert_int_equal(ordered(EFFECT_KILL, e), 1);
    assert_int_equal(at(e)->state, JOB_FREE);
    stopped(o);
    assert_int_equal(ordered(EFFECT_MIGRATE, e), 0);
    bench_close();
}

static void test_stopped_before(void **state)
{
    (void)state;
    grown();
    obey(stop_e, 20 * USEC_SEC);
    assert_int_equal(ordered(EFFECT_STOP, e), 1);
    stopped(o);
    assert_int_equal(ordered(EFFECT_MIGRATE, e), 0);
    stopped(e);
    assert_int_equal(at(e)->state, JOB_PENDING);
    assert_int_equal(at(e)->runs_on, 0);
    assert_int_equal(at(e)->gpus, 0);
    bench_close();
}

static void test_stopped_and_kept(void **state)
{
    (void)state;
    grown();
    obey(stop_and_keep_e, 20 * USEC_SEC);
    assert_true(job_defers(at(e)));
    has_grown();
    bench_close();
}

/* Where it is to go, or where it is: as of any job that starts there. */
static void test_hardware_fails_before(void **state)
{
    (void)state;
    for (uint32_t gpu = 4; gpu < 8; gpu++) {
        grown();
        assert_int_equal(core_offer(bench.core, &(struct event){ .kind = EVENT_GPU, .target = gpu }, NULL, NULL), 0);
        step(20 * USEC_SEC);
        assert_int_equal(ordered(EFFECT_KILL, e), 1);
        assert_int_equal(at(e)->state, JOB_PENDING);
        assert_int_equal(at(e)->runs_on, 0);
        bench_close();
    }
}

/* What is left is not left before it is: who is given it waits for that, and no longer. */
static void test_whoever_follows_waits(void **state)
{
    (void)state;
    beside_six();
    f = submit(0, 1, 1, CLASS_GUARANTEED);
    obey(swap_e, 10 * USEC_SEC);
    assert_true(job_defers(at(e)));
    if (at(f)->state == JOB_CLAIMING) /* else it was given a GPU that nobody was on */
        assert_int_equal(at(f)->blocked, 1);
    step(30 * USEC_SEC);
    stopped(o);
    assert_int_equal(ordered(EFFECT_MIGRATE, e), 1);
    assert_int_equal(at(f)->state, JOB_STARTING);
    started(e);
    started(f);
    bench_close();
}

/* ---- chosen nodes ---- */

/* Of each rack one node is allowed. The granted rack has two, which cannot both be: one of them and the node that was
 * granted alone can. */
static void test_chosen_nodes_are_bound_together(void **state)
{
    struct jobspec spec = { .id = 100,
                            .estimate = USEC_HOUR,
                            .user = NAME_NONE,
                            .model = NAME_NONE,
                            .gpus = 8,
                            .gpus_min = 8,
                            .gpus_max = 8,
                            .share = MGPU_ONE,
                            .per_node = 4,
                            .mark = 1 };
    struct event event = { .kind = EVENT_SUBMIT, .spec = &spec };
    struct error err = { 0 };
    struct job_ref ref;
    uint32_t nodes = 0;

    (void)state;
    bench_open("racks:\n  - {count: 2, nodes: {count: 2, gpus: 4, sku: G}}\n"
               "vcs:\n  a: {guarantee: 1 rack + 1 node, borrow: none}\n  b: {quota: {G: 0}}\n");
    core_free(bench.core);
    policy_setup(policy_find("fifo-skip"), &bench.policies[0]);
    bench.cluster.nodes[0].marks = bench.cluster.nodes[2].marks = 1;
    if (core_new(&bench.cluster, &bench.config, &bench.core, &err) < 0)
        fail_msg("%s", err.text);
    if (core_offer(bench.core, &event, &ref, &err) < 0)
        fail_msg("%s", err.text);
    step(0);
    assert_int_equal(at(ref.index)->state, JOB_STARTING);
    for (uint32_t s = at(ref.index)->shares; s != SHARE_NONE; s = bench.core->ledger.shares[s].next_of_job)
        nodes |= 1u << bench.core->ledger.gpus[bench.core->ledger.shares[s].gpu].node;
    assert_int_equal(nodes, 1 | 4);
    bench_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grows_when_they_have_left),
        cmocka_unit_test(test_survives_a_restart),
        cmocka_unit_test(test_survives_a_cluster_made_anew),
        cmocka_unit_test(test_ends_before),
        cmocka_unit_test(test_cancelled_before),
        cmocka_unit_test(test_stopped_before),
        cmocka_unit_test(test_stopped_and_kept),
        cmocka_unit_test(test_hardware_fails_before),
        cmocka_unit_test(test_whoever_follows_waits),
        cmocka_unit_test(test_chosen_nodes_are_bound_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
