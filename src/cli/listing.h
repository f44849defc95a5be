/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* listing.h - listings: upper-case headers, text to the left, numbers to the right, two blanks between, no boxes.
 *
 * Cells are gathered row by row, then shown in the form that was asked for. On a terminal the widest text column gives
 * way first; what was cut ends in an ellipsis.
 */
#include <jansson.h>

#include "base/buf.h"
#include "cli/cli.h"

enum { TABLE_COLUMNS_MAX = 24 };

struct column {
    const char *header;
    bool right;   /* numbers */
    bool wide;    /* only with -o wide */
    bool state;   /* coloured by what it says, on a terminal */
    bool squeeze; /* may be cut to fit the terminal */
};

struct listing {
    const struct column *columns;
    size_t column_count;
    char **cells; /* owned; row by row */
    size_t count, capacity;
    size_t names; /* -o name: the column to show; 0, the first, unless it is set after listing_init() */
};

void listing_init(struct listing *table, const struct column *columns, size_t column_count);
void listing_done(struct listing *table);
/* The next cell; NULL is "-". Its text is made harmless. */
void listing_add(struct listing *table, const char *text);
void listing_addf(struct listing *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A copy of what somebody named something, for people to look at: control characters as '?', marks that turn the
 * direction of a line or hide in it as <U+202E>. NULL without memory. */
char *text_harmless(const char *text);

/* The same for all texts of an answer, which is then good for nothing else. */
void json_harmless(json_t *json);

/* Shows it as -o, --columns, --sort and --no-header say. `items`: what -o json and yaml show; `kind`: of the list.
 * Returns the exit code. */
int listing_show(struct listing *table, const struct command_args *args, const char *kind, json_t *items);

/* One object: JSON with --json, YAML otherwise where `-o yaml`; false when neither was asked for. */
bool show_object(const struct command_args *args, json_t *json);
bool object_wanted(const struct command_args *args); /* it would be shown */
void show_json(json_t *json);
void show_yaml(json_t *json, int indent);

/* Whether colours are wanted on standard output. */
bool show_colours(const struct command_args *args);
