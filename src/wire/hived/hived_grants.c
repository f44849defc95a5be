/* SPDX-License-Identifier: Apache-2.0 */
/* hived_grants.c - the virtual clusters of HiveD's configuration: what they are granted, and whether it all fits. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/hived/hived_load.h"

static int grant_add(struct hived_loader *l, const struct cell_grant *grant, const yaml_node_t *node)
{
    struct cell_spec *s = l->spec;
    int r = hived_grow(l, (void **)&s->grants, &s->grant_capacity, s->grant_count + 1, sizeof(*s->grants));

    if (r == 0)
        r = hived_grow(l, (void **)&l->grant_nodes, &l->grant_node_capacity, s->grant_count + 1,
                       sizeof(*l->grant_nodes));
    if (r < 0)
        return r;
    l->grant_nodes[s->grant_count] = node;
    s->grants[s->grant_count++] = *grant;
    return 0;
}

/* "POOL.NODE.SOCKET": the first is the chain, the last what is granted; each must contain the next. */
static int path_read(struct hived_loader *l, const yaml_node_t *node, struct cell_grant *grant)
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
        type = inner == NAME_NONE ? CELL_NONE : hived_type_find(l, inner);
        if (type == CELL_NONE) /* a type may have dots in its name */
            type = at == path && (inner = names_find(&s->names, path, strlen(path))) != NAME_NONE
                       ? hived_type_find(l, inner)
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

static int virtual_cells_read(struct hived_loader *l, uint32_t vc, yaml_node_t *list)
{
    static const char *const known[] = { "cellType", "cellNumber", NULL };
    yaml_node_t *item, *got[2];
    int r = 0;

    if (list && list->type != YAML_SEQUENCE_NODE)
        return yaml_fail(&l->doc, list, l->err, "virtualCells: expected a list");
    for (size_t i = 0; list && r == 0 && yaml_item(&l->doc, list, i, &item); i++) {
        struct cell_grant grant = { .vc = vc, .pin = CELL_NONE, .place = CELL_NONE };
        int64_t count = 0;

        r = hived_keys(l, item, "virtualCells", known, got);
        if (r == 0 && !got[0])
            return yaml_fail(&l->doc, item, l->err, "key 'cellType' is missing");
        if (r == 0)
            r = path_read(l, got[0], &grant);
        if (r == 0 && got[1])
            r = yaml_i64(&l->doc, got[1], 0, (int64_t)CELL_PLACES_MAX, &count, l->err);
        grant.count = (uint32_t)count;
        if (r == 0 && count > 0)
            r = grant_add(l, &grant, item);
    }
    return r;
}

static bool place_holds(const struct cell_spec *s, uint32_t outer, uint32_t inner)
{
    while (inner != CELL_NONE && inner != outer)
        inner = s->places[inner].parent;
    return inner == outer;
}

/* A pin that was granted before, or a cell around or inside it. */
static int pin_check(struct hived_loader *l, const yaml_node_t *node, const struct cell_grant *grant)
{
    const struct cell_spec *s = l->spec;

    for (size_t k = 0; k < s->grant_count; k++) {
        if (s->grants[k].pin == CELL_NONE)
            continue;
        if (s->grants[k].pin == grant->pin)
            return yaml_fail(&l->doc, node, l->err, "pinnedCellId '%.60s' is granted twice", hived_text(node));
        if (place_holds(s, s->grants[k].place, grant->place) || place_holds(s, grant->place, s->grants[k].place))
            return yaml_fail(&l->doc, node, l->err, "pinned cell '%.60s' lies inside, or holds, pinned cell '%.60s'",
                             hived_text(node), names_get(&s->names, s->grants[k].pin));
    }
    return 0;
}

static int pinned_cells_read(struct hived_loader *l, uint32_t vc, yaml_node_t *list)
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

        r = hived_keys(l, item, "pinnedCells", known, got);
        if (r == 0 && !got[0])
            return yaml_fail(&l->doc, item, l->err, "key 'pinnedCellId' is missing");
        if (r == 0)
            r = hived_name(l, got[0], "pinnedCellId", &grant.pin);
        if (r < 0)
            return r;
        for (size_t k = 0; k < s->place_count; k++)
            if (s->places[k].pin == grant.pin)
                grant.place = (uint32_t)k;
        if (grant.place == CELL_NONE)
            return yaml_fail(&l->doc, got[0], l->err, "no physical cell has pinnedCellId '%.60s'", hived_text(got[0]));
        r = pin_check(l, got[0], &grant);
        if (r < 0)
            return r;
        grant.type = s->places[grant.place].type;
        for (up = grant.place; s->places[up].parent != CELL_NONE;)
            up = s->places[up].parent;
        grant.chain = s->places[up].type;
        r = grant_add(l, &grant, item);
    }
    return r;
}

/* From the top level down, what the grants leave must be enough for the grants below. */
static int fit_check(struct hived_loader *l, const yaml_node_t *node)
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

/* Around pinned cells only pieces are left of what holds them. Levels are counted from the top. */
enum { PIN_NONE, PIN_HOLDS, PIN_INSIDE };

/* How many cells of each level of the chain are whole, and no part of a larger one that is. */
static int pieces_count(const struct hived_loader *l, uint32_t chain, int64_t whole[CELL_LEVELS_MAX + 1])
{
    const struct cell_spec *s = l->spec;
    uint8_t *pins = mem_zalloc(s->place_count + 1, sizeof(*pins));

    memset(whole, 0, (CELL_LEVELS_MAX + 1) * sizeof(*whole));
    if (!pins)
        return error_set(l->err, -ENOMEM, "out of memory");
    for (size_t k = 0; k < s->grant_count; k++) {
        if (s->grants[k].pin == CELL_NONE)
            continue;
        for (uint32_t p = s->places[s->grants[k].place].parent; p != CELL_NONE; p = s->places[p].parent)
            pins[p] = PIN_HOLDS;
        pins[s->grants[k].place] = PIN_INSIDE;
    }
    for (size_t i = 0; i < s->place_count; i++) {
        uint32_t parent = s->places[i].parent, top = (uint32_t)i;

        if (parent != CELL_NONE && pins[parent] != PIN_HOLDS) {
            pins[i] = pins[parent]; /* inside a pinned one, or a part of a whole one */
            continue;
        }
        while (s->places[top].parent != CELL_NONE)
            top = s->places[top].parent;
        if (pins[i] == PIN_NONE && s->places[top].type == chain)
            whole[l->levels[chain] - l->levels[s->places[i].type]]++;
    }
    mem_free(pins);
    return 0;
}

/* What is granted of a chain, up to that grant, beside its pinned cells. */
static bool pieces_enough(const struct hived_loader *l, uint32_t chain, const int64_t *whole, size_t last)
{
    const struct cell_spec *s = l->spec;
    int64_t left = 0;

    for (uint32_t type = chain, level = 0; type != CELL_NONE; type = s->types[type].child, level++) {
        left += whole[level];
        for (size_t k = 0; k <= last; k++)
            if (s->grants[k].chain == chain && s->grants[k].type == type && s->grants[k].pin == CELL_NONE)
                left -= s->grants[k].count;
        if (left < 0)
            return false;
        left *= s->types[type].child_count;
    }
    return true;
}

/* The first grant of a chain that cannot be had beside what is pinned there. */
static int pins_fit(const struct hived_loader *l, uint32_t chain)
{
    const struct cell_spec *s = l->spec;
    int64_t whole[CELL_LEVELS_MAX + 1];
    size_t low = 0, high = s->grant_count - 1;
    int r = pieces_count(l, chain, whole);

    if (r < 0 || pieces_enough(l, chain, whole, high))
        return r;
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (pieces_enough(l, chain, whole, middle))
            low = middle + 1;
        else
            high = middle;
    }
    return yaml_fail(&l->doc, l->grant_nodes[low], l->err,
                     "'%.60s' cannot be granted %u '%.60s': pinned cells break up what the others leave",
                     names_get(&s->names, s->vcs[s->grants[low].vc]), s->grants[low].count,
                     names_get(&s->names, s->types[s->grants[low].type].name));
}

/* Chains with pinned cells, each once. */
static int pins_check(const struct hived_loader *l)
{
    const struct cell_spec *s = l->spec;
    bool seen[CELL_TYPES_MAX] = { false };
    int r = 0;

    for (size_t k = 0; r == 0 && k < s->grant_count; k++) {
        if (s->grants[k].pin == CELL_NONE || seen[s->grants[k].chain])
            continue;
        seen[s->grants[k].chain] = true;
        r = pins_fit(l, s->grants[k].chain);
    }
    return r;
}

int hived_vcs_load(struct hived_loader *l, yaml_node_t *map)
{
    static const char *const known[] = { "virtualCells", "pinnedCells", NULL };
    struct cell_spec *s = l->spec;
    yaml_node_t *key, *value, *got[2];
    int r = yaml_map_check(&l->doc, map, "virtualClusters", l->err);

    for (size_t i = 0; r == 0 && yaml_pair(&l->doc, map, i, &key, &value); i++) {
        uint32_t vc = (uint32_t)s->vc_count;

        if (vc == CELL_VCS_MAX)
            return yaml_fail(&l->doc, key, l->err, "more than %d virtual clusters", CELL_VCS_MAX);
        r = hived_grow(l, (void **)&s->vcs, &s->vc_capacity, s->vc_count + 1, sizeof(*s->vcs));
        if (r == 0)
            r = hived_name(l, key, "virtual cluster", &s->vcs[vc]);
        if (r < 0)
            return r;
        s->vc_count++;
        r = hived_keys(l, value, "a virtual cluster", known, got);
        if (r == 0)
            r = virtual_cells_read(l, vc, got[0]);
        if (r == 0)
            r = pinned_cells_read(l, vc, got[1]);
    }
    if (r == 0)
        r = fit_check(l, map);
    return r < 0 ? r : pins_check(l);
}
