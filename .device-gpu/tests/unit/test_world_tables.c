/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of measured speeds: each family on a few lines of our own: cells, gaps, bad input. */
#include "world_tables.h"

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

/* Each family once per allocation, with that one failing: refused, nothing leaked, nothing half made. */
static void failed_allocations_are_survived(void **state)
{
    static const char *const specs[] = {
        "tor/native.csv", "tor/pairs.csv",     "tor/pollux:pollux", "tor/ef:elasticflow",
        "tor/lucid",      "tor/muri.csv:muri", "tor/gavel.json",    "tor/chronus.json",
    };

    (void)state;
    put("tor/native.csv", "model,sku,gpus,nodes,iterations_per_second\nnet,V100,1,1,2\n");
    put("tor/pairs.csv", "model_a,model_b,sku,rate_a,rate_b\na,b,V100,0.5,0.8\n");
    put("tor/pollux/net/placements.csv", "placement,local_bsz,step_time,sync_time\n1,4,0.4,0\n");
    put("tor/pollux/net/validation-8.csv", "progress,iteration,metric,grad_sqr,grad_var\n10,10,1,1,1\n");
    put("tor/ef/throughputs_T4/net.csv", "global_batch_size,1\n64,1\n");
    put("tor/lucid/colocate_info.csv", "model1,dataset1,batchsize1,amp1,speed1,model2,dataset2,batchsize2,amp2,speed2\n"
                                       "A,x,32,0,1,B,y,32,0,1\n");
    put("tor/lucid/single_data.csv", "model,dataset,batchsize,amp,gpu_util\nA,x,32,0,80\n");
    put("tor/muri.csv", "num_gpu,model_name,iteration_time,resource_time_0,resource_time_1,resource_time_2\n"
                        "1,net,100,80,10,0\n");
    put("tor/gavel.json", "{\"v100\": {\"('A', 1)\": {\"null\": 10, \"('A', 1)\": [5, 5]}}}");
    put("tor/chronus.json", "{\"net\": {\"2\": {\"1\": 1.0, \"2\": 0.8}}}");
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        for (size_t nth = 1;; nth++) {
            struct table *table = NULL;
            struct error err = { 0 };
            int r;

            mem_fail_at(nth);
            r = table_open(at(specs[i]), &table, &err);
            mem_fail_at(0);
            if (r == 0) {
                uint32_t entry = entry_of(table, names_get(&table->models, 0), 0, 1);

                assert_int_equal(entry, 0);
                table_free(table);
                break;
            }
            assert_null(table);
            assert_true(err.text[0] != '\0');
        }
    }
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
        cmocka_unit_test(failed_allocations_are_survived),
    };

    return cmocka_run_group_tests(tests, make_root, remove_root);
}
