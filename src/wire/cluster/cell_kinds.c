/* SPDX-License-Identifier: Apache-2.0 */
/* cell_kinds.c - see cell_kinds.h. */
#include "wire/cluster/cell_kinds.h"

#include <assert.h>
#include <errno.h>

struct counting { /* of one kind, while its nodes come by */
    uint32_t rack, domain, rack_have, domain_have;
};

static bool kind_is(const struct kind *kind, const struct node_spec *node)
{
    return kind->sku == node->sku && kind->gpus == node->gpus && kind->sockets == node->sockets &&
           kind->groups == node->groups;
}

/* One number for all of them, or 0. */
static uint32_t same(uint32_t seen, uint32_t first, uint32_t now)
{
    return first || seen == now ? now : 0;
}

static void rack_close(struct kind *kind, struct counting *c)
{
    kind->rack_nodes = same(kind->rack_nodes, kind->racks == 0, c->rack_have);
    kind->racks++;
    c->rack_have = 0;
    c->domain_have++;
}

static void domain_close(struct kind *kind, struct counting *c)
{
    kind->domain_racks = same(kind->domain_racks, kind->domains == 0, c->domain_have);
    kind->domains++;
    c->domain_have = 0;
}

static void node_count(struct kind *kind, struct counting *c, const struct node_spec *node)
{
    if (kind->nodes > 0 && node->rack != c->rack)
        rack_close(kind, c);
    if (kind->nodes > 0 && node->domain != c->domain)
        domain_close(kind, c);
    c->rack = node->rack;
    c->domain = node->domain;
    c->rack_have++;
    kind->nodes++;
}

bool kind_nests(const struct kind *kind, uint32_t gpus)
{
    for (uint32_t l = 1; l <= kind->level_count; l++) {
        uint32_t other = kind->levels[l].gpus;

        if (gpus == 0 || (gpus > other ? gpus % other : other % gpus) != 0)
            return false;
    }
    return true;
}

/* Above those that are smaller; a level that does not nest, or that is there, is left out. */
static void level_add(struct kind *kind, uint32_t gpus, enum kind_tag tag)
{
    uint32_t at = kind->level_count + 1;

    if (kind->level_count == CELL_LEVELS_MAX || !kind_nests(kind, gpus) ||
        (tag != KIND_NODE && kind_level_of(kind, gpus)))
        return;
    while (at > 1 && kind->levels[at - 1].gpus > gpus) {
        kind->levels[at] = kind->levels[at - 1];
        at--;
    }
    kind->levels[at] = (struct kind_level){ .gpus = gpus, .tag = (uint8_t)tag };
    kind->level_count++;
}

uint32_t kind_level_of(const struct kind *kind, uint32_t gpus)
{
    for (uint32_t l = kind->level_count; l > 0; l--)
        if (kind->levels[l].gpus == gpus)
            return l;
    return 0;
}

/* The levels inside a node first: what is asked for "in 4s" may lie between them. */
static void levels_make(const struct cluster_spec *cluster, struct kind *kind)
{
    uint32_t gpus = kind->gpus;

    level_add(kind, 1, KIND_GPU);
    level_add(kind, gpus, KIND_NODE);
    level_add(kind, gpus / kind->sockets, KIND_SOCKET);
    level_add(kind, gpus / kind->sockets / kind->groups, KIND_GROUP);
    for (uint32_t i = 0; i < cluster->guarantee_count; i++) {
        const struct guarantee *g = &cluster->guarantees[i];

        if (g->sku == kind->sku && g->together > 0 && g->together < gpus && kind->level_count + 2 < CELL_LEVELS_MAX)
            level_add(kind, g->together, KIND_PART);
    }
    for (uint32_t l = 1; l <= kind->level_count; l++)
        kind->node_level = kind->levels[l].tag == KIND_NODE ? l : kind->node_level;
    kind->tops = kind->nodes;
    if (kind->rack_nodes > 1) {
        level_add(kind, gpus * kind->rack_nodes, KIND_RACK);
        kind->tops = kind->racks;
        if (kind->domain_racks > 1 && kind->domains > 1) {
            level_add(kind, gpus * kind->rack_nodes * kind->domain_racks, KIND_DOMAIN);
            kind->tops = kind->domains;
        }
    }
}

struct zone {
    uint32_t nodes, apart; /* of the kind */
};

/* The rack, or the domain, that begins with this node. */
static struct zone zone_count(const struct cluster_spec *cluster, const struct kind *kind, uint32_t from, bool rack)
{
    const struct node_spec *first = &cluster->nodes[from];
    struct zone zone = { 0 };

    for (uint32_t i = from; i < cluster->node_count; i++) {
        const struct node_spec *node = &cluster->nodes[i];

        if (rack ? node->rack != first->rack : node->domain != first->domain)
            break;
        zone.nodes += kind_is(kind, node);
        zone.apart += kind_is(kind, node) && node->apart;
    }
    return zone;
}

static uint32_t tag_level(const struct kind *kind, enum kind_tag tag)
{
    for (uint32_t l = kind->level_count; l > 0; l--)
        if (kind->levels[l].tag == tag)
            return l;
    return 0;
}

/* What can be granted, in the largest cells: a rack or a domain with nodes that are apart is worth only its parts. */
static void wholes_count(const struct cluster_spec *cluster, struct kind *kind)
{
    uint32_t racks = tag_level(kind, KIND_RACK), domains = tag_level(kind, KIND_DOMAIN);
    struct zone domain = { 0 }, rack;

    for (uint32_t i = 0; i < cluster->node_count; i++) {
        const struct node_spec *node = &cluster->nodes[i];

        if (i == 0 || node->domain != node[-1].domain) {
            domain = zone_count(cluster, kind, i, false);
            kind->levels[domains].whole += domains && domain.nodes && domain.apart == 0;
        }
        if ((i > 0 && node->rack == node[-1].rack) || (domains && domain.apart == 0))
            continue;
        rack = zone_count(cluster, kind, i, true);
        if (racks && rack.nodes && rack.apart == 0)
            kind->levels[racks].whole++;
        else
            kind->levels[kind->node_level].whole += rack.nodes - rack.apart;
    }
}

int kinds_find(const struct cluster_spec *cluster, struct kinds *kinds, struct error *err)
{
    struct counting counts[KINDS_MAX] = { 0 };

    kinds->count = 0;
    for (uint32_t i = 0; i < cluster->node_count; i++) {
        const struct node_spec *node = &cluster->nodes[i];
        uint32_t k = 0;

        while (k < kinds->count && !kind_is(&kinds->list[k], node))
            k++;
        if (k == KINDS_MAX)
            return error_set(err, -E2BIG, "more than %d kinds of nodes (GPU type, GPUs, sockets, groups)", KINDS_MAX);
        if (k == kinds->count)
            kinds->list[kinds->count++] =
                (struct kind){ .sku = node->sku, .gpus = node->gpus, .sockets = node->sockets, .groups = node->groups };
        node_count(&kinds->list[k], &counts[k], node);
    }
    for (uint32_t k = 0; k < kinds->count; k++) {
        rack_close(&kinds->list[k], &counts[k]);
        domain_close(&kinds->list[k], &counts[k]);
        levels_make(cluster, &kinds->list[k]);
        wholes_count(cluster, &kinds->list[k]);
    }
    return 0;
}

bool kind_fits(const struct kind *kind, const uint64_t more[CELL_LEVELS_MAX + 1])
{
    uint64_t left = 0;

    for (uint32_t l = kind->level_count; l > 0; l--) {
        uint64_t need = kind->levels[l].granted + more[l];

        left += kind->levels[l].whole;
        if (need > left)
            return false;
        left -= need;
        if (l > 1)
            left *= kind->levels[l].gpus / kind->levels[l - 1].gpus;
    }
    return true;
}
