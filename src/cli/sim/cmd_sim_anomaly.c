/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_sim_anomaly.c - muster sim anomaly: who waits longer in a shared cluster than in one of its own. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/sim/load.h"
#include "cli/sim/sim_args.h"
#include "cli/verbs.h"
#include "sim/metrics/anomaly.h"
#include "sim/output/report.h"

enum { KEY_GUESTS = SIM_KEY_OWN };

struct anomaly_args {
    struct sim_args sim;
    bool guests;
};

static const struct argp_option options[] = {
    SIM_OPTIONS,
    SIM_REPORT,
    { "guests", KEY_GUESTS, NULL, 0, "Also beside an opportunistic copy of every job", 1 },
    { "json", SIM_KEY_JSON, NULL, 0, "Print the result as JSON", 1 },
    { 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct anomaly_args *args = state->input;

    switch (key) {
    case KEY_GUESTS:
        args->guests = true;
        return 0;
    case ARGP_KEY_END:
        sim_args_one(&args->sim, state, "");
        return 0;
    default:
        return sim_args_parse(&args->sim, key, arg, state);
    }
}

/* The runs get the settings that give them again with `sim run`. */
static void label(const struct anomaly_args *args, struct anomaly *a)
{
    static const char *const more[ANOMALY_KINDS] = { "cells=off borrow=none", "cells=on borrow=none",
                                                     "cells=on borrow=all" };

    for (int k = 0; k < ANOMALY_KINDS; k++) {
        struct run_result *run = &a->runs[k];
        size_t at;

        sim_args_label(&args->sim, 0, 0, 0, run);
        at = strlen(run->settings);
        (void)snprintf(run->settings + at, sizeof(run->settings) - at, "%s%s", at ? " " : "", more[k]);
    }
}

static int report(const char *path, const struct anomaly *a, const struct trace *trace,
                  const struct cluster_spec *cluster, struct error *err)
{
    CLEANUP_BUF struct buf section = BUF_INIT((size_t)1 << 20);
    const struct run_result *runs[ANOMALY_KINDS];
    FILE *out;
    int r = anomaly_html(&section, a, cluster);

    if (r < 0)
        return error_set(err, r, "no memory for the report");
    for (int k = 0; k < ANOMALY_KINDS; k++)
        runs[k] = &a->runs[k];
    out = fopen(path, "w");
    if (!out)
        return error_set(err, -errno, "%s: %s", path, strerror(errno));
    r = report_write_with(out, runs, ANOMALY_KINDS,
                          &(struct report_more){ .trace = trace, .cluster = cluster, .section = &section }, err);
    if (fclose(out) && r == 0)
        r = error_set(err, -EIO, "%s: could not be written in full", path);
    return r;
}

static int show(const struct anomaly_args *args, const struct anomaly *a, const struct trace *trace,
                const struct cluster_spec *cluster, struct error *err)
{
    CLEANUP_BUF struct buf json = BUF_INIT((size_t)16 << 20);
    int r = args->sim.report ? report(args->sim.report, a, trace, cluster, err) : 0;

    if (r < 0)
        return r;
    if (!args->sim.json) {
        anomaly_text(stdout, a, cluster);
        return 0;
    }
    r = anomaly_json(&json, a, cluster);
    if (r < 0)
        return error_set(err, r, "no memory for the result");
    (void)fwrite(json.data, 1, json.size, stdout);
    return 0;
}

int cmd_sim_anomaly(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        NULL,
        "Replay a trace on a cluster whose virtual clusters are guaranteed cells: each alone on what it is guaranteed, "
        "all together with quotas only, with cells, and with cells while idle ones are lent; and compare, job by job, "
        "how long each waits.\v" SIM_HELP,
        NULL,
        NULL,
        NULL
    };
    struct anomaly_args args = { 0 };
    struct cluster_spec cluster = { 0 };
    struct trace trace = { 0 };
    struct anomaly a = { 0 };
    struct error err = { 0 };
    int r = cli_parse(&argp, argc, argv, &args);

    if (r != CODE_DONE)
        return r;
    a.with_guests = args.guests;
    r = cluster_load(args.sim.clusters[0], &cluster, &err);
    if (r < 0)
        r = error_prefix(&err, r, "--cluster");
    if (r == 0)
        r = trace_load(args.sim.traces[0], NULL, &trace, &err);
    if (r == 0)
        r = anomaly_run(&cluster, &trace,
                        &(struct scenario_request){ args.sim.policies[0], args.sim.settings, args.sim.setting_count },
                        args.sim.seed_count ? args.sim.seeds[0] : 1, &a, &err);
    if (r == 0) {
        label(&args, &a);
        r = show(&args, &a, &trace, &cluster, &err);
    }
    anomaly_done(&a);
    trace_done(&trace);
    cluster_spec_done(&cluster);
    return r < 0 ? cli_fail(r, &err) : CODE_DONE;
}
