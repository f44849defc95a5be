/* SPDX-License-Identifier: Apache-2.0 */
/* hived_write.c - see hived_write.h. */
#include "wire/hived/hived_write.h"

#include <stdio.h>
#include <string.h>

/* Plain where that is safe for every reader, else in double quotes. */
static void text_put(struct buf *out, const char *text)
{
    static const char *const words[] = { "null", "true", "false", "yes", "no", "on", "off", "y", "n" };
    bool plain = (*text >= 'A' && *text <= 'Z') || (*text >= 'a' && *text <= 'z');

    for (size_t i = 0; text[i]; i++)
        plain = plain && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-", text[i]);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        plain = plain && strcasecmp(text, words[i]) != 0;
    if (plain) {
        buf_text(out, text);
        return;
    }
    buf_char(out, '"');
    for (size_t i = 0; text[i]; i++) {
        if (text[i] == '"' || text[i] == '\\')
            buf_char(out, '\\');
        buf_char(out, text[i]);
    }
    buf_char(out, '"');
}

static void name_put(struct buf *out, const struct cell_spec *s, uint32_t name)
{
    text_put(out, names_get(&s->names, name));
}

/* Cells in a tree of the type; trees of one type are alike. */
static size_t tree_size(const struct cell_spec *s, uint32_t type)
{
    size_t size = 1, factor = 1;

    for (; s->types[type].child != CELL_NONE; type = s->types[type].child) {
        factor *= s->types[type].child_count;
        size += factor;
    }
    return size;
}

struct spot { /* a cell, and the number that it would be called by if nothing were said */
    size_t place;
    uint64_t number;
};

static struct spot spot_child(const struct cell_spec *s, struct spot at, uint32_t i)
{
    const struct cell_type *type = &s->types[s->places[at.place].type];
    uint64_t base = type->node ? 0 : at.number;

    return (struct spot){ at.place + 1 + i * tree_size(s, type->child), base * type->child_count + i };
}

static bool address_told(const struct cell_spec *s, struct spot at)
{
    char number[24];

    (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)at.number);
    return strcmp(number, names_get(&s->names, s->places[at.place].address)) != 0;
}

/* Has the cell, or one inside it, something that cannot be inferred? */
static bool spot_told(const struct cell_spec *s, struct spot at)
{
    const struct cell_place *place = &s->places[at.place];
    const struct cell_type *type = &s->types[place->type];

    if (type->node || place->pin != CELL_NONE || address_told(s, at))
        return true;
    for (uint32_t i = 0; type->child != CELL_NONE && i < type->child_count; i++)
        if (spot_told(s, spot_child(s, at, i)))
            return true;
    return false;
}

static void cell_put(struct buf *out, const struct cell_spec *s, struct spot at, int depth)
{
    const struct cell_place *place = &s->places[at.place];
    const struct cell_type *type = &s->types[place->type];
    const char *comma = "";
    bool inside = false;

    buf_printf(out, "%*s- {", depth * 2, "");
    if (place->parent == CELL_NONE) {
        buf_text(out, "cellType: ");
        name_put(out, s, type->name);
        comma = ", ";
    }
    if (type->node || address_told(s, at)) {
        buf_printf(out, "%scellAddress: ", comma);
        name_put(out, s, place->address);
        comma = ", ";
    }
    if (place->pin != CELL_NONE) {
        buf_printf(out, "%spinnedCellId: ", comma);
        name_put(out, s, place->pin);
        comma = ", ";
    }
    for (uint32_t i = 0; type->child != CELL_NONE && i < type->child_count && !inside; i++)
        inside = spot_told(s, spot_child(s, at, i));
    if (inside) {
        buf_printf(out, "%scellChildren: [\n", comma);
        for (uint32_t i = 0; i < type->child_count; i++) {
            size_t from = out->size;

            cell_put(out, s, spot_child(s, at, i), depth + 1);
            if (!out->error) /* an item of a flow list: no dash, a comma */
                out->data[from + (size_t)(depth + 1) * 2] = ' ';
            if (!out->error && out->size > 0)
                out->data[out->size - 1] = ',';
            buf_char(out, '\n');
        }
        buf_printf(out, "%*s]", depth * 2 + 2, "");
    }
    buf_text(out, "}\n");
}

static void types_put(const struct cell_spec *s, struct buf *out)
{
    buf_text(out, "physicalCluster:\n  cellTypes:\n");
    for (size_t i = 0; i < s->type_count; i++) {
        const struct cell_type *type = &s->types[i];

        if (type->child == CELL_NONE)
            continue;
        buf_text(out, "    ");
        name_put(out, s, type->name);
        buf_text(out, ": {childCellType: ");
        name_put(out, s, s->types[type->child].name);
        buf_printf(out, ", childCellNumber: %u%s}\n", type->child_count, type->node ? ", isNodeLevel: true" : "");
    }
}

static void path_put(const struct cell_spec *s, const struct cell_grant *g, struct buf *out)
{
    char path[4 * NAME_LENGTH_MAX];
    size_t at = 0;

    for (uint32_t type = g->chain; at < sizeof(path); type = s->types[type].child) {
        at += (size_t)snprintf(path + at, sizeof(path) - at, "%s%s", at ? "." : "",
                               names_get(&s->names, s->types[type].name));
        if (type == g->type)
            break;
    }
    text_put(out, path);
}

static void vc_put(const struct cell_spec *s, uint32_t vc, struct buf *out)
{
    for (int pinned = 0; pinned < 2; pinned++) {
        bool any = false;

        for (size_t i = 0; i < s->grant_count; i++) {
            const struct cell_grant *g = &s->grants[i];

            if (g->vc != vc || (g->pin != CELL_NONE) != pinned)
                continue;
            if (!any)
                buf_text(out, pinned ? "    pinnedCells:\n" : "    virtualCells:\n");
            any = true;
            buf_text(out, pinned ? "    - {pinnedCellId: " : "    - {cellType: ");
            if (pinned)
                name_put(out, s, g->pin);
            else
                path_put(s, g, out);
            if (!pinned)
                buf_printf(out, ", cellNumber: %u", g->count);
            buf_text(out, "}\n");
        }
    }
}

void hived_config_write(const struct cell_spec *spec, struct buf *out)
{
    uint64_t top = 0;

    types_put(spec, out);
    buf_text(out, "  physicalCells:\n");
    for (size_t i = 0; i < spec->place_count; i += tree_size(spec, spec->places[i].type))
        cell_put(out, spec, (struct spot){ i, top++ }, 1);
    buf_text(out, "virtualClusters:\n");
    for (size_t v = 0; v < spec->vc_count; v++) {
        buf_text(out, "  ");
        name_put(out, spec, spec->vcs[v]);
        buf_text(out, ":\n");
        vc_put(spec, (uint32_t)v, out);
    }
}
