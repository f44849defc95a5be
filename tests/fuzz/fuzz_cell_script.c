/* SPDX-License-Identifier: Apache-2.0 */
/* Replay scripts: whatever they ask of four small clusters, there is an answer, and every invariant holds after every
 * step. A step may fail for what it expects, never for an internal error or a broken invariant. */
#include "cli/cells/cell_replay.h"
#include "fuzz.h"
#include "wire/hived/hived_config.h"
#include "wire/text/json_read.h"

static const char *const clusters[] = {
    "physicalCluster:\n"
    "  cellTypes:\n"
    "    SWITCH: {childCellType: V100, childCellNumber: 2}\n"
    "    NODE: {childCellType: SWITCH, childCellNumber: 2, isNodeLevel: true}\n"
    "    RACK: {childCellType: NODE, childCellNumber: 2}\n"
    "  physicalCells:\n"
    "  - {cellType: RACK, cellChildren: [{cellAddress: n0}, {cellAddress: n1}]}\n"
    "  - {cellType: RACK, cellChildren: [{cellAddress: n2}, {cellAddress: n3}]}\n"
    "  - {cellType: RACK, cellChildren: [{cellAddress: n4, pinnedCellId: PIN}, {cellAddress: n5}]}\n"
    "virtualClusters:\n"
    "  a: {virtualCells: [{cellType: RACK, cellNumber: 1}], pinnedCells: [{pinnedCellId: PIN}]}\n"
    "  b: {virtualCells: [{cellType: RACK.NODE, cellNumber: 1}, {cellType: RACK.NODE.SWITCH, cellNumber: 4}]}\n",
    "physicalCluster:\n"
    "  cellTypes:\n"
    "    NODE: {childCellType: V100, childCellNumber: 2, isNodeLevel: true}\n"
    "    BOX: {childCellType: K80, childCellNumber: 1, isNodeLevel: true}\n"
    "  physicalCells:\n"
    "  - {cellType: NODE, cellAddress: n0}\n"
    "  - {cellType: NODE, cellAddress: n1}\n"
    "  - {cellType: NODE, cellAddress: n2}\n"
    "  - {cellType: BOX, cellAddress: n0}\n"
    "virtualClusters:\n"
    "  a: {virtualCells: [{cellType: NODE, cellNumber: 2}]}\n"
    "  b: {virtualCells: [{cellType: NODE, cellNumber: 1}]}\n",
    "physicalCluster: {}\n",
    "physicalCluster:\n"
    "  cellTypes:\n"
    "    SOCKET: {childCellType: GPU, childCellNumber: 2}\n"
    "    NODE: {childCellType: SOCKET, childCellNumber: 2, isNodeLevel: true}\n"
    "    RACK: {childCellType: NODE, childCellNumber: 3}\n"
    "  physicalCells:\n"
    "  - {cellType: RACK, cellChildren: [{cellAddress: n0}, {cellAddress: n1}, {cellAddress: n2}]}\n"
    "  - {cellType: RACK, cellChildren: [{cellAddress: n3}, {cellAddress: n4}, {cellAddress: n5}]}\n"
    "  - {cellType: RACK, cellChildren: [{cellAddress: n6}, {cellAddress: n7}, {cellAddress: n8}]}\n"
    "virtualClusters:\n"
    "  a: {virtualCells: [{cellType: RACK, cellNumber: 2}]}\n"
    "  b: {virtualCells: [{cellType: RACK.NODE, cellNumber: 2}, {cellType: RACK.NODE.SOCKET, cellNumber: 2}]}\n",
};

/* "a" to "d". */
static int table_load(void *context, const char *name, struct cell_spec *ret_spec, struct hived_warnings *warnings,
                      struct error *err)
{
    size_t i = name[0] >= 'a' && name[0] <= 'd' && !name[1] ? (size_t)(name[0] - 'a') : 2;
    struct bytes bytes = fuzz_copy((const uint8_t *)clusters[i], strlen(clusters[i]));
    int r = hived_config_read("cluster", &bytes, ret_spec, warnings, err);

    (void)context;
    bytes_done(&bytes);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes bytes = fuzz_copy(data, size);
    struct replay_source source = { .file = "s.json", .bytes = &bytes, .load = table_load };
    struct replay_totals totals = { 0 };
    struct error err = { 0 };
    json_t *list = json_array();
    size_t i;
    json_t *item;
    int r = cell_replay_run(&source, list, &totals, &err);

    bytes_done(&bytes);
    if (r < 0)
        fuzz_check_error(r, &err);
    json_array_foreach(list, i, item)
    {
        const char *expected = json_string_value(json_object_get(item, "expected"));
        const char *got = json_string_value(json_object_get(item, "got"));

        CHECK(!expected || strcmp(expected, "every invariant") != 0);
        CHECK(!got || strncmp(got, "internal error", 14) != 0);
    }
    json_decref(list);
    return 0;
}
