/* SPDX-License-Identifier: Apache-2.0 */
/* world_grid.c - see world_grid.h. One sorted array; a curve is a run of it, found by bisection. */
#include "sim/world/world_grid.h"

#include <stdlib.h>

#include "base/alloc.h"

void grid_done(struct grid *grid)
{
    mem_free(grid->rows);
    *grid = (struct grid){ 0 };
}

int grid_add(struct grid *grid, const struct grid_row *row)
{
    int r = mem_grow((void **)&grid->rows, &grid->capacity, grid->count + 1, GRID_ROWS_MAX, sizeof(*grid->rows));

    if (r < 0)
        return r;
    grid->rows[grid->count++] = *row;
    return 0;
}

static int compare_key(const struct grid_row *a, const struct grid_row *b)
{
    if (a->model != b->model)
        return a->model < b->model ? -1 : 1;
    if (a->type != b->type)
        return a->type < b->type ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

/* Everything takes part, so that the sum of equal keys does not depend on the order of reading. */
static int compare(const void *left, const void *right)
{
    const struct grid_row *a = left, *b = right;
    int r = compare_key(a, b);

    if (r)
        return r;
    if (a->x != b->x)
        return a->x < b->x ? -1 : 1;
    if (a->y[0] != b->y[0])
        return a->y[0] < b->y[0] ? -1 : 1;
    return a->y[1] < b->y[1] ? -1 : a->y[1] > b->y[1];
}

void grid_close(struct grid *grid)
{
    size_t kept = 0;

    if (grid->count)
        qsort(grid->rows, grid->count, sizeof(*grid->rows), compare);
    for (size_t i = 0; i < grid->count;) {
        struct grid_row mean = grid->rows[i];
        size_t n = 1;

        while (i + n < grid->count && compare_key(&grid->rows[i + n], &mean) == 0 && grid->rows[i + n].x == mean.x) {
            mean.y[0] += grid->rows[i + n].y[0];
            mean.y[1] += grid->rows[i + n].y[1];
            n++;
        }
        i += n;
        mean.y[0] /= (double)n;
        mean.y[1] /= (double)n;
        grid->rows[kept++] = mean;
    }
    grid->count = kept;
}

/* Index of the first row whose key is not before `key`. */
static size_t lower_bound(const struct grid *grid, const struct grid_row *key)
{
    size_t low = 0, high = grid->count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (compare_key(&grid->rows[mid], key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

const struct grid_row *grid_curve(const struct grid *grid, uint32_t model, uint32_t type, uint64_t at,
                                  size_t *ret_count)
{
    struct grid_row key = { .model = model, .type = type, .at = at };
    size_t from = lower_bound(grid, &key), count = 0;

    while (from + count < grid->count && compare_key(&grid->rows[from + count], &key) == 0)
        count++;
    *ret_count = count;
    return count ? &grid->rows[from] : NULL;
}

bool grid_around(const struct grid *grid, uint32_t model, uint32_t type, uint64_t at, uint64_t ret_at[2],
                 double *ret_part)
{
    struct grid_row key = { .model = model, .type = type, .at = at };
    size_t from = lower_bound(grid, &key);
    const struct grid_row *above = from < grid->count ? &grid->rows[from] : NULL;
    const struct grid_row *below = from > 0 ? &grid->rows[from - 1] : NULL;

    if (above && (above->model != model || above->type != type))
        above = NULL;
    if (below && (below->model != model || below->type != type))
        below = NULL;
    if (!above && !below)
        return false;
    if (!below || (above && above->at == at))
        below = above;
    if (!above)
        above = below;
    ret_at[0] = below->at;
    ret_at[1] = above->at;
    *ret_part = above->at == below->at ? 0.0 : (double)(at - below->at) / (double)(above->at - below->at);
    return true;
}

bool grid_at(const struct grid *grid, const struct grid_row *key, enum grid_ends ends, double ret_y[2])
{
    size_t count, i = 0;
    const struct grid_row *rows = grid_curve(grid, key->model, key->type, key->at, &count);
    double part, factor = 1.0;

    if (!count)
        return false;
    while (i + 1 < count && rows[i + 1].x <= key->x)
        i++;
    if (key->x <= rows[i].x || i + 1 == count) {
        if (ends == GRID_GPUS && key->x < rows[i].x && rows[i].x > 0)
            factor = key->x / rows[i].x;
        ret_y[0] = rows[i].y[0] * factor;
        ret_y[1] = rows[i].y[1] * factor;
        return true;
    }
    part = (key->x - rows[i].x) / (rows[i + 1].x - rows[i].x);
    ret_y[0] = rows[i].y[0] + part * (rows[i + 1].y[0] - rows[i].y[0]);
    ret_y[1] = rows[i].y[1] + part * (rows[i + 1].y[1] - rows[i].y[1]);
    return true;
}

bool grid_between(const struct grid *grid, const struct grid_row *key, enum grid_ends ends, double ret_y[2])
{
    struct grid_row low = *key, high = *key;
    uint64_t at[2];
    double part, y[2];

    if (!grid_around(grid, key->model, key->type, key->at, at, &part))
        return false;
    low.at = at[0];
    high.at = at[1];
    if (!grid_at(grid, &low, ends, ret_y))
        return false;
    if (at[0] == at[1] || !grid_at(grid, &high, ends, y))
        return true;
    ret_y[0] += part * (y[0] - ret_y[0]);
    ret_y[1] += part * (y[1] - ret_y[1]);
    return true;
}
