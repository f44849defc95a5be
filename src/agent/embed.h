/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* embed.h - node agents on a loop: one in muster-agent, many emulated ones in `musterd --dev --fake 4x8:H100`.
 *
 * All on the thread of the loop. Every agent dials out over its own connection, also when the controller is in the same
 * process. A program that embeds agents calls agent_child() before anything else in main(): processes that look after
 * tasks are this program in another mode, forked from a small helper, so that they are cheap and outlive their agent.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/units.h"
#include "io/loop.h"

struct agents;

struct agent_config {
    const char *url;      /* "http://127.0.0.1:7717" (loopback only) or "https://host:7717" */
    const char *node;     /* its name, as in the certificate */
    const char *state;    /* directory: journal, tasks, output, key and certificate; made when missing */
    const char *fake;     /* "8:H100": emulated GPUs; NULL: real ones */
    const char *address;  /* how peers reach this node; NULL: the local address of the connection */
    const char *tls_name; /* what the controller's certificate must be for; NULL: the host of the url */
    const char *labels;   /* "rack=r1,zone=a"; NULL: none */
    const char *reboot;   /* shell command that starts the machine anew; NULL: none */
    const char *cgroup;   /* parent of the tasks' groups; NULL: found out; "": none */
    bool durable;         /* reports outlast the machine: journal.h; false in emulation: only this process */
    bool passing;         /* the state is removed after the agent: nothing is kept elsewhere for it */
    int64_t least_uid;    /* tasks of other accounts below are refused; root: allow_root */
    bool allow_root;      /* run tasks of uid 0 */
    bool bare_images;     /* with emulated GPUs: jobs with an image run on the bare node, and are told */
    bool real_defaults;   /* GPUs are emulated, everything else is as on a node with real ones */
    bool allow_new_privs; /* set-user-id programs and file capabilities count inside jobs */
    int gpu_runtime;      /* enum gpu_runtime_use; nothing of it with emulated GPUs */
    int private_tmp;      /* 1 yes, 0 no, -1 where it can (root, real GPUs or real_defaults) */
    uint64_t log_max;     /* bytes of output kept a task and stream; 0: 64 MiB */
    uint64_t output_max;  /* bytes of a file the user named; 0: 4 GiB */
    usec_t start_limit;   /* a task that is not prepared by then is given up; 0: a minute */
    usec_t retry_max;     /* longest pause between two dials; 0: 10 s */
};

/* First thing in main(): returns at once (-1) in the program proper; in a helper never comes back but by its exit
 * status: `int r = agent_child(argc, argv); if (r >= 0) return r;`. */
int agent_child(int argc, char **argv);

/* Starts the helper. The loop is borrowed and must outlive the agents. */
int agents_new(struct loop *loop, struct agents **ret_agents, struct error *err);
int agents_add(struct agents *agents, const struct agent_config *config, struct error *err); /* config is copied */
size_t agents_count(const struct agents *agents);

/* Closes all connections; with `kill` ends all tasks first (grace none). Tasks otherwise go on until their agent is
 * back or the lease has run out. done() is called on the loop when nothing of it is left there, then free it. */
void agents_stop(struct agents *agents, bool kill, void (*done)(void *arg), void *arg);
void agents_free(struct agents *agents);
