/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of the past: any bytes are read or refused with the line; what is read is written back as it was. */
#include <string.h>

#include "ctl/insight/series.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = fuzz_copy(data, size);
    struct buf one = BUF_INIT((size_t)64 << 20), two = BUF_INIT((size_t)64 << 20);
    struct series *first, *second;
    struct error err = { 0 };
    int r;

    if (size > 65536 || series_new(&first) < 0) {
        bytes_done(&text);
        return 0;
    }
    CHECK(series_new(&second) == 0);
    r = series_load(first, text.data, text.size, &err);
    if (r < 0) {
        fuzz_check_error(r, &err);
    } else {
        series_save(first, &one);
        CHECK(series_load(second, one.data, one.size, &err) == 0);
        series_save(second, &two);
        CHECK(one.size == two.size && memcmp(one.data, two.data, one.size) == 0);
    }
    buf_done(&one);
    buf_done(&two);
    series_free(first);
    series_free(second);
    bytes_done(&text);
    return 0;
}
