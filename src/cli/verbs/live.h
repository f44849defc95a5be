/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* live.h - the verbs of the live cluster, one function each; live.c has the table. */
#include "base/units.h"
#include "cli/client/client.h"

/* --NAME as a time: an instant, "7d" (so long ago), "now", "now+2h"; 0 where it was not told. CODE_USAGE after words.
 */
int when_arg(const struct command_args *args, const char *name, usec_t *ret_at);

/* The two that scripts start by the thousand are in two programs (quick.c), so what they are is told here. */
extern const struct opt submit_opts[], run_opts[];
#define OPTS_RUN                                                                                                       \
    { "export", 0, "LIST", "variables of here: ALL, NONE, or NAME,NAME=VALUE; PATH and the like unless told",          \
      "Mechanics" },                                                                                                   \
        { "pty", 0, NULL, "with a terminal", NULL },                                                                   \
    {                                                                                                                  \
        "detach", 0, NULL, "the job goes on when this program ends or loses its terminal", NULL                        \
    }
#define COMMAND_SUBMIT                                                                                                 \
    .name = "submit", .summary = "Queues a batch job and prints its number",                                           \
    .usage = "[OPTION...] SCRIPT [ARG...] | -f JOB.yaml | --wrap CMD", .opts = submit_opts, .stops = true, .most = -1, \
    .job = true, .complete = "file"
#define COMMAND_RUN                                                                                                    \
    .name = "run",                                                                                                     \
    .summary = "Runs a command on each node, shows its output, exits as it did; inside a job, on that one's nodes",    \
    .usage = "[OPTION...] -- COMMAND...", .opts = run_opts, .stops = true, .most = -1, .job = true

int cmd_submit(struct command_args *args);
int cmd_run(struct command_args *args);
int cmd_plan(struct command_args *args);
int cmd_sweep(struct command_args *args);
/* A command in a running job, with a terminal or without; its exit code. */
int exec_in(const struct command_args *args, const char *job, char *const *words, int count, bool tty);
int cmd_shell(struct command_args *args);
int cmd_input(struct command_args *args);
int cmd_queue(struct command_args *args);
int cmd_history(struct command_args *args);
int cmd_prio(struct command_args *args);
int cmd_show(struct command_args *args);
int cmd_why(struct command_args *args);
int cmd_logs(struct command_args *args);
int cmd_wait(struct command_args *args);
int cmd_cancel(struct command_args *args);
int cmd_act(struct command_args *args); /* hold release suspend resume requeue: by the name of the command */
int cmd_set(struct command_args *args);
int cmd_gpus(struct command_args *args);
int cmd_licenses(struct command_args *args);
int cmd_nodes(struct command_args *args);
int cmd_vc(struct command_args *args);
int cmd_vc_put(struct command_args *args); /* create set rm: by the name of the command */
int cmd_secret_ls(struct command_args *args);
int cmd_secret_set(struct command_args *args);
int cmd_secret_rm(struct command_args *args);
int cmd_resv_ls(struct command_args *args);
int cmd_resv_put(struct command_args *args); /* create set: by the name of the command */
int cmd_resv_rm(struct command_args *args);
int cmd_node_label(struct command_args *args);
int cmd_node_health(struct command_args *args);
int cmd_ckpt_done(struct command_args *args);
int cmd_progress(struct command_args *args);
int cmd_cluster_leader(struct command_args *args);
int cmd_user_ls(struct command_args *args);
int cmd_user_limits(struct command_args *args);
int cmd_report(struct command_args *args);
int cmd_whatif(struct command_args *args);
int cmd_events(struct command_args *args);
int cmd_top(struct command_args *args);
int cmd_exec(struct command_args *args);
int cmd_attach(struct command_args *args);
int cmd_login(struct command_args *args);
int cmd_logout(struct command_args *args);
int cmd_whoami(struct command_args *args);
int cmd_token_ls(struct command_args *args);
int cmd_token_new(struct command_args *args);
int cmd_node_rejoin(struct command_args *args);
int cmd_token_rm(struct command_args *args);
int cmd_context(struct command_args *args);
int cmd_context_rm(struct command_args *args);
int cmd_node_show(struct command_args *args);
int cmd_node_drain(struct command_args *args);
int cmd_node_reboot(struct command_args *args);
int cmd_node_resume(struct command_args *args);
int cmd_node_lost(struct command_args *args);
int cmd_node_forget(struct command_args *args);
int cmd_gpu_drain(struct command_args *args);
int cmd_gpu_resume(struct command_args *args);
int cmd_config_show(struct command_args *args);
int cmd_config_discover(struct command_args *args);
int cmd_config_reload(struct command_args *args);
int cmd_config_put(struct command_args *args); /* validate diff apply: by the name of the command */
int cmd_sched_diag(struct command_args *args);
int cmd_sched_pause(struct command_args *args);
int cmd_sched_policy(struct command_args *args);
int cmd_sched_trace(struct command_args *args);
int cmd_cluster_status(struct command_args *args);
int cmd_cluster_store(struct command_args *args); /* backup, restore: musterd does it */
int cmd_completion(struct command_args *args);
int cmd_doctor(struct command_args *args);

/* The manual page of a verb, for the build. */
int cmd_man(int argc, char **argv);
/* Waits for a job to be over; *ret_code as its shell would see it. The job is added to `done`, if there is one. */
int wait_one(struct client *client, int64_t id, json_t *done, int *ret_code, struct problem *problem);
/* job_step.c: the command on the nodes of the job we are in. */
int run_step(struct command_args *args);
bool step_inside(void);                               /* are we in a job? */
int64_t live_env(const char *name, int64_t standard); /* a number of the environment */
int cmd_forward(struct command_args *args);
/* cmd_exec.c: a terminal in a new job; standard input and output as a connection to a port of one (GET .../forward). */
int run_pty(struct command_args *args);
int tunnel_run(struct client *client, const char *path);
/* muster gpu drain|resume NODE:INDEX; the other verbs of `muster gpu` are cmd_gpu.c's. */
extern const struct command gpu_live_commands[];
/* Opens a client; the problem is printed. */
int live_client(const struct command_args *args, struct client **ret_client);
/* GET of one thing, shown as --json asks, or handed to `show`. */
int live_get(const struct command_args *args, const char *path, void (*show)(const struct command_args *, json_t *));
/* All pages of a list; the problem is printed. */
int live_list(const struct command_args *args, const char *path, json_t **ret_items);
/* DELETE of each thing the words name, `format` as below; "told NAME" for each that is gone. */
void names_show(const struct command_args *args, const char *kind, json_t *names);
int live_remove(const struct command_args *args, const char *format, const char *told);
/* Fills path with format where %s is the quoted text. */
void live_path(char *path, size_t size, const char *format, const char *text);
