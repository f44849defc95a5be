/* SPDX-License-Identifier: Apache-2.0 */
/* gzip: damaged data is refused, and what comes out keeps its limit. */
#include "fuzz.h"
#include "io/gzip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes input = fuzz_copy(data, size), out = { 0 };
    struct error err = { 0 };
    int r;

    (void)gzip_is(input.data, input.size);
    r = gzip_inflate(input.data, input.size, 1 << 16, &out, &err);
    if (r < 0)
        fuzz_check_error(r, &err);
    else
        CHECK(out.size <= 1 << 16 && out.data[out.size] == '\0');
    bytes_done(&out);
    bytes_done(&input);
    return 0;
}
