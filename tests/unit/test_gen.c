/* SPDX-License-Identifier: Apache-2.0 */
/* Made-up workloads: R1 to the second, the others by their known proportions, all of them the same for the same seed.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "sim/gen/gen.h"
#include "sim/world/world_math.h"

static struct trace make(const char *shape, struct gen_config config)
{
    struct trace trace = { 0 };
    struct error err = { 0 };

    if (gen_trace(shape, &config, &trace, &err) != 0)
        fail_msg("%s: %s", shape, err.text);
    return trace;
}

/* GPU-microseconds a job takes before it ends, one way or the other. */
static double load_of(const struct trace_job *job)
{
    usec_t run = job->truth.fail_times == UINT8_MAX ? job->truth.fail_after : job->truth.duration;

    return (double)run * job->spec.gpus;
}

static uint64_t digest(const struct trace *trace)
{
    uint64_t h = trace->count;

    for (size_t i = 0; i < trace->count; i++) {
        const struct jobspec *spec = &trace->jobs[i].spec;
        const struct truth *truth = &trace->jobs[i].truth;
        const uint64_t parts[] = {
            (uint64_t)spec->id,
            (uint64_t)spec->submit,
            (uint64_t)spec->estimate,
            (uint64_t)spec->time_limit,
            spec->user,
            spec->vc,
            spec->model,
            (uint64_t)spec->gpus,
            (uint64_t)spec->gpus_min,
            (uint64_t)spec->gpus_max,
            spec->memory_mib,
            spec->batch,
            spec->klass,
            (uint64_t)spec->priority,
            (uint64_t)truth->duration,
            (uint64_t)truth->fail_after,
            truth->fail,
            truth->fail_times,
        };

        for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++)
            h = rng_mix(h * 31 + parts[k]);
    }
    return h;
}

static void r1_is_the_reference_trace(void **state)
{
    static const int64_t first[4][3] = { { 234, 2, 90 }, { 340, 8, 249 }, { 414, 1, 60 }, { 579, 1, 97492 } };
    struct trace trace = make("r1", (struct gen_config){ .seed = 1 });
    int64_t gpus = 0, seconds = 0, gpu_seconds = 0;

    (void)state;
    assert_int_equal(trace.count, 480);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(trace.jobs[i].spec.id, i);
        assert_int_equal(trace.jobs[i].spec.submit, first[i][0] * USEC_SEC);
        assert_int_equal(trace.jobs[i].spec.gpus, first[i][1]);
        assert_int_equal(trace.jobs[i].truth.duration, first[i][2] * USEC_SEC);
    }
    for (size_t i = 0; i < trace.count; i++) {
        gpus += trace.jobs[i].spec.gpus;
        seconds += trace.jobs[i].truth.duration / USEC_SEC;
        gpu_seconds += trace.jobs[i].truth.duration / USEC_SEC * trace.jobs[i].spec.gpus;
    }
    assert_int_equal(gpus, 1220);
    assert_int_equal(seconds, 3658365);
    assert_int_equal(gpu_seconds, 8181421);
    assert_int_equal(trace.jobs[479].spec.submit, 55610 * USEC_SEC);
    trace_done(&trace);
}

static void r1_continues_beyond_480(void **state)
{
    struct trace a = make("r1", (struct gen_config){ .seed = 1 });
    struct trace b = make("r1", (struct gen_config){ .seed = 1, .jobs = 1000 });
    struct trace c = make("r1", (struct gen_config){ .seed = 2, .jobs = 1000 });

    (void)state;
    assert_int_equal(b.count, 1000);
    b.count = 480;
    assert_true(digest(&a) == digest(&b));
    c.count = 480;
    assert_true(digest(&a) != digest(&c));
    trace_done(&a);
    trace_done(&b);
    trace_done(&c);
}

/* The same jobs at times drawn modulo 1200: the load of the overview, 0.47 on 60 GPUs. */
static void r1_low_has_the_same_jobs_further_apart(void **state)
{
    struct trace a = make("r1", (struct gen_config){ .seed = 1 });
    struct trace b = make("r1-low", (struct gen_config){ .seed = 1 });
    double load = 0;

    (void)state;
    for (size_t i = 0; i < 480; i++) {
        assert_int_equal(a.jobs[i].spec.gpus, b.jobs[i].spec.gpus);
        assert_int_equal(a.jobs[i].truth.duration, b.jobs[i].truth.duration);
        load += load_of(&b.jobs[i]);
    }
    load /= 60.0 * (double)b.jobs[479].spec.submit;
    assert_true(load > 0.465 && load < 0.475);
    trace_done(&a);
    trace_done(&b);
}

static void shapes_are_sorted_sound_and_loaded(void **state)
{
    static const char *const shapes[] = { "philly", "helios", "sweep" };

    (void)state;
    for (size_t s = 0; s < 3; s++) {
        struct trace trace = make(shapes[s], (struct gen_config){ .seed = 7, .jobs = 20000, .gpus = 256 });
        double asked = 0, load;

        assert_int_equal(trace.count, 20000);
        for (size_t i = 0; i < trace.count; i++) {
            const struct trace_job *job = &trace.jobs[i];

            assert_int_equal(job->spec.id, i);
            assert_true(i == 0 || job->spec.submit >= trace.jobs[i - 1].spec.submit);
            assert_in_range(job->spec.gpus, 1, 128);
            assert_true(job->spec.gpus_min <= job->spec.gpus && job->spec.gpus <= job->spec.gpus_max);
            assert_true(job->truth.duration > 0 && job->spec.time_limit > job->truth.duration);
            assert_true(job->truth.fail_after >= 0 && job->truth.fail_after <= job->truth.duration);
            assert_true((job->truth.fail == FAIL_NONE) == (job->truth.fail_after == 0));
            assert_true(job->spec.user < trace.users.count && job->spec.vc < trace.vcs.count);
            asked += load_of(job);
        }
        /* A search's final run comes long after the last arrival, so the time over which jobs arrive is longer. */
        load = asked / 256.0 / (double)trace.jobs[19999].spec.submit;
        assert_true(load > 0.75 * (double)gen_shape_find(shapes[s])->load / 1e6);
        assert_true(load < 1.06 * (double)gen_shape_find(shapes[s])->load / 1e6);
        trace_done(&trace);
    }
}

static void philly_has_its_proportions(void **state)
{
    struct trace trace = make("philly", (struct gen_config){ .seed = 3, .jobs = 50000 });
    double one = 0, bad = 0, bad_time = 0, time = 0, weekend = 0, seen[FAIL_COUNT] = { 0 };

    (void)state;
    for (size_t i = 0; i < trace.count; i++) {
        const struct trace_job *job = &trace.jobs[i];

        one += job->spec.gpus == 1;
        time += load_of(job);
        bad += job->truth.fail_times == UINT8_MAX;
        bad_time += job->truth.fail_times == UINT8_MAX ? load_of(job) : 0;
        weekend += job->spec.submit / USEC_DAY % 7 >= 5;
        seen[job->truth.fail]++;
    }
    assert_true(one / 50000 > 0.92 && one / 50000 < 0.94);
    assert_true(bad / 50000 > 0.28 && bad / 50000 < 0.34);
    assert_true(bad_time / time > 0.45 && bad_time / time < 0.65);
    assert_true(weekend / 50000 > 0.12 && weekend / 50000 < 0.20);
    assert_true(seen[FAIL_USER] > 0 && seen[FAIL_SYSTEM] > 0 && seen[FAIL_UNKNOWN] > 0);
    trace_done(&trace);
}

static void helios_has_its_proportions(void **state)
{
    struct trace trace = make("helios", (struct gen_config){ .seed = 3, .jobs = 50000 });
    double one = 0, eight = 0, train = 0, night = 0;

    (void)state;
    for (size_t i = 0; i < trace.count; i++) {
        const struct trace_job *job = &trace.jobs[i];

        one += job->spec.gpus == 1;
        eight += job->spec.gpus == 8;
        train += job->spec.gpus == 1 && job->truth.duration >= 88 * USEC_SEC && job->truth.duration <= 104 * USEC_SEC;
        night += job->spec.submit / USEC_HOUR % 24 >= 4 && job->spec.submit / USEC_HOUR % 24 < 8;
    }
    assert_true(one / 50000 > 0.47 && one / 50000 < 0.54);
    assert_true(eight / 50000 > 0.23 && eight / 50000 < 0.28);
    assert_true(train / 50000 > 0.12 && train / 50000 < 0.25);
    assert_true(night / 50000 < 0.06);
    trace_done(&trace);
}

/* Trials of a search share user, model, size and budget; half of them stop at an eighth of it. */
static void sweep_is_made_of_searches(void **state)
{
    struct trace trace = make("sweep", (struct gen_config){ .seed = 5, .jobs = 20000 });
    double trials = 0, eighth = 0, elastic = 0;

    (void)state;
    for (size_t i = 0; i < trace.count; i++) {
        const struct trace_job *job = &trace.jobs[i];

        if (job->spec.klass == CLASS_OPPORTUNISTIC) {
            trials++;
            eighth += job->truth.fail == FAIL_NONE && job->truth.duration == job->spec.estimate >> 3;
        }
        elastic += job->spec.gpus_min < job->spec.gpus;
    }
    assert_true(trials / 20000 > 0.75);
    assert_true(eighth / trials > 0.44 && eighth / trials < 0.51);
    assert_true(elastic > 0);
    trace_done(&trace);
}

/* Pinned: the bytes may change only on purpose, and then here. */
static void a_seed_means_the_same_everywhere(void **state)
{
    static const struct {
        const char *shape;
        uint64_t digest;
    } known[] = {
        { "r1", 0xdd51b6e8b59dbe1aULL },
        { "philly", 0x567ada771c10ec1aULL },
        { "helios", 0x06e46ab73e374937ULL },
        { "sweep", 0xccfdea3b08b65901ULL },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        struct trace trace = make(known[i].shape, (struct gen_config){ .seed = 42, .jobs = 3000 });
        uint64_t got = digest(&trace);

        if (got != known[i].digest)
            fail_msg("%s: digest 0x%016llx", known[i].shape, (unsigned long long)got);
        trace_done(&trace);
    }
}

static void small_workloads_work(void **state)
{
    (void)state;
    for (const struct gen_shape *shape = gen_shapes; shape->name; shape++) {
        for (size_t jobs = 1; jobs < 40; jobs += 6) {
            struct trace trace =
                make(shape->name, (struct gen_config){ .seed = jobs, .jobs = jobs, .gpus = shape->gpus ? 1 : 0 });

            assert_int_equal(trace.count, jobs);
            trace_done(&trace);
        }
    }
}

static void bad_requests_are_refused(void **state)
{
    struct trace trace = { 0 };
    struct error err = { 0 };

    (void)state;
    assert_int_equal(gen_trace("phily", &(struct gen_config){ 0 }, &trace, &err), -EINVAL);
    assert_string_equal(err.text, "no shape 'phily' (known: r1, r1-low, philly, helios, sweep, search)");
    assert_int_equal(gen_trace("philly", &(struct gen_config){ .jobs = GEN_JOBS_MAX + 1 }, &trace, &err), -EINVAL);
    assert_string_equal(err.text, "jobs: 10000001 is above 10000000");
    assert_int_equal(gen_trace("philly", &(struct gen_config){ .gpus = -1 }, &trace, &err), -EINVAL);
    assert_int_equal(gen_trace("philly", &(struct gen_config){ .load = -1 }, &trace, &err), -EINVAL);
    assert_int_equal(gen_trace("r1", &(struct gen_config){ .gpus = 64 }, &trace, &err), -EINVAL);
    assert_null(trace.jobs);
}

static void failed_allocations_are_survived(void **state)
{
    (void)state;
    for (const struct gen_shape *shape = gen_shapes; shape->name; shape++) {
        for (size_t nth = 1;; nth++) {
            struct trace trace = { 0 };
            int r;

            mem_fail_at(nth);
            r = gen_trace(shape->name, &(struct gen_config){ .seed = 1, .jobs = 30 }, &trace, NULL);
            mem_fail_at(0);
            if (r == 0) {
                trace_done(&trace);
                break;
            }
            assert_int_equal(r, -ENOMEM);
            assert_null(trace.jobs);
        }
    }
}

static void logarithm_and_power_are_exact_enough(void **state)
{
    struct rng rng = { 1 };

    (void)state;
    assert_true(math_log2(1) == 0);
    assert_true(math_log2(1024) == 10 * Q32_ONE);
    assert_true(math_log2(3) == 6807362105); /* 1.58496250072 in Q32, rounded down */
    assert_true(math_exp2(1, 10 * Q32_ONE) == 1024);
    assert_true(math_exp2(1000000, Q32_ONE / 2) == 1414213);
    assert_true(math_exp2(1000000, -Q32_ONE / 2) == 707106);
    assert_true(math_exp2(1, 63 * Q32_ONE) == INT64_MAX);
    assert_true(math_exp2(INT64_MAX, -64 * Q32_ONE) == 0);
    for (int i = 0; i < 10000; i++) {
        int64_t x = (int64_t)(rng_next(&rng) >> (2 + i % 50)) + 1;
        int64_t back = math_exp2(1, math_log2((uint64_t)x));

        assert_true(back <= x && x - back <= x / 1000000000 + 1);
    }
}

static void exponential_has_its_mean(void **state)
{
    struct rng rng = { 5 };
    double sum = 0, above = 0;

    (void)state;
    for (int i = 0; i < 200000; i++) {
        int64_t x = math_exponential(&rng, 1000000);

        assert_true(x >= 1);
        sum += (double)x;
        above += x > 3000000;
    }
    assert_true(sum / 200000 > 990000 && sum / 200000 < 1010000);
    assert_true(above / 200000 > 0.0485 && above / 200000 < 0.0511); /* e^-3 = 0.0498 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r1_is_the_reference_trace),
        cmocka_unit_test(r1_continues_beyond_480),
        cmocka_unit_test(r1_low_has_the_same_jobs_further_apart),
        cmocka_unit_test(shapes_are_sorted_sound_and_loaded),
        cmocka_unit_test(philly_has_its_proportions),
        cmocka_unit_test(helios_has_its_proportions),
        cmocka_unit_test(sweep_is_made_of_searches),
        cmocka_unit_test(a_seed_means_the_same_everywhere),
        cmocka_unit_test(small_workloads_work),
        cmocka_unit_test(bad_requests_are_refused),
        cmocka_unit_test(failed_allocations_are_survived),
        cmocka_unit_test(logarithm_and_power_are_exact_enough),
        cmocka_unit_test(exponential_has_its_mean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
