/* SPDX-License-Identifier: Apache-2.0 */
/* scontrol_show.c - scontrol show job|node|partition|config|hostnames|hostlist: Key=Value as Slurm prints it, in
 * blocks, or one line a thing. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/fmt.h"
#include "cli/listing.h"
#include "cli/slurm/slurm.h"
#include "cli/verbs/live.h"
#include "wire/text/hostlist.h"

enum { TEXT_MAX = 4096 };

/* A thing that is printed: lines of Key=Value, which stand in one line where that is asked for. */
struct block {
    struct buf out;
    bool one_line;
};

static void block_line(struct block *block, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void block_line(struct block *block, const char *format, ...)
{
    char text[TEXT_MAX];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (block->out.size)
        buf_text(&block->out, block->one_line ? " " : "\n   ");
    buf_text(&block->out, text);
}

static void block_end(struct block *block)
{
    buf_text(&block->out, block->one_line ? "" : "\n");
    buf_char(&block->out, '\0');
    for (size_t i = 0; i + 1 < block->out.size; i++) /* names and comments are somebody's words */
        if ((unsigned char)block->out.data[i] < 32 && block->out.data[i] != '\n')
            block->out.data[i] = '?';
    if (!block->out.error)
        (void)puts(block->out.data);
    buf_done(&block->out);
}

static const char *or_null(const char *text)
{
    return *text ? text : "(null)";
}

static void job_head(struct block *block, json_t *job)
{
    json_t *array = json_object_get(job, "array"), *spec = json_object_get(job, "spec");
    char group[256], more[96] = "";

    if (json_is_object(array))
        (void)snprintf(more, sizeof(more), "ArrayJobId=%lld ArrayTaskId=%lld ", (long long)fmt_i64(array, "id"),
                       (long long)fmt_i64(array, "index"));
    block_line(block, "JobId=%lld %sJobName=%s", (long long)fmt_i64(job, "id"), more, fmt_text(job, "name"));
    block_line(block, "UserId=%s(%lld) GroupId=%s(%lld) MCS_label=N/A", fmt_text(job, "user"),
               (long long)fmt_i64(job, "uid"), slurm_group(job, group, sizeof(group)), (long long)fmt_i64(job, "gid"));
    block_line(block, "Priority=%lld Nice=0 Account=%s QOS=(null)", (long long)fmt_i64(job, "priority"),
               or_null(fmt_text(spec, "account")));
}

static void job_times(struct block *block, json_t *job)
{
    char a[64], b[64], c[64], d[64];
    int64_t limit = fmt_i64(job, "limit_seconds");
    usec_t start = fmt_time(job, "start_time"), end = fmt_time(job, "end_time");
    json_t *until = json_pack("{s:O?}", "t", json_object_get(job, "end_time"));

    block_line(block, "RunTime=%s TimeLimit=%s TimeMin=N/A",
               slurm_span_long(fmt_i64(job, "elapsed_seconds"), a, sizeof(a)),
               limit ? slurm_span_long(limit, b, sizeof(b)) : "UNLIMITED");
    block_line(block, "SubmitTime=%s EligibleTime=%s", slurm_stamp(job, "submit_time", "Unknown", a, sizeof(a)),
               slurm_stamp(job, "eligible_time", "Unknown", b, sizeof(b)));
    if (!end && start && limit) { /* as Slurm tells it: when the limit ends it */
        char made[FMT_MAX];

        (void)snprintf(d, sizeof(d), "%s", fmt_stamp(start + limit * USEC_SEC, made));
        d[strcspn(d, " ")] = 'T';
    } else {
        (void)snprintf(d, sizeof(d), "%s", slurm_stamp(until, "t", "Unknown", c, sizeof(c)));
    }
    block_line(block, "StartTime=%s EndTime=%s Deadline=N/A", slurm_stamp(job, "start_time", "Unknown", a, sizeof(a)),
               d);
    json_decref(until);
}

static void job_print(json_t *job, bool one_line)
{
    struct block block = { BUF_INIT((size_t)1 << 20), one_line };
    json_t *spec = json_object_get(job, "spec");
    int64_t by = fmt_i64(job, "signal"), nodes = slurm_job_node_count(job), tasks = slurm_job_tasks(job);
    char text[TEXT_MAX], other[TEXT_MAX];

    job_head(&block, job);
    block_line(&block, "JobState=%s Reason=%s Dependency=%s", slurm_state(fmt_text(job, "state")),
               slurm_job_reason(job), slurm_job_dependency(job, text, sizeof(text)));
    block_line(&block, "Requeue=%d Restarts=%lld BatchFlag=1 Reboot=0 ExitCode=%lld:%lld",
               !json_is_false(json_object_get(spec, "requeue")), (long long)fmt_i64(job, "attempt"),
               (long long)(by ? 0 : fmt_i64(job, "exit_code")), (long long)by);
    job_times(&block, job);
    block_line(&block, "Partition=%s AllocNode:Sid=N/A", fmt_text(job, "vc"));
    block_line(&block, "ReqNodeList=%s ExcNodeList=%s", or_null(fmt_text(spec, "nodelist")),
               or_null(fmt_text(spec, "exclude")));
    block_line(&block, "NodeList=%s", fmt_text(job, "nodelist"));
    if (*slurm_job_host(job))
        block_line(&block, "BatchHost=%s", slurm_job_host(job));
    block_line(&block, "NumNodes=%lld NumCPUs=%lld NumTasks=%lld CPUs/Task=%lld ReqB:S:C:T=0:0:*:*", (long long)nodes,
               (long long)slurm_job_cpus(job), (long long)tasks,
               (long long)(slurm_job_cpus(job) / tasks ? slurm_job_cpus(job) / tasks : 1));
    block_line(&block, "TRES=%s", slurm_job_tres(job, text, sizeof(text)));
    block_line(&block, "Features=%s DelayBoot=00:00:00", or_null(fmt_text(spec, "constraint")));
    block_line(&block, "OverSubscribe=%s Contiguous=0 Licenses=%s Network=(null)",
               json_is_true(json_object_get(spec, "exclusive")) ? "NO" : "OK", or_null(fmt_text(spec, "licenses")));
    block_line(&block, "Command=(null)");
    block_line(&block, "WorkDir=%s", or_null(fmt_text(spec, "dir")));
    if (*fmt_text(spec, "comment"))
        block_line(&block, "Comment=%s", fmt_text(spec, "comment"));
    block_line(&block, "StdErr=%s", slurm_job_file(job, "error", text, sizeof(text)));
    block_line(&block, "StdIn=/dev/null");
    block_line(&block, "StdOut=%s", slurm_job_file(job, "output", text, sizeof(text)));
    if (fmt_i64(job, "gpus"))
        block_line(&block, "TresPerNode=%s", slurm_job_gres(job, other, sizeof(other)));
    block_end(&block);
}

static void node_print(json_t *node, json_t *vcs, bool one_line)
{
    struct block block = { BUF_INIT((size_t)1 << 20), one_line };
    int64_t cpus = fmt_i64(node, "cpus"), gpus = fmt_i64(node, "gpus"), used = fmt_i64(node, "gpus_used");
    int64_t busy = gpus ? cpus * used / gpus : 0, memory = fmt_i64(node, "memory_bytes") >> 20;
    CLEANUP_BUF struct buf names = BUF_INIT((size_t)1 << 16);
    const char *state = fmt_text(node, "state"), *reason = fmt_text(node, "drain_reason");
    char gres[128];
    json_t *vc;
    size_t i;

    json_array_foreach(vcs, i, vc) buf_printf(&names, "%s%s", i ? "," : "", fmt_text(vc, "name"));
    buf_char(&names, '\0');
    block_line(&block, "NodeName=%s Arch=x86_64", fmt_text(node, "name"));
    block_line(&block, "CPUAlloc=%lld CPUEfctv=%lld CPUTot=%lld CPULoad=N/A", (long long)busy, (long long)cpus,
               (long long)cpus);
    block_line(&block, "AvailableFeatures=(null)");
    block_line(&block, "ActiveFeatures=(null)");
    block_line(&block, "Gres=%s", slurm_node_gres(node, gres, sizeof(gres)));
    block_line(&block, "NodeAddr=%s NodeHostName=%s Version=%s", fmt_text(node, "address"), fmt_text(node, "name"),
               fmt_text(node, "version"));
    block_line(&block, "RealMemory=%lld AllocMem=0 FreeMem=N/A", (long long)memory);
    block_line(&block, "State=%s ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A",
               strcmp(state, "drain") == 0      ? "IDLE+DRAIN"
               : strcmp(state, "draining") == 0 ? "MIXED+DRAIN"
               : strcmp(state, "alloc") == 0    ? "ALLOCATED"
               : strcmp(state, "mixed") == 0    ? "MIXED"
               : strcmp(state, "idle") == 0     ? "IDLE"
                                                : "DOWN");
    block_line(&block, "Partitions=%s", names.error ? "" : names.data);
    block_line(&block, "CfgTRES=cpu=%lld,mem=%lldM,billing=%lld,gres/gpu=%lld", (long long)cpus, (long long)memory,
               (long long)cpus, (long long)gpus);
    block_line(&block, "AllocTRES=cpu=%lld,gres/gpu=%lld", (long long)busy, (long long)used);
    if (*reason)
        block_line(&block, "Reason=%s", reason);
    block_end(&block);
}

static void partition_print(json_t *vc, bool first, json_t *nodes, bool one_line)
{
    struct block block = { BUF_INIT((size_t)1 << 20), one_line };
    size_t count = json_array_size(nodes), i;
    const char **names = mem_zalloc(count + 1, sizeof(*names));
    CLEANUP_BUF struct buf hosts = BUF_INIT((size_t)1 << 20);
    int64_t cpus = 0, gpus = 0, memory = 0;
    json_t *node;

    json_array_foreach(nodes, i, node)
    {
        cpus += fmt_i64(node, "cpus");
        gpus += fmt_i64(node, "gpus");
        memory += fmt_i64(node, "memory_bytes") >> 20;
        if (names)
            names[i] = fmt_text(node, "name");
    }
    if (names)
        hostlist_put(&hosts, names, count);
    mem_free(names);
    buf_char(&hosts, '\0');
    block_line(&block, "PartitionName=%s", fmt_text(vc, "name"));
    block_line(&block, "AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL");
    block_line(&block, "AllocNodes=ALL Default=%s QoS=N/A", first ? "YES" : "NO");
    block_line(&block, "DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO");
    block_line(&block, "MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED");
    block_line(&block, "Nodes=%s", hosts.error ? "" : hosts.data);
    block_line(&block, "PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO");
    block_line(&block, "OverTimeLimit=NONE PreemptMode=REQUEUE");
    block_line(&block, "State=UP TotalCPUs=%lld TotalNodes=%zu SelectTypeParameters=NONE", (long long)cpus, count);
    block_line(&block, "JobDefaults=(null)");
    block_line(&block, "DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED");
    block_line(&block, "TRES=cpu=%lld,mem=%lldM,node=%zu,billing=%lld,gres/gpu=%lld", (long long)cpus,
               (long long)memory, count, (long long)cpus, (long long)gpus);
    block_end(&block);
}

static int put_name(void *arg, const char *name)
{
    (void)arg;
    (void)puts(name);
    return 0;
}

/* Needs no controller: scripts ask it once a node. */
static int hostnames(const char *list)
{
    struct error err = { 0 };

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread */
    list = list ? list : getenv("SLURM_JOB_NODELIST");
    if (!list) {
        (void)fprintf(stderr, "scontrol: error: host list is empty\n");
        return CODE_DONE;
    }
    if (!*list)
        return CODE_DONE;
    return hostlist_each(list, put_name, NULL, &err) < 0 ? cli_fail(-EINVAL, &err) : CODE_DONE;
}

struct name_list {
    char **names; /* owned, as each of them is */
    size_t count, capacity;
};

static int name_keep(void *arg, const char *name)
{
    struct name_list *list = arg;
    void *block = (void *)list->names;
    int r = mem_grow(&block, &list->capacity, list->count + 1, HOSTLIST_MAX, sizeof(*list->names));

    list->names = block;
    if (r == 0)
        list->names[list->count++] = mem_strdup(name);
    return r;
}

static int hostlist_show(const char *text)
{
    CLEANUP_BUF struct buf out = BUF_INIT((size_t)1 << 20);
    struct name_list list = { 0 };
    struct error err = { 0 };
    int r = hostlist_each(text, name_keep, &list, &err);

    if (r >= 0) {
        hostlist_put(&out, (void *)list.names, list.count);
        buf_char(&out, '\0');
        (void)puts(out.error ? "" : out.data);
    }
    for (size_t i = 0; i < list.count; i++)
        mem_free(list.names[i]);
    mem_free((void *)list.names);
    return r < 0 ? cli_fail(-EINVAL, &err) : CODE_DONE;
}

static int not_found(const char *kind, const char *name)
{
    struct problem problem;

    (void)problem_set(&problem, CODE_FAILED, "", "%s: %.60s", kind, name);
    return problem_print(&problem);
}

/* Jobs that are not over, or the one of that number, which may be over. */
static int jobs_show(struct client *client, const char *which, bool one_line)
{
    struct problem problem;
    json_t *items = NULL, *job;
    size_t i, shown = 0;

    if (client_list(client, "/jobs?limit=10000&fields=" SLURM_JOB_FIELDS, &items, &problem))
        return problem_print(&problem);
    json_array_foreach(items, i, job) if (slurm_job_wanted(which, job))
    {
        job_print(job, one_line);
        shown++;
    }
    json_decref(items);
    if (which && !shown) {
        CLEANUP_ANSWER struct answer answer = { 0 };
        struct job_ref_text ref;
        char path[64];

        if (client_job(client, which, &ref, &problem))
            return not_found("slurm_load_jobs error: Invalid job id specified", which);
        (void)snprintf(path, sizeof(path), "/jobs/%lld", (long long)ref.id);
        if (client_call(client, "GET", path, NULL, &answer, &problem))
            return not_found("slurm_load_jobs error: Invalid job id specified", which);
        job_print(answer.json, one_line);
    } else if (!shown) {
        (void)puts("No jobs in the system");
    }
    return CODE_DONE;
}

static int name_print(void *arg, const char *name)
{
    void *const *both = arg;
    json_t *nodes = both[0], *node;
    size_t i;

    json_array_foreach(nodes, i, node) if (strcmp(fmt_text(node, "name"), name) == 0)
    {
        node_print(node, both[1], *(const bool *)both[2]);
        return 0;
    }
    (void)printf("Node %s not found\n", name);
    return -ENOENT;
}

static int nodes_show(json_t *nodes, json_t *vcs, const char *which, bool one_line)
{
    void *both[3] = { nodes, vcs, &one_line };
    json_t *node;
    size_t i;

    if (which)
        return hostlist_each(which, name_print, both, NULL) < 0 ? CODE_FAILED : CODE_DONE;
    json_array_foreach(nodes, i, node) node_print(node, vcs, one_line);
    return CODE_DONE;
}

static int partitions_show(json_t *nodes, json_t *vcs, const char *which, bool one_line)
{
    json_t *vc;
    size_t i, shown = 0;

    json_array_foreach(vcs, i, vc) if (!which || strcmp(which, fmt_text(vc, "name")) == 0)
    {
        partition_print(vc, i == 0, nodes, one_line);
        shown++;
    }
    return which && !shown ? not_found("Partition not found", which) : CODE_DONE;
}

static int config_show(struct client *client)
{
    CLEANUP_ANSWER struct answer answer = { 0 };
    struct problem problem;
    char made[FMT_MAX], host[256] = "localhost";

    if (client_call(client, "GET", "/cluster", NULL, &answer, &problem) &&
        client_call(client, "GET", "/overview", NULL, &answer, &problem))
        return problem_print(&problem);
    (void)gethostname(host, sizeof(host) - 1);
    (void)printf("Configuration data as of %s\n", fmt_stamp(fmt_now(), made));
    (void)printf(
        "AccountingStorageType   = muster\nClusterName             = %s\nGresTypes               = gpu\n"
        "MaxArraySize            = 65537\nPreemptMode             = REQUEUE\nSchedulerType           = muster\n"
        "SelectType              = select/cons_tres\nSlurmctldHost[0]        = %s\n"
        "SLURM_VERSION           = " SLURM_RELEASE "\n",
        *fmt_text(answer.json, "cluster") ? fmt_text(answer.json, "cluster") : "muster", host);
    return CODE_DONE;
}

/* "nodes" of "node": the noun, or its plural, or a beginning of either of two letters and more. */
static bool noun_is(const char *word, const char *plural)
{
    size_t length = strlen(word);

    return length >= 2 && length <= strlen(plural) && strncasecmp(word, plural, length) == 0;
}

/* "node=gpu01" and "node gpu01" are the same. */
static const char *noun_value(char *noun, char **rest, int left)
{
    char *equals = strchr(noun, '=');

    if (equals) {
        *equals = '\0';
        return equals + 1;
    }
    return left > 0 ? rest[0] : NULL;
}

int slurm_scontrol_show(int argc, char **argv, bool one_line)
{
    CLEANUP(client_free) struct client *client = NULL;
    struct command_args args = { .full = "scontrol show" };
    struct problem problem;
    const char *which;
    json_t *nodes = NULL, *vcs = NULL;
    int r;

    if (argc < 1)
        return -ENOSYS;
    which = noun_value(argv[0], argv + 1, argc - 1);
    if (noun_is(argv[0], "hostnames") && strlen(argv[0]) > 5)
        return hostnames(which);
    if (strncasecmp(argv[0], "hostlist", 8) == 0)
        return which ? hostlist_show(which) : hostnames(NULL);
    if (!noun_is(argv[0], "jobs") && !noun_is(argv[0], "nodes") && !noun_is(argv[0], "partitions") &&
        !noun_is(argv[0], "config"))
        return -ENOSYS;
    r = client_new(&args, &client, &problem);
    if (r)
        return problem_print(&problem);
    if (noun_is(argv[0], "jobs"))
        return jobs_show(client, which, one_line);
    if (noun_is(argv[0], "config"))
        return config_show(client);
    if (client_list(client, "/nodes", &nodes, &problem) || client_list(client, "/vcs", &vcs, &problem))
        return problem_print(&problem);
    r = noun_is(argv[0], "nodes") ? nodes_show(nodes, vcs, which, one_line)
                                  : partitions_show(nodes, vcs, which, one_line);
    json_decref(nodes);
    json_decref(vcs);
    return r;
}
