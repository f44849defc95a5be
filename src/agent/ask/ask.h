/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* ask.h - questions of the controller that are being answered: a log that is followed, a command that runs. */
#include "agent/agent.h"

enum { ASKS_MAX = 1024, ASK_QUEUE_MAX = 4 << 20 };

struct ask {
    struct ask *next;
    struct agent *agent; /* NULL: nobody is to be answered any more */
    int64_t id;
    int64_t forwards; /* the job whose port it is a connection to; 0 */
    bool full;        /* the controller has more of its answers than it can pass on: no more until it says so */
    const struct ask_ops *ops;
};

struct ask_ops {
    const char *name;
    void (*turn)(struct ask *ask);                 /* every now and then */
    void (*input)(struct ask *ask, json_t *frame); /* input, resize; NULL */
    void (*close)(struct ask *ask);                /* to the end of it: frees it, now or later */
};

void ask_add(struct agent *agent, struct ask *ask);
/* One answer; takes `more`. The last one takes the ask off the list. */
void ask_answer(struct ask *ask, json_t *body, bool more);
void ask_refuse(struct agent *agent, int64_t id, const char *code, const char *words);
/* Is there room to answer? A slow reader must not make us keep everything. */
bool ask_room(const struct ask *ask);
void ask_remove(struct ask *ask);

void ask_log(struct agent *agent, json_t *frame);
void ask_exec(struct agent *agent, json_t *frame);
/* What the processes of a task read, from here on until the end of it. */
void ask_input(struct agent *agent, const json_t *frame);
/* Why a task cannot be entered; NULL: it can. */
const char *ask_enterable(const struct task *task);
/* Carries a connection to a port of a job as the streams of a command are carried; takes it. 0, -errno. */
int ask_carry(struct agent *agent, int64_t id, int64_t job, int fd);
/* A connection to a port that a process of a task listens on. */
void ask_forward(struct agent *agent, const json_t *frame);
