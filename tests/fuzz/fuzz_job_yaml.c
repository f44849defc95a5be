/* SPDX-License-Identifier: Apache-2.0 */
/* A job file, ours or OpenPAI's. */
#include "fuzz_submission.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes input = fuzz_copy(data, size);
    struct submission s;
    struct error err = { 0 };
    int r = submission_from_yaml("f", input.data, input.size, &s, &err);

    if (r < 0)
        fuzz_check_error(r, &err);
    else
        fuzz_check_submission(&s);
    bytes_done(&input);
    return 0;
}
