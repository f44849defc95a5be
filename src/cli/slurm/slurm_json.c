/* SPDX-License-Identifier: Apache-2.0 */
/* slurm_json.c - --json of squeue, sacct and sinfo, with the names and types that Slurm's data parser 0.0.38 has. */
#include <string.h>

#include "cli/fmt.h"
#include "cli/listing.h"
#include "cli/slurm/slurm.h"

static int envelope_show(const char *kind, json_t *list)
{
    json_t *all = json_pack("{s:{s:{s:s, s:s}, s:{s:{s:i, s:i, s:i}, s:s}}, s:[], s:[], s:o}", "meta", "plugin", "type",
                            "openapi/v0.0.38", "name", "muster " MUSTER_VERSION, "Slurm", "version", "major", 22,
                            "micro", 8, "minor", 5, "release", SLURM_RELEASE, "errors", "warnings", kind, list);

    show_json(all);
    json_decref(all);
    return 0;
}

static json_t *seconds(json_t *job, const char *key)
{
    return json_integer(fmt_time(job, key) / USEC_SEC);
}

static void put_text(json_t *to, const char *key, const char *text)
{
    (void)json_object_set_new(to, key, json_string(strcmp(text, "(null)") == 0 ? "" : text));
}

/* Who has it and what it asked for. */
static void put_request(json_t *to, json_t *job)
{
    json_t *spec = json_object_get(job, "spec"), *array = json_object_get(job, "array");
    char text[1024];

    put_text(to, "account", fmt_text(spec, "account"));
    put_text(to, "comment", fmt_text(spec, "comment"));
    put_text(to, "features", fmt_text(spec, "constraint"));
    put_text(to, "required_nodes", fmt_text(spec, "nodelist"));
    put_text(to, "excluded_nodes", fmt_text(spec, "exclude"));
    put_text(to, "resv_name", fmt_text(spec, "reservation"));
    put_text(to, "licenses", fmt_text(spec, "licenses"));
    put_text(to, "current_working_directory", fmt_text(spec, "dir"));
    put_text(to, "standard_output", slurm_job_file(job, "output", text, sizeof(text)));
    put_text(to, "standard_error", slurm_job_file(job, "error", text, sizeof(text)));
    put_text(to, "dependency", slurm_job_dependency(job, text, sizeof(text)));
    put_text(to, "name", fmt_text(job, "name"));
    put_text(to, "partition", fmt_text(job, "vc"));
    put_text(to, "user_name", fmt_text(job, "user"));
    put_text(to, "group_name", slurm_group(job, text, sizeof(text)));
    put_text(to, "tres_per_node",
             strcmp(slurm_job_gres(job, text, sizeof(text)), "N/A") == 0 ? ""
                                                                         : slurm_job_gres(job, text, sizeof(text)));
    put_text(to, "tres_req_str", slurm_job_tres(job, text, sizeof(text)));
    (void)json_object_set_new(to, "user_id", json_integer(fmt_i64(job, "uid")));
    (void)json_object_set_new(to, "group_id", json_integer(fmt_i64(job, "gid")));
    (void)json_object_set_new(to, "job_id", json_integer(fmt_i64(job, "id")));
    (void)json_object_set_new(to, "array_job_id", json_integer(json_is_object(array) ? fmt_i64(array, "id") : 0));
    (void)json_object_set_new(to, "array_task_id",
                              json_is_object(array) ? json_integer(fmt_i64(array, "index")) : json_null());
    (void)json_object_set_new(to, "cpus", json_integer(slurm_job_cpus(job)));
    (void)json_object_set_new(to, "tasks", json_integer(slurm_job_tasks(job)));
    (void)json_object_set_new(to, "node_count", json_integer(slurm_job_node_count(job)));
    (void)json_object_set_new(to, "priority", json_integer(fmt_i64(job, "priority")));
    (void)json_object_set_new(to, "requeue", json_boolean(!json_is_false(json_object_get(spec, "requeue"))));
    (void)json_object_set_new(to, "time_limit",
                              fmt_i64(job, "limit_seconds") ? json_integer(fmt_i64(job, "limit_seconds") / 60)
                                                            : json_null());
}

/* Where it is, since when, and how it ended. */
static void put_course(json_t *to, json_t *job)
{
    json_t *place = json_object_get(job, "placement"), *nodes = json_array(), *one;
    usec_t start = fmt_time(job, "start_time"), end = fmt_time(job, "end_time");
    char text[1024];
    size_t i;

    if (!end && start && fmt_i64(job, "limit_seconds"))
        end = start + fmt_i64(job, "limit_seconds") * USEC_SEC; /* when its limit ends it, as Slurm tells it */
    put_text(to, "job_state", slurm_state(fmt_text(job, "state")));
    put_text(to, "state_reason", slurm_job_reason(job));
    put_text(to, "nodes", fmt_text(job, "nodelist"));
    put_text(to, "batch_host", slurm_job_host(job));
    put_text(to, "tres_alloc_str", json_array_size(place) ? slurm_job_tres(job, text, sizeof(text)) : "");
    (void)json_object_set_new(to, "submit_time", seconds(job, "submit_time"));
    (void)json_object_set_new(to, "eligible_time", seconds(job, "eligible_time"));
    (void)json_object_set_new(to, "start_time", json_integer(start / USEC_SEC));
    (void)json_object_set_new(to, "end_time", json_integer(end / USEC_SEC));
    (void)json_object_set_new(to, "restart_cnt", json_integer(fmt_i64(job, "attempt")));
    (void)json_object_set_new(
        to, "exit_code",
        json_integer(fmt_i64(job, "signal") ? fmt_i64(job, "signal") : fmt_i64(job, "exit_code") << 8));
    json_array_foreach(place, i, one)(void)
        json_array_append_new(nodes, json_pack("{s:s}", "nodename", fmt_text(one, "node")));
    (void)json_object_set_new(to, "job_resources",
                              json_pack("{s:s, s:I, s:I, s:o}", "nodes", fmt_text(job, "nodelist"), "allocated_hosts",
                                        (json_int_t)json_array_size(place), "allocated_cores",
                                        (json_int_t)slurm_job_cpus(job), "allocated_nodes", nodes));
}

int slurm_json_jobs(json_t *jobs)
{
    json_t *list = json_array(), *job;
    size_t i;

    json_array_foreach(jobs, i, job)
    {
        json_t *to = json_object();

        put_request(to, job);
        put_course(to, job);
        (void)json_array_append_new(list, to);
    }
    return envelope_show("jobs", list);
}

int slurm_json_nodes(json_t *nodes, json_t *vcs)
{
    json_t *list = json_array(), *node, *names = json_array(), *vc;
    char text[256];
    size_t i;

    json_array_foreach(vcs, i, vc)(void) json_array_append_new(names, json_string(fmt_text(vc, "name")));
    json_array_foreach(nodes, i, node)
    {
        json_t *to = json_object();
        int64_t cpus = fmt_i64(node, "cpus"), gpus = fmt_i64(node, "gpus");
        int64_t used = gpus ? cpus * fmt_i64(node, "gpus_used") / gpus : 0;

        put_text(to, "name", fmt_text(node, "name"));
        put_text(to, "hostname", fmt_text(node, "name"));
        put_text(to, "address", fmt_text(node, "address"));
        put_text(to, "state", slurm_node_state(node, false, text, sizeof(text)));
        put_text(to, "reason", fmt_text(node, "drain_reason"));
        put_text(to, "gres", slurm_node_gres(node, text, sizeof(text)));
        put_text(to, "slurmd_version", fmt_text(node, "version"));
        (void)json_object_set_new(
            to, "gres_used", json_sprintf("gpu:%s:%lld", fmt_text(node, "sku"), (long long)fmt_i64(node, "gpus_used")));
        (void)json_object_set_new(to, "cpus", json_integer(cpus));
        (void)json_object_set_new(to, "alloc_cpus", json_integer(used));
        (void)json_object_set_new(to, "idle_cpus", json_integer(cpus - used));
        (void)json_object_set_new(to, "real_memory", json_integer(fmt_i64(node, "memory_bytes") >> 20));
        (void)json_object_set(to, "partitions", names);
        (void)json_array_append_new(list, to);
    }
    json_decref(names);
    return envelope_show("nodes", list);
}
