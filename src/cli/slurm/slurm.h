/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* slurm.h - muster called by the names of Slurm's commands; see slurm.c. */
#include <jansson.h>

#include "base/buf.h"
#include "cli/cli.h"
#include "cli/client/client.h"

/* What --version prints behind our own: the release whose commands and formats are followed. */
#define SLURM_RELEASE "22.05.8"
/* Fields of a job that the listings need. */
#define SLURM_JOB_FIELDS                                                                                               \
    "id,name,user,vc,priority,state,array,gpus,gpu_share,gpu_type,nodes,submit_time,eligible_time,start_time,end_"     \
    "time,"                                                                                                            \
    "elapsed_seconds,limit_seconds,reason,placement,nodelist,exit_code,signal,attempt,spec,uid,gid"

int slurm_version(void); /* what --version prints; returns 0 */
bool slurm_named(const char *argv0);
int slurm_main(int argc, char **argv);

/* slurm_format.c */
/* What a letter of a format stands for: its header, and its text of a thing. NULL: there is no such letter. */
typedef const char *(*slurm_letter_fn)(json_t *item, char letter, char *text, size_t size);
int slurm_lines(const struct command_args *args, const char *format, slurm_letter_fn fn, json_t *items);
const char *slurm_number(int64_t value, char *text, size_t size);
const char *slurm_state_short(const char *state);
const char *slurm_state(const char *state);
const char *slurm_span(int64_t seconds, char *text, size_t size);
const char *slurm_span_long(int64_t seconds, char *text, size_t size);
const char *slurm_stamp(json_t *json, const char *key, const char *none, char *text, size_t size);

/* slurm_job.c: one job in Slurm's words. Each returns its buffer, or a constant. */
const char *slurm_job_array(json_t *job, bool index, char *text, size_t size);
const char *slurm_job_nodes(json_t *job, char *text, size_t size);
int64_t slurm_job_node_count(json_t *job);
int64_t slurm_job_cpus(json_t *job);
int64_t slurm_job_tasks(json_t *job);
const char *slurm_job_reason(json_t *job);
const char *slurm_job_gres(json_t *job, char *text, size_t size); /* of a node: gres/gpu:H100:2, or N/A */
const char *slurm_job_tres(json_t *job, char *text, size_t size);
const char *slurm_job_host(json_t *job); /* the first node; "" */
const char *slurm_job_dependency(json_t *job, char *text, size_t size);
const char *slurm_job_file(json_t *job, const char *key, char *text, size_t size);
int64_t slurm_job_left(json_t *job); /* seconds of its time limit; -1: it has none */
const char *slurm_group(json_t *job, char *text, size_t size);
/* Whether it is among "12,12_3" or is of array 12. */
bool slurm_job_wanted(const char *list, json_t *job);
/* Adds &KEY=VALUE of a flag that was given. */
void slurm_query(struct buf *path, const struct command_args *args, const char *flag, const char *key);

int slurm_squeue(struct command_args *args);
int slurm_sinfo(struct command_args *args);
int slurm_sacct(struct command_args *args);
int slurm_sprio(struct command_args *args);
int slurm_sshare(struct command_args *args);
int slurm_sstat(struct command_args *args);

/* sinfo.c: the nodes, each with "partition" (all virtual clusters, the first with a star) and Slurm's state. */
const char *slurm_node_state(json_t *node, bool letters, char *text, size_t size);
const char *slurm_node_gres(json_t *node, char *text, size_t size);

/* slurm_json.c: {"meta", "errors", "warnings", "jobs"|"nodes"} as Slurm prints it. */
int slurm_json_jobs(json_t *jobs);
int slurm_json_nodes(json_t *nodes, json_t *vcs);

/* scontrol.c, scontrol_show.c */
int slurm_scontrol(int argc, char **argv);
int slurm_scontrol_show(int argc, char **argv, bool one_line);
