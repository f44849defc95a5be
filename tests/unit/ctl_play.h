/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* ctl_play.h - a controller in virtual time with agents that do at once what they are told.
 *
 * Orders become reports of the next turn at the same instant. Jobs end when the test says so, or by themselves after
 * `emulate.run` of their submission when the play is run to its end.
 */
#include "ctl/log/batcher.h"
#include "ctl/state/registry.h"

enum { PLAY_TASKS = 4096, PLAY_NODES = 64 };

struct play_task {
    struct task_id id;
    char node[32];
    enum task_state state;
    usec_t left, since; /* of its emulated run; since it runs */
    char told[16];      /* to stop, and why; "" = not */
    bool runtime;       /* to run under the GPU runtime */
};

struct play {
    struct store *store;
    struct batcher *batcher;
    struct batcher_config config;
    usec_t now;
    struct play_task tasks[PLAY_TASKS];
    size_t task_count;
    uint64_t seq[PLAY_NODES];
    char nodes[PLAY_NODES][32];
    bool away[PLAY_NODES]; /* hears nothing, says nothing */
    size_t node_count;
    json_t *orders; /* not carried out yet: {"node","frame"} */
    char log[1 << 20];
    size_t log_size;
    size_t started, doubles; /* launches; times a job ran twice at once */
    bool refuses;            /* the next launch */
    bool at_once;            /* tasks end as they begin, and say both in one report */
    bool brief;              /* the first rank of a gang ends before the next says that it runs */
    bool slow;               /* tasks that are told to stop stay until play_leave() */
    bool drowsy;             /* tasks that are told to suspend themselves run on until play_rest() */
};

void play_init(struct play *play, const char *policy);
void play_done(struct play *play);
void play_restart(struct play *play); /* the controller, from its store */

/* A node of `gpus` emulated GPUs joins. */
void play_join(struct play *play, const char *name, int gpus);
void play_away(struct play *play, const char *name, bool away);

/* Submits JSON; the id, or the negative code with `err` filled. */
int64_t play_submit(struct play *play, const char *json, struct entry_result *ret);
int play_offer(struct play *play, enum entry_kind kind, const char *json, struct entry_result *ret);

/* Turns until nothing more happens at this instant. */
void play_settle(struct play *play);
/* Time goes on to `at`, stopping wherever something is due. */
void play_until(struct play *play, usec_t at);

/* The task ends by itself, running or suspended. */
void play_exit(struct play *play, int64_t job, uint32_t rank, int code, int signal);

/* With `slow`: a task that was told to stop has left, by its exit code. */
void play_leave(struct play *play, int64_t job, int code);

/* With `drowsy`: a task that was told to suspend itself has done so. */
void play_rest(struct play *play, int64_t job);

/* "RUNNING", or "PENDING Fragmented". */
const char *play_state(struct play *play, int64_t job);
