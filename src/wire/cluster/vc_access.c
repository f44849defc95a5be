/* SPDX-License-Identifier: Apache-2.0 */
/* vc_access.c - see vc_access.h. */
#include "wire/cluster/vc_access.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/job/submission.h"
#include "wire/text/duration.h"
#include "wire/text/yaml_json.h"

enum { RULES_MAX = 64, NAMES_OF_RULE_MAX = 1000 };

/* What a rule allows at most. */
struct rule {
    int priority;
    int64_t gpus; /* 0 = any number */
    usec_t time;  /* 0 = any time */
};

static int names_valid(const json_t *list, const char *what, struct error *err)
{
    json_t *name;
    size_t i;

    if (!list)
        return 0;
    if (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > NAMES_OF_RULE_MAX)
        return error_set(err, -EINVAL, "%s: expected a list of 1 to %d names", what, NAMES_OF_RULE_MAX);
    json_array_foreach(list, i, name)
    {
        if (!json_is_string(name) || json_string_length(name) == 0 || json_string_length(name) > 64)
            return error_set(err, -EINVAL, "%s: expected names of at most 64 characters", what);
    }
    return 0;
}

/* Numbers come as texts too: from YAML. */
static int rule_read(const json_t *from, struct rule *ret, struct error *err)
{
    static const char *const known[] = { "users", "groups", "priority", "gpus", "time" };
    const json_t *priority = json_object_get(from, "priority"), *gpus = json_object_get(from, "gpus");
    const char *time = json_string_value(json_object_get(from, "time")), *key;
    json_t *value;
    int r = 0;

    *ret = (struct rule){ .priority = PRIORITY_MAX };
    if (!json_is_object(from))
        return error_set(err, -EINVAL, "allow: expected a list of rules such as {users: [ann], gpus: 2}");
    json_object_foreach((json_t *)(uintptr_t)from, key, value)
    {
        size_t k = 0;

        while (k < sizeof(known) / sizeof(*known) && strcmp(known[k], key) != 0)
            k++;
        if (k == sizeof(known) / sizeof(*known))
            return error_set(err, -EINVAL, "allow: unknown key '%.40s'; expected users, groups, priority, gpus, time",
                             key);
    }
    if (json_is_integer(priority))
        ret->priority = (int)json_integer_value(priority);
    else if (priority && (!json_is_string(priority) || priority_parse(json_string_value(priority), &ret->priority) < 0))
        r = error_set(err, -EINVAL, "priority: expected oppo, low, normal, high, urgent or a number");
    if (json_is_string(gpus))
        ret->gpus = strtoll(json_string_value(gpus), NULL, 10);
    else if (json_is_integer(gpus))
        ret->gpus = json_integer_value(gpus);
    if (r == 0 && gpus && ret->gpus < 1)
        r = error_set(err, -EINVAL, "gpus: expected a number of GPUs");
    if (r == 0 && json_object_get(from, "time") &&
        (!time || duration_parse(time, strlen(time), &ret->time) < 0 || ret->time <= 0))
        r = error_set(err, -EINVAL, "time: expected a span such as 2h or 1d");
    if (r == 0)
        r = names_valid(json_object_get(from, "users"), "users", err);
    return r < 0 ? r : names_valid(json_object_get(from, "groups"), "groups", err);
}

int vc_access_valid(const json_t *access, struct error *err)
{
    const json_t *rules = json_object_get(access, "allow"), *ask = json_object_get(access, "ask");
    const json_t *standard = json_object_get(access, "default_time");
    struct rule rule;
    usec_t span;
    json_t *one;
    size_t i;
    int r = 0;

    if (!json_is_object(access) || !json_is_array(rules) || (ask && !json_is_string(ask)) ||
        json_object_size(access) != 1u + (ask != NULL) + (standard != NULL))
        return error_set(err, -EINVAL, "access: expected {ask: TEXT, default_time: SPAN, allow: [RULE, ...]}");
    if (standard && (!json_is_string(standard) ||
                     duration_parse(json_string_value(standard), json_string_length(standard), &span) < 0 || span <= 0))
        return error_set(err, -EINVAL, "access: default_time: expected a span such as 2h or 1d");
    if (ask && json_string_length(ask) > 120)
        return error_set(err, -EINVAL, "access: ask: at most 120 characters");
    if (json_array_size(rules) > RULES_MAX)
        return error_set(err, -EINVAL, "access: more than %d rules", RULES_MAX);
    json_array_foreach(rules, i, one)
    {
        r = rule_read(one, &rule, err);
        if (r < 0)
            return error_prefix(err, r, "access");
    }
    return 0;
}

int vc_access_read(struct yaml_doc *doc, yaml_node_t *node, struct error *err)
{
    struct error words = { 0 };
    json_t *access = NULL;
    int r = yaml_tree_at(doc, node, &access, err);

    if (r == 0 && vc_access_valid(access, &words) < 0)
        r = yaml_fail(doc, node, err, "%s", words.text);
    json_decref(access);
    return r;
}

static bool rule_names(const json_t *rule, const struct access_ask *ask)
{
    const json_t *users = json_object_get(rule, "users"), *groups = json_object_get(rule, "groups");
    json_t *name;
    size_t i;

    json_array_foreach(users, i, name) if (strcmp(json_string_value(name), ask->user) == 0) return true;
    json_array_foreach(groups, i, name) if (ask->in_group(ask->user, json_string_value(name))) return true;
    return !users && !groups;
}

static int rule_allows(const struct rule *rule, const char *vc, const struct access_ask *ask, struct error *err)
{
    char span[64];

    if (ask->priority > rule->priority)
        return error_set(err, -EACCES, "in '%s' user %s may submit with priority %s (%d) at most, not %d", vc,
                         ask->user, priority_class(rule->priority), rule->priority, ask->priority);
    if (rule->gpus && ask->gpus > rule->gpus)
        return error_set(err, -EACCES, "in '%s' a job of user %s may have %lld GPUs at most, not %lld", vc, ask->user,
                         (long long)rule->gpus, (long long)ask->gpus);
    (void)snprintf(span, sizeof(span), "%lld min", (long long)(rule->time / USEC_MIN));
    if (rule->time && ask->time == 0)
        return error_set(err, -EACCES,
                         "in '%s' a job of user %s may run %s at most, and this one has no time limit (-t)", vc,
                         ask->user, span);
    if (rule->time && ask->time > rule->time)
        return error_set(err, -EACCES, "in '%s' a job of user %s may run %s at most, not %lld min", vc, ask->user, span,
                         (long long)(ask->time / USEC_MIN));
    return 0;
}

int vc_access_check(const json_t *access, const char *vc, const struct access_ask *ask, char ret_hint[200],
                    struct error *err)
{
    const char *whom = json_string_value(json_object_get(access, "ask"));
    struct error first = { 0 };
    struct rule limits;
    json_t *rule;
    size_t i;

    if (!access)
        return 0;
    (void)snprintf(ret_hint, 200, "ask %.120s", whom ? whom : "an administrator of the cluster");
    json_array_foreach(json_object_get(access, "allow"), i, rule)
    {
        struct error words = { 0 };

        if (!rule_names(rule, ask) || rule_read(rule, &limits, &words) < 0)
            continue;
        if (rule_allows(&limits, vc, ask, &words) == 0)
            return 0;
        if (!first.code)
            first = words;
    }
    if (first.code)
        return error_set(err, -EACCES, "%s", first.text);
    return error_set(err, -EACCES, "user %s may not submit to virtual cluster '%s'", ask->user, vc);
}

usec_t vc_access_time(const json_t *access)
{
    const char *text = json_string_value(json_object_get(access, "default_time"));
    usec_t span = 0;

    return text && duration_parse(text, strlen(text), &span) == 0 ? span : 0;
}
