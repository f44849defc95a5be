/* SPDX-License-Identifier: Apache-2.0 */
/* replay_check.c - are the values of a replay script what they should be? */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cli/cells/replay_step.h"

enum kind { TEXT, FLAG, NUMBER, WHOLE, TEXTS, NUMBERS, OBJECT, OBJECTS, TEXT_OR_TEXTS, SUGGESTED, ORDER, WORD };

static const struct value {
    const char *in, *key; /* of a step of that kind, or of another object of the script */
    enum kind kind;
    bool needed;
    const char *expected;
} values[] = {
    { "defaults", "phase", WORD, false, "Filtering or Preempting" },
    { "defaults", "suggested", SUGGESTED, false, "all, all-except:NODE or a list of nodes" },
    { "defaults", "commit", FLAG, false, "true or false" },
    { "case", "chainOrder", ORDER, false, "{leaf type: [chain, ...]}" },
    { "case", "maxStepMillis", NUMBER, false, "a number" },
    { "case", "expectLoad", WORD, false, "error" },
    { "schedule", "expect", OBJECT, false, "an object" },
    { "expect", "result", WORD, true, "bind, wait, preempt, userError or any" },
    { "expect", "node", TEXT, false, "the name of a node" },
    { "expect", "leafCells", NUMBERS, false, "a list of device numbers" },
    { "expect", "victims", TEXTS, false, "a list of pods" },
    { "expect", "accept", OBJECT, false, "an object" },
    { "accept", "nodes", TEXT_OR_TEXTS, false, "a list of nodes" },
    { "accept", "leafCount", WHOLE, false, "a whole number" },
    { "accept", "lcaCellType", TEXT, false, "the name of a cell type" },
    { "accept", "sameNodeAs", TEXT_OR_TEXTS, false, "a pod" },
    { "accept", "differentNodeFrom", TEXT_OR_TEXTS, false, "a pod" },
    { "accept", "sameCellAs", OBJECT, false, "{pod, cellType}" },
    { "sameCellAs", "pod", TEXT, true, "a pod" },
    { "sameCellAs", "cellType", TEXT, true, "the name of a cell type" },
    { "release", "ifAllocated", FLAG, false, "true or false" },
    { "node", "healthy", FLAG, true, "true or false" },
    { "expectGroup", "state", WORD, true, "Allocated, Preempting, BeingPreempted or absent" },
    { "expectGroup", "lazyPreempted", FLAG, false, "true or false" },
    { "expectVcCells", "healthiness", WORD, true, "Healthy or Bad" },
    { "expectVcCells", "which", WORD, false, "all or free" },
    { "expectLeafCells", "allow", OBJECTS, true, "a list of {state, priority}" },
    { "allow", "state", WORD, false, "Free, Used, Reserving or Reserved" },
    { "allow", "priority", WHOLE, false, "a whole number" },
};

/* Every key that means something, where it does. */
static const struct keys {
    const char *in;
    const char *keys[10];
} known[] = {
    { "script", { "format", "suite", "defaults", "cases" } },
    { "defaults", { "phase", "suggested", "commit" } },
    { "case", { "id", "title", "cluster", "steps", "chainOrder", "expectLoad", "maxStepMillis", "notes" } },
    { "schedule", { "op", "pod", "spec", "phase", "suggested", "commit", "expect" } },
    { "release", { "op", "pod", "ifAllocated" } },
    { "cancel", { "op", "pod" } },
    { "node", { "op", "name", "healthy" } },
    { "reconfigure", { "op", "cluster" } },
    { "expectGroup", { "op", "group", "state", "lazyPreempted" } },
    { "expectVcCells", { "op", "vc", "chain", "cellType", "which", "healthiness" } },
    { "expectLeafCells", { "op", "node", "allow" } },
    { "expect", { "result", "node", "leafCells", "accept", "victims", "source" } },
    { "accept", { "nodes", "leafCount", "lcaCellType", "sameNodeAs", "differentNodeFrom", "sameCellAs" } },
    { "sameCellAs", { "pod", "cellType" } },
    { "allow", { "state", "priority" } },
};

/* What people write for people, wherever they like. */
static const char *const prose[] = { "notes", "note", "comment", "comments", "source", "title", "description" };

bool replay_prose(const char *key)
{
    for (size_t i = 0; i < sizeof(prose) / sizeof(prose[0]); i++)
        if (strcmp(prose[i], key) == 0)
            return true;
    return false;
}

/* Whether one is the other but for its case, or for one character that is wrong, missing or too much. */
static bool misspelt(const char *key, const char *word)
{
    size_t a = strlen(key), b = strlen(word), front = 0, back = 0;

    if (strcasecmp(key, word) == 0)
        return true;
    while (front < a && front < b && key[front] == word[front])
        front++;
    while (back < a - front && back < b - front && key[a - back - 1] == word[b - back - 1])
        back++;
    return b > 2 && a - front - back <= 1 && b - front - back <= 1;
}

/* A key that is nearly one that means something is a mistake; any other is somebody's own and passed over. */
static const char *keys_check(const char *in, const json_t *object, char *words)
{
    const struct keys *keys = known;
    const char *key;
    const json_t *value;

    while (strcmp(keys->in, in) != 0)
        keys++;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        const char *meant = NULL;
        bool is = replay_prose(key);

        for (size_t i = 0; !is && i < 10 && keys->keys[i]; i++) {
            is = strcmp(keys->keys[i], key) == 0;
            if (misspelt(key, keys->keys[i]))
                meant = keys->keys[i];
        }
        if (is || !meant)
            continue;
        (void)snprintf(words, REPLAY_WORDS_MAX, "unknown key '%.60s'; did you mean '%s'?", key, meant);
        return words;
    }
    return NULL;
}

/* Is the word among those that the expectation lists? */
static bool word_listed(const char *word, const char *list)
{
    size_t length = strlen(word), step;

    while (*list) {
        step = strcspn(list, ", ");
        if (step == length && length > 0 && memcmp(list, word, length) == 0 && strcmp(word, "or") != 0)
            return true;
        list += step + strspn(list + step, ", ");
    }
    return false;
}

static bool list_of(const json_t *list, bool (*is)(const json_t *))
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!is(json_array_get(list, i)))
            return false;
    return json_is_array(list);
}

static bool is_text(const json_t *v)
{
    return json_is_string(v);
}

static bool is_integer(const json_t *v)
{
    return json_is_integer(v);
}

static bool is_object(const json_t *v)
{
    return json_is_object(v);
}

static bool order_fits(const json_t *order)
{
    const char *leaf;
    const json_t *chains;

    if (!json_is_object(order))
        return false;
    json_object_foreach((json_t *)(uintptr_t)order, leaf, chains)
    {
        if (!list_of(chains, is_text))
            return false;
    }
    return true;
}

static bool suggested_fits(const json_t *v)
{
    const char *text = json_string_value(v);

    return text ? strcmp(text, "all") == 0 || strncmp(text, "all-except:", 11) == 0 : list_of(v, is_text);
}

static bool value_fits(const struct value *want, const json_t *v)
{
    switch (want->kind) {
    case TEXT:
        return json_is_string(v);
    case FLAG:
        return json_is_boolean(v);
    case NUMBER:
        return json_is_number(v);
    case WHOLE:
        return json_is_integer(v);
    case TEXTS:
        return list_of(v, is_text);
    case NUMBERS:
        return list_of(v, is_integer);
    case OBJECT:
        return json_is_object(v);
    case OBJECTS:
        return list_of(v, is_object);
    case TEXT_OR_TEXTS:
        return json_is_string(v) || list_of(v, is_text);
    case SUGGESTED:
        return suggested_fits(v);
    case ORDER:
        return order_fits(v);
    case WORD:
        return json_is_string(v) && word_listed(json_string_value(v), want->expected);
    }
    return false;
}

static const char *values_fit(const char *in, const json_t *object, char *words)
{
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        const json_t *v = json_object_get(object, values[i].key);
        bool absent = !v || json_is_null(v);

        if (strcmp(values[i].in, in) != 0 || (absent && !values[i].needed) || (!absent && value_fits(&values[i], v)))
            continue;
        (void)snprintf(words, REPLAY_WORDS_MAX, absent ? "'%s' is missing: expected %s" : "%s: expected %s",
                       values[i].key, values[i].expected);
        return words;
    }
    return NULL;
}

static const char *object_check(const char *in, const json_t *object, char *words)
{
    const char *wrong = keys_check(in, object, words);

    return wrong ? wrong : values_fit(in, object, words);
}

static const char *schedule_check(const json_t *step, char *words)
{
    const json_t *expect = json_object_get(step, "expect"), *accept = json_object_get(expect, "accept");
    const json_t *cell = json_object_get(accept, "sameCellAs"), *spec = json_object_get(step, "spec");
    const char *wrong = values_fit("defaults", step, words); /* what a step can tell for itself */

    if (!spec || json_is_null(spec))
        return "'spec' is missing";
    if (!wrong && expect && !json_is_null(expect))
        wrong = object_check("expect", expect, words);
    if (!wrong)
        wrong = object_check("accept", accept, words);
    return !wrong && cell && !json_is_null(cell) ? object_check("sameCellAs", cell, words) : wrong;
}

const char *replay_values_check(const char *kind, const json_t *object, char words[REPLAY_WORDS_MAX])
{
    const json_t *allow = json_object_get(object, "allow");
    const char *wrong = object_check(kind, object, words);

    if (!wrong && strcmp(kind, "schedule") == 0)
        wrong = schedule_check(object, words);
    for (size_t i = 0; !wrong && strcmp(kind, "expectLeafCells") == 0 && i < json_array_size(allow); i++) {
        const json_t *a = json_array_get(allow, i);

        wrong = object_check("allow", a, words);
        if (!wrong && !replay_text(a, "state") && !json_is_integer(json_object_get(a, "priority")))
            wrong = "allow: expected a state, a priority or both";
    }
    return wrong;
}
