/* SPDX-License-Identifier: Apache-2.0 */
/* test_optimus_error.c - how well Optimus predicts: when a curve of losses converges, how fast more workers are. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng_real.h"
#include "policy/optimus/optimus.h"
#include "sim/driver/driver.h"
#include "wire/cluster/cluster.h"

static double bell(struct rng *rng)
{
    double sum = -6;

    for (int i = 0; i < 12; i++)
        sum += rng_unit(rng);
    return sum;
}

/* A curve that converges after at least 8 epochs. */
static struct loss_fit curve_draw(struct rng *rng)
{
    struct loss_fit curve;

    do {
        curve = (struct loss_fit){ .b0 = 0.05 + 2 * rng_unit(rng), .b1 = 0.3 + rng_unit(rng), .b2 = rng_unit(rng) };
        curve.scale = loss_at(&curve, 0);
    } while (loss_converges(&curve, &loss_rule_standard) < 8);
    return curve;
}

/* What is seen of it up to `part` of its epochs, four points an epoch: noise of 1 %, two spikes in a hundred, and with
 * every fourth a stretch in which it stands still. */
static int curve_observe(const struct loss_fit *curve, double part, struct rng *rng, struct loss_point *points)
{
    int epochs = loss_converges(curve, &loss_rule_standard), stride = 1, count = 0;
    double still = rng_below(rng, 4) == 0 ? epochs * (0.1 + 0.5 * rng_unit(rng)) : HUGE_VAL;

    while (epochs * 4 * part / stride > LOSS_POINTS_MAX)
        stride++;
    for (int i = 0; i < epochs * 4 * part && count < LOSS_POINTS_MAX; i += stride) {
        double k = i / 4.0, seen = k > still && k < still + 0.08 * epochs ? still : k;
        double loss = loss_at(curve, seen) * (1 + 0.01 * bell(rng));

        if (rng_below(rng, 100) < 2)
            loss *= 1.5 + rng_unit(rng);
        points[count++] = (struct loss_point){ k, loss };
    }
    return count;
}

struct errors {
    double mean;
    double close; /* part of them within 20 % */
};

static double predict(const struct loss_point *points, int count, double now)
{
    struct loss_fit fit;
    struct loss_known known = { .fit = loss_fit(points, count, &fit) < 0 ? NULL : &fit };

    return now + loss_remaining(&known, &loss_rule_standard, now);
}

static void errors_add(struct errors *errors, double seen, double truth, int of)
{
    double error = fabs(seen - truth) / truth;

    errors->mean += error / of;
    errors->close += (error <= 0.2) / (double)of;
}

static void test_convergence_error(void **state)
{
    static const double parts[] = { 0.25, 0.5, 0.75, 0.9 };
    struct rng rng;

    (void)state;
    rng_seed(&rng, 11);
    for (int p = 0; p < 4; p++) {
        struct errors errors = { 0 };

        for (int t = 0; t < 400; t++) {
            struct loss_fit curve = curve_draw(&rng);
            struct loss_point points[LOSS_POINTS_MAX];
            int count = curve_observe(&curve, parts[p], &rng, points);
            double truth = loss_converges(&curve, &loss_rule_standard);

            errors_add(&errors, predict(points, count, truth * parts[p]), truth, 400);
        }
        printf("# epochs to convergence, %2.0f %% of them seen: mean error %4.1f %%, %5.1f %% within 20 %%\n",
               parts[p] * 100, errors.mean * 100, errors.close * 100);
        assert_true(errors.mean < 0.20);
    }
}

/* Curves of another kind than is fitted: they fall exponentially to their floor. */
static double other_at(const double *c, double k)
{
    return c[0] * exp(-k / c[1]) + c[2];
}

static void test_convergence_error_other(void **state)
{
    static const double parts[] = { 0.25, 0.5, 0.75, 0.9 };
    struct rng rng;

    (void)state;
    rng_seed(&rng, 12);
    for (int p = 0; p < 4; p++) {
        struct errors errors = { 0 };

        for (int t = 0; t < 400; t++) {
            double c[] = { 0.5 + rng_unit(&rng), 3 + 12 * rng_unit(&rng), rng_unit(&rng) }, scale = other_at(c, 0);
            struct loss_point points[LOSS_POINTS_MAX];
            int truth = 1, count = 0;

            while ((other_at(c, truth - 1) - other_at(c, truth)) / scale >= loss_rule_standard.delta)
                truth++;
            truth += loss_rule_standard.epochs - 1;
            for (double k = 0; k < truth * parts[p] && count < LOSS_POINTS_MAX; k += truth / 64.0)
                points[count++] = (struct loss_point){ k, other_at(c, k) * (1 + 0.01 * bell(&rng)) };
            errors_add(&errors, predict(points, count, truth * parts[p]), truth, 400);
        }
        printf("# the same of exponential curves, %2.0f %% seen: mean error %4.1f %%, %5.1f %% within 20 %%\n",
               parts[p] * 100, errors.mean * 100, errors.close * 100);
        assert_true(p < 2 || errors.mean < 0.5); /* it is wrong, but not without bounds */
    }
}

/* ---- speeds ---- */

/* Every model of a table on one GPU type: 8 of the sizes 1..16 seen with 3 % noise, the 8 others predicted. */
static double speed_error(const char *table, const char *sku, const char *const *models, int count)
{
    struct cluster_spec cluster = { 0 };
    struct trace trace = { 0 };
    struct error err = { 0 };
    struct world_config config;
    struct world *world;
    struct rng rng;
    char text[64];
    double sum = 0;
    int tried = 0;

    rng_seed(&rng, 5);
    world_config_init(&config);
    (void)snprintf(text, sizeof(text), "nodes:4 gpus:4 sku:%s", sku);
    assert_int_equal(cluster_parse(text, &cluster, &err), 0);
    assert_int_equal(world_config_set(&config, "speed", table, &err), 0);
    for (int i = 0; i < count; i++) {
        const char *model = models[i];
        struct trace_job job;

        trace_job_init(&job);
        job.spec.id = i;
        job.spec.gpus_max = 16;
        job.truth.duration = USEC_HOUR;
        assert_int_equal(names_put(&trace.models, model, strlen(model), &job.spec.model), 0);
        assert_int_equal(trace_add(&trace, &job), 0);
    }
    world = world_new(&trace, &cluster, &config, &err);
    if (!world)
        fail_msg("%s", err.text);
    for (uint32_t i = 0; i < (uint32_t)count; i++) {
        static const int seen[] = { 1, 2, 3, 4, 6, 8, 11, 16 };
        static const int held_out[] = { 5, 7, 9, 10, 12, 13, 14, 15 };
        struct speed_point points[8];
        struct speed_fit fit;
        double error = 0;

        for (int k = 0; k < 8; k++) {
            struct world_shape shape = world_shape_best(world, seen[k], 0);

            points[k] =
                (struct speed_point){ shape.nodes, seen[k],
                                      (double)world_rate(world, i, &shape, NULL, 0) / 1e6 * (1 + 0.03 * bell(&rng)) };
        }
        assert_int_equal(speed_fit(SPEED_ALLREDUCE, 0, points, 8, &fit), 0);
        for (int k = 0; k < 8; k++) {
            struct world_shape shape = world_shape_best(world, held_out[k], 0);
            double truth = (double)world_rate(world, i, &shape, NULL, 0) / 1e6;

            error += fabs(speed_at(&fit, shape.nodes, held_out[k]) - truth) / truth / 8;
        }
        printf("# speed of %s on %s, 8 others of 16 sizes seen: mean error %.1f %%\n", models[i], sku, error * 100);
        sum += error;
        tried++;
    }
    world_free(world);
    trace_done(&trace);
    cluster_spec_done(&cluster);
    return sum / tried;
}

static const char *path_in(const char *base, const char *rest, char *out, size_t size)
{
    (void)snprintf(out, size, "%s/%s", base ? base : ".", rest);
    return out;
}

static void test_speed_error(void **state)
{
    static const char *const models[] = { "bert", "deepspeech2", "dqn",      "gpt2",     "inception3",
                                          "lstm", "mobilenet",   "resnet18", "resnet50", "vgg16" };
    char path[512];
    double error;

    (void)state;
    error = speed_error(path_in(getenv("MUSTER_SOURCE"), "data/speeds.csv", path, sizeof(path)), "V100", models, 10);
    printf("# speed, all: mean error %.1f %%\n", error * 100);
    assert_true(error < 0.10);
}

/* The same on what Pollux's and Sia's authors measured, two nodes slower than three among it. */
static void test_speed_error_pollux(void **state)
{
    static const char *const models[] = { "bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3" };
    const char *shared = getenv("MUSTER_SHARED");
    char base[512], path[600];
    double error;

    (void)state;
    (void)path_in(shared ? shared : getenv("MUSTER_SOURCE"), shared ? "traces" : "../shared/traces", base,
                  sizeof(base));
    if (access(path_in(base, "pollux/traces", path, sizeof(path)), R_OK) != 0) {
        print_message("SKIP: no public traces (MUSTER_SHARED)\n");
        skip();
    }
    error = speed_error(path, "T4", models, 6);
    printf("# speed, Pollux's tables: mean error %.1f %%\n", error * 100);
    assert_true(error < 0.10);
    for (int i = 0; i < 3; i++) {
        static const char *const types[] = { "A100", "RTX2080Ti", "RTX6000" };
        static const char *const theirs[] = { "bert", "cifar10", "deepspeech2", "imagenet", "yolov3" };
        char both[1200];

        (void)snprintf(both, sizeof(both), "%s/pollux/traces+%s/sia/traces", base, base);
        error = speed_error(both, types[i], theirs, 5);
        printf("# speed, Sia's tables, %s: mean error %.1f %%\n", types[i], error * 100);
        assert_true(error < 0.06);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convergence_error),
        cmocka_unit_test(test_convergence_error_other),
        cmocka_unit_test(test_speed_error),
        cmocka_unit_test(test_speed_error_pollux),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
