/* SPDX-License-Identifier: Apache-2.0 */
/* agent.c - an agent from its start to its end: state directory, connection, beats, lease, reports.
 *
 * The lease is counted from when the last beat that was answered was sent, and is written into a file that every
 * shepherd has mapped: whether it is this process, the network or the controller that is gone, the tasks end in time.
 */
#include "agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "agent/lease.h"
#include "agent/task/spool.h"
#include "agent/task/task_enforce.h"
#include "agent/util.h"
#include "base/alloc.h"
#include "io/child.h"
#include "io/local_token.h"
#include "io/log.h"

#define RETRY_FIRST (100 * USEC_MSEC)
#define RETRY_MAX (10 * USEC_SEC)
#define HEALTH_EVERY (2 * USEC_SEC)
#define PATIENCE (5 * USEC_MSEC)
#define TRUST (30 * USEC_MSEC) /* for so long the controller may take to say that it keeps a report */
enum { SEND_TOGETHER = 64 };
#define SPOOL_EVERY (10 * USEC_MIN)

static uint64_t random_below(uint64_t limit)
{
    uint64_t value = 0;

    (void)!getrandom(&value, sizeof(value), GRND_NONBLOCK);
    return limit ? value % limit : 0;
}

/* Doubles up to the longest; half of it is chance, so that a thousand agents do not return as one. */
static void dial_later(struct agent *agent)
{
    usec_t longest = agent->config.retry_max ? agent->config.retry_max : RETRY_MAX, pause = RETRY_FIRST;

    for (unsigned int i = 0; i < agent->dial_failures && pause < longest; i++)
        pause *= 2;
    pause = pause < longest ? pause : longest;
    agent->dial_failures++;
    loop_timer_after(agent->dial_timer, pause / 2 + (usec_t)random_below((uint64_t)pause / 2 + 1));
}

static void part_closed(struct agents *agents)
{
    if (--agents->open == 0 && agents->done)
        agents->done(agents->arg);
}

static void on_open(void *arg)
{
    struct agent *agent = arg;

    agent->hello_sent = clock_boot();
    agent_send(agent, agent_hello(agent));
}

static void on_frame(void *arg, json_t *frame)
{
    agent_frame(arg, frame);
}

static void on_conn_closed(void *arg, const struct error *err)
{
    struct agent *agent = arg;

    if (!agent->gone && (agent->welcome || agent->dial_failures == 0))
        log_warn("connection lost", "node", agent->config.node, "why", err->text);
    agent->conn = NULL;
    agent->welcome = false;
    if (journal_at_risk(&agent->journal))
        agent->dirty = agent->set->dirty = true;
    loop_timer_stop(agent->beat_timer);
    asks_close(agent);
    if (agent->gone)
        part_closed(agent->set);
    else
        dial_later(agent);
}

/* Certificates are read anew for each connection: they may have been renewed. */
static int tls_open(struct agent *agent, struct tls_context **ret_tls, struct error *err)
{
    char cert[PATH_MAX], key[PATH_MAX], ca[PATH_MAX];
    const struct tls_files files = { cert, key, ca };

    (void)snprintf(cert, sizeof(cert), "%s/node.crt", agent->state_path);
    (void)snprintf(key, sizeof(key), "%s/node.key", agent->state_path);
    (void)snprintf(ca, sizeof(ca), "%s/ca.crt", agent->state_path);
    if (access(cert, R_OK) < 0)
        return error_set(err, -ENOENT, "%s is not there: `muster-agent join URL TOKEN` first", cert);
    return tls_client_new(&files, ret_tls, err);
}

/* Without TLS it is a controller that was started with --dev, and asks for its token. */
static void token_find(const struct agent *agent, struct conn_target *target)
{
    const char *told = getenv("MUSTER_TOKEN"); /* NOLINT(concurrency-mt-unsafe): one thread */

    if (local_token_of_url(agent->config.url, target->token, sizeof(target->token)) < 0 && told &&
        strlen(told) < sizeof(target->token) && !strpbrk(told, "\r\n"))
        (void)snprintf(target->token, sizeof(target->token), "%s", told);
}

void agent_dial(struct agent *agent)
{
    const struct conn_events events = { on_open, on_frame, on_conn_closed, agent };
    struct conn_target target;
    struct error err = { 0 };
    int r = conn_target_parse(agent->config.url, &target, &err);

    if (agent->conn || agent->gone)
        return;
    if (r == 0 && target.tls) {
        tls_context_free(agent->tls);
        agent->tls = NULL;
        r = tls_open(agent, &agent->tls, &err);
    }
    if (r == 0 && !target.tls)
        token_find(agent, &target);
    if (agent->config.tls_name)
        (void)snprintf(target.name, sizeof(target.name), "%s", agent->config.tls_name);
    if (r == 0)
        r = conn_dial(loop_uv(agent->set->loop), &target, target.tls ? agent->tls : NULL, &events, &agent->conn, &err);
    if (r < 0) {
        log_err("cannot dial", "node", agent->config.node, "why", err.text);
        dial_later(agent);
    }
}

static void on_dial_timer(void *arg)
{
    agent_dial(arg);
}

void agent_send(struct agent *agent, json_t *frame)
{
    if (agent->conn && frame)
        (void)conn_send(agent->conn, frame);
    json_decref(frame);
}

void agent_report(struct agent *agent, json_t *report)
{
    struct error err = { 0 };
    const char *state;
    bool patient;

    (void)json_object_set_new(report, "t", json_string("report"));
    if (!json_object_get(report, "at"))
        (void)json_object_set_new(report, "at", json_integer(clock_real()));
    /* That it runs may be said together with how it ended, where that is a moment later: one write, one message. */
    state = util_text(report, "state");
    patient = state && task_state_find(state) == TASK_RUNNING && !json_object_get(report, "ckpt");
    journal_join(&agent->journal, report);
    if (journal_append(&agent->journal, report, &err) < 0)
        log_err("a report is lost", "node", agent->config.node, "why", err.text);
    if (patient && !agent->dirty) {
        if (!agent->patient)
            loop_timer_after(agent->flush_timer, PATIENCE);
        agent->patient = true;
        return;
    }
    agent->dirty = true;
    agent->set->dirty = true;
}

void agent_progress_now(struct agent *agent)
{
    agent->news = agent->dirty = agent->set->dirty = true;
}

static void on_flush_timer(void *arg)
{
    struct agent *agent = arg;

    agent->dirty = agent->set->dirty = true;
}

static void on_sync_timer(void *arg)
{
    struct agent *agent = arg;

    agent->trusting = false;
    if (journal_at_risk(&agent->journal))
        agent->unheard = agent->dirty = agent->set->dirty = true;
}

/* What changed of how far jobs are; the rest goes with the beat. */
static void progress_send(struct agent *agent)
{
    json_t *rows = agent_progress(agent);

    if (rows)
        agent_send(agent, json_pack("{ss,so}", "t", "progress", "progress", rows));
}

/* What was appended in this turn is written once, then sent. The controller keeps it better than this machine's disk,
 * and says so in a moment; when it does not, or is not there, the disk has to do. */
static void agent_flush(struct agent *agent)
{
    struct error err = { 0 };
    bool heard = agent->welcome && agent->conn && !agent->unheard;

    if (journal_flush(&agent->journal, !heard, &err) < 0) {
        log_err("cannot write", "node", agent->config.node, "why", err.text);
        return; /* stays dirty: the next turn tries again */
    }
    while (agent->welcome && agent->conn) {
        json_t *reports[SEND_TOGETHER], *report;
        uint64_t last = agent->sent;
        size_t count = 0;

        for (; count < SEND_TOGETHER && (report = journal_after(&agent->journal, last)); reports[count++] = report)
            last = (uint64_t)util_i64(report, "seq", 0);
        if (count == 0 || conn_send_all(agent->conn, reports, count) < 0)
            break;
        agent->sent = last;
    }
    if (agent->news && agent->welcome && agent->conn)
        progress_send(agent);
    agent->news = agent->dirty = agent->patient = agent->unheard = false;
    if (!agent->trusting && journal_at_risk(&agent->journal)) {
        agent->trusting = true;
        loop_timer_after(agent->sync_timer, TRUST);
    }
}

static void on_turn(uv_prepare_t *handle)
{
    struct agents *agents = handle->data;

    if (!agents->dirty)
        return;
    agents->dirty = false;
    for (size_t i = 0; i < agents->count; i++)
        if (agents->list[i]->dirty) {
            agent_flush(agents->list[i]);
            agents->dirty |= agents->list[i]->dirty;
        }
}

static void on_beat_timer(void *arg)
{
    struct agent *agent = arg;
    uint64_t n = ++agent->beat_n;

    if (!agent->welcome)
        return;
    agent->beats[n % BEATS_KEPT].n = n;
    agent->beats[n % BEATS_KEPT].sent = clock_boot();
    agent_send(agent, agent_beat(agent));
}

/* Is it the output of a task that is not gone? Names begin with the task's. */
static bool log_busy(void *arg, const char *name)
{
    const struct agent *agent = arg;

    for (const struct task *task = agent->tasks; task; task = task->next)
        if (strncmp(name, task->name, strlen(task->name)) == 0 && name[strlen(task->name)] == '.')
            return true;
    return false;
}

static void on_health_timer(void *arg)
{
    struct agent *agent = arg;
    int dir;

    agent_health(agent);
    if (lease_over(agent))
        lease_end(agent); /* timers do not count the sleep of a machine, a lease does */
    tasks_enforce(agent);
    gpu_runtime_turn(agent);
    gpu_steps_look(agent);
    if (clock_boot() < agent->spool_next)
        return;
    agent->spool_next = clock_boot() + SPOOL_EVERY;
    dir = openat(agent->dir, "logs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return;
    (void)spool_trim(dir, SPOOL_AGE_MAX, SPOOL_BYTES_MAX, log_busy, agent);
    close(dir);
}

static int timers_open(struct agent *agent)
{
    struct loop *loop = agent->set->loop;
    int r = loop_timer_new(loop, on_beat_timer, agent, &agent->beat_timer);

    if (r == 0)
        r = loop_timer_new(loop, on_flush_timer, agent, &agent->flush_timer);
    if (r == 0)
        r = loop_timer_new(loop, on_sync_timer, agent, &agent->sync_timer);
    if (r == 0)
        r = loop_timer_new(loop, on_dial_timer, agent, &agent->dial_timer);
    if (r == 0)
        r = loop_timer_new(loop, lease_end, agent, &agent->watch_timer);
    if (r == 0)
        r = loop_timer_new(loop, on_health_timer, agent, &agent->health_timer);
    if (r == 0)
        loop_timer_every(agent->health_timer, HEALTH_EVERY);
    return r;
}

/* Groups of tasks that are over are their shepherds' to remove, which may be at it just now. */
static void cgroup_leave(const struct agent *agent)
{
    bool over = true;

    for (const struct task *task = agent->tasks; task; task = task->next)
        over = over && task_over(task);
    if (agent->cgroup.path[0])
        (void)(over ? cgroup_remove(agent->cgroup.path) : rmdir(agent->cgroup.path));
}

static void agent_free(struct agent *agent)
{
    cgroup_leave(agent);
    while (agent->tasks)
        task_free(agent->tasks);
    loop_timer_free(agent->beat_timer);
    loop_timer_free(agent->dial_timer);
    loop_timer_free(agent->flush_timer);
    loop_timer_free(agent->sync_timer);
    loop_timer_free(agent->watch_timer);
    loop_timer_free(agent->health_timer);
    loop_timer_free(agent->ask_timer);
    journal_close(&agent->journal);
    gpu_steps_close(agent);
    gpu_runtime_close(agent);
    gpus_close(agent->gpus);
    tls_context_free(agent->tls);
    if (agent->lease_until)
        (void)munmap((void *)(uintptr_t)agent->lease_until, sizeof(int64_t));
    if (agent->dir >= 0) {
        if (agent->lock >= 0)
            place_leave(agent);
        close(agent->dir);
    }
    if (agent->tmp_dir >= 0)
        close(agent->tmp_dir);
    if (agent->tmp_other >= 0)
        close(agent->tmp_other);
    if (agent->tasks_dir >= 0)
        close(agent->tasks_dir);
    if (agent->lock >= 0)
        close(agent->lock);
    mem_free(agent->cpus);
    mem_free(agent->strings);
    mem_free(agent);
}

int agents_add(struct agents *agents, const struct agent_config *config, struct error *err)
{
    struct agent *agent = mem_zalloc(1, sizeof(*agent));
    int r = agent ? mem_grow((void **)&agents->list, &agents->capacity, agents->count + 1, 1 << 16, sizeof(agent))
                  : -ENOMEM;

    if (r == 0) {
        agent->set = agents;
        agent->dir = agent->lock = agent->journal.fd = agent->tasks_dir = agent->tmp_dir = agent->tmp_other = -1;
        r = agent_configure(agent, config);
    }
    if (r < 0) {
        mem_free(agent);
        return error_set(err, r, "no memory for an agent");
    }
    r = agent_open(agent, err);
    if (r == 0 && timers_open(agent) < 0)
        r = error_set(err, -ENOMEM, "no memory");
    if (r < 0) {
        agent_free(agent);
        return error_prefix(err, r, "node %s", config->node);
    }
    agent_health_load(agent);
    if (!agent->gpus->fake && (agent->cpus = mem_zalloc(1, sizeof(*agent->cpus))))
        cpus_read(agent->cpus);
    agent_groups(agent);
    gpu_runtime_open(agent);
    agents->list[agents->count++] = agent;
    tasks_recover(agent);
    lease_begin(agent);
    agent_dial(agent);
    return 0;
}

int agents_new(struct loop *loop, struct agents **ret_agents, struct error *err)
{
    struct agents *agents = mem_zalloc(1, sizeof(*agents));
    int r;

    if (!agents)
        return error_set(err, -ENOMEM, "no memory");
    agents->loop = loop;
    r = forker_start(&agents->forker, loop_uv(loop), err);
    if (r < 0) {
        mem_free(agents);
        return r;
    }
    (void)uv_prepare_init(loop_uv(loop), &agents->turn);
    agents->turn.data = agents;
    (void)uv_prepare_start(&agents->turn, on_turn);
    *ret_agents = agents;
    return 0;
}

size_t agents_count(const struct agents *agents)
{
    return agents->count;
}

static void on_forker_closed(void *arg)
{
    part_closed(arg);
}

static void on_turn_closed(uv_handle_t *handle)
{
    part_closed(handle->data);
}

static void agents_close(struct agents *agents)
{
    loop_timer_free(agents->wait_timer);
    agents->wait_timer = NULL;
    agents->open = 2;
    for (size_t i = 0; i < agents->count; i++) {
        struct agent *agent = agents->list[i];

        agent->gone = true;
        if (agent->dirty)
            agent_flush(agent);
        if (agent->conn) {
            agents->open++;
            conn_close(agent->conn);
        }
        asks_close(agent);
        if (agent->rebooting)
            child_abandon(agent->rebooting);
        agent->rebooting = NULL;
        for (struct task *task = agent->tasks; task; task = task->next)
            shep_detach(task);
    }
    uv_close((uv_handle_t *)&agents->turn, on_turn_closed);
    forker_stop(&agents->forker, on_forker_closed, agents);
}

static bool all_over(const struct agents *agents)
{
    for (size_t i = 0; i < agents->count; i++)
        for (const struct task *task = agents->list[i]->tasks; task; task = task->next)
            if (!task_over(task))
                return false;
    return true;
}

static void on_wait_timer(void *arg)
{
    struct agents *agents = arg;

    if (all_over(agents) || clock_boot() > agents->wait_until)
        agents_close(agents);
}

void agents_stop(struct agents *agents, bool kill, void (*done)(void *arg), void *arg)
{
    agents->done = done;
    agents->arg = arg;
    agents->stopping = true;
    for (size_t i = 0; kill && i < agents->count; i++)
        for (struct task *task = agents->list[i]->tasks, *next; task; task = next) {
            next = task->next;
            if (!task_over(task))
                task_kill(task, "cancel");
        }
    if (!kill || all_over(agents) || loop_timer_new(agents->loop, on_wait_timer, agents, &agents->wait_timer) < 0) {
        agents_close(agents);
        return;
    }
    agents->wait_until = clock_boot() + 10 * USEC_SEC;
    loop_timer_every(agents->wait_timer, 5 * USEC_MSEC);
}

void agents_free(struct agents *agents)
{
    if (!agents)
        return;
    for (size_t i = 0; i < agents->count; i++)
        agent_free(agents->list[i]);
    mem_free(agents->list);
    mem_free(agents);
}
