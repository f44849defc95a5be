/* SPDX-License-Identifier: Apache-2.0 */
/* promise.c - see promise.h. */
#include "model/promise.h"

static const struct {
    const char *name, *text;
} breaches[] = {
#define X(code, name, text) { name, text },
    BREACHES(X)
#undef X
};

const char *breach_name(enum breach breach)
{
    return (unsigned)breach < BREACH_COUNT ? breaches[breach].name : "";
}

const char *breach_text(enum breach breach)
{
    return (unsigned)breach < BREACH_COUNT ? breaches[breach].text : "";
}
