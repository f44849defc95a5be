/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* slurm.h - muster called by the names of Slurm's commands; see slurm.c. */
#include "cli/cli.h"

bool slurm_named(const char *argv0);
int slurm_main(int argc, char **argv);

/* slurm_list.c */
int slurm_squeue(struct command_args *args);
int slurm_sinfo(struct command_args *args);
int slurm_sacct(struct command_args *args);
