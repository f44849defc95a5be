/* SPDX-License-Identifier: Apache-2.0 */
/* json_read.c - see json_read.h. What the quick reader does not know is jansson's. That limits the depth itself (2048
 * levels) and takes its memory from base/alloc.h, so that tests can make it fail. */
#include "wire/text/json_read.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>

#include "wire/text/json_pool.h"
#include "wire/text/json_quick.h"

int json_read(const char *file, const char *data, size_t size, json_t **ret_json, struct error *err)
{
    json_error_t problem;
    json_t *json;
    int r;

    json_pool_use();
    r = json_quick_read(data, size, ret_json);
    if (r != -EBADMSG)
        return r < 0 ? error_set(err, r, "%s: out of memory", file) : 0;
    json = json_loadb(data, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &problem);
    if (!json) {
        if (json_error_code(&problem) == json_error_out_of_memory)
            return error_set(err, -ENOMEM, "%s: out of memory", file);
        return error_set(err, -EBADMSG, "%s:%d:%d: %s", file, problem.line < 1 ? 1 : problem.line,
                         problem.column < 1 ? 1 : problem.column, problem.text);
    }
    *ret_json = json;
    return 0;
}

int json_read_within(const char *file, const char *data, size_t size, size_t values_max, json_t **ret_json,
                     struct error *err)
{
    bool text = false;
    size_t count = 1;

    for (size_t i = 0; size > values_max && i < size; i++) {
        if (data[i] == '"')
            text = !text;
        else if (text && data[i] == '\\')
            i++;
        else if (!text)
            count += data[i] == ',' || data[i] == '[' || data[i] == '{';
    }
    if (count > values_max)
        return error_set(err, -E2BIG, "%s: more than %zu values", file, values_max);
    return json_read(file, data, size, ret_json, err);
}

static const char *type_name(json_type type)
{
    switch (type) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "a whole number";
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    case JSON_NULL:
        return "null";
    }
    return "something else";
}

int json_expected(const char *file, const char *path, const json_t *got, const char *what, struct error *err)
{
    return error_set(err, -EINVAL, "%s: %s: expected %s, got %s", file, path, what,
                     got ? type_name(json_typeof(got)) : "nothing");
}

int json_need(const char *file, const char *path, const json_t *json, json_type type, struct error *err)
{
    if (json && json_typeof(json) == type)
        return 0;
    return json_expected(file, path, json, type_name(type), err);
}

int json_number(const char *file, const char *path, const json_t *json, double *ret_value, struct error *err)
{
    double value = json_number_value(json);

    if (!json_is_number(json) || !isfinite(value))
        return json_expected(file, path, json, "a number", err);
    *ret_value = value;
    return 0;
}
