/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_sim_compare.c - muster sim compare: clusters x traces x policies x seeds, on all cores, side by side.
 *
 * Runs share nothing but what they read, so each worker takes the next one off a counter; results keep the order of the
 * command line whatever order they end in.
 */
#include <argp.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/cli.h"
#include "cli/sim/load.h"
#include "cli/sim/progress.h"
#include "cli/sim/sim_args.h"
#include "cli/verbs.h"
#include "sim/output/output.h"
#include "sim/output/report.h"

enum { WORKERS_MAX = 64, RUNS_MAX = 4096 };

struct compare_args {
    struct sim_args sim;
    int64_t jobs;
};

static const struct argp_option options[] = {
    SIM_OPTIONS, { "jobs", 'j', "N", 0, "Runs at a time (as many as there are cores)", 1 }, SIM_REPORT,
    SIM_SERIES,  { "json", SIM_KEY_JSON, NULL, 0, "Print the results as JSON", 1 },         { 0 },
};

struct compare {
    const struct compare_args *args;
    struct cluster_spec *clusters;
    struct trace *traces;
    struct run_result *results;
    struct error *errors;
    int *codes;
    size_t count;
    atomic_size_t next;
    struct progress *progress;
    pthread_mutex_t lock;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct compare_args *args = state->input;

    switch (key) {
    case 'j':
        args->jobs = strtol(arg, NULL, 10);
        if (args->jobs < 1 || args->jobs > WORKERS_MAX)
            argp_error(state, "--jobs: expected 1 to %d, got '%s'", WORKERS_MAX, arg);
        return 0;
    case ARGP_KEY_END:
        if (!args->sim.cluster_count || !args->sim.trace_count || !args->sim.policy_count)
            argp_error(state, "%s is missing: at least one --cluster, --trace and --policy are needed",
                       !args->sim.cluster_count ? "--cluster"
                       : !args->sim.trace_count ? "--trace"
                                                : "--policy");
        return 0;
    default:
        return sim_args_parse(&args->sim, key, arg, state);
    }
}

/* Which of everything run number i is; seeds vary fastest. */
struct which {
    size_t cluster, trace, policy, seed;
};

static struct which which_of(const struct compare *c, size_t i)
{
    const struct sim_args *sim = &c->args->sim;
    struct which w;

    w.seed = i % sim->seed_count;
    i /= sim->seed_count;
    w.policy = i % sim->policy_count;
    i /= sim->policy_count;
    w.trace = i % sim->trace_count;
    w.cluster = i / sim->trace_count;
    return w;
}

static void run_one(struct compare *c, size_t i)
{
    const struct sim_args *sim = &c->args->sim;
    struct which w = which_of(c, i);
    struct scenario_request request = { sim->policies[w.policy], sim->settings, sim->setting_count };
    struct scenario scenario;
    char label[160];

    c->codes[i] = scenario_init(&scenario, &c->clusters[w.cluster], &c->traces[w.trace], &request, &c->errors[i]);
    if (c->codes[i] == 0) {
        sim_args_label(sim, w.cluster, w.trace, w.policy, &c->results[i]);
        scenario.driver.keep_series = c->args->sim.report != NULL;
        scenario.driver.keep_told = c->args->sim.report || c->args->sim.json;
        c->codes[i] = scenario_run(&scenario, sim->seeds[w.seed], &c->results[i], &c->errors[i]);
        /* The copy of the cluster goes with the scenario; what the result names is the one that stays. */
        c->results[i].cluster = &c->clusters[w.cluster];
        scenario_done(&scenario);
    }
    (void)snprintf(label, sizeof(label), "%s seed %llu", sim->policies[w.policy],
                   (unsigned long long)sim->seeds[w.seed]);
    pthread_mutex_lock(&c->lock);
    progress_step(c->progress, label);
    pthread_mutex_unlock(&c->lock);
}

static void *worker(void *arg)
{
    struct compare *c = arg;

    for (size_t i; (i = atomic_fetch_add(&c->next, 1)) < c->count;)
        run_one(c, i);
    return NULL;
}

static void run_all(struct compare *c)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t want = c->args->jobs ? (size_t)c->args->jobs : cores > 0 ? (size_t)cores : 1, made = 0;
    pthread_t threads[WORKERS_MAX];

    if (want > c->count)
        want = c->count;
    /* One worker less than wanted: this thread is the last of them, and the only one if none can be made. */
    while (made + 1 < want && made < WORKERS_MAX && pthread_create(&threads[made], NULL, worker, c) == 0)
        made++;
    worker(c);
    for (size_t i = 0; i < made; i++)
        pthread_join(threads[i], NULL);
}

static int load(struct compare *c, struct error *err)
{
    const struct sim_args *sim = &c->args->sim;
    int r = 0;

    c->clusters = mem_zalloc(sim->cluster_count, sizeof(*c->clusters));
    c->traces = mem_zalloc(sim->trace_count, sizeof(*c->traces));
    c->results = mem_zalloc(c->count, sizeof(*c->results));
    c->errors = mem_zalloc(c->count, sizeof(*c->errors));
    c->codes = mem_zalloc(c->count, sizeof(*c->codes));
    if (!c->clusters || !c->traces || !c->results || !c->errors || !c->codes)
        return error_set(err, -ENOMEM, "no memory for %zu runs", c->count);
    for (size_t i = 0; i < sim->cluster_count && r == 0; i++) {
        r = cluster_load(sim->clusters[i], &c->clusters[i], err);
        if (r < 0)
            r = error_prefix(err, r, "--cluster");
    }
    for (size_t i = 0; i < sim->trace_count && r == 0; i++)
        r = trace_load(sim->traces[i], NULL, &c->traces[i], err);
    return r;
}

static void unload(struct compare *c)
{
    for (size_t i = 0; c->results && i < c->count; i++)
        run_result_done(&c->results[i]);
    for (size_t i = 0; c->clusters && i < c->args->sim.cluster_count; i++)
        cluster_spec_done(&c->clusters[i]);
    for (size_t i = 0; c->traces && i < c->args->sim.trace_count; i++)
        trace_done(&c->traces[i]);
    mem_free(c->clusters);
    mem_free(c->traces);
    mem_free(c->results);
    mem_free(c->errors);
    mem_free(c->codes);
}

static int show(const struct compare *c, struct error *err)
{
    const struct run_result **runs = mem_zalloc(c->count, sizeof(*runs));
    int r = 0;

    if (!runs)
        return error_set(err, -ENOMEM, "no memory for %zu runs", c->count);
    for (size_t i = 0; i < c->count; i++)
        runs[i] = &c->results[i];
    if (c->args->sim.report) {
        FILE *out = fopen(c->args->sim.report, "w");

        if (!out)
            r = error_set(err, -errno, "%s: %s", c->args->sim.report, strerror(errno));
        else {
            r = report_write(out, runs, c->count, &c->traces[0], &c->clusters[0], err);
            if (fclose(out) && r == 0)
                r = error_set(err, -EIO, "%s: could not be written in full", c->args->sim.report);
        }
    }
    if (r == 0)
        r = c->args->sim.json ? output_json_list(stdout, runs, c->count, c->args->sim.series)
                              : output_table(stdout, runs, c->count, sim_args_colour());
    mem_free(runs);
    return r;
}

static int compare(struct compare *c, struct error *err)
{
    int r = load(c, err);

    if (r < 0)
        return r;
    c->progress = progress_new(stderr, c->count);
    run_all(c);
    progress_free(c->progress);
    for (size_t i = 0; i < c->count; i++)
        if (c->codes[i] < 0) {
            struct which w = which_of(c, i);

            *err = c->errors[i];
            return error_prefix(err, c->codes[i], "%s under %s", c->args->sim.traces[w.trace],
                                c->args->sim.policies[w.policy]);
        }
    return show(c, err);
}

int cmd_sim_compare(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        NULL,
        "Replay traces under several policies, clusters and seeds, and compare.\v" SIM_HELP
        " --policy takes a list as well (fifo,srsf), --seed a range (1-5).",
        NULL,
        NULL,
        NULL
    };
    struct compare_args args = { 0 };
    struct compare c = { .args = &args, .lock = PTHREAD_MUTEX_INITIALIZER };
    struct error err = { 0 };
    int r = cli_parse(&argp, argc, argv, &args);

    if (r != CODE_DONE)
        return r;
    if (!args.sim.seed_count)
        args.sim.seeds[args.sim.seed_count++] = 1;
    c.count = args.sim.cluster_count * args.sim.trace_count * args.sim.policy_count * args.sim.seed_count;
    if (c.count > RUNS_MAX)
        r = error_set(&err, -EINVAL, "%zu runs; at most %d", c.count, RUNS_MAX);
    if (r == 0)
        r = compare(&c, &err);
    unload(&c);
    return r < 0 ? cli_fail(r, &err) : CODE_DONE;
}
