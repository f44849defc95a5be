/* SPDX-License-Identifier: Apache-2.0 */
/* core_link.c - a job enters the core and leaves it; see core_link.h. */
#include "ctl/state/core_link.h"

#include <stdio.h>

#include "ctl/state/state_internal.h"

static const uint8_t moves[LINK_COUNT] = {
    [LINK_OUTSIDE] = 1u << LINK_INSIDE,
    [LINK_INSIDE] = 1u << LINK_OUTSIDE | 1u << LINK_ENDING | 1u << LINK_REENTERING,
    [LINK_ENDING] = 1u << LINK_OUTSIDE,
    [LINK_REENTERING] = 1u << LINK_OUTSIDE | 1u << LINK_ENDING,
};

const char *link_name(enum core_link link)
{
    static const char *const names[LINK_COUNT] = { "outside", "inside", "ending", "reentering" };

    assert(link < LINK_COUNT);
    return names[link];
}

void link_move(struct ctl_job *job, enum core_link to)
{
    assert(job->link < LINK_COUNT);
    assert(to < LINK_COUNT);
    assert(moves[job->link] >> to & 1);
    job->link = (uint8_t)to;
}

void link_end(struct ctl_job *job, enum phase_of_job phase, const char *text)
{
    assert(phase_over(phase));
    link_move(job, LINK_ENDING);
    job->ends_as = phase;
    if (text != job->end_text)
        text_fit(job->end_text, sizeof(job->end_text), text);
}

void link_take_out(struct ctl *ctl, struct ctl_job *job, enum phase_of_job phase, const char *text)
{
    bool told = job->link == LINK_REENTERING;

    assert(job_in_core(job));
    if (job->link == LINK_ENDING)
        return;
    link_end(job, phase, text);
    if (!told)
        ctl_tell_core(ctl, job, (struct event){ .kind = EVENT_CANCEL });
}

void link_reenter(struct ctl *ctl, struct ctl_job *job)
{
    assert(job_in_core(job));
    if (job->link != LINK_INSIDE)
        return;
    link_move(job, LINK_REENTERING);
    ctl_tell_core(ctl, job, (struct event){ .kind = EVENT_CANCEL });
}
