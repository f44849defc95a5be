/* SPDX-License-Identifier: Apache-2.0 */
/* The tests of movable memory once more, with nothing of the host memory registered: every eviction passes through the
 * ring of stage.c. The variables are in tests/meson.build. */
#include "test_shim_move.c"
