/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_trace.c - muster trace: foreign traces to the native form, and traces in numbers. */
#include "cli/sim/cmd_trace.h"

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/sim/load.h"
#include "cli/sim/trace_stat.h"
#include "cli/verbs.h"
#include "io/file.h"
#include "wire/trace/trace.h"

enum { KEY_JSON = 256 };

struct arguments {
    const char *format, *input, *output, *cluster;
    bool json, is_import;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct arguments *args = state->input;

    switch (key) {
    case 'f':
        if (!import_find(arg))
            argp_error(state, "--format: unknown format '%s'; --help lists them", arg);
        args->format = arg;
        return 0;
    case 'o':
        args->output = arg;
        return 0;
    case 'c':
        args->cluster = arg;
        return 0;
    case KEY_JSON:
        args->json = true;
        return 0;
    case 'h':
        argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
        return 0;
    case ARGP_KEY_ARG:
        if (args->input)
            argp_error(state, "one FILE, not also '%s'", arg);
        args->input = arg;
        return 0;
    case ARGP_KEY_END:
        if (!args->input)
            argp_error(state, "FILE is missing; - is standard input");
        if (args->is_import && !args->format)
            argp_error(state, "--format is missing; --help lists them");
        if (args->is_import && !args->output)
            argp_error(state, "--output is missing: a file, or - for standard output");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* The list of formats at the end of --help comes from the register. */
static char *describe(int key, const char *text, void *input)
{
    struct buf buf = BUF_INIT(4096);
    char *copy;

    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC)
        return (char *)(uintptr_t)text;
    buf_text(&buf, "Formats:\n");
    for (const struct import_format *format = import_formats; format->name; format++)
        buf_printf(&buf, "  %-12s%s\n", format->name, format->summary);
    copy = buf.error ? NULL : strndup(buf.data, buf.size);
    buf_done(&buf);
    return copy;
}

static int trace_import(int argc, char **argv)
{
    static const struct argp_option options[] = {
        { "format", 'f', "FORMAT", 0, "What FILE is; see the list below", 0 },
        { "output", 'o', "OUT.csv", 0, "Where the native trace goes; - is standard output", 0 },
        { NULL, 'h', NULL, OPTION_HIDDEN, NULL, 0 },
        { 0 },
    };
    static const struct argp argp = { options, parse,    "FILE", "Turn a published trace into the native one.\v",
                                      NULL,    describe, NULL };
    struct arguments args = { .is_import = true };
    CLEANUP_BYTES struct bytes bytes = { 0 };
    struct trace trace = { 0 };
    struct error err = { 0 };
    int r = cli_parse(&argp, argc, argv, &args);

    if (r != CODE_DONE)
        return r;
    r = trace_load(args.input, args.format, &trace, &err);
    if (r < 0)
        return cli_fail(r, &err);
    r = trace_write(&trace, &bytes, &err);
    if (r == 0)
        r = file_write_atomic(args.output, bytes.data, bytes.size, &err);
    if (r == 0 && strcmp(args.output, "-") != 0)
        fprintf(stderr, "%s: %zu jobs\n", args.output, trace.count);
    trace_done(&trace);
    return r < 0 ? cli_fail(r, &err) : CODE_DONE;
}

static int stat_print(const struct arguments *args, const struct trace_stat *stat, int64_t gpus, struct error *err)
{
    CLEANUP_BUF struct buf out = BUF_INIT((size_t)1 << 20);
    CLEANUP_BYTES struct bytes bytes = { 0 };
    int r;

    if (!args->json) {
        trace_stat_print(stdout, stat, file_label(args->input), args->cluster, gpus);
        return 0;
    }
    trace_stat_json(&out, stat, file_label(args->input), gpus);
    r = buf_take(&out, &bytes, err);
    if (r == 0)
        fputs(bytes.data, stdout);
    return r;
}

static int trace_stat_run(int argc, char **argv)
{
    static const struct argp_option options[] = {
        { "format", 'f', "FORMAT", 0, "What FILE is, when it is not a native trace", 0 },
        { "cluster", 'c', "CLUSTER", 0, "Also the load it offers to this cluster: 3x8, or a file", 0 },
        { "json", KEY_JSON, NULL, 0, "For programs", 0 },
        { NULL, 'h', NULL, OPTION_HIDDEN, NULL, 0 },
        { 0 },
    };
    static const struct argp argp = { options, parse,    "FILE", "Describe a trace: jobs, sizes, durations, load.\v",
                                      NULL,    describe, NULL };
    struct arguments args = { 0 };
    struct cluster_spec cluster = { 0 };
    struct trace trace = { 0 };
    struct trace_stat stat;
    struct error err = { 0 };
    int r = cli_parse(&argp, argc, argv, &args);

    if (r != CODE_DONE)
        return r;
    if (args.cluster)
        r = cluster_load(args.cluster, &cluster, &err);
    if (r == 0)
        r = trace_load(args.input, args.format, &trace, &err);
    if (r == 0)
        r = trace_stat(&trace, &stat, &err);
    if (r == 0)
        r = stat_print(&args, &stat, cluster_gpus(&cluster), &err);
    trace_done(&trace);
    cluster_spec_done(&cluster);
    return r < 0 ? cli_fail(r, &err) : CODE_DONE;
}

static const struct verb verbs[] = {
    { "import", "turn a published trace into the native one", trace_import },
    { "stat", "describe a trace: jobs, sizes, durations, load", trace_stat_run },
    { 0 },
};

int cmd_trace(int argc, char **argv)
{
    return verb_dispatch("muster trace", verbs, argc, argv);
}
