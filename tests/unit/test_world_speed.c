/* SPDX-License-Identifier: Apache-2.0 */
/* Tables in a world: progress in nominal time, pairs; muster's own shipped tables; and, where the public data is at
 * hand (MUSTER_SHARED, or shared/ beside the project), known cells of the real files. */
#include "world_tables.h"

/* ---- through the world */

struct scene {
    struct cluster_spec cluster;
    struct trace trace;
    struct world_config config;
};

/* One node of 8 GPUs of each type named, twice. */
static void scene_init(struct scene *scene, const char *const *skus)
{
    uint32_t name;

    *scene = (struct scene){ 0 };
    world_config_init(&scene->config);
    scene->cluster.nodes = mem_zalloc(2 * SKUS_MAX, sizeof(*scene->cluster.nodes));
    for (uint32_t i = 0; skus[i]; i++) {
        assert_int_equal(names_put(&scene->cluster.names, skus[i], strlen(skus[i]), &name), 0);
        scene->cluster.skus[scene->cluster.sku_count++].name = name;
        for (int k = 0; k < 2; k++)
            scene->cluster.nodes[scene->cluster.node_count++] =
                (struct node_spec){ .name = name, .gpus = 8, .sockets = 1, .groups = 1, .sku = (uint16_t)i };
    }
}

static void scene_job(struct scene *scene, const char *model, uint32_t batch, int32_t gpus, int64_t iterations)
{
    struct trace_job job;

    trace_job_init(&job);
    job.spec.id = (int64_t)scene->trace.count;
    job.spec.gpus = job.spec.gpus_min = job.spec.gpus_max = gpus;
    job.spec.batch = batch;
    job.truth.iterations = iterations;
    assert_int_equal(names_put(&scene->trace.models, model, strlen(model), &job.spec.model), 0);
    assert_int_equal(trace_add(&scene->trace, &job), 0);
}

static struct world *scene_world(struct scene *scene, const char *speed_spec, const char *pairs_spec)
{
    struct error err = { 0 };
    struct world *world;

    assert_int_equal(world_config_set(&scene->config, "speed", speed_spec, &err), 0);
    assert_int_equal(world_config_set(&scene->config, "pairs", pairs_spec, &err), 0);
    world = world_new(&scene->trace, &scene->cluster, &scene->config, &err);
    if (!world)
        fail_msg("%s", err.text);
    return world;
}

static void scene_fails(struct scene *scene, const char *speed_spec, const char *words)
{
    struct error err = { 0 };

    assert_int_equal(world_config_set(&scene->config, "speed", speed_spec, &err), 0);
    assert_null(world_new(&scene->trace, &scene->cluster, &scene->config, &err));
    if (!strstr(err.text, words))
        fail_msg("expected '%s', got '%s'", words, err.text);
}

static void scene_done(struct scene *scene)
{
    cluster_spec_done(&scene->cluster);
    trace_done(&scene->trace);
}

static void world_counts_in_nominal_time(void **state)
{
    const char *path = put("w.csv", "model,sku,gpus,nodes,iterations_per_second\nnet,V100,1,1,2\nnet,V100,2,1,4\n"
                                    "net,V100,2,2,3\nnet,K80,1,1,0.5\nnet,K80,2,1,1\n");
    struct world_shape fast = { 2, 1, 1, 0, 2, 2, { 2 }, 0, { { 0, 0 } }, 0, false, false, false, 0 },
                       spread = { 2, 2, 1, 0, 1, 1, { 1, 1 }, 0, { { 0, 0 } }, 0, false, false, false, 0 };
    struct world_shape slow = { 2, 1, 1, 1, 2, 2, { 2 }, 0, { { 0, 0 } }, 0, false, false, false, 0 };
    struct world_shape single = { 1, 1, 1, 0, 1, 1, { 1 }, 0, { { 0, 0 } }, 0, false, false, false, 0 };
    struct scene scene;
    struct world *world;

    (void)state;
    scene_init(&scene, (const char *const[]){ "V100", "K80", NULL });
    scene_job(&scene, "net", 0, 2, 100);
    scene_job(&scene, "net", 0, 2, 0);
    scene.trace.jobs[1].truth.duration = 7 * USEC_SEC;
    world = scene_world(&scene, path, "");
    assert_int_equal(world_work(world, 0), 25 * USEC_SEC);
    assert_int_equal(world_work(world, 1), 7 * USEC_SEC); /* no iterations told: the duration, at nominal speed */
    assert_int_equal(world_rate(world, 0, &fast, NULL, 0), PPM_ONE);
    assert_int_equal(world_rate(world, 0, &spread, NULL, 0), 750000);
    assert_int_equal(world_rate(world, 0, &slow, NULL, 0), 250000);
    assert_int_equal(world_rate(world, 0, &single, NULL, 0), 500000);
    world_free(world);
    /* A job that may use K80 only has its nominal time there. */
    assert_int_equal(names_put(&scene.trace.skus, "k80", 3, &(uint32_t){ 0 }), 0);
    scene.trace.jobs[0].spec.sku_mask = 1;
    world = scene_world(&scene, path, "");
    assert_int_equal(world_work(world, 0), 100 * USEC_SEC);
    assert_int_equal(world_rate(world, 0, &slow, NULL, 0), PPM_ONE);
    world_free(world);
    scene.trace.jobs[0].spec.sku_mask = 0;
    scene_job(&scene, "new", 0, 1, 5);
    scene_fails(&scene, path, "speed: job 2: the native table knows no model 'new' (known: net)");
    scene_done(&scene);
    /* Half a table: a job must not be put where nobody knows its speed. */
    path = put("half.csv", "model,sku,gpus,nodes,iterations_per_second\nnet,V100,1,1,2\nold,K80,1,1,2\n");
    scene_init(&scene, (const char *const[]){ "V100", "K80", NULL });
    scene_job(&scene, "net", 0, 1, 10);
    scene_fails(&scene, path,
                "job 0: the native table has no speed for 'net' on GPU type 'K80'; say which types it may use");
    assert_int_equal(names_put(&scene.trace.skus, "P4", 2, &(uint32_t){ 0 }), 0);
    scene.trace.jobs[0].spec.sku_mask = 1;
    scene_fails(&scene, path, "job 0: the cluster has none of the GPU types it may use");
    scene_done(&scene);
    scene_init(&scene, (const char *const[]){ "H100", NULL });
    scene_fails(&scene, path, "GPU type 'H100' of the cluster is not in the native table (known: V100, K80)");
    scene_done(&scene);
}

/* What the job says, else its tensors (VGG16's 102,760,448 of 138,357,544 parameters are in one), else how it was
 * measured to take a second node; else nothing. */
static void skews_from_anywhere(void **state)
{
    char speeds[4096], tensors[4096];
    struct scene scene;
    struct world *world;
    struct error err = { 0 };

    (void)state;
    (void)snprintf(speeds, sizeof(speeds), "%s",
                   put("ws.csv", "model,sku,gpus,nodes,iterations_per_second\nvgg16,V100,4,1,4\nvgg16,V100,4,2,1\n"
                                 "quick,V100,4,1,4\nquick,V100,4,2,3.9\nslow,V100,4,1,4\nslow,V100,4,2,3\n"));
    (void)snprintf(tensors, sizeof(tensors), "%s",
                   put("wt.csv", "model,bytes\nvgg16,102760448\nvgg16,16777216\nvgg16,18819880\nother,1\n"));
    scene_init(&scene, (const char *const[]){ "V100", NULL });
    scene_job(&scene, "vgg16", 0, 4, 100);
    scene_job(&scene, "quick", 0, 4, 100);
    scene_job(&scene, "slow", 0, 4, 100);
    scene_job(&scene, "slow", 0, 4, 100);
    scene.trace.jobs[3].spec.skew_permille = 77;
    assert_int_equal(world_config_set(&scene.config, "tensors", tensors, &err), 0);
    world = scene_world(&scene, speeds, "");
    assert_int_equal(world_skew(world, 0), 743);
    assert_int_equal(world_skew(world, 1), 1);
    assert_int_equal(world_skew(world, 2), 1000);
    assert_int_equal(world_skew(world, 3), 77);
    world_free(world);
    for (int i = 0; i < 4; i++)
        scene.trace.jobs[i].truth.duration = USEC_HOUR;
    world = scene_world(&scene, "", "");
    assert_int_equal(world_skew(world, 0), 743);
    assert_int_equal(world_skew(world, 2), 0);
    world_free(world);
    scene_done(&scene);
    (void)put("wt.csv", "model,bytes\nvgg16,-1\n");
    scene_init(&scene, (const char *const[]){ "V100", NULL });
    scene_job(&scene, "vgg16", 0, 4, 100);
    assert_int_equal(world_config_set(&scene.config, "tensors", tensors, &err), 0);
    scene_fails(&scene, speeds, "tensors: ");
    scene_done(&scene);
}

/* Example O2: (1,1) 1.2040 s, (4,4) 0.5260, (4,8) 0.5380; and the same terms out of step. */
static void steps_with_servers(void **state)
{
    const char *path = put("wps.csv", "model,mode,th0,th1,th2,th3,th4\nsteady,sync,0.002,0.05,0.10,0.01,0.02\n"
                                      "loose,async,0.5,0.2,0.02,0.03,0\n");
    struct world_shape shape = { .gpus = 4, .nodes = 1, .node_gpus_max = 4, .node_gpus_min = 4, .servers = 4 };
    struct table_place place = { &shape, 0, 1 };
    struct table *table = open_table(path);
    uint32_t sync = entry_of(table, "steady", 512, 4), async = entry_of(table, "loose", 512, 4);

    (void)state;
    near(table->ops->speed(table, sync, &place), 1 / 0.5260);
    shape.gpus = 8;
    near(table->ops->speed(table, sync, &place), 1 / 0.5380);
    shape.gpus = shape.servers = 1;
    near(table->ops->speed(table, sync, &place), 1 / 1.2040);
    shape.gpus = 4;
    shape.servers = 2;
    near(table->ops->speed(table, async, &place), 4 / (0.5 + 0.4 + 0.08 + 0.06));
    table_free(table);
}

static void pairs_slow_each_other(void **state)
{
    const char *path = put("wp.csv", "model_a,model_b,rate_a,rate_b\na,b,0.5,0.8\na,c,0,0\n");
    struct world_shape shape = { 1, 1, 1, 0, 1, 1, { 1 }, 0, { { 0, 0 } }, 0, false, false, false, 0 };
    struct world_neighbour both[] = { { .job = 1, .share = 1000 }, { .job = 1, .share = 1000 } };
    struct world_neighbour c = { .job = 2, .share = 1000 }, same = { .job = 0, .share = 1000 };
    struct scene scene;
    struct world *world;

    (void)state;
    scene_init(&scene, (const char *const[]){ "V100", NULL });
    for (int i = 0; i < 3; i++) {
        scene_job(&scene, (const char *const[]){ "a", "b", "c" }[i], 0, 1, 0);
        scene.trace.jobs[i].truth.duration = USEC_HOUR;
    }
    world = scene_world(&scene, "", path);
    assert_int_equal(world_rate(world, 0, &shape, both, 0), PPM_ONE);
    assert_int_equal(world_rate(world, 0, &shape, both, 1), 500000);
    assert_int_equal(world_rate(world, 0, &shape, both, 2), 250000);
    assert_int_equal(world_rate(world, 1, &shape, &same, 1), 800000);
    assert_int_equal(world_rate(world, 0, &shape, &c, 1), 0);      /* do not fit together */
    assert_int_equal(world_rate(world, 1, &shape, &c, 1), 500000); /* nobody knows: they take turns */
    world_free(world);
    scene_done(&scene);
}

static const char *shipped(const char *name)
{
    static char path[PATH_MAX];
    const char *source = getenv("MUSTER_SOURCE");

    (void)snprintf(path, sizeof(path), "%s/data/%s", source ? source : ".", name);
    return path;
}

/* What ships is usable with the made-up workloads, and says what one expects of it. */
static void shipped_tables_are_sound(void **state)
{
    struct table *table = open_table(shipped("speeds.csv"));
    uint32_t v100 = table_type_find(table, "V100"), a100 = table_type_find(table, "A100");
    double rates[2];

    (void)state;
    assert_int_equal(table->models.count, 10);
    for (uint32_t m = 0; m < table->models.count; m++) {
        uint32_t entry = entry_of(table, names_get(&table->models, m), 0, 1);

        assert_true(speed(table, entry, a100, SHAPE(1, 1, 1, 1)) > speed(table, entry, v100, SHAPE(1, 1, 1, 1)));
        assert_true(speed(table, entry, v100, SHAPE(8, 1, 8, 8)) >= speed(table, entry, v100, SHAPE(8, 2, 4, 4)));
        assert_true(speed(table, entry, v100, SHAPE(2, 1, 2, 2)) > speed(table, entry, v100, SHAPE(1, 1, 1, 1)));
    }
    assert_true(speed(table, entry_of(table, "vgg16", 0, 1), v100, SHAPE(8, 2, 4, 4)) <
                0.6 * speed(table, entry_of(table, "vgg16", 0, 1), v100, SHAPE(8, 1, 8, 8)));
    table_free(table);
    table = open_table(shipped("pairs.csv"));
    v100 = table_type_find(table, "V100");
    assert_int_equal(pair(table, "dqn", "lstm", v100, rates), 0);
    near(rates[0], 0.97);
    assert_int_equal(pair(table, "gpt2", "bert", v100, rates), 0);
    assert_true(rates[0] == 0);
    table_free(table);
}

/* ---- the real files */

static const char *shared(const char *name)
{
    static char path[PATH_MAX];
    const char *given = getenv("MUSTER_SHARED"), *source = getenv("MUSTER_SOURCE");

    (void)snprintf(path, sizeof(path), "%s%s/traces/%s",
                   given    ? given
                   : source ? source
                            : ".",
                   given ? "" : "/../shared", name);
    if (access(path, R_OK) != 0) {
        print_message("SKIP: no public traces (MUSTER_SHARED)\n");
        skip();
    }
    return path;
}

static void real_pollux(void **state)
{
    struct table *table = open_table(shared("pollux"));
    uint32_t type = table_type_find(table, "T4");

    (void)state;
    assert_int_equal(table->models.count, 6);
    near(speed(table, entry_of(table, "bert", 48, 4), type, SHAPE(4, 1, 4, 4)), 1 / 0.9571182131767273);
    near(speed(table, entry_of(table, "bert", 48, 4), type, SHAPE(4, 2, 2, 2)), 1 / 2.1157262921333313);
    near(speed(table, entry_of(table, "bert", 48, 4), type, SHAPE(4, 2, 3, 1)), 1 / 2.067085772752762);
    near(speed(table, entry_of(table, "bert", 96, 8), type, SHAPE(8, 2, 4, 4)), 1 / 2.538950562477112);
    near(speed(table, entry_of(table, "bert", 56, 7), type, SHAPE(7, 3, 4, 1)),
         2 / (1.4697006046772003 + 1.4728781580924988)); /* 124 and 142 */
    near(speed(table, entry_of(table, "bert", 768, 64), type, SHAPE(64, 16, 4, 4)), 1 / 2.231521874666214);
    assert_int_equal(table->ops->iterations(table, entry_of(table, "bert", 12, 1)), 14774);
    /* Wherever a job of the workloads may stand, there is a speed. */
    for (uint32_t m = 0; m < table->models.count; m++) {
        for (int32_t gpus = 1; gpus <= 64; gpus++) {
            uint32_t entry = entry_of(table, names_get(&table->models, m), 640, gpus);
            int32_t nodes = (gpus + 3) / 4;

            assert_true(speed(table, entry, type, SHAPE(gpus, nodes, gpus < 4 ? gpus : 4, gpus - (nodes - 1) * 4)) > 0);
            assert_true(speed(table, entry, type, SHAPE(gpus, gpus < 16 ? gpus : 16, 4, 1)) > 0);
        }
        assert_true(table->ops->iterations(table, entry_of(table, names_get(&table->models, m), 640, 1)) > 0);
    }
    table_free(table);
}

static void real_sia(void **state)
{
    char both[2 * PATH_MAX];
    struct table *table;
    uint32_t a100;

    (void)state;
    (void)snprintf(both, sizeof(both), "%s", shared("sia"));
    (void)snprintf(both + strlen(both), sizeof(both) - strlen(both), "+%s:sia", shared("pollux"));
    table = open_table(both);
    a100 = table_type_find(table, "A100");
    assert_string_equal(names_get(&table->types, a100), "dgx-ext");
    assert_true(table_type_find(table, "RTX 2080 Ti") != NAME_NONE);
    assert_true(table_type_find(table, "quad") == table_type_find(table, "Quadro RTX 6000"));
    near(speed(table, entry_of(table, "bert", 4, 1), table_type_find(table, "dgx"), SHAPE(1, 1, 1, 1)),
         1 / 0.14671410620212555);
    near(speed(table, entry_of(table, "gpt_pmp", 2, 2), a100, SHAPE(2, 1, 2, 2)), 1 / 0.144);
    assert_true(speed(table, entry_of(table, "gpt_pmp", 2, 2), table_type_find(table, "T4"), SHAPE(2, 1, 2, 2)) == 0);
    table_free(table);
}

static void real_gavel(void **state)
{
    struct table *table = open_table(shared("gavel/simulation_throughputs.json.gz"));
    uint32_t v100 = table_type_find(table, "V100"), k80 = table_type_find(table, "K80");
    uint32_t net = entry_of(table, "ResNet-18 (batch size 16)", 16, 1);
    double rates[2];

    (void)state;
    assert_int_equal(table->types.count, 3);
    near(speed(table, net, v100, SHAPE(1, 1, 1, 1)), 32.353384328946916);
    near(speed(table, net, k80, SHAPE(1, 1, 1, 1)), 4.795294551566172);
    near(speed(table, net, v100, SHAPE(2, 1, 2, 2)), 100.14206200421837);
    near(speed(table, net, v100, SHAPE(2, 2, 1, 1)), 35.33651986363828);
    assert_int_equal(pair(table, "ResNet-18 (batch size 16)", "ResNet-18 (batch size 256)", v100, rates), 0);
    near(rates[0], 24.45464779058787 / 32.353384328946916);
    assert_int_equal(pair(table, "ResNet-50 (batch size 128)", "ResNet-50 (batch size 128)", v100, rates), 0);
    assert_true(rates[0] == 0 && rates[1] == 0);
    assert_true(speed(table, entry_of(table, "ResNet-50 (batch size 128)", 0, 1), k80, SHAPE(8, 1, 8, 8)) > 0);
    table_free(table);
    table_free(open_table(shared("gavel/oracle_throughputs.json.gz")));
    table_free(open_table(shared("gavel/physical_cluster_throughputs.json.gz")));
}

static void real_elasticflow(void **state)
{
    struct table *table = open_table(shared("elasticflow"));
    uint32_t a100 = table_type_find(table, "A100"), t4 = table_type_find(table, "T4");

    (void)state;
    near(speed(table, entry_of(table, "vgg16", 256, 4), a100, SHAPE(4, 1, 4, 4)), 4.641866203603871);
    near(speed(table, entry_of(table, "resnet50", 128, 64), a100, SHAPE(64, 8, 8, 8)), 21.070922780581487);
    near(speed(table, entry_of(table, "yolov3", 64, 16), t4, SHAPE(64, 8, 8, 8)), 0.8514782062868322); /* nan */
    near(speed(table, entry_of(table, "bert", 96, 2), a100, SHAPE(2, 1, 2, 2)),
         (8.643477263279834 + 5.679410396897942) / 2);
    table_free(table);
}

static void real_chronus_lucid_muri(void **state)
{
    struct table *table = open_table(shared("chronus/placement_slowdown.json"));
    double rates[2];

    (void)state;
    near(speed(table, entry_of(table, "vgg16", 0, 8), 0, SHAPE(8, 4, 2, 2)), 8 * 0.2608913299672127);
    near(speed(table, entry_of(table, "resnet101", 0, 8), 0, SHAPE(8, 2, 4, 4)), 8 * 0.9476815436874315);
    table_free(table);
    table = open_table(shared("lucid"));
    assert_int_equal(pair(table, "MobileNetV3/ImageNet/32/0", "ResNet18/CIFAR-10/32/0", 0, rates), 0);
    near(rates[0], 0.983);
    near(rates[1], 1.034);
    assert_int_equal(pair(table, "BERT", "BERT", 0, rates), 0); /* alone only: by utilisation */
    assert_true(rates[0] > 0.5 && rates[0] < 0.51);
    table_free(table);
    table = open_table(shared("muri/trace1.csv.gz"));
    near(speed(table, entry_of(table, "vgg16", 16, 8), 0, SHAPE(8, 1, 8, 8)), 1000.0 / 214);
    assert_int_equal(pair(table, "dqn", "gpt2", 0, rates), 0);
    assert_true(rates[0] > 0.9 && rates[1] > 0.8); /* one loads, the other computes */
    table_free(table);
}

static void failed_allocations_are_survived(void **state)
{
    struct scene scene;

    (void)state;
    put("t.csv", "model,sku,gpus,nodes,iterations_per_second\nnet,V100,1,1,2\nnet,V100,2,1,4\n");
    scene_init(&scene, (const char *const[]){ "V100", NULL });
    scene_job(&scene, "net", 0, 1, 10);
    assert_int_equal(world_config_set(&scene.config, "speed", at("t.csv"), NULL), 0);
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
        assert_true(err.code < 0);
    }
    scene_done(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(world_counts_in_nominal_time),
        cmocka_unit_test(skews_from_anywhere),
        cmocka_unit_test(steps_with_servers),
        cmocka_unit_test(pairs_slow_each_other),
        cmocka_unit_test(shipped_tables_are_sound),
        cmocka_unit_test(real_pollux),
        cmocka_unit_test(real_sia),
        cmocka_unit_test(real_gavel),
        cmocka_unit_test(real_elasticflow),
        cmocka_unit_test(real_chronus_lucid_muri),
        cmocka_unit_test(failed_allocations_are_survived),
    };

    return cmocka_run_group_tests(tests, make_root, remove_root);
}
