/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_sim_run.c - muster sim run: one trace, one cluster, one policy. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/sim/load.h"
#include "cli/sim/sim_args.h"
#include "cli/verbs.h"
#include "sim/output/output.h"
#include "sim/output/report.h"
#include "sim/scenario.h"

enum { KEY_JOBS_CSV = SIM_KEY_OWN, KEY_LOG };

struct run_args {
    struct sim_args sim;
    const char *jobs_csv, *log;
};

static const struct argp_option options[] = {
    SIM_OPTIONS, { "jobs-csv", KEY_JOBS_CSV, "FILE", 0, "Write one line a job: when it ran, what it waited for", 1 },
    SIM_REPORT,  { "log", KEY_LOG, "FILE", 0, "Write every decision, one line each", 1 },
    SIM_SERIES,  { "json", SIM_KEY_JSON, NULL, 0, "Print the result as JSON", 1 },
    { 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct run_args *args = state->input;

    switch (key) {
    case KEY_JOBS_CSV:
        args->jobs_csv = arg;
        return 0;
    case KEY_LOG:
        args->log = arg;
        return 0;
    case ARGP_KEY_END:
        sim_args_one(&args->sim, state, "; 'compare' takes several");
        return 0;
    default:
        return sim_args_parse(&args->sim, key, arg, state);
    }
}

static FILE *open_out(const char *path, struct error *err)
{
    FILE *out = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");

    if (!out)
        (void)error_set(err, -errno, "%s: %s", path, strerror(errno));
    return out;
}

static int close_out(FILE *out, const char *path, struct error *err)
{
    int bad = ferror(out) | (out == stdout ? fflush(out) : fclose(out));

    return bad ? error_set(err, -EIO, "%s: could not be written in full", path) : 0;
}

static int write_outputs(const struct run_args *args, const struct run_result *result, const struct trace *trace,
                         const struct cluster_spec *cluster, struct error *err)
{
    FILE *out;
    int r = 0;

    if (args->jobs_csv) {
        out = open_out(args->jobs_csv, err);
        if (!out)
            return -EIO;
        output_jobs_csv(out, result, trace);
        r = close_out(out, args->jobs_csv, err);
    }
    if (args->sim.report && r == 0) {
        out = open_out(args->sim.report, err);
        if (!out)
            return -EIO;
        r = report_write(out, &result, 1, trace, cluster, err);
        if (r == 0)
            r = close_out(out, args->sim.report, err);
        else
            fclose(out);
    }
    if (r == 0)
        r = args->sim.json ? output_json(stdout, result, args->sim.series)
                           : output_table(stdout, &result, 1, sim_args_colour());
    return r;
}

static int run_one(const struct run_args *args, const struct cluster_spec *cluster, const struct trace *trace,
                   struct error *err)
{
    struct run_result result = { 0 };
    struct scenario scenario;
    FILE *log = NULL;
    struct scenario_request request = { args->sim.policies[0], args->sim.settings, args->sim.setting_count };
    int r = scenario_init(&scenario, cluster, trace, &request, err);

    if (r < 0)
        return r;
    sim_args_label(&args->sim, 0, 0, 0, &result);
    scenario.driver.keep_series = args->sim.report != NULL;
    scenario.driver.keep_told = args->sim.report || args->sim.json;
    if (args->log) {
        log = open_out(args->log, err);
        if (!log)
            r = -EIO;
        scenario.driver.on_decision = sim_args_log;
        scenario.driver.on_decision_arg = log;
    }
    if (r == 0)
        r = scenario_run(&scenario, args->sim.seed_count ? args->sim.seeds[0] : 1, &result, err);
    if (log) {
        int closed = close_out(log, args->log, r == 0 ? err : NULL);

        r = r == 0 ? closed : r;
    }
    if (r == 0 && result.warning[0])
        fprintf(stderr, "muster: warning: %s\n", result.warning);
    if (r == 0)
        r = write_outputs(args, &result, trace, cluster, err);
    run_result_done(&result);
    scenario_done(&scenario);
    return r;
}

int cmd_sim_run(int argc, char **argv)
{
    static const struct argp argp = {
        options, parse, NULL, "Replay a trace on a simulated cluster under one policy.\v" SIM_HELP, NULL, NULL, NULL
    };
    struct run_args args = { 0 };
    struct cluster_spec cluster = { 0 };
    struct trace trace = { 0 };
    struct error err = { 0 };
    int r = cli_parse(&argp, argc, argv, &args);

    if (r != CODE_DONE)
        return r;
    r = cluster_load(args.sim.clusters[0], &cluster, &err);
    if (r < 0)
        r = error_prefix(&err, r, "--cluster");
    if (r == 0)
        r = trace_load(args.sim.traces[0], NULL, &trace, &err);
    if (r == 0)
        r = run_one(&args, &cluster, &trace, &err);
    cluster_spec_done(&cluster);
    trace_done(&trace);
    return r < 0 ? cli_fail(r, &err) : CODE_DONE;
}
