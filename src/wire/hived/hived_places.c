/* SPDX-License-Identifier: Apache-2.0 */
/* hived_places.c - the physical cells of HiveD's configuration. Children and addresses that are left out are inferred:
 * below a node, numbers count from 0 on the node; above, they go on from the parent's. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/hived/hived_load.h"
#include "wire/text/decimal.h"

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

static int address_read(struct hived_loader *l, const struct visit *v, yaml_node_t *given, struct cell_place *place)
{
    char text[24];
    int64_t index;
    int r = 0;

    if (given && given->type == YAML_SCALAR_NODE && given->data.scalar.length == 0)
        given = NULL;
    if (given) {
        r = hived_name(l, given, "cellAddress", &place->address);
    } else {
        int length = snprintf(text, sizeof(text), "%llu", (unsigned long long)v->number);

        if (names_put(&l->spec->names, text, (size_t)length, &place->address) < 0)
            r = error_set(l->err, -ENOMEM, "%s: out of memory", l->doc.file);
    }
    if (r < 0 || l->spec->types[v->type].child != CELL_NONE)
        return r;
    if (given && decimal_parse_i64(hived_text(given), given->data.scalar.length, &index) < 0)
        return yaml_fail(&l->doc, given, l->err, "the address of a device is a number, not '%.40s'", hived_text(given));
    index = given ? index : (int64_t)v->number;
    if (index < 0 || index > INT32_MAX)
        return given ? yaml_fail(&l->doc, given, l->err, "device number out of range") : -ERANGE;
    place->index = (int32_t)index;
    return 0;
}

static int pin_read(struct hived_loader *l, yaml_node_t *node, struct cell_place *place)
{
    const struct cell_spec *s = l->spec;
    int r;

    if (!node || (node->type == YAML_SCALAR_NODE && node->data.scalar.length == 0))
        return 0;
    r = hived_name(l, node, "pinnedCellId", &place->pin);
    for (size_t i = 0; r == 0 && i + 1 < s->place_count; i++)
        if (s->places[i].pin == place->pin)
            return yaml_fail(&l->doc, node, l->err, "pinnedCellId '%.60s' comes twice", hived_text(node));
    return r;
}

static int cell_read(struct hived_loader *l, const struct visit *v);

static int children_read(struct hived_loader *l, const struct visit *v, yaml_node_t *list)
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
static int cell_read(struct hived_loader *l, const struct visit *v)
{
    static const char *const known[] = { "cellType", "cellAddress", "pinnedCellId", "cellChildren", NULL };
    struct cell_spec *s = l->spec;
    yaml_node_t *got[4] = { 0 };
    struct cell_place *place;
    int r = v->node ? hived_keys(l, v->node, "a physical cell", known, got) : 0;

    if (r == 0)
        r = hived_grow(l, (void **)&s->places, &s->place_capacity, s->place_count + 1, sizeof(*s->places));
    if (r < 0)
        return r;
    place = &s->places[s->place_count++];
    *place = (struct cell_place){ .type = v->type, .parent = v->parent, .pin = CELL_NONE };
    if (v->parent != CELL_NONE && got[0] &&
        strcmp(hived_text(got[0]), names_get(&s->names, s->types[v->type].name)) != 0)
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

static int trees_read(struct hived_loader *l, yaml_node_t *list)
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
        r = hived_keys(l, item, "a physical cell", known, got);
        l->warnings = warnings;
        if (r == 0 && !got[0])
            return yaml_fail(&l->doc, item, l->err, "key 'cellType' is missing");
        if (r == 0)
            r = hived_name(l, got[0], "cellType", &name);
        if (r < 0)
            return r;
        top.type = hived_type_find(l, name);
        if (top.type == CELL_NONE || (s->types[top.type].child == CELL_NONE && !s->types[top.type].node))
            return yaml_fail(&l->doc, got[0], l->err, "cell type '%.60s' is not among cellTypes", hived_text(got[0]));
        if (!type_has_node(s, top.type))
            return yaml_fail(&l->doc, got[0], l->err, "cell type '%.60s' is below the node level", hived_text(got[0]));
        l->tops[top.type]++;
        r = cell_read(l, &top);
    }
    return r;
}

/* Two cells of one machine in a chain, or two devices of one number on a node, would be two owners of one thing. */
static int places_check(struct hived_loader *l, const yaml_node_t *list)
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

int hived_places_load(struct hived_loader *l, yaml_node_t *list)
{
    int r = trees_read(l, list);

    return r < 0 ? r : places_check(l, list);
}
