/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* slurm.h - muster called by the names of Slurm's commands; see slurm.c. */
#include <jansson.h>

#include "cli/cli.h"

bool slurm_named(const char *argv0);
int slurm_main(int argc, char **argv);

/* slurm_list.c */
/* What a letter of a format stands for: its header, and its text of a thing. NULL: there is no such letter. */
typedef const char *(*slurm_letter_fn)(json_t *item, char letter, char *text, size_t size);
int slurm_lines(const struct command_args *args, const char *format, slurm_letter_fn fn, json_t *items);
const char *slurm_number(int64_t value, char *text, size_t size);
int slurm_squeue(struct command_args *args);
int slurm_sinfo(struct command_args *args); /* slurm_sinfo.c */
int slurm_sacct(struct command_args *args);
