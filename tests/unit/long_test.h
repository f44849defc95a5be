/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* long_test.h - tests that simulate thousands of jobs: seconds in a plain build, minutes under sanitizers. */
#include <stdlib.h>

#include <cmocka.h>

/* First in a test. Under sanitizers it is skipped, but by `make test-all`: other tests show them the same code. */
#define LONG_TEST()                                                                                                    \
    do {                                                                                                               \
        if (getenv("MUSTER_SANITIZED") && !getenv("MUSTER_TEST_ALL"))                                                  \
            skip();                                                                                                    \
    } while (0)
