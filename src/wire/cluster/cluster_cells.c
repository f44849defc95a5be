/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_cells.c - see cluster_cells.h. */
#include "wire/cluster/cluster_cells.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/cluster/cell_kinds.h"
#include "wire/cluster/guarantee.h"

typedef uint64_t level_counts[CELL_LEVELS_MAX + 1];

struct expander {
    const struct cluster_spec *cluster;
    struct cell_spec *spec;
    struct kinds kinds;
    struct buf *words;
    struct error *err;
};

static const char *const tag_names[KIND_TAGS] = {
    [KIND_GPU] = "gpu",   [KIND_GROUP] = "group", [KIND_SOCKET] = "socket", [KIND_PART] = "part",
    [KIND_NODE] = "node", [KIND_RACK] = "rack",   [KIND_DOMAIN] = "domain",
};

static const char *sku_name(const struct expander *x, uint16_t sku)
{
    return names_get(&x->cluster->names, x->cluster->skus[sku].name);
}

static int no_memory(struct expander *x)
{
    return error_set(x->err, -ENOMEM, "out of memory");
}

static int name_put(struct expander *x, const char *text, uint32_t *ret_name)
{
    size_t length = strlen(text);

    if (length > NAME_LENGTH_MAX)
        return error_set(x->err, -EINVAL, "the name '%.60s...' is too long", text);
    return names_put(&x->spec->names, text, length, ret_name) < 0 ? no_memory(x) : 0;
}

/* The type of that name; made when it is new, and refused when it is not and must be. */
static int type_put(struct expander *x, const char *name, bool fresh, uint32_t *ret_type)
{
    struct cell_spec *s = x->spec;
    uint32_t number;
    int r = name_put(x, name, &number);

    for (uint32_t i = 0; r == 0 && i < s->type_count; i++) {
        if (s->types[i].name != number)
            continue;
        *ret_type = i;
        return fresh ? error_set(x->err, -EINVAL, "two kinds of cells would be called '%.80s'", name) : 0;
    }
    if (r == 0 && s->type_count == CELL_TYPES_MAX)
        r = error_set(x->err, -E2BIG, "more than %d cell types", CELL_TYPES_MAX);
    if (r == 0 &&
        mem_grow((void **)&s->types, &s->type_capacity, s->type_count + 1, CELL_TYPES_MAX, sizeof(*s->types)) < 0)
        r = no_memory(x);
    if (r < 0)
        return r;
    *ret_type = (uint32_t)s->type_count;
    s->types[s->type_count++] = (struct cell_type){ .name = number, .child = CELL_NONE };
    return 0;
}

/* "H100", or as much more as tells the kinds of one GPU type apart: "H100x4", "H100x8s2g1". */
static void kind_label(const struct expander *x, const struct kind *kind, char *text, size_t size)
{
    bool type = false, shape = false;

    for (uint32_t i = 0; i < x->kinds.count; i++) {
        const struct kind *other = &x->kinds.list[i];

        if (other == kind || other->sku != kind->sku)
            continue;
        type = true;
        shape = shape || other->gpus == kind->gpus;
    }
    if (shape)
        (void)snprintf(text, size, "%.200sx%us%ug%u", sku_name(x, kind->sku), kind->gpus, kind->sockets, kind->groups);
    else if (type)
        (void)snprintf(text, size, "%.200sx%u", sku_name(x, kind->sku), kind->gpus);
    else
        (void)snprintf(text, size, "%.200s", sku_name(x, kind->sku));
}

static int kind_types(struct expander *x, struct kind *kind)
{
    static const char *const ends[KIND_TAGS] = { [KIND_GROUP] = "GROUP",
                                                 [KIND_SOCKET] = "SOCKET",
                                                 [KIND_NODE] = "NODE",
                                                 [KIND_RACK] = "RACK",
                                                 [KIND_DOMAIN] = "DOMAIN" };
    char label[NAME_LENGTH_MAX + 1], name[NAME_LENGTH_MAX + 32];
    int r = type_put(x, sku_name(x, kind->sku), false, &kind->levels[1].type);

    kind_label(x, kind, label, sizeof(label));
    for (uint32_t l = 2; r == 0 && l <= kind->level_count; l++) {
        struct kind_level *level = &kind->levels[l];
        struct cell_type *type;

        if (level->tag == KIND_PART)
            (void)snprintf(name, sizeof(name), "%s-%uGPU", label, level->gpus);
        else
            (void)snprintf(name, sizeof(name), "%s-%s", label, ends[level->tag]);
        r = type_put(x, name, true, &level->type);
        if (r < 0)
            break;
        type = &x->spec->types[level->type];
        type->child = kind->levels[l - 1].type;
        type->child_count = level->gpus / kind->levels[l - 1].gpus;
        type->node = level->tag == KIND_NODE;
    }
    return r;
}

static int place_add(struct expander *x, const struct cell_place *place)
{
    struct cell_spec *s = x->spec;
    int r = mem_grow((void **)&s->places, &s->place_capacity, s->place_count + 1, CELL_PLACES_MAX, sizeof(*place));

    if (r < 0)
        return r == -E2BIG ? error_set(x->err, r, "more than %zu cells", CELL_PLACES_MAX) : no_memory(x);
    s->places[s->place_count++] = *place;
    return 0;
}

/* A cell that is called by its number. */
static int numbered_add(struct expander *x, uint32_t type, uint32_t parent, uint64_t number)
{
    struct cell_place place = { .type = type, .parent = parent, .pin = CELL_NONE };
    char text[24];
    int r;

    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
    r = name_put(x, text, &place.address);
    if (x->spec->types[type].child == CELL_NONE)
        place.index = (int32_t)number;
    return r < 0 ? r : place_add(x, &place);
}

/* What is inside a node: numbers count on the node. */
static int inside_add(struct expander *x, const struct kind *kind, uint32_t level, uint64_t number)
{
    uint32_t parent = (uint32_t)x->spec->place_count - 1;
    uint32_t fanout = kind->levels[level].gpus / kind->levels[level - 1].gpus;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < fanout; i++) {
        r = numbered_add(x, kind->levels[level - 1].type, parent, number * fanout + i);
        if (r == 0 && level > 2)
            r = inside_add(x, kind, level - 1, number * fanout + i);
    }
    return r;
}

/* A node that is apart is pinned for somebody who is nobody. */
static int apart_pin(struct expander *x, const struct kind *kind, struct cell_place *place)
{
    struct cell_spec *s = x->spec;
    struct cell_grant grant = { .vc = x->cluster->vc_count,
                                .chain = kind->levels[kind->level_count].type,
                                .type = place->type,
                                .count = 1,
                                .place = (uint32_t)s->place_count };

    if (mem_grow((void **)&s->grants, &s->grant_capacity, s->grant_count + 1, CELL_PLACES_MAX, sizeof(grant)) < 0)
        return no_memory(x);
    grant.pin = place->pin = place->address;
    s->grants[s->grant_count++] = grant;
    return 0;
}

static int node_add(struct expander *x, const struct kind *kind, const struct node_spec *node, uint32_t parent)
{
    struct cell_place place = { .type = kind->levels[kind->node_level].type, .parent = parent, .pin = CELL_NONE };
    int r = name_put(x, names_get(&x->cluster->names, node->name), &place.address);

    if (r == 0 && node->apart)
        r = apart_pin(x, kind, &place);
    if (r == 0)
        r = place_add(x, &place);
    return r < 0 ? r : inside_add(x, kind, kind->node_level, 0);
}

/* The trees of one kind; `tops` counts those of all kinds, as the addresses do. */
static int kind_places(struct expander *x, const struct kind *kind, uint64_t *tops)
{
    const struct kind_level *top = &kind->levels[kind->level_count];
    uint32_t rack = CELL_NONE, domain = CELL_NONE, rack_cell = CELL_NONE, domain_cell = CELL_NONE;
    uint64_t rack_number = 0;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < x->cluster->node_count; i++) {
        const struct node_spec *node = &x->cluster->nodes[i];

        if (node->sku != kind->sku || node->gpus != kind->gpus || node->sockets != kind->sockets ||
            node->groups != kind->groups)
            continue;
        if (top->tag == KIND_DOMAIN && node->domain != domain) {
            domain_cell = (uint32_t)x->spec->place_count;
            rack_number = *tops * kind->domain_racks;
            r = numbered_add(x, top->type, CELL_NONE, (*tops)++);
        }
        if (r == 0 && top->tag != KIND_NODE && node->rack != rack) {
            uint64_t number = top->tag == KIND_RACK ? (*tops)++ : rack_number++;

            rack_cell = (uint32_t)x->spec->place_count;
            r = numbered_add(x, kind->levels[kind->node_level + 1].type, domain_cell, number);
        }
        *tops += top->tag == KIND_NODE;
        domain = node->domain;
        rack = node->rack;
        if (r == 0)
            r = node_add(x, kind, node, rack_cell);
    }
    return r;
}

static void cells_put(const struct kind *kind, uint32_t l, uint64_t count, struct buf *out)
{
    static const char *const parts[] = { [2] = "half", [3] = "third", [4] = "quarter", [8] = "eighth" };
    const struct kind_level *level = &kind->levels[l];
    uint32_t inverse = level->gpus < kind->gpus ? kind->gpus / level->gpus : 1;

    buf_printf(out, "%llu ", (unsigned long long)count);
    if (level->tag == KIND_PART && inverse < sizeof(parts) / sizeof(parts[0]) && parts[inverse])
        buf_printf(out, "%s-node", parts[inverse]);
    else if (level->tag == KIND_PART)
        buf_printf(out, "1/%u-node", inverse);
    else
        buf_text(out, tag_names[level->tag]);
    buf_text(out, count == 1 ? "" : "s");
}

/* So many GPUs in the largest cells up to a node. */
static void gpus_divide(const struct kind *kind, uint64_t gpus, level_counts counts)
{
    for (uint32_t l = kind->node_level; l > 0; l--) {
        counts[l] = gpus / kind->levels[l].gpus;
        gpus %= kind->levels[l].gpus;
    }
}

/* The level that a unit means in a kind, or 0. */
static uint32_t unit_level(const struct kind *kind, const struct guarantee *part)
{
    uint32_t sockets = kind->gpus / kind->sockets;

    switch ((enum guarantee_unit)part->unit) {
    case GUARANTEE_GPUS:
        return kind_level_of(kind, part->together ? part->together : 1);
    case GUARANTEE_GROUPS:
        return kind_level_of(kind, sockets / kind->groups);
    case GUARANTEE_SOCKETS:
        return kind_level_of(kind, sockets);
    case GUARANTEE_NODES:
        return kind->node_level;
    case GUARANTEE_RACKS:
    case GUARANTEE_DOMAINS:
        for (uint32_t l = kind->node_level + 1; l <= kind->level_count; l++)
            if (kind->levels[l].tag == (part->unit == GUARANTEE_RACKS ? KIND_RACK : KIND_DOMAIN))
                return l;
        return 0;
    case GUARANTEE_UNITS:
        break;
    }
    return 0;
}

/* `count` units of the part as cells. False: the kind has no such cells. */
static bool part_counts(const struct kind *kind, const struct guarantee *part, uint64_t count, level_counts counts)
{
    uint32_t level = unit_level(kind, part);

    memset(counts, 0, sizeof(level_counts));
    if (level == 0)
        return false;
    if (part->unit == GUARANTEE_GPUS && part->together == 0)
        gpus_divide(kind, count, counts);
    else
        counts[level] = part->unit == GUARANTEE_GPUS ? count / part->together : count;
    return true;
}

/* The most of the part, up to a limit, that the kind has left. */
static uint64_t part_most(const struct kind *kind, const struct guarantee *part, uint64_t limit)
{
    uint64_t step = part->together ? part->together : 1, low = 0, high = limit / step;
    level_counts counts;

    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;

        if (part_counts(kind, part, middle * step, counts) && kind_fits(kind, counts))
            low = middle;
        else
            high = middle - 1;
    }
    return low * step;
}

/* Equal cells of one virtual cluster are one grant. */
static int grant_add(struct expander *x, const struct cell_grant *grant)
{
    struct cell_spec *s = x->spec;

    for (size_t i = 0; i < s->grant_count; i++) {
        if (s->grants[i].vc == grant->vc && s->grants[i].chain == grant->chain && s->grants[i].type == grant->type &&
            s->grants[i].pin == CELL_NONE) {
            s->grants[i].count += grant->count;
            return 0;
        }
    }
    if (mem_grow((void **)&s->grants, &s->grant_capacity, s->grant_count + 1, CELL_PLACES_MAX, sizeof(*grant)) < 0)
        return -ENOMEM;
    s->grants[s->grant_count++] = *grant;
    return 0;
}

static int part_take(struct expander *x, struct kind *kind, const struct guarantee *part, uint64_t count)
{
    level_counts counts;

    (void)part_counts(kind, part, count, counts);
    for (uint32_t l = kind->level_count; l > 0; l--) {
        struct cell_grant grant = { .vc = part->vc,
                                    .chain = kind->levels[kind->level_count].type,
                                    .type = kind->levels[l].type,
                                    .count = (uint32_t)counts[l],
                                    .pin = CELL_NONE,
                                    .place = CELL_NONE };

        if (counts[l] == 0)
            continue;
        if (grant_add(x, &grant) < 0)
            return no_memory(x);
        kind->levels[l].granted += counts[l];
        if (x->words) {
            buf_text(x->words, x->words->size > 0 && x->words->data[x->words->size - 1] == '=' ? " " : " + ");
            cells_put(kind, l, counts[l], x->words);
        }
    }
    return 0;
}

/* Nobody has such cells: which could there be? */
static int part_unknown(struct expander *x, const struct guarantee *part)
{
    char sizes[120] = "";
    size_t at = 0;

    if (part->unit == GUARANTEE_RACKS || part->unit == GUARANTEE_DOMAINS)
        return error_set(x->err, -EINVAL, "%s: there are no %ss of several nodes with equally many %s each",
                         sku_name(x, part->sku), part->unit == GUARANTEE_RACKS ? "rack" : "domain",
                         sku_name(x, part->sku));
    for (uint32_t k = 0; k < x->kinds.count; k++)
        for (uint32_t n = 1; x->kinds.list[k].sku == part->sku && n <= x->kinds.list[k].gpus; n++)
            if (kind_nests(&x->kinds.list[k], n) && at + 8 < sizeof(sizes))
                at += (size_t)snprintf(sizes + at, sizeof(sizes) - at, "%s%u", at ? ", " : "", n);
    return error_set(x->err, -EINVAL, "%s: no node can be divided into cells of %u GPUs; there can be cells of %s",
                     sku_name(x, part->sku), part->together, sizes);
}

static int part_check(struct expander *x, const struct guarantee *part)
{
    uint32_t gpus = 0, found = 0;

    for (uint32_t k = 0; k < x->kinds.count; k++) {
        const struct kind *kind = &x->kinds.list[k];
        uint32_t level = kind->sku == part->sku ? unit_level(kind, part) : 0;

        if (level == 0)
            continue;
        if (found++ > 0 && kind->levels[level].gpus != gpus)
            return error_set(x->err, -EINVAL,
                             "%s: there are nodes of several kinds; say it in GPUs, such as '%u gpus in %us'",
                             sku_name(x, part->sku), part->count * gpus, gpus);
        gpus = kind->levels[level].gpus;
    }
    if (found == 0)
        return part_unknown(x, part);
    if (part->together > 0 && part->count % part->together)
        return error_set(x->err, -EINVAL, "%s: %u is no multiple of %u; %u or %u is", sku_name(x, part->sku),
                         part->count, part->together, part->count - part->count % part->together,
                         part->count - part->count % part->together + part->together);
    return 0;
}

static void words_begin(struct expander *x, const struct guarantee *part)
{
    if (!x->words)
        return;
    buf_printf(x->words, "%s: %s: ", names_get(&x->cluster->names, x->cluster->vcs[part->vc].name),
               sku_name(x, part->sku));
    guarantee_put(x->words, part);
    buf_text(x->words, " =");
}

/* All of it in one kind, since a gang does not span two; else what each has, in order. */
static int part_expand(struct expander *x, const struct guarantee *part)
{
    CLEANUP_BUF struct buf asked = BUF_INIT(200), most = BUF_INIT(200);
    struct guarantee had = *part;
    uint64_t left = part->count;
    int r = part_check(x, part);

    if (r < 0)
        return r;
    words_begin(x, part);
    for (uint32_t k = 0; k < x->kinds.count; k++)
        if (x->kinds.list[k].sku == part->sku && part_most(&x->kinds.list[k], part, left) == left) {
            r = part_take(x, &x->kinds.list[k], part, left);
            left = 0;
        }
    for (uint32_t k = 0; r == 0 && left > 0 && k < x->kinds.count; k++) {
        uint64_t some = x->kinds.list[k].sku == part->sku ? part_most(&x->kinds.list[k], part, left) : 0;

        if (some > 0)
            r = part_take(x, &x->kinds.list[k], part, some);
        left -= some;
    }
    if (x->words)
        buf_char(x->words, '\n');
    if (r < 0 || left == 0)
        return r;
    had.count = part->count - (uint32_t)left;
    guarantee_put(&asked, part);
    guarantee_put(&most, &had);
    return error_set(x->err, -EINVAL, "%s: %s cannot be had%s%s%s", sku_name(x, part->sku),
                     asked.error ? "so much" : asked.data,
                     had.count ? "; beside what the others have, the most is " : ": the others have all of it",
                     had.count && !most.error ? most.data : "", "");
}

/* Words first, in their order; then what is owed without words. */
static int vcs_expand(struct expander *x, uint32_t *ret_guarantee)
{
    const struct cluster_spec *c = x->cluster;
    int r = 0;

    for (uint32_t i = 0; i < c->guarantee_count; i++) {
        r = part_expand(x, &c->guarantees[i]);
        if (r < 0) {
            *ret_guarantee = i;
            return r;
        }
    }
    for (uint32_t v = 0; v < c->vc_count; v++) {
        for (uint16_t s = 0; r == 0 && s < c->sku_count; s++) {
            struct guarantee rest = { .vc = v, .sku = s, .count = (uint32_t)c->vcs[v].quota[s] };
            bool told = c->vcs[v].quota[s] == 0;

            for (uint32_t i = 0; i < c->guarantee_count; i++)
                told = told || (c->guarantees[i].vc == v && c->guarantees[i].sku == s);
            if (!told)
                r = part_expand(x, &rest);
        }
    }
    return r;
}

static int cells_make(struct expander *x, uint32_t *ret_guarantee)
{
    struct cell_spec *s = x->spec;
    uint64_t tops = 0;
    uint32_t apart;
    int r = kinds_find(x->cluster, &x->kinds, x->err);

    for (uint32_t k = 0; r == 0 && k < x->kinds.count; k++)
        r = kind_types(x, &x->kinds.list[k]);
    for (uint32_t k = 0; r == 0 && k < x->kinds.count; k++)
        r = kind_places(x, &x->kinds.list[k], &tops);
    apart = s->grant_count > 0;
    for (uint32_t v = 0; r == 0 && v < x->cluster->vc_count + apart; v++) {
        r = mem_grow((void **)&s->vcs, &s->vc_capacity, s->vc_count + 1, CELL_VCS_MAX, sizeof(*s->vcs));
        if (r < 0)
            return r == -E2BIG
                       ? error_set(x->err, r, "nodes are apart, and there are %d virtual clusters", CELL_VCS_MAX)
                       : no_memory(x);
        r = name_put(x, v < x->cluster->vc_count ? names_get(&x->cluster->names, x->cluster->vcs[v].name) : "(apart)",
                     &s->vcs[s->vc_count]);
        s->vc_count++;
    }
    return r < 0 ? r : vcs_expand(x, ret_guarantee);
}

int cluster_cells(const struct cluster_spec *cluster, struct cell_spec *ret_spec, struct buf *words,
                  uint32_t *ret_guarantee, struct error *err)
{
    struct expander *x = mem_zalloc(1, sizeof(*x));
    uint32_t which = CELL_NONE;
    int r;

    if (!x)
        return error_set(err, -ENOMEM, "out of memory");
    x->cluster = cluster;
    x->spec = ret_spec;
    x->words = words;
    x->err = err;
    r = cells_make(x, &which);
    mem_free(x);
    if (ret_guarantee)
        *ret_guarantee = which;
    if (r < 0)
        cell_spec_done(ret_spec);
    return r;
}
