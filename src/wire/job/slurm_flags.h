/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* slurm_flags.h - flags that only Slurm has and that mean several keys of a job: mail, tasks a GPU, pyxis' containers.
 */
#include "wire/job/job_request.h"

/* Keeps what the flag says, or sets the keys it means. */
int slurm_flag_put(struct job_request *request, const struct job_flag *flag, const char *value, struct error *err);
/* Sets the keys that need several flags: --mail-type with --mail-user, --ntasks-per-gpu with the GPUs. */
int slurm_flags_finish(struct job_request *request, struct error *err);
