/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* verbs.h - the verbs of the command line. Each takes argv[0] as what it is called and returns the exit code. */

struct verb {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
};

/* Runs the verb that argv[1] names; lists them when asked, or when there is none of that name. */
int verb_dispatch(const char *name, const struct verb *list, int argc, char **argv);

int cmd_sim(int argc, char **argv);
int cmd_sim_run(int argc, char **argv);
int cmd_sim_anomaly(int argc, char **argv);
int cmd_sim_compare(int argc, char **argv);
int cmd_sim_replay(int argc, char **argv);
int cmd_sim_policies(int argc, char **argv);
