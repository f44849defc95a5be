/* SPDX-License-Identifier: Apache-2.0 */
/* hived_config.c - see hived_config.h. Children and addresses that are left out are inferred: below a node, numbers
 * count from 0 on the node; above, they go on from the parent's. */
#include "wire/hived_config.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/decimal.h"
#include "wire/yaml_doc.h"

struct loader {
    struct yaml_doc doc;
    struct cell_spec *spec;
    struct hived_warnings *warnings;
    struct error *err;
    uint32_t levels[CELL_TYPES_MAX]; /* 1 = device */
    uint64_t leaves[CELL_TYPES_MAX];
    uint32_t tops[CELL_TYPES_MAX]; /* top cells of the type */
    yaml_node_t *type_node[CELL_TYPES_MAX], *grant_node;
};

static const char *text_of(const yaml_node_t *node)
{
    assert(node);
    return (const char *)node->data.scalar.value;
}

static bool node_is_null(const yaml_node_t *node)
{
    if (!node)
        return true;
    if (node->type != YAML_SCALAR_NODE || node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return false;
    return node->data.scalar.length == 0 || strcmp(text_of(node), "null") == 0 || strcmp(text_of(node), "~") == 0 ||
           strcmp(text_of(node), "Null") == 0 || strcmp(text_of(node), "NULL") == 0;
}

static void warn(struct loader *l, const yaml_node_t *node, const char *key, const char *where)
{
    struct hived_warnings *w = l->warnings;

    if (!w)
        return;
    if (w->count < HIVED_WARNINGS_MAX)
        (void)snprintf(w->text[w->count], sizeof(w->text[0]), "%.60s:%zu:%zu: unknown key '%.40s' in %s is ignored",
                       l->doc.file, node->start_mark.line + 1, node->start_mark.column + 1, key, where);
    w->count++;
}

/* Values of known keys; NULL for one that is absent or null. */
static int keys_find(struct loader *l, yaml_node_t *map, const char *where, const char *const *known,
                     yaml_node_t **values)
{
    yaml_node_t *key, *value;
    size_t count = 0;
    int r;

    for (; known[count]; count++)
        values[count] = NULL;
    if (node_is_null(map))
        return 0;
    r = yaml_map_check(&l->doc, map, where, l->err);
    if (r < 0)
        return r;
    for (size_t i = 0; yaml_pair(&l->doc, map, i, &key, &value); i++) {
        size_t k = 0;

        while (k < count && strcmp(known[k], text_of(key)) != 0)
            k++;
        if (k == count)
            warn(l, key, text_of(key), where);
        else if (!node_is_null(value))
            values[k] = value;
    }
    return 0;
}

static int name_put(struct loader *l, const yaml_node_t *node, const char *what, uint32_t *ret_name)
{
    const char *name;
    int r = yaml_name(&l->doc, node, what, &name, l->err);

    if (r == 0 && names_put(&l->spec->names, name, strlen(name), ret_name) < 0)
        r = error_set(l->err, -ENOMEM, "%s: out of memory", l->doc.file);
    return r;
}

static int grow(struct loader *l, void **block, size_t *capacity, size_t need, size_t size)
{
    int r = mem_grow(block, capacity, need, CELL_PLACES_MAX, size);

    return r == 0 ? 0 : error_set(l->err, r, "%s: %s", l->doc.file, r == -E2BIG ? "too many cells" : "out of memory");
}

static uint32_t type_find(const struct loader *l, uint32_t name)
{
    for (size_t i = 0; i < l->spec->type_count; i++)
        if (l->spec->types[i].name == name)
            return (uint32_t)i;
    return CELL_NONE;
}

static int type_add(struct loader *l, const yaml_node_t *node, uint32_t name, uint32_t *ret_type)
{
    struct cell_spec *s = l->spec;
    int r;

    if (s->type_count == CELL_TYPES_MAX)
        return yaml_fail(&l->doc, node, l->err, "more than %d cell types", CELL_TYPES_MAX);
    r = grow(l, (void **)&s->types, &s->type_capacity, s->type_count + 1, sizeof(*s->types));
    if (r < 0)
        return r;
    *ret_type = (uint32_t)s->type_count;
    s->types[s->type_count++] = (struct cell_type){ .name = name, .child = CELL_NONE };
    return 0;
}

static int bool_read(struct loader *l, const yaml_node_t *node, bool *ret_value)
{
    static const char *const words[] = { "true", "True", "TRUE", "yes", "on", "false", "False", "FALSE", "no", "off" };

    for (size_t i = 0; node->type == YAML_SCALAR_NODE && i < 10; i++) {
        if (strcmp(text_of(node), words[i]) == 0) {
            *ret_value = i < 5;
            return 0;
        }
    }
    return yaml_fail(&l->doc, node, l->err, "expected true or false");
}

/* Names first, so that a type may come before its child; then what they are made of. */
static int types_read(struct loader *l, yaml_node_t *map)
{
    static const char *const known[] = { "childCellType", "childCellNumber", "isNodeLevel", NULL };
    struct cell_spec *s = l->spec;
    yaml_node_t *key, *value, *got[3];
    uint32_t name, type;
    int64_t count;
    int r = yaml_map_check(&l->doc, map, "cellTypes", l->err);

    for (size_t i = 0; r == 0 && yaml_pair(&l->doc, map, i, &key, &value); i++) {
        r = name_put(l, key, "cell type", &name);
        if (r == 0)
            r = type_add(l, key, name, &type);
        if (r == 0)
            l->type_node[type] = value;
    }
    for (size_t i = 0, named = s->type_count; r == 0 && i < named; i++) {
        value = l->type_node[i];
        r = keys_find(l, value, "a cell type", known, got);
        if (r == 0 && (!got[0] || !got[1]))
            return yaml_fail(&l->doc, value, l->err, "expected childCellType and childCellNumber");
        if (r == 0)
            r = name_put(l, got[0], "childCellType", &name);
        if (r == 0)
            r = yaml_i64(&l->doc, got[1], 1, (int64_t)CELL_PLACES_MAX, &count, l->err);
        if (r == 0 && got[2])
            r = bool_read(l, got[2], &s->types[i].node);
        if (r < 0)
            return r;
        type = type_find(l, name);
        if (type == CELL_NONE)
            r = type_add(l, got[0], name, &type);
        s->types[i].child = type;
        s->types[i].child_count = (uint32_t)count;
    }
    return r;
}

/* Levels and sizes; a type that contains itself has no level. */
static int types_check(struct loader *l)
{
    struct cell_spec *s = l->spec;

    for (size_t i = 0; i < s->type_count; i++) {
        uint64_t leaves = 1;
        uint32_t type = (uint32_t)i, nodes = 0, level = 1;

        for (; s->types[type].child != CELL_NONE; type = s->types[type].child, level++) {
            nodes += s->types[type].node;
            leaves *= s->types[type].child_count;
            if (level == CELL_LEVELS_MAX || leaves > CELL_PLACES_MAX)
                return yaml_fail(&l->doc, l->type_node[i], l->err,
                                 "cell type '%.60s': more than %d levels, too many devices, or it contains itself",
                                 names_get(&s->names, s->types[i].name), CELL_LEVELS_MAX);
        }
        if (nodes > 1)
            return yaml_fail(&l->doc, l->type_node[i], l->err, "cell type '%.60s': two node levels",
                             names_get(&s->names, s->types[i].name));
        l->levels[i] = level;
        l->leaves[i] = leaves;
    }
    return 0;
}

/* Is the type itself, or a type inside it, a node? */
static bool type_has_node(const struct cell_spec *s, uint32_t type)
{
    for (; type != CELL_NONE; type = s->types[type].child)
        if (s->types[type].node)
            return true;
    return false;
}

struct visit {
    yaml_node_t *node; /* NULL: inferred */
    uint32_t type, parent;
    uint64_t number; /* the address if there is none */
    bool in_node;
};

static int address_read(struct loader *l, const struct visit *v, yaml_node_t *given, struct cell_place *place)
{
    char text[24];
    int64_t index;
    int r = 0;

    if (given && given->type == YAML_SCALAR_NODE && given->data.scalar.length == 0)
        given = NULL;
    if (given) {
        r = name_put(l, given, "cellAddress", &place->address);
    } else {
        int length = snprintf(text, sizeof(text), "%llu", (unsigned long long)v->number);

        if (names_put(&l->spec->names, text, (size_t)length, &place->address) < 0)
            r = error_set(l->err, -ENOMEM, "%s: out of memory", l->doc.file);
    }
    if (r < 0 || l->spec->types[v->type].child != CELL_NONE)
        return r;
    if (given && decimal_parse_i64(text_of(given), given->data.scalar.length, &index) < 0)
        return yaml_fail(&l->doc, given, l->err, "the address of a device is a number, not '%.40s'", text_of(given));
    index = given ? index : (int64_t)v->number;
    if (index < 0 || index > INT32_MAX)
        return given ? yaml_fail(&l->doc, given, l->err, "device number out of range") : -ERANGE;
    place->index = (int32_t)index;
    return 0;
}

static int pin_read(struct loader *l, yaml_node_t *node, struct cell_place *place)
{
    const struct cell_spec *s = l->spec;
    int r;

    if (!node || (node->type == YAML_SCALAR_NODE && node->data.scalar.length == 0))
        return 0;
    r = name_put(l, node, "pinnedCellId", &place->pin);
    for (size_t i = 0; r == 0 && i + 1 < s->place_count; i++)
        if (s->places[i].pin == place->pin)
            return yaml_fail(&l->doc, node, l->err, "pinnedCellId '%.60s' comes twice", text_of(node));
    return r;
}

static int cell_read(struct loader *l, const struct visit *v);

static int children_read(struct loader *l, const struct visit *v, yaml_node_t *list)
{
    const struct cell_type *type = &l->spec->types[v->type];
    uint32_t count = type->child_count, at = (uint32_t)l->spec->place_count - 1;
    bool in_node = v->in_node || type->node;
    uint64_t base = type->node ? 0 : v->number;
    int r = 0;

    if (list && list->type != YAML_SEQUENCE_NODE)
        return yaml_fail(&l->doc, list, l->err, "cellChildren: expected a list");
    if (list && list->data.sequence.items.top == list->data.sequence.items.start)
        list = NULL;
    if (list && list->data.sequence.items.top - list->data.sequence.items.start != (ptrdiff_t)count)
        return yaml_fail(&l->doc, list, l->err, "cellChildren: %td listed, a %.60s has %u",
                         list->data.sequence.items.top - list->data.sequence.items.start,
                         names_get(&l->spec->names, type->name), count);
    for (uint32_t i = 0; r == 0 && i < count; i++) {
        struct visit child = { .type = type->child, .parent = at, .number = base * count + i, .in_node = in_node };

        if (list)
            (void)yaml_item(&l->doc, list, i, &child.node);
        r = cell_read(l, &child);
        type = &l->spec->types[v->type];
    }
    return r;
}

/* As deep as the types are, whatever the file nests. */
static int cell_read(struct loader *l, const struct visit *v)
{
    static const char *const known[] = { "cellType", "cellAddress", "pinnedCellId", "cellChildren", NULL };
    struct cell_spec *s = l->spec;
    yaml_node_t *got[4] = { 0 };
    struct cell_place *place;
    int r = v->node ? keys_find(l, v->node, "a physical cell", known, got) : 0;

    if (r == 0)
        r = grow(l, (void **)&s->places, &s->place_capacity, s->place_count + 1, sizeof(*s->places));
    if (r < 0)
        return r;
    place = &s->places[s->place_count++];
    *place = (struct cell_place){ .type = v->type, .parent = v->parent, .pin = CELL_NONE };
    if (v->parent != CELL_NONE && got[0] && strcmp(text_of(got[0]), names_get(&s->names, s->types[v->type].name)) != 0)
        return yaml_fail(&l->doc, got[0], l->err, "a child here is a '%.60s'",
                         names_get(&s->names, s->types[v->type].name));
    r = address_read(l, v, got[1], place);
    if (r == 0)
        r = pin_read(l, got[2], place);
    if (r < 0)
        return r;
    if (s->types[v->type].child != CELL_NONE)
        return children_read(l, v, got[3]);
    if (got[3] &&
        (got[3]->type != YAML_SEQUENCE_NODE || got[3]->data.sequence.items.top != got[3]->data.sequence.items.start))
        return yaml_fail(&l->doc, got[3], l->err, "a device has no children");
    return 0;
}

static int places_read(struct loader *l, yaml_node_t *list)
{
    static const char *const known[] = { "cellType", "cellAddress", "pinnedCellId", "cellChildren", NULL };
    struct cell_spec *s = l->spec;
    yaml_node_t *item, *got[4];
    int r = 0;

    if (list->type != YAML_SEQUENCE_NODE)
        return yaml_fail(&l->doc, list, l->err, "physicalCells: expected a list");
    for (size_t i = 0; r == 0 && yaml_item(&l->doc, list, i, &item); i++) {
        struct visit top = { .node = item, .parent = CELL_NONE, .number = i };
        struct hived_warnings *warnings = l->warnings;
        uint32_t name;

        l->warnings = NULL; /* told once, by cell_read() */
        r = keys_find(l, item, "a physical cell", known, got);
        l->warnings = warnings;
        if (r == 0 && !got[0])
            return yaml_fail(&l->doc, item, l->err, "key 'cellType' is missing");
        if (r == 0)
            r = name_put(l, got[0], "cellType", &name);
        if (r < 0)
            return r;
        top.type = type_find(l, name);
        if (top.type == CELL_NONE || (s->types[top.type].child == CELL_NONE && !s->types[top.type].node))
            return yaml_fail(&l->doc, got[0], l->err, "cell type '%.60s' is not among cellTypes", text_of(got[0]));
        if (!type_has_node(s, top.type))
            return yaml_fail(&l->doc, got[0], l->err, "cell type '%.60s' is below the node level", text_of(got[0]));
        l->tops[top.type]++;
        r = cell_read(l, &top);
    }
    return r;
}

/* Two cells of one machine in a chain, or two devices of one number on a node, would be two owners of one thing. */
static int places_check(struct loader *l, const yaml_node_t *list)
{
    const struct cell_spec *s = l->spec;
    struct names seen = { 0 };
    uint32_t tree = 0, chain = 0;
    int r = 0;

    for (size_t i = 0; r == 0 && i < s->place_count; i++) {
        const struct cell_place *p = &s->places[i];
        char text[2 * NAME_LENGTH_MAX];
        uint32_t number;
        size_t count = seen.count;
        int length;

        if (p->parent == CELL_NONE) {
            tree = (uint32_t)i;
            chain = p->type;
        }
        if (s->types[p->type].node)
            length = snprintf(text, sizeof(text), "n%u %.200s", chain, names_get(&s->names, p->address));
        else
            continue;
        r = names_put(&seen, text, (size_t)length, &number);
        if (r == 0 && seen.count == count)
            r = yaml_fail(&l->doc, list, l->err, "node '%.60s' comes twice in chain '%.60s' (again in its top cell %s)",
                          names_get(&s->names, p->address), names_get(&s->names, s->types[chain].name),
                          names_get(&s->names, s->places[tree].address));
        for (size_t a = i + 1; r == 0 && a < s->place_count && a < i + l->leaves[p->type] * CELL_LEVELS_MAX; a++) {
            if (s->types[s->places[a].type].node)
                break;
            for (size_t b = i + 1; s->types[s->places[a].type].child == CELL_NONE && r == 0 && b < a; b++)
                if (s->types[s->places[b].type].child == CELL_NONE && s->places[b].index == s->places[a].index)
                    r = yaml_fail(&l->doc, list, l->err, "node '%.60s' has device %d twice",
                                  names_get(&s->names, p->address), s->places[a].index);
        }
    }
    names_done(&seen);
    return r;
}

static int grant_add(struct loader *l, const struct cell_grant *grant)
{
    struct cell_spec *s = l->spec;
    int r = grow(l, (void **)&s->grants, &s->grant_capacity, s->grant_count + 1, sizeof(*s->grants));

    if (r == 0)
        s->grants[s->grant_count++] = *grant;
    return r;
}

/* "POOL.NODE.SOCKET": the first is the chain, the last what is granted; each must contain the next. */
static int path_read(struct loader *l, const yaml_node_t *node, struct cell_grant *grant)
{
    const struct cell_spec *s = l->spec;
    const char *path, *at, *dot;
    int r = yaml_name(&l->doc, node, "cellType", &path, l->err);

    if (r < 0)
        return r;
    grant->chain = grant->type = CELL_NONE;
    for (at = path; at; at = dot ? dot + 1 : NULL) {
        size_t length;
        uint32_t type, inner;

        dot = strchr(at, '.');
        length = dot ? (size_t)(dot - at) : strlen(at);
        inner = names_find(&s->names, at, length);
        type = inner == NAME_NONE ? CELL_NONE : type_find(l, inner);
        if (type == CELL_NONE) /* a type may have dots in its name */
            type = at == path && (inner = names_find(&s->names, path, strlen(path))) != NAME_NONE ? type_find(l, inner)
                                                                                                  : CELL_NONE;
        if (type == CELL_NONE)
            return yaml_fail(&l->doc, node, l->err, "no cell type '%.*s'", (int)(length < 60 ? length : 60), at);
        for (inner = grant->type; inner != CELL_NONE && inner != type;)
            inner = s->types[inner].child;
        if (grant->type != CELL_NONE && (inner == CELL_NONE || grant->type == type))
            return yaml_fail(&l->doc, node, l->err, "'%.*s' is not inside '%.60s'", (int)(length < 60 ? length : 60),
                             at, names_get(&s->names, s->types[grant->type].name));
        grant->chain = grant->chain == CELL_NONE ? type : grant->chain;
        grant->type = type;
        if (strcmp(path, names_get(&s->names, s->types[type].name)) == 0)
            break;
    }
    if (l->tops[grant->chain] == 0)
        return yaml_fail(&l->doc, node, l->err, "no physical cell is a '%.60s'",
                         names_get(&s->names, s->types[grant->chain].name));
    return 0;
}

static int virtual_cells_read(struct loader *l, uint32_t vc, yaml_node_t *list)
{
    static const char *const known[] = { "cellType", "cellNumber", NULL };
    yaml_node_t *item, *got[2];
    int r = 0;

    if (list && list->type != YAML_SEQUENCE_NODE)
        return yaml_fail(&l->doc, list, l->err, "virtualCells: expected a list");
    for (size_t i = 0; list && r == 0 && yaml_item(&l->doc, list, i, &item); i++) {
        struct cell_grant grant = { .vc = vc, .pin = CELL_NONE, .place = CELL_NONE };
        int64_t count = 0;

        r = keys_find(l, item, "virtualCells", known, got);
        if (r == 0 && !got[0])
            return yaml_fail(&l->doc, item, l->err, "key 'cellType' is missing");
        if (r == 0)
            r = path_read(l, got[0], &grant);
        if (r == 0 && got[1])
            r = yaml_i64(&l->doc, got[1], 0, (int64_t)CELL_PLACES_MAX, &count, l->err);
        grant.count = (uint32_t)count;
        if (r == 0 && count > 0)
            r = grant_add(l, &grant);
        l->grant_node = item;
    }
    return r;
}

static int pinned_cells_read(struct loader *l, uint32_t vc, yaml_node_t *list)
{
    static const char *const known[] = { "pinnedCellId", NULL };
    struct cell_spec *s = l->spec;
    yaml_node_t *item, *got[1];
    int r = 0;

    if (list && list->type != YAML_SEQUENCE_NODE)
        return yaml_fail(&l->doc, list, l->err, "pinnedCells: expected a list");
    for (size_t i = 0; list && r == 0 && yaml_item(&l->doc, list, i, &item); i++) {
        struct cell_grant grant = { .vc = vc, .count = 1, .place = CELL_NONE };
        uint32_t up;

        r = keys_find(l, item, "pinnedCells", known, got);
        if (r == 0 && !got[0])
            return yaml_fail(&l->doc, item, l->err, "key 'pinnedCellId' is missing");
        if (r == 0)
            r = name_put(l, got[0], "pinnedCellId", &grant.pin);
        if (r < 0)
            return r;
        for (size_t k = 0; k < s->place_count; k++)
            if (s->places[k].pin == grant.pin)
                grant.place = (uint32_t)k;
        if (grant.place == CELL_NONE)
            return yaml_fail(&l->doc, got[0], l->err, "no physical cell has pinnedCellId '%.60s'", text_of(got[0]));
        for (size_t k = 0; k < s->grant_count; k++)
            if (s->grants[k].pin == grant.pin)
                return yaml_fail(&l->doc, got[0], l->err, "pinnedCellId '%.60s' is granted twice", text_of(got[0]));
        grant.type = s->places[grant.place].type;
        for (up = grant.place; s->places[up].parent != CELL_NONE;)
            up = s->places[up].parent;
        grant.chain = s->places[up].type;
        r = grant_add(l, &grant);
        l->grant_node = item;
    }
    return r;
}

/* From the top level down, what the grants leave must be enough for the grants below. */
static int fit_check(struct loader *l, const yaml_node_t *node)
{
    const struct cell_spec *s = l->spec;

    for (size_t i = 0; i < s->type_count; i++) {
        int64_t left = l->tops[i];

        for (uint32_t type = (uint32_t)i; l->tops[i] > 0 && type != CELL_NONE; type = s->types[type].child) {
            for (size_t k = 0; k < s->grant_count; k++)
                left -= s->grants[k].chain == i && s->grants[k].type == type ? s->grants[k].count : 0;
            if (left < 0)
                return yaml_fail(&l->doc, node, l->err,
                                 "the virtual clusters are granted %lld more '%.60s' in chain '%.60s' than there are",
                                 (long long)-left, names_get(&s->names, s->types[type].name),
                                 names_get(&s->names, s->types[i].name));
            left *= s->types[type].child_count;
        }
    }
    return 0;
}

static int vcs_read(struct loader *l, yaml_node_t *map)
{
    static const char *const known[] = { "virtualCells", "pinnedCells", NULL };
    struct cell_spec *s = l->spec;
    yaml_node_t *key, *value, *got[2];
    int r = yaml_map_check(&l->doc, map, "virtualClusters", l->err);

    for (size_t i = 0; r == 0 && yaml_pair(&l->doc, map, i, &key, &value); i++) {
        uint32_t vc = (uint32_t)s->vc_count;

        if (vc == CELL_VCS_MAX)
            return yaml_fail(&l->doc, key, l->err, "more than %d virtual clusters", CELL_VCS_MAX);
        r = grow(l, (void **)&s->vcs, &s->vc_capacity, s->vc_count + 1, sizeof(*s->vcs));
        if (r == 0)
            r = name_put(l, key, "virtual cluster", &s->vcs[vc]);
        if (r < 0)
            return r;
        s->vc_count++;
        r = keys_find(l, value, "a virtual cluster", known, got);
        if (r == 0)
            r = virtual_cells_read(l, vc, got[0]);
        if (r == 0)
            r = pinned_cells_read(l, vc, got[1]);
    }
    return r < 0 ? r : fit_check(l, map);
}

static int document_read(struct loader *l)
{
    static const char *const top[] = { "physicalCluster",
                                       "virtualClusters",
                                       "kubeApiServerAddress",
                                       "kubeConfigFilePath",
                                       "webServerAddress",
                                       "forcePodBindThreshold",
                                       "waitingPodSchedulingBlockMilliSec",
                                       NULL };
    static const char *const physical[] = { "cellTypes", "physicalCells", "skuTypes", NULL };
    yaml_node_t *got[7], *cluster[3];
    int64_t number;
    int r = keys_find(l, yaml_top(&l->doc), "the file", top, got);

    for (int i = 5; r == 0 && i < 7; i++)
        if (got[i])
            r = yaml_i64(&l->doc, got[i], 0, INT32_MAX, &number, l->err);
    if (r == 0)
        r = keys_find(l, got[0], "physicalCluster", physical, cluster);
    if (r == 0 && got[0] && cluster[0])
        r = types_read(l, cluster[0]);
    if (r == 0)
        r = types_check(l);
    if (r == 0 && got[0] && cluster[1])
        r = places_read(l, cluster[1]);
    if (r == 0 && got[0] && cluster[1])
        r = places_check(l, cluster[1]);
    if (r == 0 && got[1])
        r = vcs_read(l, got[1]);
    return r;
}

int hived_config_read(const char *file, const struct bytes *bytes, struct cell_spec *ret_spec,
                      struct hived_warnings *warnings, struct error *err)
{
    struct loader *l = mem_zalloc(1, sizeof(*l));
    int r;

    if (!l)
        return error_set(err, -ENOMEM, "%s: out of memory", file);
    l->spec = ret_spec;
    l->warnings = warnings;
    l->err = err;
    r = yaml_open(file, bytes, &l->doc, err);
    if (r == 0) {
        r = document_read(l);
        yaml_close(&l->doc);
    }
    if (r < 0)
        cell_spec_done(ret_spec);
    mem_free(l);
    return r;
}
