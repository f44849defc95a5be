/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_cell.c - muster cell replay, tree, ls, show. */
#include "cli/cells/cmd_cell.h"

#include <argp.h>
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/cells/cell_replay.h"
#include "cli/cells/cell_run.h"
#include "cli/cli.h"
#include "cli/sim/load.h"
#include "cli/verbs.h"
#include "wire/hived/hived_write.h"
#include "wire/text/json_read.h"

#define EXPANDED_BYTES_MAX ((size_t)1 << 28)
enum { ADDRESS_MAX = 512, OPT_JSON = 256, OPT_AS, ARGS_MAX = 1 << 14 };

struct cell_args {
    const char *cluster, *list[ARGS_MAX]; /* the cluster by -c, or else as the first argument */
    int count, min, max;
    bool json, with_cluster, replays;
    enum replay_manner manner;
};

/* Without -c, the first argument is the cluster. */
static void args_end(struct cell_args *a, struct argp_state *state)
{
    if (a->with_cluster && !a->cluster && a->count > 0) {
        a->cluster = a->list[0];
        memmove(a->list, a->list + 1, (size_t)--a->count * sizeof(a->list[0]));
    }
    if (a->with_cluster && !a->cluster)
        argp_error(state, "CLUSTER is missing: a file, HiveD's or ours, or a string such as 4x8:H100");
    if (a->count < a->min)
        argp_error(state, a->with_cluster ? "ADDRESS of a cell is missing" : "SCRIPT is missing");
    if (a->count > a->max)
        argp_error(state, "too many arguments");
}

static error_t args_parse(int key, char *arg, struct argp_state *state)
{
    struct cell_args *a = state->input;

    if (key == OPT_JSON)
        a->json = true;
    else if (key == 'c')
        a->cluster = arg;
    else if (key == OPT_AS && strcmp(arg, "described") == 0)
        a->manner = REPLAY_DESCRIBED;
    else if (key == OPT_AS && strcmp(arg, "hived") == 0)
        a->manner = REPLAY_HIVED;
    else if (key == OPT_AS && strcmp(arg, "either") != 0)
        argp_error(state, "--as: expected described, hived or either, not '%s'", arg);
    else if (key == OPT_AS)
        a->manner = REPLAY_EITHER;
    else if (key == ARGP_KEY_ARG && a->count < ARGS_MAX)
        a->list[a->count++] = arg;
    else if (key == ARGP_KEY_ARG)
        argp_error(state, "too many arguments");
    else if (key == ARGP_KEY_END)
        args_end(a, state);
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

static const struct argp_option options[] = { { "json", OPT_JSON, NULL, 0, "JSON on standard output", 0 }, { 0 } };
static const struct argp_option replay_options[] = {
    { "as", OPT_AS, "MANNER", 0,
      "Answer by HiveD's rules with ties in the order of the file (described), as HiveD itself with its habits "
      "(hived), "
      "or as each case was recorded (either)",
      0 },
    { "json", OPT_JSON, NULL, 0, "JSON on standard output", 0 },
    { 0 },
};
static const struct argp_option cluster_options[] = {
    { "cluster", 'c', "CLUSTER", 0, "A file, HiveD's or ours, or a string such as 4x8:H100; also as an argument", 0 },
    { "json", OPT_JSON, NULL, 0, "JSON on standard output", 0 },
    { 0 },
};

static int parse(const char *usage, const char *doc, int argc, char **argv, struct cell_args *a)
{
    struct argp argp = { options, args_parse, usage, doc, NULL, NULL, NULL };

    if (a->with_cluster || a->replays)
        argp.options = a->with_cluster ? cluster_options : replay_options;

    return cli_parse(&argp, argc, argv, a);
}

static int cell_replay_cmd(int argc, char **argv)
{
    struct cell_args a = { .min = 1, .max = ARGS_MAX, .replays = true };
    bool bad = false;
    __attribute__((cleanup(cleanup_json_decref))) json_t *cases = NULL;
    struct replay_totals totals = { 0 };
    struct error err = { 0 };
    int code = parse("SCRIPT...",
                     "Drives the cell allocator by scripts and checks its answers. Exit status: 0 all "
                     "cases pass, 1 a case failed, 2 a script is bad.",
                     argc, argv, &a);

    if (code != CODE_DONE)
        return code;
    if (a.json)
        cases = json_array();
    for (int i = 0; i < a.count; i++) {
        if (cell_replay(a.list[i], a.manner, cases, &totals, &err) < 0) {
            (void)fprintf(stderr, "muster: error: %s\n", err.text);
            bad = true;
        }
    }
    if (a.json) {
        __attribute__((cleanup(cleanup_json_decref))) json_t *out =
            json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:O}", "apiVersion", "v1", "kind", "CellReplay",
                      "passed", (json_int_t)totals.passed, "failed", (json_int_t)totals.failed, "exact",
                      (json_int_t)totals.exact, "equivalent", (json_int_t)totals.equivalent, "steps",
                      (json_int_t)totals.steps, "asHived", (json_int_t)totals.hived, "items", cases);

        (void)json_dumpf(out, stdout, JSON_INDENT(1));
        (void)putchar('\n');
    } else {
        (void)printf("%ld cases: %ld passed, %ld failed; %ld steps; answers: %ld exact, %ld equivalent\n",
                     totals.passed + totals.failed, totals.passed, totals.failed, totals.steps, totals.exact,
                     totals.equivalent);
        if (totals.hived > 0)
            (void)printf("%ld of them as HiveD itself\n", totals.hived);
    }
    if (bad)
        return CODE_USAGE;
    return totals.failed ? CODE_FAILED : CODE_DONE;
}

static void warnings_print(const struct hived_warnings *warnings)
{
    for (int i = 0; i < warnings->count && i < HIVED_WARNINGS_MAX; i++)
        (void)fprintf(stderr, "muster: warning: %s\n", warnings->text[i]);
    if (warnings->count > HIVED_WARNINGS_MAX)
        (void)fprintf(stderr, "muster: warning: and %d more\n", warnings->count - HIVED_WARNINGS_MAX);
}

static int cluster_cells_load(void *context, const char *name, struct cell_spec *ret_spec,
                              struct hived_warnings *warnings, struct error *err)
{
    (void)context;
    return cell_spec_load(name, ret_spec, NULL, warnings, err);
}

static int run_open(const char *file, struct cell_run *run)
{
    struct hived_warnings warnings = { 0 };
    struct error err = { 0 };
    int r;

    *run = (struct cell_run){ .load = cluster_cells_load };
    r = cell_run_open(run, file, &warnings, &err);

    warnings_print(&warnings);
    return r < 0 ? cli_fail(r, &err) : CODE_DONE;
}

static const char *const state_names[] = { "Free", "Used", "Reserving", "Reserved" };

static json_t *cell_json(const struct cells *s, uint32_t cell, bool deep)
{
    char address[ADDRESS_MAX];
    struct cell_info info;
    json_t *o, *children;

    cells_get(s, cell, &info);
    cells_address(s, cell, address, sizeof(address));
    o = json_pack("{s:s, s:s, s:s, s:s, s:i, s:i}", "cellType", cells_type_name(s, info.type), "cellAddress", address,
                  "cellState", state_names[info.state], "cellHealthiness", info.healthy ? "Healthy" : "Bad",
                  "cellPriority", (int)info.priority, "leafCells", (int)info.leaves);
    if (info.vc != CELL_NONE)
        (void)json_object_set_new(o, "vc", json_string(cells_vc_name(s, info.vc)));
    if (info.peer != CELL_NONE) {
        cells_address(s, info.peer, address, sizeof(address));
        (void)json_object_set_new(o, info.is_virtual ? "physicalCell" : "virtualCell", json_string(address));
    }
    children = deep && info.child_count ? json_array() : NULL;
    for (uint32_t i = 0; children && i < info.child_count; i++)
        (void)json_array_append_new(children, cell_json(s, info.child_first + i, true));
    if (children)
        (void)json_object_set_new(o, "cellChildren", children);
    return o;
}

static void cell_line(const struct cells *s, uint32_t cell, int depth)
{
    char address[ADDRESS_MAX];
    struct cell_info info;

    cells_get(s, cell, &info);
    cells_address(s, cell, address, sizeof(address));
    (void)printf("%*s%s  %s  %u leaf cell%s", depth * 2, "", address, cells_type_name(s, info.type), info.leaves,
                 info.leaves == 1 ? "" : "s");
    if (info.vc != CELL_NONE)
        (void)printf("  vc %s", cells_vc_name(s, info.vc));
    if (info.pinned)
        (void)printf("  pinned");
    if (info.peer != CELL_NONE) {
        cells_address(s, info.peer, address, sizeof(address));
        (void)printf("  = %s", address);
    }
    (void)printf("%s\n", info.healthy ? "" : "  Bad");
    for (uint32_t i = 0; i < info.child_count; i++)
        cell_line(s, info.child_first + i, depth + 1);
}

static int cell_tree(int argc, char **argv)
{
    struct cell_args a = { .with_cluster = true };
    struct cell_run run;
    __attribute__((cleanup(cleanup_json_decref))) json_t *physical = json_array(), *virtuals = json_array();
    int code =
        parse("[CLUSTER]", "Prints the physical cells of a configuration, then the virtual ones.", argc, argv, &a);

    if (code == CODE_DONE)
        code = run_open(a.cluster, &run);
    if (code != CODE_DONE)
        return code;
    for (uint32_t c = 0; c < cells_count(run.cells); c++) {
        struct cell_info info;

        cells_get(run.cells, c, &info);
        if (info.parent != CELL_NONE)
            continue;
        if (a.json)
            (void)json_array_append_new(info.is_virtual ? virtuals : physical, cell_json(run.cells, c, true));
        else
            cell_line(run.cells, c, 0);
    }
    if (a.json) {
        json_t *out = json_pack("{s:s, s:s, s:O, s:O}", "apiVersion", "v1", "kind", "CellTree", "physicalCells",
                                physical, "virtualCells", virtuals);

        (void)json_dumpf(out, stdout, JSON_INDENT(1));
        (void)putchar('\n');
        json_decref(out);
    }
    cell_run_close(&run);
    return CODE_DONE;
}

/* One line a virtual cluster, chain and type: how many cells it is granted. */
static int cell_ls(int argc, char **argv)
{
    struct cell_args a = { .with_cluster = true };
    struct cell_run run;
    __attribute__((cleanup(cleanup_json_decref))) json_t *items = json_array();
    uint32_t count = 0;
    struct cell_info info, next;
    int code = parse("[CLUSTER]", "Lists what each virtual cluster is granted.", argc, argv, &a);

    if (code == CODE_DONE)
        code = run_open(a.cluster, &run);
    if (code != CODE_DONE)
        return code;
    if (!a.json)
        (void)printf("%-16s  %-24s  %-24s  %6s  %10s\n", "VC", "CHAIN", "CELL", "COUNT", "LEAF-CELLS");
    for (uint32_t c = cells_virtual_first(run.cells); c < cells_count(run.cells); c++) {
        cells_get(run.cells, c, &info);
        if (info.parent != CELL_NONE)
            continue;
        count++;
        if (c + 1 < cells_count(run.cells))
            cells_get(run.cells, c + 1, &next);
        if (c + 1 < cells_count(run.cells) && next.parent == CELL_NONE && next.vc == info.vc &&
            next.type == info.type && next.chain == info.chain && next.pinned == info.pinned)
            continue;
        if (a.json)
            (void)json_array_append_new(
                items,
                json_pack("{s:s, s:s, s:s, s:i, s:i, s:b}", "vc", cells_vc_name(run.cells, info.vc), "chain",
                          cells_type_name(run.cells, info.chain), "cellType", cells_type_name(run.cells, info.type),
                          "count", (int)count, "leafCells", (int)(count * info.leaves), "pinned", info.pinned));
        else
            (void)printf("%-16s  %-24s  %-24s  %6u  %10u%s\n", cells_vc_name(run.cells, info.vc),
                         cells_type_name(run.cells, info.chain), cells_type_name(run.cells, info.type), count,
                         count * info.leaves, info.pinned ? "  pinned" : "");
        count = 0;
    }
    if (a.json) {
        json_t *out = json_pack("{s:s, s:s, s:O}", "apiVersion", "v1", "kind", "CellList", "items", items);

        (void)json_dumpf(out, stdout, JSON_INDENT(1));
        (void)putchar('\n');
        json_decref(out);
    }
    cell_run_close(&run);
    return CODE_DONE;
}

static int cell_show(int argc, char **argv)
{
    struct cell_args a = { .min = 1, .max = 1, .with_cluster = true };
    struct cell_run run;
    char address[ADDRESS_MAX];
    uint32_t c = 0;
    int code = parse("[CLUSTER] ADDRESS", "Shows one cell and what is inside it.", argc, argv, &a);

    if (code == CODE_DONE)
        code = run_open(a.cluster, &run);
    if (code != CODE_DONE)
        return code;
    for (; c < cells_count(run.cells); c++) {
        cells_address(run.cells, c, address, sizeof(address));
        if (strcmp(address, a.list[0]) == 0)
            break;
    }
    if (c == cells_count(run.cells)) {
        (void)fprintf(stderr, "muster: error: no cell '%s'\nhint: muster cell tree %s lists them\n", a.list[0],
                      a.cluster);
        code = CODE_NOT_FOUND;
    } else if (a.json) {
        json_t *out = cell_json(run.cells, c, true);

        (void)json_dumpf(out, stdout, JSON_INDENT(1));
        (void)putchar('\n');
        json_decref(out);
    } else {
        cell_line(run.cells, c, 0);
    }
    cell_run_close(&run);
    return code;
}

static void expansion_print(const struct buf *words, const struct buf *config)
{
    for (const char *line = words->data; line && *line; line = strchr(line, '\n') + 1)
        (void)printf("# %.*s\n", (int)(strchr(line, '\n') - line), line);
    (void)fwrite(config->data, 1, config->size, stdout);
}

static void expansion_json(const struct buf *words, const struct buf *config)
{
    json_t *list = json_array(), *out;

    for (const char *line = words->data; line && *line; line = strchr(line, '\n') + 1)
        (void)json_array_append_new(list, json_stringn_nocheck(line, (size_t)(strchr(line, '\n') - line)));
    out = json_pack("{s:s, s:s, s:o, s:o}", "apiVersion", "v1", "kind", "CellExpansion", "understood", list, "config",
                    json_stringn_nocheck(config->data, config->size));
    (void)json_dumpf(out, stdout, JSON_INDENT(1));
    (void)putchar('\n');
    json_decref(out);
}

/* The same cells as a configuration of HiveD's; what the words were taken to mean, as comments. */
static int cell_expand(int argc, char **argv)
{
    struct cell_args a = { .with_cluster = true };
    struct hived_warnings warnings = { 0 };
    struct cell_spec spec = { 0 };
    CLEANUP_BUF struct buf words = BUF_INIT(EXPANDED_BYTES_MAX), out = BUF_INIT(EXPANDED_BYTES_MAX);
    struct error err = { 0 };
    int r, code = parse("[CLUSTER]",
                        "Prints the cells of a cluster and what its virtual clusters are granted as a configuration "
                        "file of HiveD's. How guarantees in words were understood is told in comments.",
                        argc, argv, &a);

    if (code != CODE_DONE)
        return code;
    r = cell_spec_load(a.cluster, &spec, &words, &warnings, &err);
    if (r < 0)
        return cli_fail(r, &err);
    warnings_print(&warnings);
    hived_config_write(&spec, &out);
    cell_spec_done(&spec);
    if (out.error || words.error)
        return cli_fail(out.error, &err);
    if (a.json)
        expansion_json(&words, &out);
    else
        expansion_print(&words, &out);
    return CODE_DONE;
}

int cmd_cell(int argc, char **argv)
{
    static const struct verb verbs[] = {
        { "replay", "drive the cell allocator by scripts and check its answers", cell_replay_cmd },
        { "tree", "the cells of a configuration", cell_tree },
        { "ls", "what each virtual cluster is granted", cell_ls },
        { "show", "one cell", cell_show },
        { "expand", "guarantees in words as cells, in HiveD's form", cell_expand },
        { 0 },
    };

    return verb_dispatch("muster cell", verbs, argc, argv);
}
