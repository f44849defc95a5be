/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_gen.c - muster sim gen: make up a workload and write it as a trace. */
#include "cli/sim/cmd_gen.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cli/cli.h"
#include "io/file.h"
#include "sim/gen/gen.h"
#include "wire/text/decimal.h"
#include "wire/trace/trace.h"

enum { KEY_GPUS = 256, KEY_LOAD, KEY_DEADLINES };

struct arguments {
    const char *shape, *output;
    struct gen_config config;
};

static const struct argp_option options[] = {
    { "shape", 's', "SHAPE", 0, "r1, r1-low, philly, helios, sweep or search", 0 },
    { "jobs", 'n', "N", 0, "How many jobs (the shape's own number)", 0 },
    { "seed", 'S', "N", 0, "Another seed, another workload (1)", 0 },
    { "gpus", KEY_GPUS, "N", 0, "GPUs of the cluster to be loaded (the shape's own number; not for r1)", 0 },
    { "load", KEY_LOAD, "RATIO", 0, "GPU-time asked for over GPU-time there is, while jobs arrive", 0 },
    { "deadlines", KEY_DEADLINES, "RATIO", 0,
      "Part of the jobs that have a deadline, 1.1 to 5 run times after submission (0)", 0 },
    { "output", 'o', "FILE", 0, "Where to write the trace; - is standard output", 0 },
    { NULL, 'h', NULL, OPTION_HIDDEN, NULL, 0 },
    { 0 },
};

static int64_t number(struct argp_state *state, const char *option, const char *text, int64_t low, int64_t high)
{
    int64_t value = 0;

    if (decimal_parse_i64(text, strlen(text), &value) < 0 || value < low || value > high)
        argp_error(state, "--%s: expected a number in %lld..%lld, got '%s'", option, (long long)low, (long long)high,
                   text);
    return value;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct arguments *args = state->input;
    int64_t load;

    switch (key) {
    case 's':
        args->shape = arg;
        return 0;
    case 'n':
        args->config.jobs = (size_t)number(state, "jobs", arg, 1, (int64_t)GEN_JOBS_MAX);
        return 0;
    case 'S':
        args->config.seed = (uint64_t)number(state, "seed", arg, 0, INT64_MAX);
        return 0;
    case KEY_GPUS:
        args->config.gpus = (int32_t)number(state, "gpus", arg, 1, (int64_t)CLUSTER_GPUS_MAX);
        return 0;
    case KEY_LOAD:
        if (decimal_parse(arg, strlen(arg), PPM_ONE, &load) < 0 || load < 1 || load > 100 * PPM_ONE)
            argp_error(state, "--load: expected a ratio above 0, at most 100, got '%s'", arg);
        args->config.load = load;
        return 0;
    case KEY_DEADLINES:
        if (decimal_parse(arg, strlen(arg), PPM_ONE, &load) < 0 || load < 0 || load > PPM_ONE)
            argp_error(state, "--deadlines: expected a ratio from 0 to 1, got '%s'", arg);
        args->config.deadlines = load;
        return 0;
    case 'o':
        args->output = arg;
        return 0;
    case 'h':
        argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument '%s'", arg);
        return EINVAL;
    case ARGP_KEY_END:
        if (!args->shape)
            argp_error(state, "--shape is missing: r1, r1-low, philly, helios, sweep or search");
        if (!args->output)
            argp_error(state, "--output is missing: a file, or - for standard output");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* The list of shapes at the end of --help comes from the register. */
static char *describe(int key, const char *text, void *input)
{
    CLEANUP_BUF struct buf buf = BUF_INIT(4096);

    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC)
        return (char *)(uintptr_t)text;
    buf_text(&buf, "Shapes:\n");
    for (const struct gen_shape *shape = gen_shapes; shape->name; shape++)
        buf_printf(&buf, "  %-8s %s\n", shape->name, shape->summary);
    buf_text(&buf, "\nThe same shape, numbers and seed give the same bytes on every machine.");
    return buf.error ? NULL : strndup(buf.data, buf.size);
}

int cmd_sim_gen(int argc, char **argv)
{
    static const struct argp argp = { options, parse,    NULL, "Make up a workload and write it as a trace.\v",
                                      NULL,    describe, NULL };
    struct arguments args = { .config = { .seed = 1 } };
    CLEANUP_BYTES struct bytes bytes = { 0 };
    struct trace trace = { 0 };
    struct error err = { 0 };
    int r = cli_parse(&argp, argc, argv, &args);

    if (r != CODE_DONE)
        return r;
    r = gen_trace(args.shape, &args.config, &trace, &err);
    if (r == 0)
        r = trace_write(&trace, &bytes, &err);
    trace_done(&trace);
    if (r == 0)
        r = file_write_atomic(args.output, bytes.data, bytes.size, &err);
    return r < 0 ? cli_fail(r, &err) : CODE_DONE;
}
