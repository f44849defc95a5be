/* SPDX-License-Identifier: Apache-2.0 */
/* entry.c - names of entries, and of the states people see. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "ctl/book.h"
#include "ctl/ctl.h"

static const char *const entries[ENTRY_COUNT] = {
#define X(code, name) [ENTRY_##code] = (name),
    ENTRIES(X)
#undef X
};

const char *entry_name(enum entry_kind kind)
{
    assert(kind < ENTRY_COUNT);
    return entries[kind];
}

int entry_find(const char *name)
{
    for (int i = 0; i < ENTRY_COUNT; i++)
        if (strcmp(entries[i], name) == 0)
            return i;
    return -ENOENT;
}

static const struct {
    const char *name, *letters;
} phases[PHASE_JOB_COUNT] = {
#define X(code, text, two) [PHASE_JOB_##code] = { (text), (two) },
    PHASES(X)
#undef X
};

const char *phase_name(enum phase_of_job phase)
{
    assert(phase < PHASE_JOB_COUNT);
    return phases[phase].name;
}

const char *phase_letters(enum phase_of_job phase)
{
    assert(phase < PHASE_JOB_COUNT);
    return phases[phase].letters;
}

int phase_find(const char *name)
{
    for (int i = 0; i < PHASE_JOB_COUNT; i++)
        if (strcasecmp(phases[i].name, name) == 0 || strcasecmp(phases[i].letters, name) == 0)
            return i;
    return -ENOENT;
}
