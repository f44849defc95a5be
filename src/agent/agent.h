/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* agent.h - the agent's inside. All of it runs on the thread of the loop. */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "agent/conn.h"
#include "agent/embed.h"
#include "agent/journal.h"
#include "agent/shepherd/forker.h"
#include "agent/task/cgroup.h"
#include "agent/task/cpus.h"
#include "agent/task/launch.h"
#include "agent/task/task_progress.h"
#include "coord/ring.h"
#include "gpu/gpu.h"
#include "wire/agent/agent_msg.h"

enum { BEATS_KEPT = 64, TASK_NAME_MAX = 64 };
struct task;

/* A connection to a shepherd. Lives until its handle is closed. */
struct shep_link {
    uv_pipe_t pipe;
    struct task *task; /* NULL = nobody listens any more */
    struct buf heard;
};

struct task {
    struct task *next;
    struct agent *agent;
    struct task_id id;
    char name[TASK_NAME_MAX]; /* "17.0.0": its directory */
    enum task_state state;
    struct launch launch; /* .order NULL when it could not be read any more */
    json_t *report;       /* the last, to be repeated; NULL */
    struct shep_link *link;
    bool waiting;      /* for GPUs that another has not left */
    bool holding;      /* its GPUs are counted as used */
    bool emulated;     /* no process: a timer */
    bool clean;        /* its end need not be told: remove it then */
    json_t *successor; /* owned: the launch of another job of its number, for when it is gone; NULL */
    bool want_resume;
    bool gated;                   /* at or before its gate, without a hold on its GPUs */
    bool want_go;                 /* the gate is to open when its GPUs are free */
    int64_t pid, shepherd, born;  /* processes: the first of the task, its shepherd; of its job: enum born */
    usec_t started, emulated_end; /* since 1970 */
    int emulated_speed;           /* percent, beside those on its GPUs now */
    usec_t suspended_at;
    struct loop_timer *timer;
    usec_t due;         /* since boot: its shepherd has to have ended it by then; 0 = it was not told to */
    usec_t limit;       /* since boot: the end of its time; 0 = none, or not known */
    usec_t began;       /* since boot: its shepherd was forked; 0 = by an agent before this one */
    usec_t given_up;    /* since boot: its shepherd is gone, or is no longer waited for; 0 */
    uint32_t hung;      /* how often in a row its killed shepherd was seen to hang */
    bool unanswered;    /* it was given up because it never came up */
    char due_cause[16]; /* "" = "lost" */
    uint16_t *cpus;     /* owned; its own */
    uint32_t cpu_count;
    int64_t cpu_was; /* processor time at the last beat */
    usec_t cpu_at;
    uint8_t busy;                     /* percent of a processor since the beat before */
    int64_t memory;                   /* bytes at the last beat */
    struct {                          /* what its GPUs did, sampled with every beat: told with its end */
        uint32_t samples, memory_mib; /* the most */
        uint64_t util, util_square;   /* sums of percent over samples and GPUs */
        uint64_t since;               /* number of the first beat it ran in, which is not counted: it began within */
    } used;
    struct ring use;  /* of its GPUs while nobody else was on them */
    int32_t use_told; /* hundredths of a percent, last reported; -1 = never */
    struct task_progress progress;
    uint8_t idle_beats;       /* in a row, without use of its GPUs; no more than IDLE_BEATS */
    bool was_busy, idle_told; /* it has used them at all; and no longer, as last reported */
};

struct agent {
    struct agents *set;
    struct agent_config config;             /* strings owned */
    int dir, tasks_dir, tmp_dir, tmp_other; /* state; tasks, temporary folders, those of another configuration or -1 */
    bool private_tmp;                       /* has each task its own /tmp? */
    char state_path[3072];
    struct journal journal;
    uint64_t sent;             /* reports on this connection */
    bool dirty, patient, news; /* there is something to write; it may wait for the flush timer; progress to tell */
    bool trusting, unheard;    /* the sync timer runs; it has run out */
    struct conn *conn;         /* NULL = not connected */
    struct tls_context *tls;
    char *strings; /* of the configuration */
    int lock;
    bool welcome;
    struct loop_timer *beat_timer, *dial_timer, *flush_timer, *sync_timer, *watch_timer, *health_timer, *ask_timer;
    unsigned int dial_failures;
    usec_t lease, beat;            /* spans, as told */
    usec_t ahead;                  /* this node's clock, of the controller's; 0 where they agree */
    volatile int64_t *lease_until; /* mapped, since boot; 0 = none yet */
    uint64_t beat_n;
    struct {
        uint64_t n;
        usec_t sent;
    } beats[BEATS_KEPT];
    usec_t hello_sent, spool_next;
    struct cgroup_tree cgroup;
    struct gpus *gpus;
    struct gpu_runtime *runtime;              /* owned; NULL = none here */
    struct gpu_steps *steps;                  /* a question to it that is under way; NULL */
    struct gpu_health health[AGENT_GPUS_MAX]; /* as told */
    mgpu_t gpu_used[AGENT_GPUS_MAX];
    struct cpu_map *cpus; /* owned; NULL on emulated nodes: theirs are not there */
    struct task *tasks;
    struct ask *asks;
    char boot[40], machine[48]; /* the second "": it cannot be read */
    char instance[36];          /* of this process, random */
    struct child *rebooting;    /* the command that ends this machine; NULL */
    bool gone;                  /* being stopped */
};

struct agents {
    struct loop *loop;
    uv_prepare_t turn;
    struct forker forker;
    struct agent **list;
    size_t count, capacity;
    struct loop_timer *wait_timer;
    usec_t wait_until;
    int open; /* handles to be closed */
    bool stopping, dirty;
    void (*done)(void *arg);
    void *arg;
};

/* agent.c */
void agent_report(struct agent *agent, json_t *report); /* takes it; sent when it is written */
void agent_send(struct agent *agent, json_t *frame);    /* takes it */
void agent_frame(struct agent *agent, json_t *frame);   /* orders.c: borrowed */
void agent_dial(struct agent *agent);

/* agent_open.c */
int agent_configure(struct agent *agent, const struct agent_config *config); /* copies it */
int agent_open(struct agent *agent, struct error *err);
void agent_groups(struct agent *agent);
const char *agent_tmp_name(const struct agent *agent); /* where temporary folders of tasks are: "private" or "tmp" */

void agent_reboot(struct agent *agent, const json_t *order); /* reboot.c */

/* inventory.c */
json_t *agent_hello(struct agent *agent);
json_t *agent_beat(struct agent *agent);
void agent_health(struct agent *agent);
void agent_health_load(struct agent *agent);
/* What its GPUs did while it ran; NULL: it was too short to be seen. */
json_t *task_used(const struct task *task);
/* Processes of the task: how many there are; at most `max` are named. */
int task_pids(const struct task *task, pid_t *ret_pids, int max);
void task_usage(const struct task *task, int64_t *ret_cpu, int64_t *ret_memory, int *ret_pids);

/* task.c */
struct task *task_find(struct agent *agent, const struct task_id *id);
void task_launch(struct agent *agent, json_t *order);
void task_go(struct task *task);
void task_stop(struct task *task, const json_t *order);
void task_suspend(struct task *task, bool suspend);
void task_signal(struct task *task, int number);
void task_limit(struct task *task, int64_t memory_mib, int64_t percent);
void task_clean(struct task *task);
void task_remove(struct task *task); /* the same, and its successor follows */
void task_kill(struct task *task, const char *cause);
void task_repeat(struct task *task);
void task_news(struct task *task, json_t *news);                             /* what its shepherd says; takes it */
void task_set_state(struct task *task, enum task_state state, json_t *more); /* takes more; reports */
void task_gpus_left(struct agent *agent);
void task_hold(struct task *task); /* its GPUs are taken */
void task_cpus_give(struct task *task);
void task_cpus_keep(struct task *task, const json_t *plan); /* task_plan.c: those of a task that goes on */
void task_free(struct task *task);
bool task_over(const struct task *task);
int task_dir(const struct task *task); /* a descriptor to be closed; -errno */
struct task *task_new(struct agent *agent, const struct task_id *id);
void task_accept(struct task *task, json_t *order); /* a launch that was kept */

void tasks_recover(struct agent *agent); /* task_recover.c: after a start, what is in the state directory */
int plan_write(struct task *task, int dir, struct error *err); /* task_plan.c: what a shepherd is told */
const char *task_key(const struct task *task, char *out, size_t size);
void task_cgroup(const struct task *task, char *out, size_t size); /* "" = none */

int shep_start(struct task *task, struct error *err); /* shep_link.c */
int shep_attach(struct task *task);                   /* to one that runs */
void shep_tell(struct task *task, json_t *order);     /* takes it */
void shep_detach(struct task *task);

/* ask.c: logs, commands inside tasks. */
void ask_take(struct agent *agent, json_t *frame);
void asks_close(struct agent *agent); /* the connection is gone */
void asks_turn(struct agent *agent);  /* each looks whether there is more to answer */

int place_open(struct agent *agent); /* task_dir.c: STATE/tasks */
void place_leave(struct agent *agent);
