/* SPDX-License-Identifier: Apache-2.0 */
/* model: an estimator's file. What is read is written again as it was, and can be asked. The checksum is put right, so
 * that what lies behind it is reached. */
#include <string.h>

#include "fuzz.h"
#include "solve/forest.h"
#include "wire/trace/model_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes input = fuzz_copy(data, size);
    CLEANUP_BUF struct buf again = BUF_INIT(1 << 24);
    struct estimator e = { 0 };
    struct error err = { 0 };
    int r;

    if (size >= 28) {
        uint64_t body = size - 28, sum = feature_hash(input.data + 28, (size_t)body);

        for (int i = 0; i < 8; i++) {
            input.data[12 + i] = (char)(body >> (8 * i));
            input.data[20 + i] = (char)(sum >> (8 * i));
        }
    }
    r = model_file_read("input", input.data, input.size, &e, &err);
    if (r < 0) {
        fuzz_check_error(r, &err);
    } else {
        model_file_write(&e, &again);
        CHECK(again.size == input.size);
        CHECK(memcmp(again.data, input.data, input.size) == 0);
        for (uint32_t t = 0; t < e.target_count; t++) {
            struct feature features[FOREST_FEATURES_MAX] = { 0 };
            float values[FOREST_FEATURES_MAX];
            struct forest_answer answer;

            forest_encode(&e, &e.forests[t], features, values);
            forest_ask(&e.forests[t], values, &answer);
            CHECK(answer.mean >= (double)e.forests[t].low && answer.mean <= (double)e.forests[t].high);
        }
    }
    estimator_done(&e);
    bytes_done(&input);
    return 0;
}
