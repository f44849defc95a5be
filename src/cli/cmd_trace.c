/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_trace.c - muster trace: foreign traces to the native form, and traces in numbers. */
#include "cli/cmd_trace.h"

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cli/load.h"
#include "cli/trace_stat.h"
#include "io/file.h"
#include "wire/trace.h"

enum { EXIT_OK, EXIT_FAILED, EXIT_USAGE, KEY_JSON = 256 };

struct arguments {
    const char *format, *input, *output, *cluster;
    bool json;
};

static int failed(const struct error *err)
{
    fprintf(stderr, "muster: error: %s\n", err->text);
    return EXIT_FAILED;
}

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
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "FILE is missing; - is standard input");
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
    struct arguments args = { 0 };
    CLEANUP_BYTES struct bytes bytes = { 0 };
    struct trace trace = { 0 };
    struct error err = { 0 };
    int r;

    if (argp_parse(&argp, argc, argv, 0, NULL, &args))
        return EXIT_USAGE;
    if (!args.format || !args.output) {
        fprintf(stderr, "muster: error: --%s is missing\n", args.format ? "output" : "format");
        return EXIT_USAGE;
    }
    r = trace_load(args.input, args.format, &trace, &err);
    if (r < 0)
        return failed(&err);
    r = trace_write(&trace, &bytes, &err);
    if (r == 0)
        r = file_write_atomic(args.output, bytes.data, bytes.size, &err);
    if (r == 0 && strcmp(args.output, "-") != 0)
        fprintf(stderr, "%s: %zu jobs\n", args.output, trace.count);
    trace_done(&trace);
    return r < 0 ? failed(&err) : EXIT_OK;
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
    int r = 0;

    if (argp_parse(&argp, argc, argv, 0, NULL, &args))
        return EXIT_USAGE;
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
    return r < 0 ? failed(&err) : EXIT_OK;
}

static void usage(FILE *out, const char *name)
{
    fprintf(out,
            "Usage: %s import --format FORMAT FILE -o OUT.csv\n"
            "       %s stat FILE [--cluster CLUSTER] [--json]\n",
            name, name);
}

int cmd_trace(int argc, char **argv)
{
    static char import_name[] = "muster trace import", stat_name[] = "muster trace stat";
    const char *verb = argc > 1 ? argv[1] : "";

    argp_err_exit_status = EXIT_USAGE;
    if (strcmp(verb, "import") == 0) {
        argv[1] = import_name;
        return trace_import(argc - 1, argv + 1);
    }
    if (strcmp(verb, "stat") == 0) {
        argv[1] = stat_name;
        return trace_stat_run(argc - 1, argv + 1);
    }
    if (strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0) {
        usage(stdout, argv[0]);
        return EXIT_OK;
    }
    if (*verb)
        fprintf(stderr, "muster: error: unknown command 'trace %s'\n", verb);
    usage(stderr, argv[0]);
    return EXIT_USAGE;
}
