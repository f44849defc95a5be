/* SPDX-License-Identifier: Apache-2.0 */
/* job_phase.c - names of the states people see. */
#include <assert.h>
#include <errno.h>
#include <strings.h>

#include "ctl/state/job_phase.h"

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
