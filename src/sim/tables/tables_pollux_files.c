/* SPDX-License-Identifier: Apache-2.0 */
/* tables_pollux_files.c - see tables_pollux.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/dir.h"
#include "sim/tables/tables_csv.h"
#include "sim/tables/tables_pollux.h"
#include "sim/world/world_table.h"

enum { TYPE_NAME_MAX = 64 };

double pollux_local_max(const char *model)
{
    return strcmp(model, "yolov3") == 0 ? 8 : 1e9;
}

/* Which of its three kinds a file is, from its name: "<stem>.csv" or "<stem>-<tag>.csv". */
static bool name_is(const char *name, const char *stem, const char **ret_tag, size_t *ret_length)
{
    size_t k = strlen(stem), n = strlen(name);

    if (!text_begins(name, stem) || !text_ends(name, ".csv") || n < k + 4)
        return false;
    if (n > k + 4 && name[k] != '-')
        return false;
    *ret_tag = n > k + 4 ? name + k + 1 : "";
    *ret_length = n > k + 4 ? n - k - 5 : 0;
    return true;
}

/* Sets `type` and `batch` from the name; 0: not one of theirs. */
static int take_name(const char *name, struct pollux_file *file, char type[TYPE_NAME_MAX], struct error *err)
{
    const char *tag;
    size_t length;

    if (name_is(name, "validation", &tag, &length) && length) {
        char *end;

        file->kind = POLLUX_VALIDATION;
        file->batch = strtol(tag, &end, 10);
        if (end != tag + length || file->batch < 1)
            return error_set(err, -EINVAL, "%s: expected a name such as validation-128.csv", file->path);
        return 1;
    }
    if (name_is(name, "placements", &tag, &length))
        file->kind = POLLUX_PLACEMENTS;
    else if (name_is(name, "scalability", &tag, &length))
        file->kind = POLLUX_SCALABILITY;
    else
        return 0;
    if (length >= TYPE_NAME_MAX)
        return error_set(err, -E2BIG, "%s: the name of the GPU type is too long", file->path);
    snprintf(type, TYPE_NAME_MAX, "%.*s", length ? (int)length : 3, length ? tag : "aws");
    return 1;
}

static int walk_model(const char *dir, struct pollux_file *file, pollux_file_fn fn, void *arg, struct error *err)
{
    struct names files = { 0 };
    char path[WORLD_PATH_MAX], type[TYPE_NAME_MAX] = "";
    int r = dir_list(dir, &files, err);
    bool ours = false;

    for (size_t i = 0; i < files.count; i++)
        ours |= text_begins(names_get(&files, (uint32_t)i), "placements");
    file->path = path;
    file->type = type;
    for (size_t i = 0; r == 0 && ours && i < files.count; i++) {
        const char *name = names_get(&files, (uint32_t)i);

        r = table_path(path, dir, name, err);
        if (r == 0)
            r = take_name(name, file, type, err);
        if (r > 0)
            r = fn(arg, file, err);
    }
    file->path = file->type = NULL; /* ours, and gone with us */
    names_done(&files);
    return r;
}

/* The folder with the models, or the one that has it as `traces`. */
static int walk_folder(const char *given, pollux_file_fn fn, void *arg, struct error *err)
{
    char dir[WORLD_PATH_MAX], path[WORLD_PATH_MAX];
    struct names models = { 0 };
    int r = table_path(dir, given, "traces", err);

    if (r == 0 && !dir_is(dir))
        snprintf(dir, sizeof(dir), "%s", given);
    if (r == 0)
        r = dir_list(dir, &models, err);
    for (size_t i = 0; r == 0 && i < models.count; i++) {
        struct pollux_file file = { .model = names_get(&models, (uint32_t)i) };

        r = table_path(path, dir, file.model, err);
        if (r == 0 && dir_is(path))
            r = walk_model(path, &file, fn, arg, err);
    }
    names_done(&models);
    return r;
}

int pollux_files(const char *paths, pollux_file_fn fn, void *arg, struct error *err)
{
    char dir[WORLD_PATH_MAX];
    int r = 0;

    for (const char *p = paths; r == 0 && *p; p += strcspn(p, "+"), p += *p == '+') {
        snprintf(dir, sizeof(dir), "%.*s", (int)strcspn(p, "+"), p);
        r = walk_folder(dir, fn, arg, err);
    }
    return r;
}

int pollux_steps(const struct pollux_file *from, struct grid_row row, pollux_step_fn fn, void *arg, struct error *err)
{
    bool placements = from->kind == POLLUX_PLACEMENTS;
    struct csv_column columns[C_COUNT] = {
        [C_LOCAL] = { "local_bsz", true, 0 },        [C_STEP] = { "step_time", true, 0 },
        [C_SYNC] = { "sync_time", true, 0 },         [C_PLACEMENT] = { "placement", placements, 0 },
        [C_NODES] = { "num_nodes", !placements, 0 }, [C_GPUS] = { "num_replicas", !placements, 0 },
    };
    struct table_csv file;
    int r = table_csv_open(&file, from->path, columns, C_COUNT, err);

    if (r < 0)
        return r;
    while ((r = csv_next(&file.csv, err)) > 0) {
        r = table_csv_speed(&file.csv, columns[C_LOCAL].index, false, &row.x, err);
        if (r == 0)
            r = table_csv_speed(&file.csv, columns[C_STEP].index, false, &row.y[0], err);
        if (r == 0)
            r = table_csv_speed(&file.csv, columns[C_SYNC].index, true, &row.y[1], err);
        if (r == 0)
            r = fn(arg, &file.csv, columns, row, err);
        if (r < 0)
            break;
    }
    table_csv_close(&file);
    return r;
}
