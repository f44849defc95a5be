/* SPDX-License-Identifier: Apache-2.0 */
/* roles.c - jobs of several roles: how many tasks of each have ended, and what that means for all.
 *
 * A role says how many of its tasks have to fail, or to succeed, for the whole to be over. Whatever comes first counts;
 * without either the job ends well when its last task has ended.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/state/state_internal.h"

static const struct job_role *role_find(const struct submission *s, const char *name)
{
    for (size_t r = 0; name && r < s->role_count; r++)
        if (strcmp(s->roles[r].name, name) == 0)
            return &s->roles[r];
    return NULL;
}

/* How one task ended, as its node reports it. */
struct role_end {
    const char *role;
    int64_t index, exit, signal;
};

/* The number of its first task among those of all roles. */
static uint32_t role_first(const struct submission *s, const struct job_role *role)
{
    uint32_t first = 0;

    for (const struct job_role *before = s->roles; before < role; before++)
        first += (uint32_t)before->count;
    return first;
}

const struct ctl_role_end *role_end_find(const struct submission *s, const struct ctl_attempt *attempt,
                                         const struct job_role *role, int64_t index)
{
    const struct ctl_role_end *end;

    if (!attempt->role_ends || index < 0 || index >= role->count)
        return NULL;
    assert(role_first(s, role) + (uint32_t)index < attempt->role_end_count);
    end = &attempt->role_ends[role_first(s, role) + (uint32_t)index];
    return end->ended ? end : NULL;
}

int role_ends_make(struct ctl_attempt *attempt, const struct submission *s)
{
    uint32_t count = role_first(s, s->roles + s->role_count);

    assert(!attempt->role_ends);
    attempt->role_ends = mem_zalloc(count + 1, sizeof(*attempt->role_ends));
    attempt->role_end_count = attempt->role_ends ? count : 0;
    return attempt->role_ends ? 0 : -ENOMEM;
}

/* Remembers the end of one task; false: it was known, or is none of the role. */
static bool end_note(struct ctl_attempt *attempt, const struct submission *s, const struct job_role *role,
                     const struct role_end *end)
{
    if (end->index < 0 || end->index >= role->count || role_end_find(s, attempt, role, end->index))
        return false;
    if (!attempt->role_ends && role_ends_make(attempt, s) < 0)
        return false;
    attempt->role_ends[role_first(s, role) + (uint32_t)end->index] =
        (struct ctl_role_end){ true, (int)end->exit, (int)end->signal };
    return true;
}

/* So many of its tasks have ended well, or not. */
static int32_t ends_count(const struct ctl_attempt *attempt, const struct submission *s, const struct job_role *role,
                          bool well)
{
    int32_t count = 0;

    for (int32_t i = 0; i < role->count; i++) {
        const struct ctl_role_end *end = role_end_find(s, attempt, role, i);

        count += end && (end->exit == 0 && end->signal == 0) == well;
    }
    return count;
}

static void verdict(struct ctl *ctl, struct ctl_job *job, struct ctl_attempt *attempt, const struct role_end *end)
{
    bool failed = attempt->role_verdict == ROLES_FAILED;

    if (failed) {
        attempt->role_exit = (int)end->exit;
        attempt->role_signal = (int)end->signal;
    }
    ctl_event(ctl, failed ? "job.role_failed" : "job.role_succeeded", job, NULL,
              FACTS(fact_number("exit", end->exit), fact_number("index", end->index), fact_text("role", end->role)));
    attempt_end_peers(ctl, job);
}

void roles_ended(struct ctl *ctl, struct ctl_job *job, struct ctl_attempt *attempt, const struct entry_report *report)
{
    const int64_t *values = report->ended_values.items;

    for (size_t i = 0; i < report->ended_roles.count && i * 3 + 2 < report->ended_values.count; i++) {
        struct role_end end = { report->ended_roles.items[i], values[i * 3], values[i * 3 + 1], values[i * 3 + 2] };
        const struct job_role *role = role_find(job->spec, end.role);

        if (!role || !end_note(attempt, job->spec, role, &end) || attempt->role_verdict != ROLES_OPEN ||
            attempt_leaving(attempt))
            continue;
        job->version++;
        if (role->min_failed > 0 && ends_count(attempt, job->spec, role, false) >= role->min_failed)
            attempt->role_verdict = ROLES_FAILED;
        else if (role->min_succeeded > 0 && ends_count(attempt, job->spec, role, true) >= role->min_succeeded)
            attempt->role_verdict = ROLES_SUCCEEDED;
        if (attempt->role_verdict != ROLES_OPEN)
            verdict(ctl, job, attempt, &end);
    }
}
