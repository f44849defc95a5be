/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of measured speeds: each family on a few lines of our own (cells, gaps, bad input), muster's own shipped ones,
 * and, where the public data is at hand (MUSTER_SHARED, or shared/ beside the project), known cells of the real files.
 */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "sim/world.h"
#include "sim/world_grid.h"
#include "sim/world_table.h"

/* ---- files of our own, in a folder that is removed at the end */

static char root[] = "/tmp/muster-tables-XXXXXX";

static int make_root(void **state)
{
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    char command[64];

    (void)state;
    (void)snprintf(command, sizeof(command), "rm -rf %s", root);
    return system(command);
}

/* Folders on the way are made. Returns the path, good until the next call. */
static const char *put(const char *name, const char *text)
{
    static char path[PATH_MAX];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", root, name);
    for (char *slash = strchr(path + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    return path;
}

static const char *at(const char *name)
{
    static char path[PATH_MAX];

    (void)snprintf(path, sizeof(path), "%s/%s", root, name);
    return path;
}

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

/* ---- a table asked directly */

static struct table *open_table(const char *spec)
{
    struct table *table = NULL;
    struct error err = { 0 };

    if (table_open(spec, &table, &err) != 0)
        fail_msg("%s: %s", spec, err.text);
    return table;
}

static void refused(const char *spec, const char *words)
{
    struct table *table = NULL;
    struct error err = { 0 };

    assert_true(table_open(spec, &table, &err) < 0);
    assert_null(table);
    if (!strstr(err.text, words))
        fail_msg("expected '%s', got '%s'", words, err.text);
}

static uint32_t entry_of(struct table *table, const char *model, uint32_t batch, int32_t gpus)
{
    struct table_job job = { model, batch, gpus };
    struct error err = { 0 };
    uint32_t entry = 0;
    int r = table->ops->find(table, &job, &entry, &err);

    if (r != 0)
        fail_msg("%s: %d %s", model, r, err.text);
    return entry;
}

static int missing(struct table *table, const char *model)
{
    struct table_job job = { model, 0, 1 };
    uint32_t entry;

    return table->ops->find(table, &job, &entry, NULL) == -ENOENT;
}

/* Speed on `nodes` nodes with `most` and `least` GPUs; fewest: of 8-GPU nodes. */
static double speed(struct table *table, uint32_t entry, uint32_t type, const int32_t shape[4])
{
    struct world_shape where = {
        .gpus = shape[0], .nodes = (uint16_t)shape[1], .racks = 1, .node_gpus_max = shape[2], .node_gpus_min = shape[3]
    };
    struct table_place place = { &where, type, (shape[0] + 7) / 8 };

    return table->ops->speed(table, entry, &place);
}

#define SHAPE(...) ((const int32_t[4]){ __VA_ARGS__ })

static int pair(struct table *table, const char *a, const char *b, uint32_t type, double rates[2])
{
    uint32_t entries[2] = { entry_of(table, a, 0, 1), entry_of(table, b, 0, 1) };
    struct world_shape where = { .gpus = 1, .nodes = 1, .racks = 1, .node_gpus_max = 1, .node_gpus_min = 1 };
    struct table_place place = { &where, type, 1 };

    return table->ops->pair(table, entries, &place, rates);
}

static void near(double got, double wanted)
{
    if (!(got > wanted * 0.9999999 && got < wanted * 1.0000001))
        fail_msg("expected %.12g, got %.12g", wanted, got);
}

/* ---- the grid under all of them */

static void grid_interpolates_and_ends(void **state)
{
    static const struct grid_row rows[] = {
        { 0, 0, 4, 2, { 20, 2 } }, { 0, 0, 4, 1, { 10, 1 } }, { 0, 0, 4, 4, { 30, 3 } },
        { 0, 0, 8, 2, { 40, 4 } }, { 0, 0, 8, 2, { 60, 6 } }, { 1, 0, 9, 1, { 7, 7 } },
    };
    struct grid grid = { 0 };
    double y[2];

    (void)state;
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(grid_add(&grid, &rows[i]), 0);
    grid_close(&grid);
    assert_int_equal(grid.count, 5);
    assert_true(grid_at(&grid, &(struct grid_row){ 0, 0, 4, 3, { 0 } }, GRID_FLAT, y));
    near(y[0], 25);
    near(y[1], 2.5);
    assert_true(grid_at(&grid, &(struct grid_row){ 0, 0, 4, 9, { 0 } }, GRID_GPUS, y));
    near(y[0], 30);
    assert_true(grid_at(&grid, &(struct grid_row){ 0, 0, 8, 1, { 0 } }, GRID_GPUS, y));
    near(y[0], 25); /* the mean of two rows, and half the GPUs */
    assert_true(grid_at(&grid, &(struct grid_row){ 0, 0, 8, 1, { 0 } }, GRID_FLAT, y));
    near(y[0], 50);
    assert_true(grid_between(&grid, &(struct grid_row){ 0, 0, 6, 2, { 0 } }, GRID_FLAT, y));
    near(y[0], 35);
    assert_true(grid_between(&grid, &(struct grid_row){ 0, 0, 1, 2, { 0 } }, GRID_FLAT, y));
    near(y[0], 20);
    assert_true(grid_between(&grid, &(struct grid_row){ 0, 0, 99, 2, { 0 } }, GRID_FLAT, y));
    near(y[0], 50);
    assert_false(grid_at(&grid, &(struct grid_row){ 0, 0, 5, 2, { 0 } }, GRID_FLAT, y));
    assert_false(grid_between(&grid, &(struct grid_row){ 0, 1, 4, 2, { 0 } }, GRID_FLAT, y));
    grid_done(&grid);
}

/* ---- families on lines of our own */

static void native_speeds(void **state)
{
    struct table *table = open_table(put("native.csv", "model,sku,gpus,nodes,iterations_per_second\n"
                                                       "net,V100,1,1,2\nnet,V100,4,1,8\nnet,V100,4,4,4\n"
                                                       "net,T4,2,1,1\nother,V100,1,1,1\n"));
    uint32_t net = entry_of(table, "net", 0, 1), v100, t4;

    (void)state;
    assert_string_equal(table->ops->kind, "native");
    v100 = table_type_find(table, "v-100");
    t4 = table_type_find(table, "T4");
    assert_true(v100 != NAME_NONE && t4 != NAME_NONE && table_type_find(table, "K80") == NAME_NONE);
    near(speed(table, net, v100, SHAPE(1, 1, 1, 1)), 2);
    near(speed(table, net, v100, SHAPE(2, 1, 2, 2)), 4);
    near(speed(table, net, v100, SHAPE(4, 4, 1, 1)), 4);
    near(speed(table, net, v100, SHAPE(4, 2, 2, 2)), 8 - 4.0 / 3);
    near(speed(table, net, v100, SHAPE(8, 1, 8, 8)), 8);
    near(speed(table, net, t4, SHAPE(1, 1, 1, 1)), 0.5);
    assert_true(speed(table, entry_of(table, "other", 0, 1), t4, SHAPE(1, 1, 1, 1)) == 0);
    assert_true(missing(table, "net2"));
    table_free(table);
}

static void native_pairs(void **state)
{
    struct table *table = open_table(put("p.csv", "model_a,model_b,rate_a,rate_b\na,b,0.5,0.8\nb,b,0,0\n"));
    double rates[2];

    (void)state;
    assert_int_equal(pair(table, "b", "a", 0, rates), 0);
    near(rates[0], 0.8);
    near(rates[1], 0.5);
    assert_int_equal(pair(table, "b", "b", 0, rates), 0);
    assert_true(rates[0] == 0 && rates[1] == 0);
    assert_int_equal(pair(table, "a", "a", 0, rates), -ENOENT);
    table_free(table);
}

static void bad_native_tables_are_refused(void **state)
{
    (void)state;
    refused(put("b.csv", "model,gpus,nodes,iterations_per_second\nnet,0,1,5\n"), "b.csv:2:5: gpus: expected");
    refused(put("b.csv", "model,gpus,nodes,iterations_per_second\nnet,2,3,5\n"), "b.csv:2:7: nodes: expected");
    refused(put("b.csv", "model,gpus,nodes,iterations_per_second\nnet,2,1,0\n"),
            "b.csv:2:9: iterations_per_second: expected a number from 1e-12 to 1e12, got '0'");
    refused(put("b.csv", "model,gpus,nodes,iterations_per_second\nnet,2,1,nan\n"), "b.csv:2:9: ");
    refused(put("b.csv", "model,gpus,nodes,iterations_per_second\n,2,1,4\n"), "b.csv:2:1: model: expected a name");
    refused(put("b.csv", "model,gpus,nodes,iterations_per_second\n"), "expected rows after the header, got none");
    refused(put("b.csv", "model,gpus,nodes,speed\nnet,2,1,4\n"), "b.csv:1:18: unknown column 'speed'");
    refused(put("b.csv", "model_a,model_b,rate_a,rate_b\na,b,0,0.5\n"), "b.csv:2:7: rate_b: one rate is 0");
    refused(put("b.csv", "hello\n"), "not a table this program knows");
    refused(at("nowhere.csv"), "nowhere.csv");
    refused(at("nowhere.csv:muri"), "nowhere.csv");
}

static void pollux_steps(void **state)
{
    struct table *table;
    uint32_t net;

    (void)state;
    put("pollux/net/placements.csv", "placement,local_bsz,step_time,sync_time\n1,4,0.4,0\n1,8,0.8,0\n"
                                     "12,4,0.5,0.1\n12,8,0.9,0.1\n21,4,0.7,0.3\n4,4,0.45,0.05\n4,8,0.85,0.05\n");
    put("pollux/net/scalability.csv",
        "num_nodes,num_replicas,local_bsz,step_time,sync_time\n8,8,4,1.0,0.6\n8,16,4,1.2,0.8\n");
    put("pollux/net/validation-8.csv",
        "progress,iteration,metric,grad_sqr,grad_var\n10,10,1,1,1\n20,20,1,1,1\n30,30,1,1,1\n");
    put("pollux/net/validation-16.csv", "progress,iteration,metric,grad_sqr,grad_var\n10,6,1,1,1\n20,12,1,1,1\n");
    table = open_table(at("pollux:pollux"));
    net = entry_of(table, "net", 8, 1);
    near(speed(table, net, 0, SHAPE(1, 1, 1, 1)), 1 / 0.8);
    near(speed(table, entry_of(table, "net", 6, 1), 0, SHAPE(1, 1, 1, 1)), 1 / 0.6);
    near(speed(table, entry_of(table, "net", 16, 4), 0, SHAPE(4, 1, 4, 4)), 1 / 0.45);
    /* The order of nodes does not matter: 12 and 21 are one placement. */
    near(speed(table, entry_of(table, "net", 12, 3), 0, SHAPE(3, 2, 2, 1)), 1 / 0.6);
    /* 64 on 4 GPUs: 16 each, two passes of 8, the first without an exchange. */
    near(speed(table, entry_of(table, "net", 64, 4), 0, SHAPE(4, 1, 4, 4)), 1 / (0.85 + 0.80));
    /* One GPU above the smallest batch size accumulates: two passes of 8. */
    near(speed(table, entry_of(table, "net", 16, 1), 0, SHAPE(1, 1, 1, 1)), 1 / 1.6);
    /* 12 GPUs on 8 nodes: between 8 and 16. On 5 nodes: half way from 2 to 8. */
    near(speed(table, entry_of(table, "net", 48, 12), 0, SHAPE(12, 8, 2, 1)), 1 / 1.1);
    near(speed(table, entry_of(table, "net", 32, 8), 0, SHAPE(8, 5, 2, 1)), 1 / 0.8);
    assert_int_equal(table->ops->iterations(table, net), 20); /* the last epoch that all have */
    assert_int_equal(table->ops->iterations(table, entry_of(table, "net", 16, 1)), 12);
    assert_int_equal(table->ops->iterations(table, entry_of(table, "net", 12, 1)), 16);
    assert_true(table_type_find(table, "T4") != NAME_NONE);
    table_free(table);
    put("pollux/net/placements-rtx.csv", "local_bsz,step_time,sync_time,placement\n4,0.2,0,1x\n");
    refused(at("pollux:sia"), "placements-rtx.csv:2:9: placement: expected digits 1..9");
    refused(root, "not a table");
    assert_int_equal(mkdir(at("empty"), 0700), 0);
    refused(at("empty:pollux"), "expected folders <model>/ with placements.csv, found none");
}

static void gavel_speeds_and_pairs(void **state)
{
    static const char text[] =
        "{\"v100\": {\"('A (batch size 4)', 1)\": {\"null\": 10, \"('B (batch size 2)', 1)\": [5, 2],"
        " \"('A (batch size 4)', 1)\": [0.0, 0.0]},"
        " \"('A (batch size 4)', 4)\": {\"null\": 32}, \"('A (batch size 4)', 8)\": {\"null\": 0.0},"
        " \"('B (batch size 2)', 1)\": {\"null\": 4}},"
        " \"v100_unconsolidated\": {\"('A (batch size 4)', 4)\": {\"null\": 16}},"
        " \"k80\": {\"('B (batch size 2)', 1)\": {\"null\": 1}}}";
    struct table *table = open_table(put("gavel.json", text));
    uint32_t a = entry_of(table, "A (batch size 4)", 0, 1), v100 = table_type_find(table, "V100");
    uint32_t k80 = table_type_find(table, "K80");
    double rates[2];

    (void)state;
    assert_int_equal(a, entry_of(table, "A", 4, 1));
    assert_int_equal(a, entry_of(table, "A", 16, 4)); /* the batch of one GPU */
    near(speed(table, a, v100, SHAPE(1, 1, 1, 1)), 10);
    near(speed(table, a, v100, SHAPE(2, 1, 2, 2)), 10 + 22.0 / 3);
    near(speed(table, a, v100, SHAPE(8, 1, 8, 8)), 32); /* 0 is a hole, not a speed */
    near(speed(table, a, v100, SHAPE(4, 2, 2, 2)), 16);
    near(speed(table, entry_of(table, "B", 2, 1), v100, SHAPE(2, 2, 1, 1)), 4);
    assert_true(speed(table, a, k80, SHAPE(1, 1, 1, 1)) == 0);
    assert_int_equal(pair(table, "A (batch size 4)", "B (batch size 2)", v100, rates), 0);
    near(rates[0], 0.5);
    near(rates[1], 0.5);
    assert_int_equal(pair(table, "A (batch size 4)", "A (batch size 4)", v100, rates), 0);
    assert_true(rates[0] == 0 && rates[1] == 0);
    assert_int_equal(pair(table, "B (batch size 2)", "B (batch size 2)", v100, rates), -ENOENT);
    assert_true(missing(table, "A"));
    table_free(table);
    refused(put("g.json", "{\"v100\": {\"('A', 1)\": {\"null\": \"fast\"}}}"), "g.json: ('A', 1): expected a number");
    refused(put("g.json", "{\"v100\": {\"('A', 0)\": {\"null\": 1}}}"), "expected a job such as ('<model>', <gpus>)");
    refused(put("g.json", "{\"v100\": {\"('A', 1)\": {\"null\": 1, \"('B', 1)\": [1]}}}"), "expected a pair of speeds");
    refused(put("g.json", "{\"v100\": {\"('A', 1)\": {\"null\": -1}}}"), "expected 0 or a number from 1e-12 to 1e12");
    refused(put("g.json", "{\"v100\": {\n\"('A', 1)\": {\"null\": 1,}}}"), "g.json:2:");
    refused(put("g.json", "{\"null\": 3}"), "expected an object");
}

static void elasticflow_speeds(void **state)
{
    struct table *table;
    uint32_t net, a100;

    (void)state;
    put("ef/throughputs_A100/net.csv", "global_batch_size,1,2,4,8\r\n64,1,nan,4,\r\n128,0.5,1,2,0\r\n");
    put("ef/throughputs_T4/net.csv", "global_batch_size,1\n64,0.1\n");
    table = open_table(at("ef"));
    net = entry_of(table, "net", 64, 1);
    a100 = table_type_find(table, "A100");
    near(speed(table, net, a100, SHAPE(1, 1, 1, 1)), 1);
    near(speed(table, net, a100, SHAPE(2, 1, 2, 2)), 2); /* not run: between 1 and 4 */
    near(speed(table, net, a100, SHAPE(8, 1, 8, 8)), 4);
    near(speed(table, entry_of(table, "net", 96, 4), a100, SHAPE(4, 1, 4, 4)), 3);
    near(speed(table, entry_of(table, "net", 0, 4), a100, SHAPE(4, 1, 4, 4)), 4); /* no batch told: the smallest */
    near(speed(table, net, table_type_find(table, "T4"), SHAPE(1, 1, 1, 1)), 0.1);
    table_free(table);
    table = open_table(at("ef/throughputs_T4:elasticflow"));
    near(speed(table, entry_of(table, "net", 64, 1), 0, SHAPE(1, 1, 1, 1)), 0.1);
    table_free(table);
    put("ef/throughputs_T4/net.csv", "global_batch_size,1,2\n64,0.1,fast\n");
    refused(at("ef"), "net.csv:2:8: ");
    put("ef/throughputs_T4/net.csv", "global_batch_size,1,x\n64,0.1,2\n");
    refused(at("ef"), "net.csv:1:21: ");
    put("ef/throughputs_T4/net.csv", "batch,1\n64,0.1\n");
    refused(at("ef"), "net.csv:1:1: expected a header 'global_batch_size,1,2,...'");
    put("ef/throughputs_T4/net.csv", "global_batch_size,1\n64,0.1,2\n");
    refused(at("ef"), "net.csv:2");
}

static void chronus_slowdowns(void **state)
{
    struct table *table = open_table(put("slow.json", "{\"net\": {\"2\": {\"1\": 1.0, \"2\": 0.8}, "
                                                      "\"8\": {\"1\": 1.0, \"2\": 0.6, \"4\": 0.2}}}"));
    uint32_t net = entry_of(table, "net", 0, 8);

    (void)state;
    assert_string_equal(table->ops->kind, "chronus");
    near(speed(table, net, 0, SHAPE(1, 1, 1, 1)), 1);
    near(speed(table, net, 0, SHAPE(8, 1, 8, 8)), 8);
    near(speed(table, net, 0, SHAPE(8, 2, 4, 4)), 8 * 0.6);
    near(speed(table, net, 0, SHAPE(8, 3, 4, 2)), 8 * 0.4);
    near(speed(table, net, 0, SHAPE(8, 8, 1, 1)), 8 * 0.2);
    near(speed(table, net, 0, SHAPE(5, 2, 3, 2)), 5 * 0.8); /* half way: the smaller count */
    near(speed(table, net, 0, SHAPE(6, 2, 3, 3)), 6 * 0.6);
    assert_true(missing(table, "bert"));
    table_free(table);
    refused(put("s.json", "{\"net\": {\"2\": {\"1\": 0}}}"), "s.json: net.2: expected a number from 1e-12 to 1e12");
    refused(put("s.json", "{\"net\": {\"two\": {\"1\": 1}}}"), "expected a count as key, got 'two'");
    refused(put("s.json", "{\"net\": [1]}"), "s.json: net: expected an object");
    refused(put("s.json", "{}"), "expected speeds by model, GPUs and nodes, got none");
    refused(put("s.json", "{\"net\""), "s.json:1:");
}

static void lucid_pairs(void **state)
{
    static const char pairs[] = ",model1,dataset1,gpu_num1,batchsize1,amp1,speed1,model2,dataset2,gpu_num2,batchsize2,"
                                "amp2,speed2,gpu_util,gmem_util,gmem\n"
                                "0,A,x,1,32,0,0.9,B,y,1,32,0,0.8,90,30,5000\n"
                                "1,A,x,1,64,1,0.7,B,y,1,32,0,0.6,90,30,5000\n"
                                "2,B,y,1,64,0,0.5,B,y,1,32,0,0.4,90,30,5000\n";
    static const char singles[] = "model,dataset,batchsize,amp,speed,gpu_util,gmem_util,gmem,label\n"
                                  "A,x,32,0,100,80,20,2000,1\nC,z,32,0,100,40,20,2000,1\n";
    struct table *table;
    double rates[2];

    (void)state;
    put("lucid/single_data.csv", singles);
    put("lucid/colocate_info.csv", pairs);
    table = open_table(at("lucid"));
    assert_int_equal(pair(table, "A", "B", 0, rates), 0);
    near(rates[0], 0.8);
    near(rates[1], 0.7);
    assert_int_equal(pair(table, "B", "A/x/64/1", 0, rates), 0);
    near(rates[0], 0.6);
    near(rates[1], 0.7);
    assert_int_equal(pair(table, "B", "B", 0, rates), 0);
    near(rates[0], 0.45);
    assert_int_equal(pair(table, "A", "C", 0, rates), 0); /* not measured together: 80 % + 40 % of one GPU */
    near(rates[0], 100.0 / 120);
    near(rates[1], 100.0 / 120);
    assert_int_equal(pair(table, "C", "B", 0, rates), -ENOENT);
    assert_int_equal(entry_of(table, "A", 64, 1), entry_of(table, "A", 128, 2));
    assert_int_equal(entry_of(table, "A", 7, 1), entry_of(table, "A", 0, 1)); /* a batch nobody measured */
    assert_true(missing(table, "D") && missing(table, "A/y") && missing(table, "A/x/32/1"));
    table_free(table);
    table = open_table(at("lucid/colocate_info.csv"));
    assert_true(missing(table, "C"));
    table_free(table);
    refused(put("l.csv", "model1,dataset1,batchsize1,amp1,speed1,model2,dataset2,batchsize2,amp2,speed2\n"
                         "A,x,32,2,1,B,y,32,0,1\n"),
            "l.csv:2:8: amp1: expected");
}

static void muri_stages_interleave(void **state)
{
    static const char text[] = "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,"
                               "iteration_time,resource_time_0,resource_time_1,resource_time_2,priority\n"
                               "0,1,0,10,load,4,1,1,100,80,10,0,0\n1,1,0,10,gpu,4,1,1,100,10,80,10,0\n"
                               "2,8,0,10,gpu,4,1,1,200,10,80,100,0\n3,1,0,10,load,4,1,1,120,80,10,0,0\n";
    struct table *table = open_table(put("muri.csv", text));
    double rates[2];

    (void)state;
    near(speed(table, entry_of(table, "load", 0, 1), 0, SHAPE(1, 1, 1, 1)), 1000.0 / 110);
    near(speed(table, entry_of(table, "gpu", 0, 1), 0, SHAPE(8, 1, 8, 8)), 5);
    near(speed(table, entry_of(table, "gpu", 0, 1), 0, SHAPE(1, 1, 1, 1)), 10);
    /* Shifted by one: max(80, 80) + max(10, 10) + max(0, 10) = 100, raised to the longer iteration alone, 110. */
    assert_int_equal(pair(table, "load", "gpu", 0, rates), 0);
    near(rates[0], 1);
    near(rates[1], 100.0 / 110);
    /* Two of a kind: 80 + 80 + 10 or 80 + 10 + 80. */
    assert_int_equal(pair(table, "load", "load", 0, rates), 0);
    near(rates[0], 110.0 / 170);
    table_free(table);
    refused(put("m.csv", "job_id,num_gpu,model_name,iteration_time,resource_time_0,resource_time_1,resource_time_2\n"
                         "0,1,a,0,1,1,1\n"),
            "m.csv:2:7: iteration_time: expected a number from 1e-12 to 1e12");
}

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
    struct world_shape fast = { 2, 1, 1, 0, 2, 2 }, spread = { 2, 2, 1, 0, 1, 1 }, slow = { 2, 1, 1, 1, 2, 2 };
    struct world_shape single = { 1, 1, 1, 0, 1, 1 };
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

static void pairs_slow_each_other(void **state)
{
    const char *path = put("wp.csv", "model_a,model_b,rate_a,rate_b\na,b,0.5,0.8\na,c,0,0\n");
    struct world_shape shape = { 1, 1, 1, 0, 1, 1 };
    struct world_neighbour both[] = { { 1, 1000 }, { 1, 1000 } }, c = { 2, 1000 }, same = { 0, 1000 };
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
        cmocka_unit_test(grid_interpolates_and_ends),
        cmocka_unit_test(native_speeds),
        cmocka_unit_test(native_pairs),
        cmocka_unit_test(bad_native_tables_are_refused),
        cmocka_unit_test(pollux_steps),
        cmocka_unit_test(gavel_speeds_and_pairs),
        cmocka_unit_test(elasticflow_speeds),
        cmocka_unit_test(chronus_slowdowns),
        cmocka_unit_test(lucid_pairs),
        cmocka_unit_test(muri_stages_interleave),
        cmocka_unit_test(world_counts_in_nominal_time),
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
