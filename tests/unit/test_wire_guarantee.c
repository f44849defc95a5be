/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees in words: what they become as cells, the same as HiveD's form gives, and the words of every refusal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "cell/cells.h"
#include "wire/cluster/cluster.h"
#include "wire/cluster/cluster_cells.h"
#include "wire/cluster/guarantee.h"
#include "wire/hived/hived_config.h"
#include "wire/hived/hived_write.h"

static struct error err;

#define NODES                                                                                                          \
    "skus: {H: {}, A: {}}\nracks:\n- {count: 2, nodes: {count: 4, prefix: h, gpus: 8, sku: H, sockets: 2}}\n"          \
    "- {nodes: {count: 3, prefix: a, gpus: 16, sku: A}}\n"

static int file_read_text(const char *text, struct cluster_spec *spec)
{
    char copy[4096];
    struct bytes bytes = { copy, strlen(text) };

    assert_true(bytes.size < sizeof(copy));
    memcpy(copy, text, bytes.size + 1);
    *spec = (struct cluster_spec){ 0 };
    return cluster_read_yaml("c.yaml", &bytes, spec, &err);
}

/* How the guarantees were understood, and the grants: "a: 4 H-NODE; ". */
static void check(const char *vcs, const char *words, const char *grants)
{
    struct buf said = BUF_INIT(10000), got = BUF_INIT(10000);
    struct cell_spec cells = { 0 };
    struct cluster_spec spec;
    char text[4096];

    (void)snprintf(text, sizeof(text), NODES "vcs:\n  %s\n", vcs);
    err.text[0] = '\0';
    if (file_read_text(text, &spec) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(cluster_cells(&spec, &cells, &said, NULL, &err), 0);
    for (size_t i = 0; i < cells.grant_count; i++)
        buf_printf(&got, "%s: %u %s; ", names_get(&cells.names, cells.vcs[cells.grants[i].vc]), cells.grants[i].count,
                   names_get(&cells.names, cells.types[cells.grants[i].type].name));
    assert_string_equal(said.data, words);
    assert_string_equal(got.data, grants);
    assert_non_null(spec.cells);
    assert_int_equal(spec.cells->grant_count, cells.grant_count);
    buf_done(&said);
    buf_done(&got);
    cell_spec_done(&cells);
    cluster_spec_done(&spec);
}

static void words_become_cells(void **state)
{
    (void)state;
    check("a: {guarantee: {H: 4 nodes}}", "a: H: 4 nodes = 4 nodes\n", "a: 4 H-NODE; ");
    check("a: {guarantee: {A: 16 gpus in 4s}}", "a: A: 16 gpus in 4s = 4 quarter-nodes\n", "a: 4 A-4GPU; ");
    check("a: {guarantee: {H: 16 GPUs in 4}}", "a: H: 16 gpus in 4s = 4 sockets\n", "a: 4 H-SOCKET; ");
    check("a: {guarantee: {H: 13}}", "a: H: 13 gpus = 1 node + 1 socket + 1 gpu\n",
          "a: 1 H-NODE; a: 1 H-SOCKET; a: 1 H; ");
    check("a: {guarantee: {H: 1 rack + 2 sockets}, borrow: none}\n  b: {quota: {H: 24, A: 48}}",
          "a: H: 1 rack = 1 rack\na: H: 2 sockets = 2 sockets\nb: H: 24 gpus = 3 nodes\nb: A: 48 gpus = 3 nodes\n",
          "a: 1 H-RACK; a: 2 H-SOCKET; b: 3 H-NODE; b: 3 A-NODE; ");
    check("a: {guarantee: {A: 2 nodes + 8 gpus in 8s + 2 gpus in 2s}}\n  b: {guarantee: {A: 6 gpus in 2s}}",
          "a: A: 2 nodes = 2 nodes\na: A: 8 gpus in 8s = 1 half-node\na: A: 2 gpus in 2s = 1 eighth-node\n"
          "b: A: 6 gpus in 2s = 3 eighth-nodes\n",
          "a: 2 A-NODE; a: 1 A-8GPU; a: 1 A-2GPU; b: 3 A-2GPU; ");
}

static void refused(const char *vcs, const char *words)
{
    struct cluster_spec spec;
    char text[4096];

    (void)snprintf(text, sizeof(text), NODES "vcs:\n  %s\n", vcs);
    err.text[0] = '\0';
    assert_true(file_read_text(text, &spec) < 0);
    if (!strchr(err.text, '\n'))
        fail_msg("no place: %s", err.text);
    *strchr(err.text, '\n') = '\0';
    assert_string_equal(err.text, words);
}

static void what_cannot_be_had(void **state)
{
    (void)state;
    refused("a: {guarantee: {H: 9 nodes}}",
            "c.yaml:6:22: H: 9 nodes cannot be had; beside what the others have, the most is 8 nodes");
    refused("a: {guarantee: {H: 1 gpu}}\n  b: {guarantee: {H: 2 racks}}",
            "c.yaml:7:22: H: 2 racks cannot be had; beside what the others have, the most is 1 rack");
    refused("a: {guarantee: {A: 3 nodes}}\n  b: {guarantee: {A: 1 gpu}}",
            "c.yaml:7:22: A: 1 gpu cannot be had: the others have all of it");
    refused("a: {guarantee: {A: 18 gpus in 4s}}", "c.yaml:6:22: A: 18 is no multiple of 4; 16 or 20 is");
    refused("a: {guarantee: {H: 6 gpus in 3s}}",
            "c.yaml:6:22: H: no node can be divided into cells of 3 GPUs; there can be cells of 1, 2, 4, 8");
    refused("a: {guarantee: {H: 1 domain}}",
            "c.yaml:6:22: H: there are no domains of several nodes with equally many H each");
    refused("a: {guarantee: {X: 1 node}}", "c.yaml:6:19: 'X' is not among the skus");
    refused("a: {guarantee: 4 nodes}",
            "c.yaml:6:18: guarantee: there are several GPU types; expected {SKU: WORDS, ...}");
    refused("a: {guarantee: {H: four}}", "c.yaml:6:22: guarantee 'four': character 1: expected a number, 1 to 4194304");
    refused("a: {guarantee: {H: 4 houses}}",
            "c.yaml:6:22: guarantee '4 houses': character 3: expected gpus, groups, sockets, nodes, racks or domains");
    refused("a: {guarantee: {H: 4 nodes in 2s}}",
            "c.yaml:6:22: guarantee '4 nodes in 2s': character 9: expected '+' or the end");
    refused("a: {guarantee: {H: 4 nodes +}}",
            "c.yaml:6:22: guarantee '4 nodes +': character 9: expected '+' and another part, or the end");
    refused("a: {guarantee: {H: 1 node}, quota: {H: 8}}", "c.yaml:6:7: expected either 'quota' or 'guarantee'");
    refused("a: {guarantee: {H: 1 node}, min_runtime: soon}",
            "c.yaml:6:44: min_runtime: expected a span such as 20m, 2h30m or 1d");
    refused("a: {guarantee: {H: 1 node}, borrow: half}",
            "c.yaml:6:39: borrow: expected none, all, a number of GPUs, or a share such as 50%");
}

static void limits_of_a_vc(void **state)
{
    struct cluster_spec spec;

    (void)state;
    assert_int_equal(file_read_text(NODES
                                    "vcs:\n"
                                    "  a: {guarantee: {H: 4 nodes, A: 16 gpus in 4s}, borrow: 50%, max_user_gpus: 32,"
                                    " min_runtime: 20m, policy: srsf}\n  b: {quota: {H: 8}, borrow: 25%}\n",
                                    &spec),
                     0);
    assert_int_equal(spec.vcs[0].quota[0], 32);
    assert_int_equal(spec.vcs[0].quota[1], 16);
    assert_int_equal(spec.vcs[0].borrow_max, 24);
    assert_int_equal(spec.vcs[0].user_max, 32);
    assert_true(spec.vcs[0].min_runtime == 1200 * USEC_SEC);
    assert_int_equal(spec.vcs[1].quota[0], 8);
    assert_int_equal(spec.vcs[1].borrow_max, 2);
    cluster_spec_done(&spec);
}

static void spans(void **state)
{
    usec_t span;

    (void)state;
    assert_int_equal(span_parse("2h30m", 5, &span), 0);
    assert_true(span == 2 * USEC_HOUR + 30 * USEC_MIN);
    assert_int_equal(span_parse("1d", 2, &span), 0);
    assert_true(span == USEC_DAY);
    assert_true(span_parse("", 0, &span) < 0);
    assert_true(span_parse("20", 2, &span) < 0);
    assert_true(span_parse("30m2h", 5, &span) < 0);
    assert_true(span_parse("9999999999999d", 14, &span) < 0);
}

/* Nodes of one type in two shapes; racks of different sizes; what is written is read as the same. */
static void kinds_of_nodes(void **state)
{
    static const char *const clusters[] = {
        "racks:2 nodes:3 gpus:8 sockets:2 groups:2 sku:H",
        "domains:2 racks:2 nodes:2 gpus:4 sku:H + domains:1 racks:2 nodes:2 gpus:4 sku:H",
        "2x8:H + 3x8:H",
        "2x8:H + 3x4:H + nodes:2 gpus:8 sockets:2 sku:H",
        "5x1:H + 1x1:K",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(clusters) / sizeof(clusters[0]); i++) {
        struct cell_spec cells = { 0 }, again = { 0 };
        struct buf first = BUF_INIT(1 << 20), second = BUF_INIT(1 << 20);
        struct cluster_spec spec = { 0 }, third = { 0 };
        struct cells *allocator;
        struct bytes bytes;

        assert_int_equal(cluster_parse(clusters[i], &spec, &err), 0);
        assert_int_equal(cluster_cells(&spec, &cells, NULL, NULL, &err), 0);
        hived_config_write(&cells, &first);
        bytes = (struct bytes){ first.data, first.size };
        if (hived_config_read("again.yaml", &bytes, &again, NULL, &err) < 0)
            fail_msg("%s\n%s", err.text, first.data);
        hived_config_write(&again, &second);
        assert_string_equal(first.data, second.data);
        assert_int_equal(cluster_read_yaml("third.yaml", &bytes, &third, &err), 0);
        assert_int_equal(third.node_count, spec.node_count);
        assert_int_equal(third.vcs[0].quota[0], spec.vcs[0].quota[0]);
        assert_int_equal(cells_new(&cells, &(struct cells_limits){ 0 }, &allocator, &err), 0);
        assert_true(cells_audit(allocator, &err));
        cells_free(allocator);
        buf_done(&first);
        buf_done(&second);
        cell_spec_done(&cells);
        cell_spec_done(&again);
        cluster_spec_done(&spec);
        cluster_spec_done(&third);
    }
}

/* HiveD's own form names no more than cells; a machine in two chains is two nodes of one name. */
static void hived_as_cluster(void **state)
{
    static const char text[] =
        "physicalCluster:\n  cellTypes: {N: {childCellType: V, childCellNumber: 2, isNodeLevel: true},"
        " M: {childCellType: K, childCellNumber: 1, isNodeLevel: true}}\n"
        "  physicalCells: [{cellType: N, cellAddress: n0}, {cellType: M, cellAddress: %s}]\n"
        "virtualClusters: {a: {virtualCells: [{cellType: N, cellNumber: 1}]}}\n";
    struct cluster_spec spec;
    char copy[1000];

    (void)state;
    (void)snprintf(copy, sizeof(copy), text, "n1");
    assert_int_equal(file_read_text(copy, &spec), 0);
    assert_int_equal(spec.node_count, 2);
    assert_int_equal(spec.vcs[0].quota[0], 2);
    assert_int_equal(spec.vcs[0].quota[1], 0);
    assert_non_null(spec.cells);
    cluster_spec_done(&spec);
    (void)snprintf(copy, sizeof(copy), text, "n0");
    assert_int_equal(file_read_text(copy, &spec), 0);
    assert_int_equal(spec.node_count, 2);
    assert_int_equal(spec.nodes[0].twin, 2);
    assert_int_equal(spec.nodes[1].twin, 1);
    assert_true(spec.nodes[0].sku != spec.nodes[1].sku);
    cluster_spec_done(&spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_become_cells), cmocka_unit_test(what_cannot_be_had),
        cmocka_unit_test(limits_of_a_vc),     cmocka_unit_test(spans),
        cmocka_unit_test(kinds_of_nodes),     cmocka_unit_test(hived_as_cluster),
    };

    return cmocka_run_group_tests_name("wire_guarantee", tests, NULL, NULL);
}
