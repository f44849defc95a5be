/* SPDX-License-Identifier: Apache-2.0 */
/* shepherd_stop.c - how a task is told to leave, and made to.
 *
 * First the notice file, then a signal to every process of the task, then, after the grace, SIGKILL. The shell that
 * runs a script is spared the signal unless it has a trap for it: it would die at once and take the exit code of the
 * program, which may say "I saved, run me again", with it. Commands such a shell starts afterwards are told as well
 * (nudge). One with a trap has been told: what it starts then is how it saves itself, and nobody's to disturb.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/off_gpu.h"
#include "agent/shepherd/shepherd.h"
#include "agent/task/procs.h"
#include "agent/util.h"
#include "io/beneath.h"

#define NUDGE_EVERY (200 * USEC_MSEC)
#define GRACE_DEFAULT_MS 30000

enum { DEPTH_MAX = 64 }; /* of processes below a shell */

int shepherd_pids(const struct shepherd *s, pid_t *ret_pids, int max)
{
    return s->cgroup[0] ? cgroup_pids(s->cgroup, ret_pids, max) : procs_below(getpid(), s->mover, ret_pids, max);
}

static bool is_leader(const struct shepherd *s, pid_t pid)
{
    for (uint32_t i = 0; i < s->proc_count; i++)
        if (s->procs[i].pid == pid && !s->procs[i].gone)
            return true;
    return false;
}

/* Does the shell have a child that can answer for it? */
static bool has_child(pid_t pid, const pid_t *pids, int count)
{
    for (int i = 0; i < count; i++)
        if (pids[i] != pid && procs_parent(pids[i]) == pid)
            return true;
    return false;
}

/* The shell it is below, or is; 0: none that is left. */
static pid_t leader_of(const struct shepherd *s, pid_t pid)
{
    for (int depth = 0; pid > 1 && depth < DEPTH_MAX; depth++, pid = procs_parent(pid))
        if (is_leader(s, pid))
            return pid;
    return 0;
}

enum to {
    TO_ALL,
    TO_PROGRAMS, /* not to the shell of a script that has no trap for it */
    TO_SPARED,   /* to those shells, what they have started since, and what nobody answers for any more */
};

static void signal_all(struct shepherd *s, int number, enum to to)
{
    static pid_t pids[TASK_PIDS_MAX];
    int count = shepherd_pids(s, pids, TASK_PIDS_MAX);
    bool shell = to == TO_PROGRAMS && util_text(s->plan, "script") != NULL;

    if (count > TASK_PIDS_MAX)
        count = TASK_PIDS_MAX;
    for (int i = 0; i < count; i++) {
        pid_t leader = to == TO_SPARED ? leader_of(s, pids[i]) : 0;

        if (pids[i] == s->keeper.pid || (leader && procs_catches(leader, number)))
            continue;
        if (shell && is_leader(s, pids[i]) && !procs_catches(pids[i], number) && has_child(pids[i], pids, count))
            continue;
        (void)kill(pids[i], number);
    }
}

/* Commands of the shells, as they are now. */
static int commands(const struct shepherd *s, pid_t *ret_pids, int max)
{
    static pid_t pids[TASK_PIDS_MAX];
    int count = shepherd_pids(s, pids, TASK_PIDS_MAX), found = 0;

    for (int i = 0; i < count && i < TASK_PIDS_MAX && found < max; i++)
        if (is_leader(s, procs_parent(pids[i])))
            ret_pids[found++] = pids[i];
    return found;
}

/* Has a shell that was spared started something since its command was told to stop? */
static bool went_on(const struct shepherd *s)
{
    pid_t now[COMMANDS_MAX];
    int count = commands(s, now, COMMANDS_MAX);

    for (int i = 0; i < count; i++) {
        bool known = procs_catches(procs_parent(now[i]), s->stop_signal);

        for (int k = 0; k < s->command_count && !known; k++)
            known = s->commands[k] == now[i];
        if (!known)
            return true;
    }
    return false;
}

void shepherd_signal(struct shepherd *s, int number)
{
    if (number <= 0 || number >= NSIG || !s->started)
        return;
    signal_all(s, number, TO_PROGRAMS);
}

void shepherd_nudge(struct shepherd *s)
{
    s->nudge_at = s->state == TASK_STOPPING ? clock_boot() + NUDGE_EVERY : 0;
    if (s->state != TASK_STOPPING || s->gone_count == s->proc_count || s->nudged || !util_text(s->plan, "script"))
        return;
    if (went_on(s)) {
        s->nudged = true;
        signal_all(s, s->stop_signal, TO_SPARED);
    }
}

static void cause_set(struct shepherd *s, const char *word)
{
    s->cause = *word ? task_cause_find(word) : TASK_CAUSE_NONE;
    (void)snprintf(s->cause_word, sizeof(s->cause_word), "%.15s", word);
}

/* Words of the notice: people know "job 17"; a gang that loses a rank is cancelled, one that is to run again elsewhere
 * is preempted. */
static json_t *notice_make(const json_t *order, usec_t deadline)
{
    const char *kind = util_text(order, "kind"), *by = util_text(order, "by");
    int64_t job = util_i64(order, "by", 0);
    char text[32] = "";

    switch ((int)stop_cause_find(kind)) {
    case STOP_CAUSE_PEER:
        kind = stop_cause_name(STOP_CAUSE_CANCEL);
        break;
    case STOP_CAUSE_MIGRATE:
        kind = util_flag(order, "resize") ? "resize" : stop_cause_name(STOP_CAUSE_PREEMPT);
        break;
    case STOP_CAUSE_REQUEUE:
        kind = stop_cause_name(STOP_CAUSE_PREEMPT);
        break;
    default: /* as it is told */
        kind = kind ? kind : stop_cause_name(STOP_CAUSE_CANCEL);
    }
    if (job > 0)
        (void)snprintf(text, sizeof(text), "job %lld", (long long)job);
    return json_pack("{ss,sI,ss,sI}", "kind", kind, "deadline", (json_int_t)(deadline / USEC_SEC), "by", by ? by : text,
                     "grace_seconds", (json_int_t)(util_i64(order, "grace_ms", 0) / 1000));
}

int shepherd_notice(struct shepherd *s, const json_t *order, usec_t deadline)
{
    json_t *notice = notice_make(order, deadline);
    int dir = beneath_open(s->dir, "job", O_RDONLY | O_DIRECTORY, 0), r = -EBADF;

    if (dir >= 0) {
        r = util_json_publish(dir, "notice.json", notice);
        close(dir);
    }
    json_decref(notice);
    return r;
}

/* A job that is to run again saves itself first, if it has a command for that. */
static bool saves(const struct shepherd *s)
{
    return util_text(s->plan, "ckpt_cmd") && s->cause != TASK_CAUSE_CANCEL && s->cause != TASK_CAUSE_PEER;
}

void shepherd_stop(struct shepherd *s, const json_t *order)
{
    const char *kind = util_text(order, "kind");
    int64_t grace = util_i64(order, "grace_ms", util_i64(s->plan, "grace_ms", GRACE_DEFAULT_MS));
    usec_t until = clock_boot() + grace * USEC_MSEC;
    int number = (int)util_i64(order, "signal", 0);

    s->peer_keep = util_i64(order, "keep_ms", 0) * USEC_MSEC;
    if (s->state == TASK_KEPT) { /* there is nothing that would want a grace */
        s->over = s->peer_keep == 0;
        return;
    }
    /* A second order can only shorten the grace. */
    if (s->state == TASK_STOPPING) {
        if (!s->kill_at || until < s->kill_at)
            s->kill_at = until;
        return;
    }
    cause_set(s, kind ? kind : stop_cause_name(STOP_CAUSE_CANCEL));
    if (!s->started || s->hold || grace <= 0) {
        shepherd_kill(s, s->cause_word);
        return;
    }
    if (s->state == TASK_SUSPENDED || s->mover)
        shepherd_suspend(s, false); /* it cannot answer asleep */
    (void)shepherd_notice(s, order, clock_real() + grace * USEC_MSEC);
    s->stop_signal = number > 0 && number < NSIG ? number : (int)util_i64(s->plan, "signal", SIGTERM);
    s->kill_at = until;
    shepherd_set_state(s, TASK_STOPPING);
    s->saver = saves(s) ? shepherd_save(s, util_text(s->plan, "ckpt_cmd")) : 0;
    if (s->saver <= 0)
        shepherd_saved(s);
}

void shepherd_saved(struct shepherd *s)
{
    s->saver = 0;
    s->command_count = commands(s, s->commands, COMMANDS_MAX);
    signal_all(s, s->stop_signal, TO_PROGRAMS);
    s->nudge_at = clock_boot() + NUDGE_EVERY;
}

void shepherd_kill(struct shepherd *s, const char *cause)
{
    if (!s->cause)
        cause_set(s, cause);
    if (s->cause == TASK_CAUSE_EXIT)
        cause_set(s, ""); /* a neighbour failed: the task's own end */
    s->over = true;
}

/* Without groups, commands that were run inside the task are found by the mark in their environment. */
static int marked_pids(const struct shepherd *s, pid_t *ret_pids, int max)
{
    const json_t *env = json_object_get(s->plan, "env"), *one;
    size_t i;

    json_array_foreach(env, i, one) if (strncmp(json_string_value(one), "MUSTER_TASK_KEY=", 16) ==
                                        0) return procs_marked(json_string_value(one), ret_pids, max);
    return 0;
}

/* Nothing of the task may outlive this: not a process that made its own session, not one that is being forked now. */
void shepherd_sweep(struct shepherd *s)
{
    static pid_t pids[TASK_PIDS_MAX];
    const struct timespec nap = { 0, 2 * 1000 * 1000 };

    if (s->gate >= 0)
        close(s->gate);
    s->gate = -1;
    if (s->mover)
        (void)kill(s->mover, SIGKILL);
    for (;;) {
        bool empty = s->cgroup[0] && cgroup_busy(s->cgroup) == 0; /* asked first: it is cheaper than to look for them */
        int status, count = empty ? 0 : shepherd_pids(s, pids, TASK_PIDS_MAX);
        pid_t pid;

        if (!s->cgroup[0] && count == 0)
            count = marked_pids(s, pids, TASK_PIDS_MAX);

        if (count > 0 && (!s->cgroup[0] || cgroup_kill(s->cgroup) < 0))
            for (int i = 0; i < count && i < TASK_PIDS_MAX; i++)
                (void)kill(pids[i], SIGKILL);
        while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
            for (uint32_t i = 0; i < s->proc_count; i++)
                if (s->procs[i].pid == pid && !s->procs[i].gone) {
                    s->procs[i].gone = true;
                    s->procs[i].status = status;
                }
        /* What is not in the group, or not yet, is still below this process: it is the reaper of all of them. */
        if (pid == 0 && s->cgroup[0]) {
            count = procs_below(getpid(), 0, pids, TASK_PIDS_MAX);
            for (int i = 0; i < count && i < TASK_PIDS_MAX; i++)
                (void)kill(pids[i], SIGKILL);
        }
        if (pid < 0 && errno == ECHILD && count == 0 &&
            (s->cgroup[0] ? cgroup_busy(s->cgroup) <= 0 : shepherd_pids(s, pids, 1) == 0))
            break;
        (void)nanosleep(&nap, NULL);
        for (uint32_t i = 0; i < s->proc_count; i++) {
            if (s->procs[i].out.fd >= 0)
                (void)shepherd_copy(s, &s->procs[i].out);
            if (s->procs[i].err.fd >= 0)
                (void)shepherd_copy(s, &s->procs[i].err);
        }
    }
    if (s->cgroup[0] && cgroup_number(s->cgroup, "memory.events", "oom_kill") > 0)
        (void)json_object_set_new(s->plan, "oom_killed", json_true());
}

static void hold_all(struct shepherd *s, bool frozen)
{
    if (!s->cgroup[0] || cgroup_freeze(s->cgroup, frozen) < 0)
        signal_all(s, frozen ? SIGSTOP : SIGCONT, TO_ALL);
}

/* There as long as it sleeps, for whoever looks after the job from outside, and for its runtime library on the way. */
static void sleep_notice(struct shepherd *s, bool suspend)
{
    json_t *order = json_pack("{ss}", "kind", "suspend");
    int dir = beneath_open(s->dir, "job", O_RDONLY | O_DIRECTORY, 0);

    if (suspend)
        (void)shepherd_notice(s, order, clock_real());
    else if (dir >= 0)
        (void)beneath_unlink(dir, "notice.json");
    if (dir >= 0)
        close(dir);
    json_decref(order);
}

/* Off the GPU first, where the runtime library is in the program; then every process sleeps. On the way back the other
 * way round. */
void shepherd_suspend(struct shepherd *s, bool suspend)
{
    static pid_t pids[TASK_PIDS_MAX];
    int count;

    if (s->state == TASK_KEPT && suspend) {
        s->over = true; /* others are to have its GPUs */
        return;
    }
    if (s->mover || (suspend ? s->state != TASK_RUNNING : s->state != TASK_SUSPENDED))
        return;
    sleep_notice(s, suspend);
    if (!suspend) {
        hold_all(s, false);
        shepherd_set_state(s, TASK_RUNNING);
    }
    count = shepherd_pids(s, pids, TASK_PIDS_MAX);
    s->moving_back = !suspend;
    s->mover = off_gpu_start(s->plan, pids, count > TASK_PIDS_MAX ? TASK_PIDS_MAX : count, suspend);
    if (s->mover > 0)
        return;
    s->mover = 0;
    if (suspend) {
        hold_all(s, true);
        shepherd_set_state(s, TASK_SUSPENDED);
    }
}

/* A pause or a cap waits for work in flight, so another process asks for it; it is reaped with the strays. */
void shepherd_limit(struct shepherd *s, int64_t memory_mib, int64_t percent)
{
    static pid_t pids[TASK_PIDS_MAX];
    int count;

    if (s->state != TASK_RUNNING || s->mover)
        return;
    count = shepherd_pids(s, pids, TASK_PIDS_MAX);
    (void)limit_gpu_start(s->plan, pids, count > TASK_PIDS_MAX ? TASK_PIDS_MAX : count, memory_mib, percent);
}

void shepherd_moved(struct shepherd *s, int status)
{
    (void)status;
    s->mover = 0;
    if (s->moving_back || s->state != TASK_RUNNING)
        return;
    hold_all(s, true);
    shepherd_set_state(s, TASK_SUSPENDED);
}
