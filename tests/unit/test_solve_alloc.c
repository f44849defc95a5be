/* SPDX-License-Identifier: Apache-2.0 */
/* test_solve_alloc.c - allocation by marginal gain, placement, parameter balance: examples O3 to O6 of Optimus, and
 * analytic workloads against equal shares. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng_real.h"
#include "solve/gain_alloc.h"
#include "solve/ps_balance.h"
#include "solve/speed_fit.h"
#include "solve/task_place.h"

#define NEAR(a, b, eps)                                                                                                \
    do {                                                                                                               \
        double near_a = (a), near_b = (b);                                                                             \
        if (!(fabs(near_a - near_b) <= (eps)))                                                                         \
            fail_msg("%s = %.12g, expected %.12g", #a, near_a, near_b);                                                \
    } while (0)

static double model_speed(const void *arg, int servers, int workers)
{
    return speed_at(arg, servers, workers);
}

static struct gain_job job_of(const struct speed_fit *fit, double work)
{
    return (struct gain_job){ .speed = model_speed,
                              .arg = fit,
                              .work = work,
                              .factor = 1,
                              .worker = { [GAIN_GPU] = 1, [GAIN_CPU] = 2 },
                              .server = { [GAIN_CPU] = 2 },
                              .workers = 1,
                              .servers = 1,
                              .workers_max = 1000,
                              .servers_max = 1000 };
}

static void test_o3(void **state)
{
    static const struct gain_grant expected[] = {
        { 0, 1, false, 1680 }, { 0, 1, true, 2160 }, { 1, 1, false, 672 }, { 1, 1, true, 864 },
        { 0, 1, true, 560 },   { 0, 1, false, 480 }, { 0, 1, true, 360 },  { 1, 1, true, 224 },
    };
    const struct speed_fit fit = { .kind = SPEED_SYNC, .batch = 100, .theta = { 0.01, 0.1, 0.2, 0.02, 0.02 } };
    struct gain_grant grants[16];
    struct gain_pool pool = { .capacity = { 6, 24 }, .free = { 6, 24 }, .grants = grants, .grant_max = 16 };
    struct gain_job jobs[] = { job_of(&fit, 1000), job_of(&fit, 400) };
    uint32_t heap[2];

    (void)state;
    NEAR(1000 / speed_at(&fit, 1, 1), 1340, 1e-9);
    NEAR(400 / speed_at(&fit, 1, 1), 536, 1e-9);
    NEAR(gain_share(&pool, jobs[0].worker), 1.0 / 6, 1e-15);
    NEAR(gain_share(&pool, jobs[0].server), 1.0 / 12, 1e-15);
    for (int i = 0; i < 2; i++) {
        assert_true(gain_take(&pool, jobs[i].worker, 1));
        assert_true(gain_take(&pool, jobs[i].server, 1));
    }
    gain_allocate(&pool, jobs, 2, heap);
    assert_int_equal(pool.grant_count, 8);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(grants[i].job, expected[i].job);
        assert_int_equal(grants[i].is_server, expected[i].is_server);
        NEAR(grants[i].gain, expected[i].gain, 1e-6);
    }
    assert_int_equal(jobs[0].servers, 4);
    assert_int_equal(jobs[0].workers, 3);
    assert_int_equal(jobs[1].servers, 3);
    assert_int_equal(jobs[1].workers, 2);
    NEAR(1000 / speed_at(&fit, 4, 3), 723.3, 0.05);
    NEAR(400 / speed_at(&fit, 3, 2), 333.3, 0.05);
    NEAR(pool.free[GAIN_GPU], 1, 1e-9);
    NEAR(pool.free[GAIN_CPU], 0, 1e-9);
}

static void test_o4(void **state)
{
    struct task_node nodes[] = { { { 4, 8 } }, { { 4, 8 } }, { { 2, 8 } } };
    struct task_request y = { .worker = { 1, 2 }, .server = { 0, 2 }, .workers = 1, .servers = 1, .by = GAIN_CPU };
    struct task_request x = { .worker = { 1, 2 }, .server = { 0, 2 }, .workers = 4, .servers = 2, .by = GAIN_CPU };
    struct task_request z = { .worker = { 1, 2 }, .server = { 0, 2 }, .workers = 9, .servers = 1, .by = GAIN_CPU };
    struct task_part parts[3];
    uint32_t order[3];

    (void)state;
    assert_int_equal(task_place(nodes, 3, &y, parts, order), 1);
    assert_int_equal(parts[0].node, 0);
    assert_int_equal(task_place(nodes, 3, &x, parts, order), 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(parts[i].node, i + 1);
        assert_int_equal(parts[i].servers, 1);
        assert_int_equal(parts[i].workers, 2);
    }
    /* What is left: 4 CPUs and 3 GPUs on the first, 2 CPUs on the others, of which one has no GPU. */
    assert_int_equal(task_place(nodes, 3, &z, parts, order), 2);
    assert_int_equal(z.servers, 1);
    assert_int_equal(z.workers, 2);
    assert_int_equal(task_place(nodes, 3, &y, parts, order), -EBUSY);
    NEAR(nodes[2].free[GAIN_CPU], 2, 0);
}

static void test_o5(void **state)
{
    static const double two[] = { 100, 30, 20, 20, 10, 10, 6, 4 };
    static const double three[] = { 40, 30, 30, 20, 20, 20, 20, 10, 8, 2, 1, 1, 1, 1 };
    static const int where[] = { 0, 1, 1, 0, 2, 2, 2, 0, 1, 2, 2, 2, 2, 2 };
    static const double large[] = { 1000, 20, 3, 2, 1 };
    struct ps_load loads[4];
    struct ps_piece pieces[32];

    (void)state;
    assert_int_equal(ps_balance(two, 8, 2, loads, pieces, 32), 8);
    NEAR(loads[0].bytes, 100, 0);
    NEAR(loads[1].bytes, 100, 0);
    assert_int_equal(loads[0].requests, 1);
    assert_int_equal(loads[1].requests, 7);
    assert_int_equal(ps_balance(three, 14, 3, loads, pieces, 32), 14);
    for (int i = 0; i < 14; i++) {
        assert_int_equal(pieces[i].block, i);
        assert_int_equal(pieces[i].server, where[i]);
    }
    NEAR(loads[0].bytes, 70, 0);
    NEAR(loads[1].bytes, 68, 0);
    NEAR(loads[2].bytes, 66, 0);
    /* avg 256.5: three slices and a rest; 20 and 3 fill up the last; 2 and 1 are below 1 % and go where the fewest
     * requests are. */
    assert_int_equal(ps_balance(large, 5, 4, loads, pieces, 32), 8);
    NEAR(loads[0].bytes + loads[1].bytes + loads[2].bytes + loads[3].bytes, 1026, 1e-9);
    NEAR(pieces[2].bytes, 256.5, 0);
    assert_int_equal(pieces[5].server, 3);
    assert_int_equal(pieces[6].server, 0);
    assert_int_equal(pieces[7].server, 1);
    assert_int_equal(ps_balance(large, 5, 0, loads, NULL, 0), -EINVAL);
    assert_int_equal(ps_balance(large, 0, 2, loads, NULL, 0), -EINVAL);
    assert_int_equal(ps_balance((const double[]){ 1, 2 }, 2, 2, loads, NULL, 0), -EINVAL);
}

static void test_stragglers(void **state)
{
    static const double speeds[] = { 10, 11, 4.9, 9, 10, 5.1 };
    uint8_t slow[6];

    (void)state;
    assert_int_equal(ps_stragglers(speeds, 6, slow), 0); /* the median, third of six, is 9 */
    assert_int_equal(ps_stragglers(speeds, 5, slow), 1); /* now it is 10 */
    assert_int_equal(slow[2], 1);
    assert_int_equal(ps_stragglers(speeds, 1, slow), 0);
    assert_int_equal(ps_stragglers(speeds, 0, slow), 0);
}

static void test_o6(void **state)
{
    const struct speed_fit fit = { .kind = SPEED_SYNC, .batch = 512, .theta = { 0.002, 0.05, 0.10, 0.01, 0.02 } };
    struct gain_grant grants[64];
    struct gain_pool pool = { .capacity = { 1e6 }, .free = { 1e6 }, .grants = grants, .grant_max = 64 };
    struct gain_job job = job_of(&fit, 1);
    uint32_t heap[1];

    (void)state;
    job.server[GAIN_GPU] = 1; /* both kinds cost the same */
    gain_allocate(&pool, &job, 1, heap);
    assert_int_equal(pool.grant_count, 9);
    for (int i = 0; i < 9; i++)
        assert_int_equal(grants[i].is_server, i % 2);
    assert_int_equal(job.servers, 5);
    assert_int_equal(job.workers, 6);
    NEAR(1 / speed_at(&fit, 5, 6), 0.500667, 5e-7);
}

/* Where one GPU more does not help, because it leaves the node, but several do. */
static void test_stride(void **state)
{
    const struct speed_fit ring = { .kind = SPEED_ALLREDUCE, .batch = 1000, .theta = { 0.001, 0, 0, 0 } };
    struct gain_pool pool = { .capacity = { 12 }, .free = { 12 } };
    struct gain_job job = { .speed = model_speed,
                            .arg = &ring,
                            .work = 1,
                            .factor = 1,
                            .worker = { 1 },
                            .workers = 1,
                            .workers_max = 8,
                            .stride = 4 };
    uint32_t heap[1];

    (void)state;
    gain_allocate(&pool, &job, 1, heap);
    assert_int_equal(job.workers, 8);
    NEAR(pool.free[GAIN_GPU], 5, 1e-9);
    job.workers = 1;
    job.speed = NULL; /* no model: it keeps what it has */
    gain_allocate(&pool, &job, 1, heap);
    assert_int_equal(job.workers, 1);
}

/* What does not fit is passed over, not the end of it: a worker with two GPUs in a pool that has one left. */
static void test_passed_over(void **state)
{
    const struct speed_fit ring = { .kind = SPEED_ALLREDUCE, .batch = 100, .theta = { 0.01, 0.1, 0.001, 0 } };
    struct gain_pool pool = { .capacity = { 8 }, .free = { 1 } };
    struct gain_job jobs[2];
    uint32_t heap[2];

    (void)state;
    for (int i = 0; i < 2; i++)
        jobs[i] = (struct gain_job){ .speed = model_speed,
                                     .arg = &ring,
                                     .work = i ? 1 : 1000,
                                     .factor = 1,
                                     .worker = { i ? 1 : 2 },
                                     .workers = 1,
                                     .workers_max = 8 };
    gain_allocate(&pool, jobs, 2, heap);
    assert_int_equal(jobs[0].workers, 1);
    assert_int_equal(jobs[1].workers, 2);
}

/* ---- nine jobs on 24 GPUs and 96 CPUs, in rounds of ten minutes ---- */

enum { JOBS = 9, GPUS = 24, CPUS = 96, ROUND = 600 };

struct load {
    struct speed_fit fit[JOBS];
    double arrival[JOBS], work[JOBS];
};

struct outcome {
    double jct, makespan;
};

static void load_draw(struct load *load, uint64_t seed)
{
    struct rng rng;

    rng_seed(&rng, seed);
    for (int i = 0; i < JOBS; i++) {
        struct speed_fit *fit = &load->fit[i];

        *fit = (struct speed_fit){ .kind = SPEED_SYNC, .batch = 512 };
        fit->theta[0] = 0.0005 + 0.0035 * rng_unit(&rng);
        fit->theta[1] = 0.02 + 0.18 * rng_unit(&rng);
        fit->theta[2] = 0.02 + 0.28 * rng_unit(&rng);
        fit->theta[3] = 0.002 + 0.028 * rng_unit(&rng);
        fit->theta[4] = 0.002 + 0.028 * rng_unit(&rng);
        load->arrival[i] = 12000 * rng_unit(&rng);
        load->work[i] = (3600 + 5 * 3600 * rng_unit(&rng)) * speed_at(fit, 1, 1);
    }
}

/* As many workers as an even part of the GPUs, those who came first one more, and as many servers. */
static void share_equally(const bool *here, int active, struct gain_job *jobs)
{
    int extra = GPUS % active;

    for (int i = 0; i < JOBS; i++)
        if (here[i]) {
            jobs[i].workers = jobs[i].servers = GPUS / active + (extra > 0);
            extra -= extra > 0;
        }
}

static void share_by_gain(const struct load *load, const bool *here, struct gain_job *jobs)
{
    struct gain_pool pool = { .capacity = { GPUS, CPUS }, .free = { GPUS, CPUS } };
    uint32_t heap[JOBS];

    for (int i = 0; i < JOBS; i++) {
        jobs[i].speed = here[i] ? model_speed : NULL;
        if (!here[i])
            continue;
        jobs[i].workers = jobs[i].servers = 1;
        assert_true(gain_take(&pool, jobs[i].worker, 1));
        assert_true(gain_take(&pool, jobs[i].server, 1));
    }
    gain_allocate(&pool, jobs, JOBS, heap);
    for (int i = 0; i < JOBS; i++) {
        const struct speed_fit *fit = &load->fit[i];
        double now = here[i] ? speed_at(fit, jobs[i].servers, jobs[i].workers) : 0;

        /* Never beyond the optimum: one worker less would be slower. */
        if (here[i] && jobs[i].workers > 1)
            assert_true(speed_at(fit, jobs[i].servers, jobs[i].workers - 1) < now);
    }
}

static struct outcome load_run(const struct load *load, bool by_gain)
{
    double left[JOBS], end[JOBS] = { 0 };
    struct outcome out = { 0 };
    struct gain_job jobs[JOBS];
    int done = 0;

    memcpy(left, load->work, sizeof(left));
    for (double now = 0; done < JOBS; now += ROUND) {
        bool here[JOBS];
        int active = 0;

        for (int i = 0; i < JOBS; i++) {
            here[i] = load->arrival[i] <= now && left[i] > 0;
            active += here[i];
            jobs[i] = job_of(&load->fit[i], left[i]);
        }
        if (active && by_gain)
            share_by_gain(load, here, jobs);
        else if (active)
            share_equally(here, active, jobs);
        for (int i = 0; i < JOBS; i++) {
            double speed = speed_at(&load->fit[i], jobs[i].servers, jobs[i].workers);

            if (!here[i])
                continue;
            if (left[i] <= speed * ROUND) {
                end[i] = now + left[i] / speed;
                done++;
            }
            left[i] -= speed * ROUND;
        }
    }
    for (int i = 0; i < JOBS; i++) {
        out.jct += (end[i] - load->arrival[i]) / JOBS;
        out.makespan = fmax(out.makespan, end[i]);
    }
    return out;
}

static void test_better_than_equal(void **state)
{
    double mean = 0, least = HUGE_VAL, makespan = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct load load;
        struct outcome equal, gain;

        load_draw(&load, seed);
        equal = load_run(&load, false);
        gain = load_run(&load, true);
        mean += equal.jct / gain.jct / 30;
        makespan += equal.makespan / gain.makespan / 30;
        least = fmin(least, equal.jct / gain.jct);
    }
    printf("# average JCT of equal shares over that by gain: mean %.2f, least %.2f; makespan %.2f\n", mean, least,
           makespan);
    assert_true(least > 1.0);
    assert_true(mean > 1.1);
    assert_true(makespan > 1.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_o3),          cmocka_unit_test(test_o4),
        cmocka_unit_test(test_o5),          cmocka_unit_test(test_o6),
        cmocka_unit_test(test_stragglers),  cmocka_unit_test(test_stride),
        cmocka_unit_test(test_passed_over), cmocka_unit_test(test_better_than_equal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
