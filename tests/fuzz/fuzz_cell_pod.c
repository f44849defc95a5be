/* SPDX-License-Identifier: Apache-2.0 */
/* The annotations of a pod: what it asks for, and where it was placed. */
#include "fuzz.h"
#include "wire/hived/hived_bind.h"
#include "wire/hived/hived_spec.h"

static const char *name(const void *context, uint32_t number)
{
    (void)context;
    (void)number;
    return "n";
}

static int node_find(void *context, const char *text, size_t length, uint32_t *ret_node)
{
    (void)context;
    (void)text;
    *ret_node = (uint32_t)length;
    return 0;
}

static uint32_t type_find(const void *context, const char *text, size_t length)
{
    (void)context;
    (void)text;
    return (uint32_t)length;
}

/* Cells instead of devices: this pod is in the tree, and parents come before children. */
static void check_tree(const struct hived_spec *spec)
{
    CHECK(spec->tree_count <= HIVED_GROUPS_MAX && spec->tree_pod < spec->tree_count);
    CHECK(spec->tree[spec->tree_pod].pods > 0 && spec->tree[spec->tree_pod].cells > 0);
    CHECK(spec->tree[0].parent == CELL_NONE);
    for (uint32_t i = 1; i < spec->tree_count; i++)
        CHECK(spec->tree[i].parent < i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hived_namer namer = { NULL, name, name, node_find, type_find };
    struct hived_places places = { 0 };
    struct hived_spec spec;
    struct cell_bind bind;
    struct error err = { 0 };
    struct bytes input = fuzz_copy(data, size);
    int r = hived_spec_read("s", &input, &spec, &err);

    if (r < 0)
        fuzz_check_error(r, &err);
    else if (spec.tree_count == 0)
        CHECK(spec.member_count > 0 && spec.leaves > 0);
    else
        check_tree(&spec);
    if (hived_bind_read(&namer, input.data, input.size, &places, &bind, &err) == 0) {
        uint32_t leaves = 0;

        CHECK(bind.pod < bind.pod_count);
        for (uint32_t i = 0; i < bind.pod_count; i++)
            leaves += bind.pods[i].leaf_count;
        CHECK(leaves == bind.leaf_count);
    }
    hived_places_done(&places);
    bytes_done(&input);
    return 0;
}
