/* SPDX-License-Identifier: Apache-2.0 */
/* output_table.c - the summary for the terminal. See output.h.
 *
 * Cells are made first and printed when all widths are known. Text to the left, numbers to the right, two spaces
 * between, no boxes.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "sim/metrics/metrics.h"
#include "sim/output/output.h"
#include "sim/output/output_group.h"
#include "sim/output/output_text.h"

enum { COLUMNS_MAX = 24, CELL_MAX = 72, LABEL_MAX = 48 };

struct cell {
    char text[CELL_MAX];
    bool best;
};

struct grid {
    struct cell *cells; /* rows x columns, owned; row 0 is the header */
    size_t rows, columns;
    bool left[COLUMNS_MAX];
};

/* Columns on the screen: code points, of which none is wide in what we print. */
static size_t text_width(const char *text)
{
    size_t width = 0;

    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static struct cell *grid_cell(struct grid *grid, size_t row, size_t column)
{
    return &grid->cells[row * grid->columns + column];
}

/* Other people's text: control characters could move the cursor, so they become '?'. Too long ends in "…". */
static void cell_text(struct cell *cell, const char *text)
{
    size_t at = 0, width = 0;

    while (*text && at + 5 < sizeof(cell->text)) {
        bool begins = ((unsigned char)*text & 0xc0) != 0x80;

        if (begins && ++width >= LABEL_MAX && text_width(text) > 1)
            break;
        cell->text[at++] = (unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text;
        text++;
    }
    cell->text[at] = 0;
    if (*text)
        memcpy(cell->text + at, "…", sizeof("…"));
}

static void grid_widths(struct grid *grid, size_t *widths)
{
    for (size_t row = 0; row < grid->rows; row++)
        for (size_t column = 0; column < grid->columns; column++) {
            size_t width = text_width(grid_cell(grid, row, column)->text);

            if (width > widths[column])
                widths[column] = width;
        }
}

static void grid_print(FILE *out, struct grid *grid, bool colour)
{
    size_t widths[COLUMNS_MAX] = { 0 };

    grid_widths(grid, widths);
    for (size_t row = 0; row < grid->rows; row++) {
        for (size_t column = 0; column < grid->columns; column++) {
            const struct cell *cell = grid_cell(grid, row, column);
            int pad = (int)(widths[column] - text_width(cell->text));
            bool last = column + 1 == grid->columns;

            if (!grid->left[column])
                fprintf(out, "%*s", pad, "");
            fprintf(out, colour && cell->best ? "\x1b[1;32m%s\x1b[0m" : "%s", cell->text);
            /* The '*' of a best number stands in the gap, so that digits stay under digits. */
            if (!last)
                fprintf(out, "%*s%s", grid->left[column] ? pad : 0, "", cell->best ? "* " : "  ");
            else if (cell->best)
                fputc('*', out);
        }
        fputc('\n', out);
    }
}

/* Which columns the comparison has. */
struct layout {
    const struct metric *metrics[COLUMNS_MAX];
    size_t metric_count;
    bool seeds;
};

static struct layout layout_of(const struct run_groups *groups)
{
    struct layout layout = { .seeds = groups->seeds };

    for (const struct metric *metric = metrics_list; metric->name; metric++) {
        bool has = metric->kind != METRIC_COUNT && metric->offset != offsetof(struct summary, deadline_miss);

        for (size_t i = 0; i < groups->count && !has; i++)
            has = group_spread(&groups->items[i], metric).max >= 0 &&
                  (metric->kind != METRIC_COUNT || group_spread(&groups->items[i], metric).max > 0);
        if (has)
            layout.metrics[layout.metric_count++] = metric;
    }
    return layout;
}

static double spread_pick(const struct spread *spread, int which)
{
    return which == 0 ? spread->min : which == 1 ? spread->mean : spread->max;
}

static void put_speedup(struct cell *cell, double ratio)
{
    if (isnan(ratio))
        snprintf(cell->text, sizeof(cell->text), "-");
    else
        snprintf(cell->text, sizeof(cell->text), "%.2fx", ratio);
}

static void fill_header(struct grid *grid, const struct layout *layout)
{
    size_t column = 0;

    grid->left[0] = true;
    cell_text(grid_cell(grid, 0, column++), "POLICY");
    if (layout->seeds) {
        cell_text(grid_cell(grid, 0, column++), "SEEDS");
        grid->left[column] = true;
        cell_text(grid_cell(grid, 0, column++), "OF");
    }
    cell_text(grid_cell(grid, 0, column++), "DONE");
    for (size_t i = 0; i < layout->metric_count; i++)
        cell_text(grid_cell(grid, 0, column++), layout->metrics[i]->name);
    cell_text(grid_cell(grid, 0, column), "SPEEDUP");
}

/* One line: the values of a group, or its least (0), mean (1) or greatest (2). */
static void fill_row(struct grid *grid, size_t row, const struct layout *layout, const struct run_groups *groups,
                     size_t index, int which)
{
    static const char *const which_names[] = { "min", "mean", "max" };
    const struct run_group *group = &groups->items[index];
    struct spread speedup = group_speedup(&groups->items[group->base], group);
    size_t column = 0;
    uint64_t done = 0;

    assert(group->count > 0); /* a group is made by its first run */
    cell_text(grid_cell(grid, row, column++), group->label);
    if (layout->seeds) {
        snprintf(grid_cell(grid, row, column++)->text, CELL_MAX, "%zu", group->count);
        cell_text(grid_cell(grid, row, column++), which_names[which]);
    }
    for (size_t i = 0; i < group->count; i++)
        done += group->runs[i]->summary.finished;
    text_count(grid_cell(grid, row, column++)->text, CELL_MAX, done / group->count);
    for (size_t i = 0; i < layout->metric_count; i++) {
        struct spread spread = group_spread(group, layout->metrics[i]);
        struct cell *cell = grid_cell(grid, row, column++);

        metric_text(layout->metrics[i], spread_pick(&spread, which), cell->text, CELL_MAX);
        cell->best = which == 1 && groups_is_best(groups, layout->metrics[i], index);
    }
    put_speedup(grid_cell(grid, row, column), spread_pick(&speedup, which));
}

static int table_compare(FILE *out, const struct run_groups *groups, bool colour)
{
    struct layout layout = layout_of(groups);
    size_t lines = layout.seeds ? 3 : 1;
    struct grid grid = { .rows = 1 + groups->count * lines, .columns = layout.metric_count + 3 + 2 * layout.seeds };

    grid.cells = mem_zalloc(grid.rows * grid.columns, sizeof(*grid.cells));
    if (!grid.cells)
        return -ENOMEM;
    fill_header(&grid, &layout);
    for (size_t i = 0; i < groups->count; i++)
        for (size_t line = 0; line < lines; line++)
            fill_row(&grid, 1 + i * lines + line, &layout, groups, i, lines == 1 ? 1 : (int)line);
    grid_print(out, &grid, colour);
    mem_free(grid.cells);
    if (groups->count > 1)
        fprintf(out, "* best%s%s; SPEEDUP is average JCT against the first line%s%s\n", groups->seeds ? " mean" : "",
                groups->traces ? " of its trace" : "", groups->seeds ? "s, seed by seed" : "",
                groups->traces ? ", trace by trace" : "");
    if (groups_unequal(groups))
        fputs("not all finished the same number of jobs: means are over different jobs\n", out);
    return 0;
}

static void put_line(FILE *out, const char *name, const char *value, double exact)
{
    fprintf(out, "%-14s %10s", name, value);
    if (!isnan(exact)) {
        fputs("  (", out);
        text_real(out, exact);
        fputs(" s)", out);
    }
    fputc('\n', out);
}

static void put_reasons(FILE *out, const struct wait_summary *waits)
{
    double sum = 0;
    char span[32], share[32];

    for (int reason = 0; reason < REASON_COUNT; reason++)
        sum += waits->by_reason[reason];
    if (sum <= 0)
        return;
    fputs("\nWAITED-FOR               TOTAL   SHARE\n", out);
    for (int reason = 0; reason < REASON_COUNT; reason++) {
        if (waits->by_reason[reason] <= 0)
            continue;
        fprintf(out, "%-20s %9s  %6s\n", reason_name((enum reason)reason),
                text_span(span, sizeof(span), waits->by_reason[reason]),
                text_ratio(share, sizeof(share), waits->by_reason[reason] / sum));
    }
}

static int table_one(FILE *out, const struct run_result *run)
{
    const struct summary *summary = &run->summary;
    struct wait_summary waits;
    char value[40];
    int r = metrics_waits(run, &waits);

    if (r < 0)
        return r;
    put_line(out, "POLICY", run->policy, (double)NAN);
    put_line(out, "JOBS", text_count(value, sizeof(value), summary->jobs), (double)NAN);
    put_line(out, "FINISHED", text_count(value, sizeof(value), summary->finished), (double)NAN);
    if (summary->failed)
        put_line(out, "FAILED", text_count(value, sizeof(value), summary->failed), (double)NAN);
    if (summary->refused)
        put_line(out, "REFUSED", text_count(value, sizeof(value), summary->refused), (double)NAN);
    for (const struct metric *metric = metrics_list; metric->name; metric++) {
        double number = metric_of(metric, run);

        if (!isnan(number))
            put_line(out, metric->name, metric_text(metric, number, value, sizeof(value)),
                     metric->kind == METRIC_SPAN ? number : (double)NAN);
    }
    put_line(out, "DECISIONS", text_count(value, sizeof(value), summary->decisions), (double)NAN);
    put_line(out, "WALL", text_span(value, sizeof(value), summary->wall_seconds), (double)NAN);
    snprintf(value, sizeof(value), "%016" PRIx64, summary->digest);
    fprintf(out, "%-8s %16s\n", "DIGEST", value);
    put_reasons(out, &waits);
    return 0;
}

int output_table(FILE *out, const struct run_result *const *runs, size_t count, bool colour)
{
    struct run_groups groups;
    int r;

    if (count == 1)
        return table_one(out, runs[0]);
    r = run_groups_init(&groups, runs, count);
    if (r < 0)
        return r;
    r = table_compare(out, &groups, colour);
    run_groups_done(&groups);
    return r;
}
