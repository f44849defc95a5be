/* SPDX-License-Identifier: Apache-2.0 */
/* test_policy_singularity.c - the arithmetic of Singularity: fractions and slack, legal sizes, admission, reclaim, the
 * barrier, checkpoints, and what splicing costs: examples S1 to S8 of its specification. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "model/splice.h"
#include "policy/singularity/reclaim.h"
#include "policy/singularity/tier.h"
#include "solve/barrier.h"
#include "solve/ckpt.h"

#define S(seconds) ((usec_t)(seconds)*USEC_SEC)

static const struct tier_rules rules = { .window = USEC_HOUR, .tau = { 950000, 700000, 0 }, .load = 950000 };

static struct jobspec job_of(int32_t gpus, uint16_t tp, uint16_t pp)
{
    return (struct jobspec){ .gpus = gpus, .gpus_min = gpus, .gpus_max = gpus, .share = MGPU_ONE, .tp = tp, .pp = pp };
}

/* S1: 8 workers, 1200 s on 8 GPUs and 1200 s on 4. */
static void s1_fraction_and_slack(void **state)
{
    usec_t done = tier_done(1200 * 8 * USEC_SEC + 1200 * 4 * USEC_SEC, 8);

    (void)state;
    assert_int_equal(done, S(1800));
    assert_int_equal(muldiv_floor(done, PPM_ONE, S(2400)), 750000);
    assert_int_equal(tier_slack(&rules, TIER_STANDARD, done, S(2400)), S(480));
    assert_int_equal(tier_slack(&rules, TIER_PREMIUM, done, S(2400)), S(-420));
    assert_int_equal(tier_slack(&rules, TIER_BASIC, done, S(2400)), USEC_NEVER);
}

/* S2: what a job at full speed may lose of an hour. */
static void s2_budgets(void **state)
{
    (void)state;
    for (int age = 0; age <= 3600; age += 600) {
        assert_int_equal(tier_slack(&rules, TIER_PREMIUM, S(age), S(age)), S(180));
        assert_int_equal(tier_slack(&rules, TIER_STANDARD, S(age), S(age)), S(1080));
    }
    assert_int_equal(tier_alarm(S(180), 0, 4, 8), S(360));
    assert_int_equal(tier_alarm(S(1080), 0, 4, 8), S(2160));
    assert_int_equal(tier_alarm(S(1080), 0, 0, 8), S(1080));
    assert_int_equal(tier_alarm(S(1080), 0, 8, 8), USEC_NEVER);
}

static void expect_sizes(struct jobspec spec, const int32_t *sizes, int count)
{
    int32_t at = spec.gpus;

    for (int i = 0; i < count; i++, at--) {
        at = splice_fit(&spec, at);
        assert_int_equal(at, sizes[i]);
        assert_true(splice_legal(&spec, at));
    }
    assert_int_equal(splice_fit(&spec, at), 0);
    assert_int_equal(splice_least(&spec), sizes[count - 1]);
    for (int32_t n = 1, found = 0; n <= spec.gpus; n++, found = 0) {
        for (int i = 0; i < count; i++)
            found |= sizes[i] == n;
        assert_int_equal(splice_legal(&spec, n), found);
    }
}

/* S3, and what limits sizes further. */
static void s3_legal_sizes(void **state)
{
    struct jobspec limited = job_of(16, 1, 1), least = job_of(16, 0, 0), share = job_of(1, 0, 0),
                   never = job_of(8, 0, 0);

    (void)state;
    expect_sizes(job_of(16, 2, 1), (const int32_t[]){ 16, 8, 4, 2 }, 4);
    expect_sizes(job_of(8, 0, 0), (const int32_t[]){ 8, 4, 2, 1 }, 4);
    expect_sizes(job_of(12, 2, 1), (const int32_t[]){ 12, 6, 4, 2 }, 4);
    expect_sizes(job_of(8, 2, 4), (const int32_t[]){ 8 }, 1);
    limited.splice_max = 2; /* ZeRO: only two replicas of a shard are left */
    expect_sizes(limited, (const int32_t[]){ 16, 8 }, 2);
    least.gpus_min = 4;
    expect_sizes(least, (const int32_t[]){ 16, 8, 4 }, 3);
    share.share = 500;
    expect_sizes(share, (const int32_t[]){ 1 }, 1);
    never.splice_max = 1;
    expect_sizes(never, (const int32_t[]){ 8 }, 1);
    assert_false(splice_legal(&never, 0));
    assert_false(splice_legal(&never, 16));
}

static const struct reclaim_rules for_premium = { .outage = S(60), .lowest = TIER_STANDARD, .stops = true };

static void victims(struct reclaim_job jobs[3], const struct jobspec specs[3])
{
    jobs[0] = (struct reclaim_job){ .spec = &specs[0], .job = 0, .gpus = 8, .slack = USEC_NEVER, .tier = TIER_BASIC };
    jobs[1] = (struct reclaim_job){ .spec = &specs[1], .job = 1, .gpus = 8, .slack = S(900), .tier = TIER_STANDARD };
    jobs[2] = (struct reclaim_job){ .spec = &specs[2], .job = 2, .gpus = 8, .slack = S(170), .tier = TIER_PREMIUM };
}

static int32_t then_of(const struct reclaim_job *jobs, uint32_t count, uint32_t job)
{
    for (uint32_t i = 0; i < count; i++)
        if (jobs[i].job == job)
            return jobs[i].then;
    return -1;
}

/* S4: a premium job of 8 comes, or one of 12. */
static void s4_reclaim(void **state)
{
    struct jobspec specs[3] = { job_of(8, 0, 0), job_of(8, 0, 0), job_of(8, 0, 0) };
    struct reclaim_job jobs[3];

    (void)state;
    victims(jobs, specs);
    assert_int_equal(reclaim_choose(jobs, 3, 8, &for_premium), 8);
    assert_int_equal(then_of(jobs, 3, 0), 0);
    assert_int_equal(then_of(jobs, 3, 1), 8);
    assert_int_equal(then_of(jobs, 3, 2), 8);
    victims(jobs, specs);
    assert_int_equal(reclaim_choose(jobs, 3, 12, &for_premium), 12);
    assert_int_equal(then_of(jobs, 3, 0), 0);
    assert_int_equal(then_of(jobs, 3, 1), 4);
    assert_int_equal(then_of(jobs, 3, 2), 8);
    /* Four are had by halving. */
    victims(jobs, specs);
    assert_int_equal(reclaim_choose(jobs, 3, 4, &for_premium), 4);
    assert_int_equal(then_of(jobs, 3, 0), 4);
    /* More than there is to take: nobody is touched. */
    victims(jobs, specs);
    assert_int_equal(reclaim_choose(jobs, 3, 17, &for_premium), -EBUSY);
    assert_int_equal(then_of(jobs, 3, 0), 8);
    assert_int_equal(then_of(jobs, 3, 1), 8);
}

/* Whoever could not bear the outage is never taken, and one that shrinks is preferred to one that is stopped. */
static void reclaim_spares(void **state)
{
    struct jobspec specs[3] = { job_of(8, 0, 0), job_of(8, 0, 0), job_of(8, 0, 0) };
    struct reclaim_rules all = { .outage = S(180), .lowest = TIER_PREMIUM, .stops = true };
    struct reclaim_job jobs[3];

    (void)state;
    victims(jobs, specs);
    jobs[1].slack = S(59);
    assert_int_equal(reclaim_choose(jobs, 2, 9, &for_premium), -EBUSY);
    victims(jobs, specs);
    assert_int_equal(reclaim_choose(jobs, 3, 17, &all), -EBUSY); /* a slack of 170 s does not bear 180 */
    victims(jobs, specs);
    all.outage = S(60);
    assert_int_equal(reclaim_choose(jobs, 3, 18, &all), 20);
    assert_int_equal(then_of(jobs, 3, 0), 0);
    assert_int_equal(then_of(jobs, 3, 1), 0);
    assert_int_equal(then_of(jobs, 3, 2), 4);
    /* The two GPUs of the first are not enough, the four of the next are: the first keeps them. */
    specs[0] = job_of(2, 0, 0);
    victims(jobs, specs);
    jobs[0].gpus = 2;
    assert_int_equal(reclaim_choose(jobs, 3, 4, &all), 4);
    assert_int_equal(then_of(jobs, 3, 0), 2);
    assert_int_equal(then_of(jobs, 3, 1), 4);
    assert_int_equal(then_of(jobs, 3, 2), 8);
}

/* What is promised to a number of jobs alike, and what they could lend. */
struct promises {
    struct tier_sum sum;
    struct tier_lent lent;
};

static void promise(struct promises *p, const struct tier_rules *r, struct tier_ask ask, int count)
{
    for (int i = 0; i < count; i++) {
        p->sum.claimed += tier_claim(r, ask.tier, ask.world);
        p->sum.worlds += ask.world;
        tier_lend(r, &p->lent, &ask, 1);
    }
}

static bool admits(const struct promises *p, const struct tier_rules *r, struct tier_ask ask, int32_t capacity)
{
    return tier_admits(r, &p->sum, &p->lent, &ask, capacity);
}

/* S5: 32 GPUs, 16 of premium and 16 of standard are promised; 8 more of standard are too many. */
static void s5_admission(void **state)
{
    static const struct tier_ask premium = { TIER_PREMIUM, 16, 8 }, standard = { TIER_STANDARD, 16, 8 };
    struct promises p = { 0 };

    (void)state;
    promise(&p, &rules, premium, 1);
    assert_int_equal(p.sum.claimed, 15200000);
    assert_true(admits(&p, &rules, standard, 32));
    promise(&p, &rules, standard, 1);
    assert_int_equal(p.sum.claimed, 26400000);
    assert_false(admits(&p, &rules, (struct tier_ask){ TIER_STANDARD, 8, 4 }, 32));
    assert_true(admits(&p, &rules, (struct tier_ask){ TIER_BASIC, 1000, 500 }, 32));
}

/* Where worlds do not fit side by side, what resizing costs is reckoned with: 5 of 16 on 64 GPUs may take turns for
 * nothing, but not if each loses a fifteenth of its time to that. */
static void turns_count(void **state)
{
    static const struct tier_ask standard = { TIER_STANDARD, 16, 8 };
    struct tier_rules dear = rules;
    struct promises p = { 0 }, q = { 0 };

    (void)state;
    dear.turns = PPM_ONE / 15;
    promise(&p, &rules, standard, 4);
    promise(&q, &dear, standard, 4);
    assert_true(admits(&p, &rules, standard, 64));
    assert_false(admits(&q, &dear, standard, 64));
    q = (struct promises){ 0 };
    promise(&q, &dear, standard, 3);
    assert_true(admits(&q, &dear, standard, 64)); /* all have their GPUs */
}

/* 16 of premium and 16 of standard on 32 GPUs, and 2 more of standard: by the sum there is room (27.8 of 30.4), but for
 * these 2 the one of 16 must go down to 8, and it cannot be there for 70 % of the time. Where there are small ones to
 * take turns with, there is. */
static void steps_count(void **state)
{
    static const struct tier_ask large = { TIER_STANDARD, 16, 8 }, small = { TIER_STANDARD, 2, 1 };
    struct promises p = { 0 }, q = { 0 };

    (void)state;
    promise(&p, &rules, (struct tier_ask){ TIER_PREMIUM, 16, 8 }, 1);
    promise(&p, &rules, large, 1);
    assert_true(p.sum.claimed + tier_claim(&rules, TIER_STANDARD, 2) <= rules.load * 32);
    assert_false(admits(&p, &rules, small, 32));
    promise(&q, &rules, large, 1);
    promise(&q, &rules, small, 8);
    assert_true(admits(&q, &rules, small, 32));
    /* Who has left lends nothing. */
    tier_lend(&rules, &q.lent, &large, -1);
    for (int i = 0; i < 8; i++)
        tier_lend(&rules, &q.lent, &small, -1);
    for (int i = 0; i < TIER_STEPS; i++) {
        assert_int_equal(q.lent.gives[i], 0);
        assert_int_equal(q.lent.grains[i], 0);
    }
}

/* S6: the command reaches workers 0 and 2 after collective 5; all stop after 7. */
static void s6_barrier(void **state)
{
    struct barrier w[4];
    int stopped_at = 0;

    (void)state;
    for (int i = 0; i < 4; i++)
        barrier_init(&w[i], 4);
    for (int c = 1; c <= 9 && !stopped_at; c++) {
        struct barrier_pair sum = { 0, 0 };

        if (c == 6) {
            barrier_tell(&w[0]);
            barrier_tell(&w[2]);
        }
        for (int i = 0; i < 4; i++) {
            sum.need += barrier_give(&w[i]).need;
            sum.ack += barrier_give(&w[i]).ack;
        }
        assert_int_equal(sum.need, c >= 6 ? 2 : 0);
        for (int i = 0; i < 4; i++)
            if (barrier_see(&w[i], sum))
                stopped_at = c;
        for (int i = 0; stopped_at && i < 4; i++)
            assert_true(w[i].stopped);
    }
    assert_int_equal(stopped_at, 7);
}

enum { WORLD_MAX = 16, CALLS_MAX = 400, LAG_MAX = 8 };

/* One job whose workers run at their own pace. A collective is over when all have joined it; in the first phase a
 * worker goes on without waiting and sees sums when they come, at most `lag` collectives late. */
struct run {
    struct barrier w[WORLD_MAX];
    struct barrier_pair sums[CALLS_MAX];
    int joined[CALLS_MAX], at[WORLD_MAX], seen[WORLD_MAX], lag[WORLD_MAX], told_at[WORLD_MAX], world;
};

static void take_sums(struct run *run, int i, int up_to)
{
    while (!run->w[i].stopped && run->seen[i] < up_to && run->joined[run->seen[i] + 1] == run->world)
        (void)barrier_see(&run->w[i], run->sums[++run->seen[i]]);
}

/* Whether the worker could take a step. */
static bool advance(struct run *run, int i)
{
    struct barrier_pair give;
    int next = run->at[i] + 1;

    /* It may not be further ahead of what it has seen than its lag; in the second phase not at all. */
    take_sums(run, i, run->w[i].second ? run->at[i] : run->at[i] - run->lag[i]);
    if (run->w[i].second)
        take_sums(run, i, run->at[i]);
    if (run->w[i].stopped || (run->w[i].second ? run->seen[i] < run->at[i] : run->seen[i] < run->at[i] - run->lag[i]))
        return false;
    if (next >= CALLS_MAX)
        return false;
    if (next >= run->told_at[i])
        barrier_tell(&run->w[i]);
    give = barrier_give(&run->w[i]);
    run->sums[next].need += give.need;
    run->sums[next].ack += give.ack;
    run->joined[next]++;
    run->at[i] = next;
    return true;
}

static void barrier_any_order(void **state)
{
    struct rng rng;

    (void)state;
    rng_seed(&rng, 42);
    for (int round = 0; round < 2000; round++) {
        static struct run run;
        int first = CALLS_MAX, stop = 0, batch = LAG_MAX;

        memset(&run, 0, sizeof(run));
        run.world = 1 + (int)rng_below(&rng, WORLD_MAX);
        for (int i = 0; i < run.world; i++) {
            barrier_init(&run.w[i], run.world);
            run.lag[i] = (int)rng_below(&rng, LAG_MAX);
            /* Everybody is told, sooner or later; some perhaps only after all have stopped. */
            run.told_at[i] = 1 + (int)rng_below(&rng, 100);
            first = run.told_at[i] < first ? run.told_at[i] : first;
        }
        for (int idle = 0; idle < 200 * run.world;)
            idle = advance(&run, (int)rng_below(&rng, (uint64_t)run.world)) ? 0 : idle + 1;
        stop = run.seen[0];
        for (int i = 0; i < run.world; i++) {
            assert_true(run.w[i].stopped);
            assert_int_equal(run.seen[i], stop); /* at the same collective */
            assert_int_equal(run.at[i], stop);   /* and none has gone on to the next */
        }
        assert_true(stop <= first + 2 * batch); /* two mini-batches after the first was told */
    }
}

/* S7: dp = 4, tp = 2; 6 GiB a shard, 2 GiB a worker on the host, a tenth of that later; 1 GiB a second. */
static void s7_checkpoint(void **state)
{
    struct ckpt_job job = { .shards = 2, .workers = 8, .shard = 6 * CKPT_GIB, .host = 2 * CKPT_GIB };

    (void)state;
    assert_int_equal(ckpt_bytes(&job, false), 28 * CKPT_GIB);
    assert_int_equal(ckpt_bytes(&job, true) * 10 / CKPT_GIB, 135); /* 13.6 GiB less rounding of a tenth */
    assert_int_equal((ckpt_bytes(&job, true) * 100 + CKPT_GIB / 2) / CKPT_GIB, 1360);
    assert_int_equal(ckpt_bytes_plain(&job), 64 * CKPT_GIB);
    assert_int_equal(ckpt_move(ckpt_bytes(&job, false), CKPT_GIB, S(5)), S(61));
    assert_in_range(ckpt_move(ckpt_bytes(&job, true), CKPT_GIB, S(5)), 32199999, 32200001);
}

/* S8: stopped from the start of its window, a standard job must be back by 1020 s. */
static void s8_alarm(void **state)
{
    usec_t slack = tier_slack(&rules, TIER_STANDARD, 0, 0);

    (void)state;
    assert_int_equal(slack, S(1080));
    assert_int_equal(tier_alarm(slack, S(60), 0, 8), S(1020));
    assert_int_equal(tier_alarm(S(60), S(60), 0, 8), 0);
    assert_int_equal(tier_alarm(S(-5), S(60), 8, 8), 0);
}

/* How long a job can stand still: what is left above the floor of this window; once that is sure, the rest of the
 * window and what the next one allows. */
static void spare_of_two_windows(void **state)
{
    (void)state;
    assert_int_equal(tier_spare(&rules, TIER_STANDARD, S(2400), S(3000)), S(480));
    assert_int_equal(tier_spare(&rules, TIER_STANDARD, S(2519), S(3000)), S(599));
    assert_int_equal(tier_spare(&rules, TIER_STANDARD, S(2520), S(3000)), S(600 + 1080));
    assert_int_equal(tier_spare(&rules, TIER_STANDARD, S(3000), S(3000)), S(600 + 1080));
    assert_int_equal(tier_spare(&rules, TIER_PREMIUM, S(3420), S(3500)), S(100 + 180));
    assert_int_equal(tier_spare(&rules, TIER_BASIC, 0, S(3500)), USEC_NEVER);
}

static void splice_speed(void **state)
{
    struct jobspec spec = job_of(8, 0, 0);

    (void)state;
    assert_int_equal(splice_rate(&spec, 8, 30000), PPM_ONE);
    assert_int_equal(splice_rate(&spec, 4, 30000), 485000);
    assert_int_equal(splice_rate(&spec, 1, 30000), 121250);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(s1_fraction_and_slack),
        cmocka_unit_test(s2_budgets),
        cmocka_unit_test(s3_legal_sizes),
        cmocka_unit_test(s4_reclaim),
        cmocka_unit_test(reclaim_spares),
        cmocka_unit_test(s5_admission),
        cmocka_unit_test(turns_count),
        cmocka_unit_test(steps_count),
        cmocka_unit_test(s6_barrier),
        cmocka_unit_test(barrier_any_order),
        cmocka_unit_test(s7_checkpoint),
        cmocka_unit_test(s8_alarm),
        cmocka_unit_test(spare_of_two_windows),
        cmocka_unit_test(splice_speed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
