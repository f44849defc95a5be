/* SPDX-License-Identifier: Apache-2.0 */
/* tables_json.c - see tables_json.h. */
#include "sim/tables/tables_json.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "io/file.h"

int table_json_each(const char *path, table_json_fn fn, void *arg, struct error *err)
{
    CLEANUP_BYTES struct bytes bytes = { 0 };
    CLEANUP(json_decref) json_t *json = NULL;
    const char *key;
    json_t *value;
    int r = file_read(path, 0, &bytes, err);

    if (r == 0)
        r = json_read(file_label(path), bytes.data, bytes.size, &json, err);
    if (r == 0)
        r = json_need(path, "the file", json, JSON_OBJECT, err);
    if (r < 0)
        return r;
    json_object_foreach(json, key, value)
    {
        r = fn(arg, path, key, value, err);
        if (r < 0)
            return r;
    }
    return 0;
}
