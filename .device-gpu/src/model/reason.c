/* SPDX-License-Identifier: Apache-2.0 */
/* reason.c - see reason.h. */
#include "model/reason.h"

#include <assert.h>

static const char *const names[] = {
#define X(code, name, text) name,
    REASONS(X)
#undef X
};

static const char *const texts[] = {
#define X(code, name, text) text,
    REASONS(X)
#undef X
};

const char *reason_name(enum reason reason)
{
    assert(reason < REASON_COUNT);
    return names[reason];
}

const char *reason_text(enum reason reason)
{
    assert(reason < REASON_COUNT);
    return texts[reason];
}
