/* SPDX-License-Identifier: Apache-2.0 */
/* tables_roles.c - run times by who stands beside whom: `model,placement,seconds`.
 *
 * A placement is written node by node with colons between, `p` for a parameter server and `w` for a worker: `pw:w` is a
 * server and a worker on one node, the other worker on another. The order of nodes, and of letters, does not matter.
 * Speeds are relative to the fastest placement of the model. A placement that was not measured is as slow as the
 * slowest one that was; a job without servers among its GPUs runs at full speed.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "sim/tables/tables_csv.h"
#include "sim/world/world_table.h"

enum { TEXT_MAX = 128 };

struct time_row {
    uint32_t model, pattern;
    double seconds;
};

struct roles {
    struct table table;
    struct names patterns; /* in canonical form */
    struct time_row *rows;
    size_t count, capacity;
};

static struct roles *as_roles(const struct table *table)
{
    return (struct roles *)(uintptr_t)table;
}

static void roles_free(struct table *table)
{
    names_done(&as_roles(table)->patterns);
    mem_free(as_roles(table)->rows);
    table_done(table);
    mem_free(table);
}

static bool roles_claims(const char *head, const struct names *entries)
{
    (void)entries;
    return head && text_begins(head, "model,placement,seconds");
}

static bool part_before(const struct world_role *a, const struct world_role *b)
{
    return a->servers != b->servers ? a->servers > b->servers : a->workers > b->workers;
}

/* Nodes with servers first, larger ones first. -E2BIG where it is too long to have been measured. */
static int canonical(const struct world_role *parts, uint32_t count, char text[TEXT_MAX])
{
    struct world_role sorted[WORLD_ROLES_MAX];
    size_t at = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t k = i;

        for (; k > 0 && part_before(&parts[i], &sorted[k - 1]); k--)
            sorted[k] = sorted[k - 1];
        sorted[k] = parts[i];
    }
    for (uint32_t i = 0; i < count; i++) {
        if (at + sorted[i].servers + sorted[i].workers + 2 > TEXT_MAX)
            return -E2BIG;
        if (i)
            text[at++] = ':';
        memset(text + at, 'p', sorted[i].servers);
        at += sorted[i].servers;
        memset(text + at, 'w', sorted[i].workers);
        at += sorted[i].workers;
    }
    text[at] = '\0';
    return 0;
}

static int read_placement(struct roles *roles, const struct csv *csv, int index, uint32_t *ret_pattern,
                          struct error *err)
{
    const struct csv_field *field = csv_get(csv, index);
    struct world_role parts[WORLD_ROLES_MAX] = { { 0 } };
    uint32_t count = 1, tasks = 0;
    char text[TEXT_MAX];

    for (uint32_t i = 0; field && i < field->length; i++) {
        char c = field->text[i];

        if (c == ':' && tasks > 0 && count < WORLD_ROLES_MAX) {
            count++;
            tasks = 0;
        } else if (c == 'p' || c == 'w') {
            parts[count - 1].servers = (uint16_t)(parts[count - 1].servers + (c == 'p'));
            parts[count - 1].workers = (uint16_t)(parts[count - 1].workers + (c == 'w'));
            tasks++;
        } else {
            field = NULL;
        }
    }
    if (!field || tasks == 0 || canonical(parts, count, text) < 0)
        return csv_expected(csv, index, err, "nodes of p and w with colons between, such as pw:w, at most %d nodes",
                            WORLD_ROLES_MAX);
    return names_put(&roles->patterns, text, strlen(text), ret_pattern);
}

static int read_row(struct roles *roles, const struct csv *csv, const struct csv_column *columns, struct error *err)
{
    struct time_row row = { 0 };
    int r = table_csv_name(csv, columns[0].index, &roles->table.models, &row.model, err);

    if (r == 0)
        r = read_placement(roles, csv, columns[1].index, &row.pattern, err);
    if (r == 0)
        r = table_csv_speed(csv, columns[2].index, false, &row.seconds, err);
    if (r == 0)
        r = mem_grow((void **)&roles->rows, &roles->capacity, roles->count + 1, 1 << 20, sizeof(row));
    if (r == 0)
        roles->rows[roles->count++] = row;
    return r;
}

static int roles_load(const char *path, struct table **ret_table, struct error *err)
{
    CLEANUP(table_free) struct table *table = mem_zalloc(1, sizeof(struct roles));
    struct csv_column columns[] = { { "model", true, 0 }, { "placement", true, 0 }, { "seconds", true, 0 } };
    struct table_csv file;
    int r;

    if (!table)
        return error_set(err, -ENOMEM, "out of memory");
    table->ops = &table_roles;
    r = table_csv_open(&file, path, columns, 3, err);
    if (r < 0)
        return r;
    while ((r = csv_next(&file.csv, err)) > 0) {
        r = read_row(as_roles(table), &file.csv, columns, err);
        if (r < 0)
            break;
    }
    table_csv_close(&file);
    if (r < 0)
        return r;
    if (!as_roles(table)->count)
        return error_set(err, -EINVAL, "%s: expected rows after the header, got none", path);
    *ret_table = take(table);
    return 0;
}

static double roles_speed(const struct table *table, uint32_t entry, const struct table_place *place)
{
    const struct roles *roles = as_roles(table);
    uint32_t model = table->entries[entry].model, pattern = NAME_NONE;
    double fastest = 0, slowest = 0, here = 0;
    char text[TEXT_MAX];

    if (place->shape->role_count == 0)
        return 1;
    if (place->shape->role_count <= WORLD_ROLES_MAX &&
        canonical(place->shape->roles, place->shape->role_count, text) == 0)
        pattern = names_find(&roles->patterns, text, strlen(text));
    for (size_t i = 0; i < roles->count; i++) {
        const struct time_row *row = &roles->rows[i];

        if (row->model != model)
            continue;
        fastest = fastest > 0 && fastest < row->seconds ? fastest : row->seconds;
        slowest = slowest > row->seconds ? slowest : row->seconds;
        here = row->pattern == pattern ? row->seconds : here;
    }
    return fastest / (here > 0 ? here : slowest);
}

const struct table_ops table_roles = {
    .kind = "roles",
    .holds = "run times by which nodes parameter servers and workers share",
    .relative = true,
    .claims = roles_claims,
    .load = roles_load,
    .free = roles_free,
    .find = table_find,
    .speed = roles_speed,
};
