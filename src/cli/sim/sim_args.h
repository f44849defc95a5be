/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* sim_args.h - the options that `sim run`, `sim compare` and `sim anomaly` share. */
#include <argp.h>
#include <stdbool.h>
#include <stdio.h>

#include "sim/scenario.h"

enum { SIM_LIST_MAX = 256 };

struct sim_args {
    const char *clusters[SIM_LIST_MAX], *traces[SIM_LIST_MAX], *policies[SIM_LIST_MAX];
    struct setting settings[SIM_LIST_MAX];
    uint64_t seeds[SIM_LIST_MAX];
    size_t cluster_count, trace_count, policy_count, setting_count, seed_count;
    /* What comes out, where the verb has these options. */
    const char *report;
    size_t series;
    bool json;
};

enum { SIM_KEY_JSON = 256, SIM_KEY_REPORT, SIM_KEY_SERIES, SIM_KEY_OWN /* the first of a verb's own */ };

#define SIM_REPORT                                                                                                     \
    {                                                                                                                  \
        "report", SIM_KEY_REPORT, "FILE", 0, "Write an HTML report with plots", 1                                      \
    }
#define SIM_SERIES                                                                                                     \
    {                                                                                                                  \
        "series", SIM_KEY_SERIES, "N", 0, "With --json: also over time, in at most N stretches, and percentiles", 1    \
    }

#define SIM_OPTIONS                                                                                                        \
    { "cluster", 'c', "CLUSTER", 0, "A YAML file, or a string such as 3x8 or 'racks:2 nodes:16 gpus:8 sku:V100'", 0 },     \
        { "trace", 't', "FILE", 0, "A trace in the native format, gzipped or not; - is standard input", 0 },               \
        { "policy", 'P', "NAME", 0, "See 'muster sim policies'", 0 },                                                      \
        { "vc", 'p', "NAME=POLICY[,KEY=VALUE]", 0, "A virtual cluster's own policy and settings; may be given again", 0 }, \
        { "set", 's', "KEY=VALUE", 0, "A setting of the policy, the world or the run; may be given again", 0 },            \
    {                                                                                                                      \
        "seed", 'S', "N", 0, "Of everything drawn at random (1)", 0                                                        \
    }

#define SIM_HELP                                                                                                       \
    "Settings of the run: round=60s (plan only at multiples; 0 = at every event), quota=on|off, cells=on|off, "        \
    "borrow=none|all, until=TIME, infeasible=error|skip. Settings of the world: restart=60s (cost of a resume; 0 by "  \
    "default), checkpoint=, "                                                                                          \
    "costs=, speed=, slowdown=, pairs=, estimate-error=, mtbf=, mttr= and more: muster-sim(1)."

/* Takes a key of SIM_OPTIONS or of those above; ARGP_ERR_UNKNOWN for others. */
error_t sim_args_parse(struct sim_args *args, int key, char *arg, struct argp_state *state);
/* Of a verb that makes one run: a usage error, ended by `more`, unless it was told one of each. */
void sim_args_one(const struct sim_args *args, struct argp_state *state, const char *more);

/* Writes names and settings into the result, for tables and reports. */
void sim_args_label(const struct sim_args *args, size_t cluster, size_t trace, size_t policy,
                    struct run_result *result);

/* Whether standard output wants colour. */
bool sim_args_colour(void);

/* driver_decision_fn: one line a decision to the FILE in `arg`. */
void sim_args_log(void *arg, const struct core *core, const struct decision *decision, const uint32_t *gpus);
