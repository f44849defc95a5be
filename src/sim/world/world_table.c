/* SPDX-License-Identifier: Apache-2.0 */
/* world_table.c - the register of table families, and finding the one that reads a path. */
#include "sim/world/world_table.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "io/dir.h"
#include "io/file.h"

const struct table_ops *const table_families[] = {
    &table_native,  &table_pairs, &table_pollux, &table_pollux_sim, &table_gavel, &table_elasticflow,
    &table_chronus, &table_lucid, &table_muri,   &table_servers,    &table_roles, NULL,
};

/* What the same hardware is called elsewhere: Sia names GPU types after the machines that had them. */
static const struct {
    const char *name, *alias;
} aliases[] = {
    { "aws", "t4" },     { "dgx-ext", "a100" }, { "dgx", "a100" },           { "rtx", "rtx2080ti" },
    { "rtx", "2080ti" }, { "quad", "rtx6000" }, { "quad", "quadrortx6000" },
};

void table_done(struct table *table)
{
    names_done(&table->models);
    names_done(&table->types);
    mem_free(table->entries);
}

void table_free(struct table *table)
{
    if (table)
        table->ops->free(table);
}

bool table_number_ok(double value)
{
    return value >= 1e-12 && value <= 1e12;
}

bool text_ends(const char *text, const char *tail)
{
    size_t n = strlen(text), k = strlen(tail);

    return n >= k && strcmp(text + n - k, tail) == 0;
}

bool text_begins(const char *text, const char *head)
{
    return strncmp(text, head, strlen(head)) == 0;
}

int table_path(char path[WORLD_PATH_MAX], const char *dir, const char *name, struct error *err)
{
    int n = snprintf(path, WORLD_PATH_MAX, "%s/%s", dir, name);

    if (n < 0 || n >= WORLD_PATH_MAX)
        return error_set(err, -ENAMETOOLONG, "%s/%s: longer than %d bytes", dir, name, WORLD_PATH_MAX - 1);
    return 0;
}

int table_bind(struct table *table, uint32_t model, uint32_t batch, uint32_t *ret_entry)
{
    int r;

    for (size_t i = table->entry_count; i-- > 0;) {
        if (table->entries[i].model == model && table->entries[i].batch == batch) {
            *ret_entry = (uint32_t)i;
            return 0;
        }
    }
    r = mem_grow((void **)&table->entries, &table->entry_capacity, table->entry_count + 1, 1 << 16,
                 sizeof(*table->entries));
    if (r < 0)
        return r;
    *ret_entry = (uint32_t)table->entry_count;
    table->entries[table->entry_count++] = (struct table_entry){ model, batch };
    return 0;
}

int table_find(struct table *table, const struct table_job *job, uint32_t *ret_entry, struct error *err)
{
    uint32_t model = names_find(&table->models, job->model, strlen(job->model));
    int r;

    if (model == NAME_NONE)
        return -ENOENT;
    r = table_bind(table, model, job->batch, ret_entry);
    return r < 0 ? error_set(err, r, "more than %d pairs of model and batch size", 1 << 16) : 0;
}

static const struct table_ops *find_kind(const char *kind)
{
    if (strcmp(kind, "sia") == 0)
        return &table_pollux;
    for (size_t i = 0; table_families[i]; i++) {
        if (strcmp(kind, table_families[i]->kind) == 0)
            return table_families[i];
    }
    return NULL;
}

static const struct table_ops *claim(const char *head, const struct names *entries)
{
    for (size_t i = 0; table_families[i]; i++) {
        if (table_families[i]->claims(head, entries))
            return table_families[i];
    }
    return NULL;
}

/* Looks at the first of the paths, where several are joined by '+'. NULL: *err says why. */
static const struct table_ops *guess(const char *paths, struct error *err)
{
    const struct table_ops *ops = NULL;
    struct names entries = { 0 };
    CLEANUP_BYTES struct bytes bytes = { 0 };
    char path[WORLD_PATH_MAX];

    snprintf(path, sizeof(path), "%.*s", (int)strcspn(paths, "+"), paths);
    if (dir_is(path)) {
        if (dir_list(path, &entries, err) < 0)
            return NULL;
        ops = claim(NULL, &entries);
        names_done(&entries);
    } else {
        if (file_read(path, 0, &bytes, err) < 0)
            return NULL;
        ops = claim(bytes.data, NULL);
    }
    if (!ops)
        error_set(
            err, -EINVAL,
            "%s: not a table this program knows; say which with :native, :pairs, :pollux, :pollux-sim, :sia, :gavel, "
            ":elasticflow, :chronus, :lucid, :muri or :servers",
            path);
    return ops;
}

int table_open(const char *spec, struct table **ret_table, struct error *err)
{
    struct error why = { .code = -EINVAL };
    const char *colon = strrchr(spec, ':');
    const struct table_ops *ops = colon ? find_kind(colon + 1) : NULL;
    char path[WORLD_PATH_MAX];

    snprintf(path, sizeof(path), "%.*s", (int)(ops ? (size_t)(colon - spec) : strlen(spec)), spec);
    if (!ops)
        ops = guess(path, &why);
    if (!ops)
        return error_set(err, why.code, "%s", why.text);
    return ops->load(path, ret_table, err);
}

/* Letters and digits only, small. */
static void plain(const char *text, char *ret_plain, size_t size)
{
    size_t n = 0;

    for (; *text && n + 1 < size; text++) {
        if (isalnum((unsigned char)*text))
            ret_plain[n++] = (char)tolower((unsigned char)*text);
    }
    ret_plain[n] = '\0';
}

uint32_t table_type_find(const struct table *table, const char *sku)
{
    char wanted[64], name[64];

    plain(sku, wanted, sizeof(wanted));
    for (size_t i = 0; i < table->types.count; i++) {
        plain(names_get(&table->types, (uint32_t)i), name, sizeof(name));
        if (strcmp(wanted, name) == 0)
            return (uint32_t)i;
    }
    for (size_t k = 0; k < sizeof(aliases) / sizeof(aliases[0]); k++) {
        uint32_t type = names_find(&table->types, aliases[k].name, strlen(aliases[k].name));

        if (type != NAME_NONE && strcmp(wanted, aliases[k].alias) == 0)
            return type;
    }
    return NAME_NONE;
}
