/* SPDX-License-Identifier: Apache-2.0 */
/* inventory.c - what a node says of itself: when it connects, with every beat, and when a GPU changes. */
#include <math.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/lease.h"
#include "agent/task/container.h"
#include "agent/task/procs.h"
#include "agent/task/task_enforce.h"
#include "agent/util.h"
#include "io/log.h"
#include "model/measure.h"

enum { EMULATED_CPUS = 16, TASK_PIDS = 256 };
#define EMULATED_MEMORY ((uint64_t)128 << 30)

static json_t *labels_of(const struct agent *agent)
{
    json_t *labels = json_object();
    const char *p = agent->config.labels;

    while (p && *p) {
        size_t length = strcspn(p, ","), key = strcspn(p, "=,");

        if (key < length)
            (void)json_object_setn_new(labels, p, key, json_stringn(p + key + 1, length - key - 1));
        p += length + (p[length] == ',');
    }
    return labels;
}

static json_t *fences_of(const struct agent *agent)
{
    static const struct {
        unsigned int bit;
        const char *name;
    } names[] = { { FENCE_DEVICES, "devices" },
                  { FENCE_CPU, "cpu" },
                  { FENCE_MEMORY, "memory" },
                  { FENCE_KILL, "kill" },
                  { FENCE_FREEZE, "freeze" } };
    json_t *fences = json_array();

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if ((agent->cgroup.fences & names[i].bit) && !(names[i].bit == FENCE_DEVICES && agent->gpus->fake))
            (void)json_array_append_new(fences, json_string(names[i].name));
    return fences;
}

static json_t *gpus_of(const struct agent *agent)
{
    json_t *gpus = json_array();

    for (uint32_t i = 0; i < agent->gpus->count; i++) {
        const struct gpu_info *info = &agent->gpus->info[i];

        (void)json_array_append_new(gpus, json_pack("{si,ss,si,si}", "index", (int)i, "uuid", info->uuid, "numa",
                                                    info->numa, "link", (int)info->link));
    }
    return gpus;
}

static json_t *inventory_of(const struct agent *agent)
{
    const struct gpus *gpus = agent->gpus;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN), pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t memory = gpus->fake ? EMULATED_MEMORY * (gpus->count ? gpus->count : 1) : (uint64_t)pages * (uint64_t)page;
    json_t *inventory =
        json_pack("{ss,si,so,si,si,si,sI,so,sb,so,so}", "sku", gpus->sku, "memory_mib", (int)gpus->memory_mib, "gpus",
                  gpus_of(agent), "sockets", (int)gpus->sockets, "groups", (int)gpus->groups, "cpus",
                  gpus->fake ? (int)(EMULATED_CPUS * (gpus->count ? gpus->count : 1)) : (int)cpus, "memory_bytes",
                  (json_int_t)memory, "labels", labels_of(agent), "fake", gpus->fake, "fences", fences_of(agent),
                  "runtimes", container_runtimes());

    if (inventory && agent->cgroup.why[0])
        (void)json_object_set_new(inventory, "unfenced", json_string(agent->cgroup.why));
    return inventory;
}

static json_t *task_list(const struct agent *agent)
{
    json_t *list = json_array();

    for (const struct task *task = agent->tasks; task; task = task->next)
        if (!task->clean)
            (void)json_array_append_new(list, json_pack("{sI,sI,sI,ss}", "job", (json_int_t)task->id.job, "attempt",
                                                        (json_int_t)task->id.attempt, "rank", (json_int_t)task->id.rank,
                                                        "state", task_state_name(task->state)));
    return list;
}

json_t *agent_hello(struct agent *agent)
{
    char address[128] = "";

    if (agent->config.address)
        (void)snprintf(address, sizeof(address), "%s", agent->config.address);
    else if (agent->conn)
        (void)conn_local(agent->conn, address, sizeof(address));
    return json_pack("{ss,si,ss,ss,ss,ss,ss,so,so,sI,sI,ss,ss}", "t", "hello", "v", AGENT_PROTOCOL, "node",
                     agent->config.node, "agent", agent->journal.id, "boot", agent->boot, "address", address, "version",
                     MUSTER_VERSION, "inventory", inventory_of(agent), "tasks", task_list(agent), "seq",
                     (json_int_t)agent->journal.written, "lease_ms", (json_int_t)lease_left(agent), "instance",
                     agent->instance, "machine", agent->machine);
}

/* Is this process of one of our tasks? By the mark in its environment. */
static bool ours(const struct agent *agent, pid_t pid)
{
    char value[256], tail[128];
    size_t length;

    (void)snprintf(tail, sizeof(tail), "@%.60s.%.32s", agent->config.node, agent->journal.id);
    length = strlen(tail);
    return procs_variable(pid, "MUSTER_TASK_KEY", value, sizeof(value)) == 0 && strlen(value) > length &&
           strcmp(value + strlen(value) - length, tail) == 0;
}

/* An emulated GPU is as busy as the process that was given it keeps a processor, or wholly where that is emulated too;
 * and as full as the process is large. */
static void sample_emulate(const struct agent *agent, uint32_t index, struct gpu_sample *sample)
{
    uint32_t memory = 0;
    uint8_t util = 0;

    for (const struct task *task = agent->tasks; task; task = task->next) {
        const struct launch_node *here =
            task->holding && task->state == TASK_RUNNING && task->launch.order ? launch_here(&task->launch) : NULL;
        uint8_t busy = task->emulated ? 97 : task->busy;

        for (uint32_t i = 0; here && i < here->gpu_count; i++)
            if (here->gpus[i] == index) {
                util = busy > util ? busy : util;
                memory += (uint32_t)(task->memory / here->gpu_count >> 20);
            }
    }
    sample->util = util;
    sample->memory_mib = memory;
    sample->power_w += util * 6u;
    sample->temp = (uint8_t)(sample->temp + util / 3);
}

/* What a GPU did since the last beat, to the account of those that run on it. */
static void sample_charge(const struct agent *agent, uint32_t index, const struct gpu_sample *sample)
{
    for (struct task *task = agent->tasks; task; task = task->next) {
        const struct launch_node *here =
            task->holding && task->state == TASK_RUNNING && task->launch.order ? launch_here(&task->launch) : NULL;

        if (here && !task->used.since)
            task->used.since = agent->beat_n;
        for (uint32_t i = 0; here && task->used.since < agent->beat_n && i < here->gpu_count; i++)
            if (here->gpus[i] == index) {
                task->used.samples++;
                task->used.util += sample->util;
                task->used.util_square += (uint64_t)sample->util * sample->util;
                if (sample->memory_mib > task->used.memory_mib)
                    task->used.memory_mib = sample->memory_mib;
            }
    }
}

bool task_alone(const struct task *task)
{
    const struct launch_node *here = launch_here(&task->launch);

    for (const struct task *other = task->agent->tasks; other; other = other->next) {
        const struct launch_node *there =
            other != task && other->holding && other->launch.order ? launch_here(&other->launch) : NULL;

        for (uint32_t i = 0; there && i < there->gpu_count; i++)
            for (uint32_t k = 0; k < here->gpu_count; k++)
                if (there->gpus[i] == here->gpus[k])
                    return false;
    }
    return true;
}

#define USE_SPAN (11 * USEC_SEC)

/* How much of its GPUs a job uses, over the last ten seconds: told by its first rank, when it has changed by two
 * percent or more. A card does not tell whose work it did: of one that shares its GPUs task_use_beside() knows. */
static void use_tell(struct agent *agent, struct task *task, usec_t now)
{
    int32_t mean = ring_mean(&task->use, now, 10), away;

    /* Not before it has run for those seconds: then it tells nothing of where the job was before. */
    if (task->use.count < 10 || mean < 0 || now < task->started + USE_SPAN)
        return;
    away = mean > task->use_told ? mean - task->use_told : task->use_told - mean;
    if (task->use_told >= 0 && away < 200)
        return;
    task->use_told = mean;
    agent_report(agent, json_pack("{sI,s{si,s[i,I,i]}}", "job", (json_int_t)task->id.job, "measure", "kind",
                                  MEASURE_USE, "values", mean, (json_int_t)ring_peak(&task->use, now, 60), 0));
}

/* Below a tenth, twice in a row, is idle: MEASURE_IDLE. */
enum { IDLE_BELOW = 10, IDLE_BEATS = 2 };

/* Whether it still uses its GPUs, and how much memory it has there: told by its first rank, when that changes. One that
 * has not begun to use them is not idle. */
static void idle_tell(struct agent *agent, struct task *task, uint32_t util, uint32_t memory)
{
    bool idle = util < IDLE_BELOW;

    task->was_busy = task->was_busy || !idle;
    if (!idle)
        task->idle_beats = 0;
    else if (task->idle_beats < IDLE_BEATS)
        task->idle_beats++;
    if (!task->was_busy || idle == task->idle_told || (idle && task->idle_beats < IDLE_BEATS))
        return;
    task->idle_told = idle;
    agent_report(agent, json_pack("{sI,s{si,s[i,I,i]}}", "job", (json_int_t)task->id.job, "measure", "kind",
                                  MEASURE_IDLE, "values", !idle, (json_int_t)(memory ? memory : 1), 0));
}

static void uses_tell(struct agent *agent, const struct gpu_sample *samples, uint32_t count)
{
    usec_t now = clock_real();

    for (struct task *task = agent->tasks; task; task = task->next) {
        const struct launch_node *here =
            task->holding && task->state == TASK_RUNNING && task->launch.order ? launch_here(&task->launch) : NULL;
        uint32_t util = 0, memory = 0;
        bool alone;

        if (!here || here->gpu_count == 0)
            continue;
        for (uint32_t i = 0; i < here->gpu_count && here->gpus[i] < count; i++) {
            util += samples[here->gpus[i]].util;
            memory = samples[here->gpus[i]].memory_mib > memory ? samples[here->gpus[i]].memory_mib : memory;
        }
        task->progress.util = (uint8_t)(util / here->gpu_count);
        task->progress.memory = memory;
        if (!(task->launch.tell_use || task->launch.tell_idle) || task->id.rank != 0)
            continue;
        alone = task_alone(task);
        if (alone)
            task_use_alone(task);
        if (task->launch.tell_idle && alone)
            idle_tell(agent, task, util / here->gpu_count, memory);
        if (!task->launch.tell_use || (!alone && !task_use_beside(task, &util, &memory)))
            continue;
        if (task->use.count == 0)
            task->use_told = -1;
        ring_add(&task->use, now, util / here->gpu_count, memory);
        use_tell(agent, task, now);
    }
}

json_t *task_used(const struct task *task)
{
    double n = task->used.samples, mean, variance;

    if (task->used.samples == 0)
        return NULL;
    mean = (double)task->used.util / n;
    variance = (double)task->used.util_square / n - mean * mean;
    return json_pack("{si,sf,sf,si}", "samples", (int)task->used.samples, "util", mean, "util_dev",
                     variance > 0 ? sqrt(variance) : 0.0, "memory_mib", (int)task->used.memory_mib);
}

static json_t *sample_of(const struct agent *agent, uint32_t index, struct gpu_sample *ret_sample)
{
    struct gpu_sample sample = { 0 };

    *ret_sample = sample;
    if (agent->gpus->ops->sample(agent->gpus, index, &sample) < 0)
        return json_object();
    if (agent->gpus->fake)
        sample_emulate(agent, index, &sample);
    sample_charge(agent, index, &sample);
    *ret_sample = sample;
    return json_pack("{si,si,si,si}", "util", (int)sample.util, "memory", (int)sample.memory_mib, "power",
                     (int)sample.power_w, "temp", (int)sample.temp);
}

/* A process on the GPU that no task of ours started; 0. */
static pid_t foreign_on(const struct agent *agent, uint32_t index, const struct gpu_health *health)
{
    struct gpu_sample sample = { 0 };

    if (agent->gpus->fake)
        return health->foreign;
    if (agent->gpus->ops->sample(agent->gpus, index, &sample) < 0)
        return 0;
    for (uint32_t i = 0; i < sample.pid_count; i++)
        if (!ours(agent, sample.pids[i]))
            return sample.pids[i];
    return 0;
}

/* Whose a process is: a name, or the number. */
static void owner_of(pid_t pid, char *name, size_t size)
{
    struct passwd entry, *found = NULL;
    char path[64], text[2048];
    struct stat info;

    (void)snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    (void)snprintf(name, size, "?");
    if (stat(path, &info) < 0)
        return;
    if (getpwuid_r(info.st_uid, &entry, text, sizeof(text), &found) == 0 && found)
        (void)snprintf(name, size, "%s", entry.pw_name);
    else
        (void)snprintf(name, size, "%u", (unsigned)info.st_uid);
}

int task_pids(const struct task *task, pid_t *ret_pids, int max)
{
    char cgroup[CGROUP_PATH_MAX];

    task_cgroup(task, cgroup, sizeof(cgroup));
    if (cgroup[0])
        return cgroup_pids(cgroup, ret_pids, max);
    if (task->pid <= 0 || max < 1)
        return 0;
    /* Without a group: the first process of the task and what is below it. */
    ret_pids[0] = (pid_t)task->pid;
    return procs_below((pid_t)task->pid, 0, ret_pids + 1, max - 1) + 1;
}

static void usage_by_hand(const struct task *task, int64_t *ret_cpu, int64_t *ret_memory, int *ret_pids)
{
    pid_t pids[TASK_PIDS + 1];
    int count = task_pids(task, pids, TASK_PIDS + 1);

    *ret_pids = count;
    for (int i = 0; i < count && i <= TASK_PIDS; i++) {
        *ret_cpu += procs_cpu(pids[i]);
        *ret_memory += procs_memory(pids[i]);
    }
}

void task_usage(const struct task *task, int64_t *ret_cpu, int64_t *ret_memory, int *ret_pids)
{
    char cgroup[CGROUP_PATH_MAX];
    pid_t pids[TASK_PIDS];
    int count;

    *ret_cpu = *ret_memory = 0;
    *ret_pids = 0;
    task_cgroup(task, cgroup, sizeof(cgroup));
    if (task->emulated || task_over(task))
        return;
    if (!cgroup[0]) {
        usage_by_hand(task, ret_cpu, ret_memory, ret_pids);
        return;
    }
    *ret_cpu = cgroup_number(cgroup, "cpu.stat", "usage_usec");
    *ret_memory = cgroup_number(cgroup, "memory.current", NULL);
    count = cgroup_pids(cgroup, pids, TASK_PIDS);
    *ret_pids = count;
    if (*ret_cpu < 0)
        *ret_cpu = 0;
    if (*ret_memory >= 0)
        return;
    *ret_memory = 0;
    for (int i = 0; i < count && i < TASK_PIDS; i++)
        *ret_memory += procs_memory(pids[i]);
}

/* How much of a processor it had since the last beat, in percent; 100 at most. */
static void task_busy(struct task *task, int64_t cpu)
{
    usec_t now = clock_boot(), span = now - task->cpu_at;
    int64_t percent = task->cpu_at && span > 0 && cpu > task->cpu_was ? (cpu - task->cpu_was) * 100 / span : 0;

    task->busy = percent > 100 ? 100 : (uint8_t)percent;
    task->cpu_was = cpu;
    task->cpu_at = now;
}

json_t *agent_beat(struct agent *agent)
{
    json_t *gpus = json_array(), *tasks = json_array(), *beat, *stuck, *progress;
    struct gpu_sample samples[AGENT_GPUS_MAX];
    double load[1] = { 0 };

    for (struct task *task = agent->tasks; task; task = task->next) {
        int64_t cpu, memory;
        int pids;

        if (task_over(task) || task->waiting)
            continue;
        task_usage(task, &cpu, &memory, &pids);
        task_busy(task, cpu);
        task->memory = memory;
        (void)json_array_append_new(tasks, json_pack("{sI,sI,sI,sI,sI}", "job", (json_int_t)task->id.job, "attempt",
                                                     (json_int_t)task->id.attempt, "rank", (json_int_t)task->id.rank,
                                                     "cpu", (json_int_t)cpu, "memory", (json_int_t)memory));
    }
    for (uint32_t i = 0; i < agent->gpus->count; i++)
        (void)json_array_append_new(gpus, sample_of(agent, i, &samples[i]));
    uses_tell(agent, samples, agent->gpus->count);
    (void)getloadavg(load, 1);
    beat =
        json_pack("{ss,sI,sI,sf,so,so,sI}", "t", "beat", "n", (json_int_t)agent->beat_n, "at", (json_int_t)clock_real(),
                  "load", load[0], "gpus", gpus, "tasks", tasks, "lease_ms", (json_int_t)(agent->lease / USEC_MSEC));
    stuck = tasks_stuck(agent);
    if (stuck)
        (void)json_object_set_new(beat, "stuck", stuck);
    progress = agent_progress(agent);
    if (progress)
        (void)json_object_set_new(beat, "progress", progress);
    return beat;
}

/* What was told outlives the agent, so that the next one knows what has to be taken back. */
static void health_save(const struct agent *agent)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < agent->gpus->count; i++)
        if (!agent->health[i].ok || agent->health[i].foreign)
            (void)json_array_append_new(list, json_pack("{si,sb,ss,sI}", "index", (int)i, "ok", agent->health[i].ok,
                                                        "reason", agent->health[i].reason, "foreign",
                                                        (json_int_t)agent->health[i].foreign));
    (void)util_json_put(agent->dir, "gpu-told.json", list, agent->config.durable);
    json_decref(list);
}

void agent_health_load(struct agent *agent)
{
    json_t *list = util_json_get(agent->dir, "gpu-told.json"), *item;
    size_t i;

    for (i = 0; i < AGENT_GPUS_MAX; i++)
        agent->health[i].ok = true;
    json_array_foreach(list, i, item)
    {
        int64_t index = util_i64(item, "index", -1);
        const char *reason = util_text(item, "reason");

        if (index < 0 || index >= AGENT_GPUS_MAX)
            continue;
        agent->health[index].ok = json_is_true(json_object_get(item, "ok"));
        agent->health[index].foreign = (pid_t)util_i64(item, "foreign", 0);
        (void)snprintf(agent->health[index].reason, sizeof(agent->health[index].reason), "%.60s", reason ? reason : "");
    }
    json_decref(list);
}

/* What has changed of a GPU since it was last told. */
static json_t *gpu_told(struct agent *agent, uint32_t i, const struct gpu_health *health)
{
    json_t *gpu = json_pack("{si,sb,ss,sb}", "index", (int)i, "ok", health->ok, "reason", health->reason, "foreign",
                            health->foreign != 0);
    char user[64];

    if (health->foreign) {
        owner_of(health->foreign, user, sizeof(user));
        (void)json_object_set_new(gpu, "pid", json_integer(health->foreign));
        (void)json_object_set_new(gpu, "user", json_string(user));
    }
    log_warn("GPU changed", "node", agent->config.node, "gpu", LOG_I64(i), "health",
             health->foreign ? "used by others"
             : health->ok    ? "ok"
                             : health->reason);
    return json_pack("{so}", "gpu", gpu);
}

void agent_health(struct agent *agent)
{
    bool changed = false;

    for (uint32_t i = 0; i < agent->gpus->count; i++) {
        struct gpu_health health, *told = &agent->health[i];

        agent->gpus->ops->health(agent->gpus, i, &health);
        health.foreign = foreign_on(agent, i, &health);
        if (health.ok == told->ok && health.foreign == told->foreign && strcmp(health.reason, told->reason) == 0)
            continue;
        *told = health;
        changed = true;
        agent_report(agent, gpu_told(agent, i, &health));
    }
    if (changed)
        health_save(agent);
}
