/* SPDX-License-Identifier: Apache-2.0 */
/* slurm_job.c - one job of the controller in Slurm's words, for squeue, sacct, scontrol and --json. */
#include <grp.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/fmt.h"
#include "cli/slurm/slurm.h"

const char *slurm_job_array(json_t *job, bool index, char *text, size_t size)
{
    json_t *array = json_object_get(job, "array");

    if (!json_is_object(array))
        return index ? "N/A" : slurm_number(fmt_i64(job, "id"), text, size);
    return slurm_number(fmt_i64(array, index ? "index" : "id"), text, size);
}

int64_t slurm_job_node_count(json_t *job)
{
    size_t count = json_array_size(json_object_get(job, "placement"));

    return count ? (int64_t)count : fmt_i64(job, "nodes") ? fmt_i64(job, "nodes") : 1;
}

const char *slurm_job_nodes(json_t *job, char *text, size_t size)
{
    return slurm_number(slurm_job_node_count(job), text, size);
}

/* A number of the submission, which may be written as text. */
static int64_t spec_number(json_t *job, const char *key)
{
    json_t *value = json_object_get(json_object_get(job, "spec"), key);
    long long number = 0;

    if (json_is_string(value) && sscanf(json_string_value(value), "%lld", &number) != 1)
        return 0;
    return json_is_string(value) ? number : json_integer_value(value);
}

int64_t slurm_job_tasks(json_t *job)
{
    int64_t tasks = spec_number(job, "tasks"), each = spec_number(job, "tasks_per_node");

    return tasks ? tasks : each ? each * slurm_job_node_count(job) : slurm_job_node_count(job);
}

/* As asked for by --cpus-per-task or --cpus; a job that says neither is counted with one a GPU, and one at least. */
int64_t slurm_job_cpus(json_t *job)
{
    json_t *node = json_object_get(json_object_get(json_object_get(job, "spec"), "per_node"), "cpu");
    int64_t each = spec_number(job, "cpus_per_task"), gpus = fmt_i64(job, "gpus");

    if (each)
        return each * slurm_job_tasks(job);
    if (json_is_number(node))
        return (int64_t)(json_number_value(node) * (double)slurm_job_node_count(job));
    return gpus ? gpus : 1;
}

const char *slurm_job_reason(json_t *job)
{
    json_t *reason = json_object_get(job, "reason");

    return json_is_object(reason) ? fmt_text(reason, "code") : "None";
}

const char *slurm_job_gres(json_t *job, char *text, size_t size)
{
    const char *type = fmt_text(job, "gpu_type");
    int64_t gpus = fmt_i64(job, "gpus"), nodes = slurm_job_node_count(job);
    json_t *first = json_array_get(json_object_get(job, "placement"), 0);
    int64_t here = (int64_t)json_array_size(json_object_get(first, "gpus"));

    if (!gpus)
        return "N/A";
    (void)snprintf(text, size, "gres/gpu:%s%s%lld", type, *type ? ":" : "",
                   (long long)(here ? here : (gpus + nodes - 1) / nodes));
    return text;
}

const char *slurm_job_tres(json_t *job, char *text, size_t size)
{
    long long cpus = slurm_job_cpus(job), gpus = fmt_i64(job, "gpus");

    if (gpus)
        (void)snprintf(text, size, "cpu=%lld,node=%lld,billing=%lld,gres/gpu=%lld", cpus,
                       (long long)slurm_job_node_count(job), cpus, gpus);
    else
        (void)snprintf(text, size, "cpu=%lld,node=%lld,billing=%lld", cpus, (long long)slurm_job_node_count(job), cpus);
    return text;
}

const char *slurm_job_host(json_t *job)
{
    return fmt_text(json_array_get(json_object_get(job, "placement"), 0), "node");
}

/* afterok:1(unfulfilled),afterany:2(unfulfilled) while it waits for them. */
const char *slurm_job_dependency(json_t *job, char *text, size_t size)
{
    static const char *const kinds[] = { "ok", "any", "notok" };
    json_t *after = json_object_get(json_object_get(job, "spec"), "after"), *id;
    size_t used = 0, i;

    if (strcmp(slurm_job_reason(job), "Dependency") != 0)
        return "(null)";
    text[0] = '\0';
    for (size_t k = 0; k < 3; k++)
        json_array_foreach(json_object_get(after, kinds[k]), i, id)
        {
            int n = snprintf(text + used, size - used, "%safter%s:%lld(unfulfilled)", used ? "," : "", kinds[k],
                             (long long)json_integer_value(id));

            if (n < 0 || (size_t)n >= size - used)
                return text;
            used += (size_t)n;
        }
    return used ? text : "(null)";
}

/* Where it writes: its key of the submission, or slurm-ID.out as Slurm would. */
const char *slurm_job_file(json_t *job, const char *key, char *text, size_t size)
{
    json_t *spec = json_object_get(job, "spec");
    const char *file = fmt_text(spec, key), *dir = fmt_text(spec, "dir");

    if (!*file && strcmp(key, "error") == 0)
        file = fmt_text(spec, "output");
    if (!*file)
        return "(null)";
    (void)snprintf(text, size, "%s%s%s", *file == '/' ? "" : dir, *file == '/' ? "" : "/", file);
    return text;
}

int64_t slurm_job_left(json_t *job)
{
    int64_t limit = fmt_i64(job, "limit_seconds"), left = limit - fmt_i64(job, "elapsed_seconds");

    return !limit ? -1 : left > 0 ? left : 0;
}

const char *slurm_group(json_t *job, char *text, size_t size)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread */
    const struct group *group = getgrgid((gid_t)fmt_i64(job, "gid"));

    if (group)
        (void)snprintf(text, size, "%s", group->gr_name);
    else
        (void)snprintf(text, size, "%lld", (long long)fmt_i64(job, "gid"));
    return text;
}

bool slurm_job_wanted(const char *list, json_t *job)
{
    char id[FMT_MAX], number[32], array[32] = "", *save = NULL;
    json_t *of = json_object_get(job, "array");
    CLEANUP(mem_free) char *copy = NULL;

    if (!list)
        return true;
    copy = mem_strdup(list);
    if (json_is_object(of))
        (void)snprintf(array, sizeof(array), "%lld", (long long)fmt_i64(of, "id"));
    (void)snprintf(number, sizeof(number), "%lld", (long long)fmt_i64(job, "id"));
    (void)fmt_id(job, id);
    for (char *word = copy ? strtok_r(copy, ", ", &save) : NULL; word; word = strtok_r(NULL, ", ", &save)) {
        word[strcspn(word, ".+")] = '\0'; /* a step is of its job */
        if (strcmp(word, id) == 0 || strcmp(word, array) == 0 || strcmp(word, number) == 0)
            return true;
    }
    return false;
}

void slurm_query(struct buf *path, const struct command_args *args, const char *flag, const char *key)
{
    char *quoted = args_value(args, flag) ? client_quote(args_value(args, flag)) : NULL;

    if (quoted)
        buf_printf(path, "&%s=%s", key, quoted);
    mem_free(quoted);
}
