/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - a job as it is kept and shown: docs/rest.md, Job with its attempts and tasks. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ctl/part.h"
#include "ctl/record.h"
#include "wire/hostlist.h"

json_t *record_time(usec_t at)
{
    time_t seconds = (time_t)(at / USEC_SEC);
    char text[64];
    struct tm tm;
    size_t length;

    if (at <= 0 || !gmtime_r(&seconds, &tm))
        return json_null();
    length = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(text + length, sizeof(text) - length, ".%06dZ", (int)(at % USEC_SEC));
    return json_string(text);
}

static json_t *task_record(const struct ctl *ctl, const struct book_task *task, uint32_t rank)
{
    json_t *gpus = json_array();
    bool gone = task->state == TASK_EXITED || task->state == TASK_REFUSED;

    for (uint32_t g = 0; g < task->gpu_count; g++)
        (void)json_array_append_new(gpus, json_integer(task->gpus[g]));
    return json_pack("{s:I, s:s, s:o, s:s, s:o, s:o, s:b, s:o, s:o, s:o}", "rank", (json_int_t)rank, "node",
                     names_get(&ctl->book.node_names, task->node), "gpus", gpus, "state",
                     task_state_name((enum task_state)task->state), "exit_code",
                     gone ? json_integer(task->exit) : json_null(), "signal",
                     gone && task->signal ? json_integer(task->signal) : json_null(), "oom", task->oom, "cause",
                     task->cause[0] ? json_string(task->cause) : json_null(), "start_time", record_time(task->started),
                     "end_time", record_time(task->ended));
}

json_t *record_attempt(const struct ctl *ctl, const struct book_attempt *attempt)
{
    json_t *tasks = json_array();
    usec_t ran = attempt->ended ? attempt->ran : attempt->started ? ctl->now - attempt->started : 0;

    for (uint32_t t = 0; t < attempt->task_count; t++)
        (void)json_array_append_new(tasks, task_record(ctl, &attempt->tasks[t], t));
    return json_pack("{s:I, s:s, s:o, s:o, s:o, s:f, s:o, s:o, s:o, s:o, s:o}", "number", (json_int_t)attempt->number,
                     "state", phase_name(attempt->phase), "placed_time", record_time(attempt->placed), "start_time",
                     record_time(attempt->started), "end_time", record_time(attempt->ended), "ran_seconds",
                     (double)ran / (double)USEC_SEC, "exit_code",
                     attempt->ended ? json_integer(attempt->exit) : json_null(), "signal",
                     attempt->ended && attempt->signal ? json_integer(attempt->signal) : json_null(), "stop_kind",
                     attempt->stop_kind[0] ? json_string(attempt->stop_kind) : json_null(), "stop_by",
                     attempt->stop_by ? json_integer(attempt->stop_by) : json_null(), "tasks", tasks);
}

/* Of the nodes it last ran on. */
static json_t *record_type(const struct ctl *ctl, const struct book_job *job)
{
    const struct book_attempt *attempt = job->attempt_count ? &job->attempts[job->attempt_count - 1] : NULL;
    const json_t *sku = NULL;

    if (attempt && attempt->task_count && attempt->tasks[0].node < ctl->book.node_count)
        sku = json_object_get(ctl->book.nodes[attempt->tasks[0].node].inventory, "sku");
    return json_is_string(sku) ? json_string(json_string_value(sku)) : json_null();
}

json_t *record_used(const struct book_job *job)
{
    const struct book_attempt *attempt = book_attempt(job);
    double samples = 0, sum = 0, squares = 0, mean, variance;
    uint32_t memory = 0;

    for (uint32_t t = 0; attempt && t < attempt->task_count; t++) {
        const struct book_task *task = &attempt->tasks[t];
        double n = task->used_samples, util = task->used_util / 100.0, dev = task->used_util_dev / 100.0;

        samples += n;
        sum += n * util;
        squares += n * (dev * dev + util * util);
        memory = task->used_memory_mib > memory ? task->used_memory_mib : memory;
    }
    if (samples == 0)
        return json_null();
    mean = sum / samples;
    variance = squares / samples - mean * mean;
    return json_pack("{s:f, s:f, s:I}", "utilisation", mean, "utilisation_dev", variance > 0 ? sqrt(variance) : 0.0,
                     "memory_mib", (json_int_t)memory);
}

json_t *record_predicted(const struct book_job *job)
{
    const struct book_predicted *p = &job->predicted;

    if (!p->run && !p->memory_mib && !p->util)
        return json_null();
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "run_seconds",
                     p->run ? json_real((double)p->run / (double)USEC_SEC) : json_null(), "memory_mib",
                     p->memory_mib ? json_integer(p->memory_mib) : json_null(), "utilisation",
                     p->util ? json_real(p->util / 100.0) : json_null(), "utilisation_dev",
                     p->util_dev ? json_real(p->util_dev / 100.0) : json_null(), "gpus_pay",
                     p->gpus_pay ? json_integer(p->gpus_pay) : json_null());
}

json_t *record_job(const struct ctl *ctl, const struct book_job *job)
{
    const char *vc =
        job->vc < ctl->cluster.vc_count ? names_get(&ctl->cluster.names, ctl->cluster.vcs[job->vc].name) : "";
    json_t *attempts = json_array(), *out;

    for (uint32_t a = 0; a < job->attempt_count; a++)
        (void)json_array_append_new(attempts, record_attempt(ctl, &job->attempts[a]));
    out = json_pack("{s:I, s:s, s:s, s:s, s:i, s:s, s:s}", "id", (json_int_t)job->id, "name",
                    job->spec->name ? job->spec->name : "", "user", names_get(&ctl->book.users, job->user), "vc", vc,
                    "priority", job->spec->priority, "state", phase_name(job->phase), "state_letters",
                    phase_letters(job->phase));
    (void)json_object_set_new(out, "array",
                              job->array_id
                                  ? json_pack("{s:I, s:i}", "id", (json_int_t)job->array_id, "index", job->array_index)
                                  : json_null());
    (void)json_object_set_new(out, "gpus", json_integer(job->wants.gpus));
    (void)json_object_set_new(out, "gpu_share", json_integer(job->wants.share));
    (void)json_object_set_new(out, "gpu_type", record_type(ctl, job));
    (void)json_object_set_new(out, "lost_gpu_seconds", json_integer(job->lost_usec / USEC_SEC));
    (void)json_object_set_new(out, "submit_time", record_time(job->submit));
    (void)json_object_set_new(out, "eligible_time", record_time(job->eligible));
    (void)json_object_set_new(out, "start_time", record_time(job->last_start));
    (void)json_object_set_new(out, "end_time", record_time(job->end));
    (void)json_object_set_new(out, "gpu_seconds", json_integer(job->gpu_usec / USEC_SEC));
    (void)json_object_set_new(out, "preemptions", json_integer(job->preemptions));
    (void)json_object_set_new(out, "failures", json_integer(job->failures));
    (void)json_object_set_new(out, "exit_code", phase_over(job->phase) ? json_integer(job->exit) : json_null());
    (void)json_object_set_new(out, "signal",
                              phase_over(job->phase) && job->signal ? json_integer(job->signal) : json_null());
    (void)json_object_set_new(out, "end_text", job->end_text[0] ? json_string(job->end_text) : json_null());
    (void)json_object_set(out, "spec", job->source->json);
    (void)json_object_set_new(out, "uid", json_integer(job->uid));
    (void)json_object_set_new(out, "gid", json_integer(job->gid));
    (void)json_object_set_new(out, "version", json_integer((json_int_t)job->version));
    (void)json_object_set_new(out, "last_checkpoint_time", record_time(job->last_ckpt));
    (void)json_object_set_new(out, "submit_usec", json_integer(job->submit));
    (void)json_object_set_new(out, "end_usec", json_integer(job->end));
    (void)json_object_set_new(out, "used", record_used(job));
    (void)json_object_set_new(out, "predicted", record_predicted(job));
    (void)json_object_set_new(out, "attempts", attempts);
    return out;
}
