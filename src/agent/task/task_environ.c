/* SPDX-License-Identifier: Apache-2.0 */
/* task_environ.c - what a job finds in its environment (muster-env(7)).
 *
 * One table a family. With one process a node the launcher inside it (torchrun) numbers its workers, so it gets PET_*
 * and no RANK; with one process a task everything is set and PET_* is not. Never both ways.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/task/launch.h"
#include "agent/util.h"
#include "base/alloc.h"
#include "wire/text/hostlist.h"

#define PATH_DEFAULT "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
enum { VALUE_MAX = 1 << 20, SEEN_BITS = 1024 };

static void put(json_t *env, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Which names the list may have: one bit a hash. A name whose bit is not set need not be looked for, and of some
 * seventy that is nearly each. Kept for the list that was last put to, as long as nobody else does. */
static struct {
    const json_t *list;
    size_t count;
    uint64_t bits[SEEN_BITS / 64];
} seen;

static bool seen_before(const char *name, size_t length)
{
    uint32_t hash = 2166136261U;
    uint64_t bit;
    bool was;

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)name[i]) * 16777619U;
    hash = (hash ^ hash >> 16) % SEEN_BITS;
    bit = (uint64_t)1 << hash % 64;
    was = seen.bits[hash / 64] & bit;
    seen.bits[hash / 64] |= bit;
    return was;
}

static void seen_all(const json_t *env)
{
    const json_t *old;
    size_t i;

    memset(&seen, 0, sizeof(seen));
    seen.list = env;
    json_array_foreach(env, i, old)(void) seen_before(
        json_string_value(old), (size_t)(strchrnul(json_string_value(old), '=') - json_string_value(old)) + 1);
    seen.count = i;
}

/* A later one replaces an earlier one of the same name. */
static void put_text(json_t *env, const char *text)
{
    size_t length = (size_t)(strchrnul(text, '=') - text) + 1, i;
    const json_t *old;

    if (seen.list != env || seen.count != json_array_size(env))
        seen_all(env);
    if (!seen_before(text, length)) {
        (void)json_array_append_new(env, json_string(text));
        seen.count = json_array_size(env);
        return;
    }
    json_array_foreach(env, i, old)
    {
        const char *have = json_string_value(old);

        /* Names of another length are passed over by one look. */
        if (json_string_length(old) >= length && have[length - 1] == '=' && memcmp(have, text, length) == 0) {
            (void)json_array_set_new(env, i, json_string(text));
            return;
        }
    }
    (void)json_array_append_new(env, json_string(text));
    seen.count = json_array_size(env);
}

static void put(json_t *env, const char *format, ...)
{
    char small[512], *text = small;
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(small, sizeof(small), format, args);
    va_end(args);
    if (length < 0 || length >= VALUE_MAX)
        return;
    if ((size_t)length >= sizeof(small)) {
        text = mem_zalloc((size_t)length + 1, 1);
        if (!text)
            return;
        va_start(args, format);
        (void)vsnprintf(text, (size_t)length + 1, format, args);
        va_end(args);
    }
    put_text(env, text);
    if (text != small)
        mem_free(text);
}

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

static const char *reach(const struct launch_node *node)
{
    return node->address && *node->address ? node->address : node->name;
}

static bool elastic(const struct submission *s)
{
    return s->nodes_max > s->nodes || s->gpus_max > s->gpus;
}

static uint32_t gpus_all(const struct launch *l)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < l->node_count; i++)
        count += l->nodes[i].gpu_count;
    return count;
}

int environ_hosts(const struct launch *l, struct buf *out)
{
    for (uint32_t i = 0; i < l->node_count; i++) {
        uint32_t slots = l->spec.launch == LAUNCH_TASK ? launch_procs(l, i) : l->nodes[i].gpu_count;

        buf_printf(out, "%s slots=%u\n", reach(&l->nodes[i]), slots ? slots : 1);
    }
    return out->error;
}

static void put_identity(json_t *env, const struct launch *l, const struct launch_host *host)
{
    const struct submission *s = &l->spec;

    put(env, "MUSTER_JOB_ID=%lld", (long long)l->id.job);
    put(env, "MUSTER_JOB_NAME=%s", or_empty(s->name));
    if (l->array_id) {
        put(env, "MUSTER_ARRAY_ID=%lld", (long long)l->array_id);
        put(env, "MUSTER_ARRAY_INDEX=%d", l->array_index);
    }
    put(env, "MUSTER_ATTEMPT=%u", l->id.attempt);
    put(env, "MUSTER_VC=%s", or_empty(l->vc));
    put(env, "MUSTER_USER=%s", or_empty(l->user));
    put(env, "MUSTER_CLUSTER=%s", or_empty(l->cluster));
    put(env, "MUSTER_PRIORITY=%s", priority_class(s->priority));
    put(env, "MUSTER_TASK_KEY=%s", or_empty(host->key));
}

static void put_names(json_t *env, const struct launch *l)
{
    CLEANUP_BUF struct buf hosts = BUF_INIT(VALUE_MAX), list = BUF_INIT(VALUE_MAX);
    const char **names = mem_zalloc(l->node_count, sizeof(*names));

    if (!names)
        return;
    for (uint32_t i = 0; i < l->node_count; i++) {
        buf_printf(&hosts, "%s%s", i ? "," : "", l->nodes[i].name);
        names[i] = l->nodes[i].name;
    }
    hostlist_put(&list, names, l->node_count);
    mem_free(names);
    put(env, "MUSTER_HOSTS=%s", or_empty(hosts.data));
    put(env, "MUSTER_NODELIST=%s", or_empty(list.data));
}

static void put_shape(json_t *env, const struct launch *l, const struct launch_host *host)
{
    const struct launch_node *here = &l->nodes[l->id.rank];
    const struct submission *s = &l->spec;

    put(env, "MUSTER_NNODES=%u", l->node_count);
    put(env, "MUSTER_NODE_RANK=%u", l->id.rank);
    put_names(env, l);
    put(env, "MUSTER_HOSTFILE=%s/job/hosts", host->dir);
    put(env, "MUSTER_NTASKS=%u", launch_world(l));
    if (launch_splice(l) > 1)
        put(env, "MUSTER_SPLICE=%u", launch_splice(l));
    put(env, "MUSTER_GPUS=%u", gpus_all(l));
    put(env, "MUSTER_GPUS_PER_NODE=%u", here->gpu_count);
    put(env, "MUSTER_GPU_SKU=%s", here->gpu_count ? or_empty(host->sku) : "");
    put(env, "MUSTER_MIN_NODES=%d", s->nodes > 0 ? s->nodes : (int32_t)l->node_count);
    put(env, "MUSTER_MAX_NODES=%d", s->nodes_max > 0 ? s->nodes_max : (int32_t)l->node_count);
    put(env, "MUSTER_TOPOLOGY=%s%s%s", host->rack ? host->rack : "", host->rack ? "/" : "", host->node);
    if (here->gpu_count && host->links && here->gpus[0] < host->gpu_count) {
        bool same = true;

        for (uint32_t i = 1; i < here->gpu_count; i++)
            same = same && here->gpus[i] < host->gpu_count && host->links[here->gpus[i]] == host->links[here->gpus[0]];
        if (same)
            put(env, "MUSTER_TOPOLOGY=%s%s%s/nvl%u", host->rack ? host->rack : "", host->rack ? "/" : "", host->node,
                host->links[here->gpus[0]]);
    }
}

/* HIP numbers what ROCr leaves to be seen: always from 0. */
static void put_counted(json_t *env, const char *name, uint32_t count)
{
    CLEANUP_BUF struct buf list = BUF_INIT(4096);

    for (uint32_t i = 0; i < count; i++)
        buf_printf(&list, "%s%u", i ? "," : "", i);
    put(env, "%s=%s", name, or_empty(list.data));
}

static void put_devices(json_t *env, const struct launch *l, const struct launch_host *host)
{
    const struct launch_node *here = &l->nodes[l->id.rank];
    CLEANUP_BUF struct buf list = BUF_INIT(65536), uuids = BUF_INIT(65536);

    for (uint32_t i = 0; i < here->gpu_count; i++) {
        uint16_t index = here->gpus[i];
        const char *uuid = host->uuids && index < host->gpu_count ? host->uuids[index] : NULL;

        buf_printf(&list, "%s%u", i ? "," : "", host->fenced ? i : index);
        if (uuid)
            buf_printf(&uuids, "%s%s", i ? "," : "", uuid);
        else
            buf_printf(&uuids, "%s%u", i ? "," : "", index);
    }
    if (host->amd) {
        put(env, "ROCR_VISIBLE_DEVICES=%s", or_empty(host->container ? uuids.data : list.data));
        put_counted(env, "HIP_VISIBLE_DEVICES", here->gpu_count);
    } else {
        put(env, "CUDA_VISIBLE_DEVICES=%s", or_empty(host->container ? uuids.data : list.data));
        put(env, "NVIDIA_VISIBLE_DEVICES=%s", or_empty(host->container ? uuids.data : list.data));
    }
    if (l->spec.gpu_share > 0 && l->spec.gpu_share < MGPU_ONE) {
        put(env, "MUSTER_GPU_FRACTION=0.%03d", l->spec.gpu_share);
        if (host->memory_mib)
            put(env, "MUSTER_GPU_MEMORY_LIMIT=%lld",
                (long long)muldiv_floor((int64_t)host->memory_mib << 20, l->spec.gpu_share, MGPU_ONE));
        if (host->mps && !host->amd) {
            put(env, "CUDA_MPS_PIPE_DIRECTORY=%s", host->mps);
            put(env, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=%d", (l->spec.gpu_share * 100 + MGPU_ONE - 1) / MGPU_ONE);
        }
    }
}

/* HOST:PORT; an address with colons of its own stands in brackets. */
static void put_endpoint(json_t *env, const char *name, const char *host, unsigned port)
{
    put(env, strchr(host, ':') ? "%s=[%s]:%u" : "%s=%s:%u", name, host, port);
}

static void put_torch(json_t *env, const struct launch *l)
{
    const struct launch_node *first = &l->nodes[0], *here = &l->nodes[l->id.rank];

    put(env, "MASTER_ADDR=%s", reach(first));
    put(env, "MASTER_PORT=%u", l->port);
    put(env, "NODE_RANK=%u", l->id.rank);
    put_endpoint(env, "JAX_COORDINATOR_ADDRESS", reach(first), l->port);
    put(env, "JAX_NUM_PROCESSES=%u", l->spec.launch == LAUNCH_TASK ? launch_world(l) : l->node_count);
    if (l->spec.launch == LAUNCH_TASK)
        return;
    put(env, "JAX_PROCESS_ID=%u", l->id.rank);
    if (elastic(&l->spec) && l->spec.nodes > 0 && l->spec.nodes_max > l->spec.nodes)
        put(env, "PET_NNODES=%d:%d", l->spec.nodes, l->spec.nodes_max);
    else
        put(env, "PET_NNODES=%u", l->node_count);
    put(env, "PET_NPROC_PER_NODE=%u", here->gpu_count ? here->gpu_count * launch_splice(l) : 1);
    put(env, "PET_NODE_RANK=%u", l->id.rank);
    put(env, "PET_MASTER_ADDR=%s", reach(first));
    put(env, "PET_MASTER_PORT=%u", l->port);
    put(env, "PET_RDZV_ID=%lld.%u", (long long)l->id.job, l->id.attempt);
    put_endpoint(env, "PET_RDZV_ENDPOINT", reach(first), l->port);
    put(env, "PET_RDZV_BACKEND=%s", elastic(&l->spec) ? "c10d" : "static");
}

/* In front of what the job has set itself. */
static void put_before(json_t *env, const char *name, const char *path)
{
    const char *old = util_env_value(env, name);
    CLEANUP_BUF struct buf all = BUF_INIT(VALUE_MAX);

    buf_printf(&all, "%s%s%s", path, old && *old ? ":" : "", old ? old : "");
    if (!all.error) /* a longer one is the job's own, whole */
        put(env, "%s=%s", name, all.data);
}

/* The library in front of the driver. What the frameworks are told is to leave room for others: they would take the
 * whole card at their start. */
static void put_runtime(json_t *env, const struct launch_host *host)
{
    put_before(env, "LD_PRELOAD", host->runtime->library);
    if (host->runtime->python[0])
        put_before(env, "PYTHONPATH", host->runtime->python);
    put(env, "MUSTER_GPU_SOCKET=%s", host->runtime->socket);
    if (!util_env_value(env, "TF_FORCE_GPU_ALLOW_GROWTH"))
        put(env, "TF_FORCE_GPU_ALLOW_GROWTH=true");
    if (!util_env_value(env, "XLA_PYTHON_CLIENT_PREALLOCATE"))
        put(env, "XLA_PYTHON_CLIENT_PREALLOCATE=false");
}

/* For the GPU runtime, where the program runs with it: whether it is held back for others, or others for it. Who has a
 * part of a GPU is neither: it gets that part of the memory and of the time. */
static void put_role(json_t *env, const struct launch *l, const struct launch_host *host)
{
    bool part = l->spec.gpu_share > 0 && l->spec.gpu_share < MGPU_ONE;

    if (launch_here(l)->gpu_count == 0)
        return;
    if (host->runtime)
        put_runtime(env, host);
    if (!host->runtime || !part)
        put(env, "MUSTER_GPU_ROLE=%s", l->opportunistic ? "opportunistic" : "guaranteed");
    else
        put(env, "MUSTER_GPU_SHARE=%d", l->spec.gpu_share);
    if (l->opportunistic && l->limit_mib > 0)
        put(env, "MUSTER_GPU_MEMORY=%lld", (long long)l->limit_mib << 20);
    else if (host->runtime && part && host->memory_mib)
        put(env, "MUSTER_GPU_MEMORY=%lld",
            (long long)muldiv_floor((int64_t)host->memory_mib << 20, l->spec.gpu_share, MGPU_ONE));
}

static void put_life(json_t *env, const struct launch *l, const struct launch_host *host)
{
    put(env, "MUSTER_START_TIME=%lld", (long long)(clock_real() / USEC_SEC));
    if (l->end)
        put(env, "MUSTER_END_TIME=%lld", (long long)(l->end / USEC_SEC));
    put(env, "MUSTER_GRACE_SECONDS=%lld", (long long)(l->spec.grace / USEC_SEC));
    put(env, "MUSTER_NOTICE_FILE=%s/job/notice.json", host->dir);
    put(env, "MUSTER_SOCKET=%s/job/socket", host->dir);
    if (l->spec.ckpt_dir)
        put(env, "MUSTER_CKPT_DIR=%s", l->spec.ckpt_dir);
    put(env, "MUSTER_RESUME=%d", l->id.attempt > 0 || l->resume);
    put(env, "MUSTER_TMPDIR=%s/job/tmp", host->dir);
    put(env, "TMPDIR=%s/job/tmp", host->dir);
}

/* A batch script is one process; what it is told is how many its steps have unless they say otherwise. */
static uint32_t slurm_tasks(const struct launch *l)
{
    const struct submission *s = &l->spec;

    if (s->launch != LAUNCH_ONCE)
        return launch_world(l);
    if (s->tasks > 0)
        return (uint32_t)s->tasks;
    return l->node_count * (s->tasks_per_node > 0 ? (uint32_t)s->tasks_per_node : 1);
}

static void put_slurm(json_t *env, const struct launch *l)
{
    const struct submission *s = &l->spec;
    CLEANUP_BUF struct buf list = BUF_INIT(VALUE_MAX);
    const char **names = mem_zalloc(l->node_count, sizeof(*names));

    if (!names)
        return;
    for (uint32_t i = 0; i < l->node_count; i++)
        names[i] = l->nodes[i].name;
    hostlist_put(&list, names, l->node_count);
    mem_free(names);
    put(env, "SLURM_JOB_ID=%lld", (long long)l->id.job);
    put(env, "SLURM_JOBID=%lld", (long long)l->id.job);
    put(env, "SLURM_JOB_USER=%s", or_empty(l->user));
    put(env, "SLURM_JOB_PARTITION=%s", or_empty(l->vc));
    if (s->account)
        put(env, "SLURM_JOB_ACCOUNT=%s", s->account);
    put(env, "SLURM_CLUSTER_NAME=%s", or_empty(l->cluster));
    put(env, "SLURMD_NODENAME=%s", or_empty(l->nodes[l->id.rank].name));
    put(env, "SLURM_JOB_NAME=%s", or_empty(s->name));
    put(env, "SLURM_NODEID=%u", l->id.rank);
    put(env, "SLURM_NNODES=%u", l->node_count);
    put(env, "SLURM_JOB_NUM_NODES=%u", l->node_count);
    put(env, "SLURM_NTASKS=%u", slurm_tasks(l));
    if (s->tasks_per_node > 0)
        put(env, "SLURM_NTASKS_PER_NODE=%d", s->tasks_per_node);
    put(env, "SLURM_JOB_NODELIST=%s", or_empty(list.data));
    put(env, "SLURM_NODELIST=%s", or_empty(list.data));
    put(env, "SLURM_STEP_NODELIST=%s", or_empty(list.data));
    put(env, "SLURM_GPUS_ON_NODE=%u", l->nodes[l->id.rank].gpu_count);
    put(env, "SLURM_RESTART_COUNT=%u", l->id.attempt);
    put(env, "SLURM_SUBMIT_DIR=%s", or_empty(s->dir));
    put(env, "SLURM_CPUS_PER_TASK=%d", s->cpus_per_task > 0 ? s->cpus_per_task : 1);
    if (l->array_id) {
        put(env, "SLURM_ARRAY_JOB_ID=%lld", (long long)l->array_id);
        put(env, "SLURM_ARRAY_TASK_ID=%d", l->array_index);
        put(env, "SLURM_ARRAY_TASK_COUNT=%zu", s->array_count);
    }
}

static void put_pai(json_t *env, const struct launch *l)
{
    /* Tasks that start one by one are an array of jobs of one task each. */
    uint32_t index = l->array_id ? (uint32_t)l->array_index : l->id.rank;

    put(env, "PAI_JOB_NAME=%s", or_empty(l->spec.name));
    put(env, "PAI_USER_NAME=%s", or_empty(l->user));
    put(env, "PAI_VIRTUAL_CLUSTER=%s", or_empty(l->vc));
    put(env, "PAI_CURRENT_CONTAINER_IP=%s", reach(&l->nodes[l->id.rank]));
    put(env, "PAI_JOB_RETRY_COUNT=%u", l->id.attempt);
    if (l->roles)
        return;
    put(env, "PAI_CURRENT_TASK_ROLE_NAME=taskrole");
    put(env, "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX=%u", index);
    put(env, "PAI_TASK_INDEX=%u", index);
    for (uint32_t i = 0; i < l->node_count && i < 256; i++)
        put(env, "PAI_HOST_IP_taskrole_%u=%s", i, reach(&l->nodes[i]));
}

/* Parameters of a sweep: those of this element. */
static void put_sweep(json_t *env, const struct launch *l)
{
    const struct submission *s = &l->spec;

    for (size_t i = 0; l->array_id && i < s->array_count; i++) {
        if (s->array[i] != l->array_index)
            continue;
        for (size_t k = 0; k < s->array_key_count; k++)
            put(env, "%s=%s", s->array_keys[k], s->array_values[i * s->array_key_count + k]);
    }
}

/* Where the tasks of each role are, in the order of their numbers. */
static void put_peers(json_t *env, const struct launch *l, bool pai)
{
    CLEANUP_BUF struct buf names = BUF_INIT(4096);
    const struct role_task *at = l->roles;

    for (size_t r = 0; r < l->spec.role_count; r++) {
        const struct job_role *role = &l->spec.roles[r];
        CLEANUP_BUF struct buf hosts = BUF_INIT(VALUE_MAX);
        char name[128];

        (void)snprintf(name, sizeof(name), "%s", role->name);
        for (char *c = name; *c; c++)
            *c = *c == '-' ? '_' : *c; /* as variables are named */
        buf_printf(&names, "%s%s", r ? "," : "", role->name);
        for (int32_t i = 0; i < role->count; i++, at++) {
            buf_printf(&hosts, "%s%s", i ? "," : "", reach(&l->nodes[at->node]));
            if (pai && i < 256)
                put(env, "PAI_HOST_IP_%s_%d=%s", role->name, i, reach(&l->nodes[at->node]));
        }
        put(env, "MUSTER_ROLE_HOSTS_%s=%s", name, or_empty(hosts.data));
        if (pai)
            put(env, "PAI_TASK_ROLE_TASK_COUNT_%s=%d", role->name, role->count);
    }
    put(env, "MUSTER_ROLES=%s", or_empty(names.data));
    if (pai) {
        put(env, "PAI_TASK_ROLE_COUNT=%zu", l->spec.role_count);
        put(env, "PAI_TASK_ROLE_LIST=%s", or_empty(names.data));
    }
}

json_t *environ_node(const struct launch *l, const struct launch_host *host)
{
    json_t *env = json_array(), *secret;
    const char *name;

    seen.list = NULL; /* another may have had this address */
    put(env, "PATH=%s", PATH_DEFAULT);
    put(env, "LANG=C.UTF-8");
    if (host->home)
        put(env, "HOME=%s", host->home);
    put(env, "SHELL=%s", host->shell ? host->shell : "/bin/sh");
    put(env, "USER=%s", or_empty(l->user));
    put(env, "LOGNAME=%s", or_empty(l->user));
    for (size_t i = 0; i < l->spec.env_count; i++)
        put(env, "%s=%s", l->spec.env[i].key, l->spec.env[i].value);
    json_object_foreach(json_object_get(l->order, "secrets"), name, secret)
        put(env, "%s=%s", name, or_empty(json_string_value(secret)));
    put_sweep(env, l);
    put_identity(env, l, host);
    put_shape(env, l, host);
    put_devices(env, l, host);
    put_torch(env, l);
    put_role(env, l, host);
    put_life(env, l, host);
    if (l->spec.compat && strstr(l->spec.compat, "slurm"))
        put_slurm(env, l);
    if (l->spec.compat && strstr(l->spec.compat, "pai"))
        put_pai(env, l);
    if (l->roles)
        put_peers(env, l, l->spec.compat && strstr(l->spec.compat, "pai"));
    return env;
}

/* A task of a role: its part of the GPUs of the node, and as torchrun sees it the nodes of its own role. */
static void put_member(json_t *env, const struct launch *l, const struct role_task *at)
{
    const struct job_role *role = &l->spec.roles[at->role];
    const struct role_task *first = at - at->index;
    const char *master = reach(&l->nodes[first->node]);

    for (size_t i = 0; i < role->env_count; i++)
        put(env, "%s=%s", role->env[i].key, role->env[i].value);
    put(env, "MUSTER_ROLE=%s", role->name);
    put(env, "MUSTER_ROLE_INDEX=%u", at->index);
    put(env, "MUSTER_ROLE_COUNT=%d", role->count);
    put(env, "MASTER_ADDR=%s", master);
    put(env, "NODE_RANK=%u", at->index);
    put_endpoint(env, "JAX_COORDINATOR_ADDRESS", master, l->port);
    put(env, "JAX_NUM_PROCESSES=%d", role->count);
    put(env, "JAX_PROCESS_ID=%u", at->index);
    put(env, "PET_NNODES=%d", role->count);
    put(env, "PET_NPROC_PER_NODE=%d", role->gpus ? role->gpus : 1);
    put(env, "PET_NODE_RANK=%u", at->index);
    put(env, "PET_MASTER_ADDR=%s", master);
    put_endpoint(env, "PET_RDZV_ENDPOINT", master, l->port);
    if (l->spec.compat && strstr(l->spec.compat, "pai")) {
        put(env, "PAI_CURRENT_TASK_ROLE_NAME=%s", role->name);
        put(env, "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX=%u", at->index);
        put(env, "PAI_CURRENT_TASK_ROLE_TASK_COUNT=%d", role->count);
        put(env, "PAI_TASK_INDEX=%u", at->index);
    }
}

/* GPUs `first` to `first + count` of those of the node, as all of them were told. */
static void put_part(json_t *env, const json_t *node, const char *name, const struct role_task *at)
{
    CLEANUP_BUF struct buf list = BUF_INIT(65536);
    size_t length = strlen(name), i;
    const char *text = "";
    const json_t *value;
    uint32_t n = 0;

    json_array_foreach(node, i, value) if (strncmp(json_string_value(value), name, length) == 0 &&
                                           json_string_value(value)[length] == '=') text =
        json_string_value(value) + length + 1;
    for (; *text; n++) {
        size_t part = strcspn(text, ",");

        if (n >= at->gpu_first && n < at->gpu_first + at->gpu_count)
            buf_printf(&list, "%s%.*s", n > at->gpu_first ? "," : "", (int)part, text);
        text += part + (text[part] == ',');
    }
    put(env, "%s=%s", name, or_empty(list.data));
}

void environ_role(const struct launch *l, uint32_t local, const json_t *node, json_t *env)
{
    static const char *const names[] = { "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES" };
    const struct role_task *at = launch_role(l, l->id.rank, local);

    seen.list = NULL;
    if (!at)
        return;
    put_member(env, l, at);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (util_env_has(node, names[i]))
            put_part(env, node, names[i], at);
    if (util_env_has(node, "HIP_VISIBLE_DEVICES"))
        put_counted(env, "HIP_VISIBLE_DEVICES", at->gpu_count);
}

json_t *environ_proc(const struct launch *l, uint32_t local)
{
    uint32_t rank = launch_first(l, l->id.rank) + local;
    json_t *env = json_array();

    seen.list = NULL;
    if (l->spec.launch == LAUNCH_TASK) {
        put(env, "RANK=%u", rank);
        put(env, "LOCAL_RANK=%u", local);
        put(env, "WORLD_SIZE=%u", launch_world(l));
        put(env, "LOCAL_WORLD_SIZE=%u", launch_procs(l, l->id.rank));
        put(env, "JAX_PROCESS_ID=%u", rank);
    }
    if (l->spec.compat && strstr(l->spec.compat, "slurm")) {
        put(env, "SLURM_PROCID=%u", rank);
        put(env, "SLURM_LOCALID=%u", local);
    }
    return env;
}
