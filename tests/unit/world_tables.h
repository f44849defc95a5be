/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* world_tables.h - for tests of tables: files of their own, and asking a table without a world around it. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "sim/world/world.h"
#include "sim/world/world_grid.h"
#include "sim/world/world_table.h"

/* ---- files of our own, in a folder that is removed at the end */

static char root[] = "/tmp/muster-tables-XXXXXX";

static inline int make_root(void **state)
{
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}

static inline int remove_root(void **state)
{
    char command[64];

    (void)state;
    (void)snprintf(command, sizeof(command), "rm -rf %s", root);
    return system(command);
}

/* Folders on the way are made. Returns the path, good until the next call. */
static inline const char *put(const char *name, const char *text)
{
    static char path[PATH_MAX];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", root, name);
    for (char *slash = strchr(path + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    return path;
}

static inline const char *at(const char *name)
{
    static char path[PATH_MAX];

    (void)snprintf(path, sizeof(path), "%s/%s", root, name);
    return path;
}

/* ---- a table asked directly */

static inline struct table *open_table(const char *spec)
{
    struct table *table = NULL;
    struct error err = { 0 };

    if (table_open(spec, &table, &err) != 0)
        fail_msg("%s: %s", spec, err.text);
    return table;
}

static inline void refused(const char *spec, const char *words)
{
    struct table *table = NULL;
    struct error err = { 0 };

    assert_true(table_open(spec, &table, &err) < 0);
    assert_null(table);
    if (!strstr(err.text, words))
        fail_msg("expected '%s', got '%s'", words, err.text);
}

static inline uint32_t entry_of(struct table *table, const char *model, uint32_t batch, int32_t gpus)
{
    struct table_job job = { model, batch, gpus };
    struct error err = { 0 };
    uint32_t entry = 0;
    int r = table->ops->find(table, &job, &entry, &err);

    if (r != 0)
        fail_msg("%s: %d %s", model, r, err.text);
    return entry;
}

static inline int missing(struct table *table, const char *model)
{
    struct table_job job = { model, 0, 1 };
    uint32_t entry;

    return table->ops->find(table, &job, &entry, NULL) == -ENOENT;
}

/* Speed on `nodes` nodes with `most` and `least` GPUs; fewest: of 8-GPU nodes. */
static inline double speed(struct table *table, uint32_t entry, uint32_t type, const int32_t shape[4])
{
    struct world_shape where = {
        .gpus = shape[0], .nodes = (uint16_t)shape[1], .racks = 1, .node_gpus_max = shape[2], .node_gpus_min = shape[3]
    };
    struct table_place place = { &where, type, (shape[0] + 7) / 8 };
    int32_t between = shape[1] - 2, rest = shape[0] - shape[2] - shape[3];

    /* One node has the most, one the least, the others share the rest. */
    for (int32_t i = 0; i < shape[1] && i < WORLD_PARTS_MAX; i++)
        where.parts[i] = (uint8_t)(i == 0              ? shape[2]
                                   : i + 1 == shape[1] ? shape[3]
                                                       : rest / between + (i <= rest % between));
    return table->ops->speed(table, entry, &place);
}

#define SHAPE(...) ((const int32_t[4]){ __VA_ARGS__ })

static inline int pair(struct table *table, const char *a, const char *b, uint32_t type, double rates[2])
{
    uint32_t entries[2] = { entry_of(table, a, 0, 1), entry_of(table, b, 0, 1) };
    struct world_shape where = {
        .gpus = 1, .nodes = 1, .racks = 1, .node_gpus_max = 1, .node_gpus_min = 1, .parts = { 1 }
    };
    struct table_place place = { &where, type, 1 };

    return table->ops->pair(table, entries, &place, rates);
}

static inline void near(double got, double wanted)
{
    if (!(got > wanted * 0.9999999 && got < wanted * 1.0000001))
        fail_msg("expected %.12g, got %.12g", wanted, got);
}
