/* SPDX-License-Identifier: Apache-2.0 */
/* Clusters from strings, YAML files and foreign tables: what they become, and the exact words of every refusal. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "io/file.h"
#include "wire/cluster/cluster.h"
#include "wire/text/size.h"

static struct error err;

enum source { STRING, YAML, TABLE };

static int read_text(enum source source, const char *text, struct cluster_spec *spec)
{
    char copy[4096];
    struct bytes bytes = { copy, strlen(text) };

    assert_true(bytes.size < sizeof(copy));
    memcpy(copy, text, bytes.size);
    *spec = (struct cluster_spec){ 0 };
    switch (source) {
    case STRING:
        return cluster_parse(text, spec, &err);
    case YAML:
        return cluster_read_yaml("c.yaml", &bytes, spec, &err);
    case TABLE:
        return cluster_read_csv("c.csv", &bytes, spec, &err);
    }
    return -EINVAL;
}

/* "NAME dDOMAIN rRACK GPUSxSKU sSOCKETS gGROUPS", one line for each run of nodes that differ in the name only. */
static void nodes_describe(const struct cluster_spec *spec, struct buf *out)
{
    char last[200] = "";

    for (uint32_t i = 0; i < spec->node_count; i++) {
        const struct node_spec *node = &spec->nodes[i];
        char text[200];

        (void)snprintf(text, sizeof(text), "d%u r%u %ux%s s%u g%u c%u m%u", node->domain, node->rack, node->gpus,
                       names_get(&spec->names, spec->skus[node->sku].name), node->sockets, node->groups, node->cpus,
                       node->memory_mib);
        if (strcmp(text, last) != 0)
            buf_printf(out, "%s%s %s", i ? "\n" : "", names_get(&spec->names, node->name), text);
        else
            buf_text(out, " +");
        memcpy(last, text, sizeof(last));
    }
}

static void becomes(enum source source, const char *text, const char *expected)
{
    struct cluster_spec spec;
    struct buf out = BUF_INIT(4096);

    if (read_text(source, text, &spec) < 0)
        fail_msg("%s", err.text);
    nodes_describe(&spec, &out);
    assert_string_equal(out.data, expected);
    buf_done(&out);
    cluster_spec_done(&spec);
}

static void refused(enum source source, const char *text, const char *words)
{
    struct cluster_spec spec;

    assert_true(read_text(source, text, &spec) < 0);
    assert_string_equal(err.text, words);
    assert_null(spec.nodes);
    assert_null(spec.names.text);
}

static void strings(void **state)
{
    (void)state;
    becomes(STRING, "3x8", "n0 d0 r0 8xgpu s1 g1 c0 m0 + +");
    becomes(STRING, "1x4:H100", "n0 d0 r0 4xH100 s1 g1 c0 m0");
    becomes(STRING, "racks:2 nodes:2 gpus:8 sku:V100", "n0 d0 r0 8xV100 s1 g1 c0 m0 +\nn2 d0 r1 8xV100 s1 g1 c0 m0 +");
    becomes(STRING, "rack:1 node:2 gpu:4", "n0 d0 r0 4xgpu s1 g1 c0 m0 +");
    becomes(STRING, "domains:2 racks:2 nodes:1 gpus:8 sockets:2 groups:2",
            "n0 d0 r0 8xgpu s2 g2 c0 m0\nn1 d0 r1 8xgpu s2 g2 c0 m0\nn2 d1 r2 8xgpu s2 g2 c0 m0\nn3 d1 r3 8xgpu s2 g2 "
            "c0 m0");
    becomes(STRING, "2x8:V100 + 1x4:A100;gpus:1 prefix:x",
            "n0 d0 r0 8xV100 s1 g1 c0 m0 +\nn2 d0 r1 4xA100 s1 g1 c0 m0\n"
            "x0 d0 r2 1xgpu s1 g1 c0 m0");
    becomes(STRING, " 1x8:V100 cpus:96 memory:512G ", "n0 d0 r0 8xV100 s1 g1 c96 m524288");
    becomes(STRING, "domains:1 gpus:1 + domains:1 gpus:2", "n0 d0 r0 1xgpu s1 g1 c0 m0\nn1 d1 r1 2xgpu s1 g1 c0 m0");
}

static void everything_belongs_to_somebody(void **state)
{
    struct cluster_spec spec;

    (void)state;
    assert_int_equal(read_text(STRING, "2x8:V100 gpu_memory:32G + 1x4:A100", &spec), 0);
    assert_int_equal(spec.sku_count, 2);
    assert_int_equal(spec.skus[0].memory_mib, 32768);
    assert_int_equal(spec.skus[1].memory_mib, 0);
    assert_int_equal(spec.node_count, 3);
    assert_int_equal(spec.rack_count, 2);
    assert_int_equal(spec.domain_count, 1);
    assert_int_equal(spec.vc_count, 1);
    assert_string_equal(names_get(&spec.names, spec.vcs[0].name), "default");
    assert_int_equal(spec.vcs[0].quota[0], 16);
    assert_int_equal(spec.vcs[0].quota[1], 4);
    assert_int_equal(spec.vcs[0].borrow_max, -1);
    assert_int_equal(spec.vcs[0].policy, NAME_NONE);
    cluster_spec_done(&spec);
}

/* Behind all others, whatever the order they come in; racks are those of the others. */
static void without_gpus(void **state)
{
    static const struct {
        enum source source;
        const char *text;
    } forms[] = { { STRING, "nodes:2 gpus:0 cpus:16 memory:32G prefix:c + 1x8:V100 cpus:64 + 1x4:A100" },
                  { YAML, "racks:\n- nodes: {count: 2, gpus: 0, cpus: 16, memory: 32G, prefix: c}\n"
                          "- nodes: [{gpus: 8, sku: V100, cpus: 64}]\n- nodes: {gpus: 4, sku: A100}\n" } };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct cluster_spec spec;

        if (read_text(forms[i].source, forms[i].text, &spec) < 0)
            fail_msg("%s", err.text);
        assert_int_equal(spec.node_count, 2);
        assert_int_equal(spec.bare_count, 2);
        assert_int_equal(spec.rack_count, 2);
        assert_int_equal(spec.sku_count, 2);
        assert_int_equal(spec.nodes[0].cpu_jobs, 16);
        assert_int_equal(spec.nodes[0].rack, 0);
        assert_string_equal(names_get(&spec.names, spec.nodes[3].name), "c1");
        assert_int_equal(spec.nodes[3].gpus, 0);
        assert_int_equal(spec.nodes[3].cpus, 16);
        assert_int_equal(spec.nodes[3].cpu_jobs, 16);
        assert_int_equal(spec.nodes[3].memory_mib, 32768);
        cluster_spec_done(&spec);
    }
    refused(YAML, "nodes: [{gpus: 8}, {gpus: 0, cpus: 4, sku: V100}]\n",
            "c.yaml:1:39: sku: a node with 'gpus: 0' has no type of GPU\n"
            "  nodes: [{gpus: 8}, {gpus: 0, cpus: 4, sku: V100}]\n"
            "                                        ^");
    refused(YAML, "nodes: [{gpus: 8, name: a}, {gpus: 0, cpus: 4, name: a}]\n",
            "c.yaml:1:29: two nodes are called 'a'\n  nodes: [{gpus: 8, name: a}, {gpus: 0, cpus: 4, name: a}]\n"
            "                              ^");
}

static void strings_refused(void **state)
{
    (void)state;
    refused(STRING, "", "cluster '': character 1: expected NODESxGPUS such as 3x8, or KEY:VALUE such as nodes:3");
    refused(STRING, "3x", "cluster '3x': character 3: expected a number of GPUs, 0 to 256");
    refused(STRING, "1x8 + 3x0",
            "cluster '1x8 + 3x0': character 7: a node without GPUs is there for its CPUs: 'cpus' is missing");
    refused(STRING, "3x0 cpus:4", "the cluster has no node with GPUs");
    refused(STRING, "0x8", "cluster '0x8': character 1: expected a number above 0");
    refused(STRING, "3x257", "cluster '3x257': character 3: expected a number of GPUs, 0 to 256");
    refused(STRING, "38", "cluster '38': character 1: expected NODESxGPUS such as 3x8, or KEY:VALUE such as nodes:3");
    refused(STRING, "3x8:", "cluster '3x8:': character 5: expected a name");
    refused(STRING, "3x8 foo", "cluster '3x8 foo': character 5: expected KEY:VALUE such as nodes:3");
    refused(STRING, "gpuss:8", "cluster 'gpuss:8': character 1: unknown key 'gpuss'; did you mean 'gpus'?");
    refused(STRING, "nodes:3", "cluster 'nodes:3': character 1: expected the number of GPUs a node, such as gpus:8");
    refused(STRING, "3x8 nodes:4", "cluster '3x8 nodes:4': character 11: this key comes twice");
    refused(STRING, "3x8 + ",
            "cluster '3x8 + ': character 7: expected NODESxGPUS such as 3x8, or KEY:VALUE such as nodes:3");
    refused(STRING, "1x6 sockets:4",
            "cluster '1x6 sockets:4': character 1: 6 GPUs cannot be shared evenly by 4 sockets");
    refused(STRING, "1x8 sockets:2 groups:3",
            "cluster '1x8 sockets:2 groups:3': character 1: 4 GPUs of a socket cannot be shared evenly by 3 groups");
    refused(STRING, "racks:1000000 nodes:1000000 gpus:1",
            "cluster 'racks:1000000 nodes:1000000 gpus:1': character 1: more than 1048576 nodes");
    refused(STRING, "1000000x8", "cluster '1000000x8': character 1: more than 4194304 GPUs");
    refused(STRING, "1x8 memory:12Q", "cluster '1x8 memory:12Q': character 12: expected a size such as 32G, whole MiB");
}

static const char *const file =
    "skus: {V100: {memory: 32G}, A100: {memory: 80G}}\n"
    "racks:\n"
    "  - name: r0\n"
    "    domain: d0\n"
    "    nodes: {count: 2, prefix: gpu, gpus: 8, sku: V100, sockets: 2, groups: 2, cpus: 96, memory: 512G}\n"
    "  - {name: r1, domain: d1, nodes: {name: big, gpus: 4, sku: A100}}\n"
    "  - {count: 2, domain: d0, nodes: [{prefix: gpu, gpus: 8, sku: V100}, {gpus: 1, sku: A100}]}\n"
    "vcs:\n"
    "  nlp: {quota: {V100: 16}, policy: yarn-cs, borrow: none, set: {hold: off, wait: 5s}}\n"
    "  cv: {quota: {V100: 8, A100: 4}, borrow: 12}\n"
    "  lab: {quota: {}}\n";

static void files(void **state)
{
    struct cluster_spec spec;

    (void)state;
    becomes(YAML, file,
            "gpu0 d0 r0 8xV100 s2 g2 c96 m524288 +\n"
            "gpu2 d0 r1 8xV100 s1 g1 c0 m0\nn0 d0 r1 1xA100 s1 g1 c0 m0\n"
            "gpu3 d0 r2 8xV100 s1 g1 c0 m0\nn1 d0 r2 1xA100 s1 g1 c0 m0\n"
            "big d1 r3 4xA100 s1 g1 c0 m0");
    assert_int_equal(read_text(YAML, file, &spec), 0);
    assert_int_equal(spec.skus[1].memory_mib, 81920);
    assert_int_equal(spec.vc_count, 3);
    assert_string_equal(names_get(&spec.names, spec.vcs[0].policy), "yarn-cs");
    assert_int_equal(spec.vcs[0].quota[0], 16);
    assert_int_equal(spec.vcs[0].quota[1], 0);
    assert_int_equal(spec.vcs[0].borrow_max, 0);
    assert_int_equal(spec.vcs[0].param_count, 2);
    assert_string_equal(names_get(&spec.names, spec.vcs[0].params[1].key), "wait");
    assert_string_equal(names_get(&spec.names, spec.vcs[0].params[1].value), "5s");
    assert_int_equal(spec.vcs[1].borrow_max, 12);
    assert_int_equal(spec.vcs[2].borrow_max, -1);
    assert_int_equal(spec.vcs[2].policy, NAME_NONE);
    cluster_spec_done(&spec);
    becomes(YAML, "nodes: {count: 3, gpus: 8}\nvcs: {a: {quota: 24}}\n", "n0 d0 r0 8xgpu s1 g1 c0 m0 + +");
    becomes(YAML, "racks:\n- &r {nodes: {gpus: 2}}\n- *r\n", "n0 d0 r0 2xgpu s1 g1 c0 m0\nn1 d0 r1 2xgpu s1 g1 c0 m0");
}

static void files_refused(void **state)
{
    (void)state;
    refused(YAML, "", "c.yaml:1:1: expected a mapping, got an empty document");
    refused(YAML, "nodes: {gpus: 8\n", "c.yaml:2:1: did not find expected ',' or '}', while parsing a flow mapping");
    refused(YAML, "nodes: {gpus: 8}\n---\nx: 1\n", "c.yaml:3:1: expected one document, got a second one\n  x: 1\n  ^");
    refused(YAML, "nodes:\n  count: 3\n  gpu: 8\n",
            "c.yaml:3:3: unknown key 'gpu'; did you mean 'gpus'?\n    gpu: 8\n    ^");
    refused(YAML, "nodes: {gpus: 8, gpus: 4}\n",
            "c.yaml:1:18: key 'gpus' comes twice\n  nodes: {gpus: 8, gpus: 4}\n                   ^");
    refused(YAML, "nodes: {count: 2}\n", "c.yaml:1:8: key 'gpus' is missing\n  nodes: {count: 2}\n         ^");
    refused(YAML, "nodes: {gpus: many}\n",
            "c.yaml:1:15: expected a whole number from 0 to 256, got 'many'\n  nodes: {gpus: many}\n                ^");
    refused(YAML, "nodes: {gpus: [8]}\n",
            "c.yaml:1:15: expected a whole number from 0 to 256\n  nodes: {gpus: [8]}\n                ^");
    refused(YAML, "nodes: 8\n", "c.yaml:1:8: nodes: expected a mapping or a list of mappings\n  nodes: 8\n         ^");
    refused(YAML, "nodes: {gpus: 8}\nracks: []\n",
            "c.yaml:1:1: expected either 'racks' or 'nodes'\n  nodes: {gpus: 8}\n  ^");
    refused(YAML, "vcs: {}\n", "c.yaml:1:1: expected either 'racks' or 'nodes'\n  vcs: {}\n  ^");
    refused(YAML, "- 1\n", "c.yaml:1:1: here: expected a mapping\n  - 1\n  ^");
    refused(YAML, "skus: {V100: {}}\nnodes: {gpus: 8, sku: V10}\n",
            "c.yaml:2:23: 'V10' is not among the skus; did you mean 'V100'?\n  nodes: {gpus: 8, sku: V10}\n"
            "                        ^");
    refused(YAML, "skus: {a: {}, b: {}}\nnodes: {gpus: 8}\n",
            "c.yaml:2:8: key 'sku' is missing: there are several\n  nodes: {gpus: 8}\n         ^");
    refused(YAML, "skus: {a: {memory: lots}}\nnodes: {gpus: 8}\n",
            "c.yaml:1:20: expected a size such as 512G, whole MiB, at most 16384G\n  skus: {a: {memory: lots}}\n"
            "                     ^");
    refused(YAML, "nodes: {count: 3, gpus: 8}\nvcs: {a: {quota: 20}, b: {quota: 5}}\n",
            "c.yaml:2:1: virtual clusters are owed 25 GPUs of type gpu, the cluster has 24\n"
            "  vcs: {a: {quota: 20}, b: {quota: 5}}\n  ^");
    refused(YAML, "nodes: [{gpus: 8, sku: a}, {gpus: 8, sku: b}]\nvcs: {a: {quota: 20}}\n",
            "c.yaml:2:18: quota: there are several GPU types; expected {SKU: GPUS, ...}\n  vcs: {a: {quota: 20}}\n"
            "                   ^");
    refused(YAML, "nodes: {gpus: 8}\nvcs: {a: {quota: 2, borrow: some}}\n",
            "c.yaml:2:29: borrow: expected none, all, a number of GPUs, or a share such as 50%\n  vcs: {a: {quota: 2, "
            "borrow: some}}\n"
            "                              ^");
    refused(YAML, "racks:\n- {name: a, nodes: {gpus: 8}}\n- {name: a, nodes: {gpus: 8}}\n",
            "c.yaml:3:10: two racks are called 'a'\n  - {name: a, nodes: {gpus: 8}}\n           ^");
    refused(YAML, "nodes: [{name: a, gpus: 8}, {name: a, gpus: 8}]\n",
            "c.yaml:1:29: two nodes are called 'a'\n  nodes: [{name: a, gpus: 8}, {name: a, gpus: 8}]\n"
            "                              ^");
    refused(YAML, "nodes: {name: a, count: 2, gpus: 8}\n",
            "c.yaml:1:9: 'name' is for one node; several have a 'prefix'\n  nodes: {name: a, count: 2, gpus: 8}\n"
            "          ^");
    refused(YAML, "a: &a [*a]\nnodes: &b {gpus: *b}\n",
            "c.yaml:1:8: an alias of what it is in\n  a: &a [*a]\n         ^");
    refused(YAML, "nodes: &b {gpus: *b}\n",
            "c.yaml:1:18: an alias of what it is in\n  nodes: &b {gpus: *b}\n                   ^");
    refused(YAML, "a: \x01\n", "c.yaml: byte 3: control characters are not allowed");
}

static void files_have_limits(void **state)
{
    struct cluster_spec spec = { 0 };
    size_t size = 1 << 20;
    struct bytes bytes = { malloc(size + 1), size };

    (void)state;
    memset(bytes.data, '[', size);
    assert_int_equal(cluster_read_yaml("c.yaml", &bytes, &spec, &err), -E2BIG);
    assert_non_null(strstr(err.text, "c.yaml:1:33: more than 32 levels\n  [["));
    for (size_t i = 0; i < size; i += 8)
        memcpy(bytes.data + i, "- &a x\n\n", 8);
    assert_int_equal(cluster_read_yaml("c.yaml", &bytes, &spec, &err), -E2BIG);
    assert_string_equal(err.text, "c.yaml:2001:3: more than 1000 anchors\n  - &a x\n    ^");
    bytes.size++;
    assert_int_equal(cluster_read_yaml("c.yaml", &bytes, &spec, &err), -E2BIG);
    assert_string_equal(err.text, "c.yaml: larger than 1048576 bytes");
    bytes_done(&bytes);
}

static void tables(void **state)
{
    (void)state;
    becomes(TABLE, "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n2,1,4,40,256\n",
            "n0 d0 r0 4xgpu s1 g1 c40 m262144\nn1 d0 r1 4xgpu s1 g1 c40 m262144");
    becomes(TABLE, "sn,cpu_milli,memory_mib,gpu,model\na,64000,262144,2,P100\nb,1,1,0,\nc,96000,5,8,T4\n",
            "a d0 r0 2xP100 s1 g1 c64 m262144\nc d0 r0 8xT4 s1 g1 c96 m5");
    refused(TABLE, "num_switch,num_node_p_switch\n", "c.csv:1:1: column 'num_gpu_p_node' is missing");
    refused(TABLE, "num_switch,num_node_p_switch,num_gpu_p_node\n", "c.csv: the cluster has no nodes");
    refused(TABLE, "num_switch,num_node_p_switch,num_gpu_p_node\n1,1,0\n",
            "c.csv:2:5: num_gpu_p_node: expected a whole number from 1 to 256, got '0'");
    refused(TABLE, "sn,cpu_milli,memory_mib,gpu,model\na,1,1,2,P100\na,1,1,2,P100\n",
            "c.csv:3:1: two nodes are called 'a'");
}

struct known_table {
    const char *file;
    uint32_t nodes, racks, skus;
};

static void public_tables(void **state)
{
    static const struct known_table known[] = {
        { "tiresias/n160g8.csv", 160, 5, 1 },
        { "tiresias/n1g4.csv", 1, 1, 1 },
        { "tiresias/n256g8.csv", 256, 8, 1 },
        { "tiresias/n32g4.csv", 32, 1, 1 },
        { "tiresias/cluster_spec.csv", 16, 1, 1 },
        { "muri/n8g8.csv", 8, 1, 1 },
        { "alibaba-openb/openb_node_list_gpu_node.csv.gz", 1213, 1, 7 },
        { "alibaba-openb/openb_node_list_all_node.csv.gz", 1213, 1, 7 },
    };
    const char *given = getenv("MUSTER_SHARED"), *source = getenv("MUSTER_SOURCE");
    char path[4096];

    (void)state;
    (void)snprintf(path, sizeof(path), "%s%s/traces", given ? given : source ? source : ".", given ? "" : "/../shared");
    if (access(path, R_OK) != 0) {
        print_message("SKIP: no public traces (MUSTER_SHARED)\n");
        skip();
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        struct cluster_spec spec = { 0 };
        struct bytes bytes;

        (void)snprintf(path, sizeof(path), "%s%s/traces/%s",
                       given    ? given
                       : source ? source
                                : ".",
                       given ? "" : "/../shared", known[i].file);
        if (file_read(path, 0, &bytes, &err) < 0 || cluster_read_csv(path, &bytes, &spec, &err) < 0)
            fail_msg("%s", err.text);
        assert_int_equal(spec.node_count, known[i].nodes);
        assert_int_equal(spec.rack_count, known[i].racks);
        assert_int_equal(spec.sku_count, known[i].skus);
        bytes_done(&bytes);
        cluster_spec_done(&spec);
    }
}

static void sizes(void **state)
{
    uint32_t mib = 7;

    (void)state;
    assert_int_equal(size_parse_mib("512", 3, &mib), 0);
    assert_int_equal(mib, 512);
    assert_int_equal(size_parse_mib("1.5G", 4, &mib), 0);
    assert_int_equal(mib, 1536);
    assert_int_equal(size_parse_mib("2TiB", 4, &mib), 0);
    assert_int_equal(mib, 2 << 20);
    assert_int_equal(size_parse_mib("2048K", 5, &mib), 0);
    assert_int_equal(mib, 2);
    assert_int_equal(size_parse_mib("3MB", 3, &mib), 0);
    assert_int_equal(mib, 3);
    assert_int_equal(size_parse_mib("1K", 2, &mib), -EINVAL);
    assert_int_equal(size_parse_mib("0", 1, &mib), -EINVAL);
    assert_int_equal(size_parse_mib("G", 1, &mib), -EINVAL);
    assert_int_equal(size_parse_mib("", 0, &mib), -EINVAL);
    assert_int_equal(size_parse_mib("-1G", 3, &mib), -EINVAL);
    assert_int_equal(size_parse_mib("9999999T", 8, &mib), -EINVAL);
    assert_int_equal(mib, 3);
}

static void out_of_memory(void **state)
{
    static const char *const texts[] = { "2x8:V100 + 1x4:A100", NULL,
                                         "sn,cpu_milli,memory_mib,gpu,model\na,1,1,2,P100\n" };

    (void)state;
    for (enum source source = STRING; source <= TABLE; source++) {
        struct cluster_spec spec;
        size_t n = 0;
        int r;

        do {
            mem_fail_at(++n);
            r = read_text(source, source == YAML ? file : texts[source], &spec);
            mem_fail_at(0);
            assert_true(r == 0 || r == -ENOMEM);
            if (r < 0)
                assert_non_null(strstr(err.text, "out of memory"));
        } while (r < 0);
        assert_true(n > 5);
        cluster_spec_done(&spec);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings),
        cmocka_unit_test(everything_belongs_to_somebody),
        cmocka_unit_test(without_gpus),
        cmocka_unit_test(strings_refused),
        cmocka_unit_test(files),
        cmocka_unit_test(files_refused),
        cmocka_unit_test(files_have_limits),
        cmocka_unit_test(tables),
        cmocka_unit_test(public_tables),
        cmocka_unit_test(sizes),
        cmocka_unit_test(out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
