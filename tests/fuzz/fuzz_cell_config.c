/* SPDX-License-Identifier: Apache-2.0 */
/* HiveD configuration files: what loads can be built, and holds its invariants. */
#include "cell/cells.h"
#include "fuzz.h"
#include "wire/hived/hived_config.h"

enum { PLACES = 20000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cell_spec spec = { 0 };
    struct hived_warnings warnings = { 0 };
    struct error err = { 0 };
    struct bytes input = fuzz_copy(data, size);
    struct cells *cells = NULL;
    int r = hived_config_read("f", &input, &spec, &warnings, &err);

    bytes_done(&input);
    if (r < 0) {
        fuzz_check_error(r, &err);
        return 0;
    }
    if (spec.place_count < PLACES) {
        r = cells_new(&spec, NULL, &cells, &err);
        if (r < 0)
            fuzz_check_error(r, &err);
        else
            CHECK(cells_audit(cells, &err));
    }
    cells_free(cells);
    cell_spec_done(&spec);
    return 0;
}
