/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* shepherd.h - the process that looks after one task and outlives the agent.
 *
 * It makes the group and the directories, forks what is to run up to its gate, opens the gate when told, copies output,
 * enforces time limit, grace and lease by itself, and at the end kills whatever is left of the task, records how it
 * ended on the disk and says so to the agent, if there is one. One thread, poll(), no library but jansson.
 *
 *   preparing --> ready --> running <--> suspended
 *       |           |          |            |
 *       v           +----------+--> stopping --> exited
 *    refused                   +-----> kept ------^
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/task/cgroup.h"
#include "agent/task/log_times.h"
#include "base/buf.h"
#include "base/units.h"
#include "wire/agent/agent_msg.h"
#include "wire/agent/cause.h"

enum {
    PROCS_MAX = 256,
    SPEAKERS_MAX = 16,
    SPEAK_LINE_MAX = 512,
    TASK_PIDS_MAX = 4096,
    CAUSE_MAX = 200,
    COMMANDS_MAX = 64
};

/* Somewhere output goes, with an end. */
struct sink {
    char *path; /* owned; what it was opened as; of the spool a name in its folder */
    int fd;     /* -1 = none */
    bool user;  /* the writer has it */
    bool late;  /* opened when there is something to write */
    bool spool; /* ours: when it was written is kept too */
    uint64_t size, max, dropped;
    struct log_times times;
};

struct outlet {
    int fd;             /* read end of the pipe; -1 = closed */
    uint32_t log, file; /* numbers in shepherd.sinks; UINT32_MAX = none */
};

struct proc {
    pid_t pid;
    bool alone;    /* of a role, and ended while nobody had told it to */
    int in;        /* write end of its standard input, until that is over; -1 = it has none */
    int status_fd; /* 'R' at the gate, words of a failure, or its end when the program runs */
    bool at_gate, gone;
    int status; /* as of waitpid() */
    struct outlet out, err;
};

struct shepherd {
    int dir;             /* of the task */
    int logs, tmps, tmp; /* folders: the spool; where temporary folders of tasks are; the one of this */
    json_t *plan;
    struct task_id id;
    enum task_state state;
    char cgroup[CGROUP_PATH_MAX];
    int listener, peer, signals;
    struct buf heard; /* of the agent, up to a line's end */
    int gate;         /* write end */
    struct proc *procs;
    uint32_t proc_count, gone_count;
    struct sink *sinks;
    uint32_t sink_count;
    int writer;           /* of files that users named (output_writer.c); -1 = none */
    struct buf unwritten; /* packets it has no room for */
    usec_t writer_until;  /* since boot: no longer is it waited for; 0 = not yet */
    /* MUSTER_SOCKET */
    int ear;
    struct {
        int fd;
        size_t size;
        char line[SPEAK_LINE_MAX];
    } speakers[SPEAKERS_MAX];
    json_t *ckpt;                       /* the last the job spoke of; NULL */
    usec_t ckpt_told;                   /* since boot */
    bool ckpt_fresh;                    /* it is to be told */
    struct shepherd_progress *progress; /* owned; NULL = the job says nothing of how far it is */
    /* Time. */
    usec_t started; /* since 1970; 0 = none */
    usec_t end;     /* of its time, since boot, whatever the clock is set to meanwhile; 0 = none */
    bool warned;
    usec_t kill_at, nudge_at;     /* since boot; 0 = not set */
    pid_t commands[COMMANDS_MAX]; /* of the script, when it was told to stop */
    int command_count;
    int stop_signal;
    const volatile int64_t *lease; /* mapped; NULL = none */
    pid_t saver;                   /* the job's own command to save itself; 0 = none */
    pid_t mover;                   /* takes the task off its GPUs, or back; 0 = none */
    bool moving_back;
    bool hold, over, nudged;
    bool input; /* the agent is carrying input to it */
    /* shepherd_keep.c */
    struct proc keeper; /* what holds the place of a task that failed */
    usec_t peer_keep;   /* span, as told with the order to leave; 0 = not to be kept */
    usec_t kept_until;  /* since boot */
    json_t *kept;       /* how it ended; NULL = it is not kept and was not */
    bool failed;        /* one of the processes did, before anybody was told to stop */
    int failed_status;
    enum task_cause cause; /* why it leaves; NONE: nobody has told it to */
    char cause_word[16];   /* the same as it was told: to be shown only */
    char blame[16], words[CAUSE_MAX];
};

/* Runs the task of the directory to its end. Takes both descriptors; returns the exit status of the process. */
int shepherd_run(int dir, int listener);

bool shepherd_lease_over(const struct shepherd *s); /* shepherd.c */

/* shepherd_start.c: from the plan to processes at their gate. Failure: blame and words are set. */
int shepherd_prepare(struct shepherd *s);
int shepherd_group(struct shepherd *s); /* makes its group, with its limits; anew where there is one */
void shepherd_open_gate(struct shepherd *s);
void shepherd_status(struct shepherd *s, struct proc *proc); /* what it said before it became the program */
void shepherd_tmp_leave(struct shepherd *s);                 /* the temporary directory goes */
int shepherd_fail(struct shepherd *s, int code, const char *blame, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A process of the plan up to its gate; gate < 0: it starts. */
int shepherd_fork(struct shepherd *s, struct proc *proc, const json_t *plan, int gate);
int shepherd_fork_alone(struct shepherd *s, struct proc *proc, const json_t *plan); /* and it has started */

/* shepherd_in.c: where agents write what a process is to read: "in.N" of the task's directory, N from 0. */
int shepherd_in_open(struct shepherd *s, struct proc *proc, uint32_t number, int *ret_read);
void shepherd_in_over(struct shepherd *s); /* there will be no more: they see the end of it */

/* shepherd_child.c: the forked process; never returns. */
struct child_ends {
    int gate, status, in, out, err; /* in: -1 = nothing to be read */
    bool in_group;                  /* already */
    const struct shepherd *shepherd;
    char **argv, **env; /* NULL: there was no memory */
};

_Noreturn void shepherd_child(void *arg); /* struct child_ends */

/* shepherd_out.c */
int shepherd_open_sinks(struct shepherd *s);
uint32_t shepherd_sink(struct shepherd *s, const char *path, uint64_t max, bool as_user);
bool shepherd_copy(struct shepherd *s, struct outlet *outlet); /* false: closed */
void shepherd_close_sinks(struct shepherd *s);
void shepherd_attempt_header(const struct shepherd *s, int fd);

/* output_writer.c */
int output_writer_start(struct shepherd *s); /* before it is a reaper: the writer is not its child */
int output_writer_open(struct shepherd *s, uint32_t sink, const char *path);
void output_writer_put(struct shepherd *s, uint32_t sink, const void *data, size_t size); /* never waits */
void output_writer_flush(struct shepherd *s);                                             /* there may be room again */
bool output_writer_drain(struct shepherd *s);   /* false: it takes no more, and was waited for long enough */
uint64_t output_writer_end(struct shepherd *s); /* bytes that are lost */

/* shepherd_progress.c: a line of the socket; what a process wrote; telling the agent when that is due, and when it will
 * be (since boot, or USEC_NEVER); telling it again. */
void shepherd_progress_line(struct shepherd *s, const char *text);
void shepherd_progress_output(struct shepherd *s, const struct outlet *outlet, const char *data, size_t size);
usec_t shepherd_progress_due(struct shepherd *s, usec_t now);
void shepherd_progress_repeat(struct shepherd *s);
void shepherd_progress_close(struct shepherd *s);

/* shepherd_stop.c */
int shepherd_pids(const struct shepherd *s, pid_t *ret_pids, int max);
void shepherd_stop(struct shepherd *s, const json_t *order);
void shepherd_signal(struct shepherd *s, int number);
void shepherd_nudge(struct shepherd *s);
void shepherd_kill(struct shepherd *s, const char *cause); /* all of it, at once */
void shepherd_suspend(struct shepherd *s, bool suspend);
void shepherd_limit(struct shepherd *s, int64_t memory_mib, int64_t percent);
void shepherd_moved(struct shepherd *s, int status);
void shepherd_saved(struct shepherd *s);
pid_t shepherd_save(struct shepherd *s, const char *command); /* shepherd_child.c */
void shepherd_sweep(struct shepherd *s);                      /* until nothing of the task is left */
int shepherd_notice(struct shepherd *s, const json_t *order, usec_t deadline);

/* shepherd_keep.c */
bool shepherd_keep(struct shepherd *s);      /* it has ended: is its place kept? Then the loop goes on */
void shepherd_keep_look(struct shepherd *s); /* is that over? */
void shepherd_drain(struct shepherd *s);     /* shepherd.c: the rest of its output */

/* shepherd_tell.c */
void shepherd_set_state(struct shepherd *s, enum task_state state);
void shepherd_ended(struct shepherd *s, uint32_t proc); /* a process of the plan is gone: told, where it is of a role */
json_t *shepherd_news(const struct shepherd *s);
void shepherd_tell(struct shepherd *s, json_t *news); /* takes it */
void shepherd_heard(struct shepherd *s);
void shepherd_spoken(struct shepherd *s, uint32_t speaker);
usec_t shepherd_ckpt_due(struct shepherd *s, usec_t now); /* as shepherd_progress_due() */
void shepherd_listen(struct shepherd *s);
int shepherd_record(struct shepherd *s);
