/* SPDX-License-Identifier: Apache-2.0 */
/* cause.c - see cause.h. */
#include "wire/agent/cause.h"

#include <string.h>

static const char *const words[TASK_CAUSE_COUNT] = {
    [TASK_CAUSE_NONE] = "",
#define X(code, name) [TASK_CAUSE_##code] = (name),
    TASK_CAUSE_LIST(X)
#undef X
        [TASK_CAUSE_OTHER] = "",
};

const char *task_cause_name(enum task_cause cause)
{
    return cause < TASK_CAUSE_COUNT ? words[cause] : "";
}

enum task_cause task_cause_find(const char *name)
{
    if (!name || !*name)
        return TASK_CAUSE_NONE;
    for (int i = 1; i < TASK_CAUSE_OTHER; i++)
        if (strcmp(words[i], name) == 0)
            return (enum task_cause)i;
    return TASK_CAUSE_OTHER;
}

const char *stop_cause_name(enum stop_cause cause)
{
    return cause < STOP_CAUSE_COUNT ? words[cause] : "";
}

enum stop_cause stop_cause_find(const char *name)
{
    int cause = (int)task_cause_find(name);

    return cause < STOP_CAUSE_COUNT ? (enum stop_cause)cause : STOP_CAUSE_NONE;
}

enum fail_class refusal_blame_find(const char *name)
{
    return name && strcmp(name, "user") == 0 ? FAIL_USER : FAIL_SYSTEM;
}
