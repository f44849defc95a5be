/* SPDX-License-Identifier: Apache-2.0 */
/* effect.c - see effect.h. */
#include "model/effect.h"

#include <assert.h>

static const char *const names[] = {
#define X(code, name) name,
    DECISIONS(X)
#undef X
};

const char *decision_name(enum decision_kind kind)
{
    assert(kind < DECISION_COUNT);
    return names[kind];
}
