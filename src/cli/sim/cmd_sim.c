/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_sim.c - muster sim: its verbs, and `policies`. */
#include <argp.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/sim/cmd_gen.h"
#include "cli/verbs.h"
#include "cli/verbs/live.h"
#include "policy/registry.h"

static const struct verb verbs[] = {
    { "run", "replay one trace under one policy", cmd_sim_run },
    { "compare", "replay traces under several policies and seeds, side by side", cmd_sim_compare },
    { "anomaly", "replay a trace shared, and each virtual cluster alone: who waits longer?", cmd_sim_anomaly },
    { "replay", "replay what a cluster has done under other policies, or on another cluster", cmd_sim_replay },
    { "gen", "make up a workload and write it as a trace", cmd_sim_gen },
    { "policies", "list policies and their settings", cmd_sim_policies },
    { 0 },
};

int cmd_sim(int argc, char **argv)
{
    return verb_dispatch("muster sim", verbs, argc, argv);
}

/* The history of a cluster is where its controller is: this is `muster whatif`, found where the simulator is. */
int cmd_sim_replay(int argc, char **argv)
{
    return command_run(command_find(live_commands, "whatif"), argv[0], argc, argv);
}

static void show_value(const struct param *p, const int64_t *values)
{
    int64_t value = values[0];

    switch (p->kind) {
    case PARAM_TIMES:
        for (int64_t i = 1; i <= value; i++)
            printf("%s%llds", i > 1 ? "," : "", (long long)(values[i] / USEC_SEC));
        break;
    case PARAM_TIME:
        printf("%llds", (long long)(value / USEC_SEC));
        break;
    case PARAM_RATIO:
        printf("%g", (double)value / 1e6);
        break;
    case PARAM_SWITCH:
        printf("%s", value ? "on" : "off");
        break;
    case PARAM_CHOICE:
        printf("%s", p->choices[value]);
        break;
    case PARAM_COUNTER:
        printf("%lld", (long long)value);
        break;
    }
}

static void show_params(const struct param *params, const int64_t *values)
{
    for (size_t i = 0; params && params[i].name; i++) {
        printf("    --set %s=", params[i].name);
        show_value(&params[i], &values[i]);
        printf("  %s", params[i].help);
        for (size_t c = 0; params[i].choices && params[i].choices[c]; c++)
            printf("%s%s", c ? "|" : ": ", params[i].choices[c]);
        putchar('\n');
    }
}

int cmd_sim_policies(int argc, char **argv)
{
    static const struct argp argp = { .doc = "List the policies with their settings and what these are by default." };
    int r = cli_parse(&argp, argc, argv, NULL);

    if (r != CODE_DONE)
        return r;
    for (size_t i = 0; policy_at(i); i++) {
        const struct policy *policy = policy_at(i);
        struct policy_setup setup;

        policy_setup(policy, &setup);
        printf("%s\n    %s\n    --set place=%s  %s\n", policy->name, policy->summary, setup.place->name,
               setup.place->summary);
        if (policy_compat(&setup, 0))
            printf("    --set compat=none  do just as another program does");
        for (size_t c = 0; policy_compat(&setup, c); c++)
            printf("%s%s%s", c ? "|" : ": ", policy_compat(&setup, c), policy_compat(&setup, c + 1) ? "" : "\n");
        show_params(setup.planner->params, setup.planner_params);
        show_params(setup.order->params, setup.order_params);
        show_params(setup.place->params, setup.place_params);
        for (uint32_t t = 0; t < setup.tune_count; t++)
            printf("%s%s%s", t ? "," : "    --set optimise=", setup.tune[t]->name,
                   t + 1 < setup.tune_count ? "" : "  optimisers it brings along\n");
    }
    puts("\nOptimisers of running jobs, for any policy: --set optimise=NAME,... or --policy NAME+NAME");
    for (size_t i = 0; policy_tuner(i); i++) {
        printf("  %s\n    %s\n", policy_tuner(i)->name, policy_tuner(i)->summary);
    }
    return CODE_DONE;
}
