/* SPDX-License-Identifier: Apache-2.0 */
/* The annotations of pods, the configuration's corners, and running out of memory while setting up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "cell/cells.h"
#include "wire/hived/hived_bind.h"
#include "wire/hived/hived_config.h"
#include "wire/hived/hived_spec.h"

static const char config[] = "physicalCluster:\n"
                             "  cellTypes:\n"
                             "    SW: {childCellType: GPU, childCellNumber: 2}\n"
                             "    NODE: {childCellType: SW, childCellNumber: 2, isNodeLevel: true}\n"
                             "    HALF: {childCellType: NODE, childCellNumber: 2}\n"
                             "    RACK: {childCellType: HALF, childCellNumber: 2}\n"
                             "  physicalCells:\n"
                             "  - {cellType: RACK}\n"
                             "  - cellType: RACK\n"
                             "    cellChildren:\n"
                             "    - cellChildren: [{cellAddress: x}, {cellAddress: 8}]\n"
                             "    - {cellAddress: null, cellChildren: null}\n"
                             "virtualClusters:\n"
                             "  v: {virtualCells: [{cellType: RACK.HALF.NODE, cellNumber: 1}, {cellType: RACK, "
                             "cellNumber: 1}]}\n";

static int load(const char *text, struct cell_spec *spec, struct error *err)
{
    CLEANUP_BUF struct buf buf = BUF_INIT(1 << 20);
    CLEANUP_BYTES struct bytes bytes = { 0 };

    buf_text(&buf, text);
    if (buf_take(&buf, &bytes, err) < 0)
        return -1;
    return hived_config_read("c.yaml", &bytes, spec, NULL, err);
}

static bool address_exists(const struct cells *s, const char *want)
{
    char address[100];

    for (uint32_t c = 0; c < cells_count(s); c++) {
        cells_address(s, c, address, sizeof(address));
        if (strcmp(address, want) == 0)
            return true;
    }
    return false;
}

static void test_addresses(void **state)
{
    static const char *const there[] = { "0/0/0/0/0", "0/0/0/1/3", "0/1/3/1/2", "1/2/x/0/1",
                                         "1/2/8",     "1/3/7/1/3", "v/0/0/1",   "v/1/1/3/7/15" };
    struct cell_spec spec = { 0 };
    struct cells *s = NULL;
    struct error err = { 0 };

    (void)state;
    assert_int_equal(load(config, &spec, &err), 0);
    assert_int_equal(cells_new(&spec, NULL, &s, &err), 0);
    for (size_t i = 0; i < sizeof(there) / sizeof(there[0]); i++)
        if (!address_exists(s, there[i]))
            fail_msg("no cell %s", there[i]);
    assert_true(cells_audit(s, &err));
    cells_free(s);
    cell_spec_done(&spec);
}

static void test_errors_have_places(void **state)
{
    static const char *const wrong[][2] = {
        { "physicalCluster:\n  cellTypes: {A: {childCellType: A, childCellNumber: 2}}\n", "c.yaml:2:" },
        { "physicalCluster:\n  cellTypes: {A: {childCellType: G}}\n", "c.yaml:2:18: expected childCellType" },
        { "physicalCluster:\n  physicalCells: [{cellType: X}]\n", "c.yaml:2:30: cell type 'X'" },
        { "physicalCluster:\n  cellTypes: {A: {childCellType: G, childCellNumber: 2}}\n  physicalCells: [{cellType: "
          "A}]\n",
          "c.yaml:3:30: cell type 'A' is below the node level" },
        { "physicalCluster:\n  cellTypes: {A: {childCellType: G, childCellNumber: 2, isNodeLevel: true}}\n"
          "  physicalCells: [{cellType: A, cellAddress: n}, {cellType: A, cellAddress: n}]\n",
          "node 'n' comes twice" },
        { "physicalCluster:\n  cellTypes: {A: {childCellType: G, childCellNumber: 2, isNodeLevel: true}}\n"
          "  physicalCells: [{cellType: A, cellChildren: [{cellAddress: 1}, {cellAddress: 1}]}]\n",
          "device 1 twice" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct cell_spec spec = { 0 };
        struct error err = { 0 };

        assert_true(load(wrong[i][0], &spec, &err) < 0);
        if (!strstr(err.text, wrong[i][1]))
            fail_msg("'%s' is not in '%s'", wrong[i][1], err.text);
        assert_null(spec.places);
    }
}

static void test_memory_runs_out(void **state)
{
    (void)state;
    for (size_t nth = 1;; nth++) {
        struct cell_spec spec = { 0 };
        struct cells *s = NULL;
        struct error err = { 0 };
        int r;

        assert_int_equal(load(config, &spec, &err), 0);
        mem_fail_at(nth);
        r = cells_new(&spec, NULL, &s, &err);
        mem_fail_at(0);
        cell_spec_done(&spec);
        if (r == 0) {
            cells_free(s);
            return;
        }
        assert_int_equal(r, -12);
        assert_null(s);
    }
}

static const char *node_name(const void *c, uint32_t node)
{
    return cells_node_name(c, node);
}

static const char *type_name(const void *c, uint32_t type)
{
    return cells_type_name(c, type);
}

static int node_find(void *c, const char *name, size_t length, uint32_t *ret_node)
{
    return cells_node_foreign(c, name, length, ret_node);
}

static uint32_t type_find(const void *c, const char *name, size_t length)
{
    return cells_type_find(c, name, length);
}

/* Written and read back line by line, as YAML of somebody else's, and with old words. */
static void test_bind_formats(void **state)
{
    static const char *const foreign =
        "{\"node\": \"gone\", \"gpuIsolation\": [3, 1], \"cellChain\": \"RACK\", "
        "\"affinityGroupBindInfo\": [{\"podPlacements\": [{\"physicalNode\": \"gone\", "
        "\"physicalGpuIndices\": [3, 1], \"preassignedCellTypes\": [\"RACK\", \"\"]}]}]}";
    struct cell_spec spec = { 0 };
    struct hived_places places = { 0 };
    struct cells *s = NULL;
    struct error err = { 0 };
    struct cell_bind bind, back;
    struct cell_member member = { 1, 2 };
    struct cell_request q = { .group = 1,
                              .pod = 1,
                              .pin = CELL_NONE,
                              .leaf_type = CELL_NONE,
                              .leaves = 2,
                              .member_count = 1,
                              .members = &member,
                              .ignore_suggested = true };
    struct cell_answer a;
    CLEANUP_BUF struct buf buf = BUF_INIT(1 << 16);
    struct hived_namer namer;

    (void)state;
    assert_int_equal(load(config, &spec, &err), 0);
    assert_int_equal(cells_new(&spec, NULL, &s, &err), 0);
    namer = (struct hived_namer){ s, node_name, type_name, node_find, type_find };
    cells_decide(s, &q, CELL_FILTERING, &a);
    assert_int_equal(a.outcome, CELL_BIND);
    hived_bind_write(&namer, &a.bind, &buf);
    assert_int_equal(hived_bind_read(&namer, buf.data, buf.size, &places, &back, &err), 0);
    assert_int_equal(back.pod_count, 1);
    assert_int_equal(back.chain, a.bind.chain);
    assert_memory_equal(back.leaves, a.bind.leaves, 2 * sizeof(*back.leaves));
    assert_int_equal(hived_bind_read(&namer, foreign, strlen(foreign), &places, &bind, &err), 0);
    assert_string_equal(cells_node_name(s, bind.pods[0].node), "gone");
    assert_int_equal(bind.leaves[0].index, 3);
    assert_int_equal(bind.leaves[1].preassigned, CELL_NONE);
    /* A gang on a node that is not there any more is kept, without devices. */
    assert_int_equal(cells_commit(s, &q, &bind, &err), 0);
    assert_true(cells_audit(s, &err));
    assert_int_equal(cells_release(s, 1, 1), 0);
    assert_true(hived_bind_read(&namer, "node: x\n", 8, &places, &bind, &err) < 0);
    hived_places_done(&places);
    cells_free(s);
    cell_spec_done(&spec);
}

static void test_spec(void **state)
{
    static char good[] = "{virtualCluster: v, priority: null, gpuNumber: 2, ignoreK8sSuggestedNodes: false, "
                         "affinityGroup: {name: g, members: [{podNumber: 1, gpuNumber: 2}, {podNumber: 3, gpuNumber: "
                         "1}]}}";
    static char *const wrong[] = {
        "",
        "[]",
        "{virtualCluster: v}",
        "{virtualCluster: v, leafCellNumber: x}",
        "{virtualCluster: v, leafCellNumber: 1, priority: 1001}",
        "{virtualCluster: v, leafCellNumber: 1, affinityGroup: {members: [{podNumber: 0, leafCellNumber: 1}]}}",
    };
    struct hived_spec spec;
    struct error err = { 0 };

    (void)state;
    assert_int_equal(hived_spec_read("s", &(struct bytes){ good, strlen(good) }, &spec, &err), 0);
    assert_int_equal(spec.leaves, 2);
    assert_int_equal(spec.priority, 0);
    assert_int_equal(spec.member_count, 2);
    assert_false(spec.ignore_suggested);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_true(hived_spec_read("s", &(struct bytes){ wrong[i], strlen(wrong[i]) }, &spec, &err) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_errors_have_places),
        cmocka_unit_test(test_memory_runs_out),
        cmocka_unit_test(test_bind_formats),
        cmocka_unit_test(test_spec),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
