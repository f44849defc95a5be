/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* fuzz.h - what the fuzz targets share. A check that fails aborts, in every build. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An exact copy, so that one byte too far is seen. */
static inline struct bytes fuzz_copy(const uint8_t *data, size_t size)
{
    struct bytes bytes = { malloc(size ? size : 1), size };

    CHECK(bytes.data);
    if (size)
        memcpy(bytes.data, data, size);
    return bytes;
}

/* An error says where and what, in one text that ends. */
static inline void fuzz_check_error(int r, const struct error *err)
{
    CHECK(r < 0);
    CHECK(err->code < 0);
    CHECK(err->text[0]);
    CHECK(memchr(err->text, '\0', sizeof(err->text)));
}
