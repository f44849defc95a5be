/* SPDX-License-Identifier: Apache-2.0 */
/* match.c - see match.h. The rules are those of kube-scheduler's filters NodeAffinity and TaintToleration:
 * terms of an affinity are alternatives, the expressions of one term all hold, an empty term matches nothing; a taint
 * with effect PreferNoSchedule keeps nobody away. */
#include "k8s/match.h"

#include <string.h>

#include "wire/text/decimal.h"

const char *match_text(enum match match)
{
    static const char *const texts[MATCH_COUNT] = { "eligible", "an untolerated taint", "another nodeSelector",
                                                    "another node affinity", "too little of an extended resource" };

    return texts[match];
}

static bool tolerates(const json_t *toleration, const json_t *taint)
{
    const char *key = json_at_text(toleration, "key"), *operator= json_at_text(toleration, "operator");
    const char *effect = json_at_text(toleration, "effect");

    if (*effect && strcmp(effect, json_at_text(taint, "effect")) != 0)
        return false;
    if (strcmp(operator, "Exists") == 0)
        return !*key || strcmp(key, json_at_text(taint, "key")) == 0;
    if (*operator&& strcmp(operator, "Equal") != 0)
        return false;
    return *key && strcmp(key, json_at_text(taint, "key")) == 0 &&
           strcmp(json_at_text(toleration, "value"), json_at_text(taint, "value")) == 0;
}

static bool taint_tolerated(const json_t *wants, const json_t *taint)
{
    json_t *toleration;
    size_t i;

    if (strcmp(json_at_text(taint, "effect"), "PreferNoSchedule") == 0)
        return true;
    json_array_foreach(json_object_get(wants, "tolerations"), i, toleration)
    {
        if (tolerates(toleration, taint))
            return true;
    }
    return false;
}

static bool value_among(const json_t *values, const char *value)
{
    json_t *one;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)values, i, one)
    {
        if (json_is_string(one) && strcmp(json_string_value(one), value) == 0)
            return true;
    }
    return false;
}

static bool compare(const char *operator, const char * value, const json_t *values)
{
    const char *bound = json_string_value(json_array_get(values, 0));
    int64_t x, y;

    if (json_array_size(values) != 1 || !bound || decimal_parse_i64(value, strlen(value), &x) < 0 ||
        decimal_parse_i64(bound, strlen(bound), &y) < 0)
        return false;
    return strcmp(operator, "Gt") == 0 ? x > y : x < y;
}

static bool expression_holds(const json_t *expression, const char *value)
{
    const char *operator= json_at_text(expression, "operator");
    const json_t *values = json_object_get(expression, "values");

    if (strcmp(operator, "In") == 0)
        return value && value_among(values, value);
    if (strcmp(operator, "NotIn") == 0)
        return !value || !value_among(values, value);
    if (strcmp(operator, "Exists") == 0)
        return value;
    if (strcmp(operator, "DoesNotExist") == 0)
        return !value;
    if (strcmp(operator, "Gt") == 0 || strcmp(operator, "Lt") == 0)
        return value && compare(operator, value, values);
    return false;
}

static bool term_holds(const json_t *term, const struct k8s_node *node)
{
    const json_t *labels = json_object_get(term, "matchExpressions"), *fields = json_object_get(term, "matchFields");
    json_t *expression;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)labels, i, expression)
    {
        if (!expression_holds(expression,
                              json_string_value(json_object_get(node->labels, json_at_text(expression, "key")))))
            return false;
    }
    json_array_foreach((json_t *)(uintptr_t)fields, i, expression)
    {
        if (strcmp(json_at_text(expression, "key"), "metadata.name") != 0 || !expression_holds(expression, node->name))
            return false;
    }
    return json_array_size(labels) + json_array_size(fields) > 0;
}

static bool affinity_holds(const json_t *wants, const struct k8s_node *node)
{
    const json_t *affinity = json_object_get(wants, "affinity");
    json_t *term;
    size_t i;

    if (!affinity)
        return true;
    json_array_foreach(json_object_get(affinity, "nodeSelectorTerms"), i, term)
    {
        if (term_holds(term, node))
            return true;
    }
    return false;
}

enum match match_node(const json_t *wants, const struct k8s_node *node)
{
    const char *key;
    json_t *value;
    size_t i;

    json_array_foreach(node->taints, i, value)
    {
        if (!taint_tolerated(wants, value))
            return MATCH_TAINT;
    }
    json_object_foreach(json_object_get(wants, "nodeSelector"), key, value)
    {
        const char *label = json_string_value(json_object_get(node->labels, key));

        if (!label || !json_is_string(value) || strcmp(label, json_string_value(value)) != 0)
            return MATCH_SELECTOR;
    }
    return affinity_holds(wants, node) ? MATCH_FITS : MATCH_AFFINITY;
}
