/* SPDX-License-Identifier: Apache-2.0 */
/* hived_settings.c - see hived_settings.h. */
#include "wire/hived/hived_settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/hived/hived_config.h"
#include "wire/text/yaml_json.h"

#define CELLS_BYTES_MAX ((size_t)64 << 20)

enum { CELL_KEYS = 2 };

static const char *const cell_keys[CELL_KEYS] = { "physicalCluster", "virtualClusters" };

bool hived_settings_any(const json_t *settings)
{
    return json_is_object(json_object_get(settings, cell_keys[0]));
}

void hived_settings_keep(const json_t *was, json_t *settings)
{
    for (size_t i = 0; i < CELL_KEYS && !hived_settings_any(settings); i++)
        if (json_object_get(was, cell_keys[1 - i])) /* the one that hived_settings_any() asks for comes last */
            (void)json_object_set(settings, cell_keys[1 - i], json_object_get(was, cell_keys[1 - i]));
}

static int warned_load(const struct yaml_doc *doc, void (*warn)(const char *words), struct error *err)
{
    struct hived_warnings *warnings = mem_zalloc(1, sizeof(*warnings));
    struct cell_spec cells = { 0 };
    int r = warnings ? hived_config_load(doc, &cells, warnings, err) : error_set(err, -ENOMEM, "out of memory");

    for (int i = 0; r == 0 && warn && i < warnings->count && i < HIVED_WARNINGS_MAX; i++)
        warn(warnings->text[i]);
    cell_spec_done(&cells);
    mem_free(warnings);
    return r;
}

int hived_settings_read(const struct yaml_doc *doc, json_t *to, void (*warn)(const char *words), struct error *err)
{
    struct yaml_doc borrowed = *doc;
    json_t *tree = NULL;
    int r = warned_load(doc, warn, err);

    if (r == 0)
        r = yaml_tree(&borrowed, &tree, err);
    for (size_t i = 0; r == 0 && i < CELL_KEYS; i++)
        if (json_is_object(json_object_get(tree, cell_keys[i])))
            (void)json_object_set(to, cell_keys[i], json_object_get(tree, cell_keys[i]));
    json_decref(tree);
    return r;
}

/* The cells that settings describe; they were read before, so that lines need not be told. */
static int cells_read(const json_t *settings, struct cell_spec *ret_cells, struct error *err)
{
    json_t *both = json_object();
    struct bytes bytes = { 0 };
    int r;

    for (size_t i = 0; both && i < CELL_KEYS; i++)
        if (json_object_get(settings, cell_keys[i]))
            (void)json_object_set(both, cell_keys[i], json_object_get(settings, cell_keys[i]));
    bytes.data = both ? json_dumps(both, JSON_INDENT(1)) : NULL;
    json_decref(both);
    if (!bytes.data)
        return error_set(err, -ENOMEM, "out of memory");
    bytes.size = strlen(bytes.data);
    r = hived_config_read("cells", &bytes, ret_cells, NULL, err);
    free(bytes.data); /* jansson's */
    return r;
}

static uint32_t device_type(const struct cell_spec *cells, uint32_t type)
{
    while (cells->types[type].child != CELL_NONE)
        type = cells->types[type].child;
    return type;
}

static int64_t device_count(const struct cell_spec *cells, uint32_t type)
{
    int64_t count = 1;

    for (; cells->types[type].child != CELL_NONE; type = cells->types[type].child)
        count *= cells->types[type].child_count;
    return count;
}

/* What a virtual cluster is owed by type. */
static json_t *quota_of(const struct cell_spec *cells, const char *vc)
{
    json_t *quota = json_object();

    for (size_t i = 0; i < cells->grant_count; i++) {
        const struct cell_grant *g = &cells->grants[i];
        const char *device = hived_device_name(cells, g->type);

        if (strcmp(names_get(&cells->names, cells->vcs[g->vc]), vc) == 0)
            (void)json_object_set_new(quota, device,
                                      json_integer(json_integer_value(json_object_get(quota, device)) +
                                                   g->count * device_count(cells, g->type)));
    }
    return quota;
}

int hived_settings_fill(json_t *settings, struct error *err)
{
    struct cell_spec cells = { 0 };
    json_t *vcs = json_object_get(settings, "vcs"), *vc;
    const char *name;
    int r = hived_settings_any(settings) ? cells_read(settings, &cells, err) : 0;

    if (r < 0 || !hived_settings_any(settings))
        return r;
    if (!json_is_object(vcs)) {
        vcs = json_object();
        (void)json_object_set_new(settings, "vcs", vcs);
    }
    for (size_t v = 0; v < cells.vc_count; v++) {
        name = names_get(&cells.names, cells.vcs[v]);
        if (!json_is_object(json_object_get(vcs, name)))
            (void)json_object_set_new(vcs, name, json_object());
    }
    json_object_foreach(vcs, name, vc)
    {
        (void)json_object_del(vc, "guarantee");
        (void)json_object_set_new(vc, "quota", quota_of(&cells, name));
    }
    cell_spec_done(&cells);
    return 0;
}

int hived_settings_cells(const struct setting_value *settings, struct cell_spec *ret_cells)
{
    CLEANUP_BUF struct buf text = BUF_INIT(CELLS_BYTES_MAX);
    struct json_write json;

    if (!setting_is_map(setting_find(settings, cell_keys[0])))
        return 0;
    json_write_init(&json, &text, true);
    json_write_object(&json, NULL);
    hived_settings_write(settings, &json);
    json_write_close(&json);
    return text.error ? -ENOMEM
                      : hived_config_read("cells", &(struct bytes){ text.data, text.size }, ret_cells, NULL, NULL);
}

void hived_settings_write(const struct setting_value *settings, struct json_write *json)
{
    for (size_t i = 0; setting_is_map(setting_find(settings, cell_keys[0])) && i < CELL_KEYS; i++)
        if (setting_find(settings, cell_keys[i]))
            setting_write(setting_find(settings, cell_keys[i]), json);
}

const char *hived_device_name(const struct cell_spec *cells, uint32_t type)
{
    return names_get(&cells->names, cells->types[device_type(cells, type)].name);
}

void hived_node_write(const struct cell_spec *cells, const struct cell_place *place, struct json_write *json)
{
    uint32_t child = cells->types[place->type].child;
    int64_t sockets = 1;

    if (child != CELL_NONE && cells->types[child].child != CELL_NONE)
        sockets = cells->types[place->type].child_count;
    json_write_object(json, NULL);
    json_write_text(json, "name", names_get(&cells->names, place->address));
    json_write_i64(json, "gpus", device_count(cells, place->type));
    json_write_text(json, "sku", hived_device_name(cells, place->type));
    json_write_i64(json, "sockets", sockets);
    json_write_close(json);
}
