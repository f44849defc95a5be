/* SPDX-License-Identifier: Apache-2.0 */
/* test_solve_net.c - network cost and score, best fit, and the batch search: and debts between queues: examples L1
 * to L4 and L8 of Liquid. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng_real.h"
#include "solve/debt.h"
#include "work/search.h"

#define NEAR(a, b)                                                                                                     \
    do {                                                                                                               \
        double near_a = (a), near_b = (b);                                                                             \
        if (!(fabs(near_a - near_b) <= 1e-9))                                                                          \
            fail_msg("%s = %.12g, expected %.12g", #a, near_a, near_b);                                                \
    } while (0)

enum { NODES = 64, TASKS = 256, JOBS = 64 };

/* A cluster and a batch, with room for what the tests need. */
struct bed {
    uint32_t rack[NODES], domain[NODES], job_of[TASKS], memory[NODES];
    uint16_t gpus[NODES], used[NODES];
    double rack_hop[NODES], domain_hop[NODES], room[NODES];
    uint8_t is_server[TASKS];
    struct net_job jobs[JOBS];
    struct net_map map;
    struct gga_problem problem;
    void *work;
};

/* So many nodes of `gpus`, `in_rack` to a rack, `in_domain` racks to a domain. */
static void bed_nodes(struct bed *bed, uint32_t nodes, uint16_t gpus, uint32_t in_rack, uint32_t in_domain)
{
    *bed = (struct bed){ 0 };
    for (uint32_t n = 0; n < nodes; n++) {
        bed->rack[n] = n / in_rack;
        bed->domain[n] = n / in_rack / in_domain;
        bed->gpus[n] = gpus;
        bed->rack_hop[n] = 1;
        bed->domain_hop[n] = 4;
    }
    bed->map = (struct net_map){ .nodes = nodes,
                                 .racks = bed->rack[nodes - 1] + 1,
                                 .domains = bed->domain[nodes - 1] + 1,
                                 .rack = bed->rack,
                                 .domain = bed->domain,
                                 .gpus = bed->gpus,
                                 .rack_hop = bed->rack_hop,
                                 .domain_hop = bed->domain_hop,
                                 .far = 40 };
    bed->problem = (struct gga_problem){
        .map = &bed->map, .used = bed->used, .jobs = bed->jobs, .is_server = bed->is_server, .job_of = bed->job_of
    };
}

static void bed_job(struct bed *bed, uint32_t servers, uint32_t workers, double bandwidth)
{
    struct gga_problem *p = &bed->problem;

    assert_true(p->job_count < JOBS && p->task_count + servers + workers <= TASKS);
    bed->jobs[p->job_count] = (struct net_job){ p->task_count, servers, workers, bandwidth, 0 };
    net_interleave(servers, workers, bed->is_server + p->task_count);
    for (uint32_t i = 0; i < servers + workers; i++)
        bed->job_of[p->task_count++] = p->job_count;
    p->job_count++;
}

static void bed_ready(struct bed *bed)
{
    bed->work = mem_zalloc(gga_work_size(&bed->problem), 1);
    assert_non_null(bed->work);
}

static double score(const struct bed *bed, const uint32_t *place)
{
    return net_score(&bed->map, bed->used, &bed->jobs[0], bed->is_server, place);
}

static void test_l1_score(void **state)
{
    struct bed bed;

    (void)state;
    bed_nodes(&bed, 3, 4, 2, 2);
    bed_job(&bed, 1, 2, 1);
    NEAR(score(&bed, (uint32_t[]){ 0, 0, 0 }), 0);
    NEAR(score(&bed, (uint32_t[]){ 0, 0, 1 }), 3.0 / 2);
    NEAR(score(&bed, (uint32_t[]){ 0, 1, 1 }), 5.0 / 2);
    NEAR(score(&bed, (uint32_t[]){ 0, 0, 2 }), 9.0 / 2);
    NEAR(score(&bed, (uint32_t[]){ 0, 1, 2 }), 71.0 / 12);
}

/* The scores of every node as one task after another is placed. */
static void test_l2_best_fit(void **state)
{
    static const double expected[3][4] = { { 7.0 / 4, 5.0 / 4, 2, 5.0 / 4 },
                                           { 7.0 / 4, 3.0 / 8, 37.0 / 8, 5 },
                                           { 4.0 / 3, 0, 17.0 / 4, 9.0 / 2 } };
    struct bed bed;
    uint32_t place[3];

    (void)state;
    bed_nodes(&bed, 4, 4, 2, 2);
    bed.used[0] = 2;
    bed.used[2] = 3;
    bed_job(&bed, 1, 2, 1);
    for (uint32_t task = 0; task < 3; task++)
        for (uint32_t n = 0; n < 4; n++) {
            struct net_job part = { .servers = 1, .workers = task, .bandwidth = 1 };
            uint32_t so_far[3] = { 1, 1, 1 };

            so_far[task] = n;
            NEAR(net_score(&bed.map, bed.used, &part, bed.is_server, so_far), expected[task][n]);
        }
    bed_ready(&bed);
    assert_int_equal(gga_best_fit(&bed.problem, place, bed.work), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(place[i], 1);
    NEAR(score(&bed, place), 0);
    mem_free(bed.work);
}

static void search(struct bed *bed, uint32_t rounds, unsigned threads, uint32_t *place, struct search_answer *answer)
{
    struct search_request q = {
        .problem = &bed->problem, .params = gga_params_default(), .rounds = rounds, .threads = threads
    };
    struct error err = { 0 };

    assert_int_equal(search_run(&q, place, answer, &err), 0);
}

static void test_l3_batch(void **state)
{
    struct bed bed;
    struct net_scratch s;
    uint32_t place[5], zero[4][NODES] = { { 0 } };
    struct search_answer answer;

    (void)state;
    bed_nodes(&bed, 2, 4, 2, 1);
    bed.used[0] = 2;
    bed.used[1] = 1;
    bed_job(&bed, 1, 1, 1);
    bed_job(&bed, 1, 2, 1);
    bed_ready(&bed);
    s = (struct net_scratch){ .node = zero[0], .rack = zero[1], .domain = zero[2], .any = zero[3] };
    assert_int_equal(gga_best_fit(&bed.problem, place, bed.work), 0);
    assert_int_equal(place[0], 1);
    assert_int_equal(place[1], 1);
    NEAR(net_cost(&bed.map, &bed.jobs[1], bed.is_server + 2, place + 2, &s), 1);
    search(&bed, 20, 1, place, &answer);
    assert_int_equal(place[0], 0);
    assert_int_equal(place[1], 0);
    for (int i = 2; i < 5; i++)
        assert_int_equal(place[i], 1);
    assert_true(answer.best < answer.best_fit);
    NEAR(answer.best, gga_objective(&bed.problem, place, bed.work));
    mem_free(bed.work);
}

static void interleaved(uint32_t servers, uint32_t workers, const char *expected)
{
    uint8_t is_server[16];
    char text[17] = "";

    net_interleave(servers, workers, is_server);
    for (uint32_t i = 0; i < servers + workers; i++)
        text[i] = is_server[i] ? 'P' : 'W';
    assert_string_equal(text, expected);
}

static void test_l4_interleave(void **state)
{
    (void)state;
    interleaved(1, 2, "PWW");
    interleaved(2, 4, "PWWPWW");
    interleaved(2, 3, "PWWPW");
    interleaved(3, 2, "PWPWP");
    interleaved(0, 3, "WWW");
    interleaved(2, 0, "PP");
}

/* Random clusters and batches; hops may differ from rack to rack. */
static void draw(struct bed *bed, struct rng *rng, uint32_t nodes, uint32_t tasks)
{
    bed_nodes(bed, nodes, (uint16_t)(2 + rng_below(rng, 3)), 1 + (uint32_t)rng_below(rng, 3),
              1 + (uint32_t)rng_below(rng, 2));
    if (rng_below(rng, 3) == 0)
        for (uint32_t n = 0; n < nodes; n++) {
            bed->rack_hop[n] = 1 + (double)rng_below(rng, 4);
            bed->domain_hop[n] = 5 + (double)rng_below(rng, 4);
        }
    while (bed->problem.task_count < tasks) {
        uint32_t left = tasks - bed->problem.task_count, servers = (uint32_t)rng_below(rng, 3), workers;

        workers = 1 + (uint32_t)rng_below(rng, 3);
        if (servers + workers > left)
            bed_job(bed, 0, left, 1);
        else
            bed_job(bed, servers, workers, 1 + (double)rng_below(rng, 3));
    }
    for (uint32_t n = 0; n < nodes; n++)
        bed->used[n] = (uint16_t)rng_below(rng, 2);
}

/* The counted cost is the cost by pairs and round the ring. */
static void test_cost_is_the_definition(void **state)
{
    struct rng rng;

    (void)state;
    rng_seed(&rng, 7);
    for (int round = 0; round < 2000; round++) {
        struct bed bed;
        uint32_t zero[4][NODES] = { { 0 } }, place[12];
        struct net_scratch s = { .node = zero[0], .rack = zero[1], .domain = zero[2], .any = zero[3] };
        const struct net_job *job = &bed.jobs[0];
        double load = 0;

        draw(&bed, &rng, 1 + (uint32_t)rng_below(&rng, 9), 1 + (uint32_t)rng_below(&rng, 6));
        for (uint32_t i = 0; i < job->servers + job->workers; i++)
            place[i] = (uint32_t)rng_below(&rng, bed.map.nodes);
        for (uint32_t i = 0; i < job->servers + job->workers; i++) {
            uint32_t before = 0;

            for (uint32_t k = 0; k < i; k++)
                before += place[k] == place[i];
            load += (bed.is_server[i] ? 1 : -1) * (bed.used[place[i]] + before + 1.0) / bed.gpus[place[i]];
        }
        load += net_nodes(job, place, &s);
        NEAR(net_cost(&bed.map, job, bed.is_server, place, &s) + load / (job->servers + job->workers),
             score(&bed, place));
        for (uint32_t n = 0; n < NODES; n++)
            assert_false(zero[0][n] || zero[1][n] || zero[2][n] || zero[3][n]);
    }
}

static double optimum(const struct bed *bed)
{
    uint32_t place[TASKS] = { 0 }, tasks = bed->problem.task_count, nodes = bed->map.nodes, at;
    double best = (double)INFINITY;

    do {
        double value = gga_objective(&bed->problem, place, bed->work);

        best = value < best ? value : best;
        for (at = 0; at < tasks && ++place[at] == nodes; at++)
            place[at] = 0;
    } while (at < tasks);
    return best;
}

/* 240 instances that can be enumerated. Relative to what there is to lose: the gap over the distance from the optimum
 * to zero, where that is more than one. */
static void test_search_against_the_optimum(void **state)
{
    double gap = 0;
    int exact = 0, tried = 0;
    struct rng rng;

    (void)state;
    rng_seed(&rng, 11);
    while (tried < 240) {
        struct bed bed;
        uint32_t place[TASKS];
        struct search_answer answer;
        double best, found;

        draw(&bed, &rng, 2 + (uint32_t)rng_below(&rng, 3), 2 + (uint32_t)rng_below(&rng, 5));
        bed_ready(&bed);
        best = optimum(&bed);
        if (isfinite(best)) {
            search(&bed, 40, 1, place, &answer);
            found = gga_objective(&bed.problem, place, bed.work);
            assert_true(isfinite(found));
            NEAR(found, answer.best);
            assert_true(found <= answer.best_fit + 1e-9);
            assert_true(found >= best - 1e-9);
            gap += (found - best) / fmax(fabs(best), 0.1);
            exact += found - best < 1e-9;
            tried++;
        }
        mem_free(bed.work);
    }
    print_message("# of %d instances %d optimal, mean gap %.3f %%\n", tried, exact, 100 * gap / tried);
    assert_true(gap / tried <= 0.02);
}

static void test_threads_do_not_matter(void **state)
{
    struct bed bed;
    uint32_t one[TASKS], four[TASKS];
    struct search_answer a, b;

    (void)state;
    bed_nodes(&bed, 24, 4, 4, 3);
    for (uint32_t i = 0; i < 20; i++)
        bed_job(&bed, i % 3, 2 + i % 2, 1);
    search(&bed, 60, 1, one, &a);
    search(&bed, 60, 4, four, &b);
    assert_memory_equal(one, four, bed.problem.task_count * sizeof(*one));
    NEAR(a.best, b.best);
    assert_int_equal(a.rounds, 60);
}

/* Bandwidth and memory are never exceeded, and what cannot be placed is told. */
static void test_limits(void **state)
{
    struct rng rng;

    (void)state;
    rng_seed(&rng, 5);
    for (int round = 0; round < 60; round++) {
        struct search_request q = { .params = gga_params_default(), .rounds = 20, .threads = 1 };
        struct search_answer answer;
        uint32_t place[TASKS];
        struct error err = { 0 };
        struct bed bed;
        int r;

        bed_nodes(&bed, 6, 4, 3, 1);
        for (uint32_t n = 0; n < 6; n++) {
            bed.room[n] = 2 + (double)rng_below(&rng, 5);
            bed.memory[n] = n % 2 ? 16384 : 8192;
        }
        bed.problem.room = bed.room;
        bed.problem.memory = bed.memory;
        for (int i = 0; i < 5; i++) {
            bed_job(&bed, (uint32_t)rng_below(&rng, 2), 2, 1 + (double)rng_below(&rng, 2));
            bed.jobs[i].memory_mib = rng_below(&rng, 2) ? 12000 : 4000;
        }
        bed_ready(&bed);
        q.problem = &bed.problem;
        r = search_run(&q, place, &answer, &err);
        if (r == 0)
            assert_true(isfinite(gga_objective(&bed.problem, place, bed.work)));
        else
            assert_int_equal(r, -ENOSPC);
        mem_free(bed.work);
    }
}

/* Example L8: A borrows a GPU each from B and C, and pays half of it back. */
static void test_l8_borrow(void **state)
{
    struct debt d = { .queues = 3, .quota = { 0, 2000, 1000 }, .weight = { 1, 1, 1 }, .head = { 2000, 4000, 4000 } };

    (void)state;
    assert_int_equal(debt_next(&d), 0);
    assert_int_equal(d.quota[0], 0);
    assert_int_equal(d.quota[1], 1000);
    assert_int_equal(d.quota[2], 0);
    assert_int_equal(d.owes[0][1], 1000);
    assert_int_equal(d.owes[0][2], 1000);
    d.head[0] = 0;
    assert_int_equal(debt_next(&d), DEBT_NONE); /* 4 GPUs are nowhere to be had */
    debt_give(&d, 0, 1500);
    assert_int_equal(d.quota[0], 0);
    assert_int_equal(d.quota[1], 1750);
    assert_int_equal(d.quota[2], 750);
    assert_int_equal(d.owes[0][1], 250);
    debt_give(&d, 0, 501);
    assert_int_equal(d.quota[0], 1);
    assert_int_equal(d.owes[0][1] + d.owes[0][2], 0);
}

/* The largest covered job goes first; free capacity goes by weight, to those who lack it; nothing is lost. */
static void test_debts_add_up(void **state)
{
    struct rng rng;

    (void)state;
    rng_seed(&rng, 9);
    for (int round = 0; round < 500; round++) {
        struct debt d = { .queues = 2 + (uint32_t)rng_below(&rng, 5) };
        int64_t all = 0, free = (int64_t)rng_below(&rng, 20000), after = 0;
        uint32_t next;

        for (uint32_t q = 0; q < d.queues; q++) {
            d.quota[q] = (int64_t)rng_below(&rng, 4000);
            d.weight[q] = 1 + (int64_t)rng_below(&rng, 3);
            d.head[q] = (int64_t)rng_below(&rng, 4) * 1000;
            d.demand[q] = d.head[q] + (int64_t)rng_below(&rng, 8000);
            all += d.quota[q];
        }
        debt_top_up(&d, free);
        for (uint32_t q = 0; q < d.queues; q++)
            after += d.quota[q];
        assert_true(after >= all && after <= all + free);
        for (int i = 0; i < 4; i++) {
            int64_t before = after;

            next = debt_next(&d);
            if (next == DEBT_NONE)
                break;
            after = 0;
            for (uint32_t q = 0; q < d.queues; q++) {
                assert_true(d.quota[q] >= 0);
                after += d.quota[q];
                for (uint32_t k = 0; k < d.queues; k++)
                    assert_true(d.owes[q][k] >= 0);
            }
            assert_int_equal(after, before - d.head[next]);
            debt_give(&d, next, (int64_t)rng_below(&rng, 3000));
            after = 0;
            for (uint32_t q = 0; q < d.queues; q++)
                after += d.quota[q];
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_l1_score),
        cmocka_unit_test(test_l2_best_fit),
        cmocka_unit_test(test_l3_batch),
        cmocka_unit_test(test_l4_interleave),
        cmocka_unit_test(test_l8_borrow),
        cmocka_unit_test(test_debts_add_up),
        cmocka_unit_test(test_cost_is_the_definition),
        cmocka_unit_test(test_search_against_the_optimum),
        cmocka_unit_test(test_threads_do_not_matter),
        cmocka_unit_test(test_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
