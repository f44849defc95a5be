/* SPDX-License-Identifier: Apache-2.0 */
/* The reference trace R1 on 60 GPUs: every published number, exactly. And its calm sister, under which no order is
 * better than first come, first served. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sim/gen/gen.h"
#include "sim/scenario.h"
#include "wire/cluster/cluster.h"

struct fixture {
    struct cluster_spec cluster;
    struct trace trace;
};

static void load(struct fixture *f, const char *shape, const char *cluster)
{
    const struct gen_config config = { .seed = 1 };
    struct error err = { 0 };

    *f = (struct fixture){ 0 };
    if (gen_trace(shape, &config, &f->trace, &err) < 0 || cluster_parse(cluster, &f->cluster, &err) < 0)
        fail_msg("%s", err.text);
}

static void unload(struct fixture *f)
{
    trace_done(&f->trace);
    cluster_spec_done(&f->cluster);
}

static void run(const struct fixture *f, const char *policy, const char *restart, struct run_result *ret)
{
    struct setting settings[] = { { "restart", restart } };
    struct scenario_request request = { policy, settings, 1 };
    struct scenario scenario;
    struct error err = { 0 };

    *ret = (struct run_result){ 0 };
    if (scenario_init(&scenario, &f->cluster, &f->trace, &request, &err) < 0 ||
        scenario_run(&scenario, 1, ret, &err) < 0)
        fail_msg("%s: %s", policy, err.text);
    scenario_done(&scenario);
}

static int compare_usec(const void *a, const void *b)
{
    usec_t x = *(const usec_t *)a, y = *(const usec_t *)b;

    return x < y ? -1 : x > y;
}

/* The row from the jobs themselves, in whole seconds; the summary must say the same. */
static void check_row(const struct run_result *r, const int64_t *row)
{
    usec_t jct[480], sum = 0, last = 0;
    uint64_t preemptions = 0;

    assert_int_equal(r->job_count, 480);
    for (size_t i = 0; i < 480; i++) {
        assert_int_equal(r->jobs[i].outcome, OUTCOME_DONE);
        assert_int_equal(r->jobs[i].end % USEC_SEC, 0);
        jct[i] = (r->jobs[i].end - r->jobs[i].submit) / USEC_SEC;
        sum += jct[i];
        last = r->jobs[i].end > last ? r->jobs[i].end : last;
        preemptions += r->jobs[i].preemptions;
    }
    qsort(jct, 480, sizeof(*jct), compare_usec);
    assert_int_equal(sum, row[0]);
    assert_int_equal(jct[(480 - 1) / 2], row[1]);
    assert_int_equal(jct[456 - 1], row[2]); /* ceil(0.95 x 480) - 1 */
    assert_int_equal(jct[479], row[3]);
    assert_int_equal(last / USEC_SEC, row[4]);
    assert_int_equal(preemptions, row[5]);
    assert_int_equal(llround(r->summary.sum_jct), row[0]);
    assert_int_equal(llround(r->summary.p50_jct), row[1]);
    assert_int_equal(llround(r->summary.p95_jct), row[2]);
    assert_int_equal(llround(r->summary.max_jct), row[3]);
    assert_int_equal(llround(r->summary.makespan) + 234, row[4]); /* the first job comes at 234 s */
    assert_int_equal(r->summary.preemptions, row[5]);
}

static void the_table(void **state)
{
    static const struct {
        const char *policy;
        int64_t row[6]; /* sum of JCT, median, p95, max, last finish, preemptions */
    } rows[] = {
        { "fifo", { 12514491, 20767, 64322, 258953, 286966, 0 } },
        { "fifo-skip", { 7169279, 7821, 57950, 244860, 272873, 0 } },
        { "srtf", { 4774565, 626, 57099, 293183, 321196, 777 } },
        { "srsf", { 4278591, 626, 44987, 270407, 298420, 573 } },
    };
    /* Only the number of GPUs counts, not how they lie. */
    static const char *const clusters[] = { "1x60", "15x4", "racks:2 nodes:5 gpus:6" };
    struct fixture f;

    (void)state;
    for (size_t c = 0; c < sizeof(clusters) / sizeof(*clusters); c++) {
        load(&f, "r1", clusters[c]);
        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
            struct run_result result;

            run(&f, rows[i].policy, "0", &result);
            check_row(&result, rows[i].row);
            run_result_done(&result);
        }
        unload(&f);
    }
}

/* At load 0.47 every order gives the sum of first come, first served, within 0.01 %. */
static void calm(void **state)
{
    struct fixture f;

    (void)state;
    load(&f, "r1-low", "1x60");
    for (size_t i = 0; policy_at(i); i++) {
        struct run_result result;

        if (policy_at(i)->planner == policy_find("yarn-cs")->planner ||
            policy_at(i)->planner == policy_find("liquid-batch")->planner)
            continue; /* one waits for localities as well, the other for a batch to gather */
        run(&f, policy_at(i)->name, "0", &result);
        if (fabs(result.summary.sum_jct - 3658384) > 3658384 * 0.0001)
            fail_msg("%s: %f", policy_at(i)->name, result.summary.sum_jct);
        run_result_done(&result);
    }
    unload(&f);
}

/* Rule S3: a resume holds its GPUs for C seconds that are neither progress nor service. A job that was stopped n times
 * and never during a restart has held its GPUs for its run time and n times C. */
static void restarts_cost(void **state)
{
    struct fixture f;
    struct run_result free_of_charge, charged;

    (void)state;
    load(&f, "r1", "1x60");
    run(&f, "srtf", "0", &free_of_charge);
    run(&f, "srtf", "60s", &charged);
    assert_true(charged.summary.sum_jct > free_of_charge.summary.sum_jct);
    for (size_t i = 0; i < charged.job_count; i++) {
        const struct job_result *job = &charged.jobs[i];

        assert_int_equal(job->run, f.trace.jobs[i].truth.duration);
        assert_true(job->overhead <= (usec_t)job->preemptions * 60 * USEC_SEC);
        assert_true(job->end - job->submit >= job->run + job->overhead);
        assert_int_equal(job->attempts, job->preemptions + 1);
        assert_int_equal(free_of_charge.jobs[i].overhead, 0);
    }
    run_result_done(&free_of_charge);
    run_result_done(&charged);
    unload(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table),
        cmocka_unit_test(calm),
        cmocka_unit_test(restarts_cost),
    };

    return cmocka_run_group_tests_name("sim_r1", tests, NULL, NULL);
}
