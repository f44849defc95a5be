/* SPDX-License-Identifier: Apache-2.0 */
/* The world without tables: costs to the microsecond, what survives a stop, estimates, faults, settings. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "sim/world/world.h"

/* A cluster of `nodes` nodes with 8 GPUs of one type, named n0, n1, ...; jobs with the models given. */
struct scene {
    struct cluster_spec cluster;
    struct trace trace;
    struct world_config config;
};

static void scene_init(struct scene *scene, uint32_t nodes)
{
    uint32_t name;
    char text[32];

    *scene = (struct scene){ 0 };
    world_config_init(&scene->config);
    scene->config.seed = 11;
    assert_int_equal(names_put(&scene->cluster.names, "V100", 4, &name), 0);
    scene->cluster.skus[0].name = name;
    scene->cluster.sku_count = scene->cluster.rack_count = scene->cluster.domain_count = 1;
    scene->cluster.node_count = nodes;
    scene->cluster.nodes = mem_zalloc(nodes, sizeof(*scene->cluster.nodes));
    for (uint32_t i = 0; i < nodes; i++) {
        size_t length = (size_t)snprintf(text, sizeof(text), "n%u", i);

        assert_int_equal(names_put(&scene->cluster.names, text, length, &name), 0);
        scene->cluster.nodes[i] = (struct node_spec){ .name = name, .gpus = 8, .sockets = 1, .groups = 1 };
    }
}

static void scene_job(struct scene *scene, const char *model, int32_t gpus, usec_t duration)
{
    struct trace_job job;

    trace_job_init(&job);
    job.spec.id = (int64_t)scene->trace.count;
    job.spec.gpus = job.spec.gpus_min = job.spec.gpus_max = gpus;
    job.truth.duration = duration;
    if (model)
        assert_int_equal(names_put(&scene->trace.models, model, strlen(model), &job.spec.model), 0);
    assert_int_equal(trace_add(&scene->trace, &job), 0);
}

static void scene_set(struct scene *scene, const char *key, const char *value)
{
    struct error err = { 0 };

    if (world_config_set(&scene->config, key, value, &err) != 0)
        fail_msg("%s=%s: %s", key, value, err.text);
}

static struct world *scene_world(struct scene *scene)
{
    struct error err = { 0 };
    struct world *world = world_new(&scene->trace, &scene->cluster, &scene->config, &err);

    if (!world)
        fail_msg("%s", err.text);
    return world;
}

static void scene_done(struct scene *scene)
{
    cluster_spec_done(&scene->cluster);
    trace_done(&scene->trace);
}

static usec_t cost_of(struct scene *scene, const char *costs, uint32_t job, enum world_cost kind)
{
    struct world *world;
    usec_t cost;

    scene_set(scene, "costs", costs);
    world = scene_world(scene);
    cost = world_cost(world, job, kind, NULL);
    world_free(world);
    return cost;
}

static usec_t rework_of(struct scene *scene, const char *costs, uint32_t job)
{
    struct world *world;
    usec_t work;

    scene_set(scene, "costs", costs);
    world = scene_world(scene);
    work = world_rework(world, job);
    world_free(world);
    return work;
}

static void spans_are_read_exactly(void **state)
{
    static const struct {
        const char *text;
        usec_t span;
    } good[] = {
        { "0", 0 },
        { "none", 0 },
        { "90", 90 * USEC_SEC },
        { "60s", USEC_MIN },
        { "5m", 5 * USEC_MIN },
        { "2h", 2 * USEC_HOUR },
        { "1d", USEC_DAY },
        { "1.5h", 90 * USEC_MIN },
        { "250ms", 250000 },
        { ".5", 500000 },
        { "0.000001", 1 },
        { "2w", 14 * USEC_DAY },
        { "7us", 7 },
        { "10min", 10 * USEC_MIN },
    };
    static const char *const bad[] = {
        "", "x", "-5", "5y", "5 m", "1e3", "s", "99999999999999999999", "9999999999999d"
    };
    struct error err;
    usec_t span;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(world_parse_span(good[i].text, &span, &err), 0);
        assert_int_equal(span, good[i].span);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        span = 77;
        assert_true(world_parse_span(bad[i], &span, &err) < 0);
        assert_int_equal(span, 77);
    }
}

static void settings_are_checked(void **state)
{
    struct world_config config;
    struct error err = { 0 };

    (void)state;
    world_config_init(&config);
    assert_int_equal(world_config_set(&config, "round", "60s", &err), -ENOENT);
    assert_int_equal(world_config_set(&config, "restart", "1 week", &err), -EINVAL);
    assert_string_equal(err.text, "restart: ' week' is not a unit of time: expected us, ms, s, m, h, d or w");
    assert_int_equal(world_config_set(&config, "costs", "borg", &err), -EINVAL);
    assert_string_equal(
        err.text, "costs: 'borg' is not one of none, lucid, muri, muri-sim, pollux, chronus, gandiva, singularity");
    assert_int_equal(world_config_set(&config, "estimate-error", "much", &err), -EINVAL);
    assert_int_equal(world_config_set(&config, "estimate-error", "30%", &err), 0);
    assert_int_equal(config.estimate_error, 300000);
    assert_int_equal(world_config_set(&config, "estimate-error", "0.3", &err), 0);
    assert_int_equal(config.estimate_error, 300000);
    assert_int_equal(world_config_set(&config, "keep", "checkpoint", &err), 0);
    assert_int_equal(config.keep, KEEP_CHECKPOINT);
    assert_int_equal(world_config_set(&config, "slowdown", "philly", &err), 0);
    assert_int_equal(config.slowdown, SLOWDOWN_PHILLY);
    /* Every key of the table is understood, and its default is what the config starts with. */
    for (const struct world_param *param = world_params; param->name; param++) {
        assert_true(world_config_set(&config, param->name, "\x01", &err) != -ENOENT);
        assert_non_null(param->help);
    }
}

static void nothing_costs_by_default(void **state)
{
    struct scene scene;
    struct world *world;

    (void)state;
    scene_init(&scene, 2);
    scene_job(&scene, NULL, 4, USEC_HOUR);
    world = scene_world(&scene);
    for (int kind = 0; kind < WORLD_COST_COUNT; kind++)
        assert_int_equal(world_cost(world, 0, (enum world_cost)kind, NULL), 0);
    assert_int_equal(world_work(world, 0), USEC_HOUR);
    assert_int_equal(world_estimate(world, 0), USEC_HOUR);
    assert_int_equal(world_rate(world, 0, NULL, NULL, 0), PPM_ONE);
    assert_int_equal(world_kept(world, 0, 1234567, true), 1234567);
    assert_int_equal(world_kept(world, 0, 1234567, false), 0);
    assert_false(world_next_fault(world, 0, &(struct world_fault){ 0 }));
    world_free(world);
    scene_done(&scene);
}

static void costs_are_the_peers(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene, 8);
    scene_job(&scene, "vgg16", 1, USEC_HOUR);
    scene_job(&scene, "a2c", 8, USEC_HOUR);
    scene_job(&scene, "dqn", 32, USEC_HOUR);
    scene_job(&scene, "bert", 3, USEC_HOUR);
    assert_int_equal(cost_of(&scene, "lucid", 1, WORLD_RESUME), 0);
    assert_int_equal(rework_of(&scene, "lucid", 1), 40 * USEC_SEC);
    assert_int_equal(rework_of(&scene, "lucid", 2), 60 * USEC_SEC);
    assert_int_equal(rework_of(&scene, "none", 2), 0);
    assert_int_equal(cost_of(&scene, "lucid", 1, WORLD_START), 0);
    assert_int_equal(cost_of(&scene, "muri", 0, WORLD_RESUME), 7 * USEC_SEC);
    assert_int_equal(cost_of(&scene, "muri", 1, WORLD_RESUME), 46 * USEC_SEC);
    assert_int_equal(cost_of(&scene, "muri", 2, WORLD_RESUME), 8 * USEC_SEC);
    assert_int_equal(cost_of(&scene, "muri", 3, WORLD_RESUME), 10 * USEC_SEC);
    assert_int_equal(cost_of(&scene, "muri-sim", 1, WORLD_RESUME), 0); /* at every event instead */
    assert_int_equal(cost_of(&scene, "pollux", 0, WORLD_START), 30 * USEC_SEC);
    assert_int_equal(cost_of(&scene, "pollux", 2, WORLD_RESUME), 30 * USEC_SEC);
    assert_int_equal(cost_of(&scene, "pollux", 2, WORLD_MIGRATE), 30 * USEC_SEC);
    assert_int_equal(cost_of(&scene, "pollux", 2, WORLD_STOP), 0);
    assert_int_equal(cost_of(&scene, "chronus", 0, WORLD_RESUME), 30 * USEC_SEC);
    assert_int_equal(cost_of(&scene, "chronus", 1, WORLD_RESUME), 120 * USEC_SEC);
    assert_int_equal(cost_of(&scene, "chronus", 3, WORLD_RESUME), 77548875); /* 30 s x (1 + log2 3) */
    assert_int_equal(cost_of(&scene, "gandiva", 0, WORLD_MIGRATE), 6 * USEC_SEC);
    assert_int_equal(cost_of(&scene, "gandiva", 1, WORLD_MIGRATE), 34 * USEC_SEC);
    assert_int_equal(cost_of(&scene, "gandiva", 2, WORLD_MIGRATE), 40 * USEC_SEC);
    assert_int_equal(cost_of(&scene, "gandiva", 2, WORLD_RESUME), 200 * USEC_MSEC);
    scene_done(&scene);
}

static void what_is_set_wins_over_the_peer(void **state)
{
    struct scene scene;
    struct world_shape shape = { .gpus = 2, .nodes = 1 };
    struct world *world;

    (void)state;
    scene_init(&scene, 2);
    scene_job(&scene, NULL, 4, USEC_HOUR);
    scene_set(&scene, "restart", "60s");
    scene_set(&scene, "preempt", "9s");
    scene_set(&scene, "stop", "5s"); /* the same key */
    scene_set(&scene, "start", "1.5s");
    world = scene_world(&scene);
    assert_int_equal(world_cost(world, 0, WORLD_RESUME, NULL), 60 * USEC_SEC);
    assert_int_equal(world_cost(world, 0, WORLD_STOP, NULL), 5 * USEC_SEC);
    assert_int_equal(world_cost(world, 0, WORLD_START, NULL), 1500000);
    assert_int_equal(world_cost(world, 0, WORLD_MIGRATE, NULL), 65 * USEC_SEC);
    world_free(world);
    scene_set(&scene, "costs", "chronus");
    scene_set(&scene, "migrate", "7s");
    world = scene_world(&scene);
    assert_int_equal(world_cost(world, 0, WORLD_RESUME, NULL), 60 * USEC_SEC);
    assert_int_equal(world_cost(world, 0, WORLD_MIGRATE, &shape), 7 * USEC_SEC);
    world_free(world);
    /* The size it has now counts, not the size it asked for. */
    scene.config.cost_set[WORLD_RESUME] = false;
    world = scene_world(&scene);
    assert_int_equal(world_cost(world, 0, WORLD_RESUME, &shape), 60 * USEC_SEC);
    assert_int_equal(world_cost(world, 0, WORLD_RESUME, NULL), 90 * USEC_SEC);
    world_free(world);
    scene_done(&scene);
}

static void a_model_without_costs_is_named(void **state)
{
    struct scene scene;
    struct error err = { 0 };

    (void)state;
    scene_init(&scene, 1);
    scene_job(&scene, "bert", 1, USEC_HOUR);
    scene_job(&scene, "llama", 1, USEC_HOUR);
    scene_set(&scene, "costs", "muri");
    assert_null(world_new(&scene.trace, &scene.cluster, &scene.config, &err));
    assert_int_equal(err.code, -EINVAL);
    assert_non_null(strstr(err.text, "job 1: costs=muri knows no model 'llama' (known: vgg16, "));
    scene_done(&scene);
}

static void stops_keep_what_was_saved(void **state)
{
    struct scene scene;
    struct world *world;

    (void)state;
    scene_init(&scene, 1);
    scene_job(&scene, NULL, 1, USEC_DAY);
    scene_set(&scene, "checkpoint", "30m");
    scene_set(&scene, "checkpoint-cost", "18s");
    world = scene_world(&scene);
    assert_int_equal(world_kept(world, 0, 100 * USEC_MIN, true), 100 * USEC_MIN);
    assert_int_equal(world_kept(world, 0, 100 * USEC_MIN, false), 90 * USEC_MIN);
    assert_int_equal(world_kept(world, 0, 29 * USEC_MIN, false), 0);
    assert_int_equal(world_kept(world, 0, 30 * USEC_MIN, false), 30 * USEC_MIN);
    assert_int_equal(world_cost(world, 0, WORLD_CHECKPOINT, NULL), 18 * USEC_SEC);
    assert_int_equal(world_rate(world, 0, NULL, NULL, 0), 990099); /* 1800 / 1818 */
    world_free(world);
    scene_set(&scene, "keep", "checkpoint");
    world = scene_world(&scene);
    assert_int_equal(world_kept(world, 0, 100 * USEC_MIN, true), 90 * USEC_MIN);
    world_free(world);
    scene_set(&scene, "keep", "none");
    world = scene_world(&scene);
    assert_int_equal(world_kept(world, 0, 100 * USEC_MIN, true), 0);
    assert_int_equal(world_kept(world, 0, 100 * USEC_MIN, false), 90 * USEC_MIN);
    world_free(world);
    scene_done(&scene);
}

static void rates_without_tables(void **state)
{
    struct scene scene;
    struct world_shape one = { .gpus = 4, .nodes = 1, .racks = 1, .node_gpus_max = 4, .node_gpus_min = 4 };
    struct world_shape two = { .gpus = 4, .nodes = 2, .racks = 1, .node_gpus_max = 2, .node_gpus_min = 2 };
    struct world_shape wide = { .gpus = 16, .nodes = 2, .racks = 1, .node_gpus_max = 8, .node_gpus_min = 8 };
    struct world_shape half = { .gpus = 2, .nodes = 1, .racks = 1, .node_gpus_max = 2, .node_gpus_min = 2 };
    struct world_neighbour fits = { .job = 1 }, more = { .job = 1, .share = 500 };
    struct world *world;

    (void)state;
    scene_init(&scene, 4);
    scene_job(&scene, NULL, 4, USEC_HOUR);
    scene_job(&scene, NULL, 16, USEC_HOUR);
    world = scene_world(&scene);
    assert_int_equal(world_rate(world, 0, &two, NULL, 0), PPM_ONE);
    assert_int_equal(world_rate(world, 0, &half, NULL, 0), PPM_ONE / 2);
    assert_int_equal(world_rate(world, 0, &one, &fits, 1), PPM_ONE);
    assert_int_equal(world_rate(world, 0, &one, &more, 1), 666667);
    world_free(world);
    scene_set(&scene, "slowdown", "philly");
    world = scene_world(&scene);
    assert_int_equal(world_rate(world, 0, &one, NULL, 0), PPM_ONE);
    assert_int_equal(world_rate(world, 0, &two, NULL, 0), 850000);
    assert_int_equal(world_rate(world, 1, &wide, NULL, 0), PPM_ONE); /* two nodes are the fewest for 16 */
    wide.nodes = 3;
    assert_int_equal(world_rate(world, 1, &wide, NULL, 0), 850000);
    world_free(world);
    scene_done(&scene);
}

static void estimates_are_wrong_as_configured(void **state)
{
    struct scene scene;
    struct world *world, *again;
    double above = 0, low = 10, high = 0;

    (void)state;
    scene_init(&scene, 1);
    for (int i = 0; i < 4000; i++)
        scene_job(&scene, NULL, 1, USEC_HOUR);
    scene.trace.jobs[0].spec.estimate = 7 * USEC_SEC;
    world = scene_world(&scene);
    assert_int_equal(world_estimate(world, 0), 7 * USEC_SEC); /* what the trace says */
    assert_int_equal(world_estimate(world, 1), USEC_HOUR);
    world_free(world);
    scene_set(&scene, "estimate-error", "1");
    world = scene_world(&scene);
    again = scene_world(&scene);
    for (uint32_t i = 0; i < 4000; i++) {
        double factor = (double)world_estimate(world, i) / (double)USEC_HOUR;

        assert_int_equal(world_estimate(world, i), world_estimate(again, i));
        assert_true(factor >= 0.4999 && factor <= 2.0001);
        above += factor > 1;
        low = factor < low ? factor : low;
        high = factor > high ? factor : high;
    }
    assert_true(low < 0.51 && high > 1.96);
    assert_true(above > 1850 && above < 2150);
    world_free(again);
    scene.config.seed++;
    again = scene_world(&scene);
    assert_true(world_estimate(world, 5) != world_estimate(again, 5));
    world_free(again);
    world_free(world);
    scene_done(&scene);
}

static void faults_come_in_order_and_at_their_rate(void **state)
{
    struct scene scene;
    struct world *world, *again;
    struct world_fault a, b;
    bool node_down[50] = { 0 }, gpu_down[50][8] = { 0 };
    usec_t last = 0, down_at[50] = { 0 }, down_sum = 0;
    int node_faults = 0, gpu_faults = 0;

    (void)state;
    scene_init(&scene, 50);
    scene_job(&scene, NULL, 1, USEC_HOUR);
    scene_set(&scene, "mtbf", "30d");
    scene_set(&scene, "mttr", "6h");
    scene_set(&scene, "gpu-mtbf", "200d");
    world = scene_world(&scene);
    again = scene_world(&scene);
    while (last < 1000 * USEC_DAY) {
        bool *down;

        assert_true(world_next_fault(world, 0, &a) && world_next_fault(again, 0, &b));
        assert_int_equal(a.at, b.at);
        assert_true(a.node == b.node && a.gpu == b.gpu && a.up == b.up && a.at >= last && a.node < 50);
        assert_true(a.gpu < 8 || a.gpu == WORLD_WHOLE_NODE);
        down = a.gpu == WORLD_WHOLE_NODE ? &node_down[a.node] : &gpu_down[a.node][a.gpu];
        assert_true(*down == a.up); /* down and up in turn */
        *down = !a.up;
        last = a.at;
        if (a.gpu == WORLD_WHOLE_NODE) {
            node_faults += !a.up;
            down_sum += a.up ? a.at - down_at[a.node] : 0;
            down_at[a.node] = a.at;
        } else {
            gpu_faults += !a.up;
        }
    }
    /* 50 x 1000 / 30.25 = 1653 and 400 x 1000 / 200.17 = 1998 expected; four standard deviations. */
    assert_in_range(node_faults, 1653 - 163, 1653 + 163);
    assert_in_range(gpu_faults, 1998 - 179, 1998 + 179);
    assert_in_range(down_sum / node_faults, USEC_HOUR * 54 / 10, USEC_HOUR * 66 / 10);
    world_free(world);
    world_free(again);
    scene_done(&scene);
}

/* More nodes bring their own faults and leave those of the others where they were. */
static void faults_of_a_node_are_its_own(void **state)
{
    struct scene small, large;
    struct world *a, *b;
    struct world_fault x, y;

    (void)state;
    scene_init(&small, 4);
    scene_init(&large, 40);
    scene_set(&small, "mtbf", "10d");
    scene_set(&large, "mtbf", "10d");
    a = scene_world(&small);
    b = scene_world(&large);
    for (int i = 0; i < 100; i++) {
        assert_true(world_next_fault(a, 0, &x));
        do
            assert_true(world_next_fault(b, 0, &y));
        while (y.node >= 4);
        assert_int_equal(x.at, y.at);
        assert_int_equal(x.node, y.node);
    }
    assert_true(world_next_fault(a, 9000 * USEC_DAY, &x));
    assert_int_equal(x.at, 9000 * USEC_DAY); /* never before what was asked for */
    world_free(a);
    world_free(b);
    scene_done(&small);
    scene_done(&large);
}

static void write_file(char path[32], const char *text)
{
    int fd;

    memcpy(path, "/tmp/muster-world-XXXXXX", 25);
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void faults_are_read_from_a_file(void **state)
{
    static const struct {
        const char *text, *error;
    } bad[] = {
        { "at,node,gpu,state\n5,n9,,down\n", ":2:3: node: expected a node of the cluster, got 'n9'" },
        { "at,node,gpu,state\n5,n1,8,down\n", ":2:6: gpu: expected " },
        { "at,node,gpu,state\n5,n1,7,broken\n", ":2:8: state: expected " },
        { "at,node,gpu,state\n,n1,7,up\n", ":2:1: at: expected seconds" },
        { "at,node,state\n-5,n1,up\n", ":2:1: at: expected " },
        { "at,gpu,state\n", ":1:1: column 'node' is missing" },
        { "", ":1:1: expected a header line" },
    };
    struct world_fault got;
    struct scene scene;
    struct world *world;
    struct error err;
    char path[32];

    (void)state;
    scene_init(&scene, 2);
    write_file(path, "at,node,gpu,state\n10.5,n1,,down\n3,n0,7,down\n20,n1,,up\n");
    scene_set(&scene, "faults", path);
    world = scene_world(&scene);
    assert_true(world_next_fault(world, 0, &got));
    assert_true(got.at == 3 * USEC_SEC && got.node == 0 && got.gpu == 7 && !got.up);
    assert_true(world_next_fault(world, 0, &got));
    assert_true(got.at == 10500000 && got.node == 1 && got.gpu == WORLD_WHOLE_NODE && !got.up);
    assert_true(world_next_fault(world, 0, &got));
    assert_true(got.at == 20 * USEC_SEC && got.up);
    assert_false(world_next_fault(world, 0, &got));
    world_free(world);
    scene_set(&scene, "mtbf", "1d");
    assert_null(world_new(&scene.trace, &scene.cluster, &scene.config, &err));
    assert_non_null(strstr(err.text, "not from both"));
    scene_set(&scene, "mtbf", "none");
    unlink(path);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        write_file(path, bad[i].text);
        scene_set(&scene, "faults", path);
        assert_null(world_new(&scene.trace, &scene.cluster, &scene.config, &err));
        if (!strstr(err.text, bad[i].error) || !strstr(err.text, path))
            fail_msg("expected '%s', got '%s'", bad[i].error, err.text);
        unlink(path);
    }
    scene_done(&scene);
}

static void a_job_needs_a_duration(void **state)
{
    struct scene scene;
    struct error err = { 0 };

    (void)state;
    scene_init(&scene, 1);
    scene_job(&scene, NULL, 1, 0);
    assert_null(world_new(&scene.trace, &scene.cluster, &scene.config, &err));
    assert_string_equal(err.text, "job 0: has no duration; a table of speeds is needed (--set speed=)");
    scene_done(&scene);
}

static void failed_allocations_are_survived(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene, 20);
    scene_job(&scene, NULL, 1, USEC_HOUR);
    scene_set(&scene, "mtbf", "1d");
    for (size_t nth = 1;; nth++) {
        struct error err = { 0 };
        struct world *world;

        mem_fail_at(nth);
        world = world_new(&scene.trace, &scene.cluster, &scene.config, &err);
        mem_fail_at(0);
        if (world) {
            world_free(world);
            break;
        }
        assert_int_equal(err.code, -ENOMEM);
    }
    scene_done(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_are_read_exactly),
        cmocka_unit_test(settings_are_checked),
        cmocka_unit_test(nothing_costs_by_default),
        cmocka_unit_test(costs_are_the_peers),
        cmocka_unit_test(what_is_set_wins_over_the_peer),
        cmocka_unit_test(a_model_without_costs_is_named),
        cmocka_unit_test(stops_keep_what_was_saved),
        cmocka_unit_test(rates_without_tables),
        cmocka_unit_test(estimates_are_wrong_as_configured),
        cmocka_unit_test(faults_come_in_order_and_at_their_rate),
        cmocka_unit_test(faults_of_a_node_are_its_own),
        cmocka_unit_test(faults_are_read_from_a_file),
        cmocka_unit_test(a_job_needs_a_duration),
        cmocka_unit_test(failed_allocations_are_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
