/* SPDX-License-Identifier: Apache-2.0 */
/* test_learn.c - forests, estimators, their file, and demands: examples L5, L6 and L7 of Liquid. */
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
#include "learn/background.h"
#include "learn/measure.h"
#include "solve/demand.h"
#include "wire/trace/model_file.h"

/* ---- demands ---- */

static void test_rounding(void **state)
{
    struct demand d = demand_round(&(struct demand_raw){ 236, 3500, 47.2, 5200, 250000 });

    (void)state;
    assert_int_equal(d.cpus, 3);
    assert_int_equal(d.ram_mib, 4096);
    assert_int_equal(d.utilisation, 40);
    assert_int_equal(d.memory_mib, 6144);
    assert_int_equal(d.bandwidth, 3);
    /* Twice the GPUs must give 1.5 times the speed: 100 -> 60 does (1.67), 60 -> 45 does not (1.33). */
    assert_int_equal(demand_gpus_pay((int32_t[]){ 1, 2, 4, 8 }, (double[]){ 100, 60, 45, 20 }, 4), 2);
    assert_int_equal(demand_gpus_pay((int32_t[]){ 1, 2, 4, 8 }, (double[]){ 80, 40, 20, 10 }, 4), 8);
    assert_int_equal(demand_gpus_pay((int32_t[]){ 1, 3 }, (double[]){ 100, 50 }, 2), 3); /* three times: 2 is enough */
    assert_int_equal(demand_gpus_pay((int32_t[]){ 2, 4 }, (double[]){ 100, 100 }, 2), 2);
    assert_int_equal(demand_gpus_pay((int32_t[]){ 1 }, (double[]){ 100 }, 1), 0);
    d = demand_round(&(struct demand_raw){ (double)NAN, -1, 101, 1e300, (double)INFINITY });
    assert_int_equal(d.cpus, 4);
    assert_int_equal(d.ram_mib, 4096);
    assert_int_equal(d.utilisation, 100);
    assert_int_equal(d.memory_mib, 8192);
    assert_int_equal(d.bandwidth, 1);
}

static void test_memory_after_out_of_memory(void **state)
{
    (void)state;
    assert_int_equal(demand_memory(6144, 16384, false), 6144 + 615);
    assert_int_equal(demand_memory(6144, 16384, true), 16384);
    assert_int_equal(demand_memory(6144, 0, true), 6144 + 615);
}

static void test_stages(void **state)
{
    struct demand_stages s = demand_stages(30 * USEC_SEC, 40 * USEC_SEC, 600 * USEC_SEC);

    (void)state;
    assert_int_equal(s.launch, 30 * USEC_SEC);
    assert_int_equal(demand_start_after(&s, 30 * USEC_SEC, 15 * USEC_SEC), 515 * USEC_SEC);
    s = demand_stages(40 * USEC_SEC, 60 * USEC_SEC, 100 * USEC_SEC);
    assert_int_equal(s.launch, 20 * USEC_SEC);
    assert_int_equal(s.save, 30 * USEC_SEC);
    s = demand_stages(0, 5 * USEC_SEC, 10 * USEC_SEC);
    assert_int_equal(demand_start_after(&s, 30 * USEC_SEC, 15 * USEC_SEC), 0);
}

static void test_sharing(void **state)
{
    struct demand_gpu gpu = { 16384, 6144, 70 };
    struct demand job = { .memory_mib = 8192, .utilisation = 50 };

    (void)state;
    assert_true(demand_may_share(&gpu, &job, 1300000));
    gpu.utilisation = 80;
    assert_false(demand_may_share(&gpu, &job, 1300000));
    gpu = (struct demand_gpu){ 14336, 6144, 70 };
    assert_false(demand_may_share(&gpu, &job, 1300000));
}

/* Two, three and four jobs whose utilisations are whole tens fit by share exactly when the rule lets them in. */
static void test_share_is_the_rule(void **state)
{
    (void)state;
    for (int a = 0; a <= 100; a += 10)
        for (int b = 0; b <= 100; b += 10)
            for (int c = 0; c <= 100; c += 10) {
                int sum = demand_share(a, 1300000) + demand_share(b, 1300000) + demand_share(c, 1300000);
                struct demand_gpu gpu = { 16384, 0, a + b };
                struct demand job = { .memory_mib = 1024, .utilisation = c };

                assert_int_equal(sum <= MGPU_ONE, demand_may_share(&gpu, &job, 1300000));
            }
}

/* ---- forests ---- */

/* "model,batch,gpus,memory,time" with a law, some noise, and texts that matter. */
static void make_table(struct buf *out, uint32_t rows, uint64_t seed)
{
    static const char *const models[] = { "bert", "resnet50", "vgg16", "dqn" };
    struct rng rng;

    rng_seed(&rng, seed);
    buf_text(out, "model,batch,gpus,memory,time\n");
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t m = (uint32_t)rng_below(&rng, 4), batch = 8u << rng_below(&rng, 5), gpus = 1u << rng_below(&rng, 4);
        double noise = 0.97 + 0.06 * rng_unit(&rng);

        buf_printf(out, "%s,%u,%u,%.3f,%.3f\n", models[m], batch, gpus, (1000 + 900 * m + 20.0 * batch) * noise,
                   (600 + 200 * m) * (double)batch / gpus * noise);
    }
    assert_int_equal(out->error, 0);
}

static void read_table(struct dataset *set, uint32_t rows, uint64_t seed)
{
    CLEANUP_BUF struct buf csv = BUF_INIT(1 << 26);
    struct error err = { 0 };

    make_table(&csv, rows, seed);
    assert_int_equal(dataset_read(set, "table", csv.data, csv.size, &(struct dataset_options){ false, NULL }, &err), 0);
    assert_int_equal(set->rows, rows);
}

static const char *const features[] = { "model", "batch", "gpus" };
static const char *const targets[] = { "memory", "time" };

static struct train_request request(unsigned threads)
{
    struct forest_params params = forest_params_default();

    params.trees = 30;
    return (struct train_request){ .features = features,
                                   .targets = targets,
                                   .feature_count = 3,
                                   .target_count = 2,
                                   .params = params,
                                   .threads = threads };
}

static void train(const struct dataset *set, unsigned threads, struct estimator *e)
{
    struct train_request q = request(threads);
    struct error err = { 0 };

    assert_int_equal(estimator_train(set, &q, e, &err), 0);
}

static void test_learns(void **state)
{
    struct dataset set = { 0 }, other = { 0 };
    struct estimator e = { 0 };
    uint32_t columns[FOREST_FEATURES_MAX], inside = 0;
    double error = 0;

    (void)state;
    read_table(&set, 2000, 1);
    read_table(&other, 500, 2);
    train(&set, 1, &e);
    assert_int_equal(estimator_bind(&e, &other, columns, NULL), 0);
    for (size_t row = 0; row < other.rows; row++) {
        struct feature f[FOREST_FEATURES_MAX];
        struct forest_answer a;
        double truth = dataset_cell(&other, row, 3)->number;

        estimator_row(&other, columns, 3, row, f);
        assert_int_equal(estimator_ask(&e, estimator_find(&e, "memory"), f, &a, NULL), 0);
        assert_true(a.low <= a.median && a.median <= a.high);
        error += fabs(a.mean - truth) / truth / (double)other.rows;
        inside += truth >= a.low && truth <= a.high;
    }
    assert_true(error < 0.03);
    assert_in_range(inside, 350, 480); /* four of five, give or take */
    estimator_done(&e);
    dataset_done(&set);
    dataset_done(&other);
}

/* The same bytes whatever the number of threads; other bytes with another seed. */
static void test_threads_do_not_matter(void **state)
{
    struct dataset set = { 0 };
    CLEANUP_BUF struct buf one = BUF_INIT(1 << 26), four = BUF_INIT(1 << 26);
    struct estimator a = { 0 }, b = { 0 };

    (void)state;
    read_table(&set, 800, 1);
    train(&set, 1, &a);
    train(&set, 4, &b);
    model_file_write(&a, &one);
    model_file_write(&b, &four);
    assert_int_equal(one.size, four.size);
    assert_memory_equal(one.data, four.data, one.size);
    estimator_done(&a);
    estimator_done(&b);
    dataset_done(&set);
}

static void test_file_round_trip(void **state)
{
    struct dataset set = { 0 };
    CLEANUP_BUF struct buf bytes = BUF_INIT(1 << 26), again = BUF_INIT(1 << 26);
    struct estimator a = { 0 }, b = { 0 };
    struct error err = { 0 };

    (void)state;
    read_table(&set, 300, 1);
    train(&set, 1, &a);
    model_file_write(&a, &bytes);
    assert_int_equal(model_file_read("m", bytes.data, bytes.size, &b, &err), 0);
    model_file_write(&b, &again);
    assert_int_equal(again.size, bytes.size);
    assert_memory_equal(again.data, bytes.data, bytes.size);
    assert_int_equal(b.rows, 300);
    estimator_done(&a);
    estimator_done(&b);
    dataset_done(&set);
}

static void refuse(const struct buf *bytes, size_t size, int code, const char *words)
{
    struct estimator e = { 0 };
    struct error err = { 0 };

    assert_int_equal(model_file_read("m", bytes->data, size, &e, &err), code);
    assert_non_null(strstr(err.text, words));
    assert_null(e.forests);
}

static void test_file_refusals(void **state)
{
    struct dataset set = { 0 };
    CLEANUP_BUF struct buf bytes = BUF_INIT(1 << 26);
    struct estimator a = { 0 };
    char kept;

    (void)state;
    read_table(&set, 300, 1);
    train(&set, 1, &a);
    model_file_write(&a, &bytes);
    refuse(&bytes, 10, -EBADMSG, "not a model");
    refuse(&bytes, bytes.size - 1, -EBADMSG, "cut short");
    bytes.data[8] = 0; /* an older version */
    refuse(&bytes, bytes.size, -EPROTO, "version 0; this program reads version 1: train it anew");
    bytes.data[8] = 1;
    kept = bytes.data[bytes.size / 2];
    bytes.data[bytes.size / 2] ^= 1;
    refuse(&bytes, bytes.size, -EBADMSG, "checksum");
    bytes.data[bytes.size / 2] = kept;
    estimator_done(&a);
    dataset_done(&set);
}

/* Every byte of the body wrong once, with the checksum put right: refused in words or read whole, never worse. */
static void test_file_damage(void **state)
{
    struct dataset set = { 0 };
    CLEANUP_BUF struct buf bytes = BUF_INIT(1 << 26);
    struct estimator a = { 0 };

    (void)state;
    read_table(&set, 60, 1);
    train(&set, 1, &a);
    model_file_write(&a, &bytes);
    for (size_t at = 28; at < bytes.size; at += at < 600 ? 1 : 97) {
        struct estimator e = { 0 };
        struct error err = { 0 };
        uint64_t sum;

        bytes.data[at] ^= (char)0x85;
        sum = feature_hash(bytes.data + 28, bytes.size - 28);
        for (int i = 0; i < 8; i++)
            bytes.data[20 + i] = (char)(sum >> (8 * i));
        if (model_file_read("m", bytes.data, bytes.size, &e, &err) < 0)
            assert_true(err.text[0] != '\0');
        estimator_done(&e);
        bytes.data[at] ^= (char)0x85;
    }
    estimator_done(&a);
    dataset_done(&set);
}

static void refuse_table(const char *text, const char *words)
{
    struct dataset set = { 0 };
    struct error err = { 0 };

    assert_true(dataset_read(&set, "t.csv", text, strlen(text), &(struct dataset_options){ false, NULL }, &err) < 0);
    if (!strstr(err.text, words))
        fail_msg("'%s' does not say '%s'", err.text, words);
    dataset_done(&set);
}

static void test_table_refusals(void **state)
{
    struct dataset set = { 0 };
    struct error err = { 0 };

    (void)state;
    refuse_table("", "expected a header line");
    refuse_table("a,b\n1\n", "t.csv:2");
    refuse_table("a,b\n1,\n", "t.csv:2:3: b: expected a value");
    refuse_table("a,a\n1,2\n", "comes twice");
    assert_int_equal(dataset_read(&set, "t.csv", "a,b\n1,\n2,x\n", 11, &(struct dataset_options){ true, NULL }, &err),
                     0);
    assert_int_equal(set.rows, 1);
    assert_int_equal(set.skipped, 1);
    assert_true(set.text[1]);
    assert_false(set.text[0]);
    dataset_done(&set);
}

/* Words of command lines: numbers and texts; paths, hosts and the task's own name are not among them. */
static void test_command_lines(void **state)
{
    static const char text[] = "user,command,memory\n"
                               "a,train.py --lr=0.1 --opt=sgd --data=/data/x --task_index=3,10\n"
                               "b,train.py --opt=adam --ps_hosts=h1 --batch=32 -v,20\n";
    const struct dataset_options options = { .command = "command" }, wrong = { .command = "line" };
    struct dataset set = { 0 }, other = { 0 };
    struct error err = { 0 };

    (void)state;
    assert_int_equal(dataset_read(&set, "t.csv", text, strlen(text), &options, &err), 0);
    assert_int_equal(set.columns.count, 6);
    assert_string_equal(names_get(&set.columns, 3), "--lr");
    assert_string_equal(names_get(&set.columns, 4), "--opt");
    assert_string_equal(names_get(&set.columns, 5), "--batch");
    assert_true(dataset_cell(&set, 0, 3)->number == 0.1);
    assert_true(dataset_cell(&set, 1, 3)->number == -1);
    assert_true(dataset_cell(&set, 1, 5)->number == 32);
    assert_true(set.text[4] && !set.text[3] && !set.text[5]);
    assert_int_equal(dataset_cell(&set, 1, 4)->hash, feature_hash("adam", 4));
    assert_int_equal(dataset_read(&other, "t.csv", text, strlen(text), &wrong, &err), -ENOENT);
    dataset_done(&set);
    dataset_done(&other);
}

static void test_train_refusals(void **state)
{
    struct dataset set = { 0 };
    struct estimator e = { 0 };
    struct error err = { 0 };
    struct train_request q = request(1);
    const char *text_target[] = { "model" }, *missing[] = { "colour" };

    (void)state;
    read_table(&set, 5, 1);
    assert_int_equal(estimator_train(&set, &q, &e, &err), -EINVAL);
    assert_non_null(strstr(err.text, "5 rows; an estimator needs 10 or more"));
    dataset_done(&set);
    read_table(&set, 50, 1);
    q.targets = text_target;
    q.target_count = 1;
    assert_int_equal(estimator_train(&set, &q, &e, &err), -EINVAL);
    assert_non_null(strstr(err.text, "this one has texts"));
    q.targets = missing;
    assert_int_equal(estimator_train(&set, &q, &e, &err), -ENOENT);
    assert_non_null(strstr(err.text, "no column 'colour'"));
    assert_null(e.forests);
    dataset_done(&set);
}

/* Held out, the forest is better than what one would do without it, on data that has a law. */
static void test_measures(void **state)
{
    struct dataset set = { 0 };
    struct measure m[FOREST_TARGETS_MAX];
    struct measure_request q = {
        .learn = request(0), .folds = 5, .user = "model", .request_value = { 16384, (double)NAN }
    };
    struct error err = { 0 };

    (void)state;
    read_table(&set, 400, 3);
    assert_int_equal(measure_run(&set, &q, m, &err), 0);
    assert_int_equal(m[0].rows, 400);
    assert_true(m[0].error_mean[GUESS_FOREST] < m[0].error_mean[GUESS_REQUEST]);
    assert_true(m[0].error_mean[GUESS_FOREST] < m[0].error_mean[GUESS_USER]);
    assert_true(isnan(m[1].error_mean[GUESS_REQUEST]));
    q.folds = 0;
    q.holdout = 0.25;
    assert_int_equal(measure_run(&set, &q, m, &err), 0);
    assert_int_equal(m[0].rows, 100);
    q.holdout = 0;
    assert_int_equal(measure_run(&set, &q, m, &err), -EINVAL);
    dataset_done(&set);
}

/* While a new estimator is trained the old one answers as before; then the new one is there whole, and the same as if
 * it had been trained at once. */
static void test_background(void **state)
{
    struct dataset set = { 0 }, same = { 0 }, few = { 0 };
    struct estimator e = { 0 }, at_once = { 0 };
    struct train_request q = request(2);
    struct trainer *trainer;
    struct error err = { 0 };
    CLEANUP_BUF struct buf a = BUF_INIT(1 << 26), b = BUF_INIT(1 << 26);
    uint32_t columns[FOREST_FEATURES_MAX];
    struct feature f[FOREST_FEATURES_MAX];
    struct forest_answer before, now;
    int r;

    (void)state;
    read_table(&few, 50, 1);
    read_table(&set, 3000, 2);
    read_table(&same, 3000, 2);
    train(&few, 1, &e);
    train(&same, 2, &at_once);
    assert_int_equal(estimator_bind(&e, &same, columns, NULL), 0);
    estimator_row(&same, columns, 3, 7, f);
    assert_int_equal(estimator_ask(&e, &e.forests[0], f, &before, NULL), 0);
    assert_int_equal(trainer_new(&trainer, &err), 0);
    assert_int_equal(trainer_start(trainer, &set, &q, &err), 0);
    assert_null(set.cells);
    assert_int_equal(trainer_start(trainer, &few, &q, &err), -EBUSY);
    assert_non_null(few.cells);
    while ((r = trainer_poll(trainer, &e, &err)) == 0) {
        assert_int_equal(estimator_ask(&e, &e.forests[0], f, &now, NULL), 0);
        assert_true(now.mean == before.mean);
    }
    assert_int_equal(r, 1);
    model_file_write(&e, &a);
    model_file_write(&at_once, &b);
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.data, b.data, a.size);
    /* A training that fails leaves the estimator alone. */
    q.features = (const char *const[]){ "colour", "batch", "gpus" };
    assert_int_equal(trainer_start(trainer, &few, &q, &err), 0);
    while ((r = trainer_poll(trainer, &e, &err)) == 0)
        ;
    assert_int_equal(r, -ENOENT);
    assert_int_equal(e.rows, 3000);
    trainer_free(trainer);
    estimator_done(&e);
    estimator_done(&at_once);
    dataset_done(&same);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_memory_after_out_of_memory),
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_sharing),
        cmocka_unit_test(test_share_is_the_rule),
        cmocka_unit_test(test_learns),
        cmocka_unit_test(test_threads_do_not_matter),
        cmocka_unit_test(test_file_round_trip),
        cmocka_unit_test(test_file_refusals),
        cmocka_unit_test(test_file_damage),
        cmocka_unit_test(test_table_refusals),
        cmocka_unit_test(test_train_refusals),
        cmocka_unit_test(test_measures),
        cmocka_unit_test(test_background),
        cmocka_unit_test(test_command_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
