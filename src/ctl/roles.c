/* SPDX-License-Identifier: Apache-2.0 */
/* roles.c - jobs of several roles: how many tasks of each have ended, and what that means for all.
 *
 * A role says how many of its tasks have to fail, or to succeed, for the whole to be over. Whatever comes first counts;
 * without either the job ends well when its last task has ended.
 */
#include <stdio.h>
#include <string.h>

#include "ctl/part.h"

static const struct job_role *role_find(const struct submission *s, const char *name)
{
    for (size_t r = 0; name && r < s->role_count; r++)
        if (strcmp(s->roles[r].name, name) == 0)
            return &s->roles[r];
    return NULL;
}

/* Remembers the end of one task; false: it was known, or is none of the role. */
static bool end_note(struct book_attempt *attempt, const struct job_role *role, const json_t *end)
{
    int64_t index = json_integer_value(json_array_get(end, 1));
    json_t *ends;
    char key[24];

    if (index < 0 || index >= role->count)
        return false;
    if (!attempt->roles)
        attempt->roles = json_object();
    ends = json_object_get(attempt->roles, role->name);
    if (!ends) {
        ends = json_object();
        (void)json_object_set_new(attempt->roles, role->name, ends);
    }
    (void)snprintf(key, sizeof(key), "%d", (int)index);
    if (json_object_get(ends, key))
        return false;
    (void)json_object_set_new(ends, key, json_pack("[O,O]", json_array_get(end, 2), json_array_get(end, 3)));
    return true;
}

/* So many of its tasks have ended well, or not. */
static int32_t ends_count(const struct book_attempt *attempt, const struct job_role *role, bool well)
{
    json_t *ends = json_object_get(attempt->roles, role->name), *end;
    const char *key;
    int32_t count = 0;

    json_object_foreach(ends, key, end) count +=
        (json_integer_value(json_array_get(end, 0)) == 0 && json_integer_value(json_array_get(end, 1)) == 0) == well;
    return count;
}

static void verdict(struct ctl *ctl, struct book_job *job, struct book_attempt *attempt, const json_t *end)
{
    bool failed = attempt->role_verdict == ROLES_FAILED;

    if (failed) {
        attempt->role_exit = (int)json_integer_value(json_array_get(end, 2));
        attempt->role_signal = (int)json_integer_value(json_array_get(end, 3));
    }
    ctl_event(ctl, failed ? "job.role_failed" : "job.role_succeeded", job, NULL,
              json_pack("{s:O, s:O, s:O}", "role", json_array_get(end, 0), "index", json_array_get(end, 1), "exit",
                        json_array_get(end, 2)));
    attempt_end_peers(ctl, job);
}

void roles_ended(struct ctl *ctl, struct book_job *job, struct book_attempt *attempt, const json_t *list)
{
    const json_t *end;
    size_t i;

    json_array_foreach(list, i, end)
    {
        const struct job_role *role = role_find(job->spec, json_string_value(json_array_get(end, 0)));

        if (!role || !json_is_integer(json_array_get(end, 2)) || !json_is_integer(json_array_get(end, 3)) ||
            !end_note(attempt, role, end) || attempt->role_verdict != ROLES_OPEN || attempt->stopping)
            continue;
        job->version++;
        if (role->min_failed > 0 && ends_count(attempt, role, false) >= role->min_failed)
            attempt->role_verdict = ROLES_FAILED;
        else if (role->min_succeeded > 0 && ends_count(attempt, role, true) >= role->min_succeeded)
            attempt->role_verdict = ROLES_SUCCEEDED;
        if (attempt->role_verdict != ROLES_OPEN)
            verdict(ctl, job, attempt, end);
    }
}
