/* SPDX-License-Identifier: Apache-2.0 */
/* JSON: what is read, written by our writer and read again is equal; any bytes make a string that can be read. */
#include <errno.h>

#include "fuzz.h"
#include "wire/text/json_quick.h"
#include "wire/text/json_read.h"
#include "wire/text/json_write.h"

enum { DEPTH_MAX = 50 };

/* False: deeper than the writer goes, or with keys or strings it would have to change. */
static bool tree_write(struct json_write *out, const char *key, json_t *json, int depth)
{
    const char *name;
    json_t *value;
    size_t i;

    if (depth == DEPTH_MAX)
        return false;
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        json_write_object(out, key);
        json_object_foreach(json, name, value) if (!tree_write(out, name, value, depth + 1)) return false;
        json_write_close(out);
        break;
    case JSON_ARRAY:
        json_write_array(out, key);
        json_array_foreach(json, i, value) if (!tree_write(out, NULL, value, depth + 1)) return false;
        json_write_close(out);
        break;
    case JSON_STRING:
        json_write_bytes(out, key, json_string_value(json), json_string_length(json));
        break;
    case JSON_INTEGER:
        json_write_i64(out, key, json_integer_value(json));
        break;
    case JSON_REAL:
        json_write_double(out, key, json_real_value(json));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        json_write_bool(out, key, json_is_true(json));
        break;
    case JSON_NULL:
        json_write_null(out, key);
        break;
    }
    return true;
}

/* Equal, where a whole real may have become an integer. */
static bool tree_equal(json_t *a, json_t *b)
{
    const char *name;
    json_t *value;
    size_t i;

    if (json_is_number(a))
        return json_is_number(b) && json_number_value(a) == json_number_value(b);
    if (json_is_object(a)) {
        if (!json_is_object(b) || json_object_size(a) != json_object_size(b))
            return false;
        json_object_foreach(a, name, value) if (!json_object_get(b, name) ||
                                                !tree_equal(value, json_object_get(b, name))) return false;
        return true;
    }
    if (json_is_array(a)) {
        if (!json_is_array(b) || json_array_size(a) != json_array_size(b))
            return false;
        json_array_foreach(a, i, value) if (!tree_equal(value, json_array_get(b, i))) return false;
        return true;
    }
    return json_equal(a, b);
}

static void string_check(const uint8_t *data, size_t size)
{
    struct buf out = BUF_INIT(1 << 24);
    struct error err = { 0 };
    json_t *back = NULL;

    json_put_string(&out, (const char *)data, size);
    if (memchr(data, '\0', size) == NULL)
        CHECK(json_read("f", out.data, out.size, &back, &err) == 0);
    json_decref(back);
    buf_done(&out);
}

/* What the quick reader takes is what jansson makes of it, and what is written of a tree reads as that tree. */
static void quick_check(const char *data, size_t size)
{
    json_t *quick = NULL, *slow = json_loadb(data, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL), *again;
    int r = json_quick_read(data, size, &quick);
    size_t length = 0;
    char *text = slow ? json_text(slow, &length) : NULL;

    CHECK(r == 0 || r == -EBADMSG);
    if (r == 0)
        CHECK(slow && json_equal(quick, slow));
    if (text) {
        CHECK(strlen(text) == length);
        again = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
        CHECK(again && json_equal(again, slow));
        json_decref(again);
    }
    free(text);
    json_decref(quick);
    json_decref(slow);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes input = fuzz_copy(data, size);
    struct buf out = BUF_INIT(1 << 24);
    struct json_write writer;
    struct error err = { 0 };
    json_t *json = NULL, *again = NULL;
    int r = json_read("f", input.data, input.size, &json, &err);

    if (r < 0) {
        fuzz_check_error(r, &err);
    } else {
        json_write_init(&writer, &out, size % 2);
        if (tree_write(&writer, NULL, json, 0)) {
            CHECK(json_read("f", out.data, out.size, &again, &err) == 0);
            CHECK(tree_equal(json, again));
        }
    }
    if (size)
        string_check(data, size);
    quick_check(input.data, input.size);
    json_decref(json);
    json_decref(again);
    buf_done(&out);
    bytes_done(&input);
    return 0;
}
