/* SPDX-License-Identifier: Apache-2.0 */
/* listing.c - see listing.h. */
#include "cli/listing.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "wire/text/json_quick.h"
#include "wire/text/json_write.h"

enum { CELLS_MAX = 20000000 };

void listing_init(struct listing *table, const struct column *columns, size_t column_count)
{
    *table = (struct listing){ .columns = columns, .column_count = column_count };
}

void listing_done(struct listing *table)
{
    for (size_t i = 0; i < table->count; i++)
        mem_free(table->cells[i]);
    mem_free(table->cells);
    *table = (struct listing){ 0 };
}

/* Turns the direction of what follows, joins, or breaks lines: U+061C and most of U+200B to U+2069. Three bytes at
 * most. */
static unsigned hidden_at(const unsigned char *c, size_t *length)
{
    unsigned code = 0;

    *length = 1;
    if ((c[0] & 0xe0) == 0xc0 && (c[1] & 0xc0) == 0x80) {
        code = (c[0] & 0x1fU) << 6 | (c[1] & 0x3fU);
        *length = 2;
    } else if ((c[0] & 0xf0) == 0xe0 && (c[1] & 0xc0) == 0x80 && (c[2] & 0xc0) == 0x80) {
        code = (c[0] & 0x0fU) << 12 | (c[1] & 0x3fU) << 6 | (c[2] & 0x3fU);
        *length = 3;
    }
    if ((code >= 0x80 && code < 0xa0) || code == 0x61c || (code >= 0x200b && code <= 0x200f) ||
        (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x2069) || code == 0xfeff ||
        (code >= 0xfff9 && code <= 0xfffb))
        return code;
    *length = 1;
    return 0;
}

char *text_harmless(const char *text)
{
    char *out = mem_zalloc(strlen(text) * 4 + 1, 1), *at = out; /* two bytes become eight: <U+061C> */

    for (const unsigned char *c = (const unsigned char *)text; out && *c;) {
        size_t length;
        unsigned code = hidden_at(c, &length);

        if (code)
            at += snprintf(at, sizeof("<U+FFFF>"), "<U+%04X>", code);
        else
            *at++ = (char)(*c < 0x20 || *c == 0x7f ? '?' : *c);
        c += length;
    }
    return out;
}

void json_harmless(json_t *json)
{
    const char *key;
    json_t *value;
    size_t i;

    if (json_is_string(json)) {
        CLEANUP(mem_free) char *text = text_harmless(json_string_value(json));

        (void)json_string_set(json, text ? text : "");
    }
    json_array_foreach(json, i, value) json_harmless(value);
    json_object_foreach(json, key, value) json_harmless(value);
}

void listing_add(struct listing *table, const char *text)
{
    /* What users named things must not move the cursor, nor turn the line around. */
    char *copy = text_harmless(text && *text ? text : "-");

    if (!copy ||
        mem_grow((void **)&table->cells, &table->capacity, table->count + 1, CELLS_MAX, sizeof(*table->cells)) < 0) {
        (void)fprintf(stderr, "muster: error: out of memory\n");
        exit(CODE_FAILED);
    }
    table->cells[table->count++] = copy;
}

void listing_addf(struct listing *table, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    listing_add(table, text);
}

bool show_colours(const struct command_args *args)
{
    const char *when = args_value(args, "color"), *none = getenv("NO_COLOR"); /* NOLINT(concurrency-mt-unsafe) */

    if (when && strcmp(when, "always") == 0)
        return true;
    return !(when && strcmp(when, "never") == 0) && !(none && *none) && isatty(STDOUT_FILENO);
}

void show_json(json_t *json)
{
    char *text = json_text(json, NULL);

    (void)puts(text ? text : "null");
    mem_free(text);
}

static void yaml_scalar(json_t *json)
{
    char *text;

    if (json_is_string(json)) {
        struct buf out = BUF_INIT(64 << 20);

        json_put_string(&out, json_string_value(json), json_string_length(json));
        (void)fputs(out.data ? out.data : "\"\"", stdout);
        buf_done(&out);
        return;
    }
    text = json_dumps(json, JSON_ENCODE_ANY | JSON_COMPACT);
    (void)fputs(text ? text : "null", stdout);
    mem_free(text);
}

static bool is_leaf(json_t *json)
{
    return !(json_is_object(json) && json_object_size(json)) && !(json_is_array(json) && json_array_size(json));
}

void show_yaml(json_t *json, int indent)
{
    const char *key;
    json_t *value;
    size_t i;

    if (is_leaf(json)) {
        (void)printf("%*s", indent, "");
        yaml_scalar(json);
        (void)putchar('\n');
        return;
    }
    json_object_foreach(json, key, value)
    {
        (void)printf("%*s%s:%s", indent, "", key, is_leaf(value) ? " " : "\n");
        if (is_leaf(value)) {
            yaml_scalar(value);
            (void)putchar('\n');
        } else {
            show_yaml(value, indent + 2);
        }
    }
    json_array_foreach(json, i, value)
    {
        (void)printf("%*s-%s", indent, "", is_leaf(value) ? " " : "\n");
        if (is_leaf(value)) {
            yaml_scalar(value);
            (void)putchar('\n');
        } else {
            show_yaml(value, indent + 2);
        }
    }
}

bool object_wanted(const struct command_args *args)
{
    const char *form = args_value(args, "output");

    return args_has(args, "json") || (form && (strcmp(form, "json") == 0 || strcmp(form, "yaml") == 0));
}

bool show_object(const struct command_args *args, json_t *json)
{
    if (!object_wanted(args))
        return false;
    if (args_has(args, "json") || strcmp(args_value(args, "output"), "json") == 0)
        show_json(json);
    else
        show_yaml(json, 0);
    return true;
}

/* Characters, not bytes. */
static size_t width_of(const char *text)
{
    size_t width = 0;

    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

struct layout {
    size_t shown[TABLE_COLUMNS_MAX], count; /* columns, in order */
    size_t width[TABLE_COLUMNS_MAX];
    size_t *rows, row_count;
    long sort; /* column; -1 = as they come */
    bool descending;
    const struct listing *table;
};

static const char *cell(const struct layout *layout, size_t row, size_t column)
{
    return layout->table->cells[row * layout->table->column_count + column];
}

static long column_find(const struct listing *table, const char *name, size_t length)
{
    for (size_t i = 0; i < table->column_count; i++)
        if (strlen(table->columns[i].header) == length && strncasecmp(table->columns[i].header, name, length) == 0)
            return (long)i;
    return -1;
}

static int column_unknown(const struct listing *table, const struct command_args *args, const char *flag,
                          const char *name, size_t length)
{
    char known[400] = "";

    for (size_t i = 0; i < table->column_count; i++)
        (void)snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s", i ? ", " : "",
                       table->columns[i].header);
    return args_wrong(args, "--%s: no column '%.*s'; there are %s", flag, (int)(length < 40 ? length : 40), name,
                      known);
}

static int columns_choose(struct layout *layout, const struct command_args *args)
{
    const struct listing *table = layout->table;
    const char *list = args_value(args, "columns"), *form = args_value(args, "output"),
               *sort = args_value(args, "sort");
    bool wide = form && strcmp(form, "table") != 0; /* csv too: all there is */

    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        long found = column_find(table, at, strcspn(at, ","));

        if (found < 0 || layout->count == TABLE_COLUMNS_MAX)
            return column_unknown(table, args, "columns", at, strcspn(at, ","));
        layout->shown[layout->count++] = (size_t)found;
    }
    for (size_t i = 0; !list && i < table->column_count; i++)
        if (wide || !table->columns[i].wide)
            layout->shown[layout->count++] = i;
    layout->sort = -1;
    if (sort) {
        layout->descending = *sort == '-';
        sort += layout->descending;
        layout->sort = column_find(table, sort, strlen(sort));
        if (layout->sort < 0)
            return column_unknown(table, args, "sort", sort, strlen(sort));
    }
    return 0;
}

static const struct layout *sorting; /* qsort() takes no argument */

static int row_compare(const void *a, const void *b)
{
    const struct layout *layout = sorting;
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    const char *one = cell(layout, x, (size_t)layout->sort), *two = cell(layout, y, (size_t)layout->sort);
    char *one_end, *two_end;
    double p = strtod(one, &one_end), q = strtod(two, &two_end);
    int order = one_end > one && two_end > two ? (p > q) - (p < q) : strcmp(one, two);

    if (layout->descending)
        order = -order;
    return order ? order : (x > y) - (x < y);
}

/* Cuts what may be cut until the line fits. */
static void fit(struct layout *layout)
{
    struct winsize size;
    size_t total = 0, room;

    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col < 40)
        return;
    room = size.ws_col;
    for (size_t i = 0; i < layout->count; i++)
        total += layout->width[i] + (i ? 2 : 0);
    while (total > room) {
        size_t widest = TABLE_COLUMNS_MAX;

        for (size_t i = 0; i < layout->count; i++)
            if (layout->table->columns[layout->shown[i]].squeeze && layout->width[i] > 8 &&
                (widest == TABLE_COLUMNS_MAX || layout->width[i] > layout->width[widest]))
                widest = i;
        if (widest == TABLE_COLUMNS_MAX)
            return;
        layout->width[widest]--;
        total--;
    }
}

static const char *colour_of(const char *state)
{
    static const struct {
        const char *word, *colour;
    } colours[] = { { "RUNNING", "32" },  { "COMPLETED", "32" }, { "idle", "32" },  { "PENDING", "33" },
                    { "STARTING", "36" }, { "mixed", "36" },     { "alloc", "36" }, { "SUSPENDED", "35" },
                    { "drain", "33" },    { "draining", "33" } };

    for (size_t i = 0; i < sizeof(colours) / sizeof(colours[0]); i++)
        if (strcmp(colours[i].word, state) == 0)
            return colours[i].colour;
    return "31";
}

/* Text in its width; the last column is not filled up. */
static void put(const char *text, size_t width, bool right, bool last, const char *colour)
{
    size_t have = width_of(text);

    if (right && have < width)
        (void)printf("%*s", (int)(width - have), "");
    if (colour)
        (void)printf("\033[%sm", colour);
    if (have > width) {
        size_t keep = 0;

        for (const char *c = text; *c && keep < width; c++) {
            if (((unsigned char)*c & 0xc0) != 0x80 && ++keep == width)
                break;
            (void)putchar(*c);
        }
        (void)fputs("…", stdout);
    } else {
        (void)fputs(text, stdout);
    }
    if (colour)
        (void)fputs("\033[0m", stdout);
    if (!right && !last && have < width)
        (void)printf("%*s", (int)(width - have), "");
}

static void lines_show(struct layout *layout, const struct command_args *args)
{
    const struct column *columns = layout->table->columns;
    bool header = !args_has(args, "no-header"), colours = show_colours(args);

    for (size_t i = 0; i < layout->count; i++) {
        layout->width[i] = header ? width_of(columns[layout->shown[i]].header) : 1;
        for (size_t r = 0; r < layout->row_count; r++) {
            size_t width = width_of(cell(layout, r, layout->shown[i]));

            layout->width[i] = width > layout->width[i] ? width : layout->width[i];
        }
    }
    fit(layout);
    for (size_t r = 0; r <= layout->row_count; r++) {
        if (r == 0 && !header)
            continue;
        for (size_t i = 0; i < layout->count; i++) {
            const struct column *column = &columns[layout->shown[i]];
            const char *text = r ? cell(layout, layout->rows[r - 1], layout->shown[i]) : column->header;

            if (i)
                (void)fputs("  ", stdout);
            put(text, layout->width[i], column->right, i + 1 == layout->count,
                colours && r && column->state ? colour_of(text) : NULL);
        }
        (void)putchar('\n');
    }
}

static void csv_put(const char *text)
{
    if (!text[strcspn(text, ",\"\n")]) {
        (void)fputs(text, stdout);
        return;
    }
    (void)putchar('"');
    for (; *text; text++) {
        if (*text == '"')
            (void)putchar('"');
        (void)putchar(*text);
    }
    (void)putchar('"');
}

static void csv_show(const struct layout *layout, const struct command_args *args)
{
    for (size_t r = args_has(args, "no-header") ? 1 : 0; r <= layout->row_count; r++)
        for (size_t i = 0; i < layout->count; i++) {
            csv_put(r ? cell(layout, layout->rows[r - 1], layout->shown[i])
                      : layout->table->columns[layout->shown[i]].header);
            (void)putchar(i + 1 == layout->count ? '\n' : ',');
        }
}

int listing_show(struct listing *table, const struct command_args *args, const char *kind, json_t *items)
{
    const char *form = args_value(args, "output");
    struct layout layout = { .table = table,
                             .row_count = table->column_count ? table->count / table->column_count : 0 };
    int r;

    if (args_has(args, "json"))
        form = "json";
    if (form && (strcmp(form, "json") == 0 || strcmp(form, "yaml") == 0)) {
        json_t *list = json_pack("{s:s, s:s, s:O, s:n}", "apiVersion", "v1", "kind", kind, "items", items, "next");

        if (strcmp(form, "json") == 0)
            show_json(list);
        else
            show_yaml(list, 0);
        json_decref(list);
        return CODE_DONE;
    }
    if (form && strcmp(form, "table") != 0 && strcmp(form, "wide") != 0 && strcmp(form, "csv") != 0 &&
        strcmp(form, "name") != 0)
        return args_wrong(args, "--output: expected table, wide, json, yaml, csv or name, got '%.40s'", form);
    r = columns_choose(&layout, args);
    if (r)
        return r;
    layout.rows = mem_zalloc(layout.row_count + 1, sizeof(*layout.rows));
    if (!layout.rows)
        return problem_print(&(struct problem){ .exit = CODE_FAILED, .text = "out of memory" });
    for (size_t i = 0; i < layout.row_count; i++)
        layout.rows[i] = i;
    sorting = &layout;
    if (layout.sort >= 0)
        qsort(layout.rows, layout.row_count, sizeof(*layout.rows), row_compare);
    if (form && strcmp(form, "name") == 0)
        for (size_t i = 0; i < layout.row_count; i++)
            (void)puts(cell(&layout, layout.rows[i], table->names));
    else if (form && strcmp(form, "csv") == 0)
        csv_show(&layout, args);
    else
        lines_show(&layout, args);
    mem_free(layout.rows);
    return CODE_DONE;
}
