/* SPDX-License-Identifier: Apache-2.0 */
/* task_plan.c - from an order to what a shepherd is told: processes, user, limits, files, times. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/shepherd/child.h"
#include "agent/shepherd/shepherd.h"
#include "agent/task/container.h"
#include "agent/util.h"
#include "base/alloc.h"

#define LOG_MAX ((int64_t)64 << 20)
#define OUTPUT_MAX ((int64_t)4 << 30)
#define GRACE_DEFAULT (30 * USEC_SEC)

#define ACCOUNT_KEPT USEC_SEC
/* What sleeps in the place of a task that failed, and says when it is there. */
#define KEEPER "PATH=$PATH:/bin:/usr/bin; echo; exec sleep 2147483647"

struct account {
    char name[64], home[512], shell[256];
    bool known;
    uid_t uid;
    gid_t gid, groups[CHILD_GROUPS_MAX];
    int group_count;
    usec_t at;
};

/* Its groups, with this one first; it alone where they cannot be told. */
static void groups_find(struct account *account, gid_t gid)
{
    account->gid = account->groups[0] = gid;
    account->group_count = CHILD_GROUPS_MAX;
    if (!account->known || getgrouplist(account->name, gid, account->groups, &account->group_count) < 0)
        account->group_count = 1;
}

static void account_read(uid_t uid, struct account *ret)
{
    struct passwd entry, *found = NULL;
    char text[4096];

    *ret = (struct account){ .uid = uid };
    if (getpwuid_r(uid, &entry, text, sizeof(text), &found) != 0 || !found)
        return;
    (void)snprintf(ret->name, sizeof(ret->name), "%s", entry.pw_name);
    (void)snprintf(ret->home, sizeof(ret->home), "%s", entry.pw_dir);
    (void)snprintf(ret->shell, sizeof(ret->shell), "%s",
                   entry.pw_shell && *entry.pw_shell ? entry.pw_shell : "/bin/sh");
    ret->known = true;
}

bool task_group_held(uid_t uid, gid_t gid)
{
    struct passwd entry, *found = NULL;
    gid_t groups[CHILD_GROUPS_MAX];
    int count = CHILD_GROUPS_MAX;
    char text[4096];

    if (getpwuid_r(uid, &entry, text, sizeof(text), &found) != 0 || !found)
        return false;
    if (getgrouplist(entry.pw_name, entry.pw_gid, groups, &count) < 0)
        count = CHILD_GROUPS_MAX; /* there are more than fit */
    for (int i = 0; i < count; i++)
        if (groups[i] == gid)
            return true;
    return false;
}

/* The same for tasks that follow one another: files, and often a server, are asked for it. */
static const struct account *account_find(uid_t uid, gid_t gid)
{
    static struct account last;
    usec_t now = clock_boot();

    if (!last.at || last.uid != uid || last.gid != gid || now - last.at > ACCOUNT_KEPT) {
        account_read(uid, &last);
        if (uid)
            groups_find(&last, gid);
        last.gid = gid;
        last.at = now;
    }
    return &last;
}

const char *task_key(const struct task *task, char *out, size_t size)
{
    (void)snprintf(out, size, "%s@%s.%.32s", task->name, task->agent->config.node, task->agent->journal.id);
    return out;
}

void task_cgroup(const struct task *task, char *out, size_t size)
{
    out[0] = '\0';
    if (task->agent->cgroup.path[0])
        (void)snprintf(out, size, "%s/%s", task->agent->cgroup.path, task->name);
}

static int set_strings(json_t *argv, const char *first, char *const *rest, size_t count)
{
    int r = first ? json_array_append_new(argv, json_string(first)) : 0;

    for (size_t i = 0; i < count; i++)
        r |= json_array_append_new(argv, json_string(rest[i]));
    return r ? -ENOMEM : 0;
}

/* "#!/usr/bin/env -S python3 -u": the program, and what follows as one word, as the kernel reads it. Read here, because
 * the directory of tasks may be where nothing may be executed. */
static int shebang_add(const char *text, json_t *argv)
{
    size_t line = strcspn(text, "\n"), blank = strspn(text, " \t"), name, rest;
    int r;

    if (blank >= line)
        return json_array_append_new(argv, json_string("/bin/sh"));
    name = strcspn(text + blank, " \t\n");
    r = json_array_append_new(argv, json_stringn(text + blank, name));
    text += blank + name;
    line -= blank + name;
    rest = strspn(text, " \t");
    while (line > rest && strchr(" \t\r", text[line - 1]))
        line--;
    if (line > rest)
        r |= json_array_append_new(argv, json_stringn(text + rest, line - rest));
    return r;
}

/* A script keeps its first line; a line without one is the shell's. Each role has a script of its own. */
static int argv_make(const struct task *task, const char *dir, const struct job_role *role, json_t *argv)
{
    const struct submission *s = &task->launch.spec;
    const char *run = role ? role->run : s->run;
    char script[4200];

    if (!run)
        return set_strings(argv, NULL, s->args, s->arg_count);
    (void)snprintf(script, sizeof(script), "%s/job/script%s%s", dir, role ? "-" : "", role ? role->name : "");
    if (shebang_add(strncmp(run, "#!", 2) == 0 ? run + 2 : "", argv) < 0)
        return -ENOMEM;
    return set_strings(argv, script, s->args, s->arg_count);
}

static void role_add(const struct task *task, const struct role_task *at, json_t *proc, json_t *scripts)
{
    const struct job_role *role = &task->launch.spec.roles[at->role];

    (void)json_object_set_new(proc, "role", json_string(role->name));
    (void)json_object_set_new(proc, "index", json_integer(at->index));
    (void)json_object_set_new(scripts, role->name, json_string(role->run));
}

/* Not where the others of its gang go on. */
static bool keeps_place(const struct task *task)
{
    const struct submission *s = &task->launch.spec;

    return s->keep_on_fail > 0 && !(s->no_kill && task->launch.node_count > 1);
}

/* Whether standard input is carried to this process; that of the others is empty. */
static bool takes_input(const struct launch *l, uint32_t number)
{
    return l->spec.input == INPUT_ALL || (l->spec.input > 0 && (uint32_t)l->spec.input - 1 == number);
}

static int procs_add(const struct task *task, const char *dir, json_t *plan, struct error *err)
{
    const struct launch *l = &task->launch;
    const char *node = task->agent->config.node;
    uint32_t count = launch_procs(l, l->id.rank), first = launch_first(l, l->id.rank);
    json_t *procs = json_array(), *scripts = json_object();

    (void)json_object_set_new(plan, "procs", procs);
    if (l->roles)
        (void)json_object_set(plan, "roles", scripts);
    for (uint32_t i = 0; i < count && i < PROCS_MAX + 1; i++) {
        const struct role_task *role = launch_role(l, l->id.rank, i);
        json_t *proc = json_object(), *argv = json_array();
        char *out = l->spec.output ? launch_output(l, l->spec.output, node, first + i) : NULL;
        char *error = l->spec.error ? launch_output(l, l->spec.error, node, first + i) : NULL;

        (void)json_object_set_new(proc, "argv", argv);
        (void)json_object_set_new(proc, "env", environ_proc(l, i));
        if (out)
            (void)json_object_set_new(proc, "out", json_string(out));
        if (error)
            (void)json_object_set_new(proc, "err", json_string(error));
        if (takes_input(l, first + i))
            (void)json_object_set_new(proc, "input", json_true());
        mem_free(out);
        mem_free(error);
        (void)json_array_append_new(procs, proc);
        if (role)
            role_add(task, role, proc, scripts);
        if (argv_make(task, dir, role ? &l->spec.roles[role->role] : NULL, argv) < 0 || json_array_size(argv) == 0) {
            json_decref(scripts);
            return error_set(err, -EINVAL, "the job has nothing to run");
        }
    }
    json_decref(scripts);
    (void)json_object_set_new(plan, "hold", json_boolean(count == 0));
    /* Put among the others until they are in their containers. */
    if (keeps_place(task))
        (void)json_array_append_new(
            procs, json_pack("{s[sss],so}", "argv", "/bin/sh", "-c", KEEPER, "env", environ_proc(l, 0)));
    if (l->spec.run)
        (void)json_object_set_new(plan, "script", json_string(l->spec.run));
    return 0;
}

/* What sleeps in the place of a task that failed (shepherd_keep.c). */
static void keeper_take(const struct task *task, json_t *plan)
{
    json_t *procs = json_object_get(plan, "procs");
    size_t last = json_array_size(procs) - 1;

    if (!keeps_place(task))
        return;
    (void)json_object_set(plan, "keeper", json_array_get(procs, last));
    (void)json_array_remove(procs, last);
    (void)json_object_set_new(plan, "keep_ms", json_integer(task->launch.spec.keep_on_fail / USEC_MSEC));
}

void task_cpus_keep(struct task *task, const json_t *plan)
{
    const json_t *list = json_object_get(plan, "affinity"), *one;
    size_t count = json_array_size(list), i;

    if (!task->agent->cpus || count == 0 || task->cpus)
        return;
    task->cpus = mem_zalloc(count, sizeof(*task->cpus));
    if (!task->cpus)
        return;
    json_array_foreach(list, i, one)
    {
        task->cpus[task->cpu_count++] = (uint16_t)json_integer_value(one);
        cpus_mark(task->agent->cpus, (uint16_t)json_integer_value(one), true);
    }
}

/* CPUs of its own, near its GPUs where the machine has several memory nodes. Without as many free ones it may use all,
 * within what the group allows. */
static void cpus_add(struct task *task, uint32_t want, json_t *plan)
{
    const struct launch_node *node = &task->launch.nodes[task->id.rank];
    const struct gpus *gpus = task->agent->gpus;
    CLEANUP_BUF struct buf list = BUF_INIT(16384);
    uint16_t taken[CPUS_MAX];
    json_t *affinity;
    uint64_t numas = 0;
    uint32_t count;

    if (!task->agent->cpus || want == 0 || want > CPUS_MAX)
        return;
    for (uint32_t i = 0; i < node->gpu_count; i++)
        if (gpus->info[node->gpus[i]].numa >= 0 && gpus->info[node->gpus[i]].numa < 64)
            numas |= (uint64_t)1 << gpus->info[node->gpus[i]].numa;
    count = cpus_take(task->agent->cpus, want, numas, taken);
    affinity = json_array();
    for (uint32_t i = 0; i < count; i++) {
        (void)json_array_append_new(affinity, json_integer(taken[i]));
        buf_printf(&list, "%s%u", i ? "," : "", taken[i]);
        cpus_mark(task->agent->cpus, taken[i], false);
    }
    (void)json_object_set_new(plan, "affinity", affinity);
    if (count)
        (void)json_object_set_new(plan, "cpuset", json_string(list.data));
    task_cpus_keep(task, plan);
}

static void limits_add(struct task *task, json_t *plan)
{
    const struct submission *s = &task->launch.spec;
    const struct agent *agent = task->agent;
    const struct launch_node *node = &task->launch.nodes[task->id.rank];
    uint64_t memory = s->memory ? s->memory : s->memory_per_gpu * node->gpu_count;
    uint32_t cpus = s->cpus > 0 ? (uint32_t)s->cpus
                                : (uint32_t)(s->cpus_per_task > 0 ? s->cpus_per_task : 0) *
                                      launch_procs(&task->launch, task->id.rank);
    json_t *minors = json_array();
    char cgroup[CGROUP_PATH_MAX];
    const struct role_task *at;

    for (uint32_t i = 0; (at = launch_role(&task->launch, task->id.rank, i)); i++) {
        memory += s->roles[at->role].memory;
        cpus += (uint32_t)s->roles[at->role].cpus;
    }

    task_cgroup(task, cgroup, sizeof(cgroup));
    (void)json_object_set_new(plan, "cgroup", json_string(cgroup));
    (void)json_object_set_new(plan, "fences", json_integer(agent->cgroup.fences));
    (void)json_object_set_new(plan, "memory", json_integer((json_int_t)memory));
    (void)json_object_set_new(plan, "cpus", json_integer(cpus));
    cpus_add(task, cpus, plan);
    for (uint32_t i = 0; i < node->gpu_count; i++)
        (void)json_array_append_new(minors, json_integer(agent->gpus->info[node->gpus[i]].minor));
    (void)json_object_set_new(plan, "gpu_minors", minors);
    (void)json_object_set_new(plan, "gpu_major", json_integer(agent->gpus->amd ? MAJOR_DRM : MAJOR_NVIDIA));
    (void)json_object_set_new(plan, "fence_gpus",
                              json_boolean((agent->cgroup.fences & FENCE_DEVICES) != 0 && !agent->gpus->fake));
}

static void times_add(const struct task *task, json_t *plan)
{
    const struct launch *l = &task->launch;
    usec_t grace = l->spec.grace > 0 ? l->spec.grace : GRACE_DEFAULT;

    (void)json_object_set_new(plan, "end", json_integer(l->end));
    (void)json_object_set_new(plan, "grace_ms", json_integer(grace / USEC_MSEC));
    (void)json_object_set_new(plan, "signal", json_integer(l->spec.ckpt_signal > 0 ? l->spec.ckpt_signal : SIGTERM));
    if (l->spec.signal > 0 && l->spec.signal_before > 0) {
        (void)json_object_set_new(plan, "early_signal", json_integer(l->spec.signal));
        (void)json_object_set_new(plan, "early_ms", json_integer(l->spec.signal_before / USEC_MSEC));
    }
}

static void files_add(const struct task *task, json_t *plan)
{
    const struct agent *agent = task->agent;
    char path[4200];
    CLEANUP_BUF struct buf hosts = BUF_INIT(4 << 20);

    (void)json_object_set_new(plan, "logs", json_sprintf("%s/logs", agent->state_path));
    (void)json_object_set_new(plan, "log_out", json_sprintf("%s.out", task->name));
    if (task->launch.spec.error)
        (void)json_object_set_new(plan, "log_err", json_sprintf("%s.err", task->name));
    (void)json_object_set_new(plan, "log_max",
                              json_integer(agent->config.log_max ? (json_int_t)agent->config.log_max : LOG_MAX));
    (void)json_object_set_new(
        plan, "output_max", json_integer(agent->config.output_max ? (json_int_t)agent->config.output_max : OUTPUT_MAX));
    (void)snprintf(path, sizeof(path), "%s/lease", agent->state_path);
    (void)json_object_set_new(plan, "lease", json_string(path));
    (void)json_object_set_new(plan, "tmp_real",
                              json_sprintf("%s/%s/%s", agent->state_path, agent_tmp_name(agent), task->name));
    if (environ_hosts(&task->launch, &hosts) == 0 && hosts.data)
        (void)json_object_set_new(plan, "hosts", json_string(hosts.data));
}

static void user_add(const struct task *task, const struct account *account, const char *dir, json_t *plan)
{
    bool home = account->known && access(account->home, X_OK) == 0;
    const struct launch *l = &task->launch;
    const struct agent *agent = task->agent;
    bool root = geteuid() == 0;
    bool private_tmp = agent->private_tmp;

    (void)json_object_set_new(plan, "uid", json_integer(l->uid));
    (void)json_object_set_new(plan, "gid", json_integer(l->gid));
    (void)json_object_set_new(plan, "switch", json_boolean(root && l->uid != 0));
    (void)json_object_set_new(plan, "owned", json_boolean(root && l->uid != 0));
    if (account->known)
        (void)json_object_set_new(plan, "user", json_string(account->name));
    if (root && l->uid != 0) {
        json_t *groups = json_array();

        for (int i = 0; i < account->group_count; i++)
            (void)json_array_append_new(groups, json_integer(account->groups[i]));
        (void)json_object_set_new(plan, "groups", groups);
    }
    (void)json_object_set_new(plan, "private_tmp", json_boolean(private_tmp));
    /* Where it was submitted; else at home; a user without one has the private directory. */
    (void)json_object_set_new(plan, "dir",
                              l->spec.dir   ? json_string(l->spec.dir)
                              : home        ? json_string(account->home)
                              : private_tmp ? json_string("/tmp")
                                            : json_sprintf("%s/job/tmp", dir));
    (void)json_object_set_new(plan, "home", json_string(agent->state_path));
    (void)json_object_set_new(plan, "no_new_privs", json_boolean(!agent->config.allow_new_privs));
}

/* The server that shares GPUs among processes of CUDA, where one runs: its folder, as its own programs look for it. */
static bool mps_find(char *out, size_t size)
{
    const char *told = getenv("CUDA_MPS_PIPE_DIRECTORY"); /* NOLINT(concurrency-mt-unsafe): one thread */
    char control[600];

    (void)snprintf(out, size, "%s", told && *told ? told : "/tmp/nvidia-mps");
    (void)snprintf(control, sizeof(control), "%s/control", out);
    return access(control, F_OK) == 0;
}

static void environ_add(const struct task *task, const struct account *account, const char *dir, json_t *plan)
{
    const struct agent *agent = task->agent;
    const char *uuids[AGENT_GPUS_MAX];
    uint16_t links[AGENT_GPUS_MAX];
    char rack[128] = "", key[256], mps[512];
    struct gpu_runtime_paths runtime;
    json_t *proc;
    size_t i;
    const char *label = agent->config.labels ? strstr(agent->config.labels, "rack=") : NULL;
    struct launch_host host = { .node = agent->config.node,
                                .sku = agent->gpus->sku,
                                .dir = dir,
                                .uuids = uuids,
                                .links = links,
                                .gpu_count = agent->gpus->count,
                                .memory_mib = agent->gpus->memory_mib,
                                .container = container_used(task),
                                .key = task_key(task, key, sizeof(key)),
                                .home = account->known ? account->home : NULL,
                                .shell = account->known ? account->shell : NULL };

    if (gpu_runtime_for(agent, &task->launch)) {
        runtime = gpu_runtime_paths(agent);
        host.runtime = &runtime;
    }
    host.amd = agent->gpus->amd;
    host.mps = mps_find(mps, sizeof(mps)) ? mps : NULL;
    host.fenced = (agent->cgroup.fences & FENCE_DEVICES) != 0 && !agent->gpus->fake;
    for (uint32_t g = 0; g < agent->gpus->count; g++) {
        uuids[g] = agent->gpus->info[g].uuid;
        links[g] = agent->gpus->info[g].link;
    }
    if (label)
        (void)snprintf(rack, sizeof(rack), "%.*s", (int)strcspn(label + 5, ","), label + 5);
    host.rack = rack[0] ? rack : NULL;
    (void)json_object_set_new(plan, "env", environ_node(&task->launch, &host));
    json_array_foreach(json_object_get(plan, "procs"), i, proc)
        environ_role(&task->launch, (uint32_t)i, json_object_get(plan, "env"), json_object_get(proc, "env"));
}

/* How the job's output tells how far it is. */
static json_t *progress_patterns(const struct submission *s)
{
    json_t *patterns = json_object();

    for (size_t i = 0; i < s->progress_count; i++)
        (void)json_object_set_new(patterns, s->progress[i].key, json_string(s->progress[i].value));
    return patterns;
}

int plan_write(struct task *task, int dir_fd, struct error *err)
{
    const struct launch *l = &task->launch;
    char dir[4096];
    const struct account *account = account_find((uid_t)l->uid, (gid_t)l->gid);
    json_t *plan = json_object();
    int r;

    (void)snprintf(dir, sizeof(dir), "%s/tasks/%s", task->agent->state_path, task->name);
    (void)json_object_set_new(plan, "job", json_integer(l->id.job));
    (void)json_object_set_new(plan, "attempt", json_integer(l->id.attempt));
    (void)json_object_set_new(plan, "rank", json_integer(l->id.rank));
    (void)json_object_set_new(plan, "go", json_boolean(l->go));
    (void)json_object_set_new(plan, "durable", json_boolean(task->agent->config.durable));
    if (l->spec.ckpt_cmd)
        (void)json_object_set_new(plan, "ckpt_cmd", json_string(l->spec.ckpt_cmd));
    (void)json_object_set_new(plan, "no_kill", json_boolean(l->spec.no_kill));
    if (l->spec.progress_count)
        (void)json_object_set_new(plan, "progress", progress_patterns(&l->spec));
    r = procs_add(task, dir, plan, err);
    user_add(task, account, dir, plan);
    limits_add(task, plan);
    times_add(task, plan);
    files_add(task, plan);
    environ_add(task, account, dir, plan);
    if (gpu_runtime_for(task->agent, l)) {
        (void)json_object_set_new(plan, "gpu_socket", json_string(gpu_runtime_paths(task->agent).socket));
        gpu_runtime_grant(task);
        gpu_runtime_start(task->agent);
    }
    if (r == 0 && container_used(task))
        r = container_wrap(task, dir, plan, err);
    else if (r == 0 && roles_image(&l->spec))
        container_skip(task, plan);
    if (r == 0)
        keeper_take(task, plan);
    /* One that begins at once has its order here and nowhere else. */
    (void)json_object_set(plan, "order", l->order);
    if (r == 0) {
        r = util_json_write(dir_fd, "plan.json", plan, false);
        if (r < 0)
            (void)error_set(err, r, "plan of the task: %s", strerror(-r));
    }
    json_decref(plan);
    return r;
}
