/* SPDX-License-Identifier: Apache-2.0 */
/* task.c - the tasks of a node as the agent sees them.
 *
 * The agent is the second lock on a GPU: a launch that names one which a task of this node has not left waits here, no
 * matter what the controller believes. Every change of state is reported; an order for what is so already repeats the
 * last report.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/gpu_runtime.h"
#include "agent/lease.h"
#include "agent/task/task_emulate.h"
#include "agent/task/task_enforce.h"
#include "agent/util.h"
#include "base/alloc.h"
#include "io/beneath.h"
#include "io/log.h"

bool task_over(const struct task *task)
{
    return task->state == TASK_EXITED || task->state == TASK_REFUSED;
}

struct task *task_find(struct agent *agent, const struct task_id *id)
{
    for (struct task *task = agent->tasks; task; task = task->next)
        if (task->id.job == id->job && task->id.attempt == id->attempt && task->id.rank == id->rank)
            return task;
    return NULL;
}

struct task *task_new(struct agent *agent, const struct task_id *id)
{
    struct task *task = mem_zalloc(1, sizeof(*task));

    if (!task)
        return NULL;
    task->agent = agent;
    task->id = *id;
    (void)snprintf(task->name, sizeof(task->name), "%lld.%u.%u", (long long)id->job, id->attempt, id->rank);
    task->next = agent->tasks;
    agent->tasks = task;
    return task;
}

void task_free(struct task *task)
{
    struct task **at = &task->agent->tasks;

    while (*at && *at != task)
        at = &(*at)->next;
    if (*at)
        *at = task->next;
    shep_detach(task);
    loop_timer_free(task->timer);
    task_cpus_give(task);
    json_decref(task->report);
    json_decref(task->successor);
    if (task->launch.order)
        launch_done(&task->launch);
    mem_free(task);
}

int task_dir(const struct task *task)
{
    return beneath_open(task->agent->tasks_dir, task->name, O_RDONLY | O_DIRECTORY, 0);
}

static mgpu_t share_of(const struct task *task)
{
    mgpu_t share = task->launch.spec.gpu_share;

    if (task->launch.guest)
        return 0;
    return share > 0 && share < MGPU_ONE ? share : MGPU_ONE;
}

static const struct launch_node *here(const struct task *task)
{
    return task->launch.order ? launch_here(&task->launch) : NULL;
}

static bool goes_beside(const struct task *task, const struct task *other)
{
    for (uint32_t i = 0; other->holding && i < task->launch.beside_count; i++)
        if (task->launch.beside[i] == other->id.job)
            return true;
    return false;
}

/* What others have of the GPU whom the task has to wait for. */
static mgpu_t gpu_held(const struct task *task, uint16_t gpu)
{
    mgpu_t held = task->agent->gpu_used[gpu];

    for (const struct task *other = task->launch.beside_count ? task->agent->tasks : NULL; other; other = other->next) {
        const struct launch_node *node = goes_beside(task, other) ? here(other) : NULL;

        for (uint32_t i = 0; node && i < node->gpu_count; i++)
            held -= node->gpus[i] == gpu ? share_of(other) : 0;
    }
    return held;
}

static bool gpus_free(const struct task *task)
{
    const struct launch_node *node = here(task);

    for (uint32_t i = 0; node && !task->launch.guest && i < node->gpu_count; i++)
        if (gpu_held(task, node->gpus[i]) + share_of(task) > MGPU_ONE)
            return false;
    return true;
}

static void gpus_hold(struct task *task, bool hold)
{
    const struct launch_node *node = here(task);

    if (task->holding == hold || (hold && task->gated))
        return;
    task->holding = hold;
    for (uint32_t i = 0; node && i < node->gpu_count; i++)
        task->agent->gpu_used[node->gpus[i]] += hold ? share_of(task) : -share_of(task);
}

void task_cpus_give(struct task *task)
{
    for (uint32_t i = 0; task->agent->cpus && i < task->cpu_count; i++)
        cpus_mark(task->agent->cpus, task->cpus[i], false);
    mem_free(task->cpus);
    task->cpus = NULL;
    task->cpu_count = 0;
}

void task_hold(struct task *task)
{
    gpus_hold(task, true);
}

/* It never wrote anything: a file is made with the first byte. */
static bool task_silent(const struct task *task)
{
    char path[TASK_NAME_MAX + 16];
    struct stat st;

    for (int err = 0; err < 2; err++) {
        (void)snprintf(path, sizeof(path), "logs/%s.%s", task->name, err ? "err" : "out");
        if (fstatat(task->agent->dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT)
            return false;
    }
    return true;
}

void task_set_state(struct task *task, enum task_state state, json_t *more)
{
    json_t *report = more ? more : json_object(), *used;

    task->state = state;
    task->gated = task->gated && (state == TASK_PREPARING || state == TASK_READY);
    (void)json_object_set_new(report, "job", json_integer(task->id.job));
    (void)json_object_set_new(report, "attempt", json_integer(task->id.attempt));
    (void)json_object_set_new(report, "rank", json_integer(task->id.rank));
    (void)json_object_set_new(report, "state", json_string(task_state_name(state)));
    if (state == TASK_REFUSED)
        log_warn("task refused", "node", task->agent->config.node, "task", task->name, "why",
                 util_text(report, "cause"));
    used = state == TASK_EXITED ? task_used(task) : NULL;
    if (used)
        (void)json_object_set_new(report, "used", used);
    if (state == TASK_EXITED && task_silent(task))
        (void)json_object_set_new(report, "silent", json_true());
    json_decref(task->report);
    task->report = json_deep_copy(report);
    if (task->clean)
        json_decref(report);
    else
        agent_report(task->agent, report);
    if (task_over(task))
        task_cpus_give(task);
    if (state == TASK_SUSPENDED || task_over(task)) {
        gpus_hold(task, false);
        task_gpus_left(task->agent);
        asks_turn(task->agent); /* who follows its output need not wait for the next look */
    } else if (!task->waiting) {
        gpus_hold(task, true);
    }
    if (task->agent->gpus->fake)
        emulate_settle(task->agent);
}

void task_repeat(struct task *task)
{
    if (task->report)
        agent_report(task->agent, json_deep_copy(task->report));
}

static void task_refuse(struct task *task, const char *blame, const char *words)
{
    task->waiting = false;
    task_set_state(task, TASK_REFUSED, json_pack("{ss,ss}", "cause", words, "blame", blame));
}

/* Who may run here: root becomes anyone but itself; others only themselves. */
static int user_check(const struct task *task, struct error *err)
{
    const struct launch *l = &task->launch;
    uid_t me = geteuid();

    if (l->uid < 0 || l->gid < 0)
        return error_set(err, -EPERM, "the order names no user");
    if (me != 0 && l->uid != (int64_t)me)
        return error_set(err, -EPERM, "this agent runs as uid %u and cannot start tasks of uid %lld", me,
                         (long long)l->uid);
    if (l->uid != 0 && l->uid != (int64_t)me && l->uid < task->agent->config.least_uid)
        return error_set(err, -EPERM, "tasks of accounts below uid %lld are not allowed on this node, and that is %lld",
                         (long long)task->agent->config.least_uid, (long long)l->uid);
    /* Numbers of such groups differ from machine to machine: what is harmless elsewhere may be that of the disks here.
     */
    if (l->uid != 0 && l->uid != (int64_t)me && l->gid < task->agent->config.least_uid &&
        !task_group_held((uid_t)l->uid, (gid_t)l->gid))
        return error_set(err, -EPERM, "group %lld is none of the groups that user %lld has on this node",
                         (long long)l->gid, (long long)l->uid);
    if (l->uid == 0 && !task->agent->config.allow_root)
        return error_set(err, -EPERM, "tasks of root are not allowed on this node");
    return 0;
}

static int gpus_check(const struct task *task, struct error *err)
{
    const struct launch_node *node = here(task);

    for (uint32_t i = 0; node && i < node->gpu_count; i++)
        if (node->gpus[i] >= task->agent->gpus->count)
            return error_set(err, -ENODEV, "GPU %u is not on this node, which has %u", node->gpus[i],
                             task->agent->gpus->count);
    return 0;
}

enum { ROOM_LEAST = 1 << 20, FILES_LEAST = 16 };

/* Output that has no room is lost without a word, and the job may be all in vain: it had better run elsewhere. */
static int room_check(const struct task *task, struct error *err)
{
    struct statvfs fs;

    if (fstatvfs(task->agent->dir, &fs) < 0 ||
        ((uint64_t)fs.f_bavail * fs.f_frsize >= ROOM_LEAST && (fs.f_files == 0 || fs.f_favail >= FILES_LEAST)))
        return 0;
    return error_set(err, -ENOSPC, "no room for output: the disk of %s is full", task->agent->state_path);
}

/* What a task of the same number has left: after a restore the controller gives numbers again that it gave before, and
 * nobody is to find another's output in front of his own. */
static void log_forget(const struct task *task)
{
    char path[TASK_NAME_MAX + 24];

    for (int err = 0; err < 2; err++) {
        size_t n = (size_t)snprintf(path, sizeof(path), "logs/%s.%s", task->name, err ? "err" : "out");

        if (unlinkat(task->agent->dir, path, 0) < 0)
            continue;
        (void)snprintf(path + n, sizeof(path) - n, ".times");
        (void)unlinkat(task->agent->dir, path, 0);
    }
}

/* GPUs are free: begin. */
static void task_begin(struct task *task)
{
    struct error err = { 0 };
    int r;

    task->waiting = false;
    if (lease_over(task->agent)) { /* this process was stopped meanwhile: others may have it by now */
        task_refuse(task, "system", "the lease of the node had run out");
        return;
    }
    task->began = clock_boot();
    task->limit = util_boot_of(task->launch.end);
    gpus_hold(task, true);
    log_forget(task);
    if (task->emulated)
        r = emulate_start(task);
    else
        r = shep_start(task, &err);
    if (r < 0) {
        bool user = r == -EINVAL || r == -EOPNOTSUPP;

        task_refuse(task, user ? "user" : "system", err.text[0] ? err.text : strerror(-r));
    }
}

static int dir_make(struct task *task)
{
    return beneath_dir_ensure(task->agent->tasks_dir, task->name, 0711);
}

/* For one that does not begin now: what is to be done must be found after a restart. */
static int order_save(struct task *task, json_t *order)
{
    int dir = task_dir(task), r;

    if (dir < 0)
        return dir;
    r = util_json_write(dir, "order.json", order, false);
    close(dir);
    return r;
}

/* Also after a restart of the agent, for one that had not begun. */
void task_accept(struct task *task, json_t *order)
{
    struct error err = { 0 };
    int r = launch_read(order, &task->launch, &err);

    if (r == 0)
        r = user_check(task, &err);
    if (r == 0)
        r = gpus_check(task, &err);
    if (r == 0)
        r = room_check(task, &err);
    if (r < 0) {
        /* Who may not run here may not run here the next time either. */
        task_refuse(task, r == -EINVAL || r == -EPERM ? "user" : "system", err.text);
        return;
    }
    task->emulated = task->launch.spec.emulate_run > 0 && task->agent->gpus->fake;
    task->gated = task->launch.gate && !task->launch.go;
    task->waiting = !task->gated && !gpus_free(task);
    r = task->emulated ? launch_forget(&task->launch) : 0;
    if (r == 0 && (task->waiting || task->emulated))
        r = order_save(task, task->launch.order);
    if (r < 0)
        task_refuse(task, "system", strerror(-r));
    if (r < 0 || task->waiting)
        return;
    task_begin(task);
}

/* Another job's: after a restore the controller gives numbers again, and what it has never heard of goes first. */
static bool launch_other(struct task *task, json_t *order)
{
    if (!task->clean && born_same(util_i64(order, "born", BORN_UNTOLD), task->born))
        return false;
    json_decref(task->successor);
    task->successor = json_incref(order);
    if (!task->clean)
        task_remove(task);
    return true;
}

void task_launch(struct agent *agent, json_t *order)
{
    const struct task_id id = { util_i64(order, "job", 0), (uint32_t)util_i64(order, "attempt", 0),
                                (uint32_t)util_i64(order, "rank", 0) };
    struct task *task = task_find(agent, &id);
    int r;

    if (task && launch_other(task, order))
        return;
    if (task) {
        usec_t end = util_i64(order, "end", 0);

        if (task->launch.order && (end != task->launch.end || !task->limit)) {
            task->launch.end = end;
            task->limit = util_boot_of(end);
            shep_tell(task, json_pack("{ss,sI}", "do", "end", "end", (json_int_t)end));
        }
        launch_beside(&task->launch, order);
        task_repeat(task);
        if (util_flag(order, "go") && (task->state == TASK_READY || task->gated))
            task_go(task);
        return;
    }
    task = task_new(agent, &id);
    if (!task) {
        log_err("no memory for a task", "node", agent->config.node);
        return;
    }
    task->born = util_i64(order, "born", BORN_UNTOLD);
    r = dir_make(task);
    if (r < 0) {
        task_refuse(task, "system", strerror(-r));
        return;
    }
    task_accept(task, order);
}

/* Somebody has left: who waits for those GPUs may begin, first come first served. The list has the newest first. */
void task_gpus_left(struct agent *agent)
{
    for (;;) {
        struct task *oldest = NULL;

        for (struct task *task = agent->tasks; task; task = task->next)
            if ((task->waiting || task->want_resume || task->want_go) && !task_over(task) && gpus_free(task))
                oldest = task;
        if (!oldest || agent->set->stopping)
            return;
        if (oldest->waiting) {
            task_begin(oldest);
        } else if (oldest->want_go) {
            task_go(oldest);
        } else {
            oldest->want_resume = false;
            task_suspend(oldest, false);
        }
    }
}

void task_go(struct task *task)
{
    if (task->state != TASK_READY && task->state != TASK_PREPARING) {
        task_repeat(task);
        return;
    }
    if (task->launch.order)
        task->launch.go = true;
    if (task->waiting)
        return;
    /* The second lock: who was prepared behind another goes when that one has left, or is said to save its result only.
     */
    task->want_go = task->gated && !gpus_free(task);
    if (task->want_go)
        return;
    task->gated = false;
    gpus_hold(task, true);
    if (task->emulated)
        emulate_go(task);
    else
        shep_tell(task, json_pack("{ss}", "do", "go"));
}

void task_stop(struct task *task, const json_t *order)
{
    const char *kind = util_text(order, "kind");
    json_t *copy;

    if (task_over(task)) {
        task_repeat(task);
        return;
    }
    if (task->waiting) {
        task_kill(task, kind ? kind : "cancel");
        return;
    }
    if (task->emulated) {
        emulate_stop(task, order);
        return;
    }
    copy = json_deep_copy(order);
    (void)json_object_set_new(copy, "do", json_string("stop"));
    shep_tell(task, copy);
    task_due_by_order(task, order);
}

void task_kill(struct task *task, const char *cause)
{
    if (task_over(task))
        return;
    if (task->waiting) {
        task->waiting = false;
        task_set_state(task, TASK_EXITED,
                       json_pack("{si,si,sb,ss}", "exit", 137, "signal", 9, "oom", 0, "cause", cause));
    } else if (task->emulated) {
        emulate_end(task, 137, cause);
    } else {
        shep_tell(task, json_pack("{ss,ss}", "do", "kill", "cause", cause));
        (void)task_due(task, TASK_PATIENCE, cause);
    }
}

void task_suspend(struct task *task, bool suspend)
{
    if (task->state == (suspend ? TASK_SUSPENDED : TASK_RUNNING) || task_over(task)) {
        task_repeat(task);
        return;
    }
    if (!suspend && !gpus_free(task)) {
        task->want_resume = true;
        return;
    }
    task->want_resume = false;
    if (!suspend)
        gpus_hold(task, true);
    if (task->emulated)
        emulate_suspend(task, suspend);
    else
        shep_tell(task, json_pack("{ss}", "do", suspend ? "suspend" : "resume"));
}

void task_limit(struct task *task, int64_t memory_mib, int64_t percent)
{
    if (task_over(task) || task->emulated || memory_mib < 0 || memory_mib > UINT32_MAX || percent < 0 || percent > 100)
        return;
    shep_tell(task, json_pack("{ss,sI,sI}", "do", "limit", "memory_mib", (json_int_t)memory_mib, "percent",
                              (json_int_t)percent));
}

void task_signal(struct task *task, int number)
{
    if (!task->emulated)
        shep_tell(task, json_pack("{ss,si}", "do", "signal", "signal", number));
}

/* Its end is known, or nobody wants to know: what is left of it goes. Its output stays in the spool. */
void task_clean(struct task *task)
{
    json_decref(task->successor);
    task->successor = NULL;
    task_remove(task);
}

static void folder_remove(const struct task *task, int dir, const char *name)
{
    int r = beneath_tree_remove(dir, name);

    if (r < 0)
        log_warn("cannot remove", "node", task->agent->config.node, "folder", name, "why", strerror(-r));
}

/* Its shepherd has done that, unless it died; or does it now: whoever renames it first has it, and the other must not
 * follow it to where it may be somebody else's by then. */
static void tmp_remove(const struct task *task, int dir)
{
    char mine[TASK_NAME_MAX + 16];

    (void)snprintf(mine, sizeof(mine), ".gone-%s", task->name);
    if (beneath_rename(dir, task->name, dir, mine, true) == 0)
        folder_remove(task, dir, mine);
}

void task_remove(struct task *task)
{
    struct agent *agent = task->agent;
    json_t *successor = task->successor;
    char cgroup[CGROUP_PATH_MAX];

    if (!task_over(task)) {
        task->clean = true;
        task_kill(task, "cancel");
        return;
    }
    if (task->successor && task->link) {
        task->clean =
            true; /* its shepherd still removes what would be the successor's too; the end of the line says so */
        return;
    }
    folder_remove(task, agent->tasks_dir, task->name);
    tmp_remove(task, agent->tmp_dir);
    if (agent->tmp_other >= 0)
        tmp_remove(task, agent->tmp_other);
    gpu_runtime_ungrant(task);
    task_cgroup(task, cgroup, sizeof(cgroup));
    if (cgroup[0] && !task->emulated)
        (void)cgroup_remove(cgroup);
    task->successor = NULL;
    task_free(task);
    if (successor && !agent->set->stopping)
        task_launch(agent, successor);
    json_decref(successor);
}

void task_news(struct task *task, json_t *news)
{
    const json_t *ckpt = json_object_get(news, "ckpt"), *progress = json_object_get(news, "progress");
    int state = task_state_find(util_text(news, "state"));

    if (progress) {
        task_progress_take(task, progress);
        json_decref(news);
        return;
    }
    if (state < 0 && json_object_get(news, "ended")) {
        agent_report(task->agent, json_pack("{sI,sI,sI,sO}", "job", (json_int_t)task->id.job, "attempt",
                                            (json_int_t)task->id.attempt, "rank", (json_int_t)task->id.rank, "ended",
                                            json_object_get(news, "ended")));
        json_decref(news);
        return;
    }
    if (ckpt) {
        agent_report(task->agent, json_pack("{sI,sI,sI,ss,sO}", "job", (json_int_t)task->id.job, "attempt",
                                            (json_int_t)task->id.attempt, "rank", (json_int_t)task->id.rank, "state",
                                            task_state_name(task->state), "ckpt", ckpt));
        json_decref(news);
        return;
    }
    if (state < 0 || task_over(task) || (state == (int)task->state && task->report)) {
        json_decref(news);
        return;
    }
    if (state == TASK_KEPT && strcmp(task->due_cause, "fence") != 0)
        task->due = 0; /* it has left, as it was told to */
    task->pid = util_i64(news, "pid", 0);
    task->started = util_i64(news, "started", task->started); /* the end of a lost shepherd's task has none */
    /* So short that its shepherd had nobody to tell that it ran. */
    if ((state == TASK_EXITED || state == TASK_KEPT) && task->started &&
        (task->state == TASK_PREPARING || task->state == TASK_READY))
        task_set_state(task, TASK_RUNNING,
                       json_pack("{sI,sI}", "at", (json_int_t)task->started, "started", (json_int_t)task->started));
    task->shepherd = util_i64(news, "shepherd", task->shepherd);
    (void)json_object_del(news, "pid");
    (void)json_object_del(news, "shepherd");
    task_set_state(task, (enum task_state)state, news);
    if (task_over(task) && task->clean)
        task_remove(task);
}
