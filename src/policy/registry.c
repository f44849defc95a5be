/* SPDX-License-Identifier: Apache-2.0 */
/* registry.c - see registry.h. Pure like the policies: text is taken apart by hand, without the C library's locale. */
#include "policy/registry.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "core/retry.h"
#include "policy/list.h"

static const struct policy policies[] = {
#define X(name, planner, order, place, fixed, summary)                                                                 \
    { name, summary, fixed, &planner_##planner, &order_##order, &place_##place },
    POLICIES(X)
#undef X
};

static const struct place_ops *const places[] = {
#define X(name) &place_##name,
    PLACES(X)
#undef X
};

static const struct tune_ops *const tuners[] = {
#define X(name) &tune_##name,
    TUNERS(X)
#undef X
};

static const struct compat {
    const char *policy, *name, *fixed;
    const struct planner_ops *planner;
    const struct order_ops *order;
} compats[] = {
#define X(policy, name, planner, order, fixed) { policy, name, fixed, &planner_##planner, &order_##order },
    COMPATS(X)
#undef X
};

const struct policy *policy_at(size_t index)
{
    return index < sizeof(policies) / sizeof(*policies) ? &policies[index] : NULL;
}

const struct policy *policy_find(const char *name)
{
    for (size_t i = 0; policy_at(i); i++)
        if (strcmp(policies[i].name, name) == 0)
            return &policies[i];
    return NULL;
}

int policy_parse(const char *text, struct policy_setup *ret_setup, struct error *err)
{
    size_t length = strcspn(text, "+");

    for (size_t i = 0; policy_at(i); i++)
        if (strlen(policies[i].name) == length && memcmp(policies[i].name, text, length) == 0) {
            policy_setup(&policies[i], ret_setup);
            return text[length] ? policy_set(ret_setup, "optimise", text + length + 1, err) : 0;
        }
    return -ENOENT;
}

bool policy_known(const char *text)
{
    struct policy_setup setup;

    return policy_parse(text, &setup, NULL) == 0;
}

/* A decimal number with up to six digits after the point, times 1,000,000. */
static int read_micros(const char **text, int64_t *ret)
{
    int64_t value = 0, scale = 1000000;
    bool digits = false;

    for (; **text >= '0' && **text <= '9'; (*text)++, digits = true)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, **text - '0', &value))
            return -ERANGE;
    if (__builtin_mul_overflow(value, scale, &value))
        return -ERANGE;
    if (**text == '.')
        for ((*text)++; **text >= '0' && **text <= '9'; (*text)++, digits = true) {
            scale /= 10;
            value += (**text - '0') * scale;
        }
    if (!digits)
        return -EINVAL;
    *ret = value;
    return 0;
}

static int read_time(const char *text, int64_t *ret)
{
    static const struct {
        char unit;
        int64_t seconds;
    } units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 } };
    int64_t micros;
    int r = read_micros(&text, &micros);

    if (r < 0)
        return r;
    for (size_t i = 0; i < 4; i++)
        if (text[0] == units[i].unit && text[1] == '\0')
            return __builtin_mul_overflow(micros, units[i].seconds, ret) ? -ERANGE : 0;
    *ret = micros;
    return *text ? -EINVAL : 0;
}

static int read_switch(const char *text, int64_t *ret)
{
    static const char *const words[] = { "off", "0", "false", "on", "1", "true" };

    for (size_t i = 0; i < 6; i++)
        if (strcmp(text, words[i]) == 0) {
            *ret = i >= 3;
            return 0;
        }
    return -EINVAL;
}

static int read_choice(const struct param *param, const char *text, int64_t *ret)
{
    for (int64_t i = 0; param->choices[i]; i++)
        if (strcmp(param->choices[i], text) == 0) {
            *ret = i;
            return 0;
        }
    return -EINVAL;
}

/* "inf" is the largest value there is; a ratio may be written with a percent sign. */
static int read_number(const struct param *param, const char *text, int64_t *ret)
{
    bool ratio = param->kind == PARAM_RATIO;
    int64_t micros;
    int r;

    if (strcmp(text, "inf") == 0) {
        *ret = param->max;
        return 0;
    }
    r = read_micros(&text, &micros);
    if (r < 0)
        return r;
    if (ratio && *text == '%') {
        micros /= 100;
        text++;
    }
    if (*text || (!ratio && micros % 1000000))
        return -EINVAL;
    *ret = ratio ? micros : micros / 1000000;
    return 0;
}

/* "60s,10m,2h", ascending: how many into ret[0], the times behind it. */
static int read_times(const struct param *param, const char *text, int64_t *ret)
{
    int64_t values[PARAM_TIMES_MAX];
    int64_t count = 0;

    assert(param->max <= PARAM_TIMES_MAX);
    for (;;) {
        char one[32] = "";
        size_t length = strcspn(text, ",");

        if (count == param->max || length >= sizeof(one))
            return -EINVAL;
        memcpy(one, text, length);
        if (read_time(one, &values[count]) < 0 || values[count] < param->min ||
            (count && values[count] <= values[count - 1]))
            return -EINVAL;
        count++;
        text += length;
        if (*text++ == '\0')
            break;
    }
    ret[0] = count;
    memcpy(ret + 1, values, (size_t)count * sizeof(*values));
    return 0;
}

/* Into ret[0], or for a list into as many as it has. */
static int read_value(const struct param *param, const char *text, int64_t *ret)
{
    switch (param->kind) {
    case PARAM_TIMES:
        return read_times(param, text, ret);
    case PARAM_TIME:
        return read_time(text, ret);
    case PARAM_SWITCH:
        return read_switch(text, ret);
    case PARAM_CHOICE:
        return read_choice(param, text, ret);
    case PARAM_RATIO:
    case PARAM_COUNTER:
        return read_number(param, text, ret);
    }
    return -EINVAL;
}

static const char *expected(const struct param *param)
{
    switch (param->kind) {
    case PARAM_TIME:
        return "a time such as 90, 60s, 5m, 2h, 1d";
    case PARAM_SWITCH:
        return "on or off";
    case PARAM_RATIO:
        return "a ratio such as 0.9 or 90%";
    case PARAM_COUNTER:
        return "a whole number";
    case PARAM_TIMES:
        return "ascending times such as 60s,10m,2h";
    case PARAM_CHOICE:
        break;
    }
    return "one of its choices";
}

static int set_in(const struct param *params, int64_t *values, const char *key, const char *value, struct error *err)
{
    for (size_t i = 0; params && params[i].name; i++) {
        int64_t read[PARAM_TIMES_MAX + 1];

        if (strcmp(params[i].name, key) != 0)
            continue;
        if (read_value(&params[i], value, read) < 0)
            return error_set(err, -EINVAL, "%s: expected %s, got '%s'", key, expected(&params[i]), value);
        if (params[i].kind == PARAM_TIMES) {
            memcpy(values + i, read, (size_t)(read[0] + 1) * sizeof(*read));
            return 0;
        }
        if (read[0] < params[i].min || read[0] > params[i].max)
            return error_set(err, -EINVAL, "%s: '%s' is out of range", key, value);
        values[i] = read[0];
        return 0;
    }
    return -ENOENT;
}

static void standards(const struct param *params, int64_t *values)
{
    for (size_t i = 0; params && params[i].name; i++) {
        assert(i + PARAM_TIMES_MAX < PARAMS_MAX);
        values[i] = params[i].standard;
        if (params[i].kind == PARAM_TIMES) {
            assert(!params[i + 1].name);
            values[i] = 1;
            values[i + 1] = params[i].standard;
        }
    }
}

static int set_place(struct policy_setup *setup, const char *value, struct error *err)
{
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
        if (strcmp(places[i]->name, value) == 0) {
            setup->place = places[i];
            standards(setup->place->params, setup->place_params);
            return 0;
        }
    return error_set(
        err, -EINVAL,
        "place: expected count, consolidate, spread, random, topology, yarn, levels, skew, emptiest, pack or liquid, "
        "got '%s'",
        value);
}

const struct tune_ops *policy_tuner(size_t index)
{
    return index < sizeof(tuners) / sizeof(*tuners) ? tuners[index] : NULL;
}

static const struct tune_ops *tuner_find(const char *name, size_t length)
{
    for (size_t i = 0; policy_tuner(i); i++)
        if (strlen(tuners[i]->name) == length && memcmp(tuners[i]->name, name, length) == 0)
            return tuners[i];
    return NULL;
}

static int no_tuner(const char *value, struct error *err)
{
    char known[128] = "";

    for (size_t i = 0; policy_tuner(i); i++) {
        size_t have = strlen(known), length = strlen(tuners[i]->name);

        if (have + length + 3 > sizeof(known))
            break;
        memcpy(known + have, i ? ", " : "", i ? 3 : 1);
        memcpy(known + strlen(known), tuners[i]->name, length + 1);
    }
    return error_set(err, -EINVAL, "optimise: expected none, or a list of %s, each once; got '%s'", known, value);
}

/* "pack,migrate,grow", in the order they are called; "none" for none. Also with '+' between them. */
static int set_tuners(struct policy_setup *setup, const char *value, struct error *err)
{
    const struct tune_ops *found[TUNERS_MAX];
    uint32_t count = 0;

    for (const char *at = value; strcmp(value, "none") != 0;) {
        size_t length = strcspn(at, ",+");
        const struct tune_ops *ops = tuner_find(at, length);

        for (uint32_t i = 0; i < count; i++)
            ops = found[i] == ops ? NULL : ops;
        if (!ops || count == TUNERS_MAX)
            return no_tuner(value, err);
        found[count++] = ops;
        if (!at[length])
            break;
        at += length + 1;
    }
    setup->tune_count = count;
    for (uint32_t i = 0; i < count; i++) {
        setup->tune[i] = found[i];
        standards(found[i]->params, setup->tune_params[i]);
    }
    return 0;
}

static void set_fixed(struct policy_setup *setup, const char *at);

static bool compat_of(const struct compat *compat, const struct policy_setup *setup)
{
    const struct policy *policy = policy_find(compat->policy);

    return setup->planner == compat->planner || (setup->planner == policy->planner && setup->order == policy->order);
}

const char *policy_compat(const struct policy_setup *setup, size_t index)
{
    for (size_t i = 0; i < sizeof(compats) / sizeof(*compats); i++)
        if (compat_of(&compats[i], setup) && index-- == 0)
            return compats[i].name;
    return NULL;
}

static int set_compat(struct policy_setup *setup, const char *value, struct error *err)
{
    char known[128] = "";

    if (!policy_compat(setup, 0))
        return -ENOENT;
    for (size_t i = 0; i < sizeof(compats) / sizeof(*compats); i++) {
        if (!compat_of(&compats[i], setup) || strcmp(compats[i].name, value) != 0)
            continue;
        setup->planner = compats[i].planner;
        setup->order = compats[i].order;
        standards(setup->planner->params, setup->planner_params);
        standards(setup->order->params, setup->order_params);
        set_fixed(setup, compats[i].fixed);
        return 0;
    }
    if (strcmp(value, "none") == 0)
        return 0;
    for (size_t i = 0; policy_compat(setup, i); i++) {
        const char *name = policy_compat(setup, i);
        size_t have = strlen(known), length = strlen(name);

        if (have + length + 3 > sizeof(known))
            break;
        memcpy(known + have, i ? ", " : "", i ? 3 : 1);
        memcpy(known + strlen(known), name, length + 1);
    }
    return error_set(err, -EINVAL, "compat: expected %s, got '%s'", known, value);
}

/* What every policy has: how often the system may fail a job. */
static int set_system_retries(struct policy_setup *setup, const char *value, struct error *err)
{
    static const struct param param = {
        .name = "system-retries", .kind = PARAM_COUNTER, .standard = SYSTEM_RETRIES, .max = UINT32_MAX
    };
    int64_t most;

    if (read_number(&param, value, &most) < 0 || most > param.max)
        return error_set(err, -EINVAL, "system-retries: expected a number or inf, got '%s'", value);
    setup->system_retries = (uint32_t)most;
    return 0;
}

int policy_set(struct policy_setup *setup, const char *key, const char *value, struct error *err)
{
    int found = -ENOENT, r;

    if (strcmp(key, "place") == 0)
        return set_place(setup, value, err);
    if (strcmp(key, "compat") == 0)
        return set_compat(setup, value, err);
    if (strcmp(key, "optimise") == 0)
        return set_tuners(setup, value, err);
    if (strcmp(key, "system-retries") == 0)
        return set_system_retries(setup, value, err);
    r = set_in(setup->planner->params, setup->planner_params, key, value, err);
    found = r == -ENOENT ? found : r;
    if (found >= 0 || found == -ENOENT) {
        r = set_in(setup->order->params, setup->order_params, key, value, err);
        found = r == -ENOENT ? found : r;
    }
    if (found >= 0 || found == -ENOENT) {
        r = set_in(setup->place->params, setup->place_params, key, value, err);
        found = r == -ENOENT ? found : r;
    }
    for (uint32_t i = 0; i < setup->tune_count && (found >= 0 || found == -ENOENT); i++) {
        r = set_in(setup->tune[i]->params, setup->tune_params[i], key, value, err);
        found = r == -ENOENT ? found : r;
    }
    return found;
}

/* The knobs a composition fixes: "key=value key=value". */
static void set_fixed(struct policy_setup *setup, const char *at)
{
    while (*at) {
        char key[32] = "", value[32] = "";
        size_t k = strcspn(at, "="), v = strcspn(at + k + 1, " ");
        int r;

        assert(k < sizeof(key));
        assert(v < sizeof(value));
        memcpy(key, at, k);
        memcpy(value, at + k + 1, v);
        r = policy_set(setup, key, value, NULL);
        assert(r == 0);
        (void)r;
        at += k + 1 + v;
        at += *at == ' ';
    }
}

void policy_setup(const struct policy *policy, struct policy_setup *ret_setup)
{
    *ret_setup = (struct policy_setup){
        .order = policy->order, .place = policy->place, .planner = policy->planner, .system_retries = SYSTEM_RETRIES
    };
    standards(policy->order->params, ret_setup->order_params);
    standards(policy->place->params, ret_setup->place_params);
    standards(policy->planner->params, ret_setup->planner_params);
    set_fixed(ret_setup, policy->fixed);
}

static void keys_add(const struct param *params, char *out, size_t size)
{
    for (size_t i = 0; params && params[i].name; i++) {
        size_t have = strlen(out), more = strlen(params[i].name);

        if (have + more + 3 > size)
            return;
        memcpy(out + have, ", ", 3);
        memcpy(out + have + 2, params[i].name, more + 1);
    }
}

void policy_keys(const struct policy_setup *setup, char *out, size_t size)
{
    static const char all[] = "place, optimise, system-retries";

    assert(size > sizeof(all) + 16);
    memcpy(out, all, sizeof(all));
    if (policy_compat(setup, 0))
        memcpy(out + sizeof(all) - 1, ", compat", 9);
    keys_add(setup->planner->params, out, size);
    keys_add(setup->order->params, out, size);
    keys_add(setup->place->params, out, size);
    for (uint32_t i = 0; i < setup->tune_count; i++)
        keys_add(setup->tune[i]->params, out, size);
}
