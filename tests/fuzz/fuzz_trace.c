/* SPDX-License-Identifier: Apache-2.0 */
/* The native trace: read, written, read and written again; the second text is the first. */
#include "fuzz.h"
#include "wire/trace/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes input = fuzz_copy(data, size), first, second;
    struct trace trace = { 0 }, again = { 0 };
    struct error err = { 0 };
    int r = trace_read("f", &input, &trace, &err);

    bytes_done(&input);
    if (r < 0) {
        fuzz_check_error(r, &err);
        CHECK(!trace.jobs);
        return 0;
    }
    CHECK(trace_write(&trace, &first, &err) == 0);
    r = trace_read("f", &first, &again, &err);
    if (r < 0)
        fprintf(stderr, "%s\n%s", err.text, first.data);
    CHECK(r == 0);
    CHECK(again.count == trace.count);
    CHECK(trace_write(&again, &second, &err) == 0);
    CHECK(first.size == second.size);
    CHECK(memcmp(first.data, second.data, first.size) == 0);
    bytes_done(&first);
    bytes_done(&second);
    trace_done(&trace);
    trace_done(&again);
    return 0;
}
