/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign traces. The first byte chooses the format, 'a' the first of the list; what is read can be written and read
 * as a native trace. */
#include "fuzz.h"
#include "wire/trace/import.h"
#include "wire/trace/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes input, text;
    struct trace trace = { 0 }, again = { 0 };
    struct import_notes notes;
    struct error err = { 0 };
    size_t formats = 0;
    int r;

    if (size == 0)
        return 0;
    while (import_formats[formats].name)
        formats++;
    input = fuzz_copy(data + 1, size - 1);
    (void)import_guess(&input);
    r = import_trace(import_formats[(uint8_t)(data[0] - 'a') % formats].name, "f", &input, &trace, &notes, &err);
    bytes_done(&input);
    if (r < 0) {
        fuzz_check_error(r, &err);
        CHECK(!trace.jobs);
        return 0;
    }
    CHECK(trace_write(&trace, &text, &err) == 0);
    r = trace.count ? trace_read("f", &text, &again, &err) : 0;
    if (r < 0)
        fprintf(stderr, "%s\n%s", err.text, text.data);
    CHECK(r == 0);
    CHECK(again.count == trace.count);
    bytes_done(&text);
    trace_done(&trace);
    trace_done(&again);
    return 0;
}
