/* SPDX-License-Identifier: Apache-2.0 */
/* job_record.c - a job as it is kept and shown: docs/rest.md, Job with its attempts and tasks. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/log/job_record.h"
#include "ctl/state/registry.h"
#include "wire/job/roles.h"
#include "wire/text/duration.h"
#include "wire/text/json_write.h"

#define RECORD_BYTES_MAX ((size_t)256 << 20)

static void write_time(struct json_write *json, const char *key, usec_t at)
{
    char text[INSTANT_CHARS + 1];

    if (at > 0)
        json_write_bytes(json, key, instant_text(text, at), INSTANT_CHARS);
    else
        json_write_null(json, key);
}

/* null where there is nothing to say. */
static void write_text(struct json_write *json, const char *key, const char *text)
{
    if (text && *text)
        json_write_text(json, key, text);
    else
        json_write_null(json, key);
}

static void write_number(struct json_write *json, const char *key, bool known, int64_t value)
{
    if (known)
        json_write_i64(json, key, value);
    else
        json_write_null(json, key);
}

/* A real number stays one, also where it is whole. So many digits; 0: as many as it takes to read it back. */
static void write_real(struct json_write *json, const char *key, int digits, double value)
{
    CLEANUP_BUF struct buf text = BUF_INIT(64);

    if (digits)
        buf_printf(&text, "%.*g", digits, value);
    else
        json_put_double(&text, value);
    if (!text.error && !memchr(text.data, '.', text.size) && !memchr(text.data, 'e', text.size))
        buf_text(&text, ".0");
    json_write_raw(json, key, text.data ? text.data : "null", text.data ? text.size : 4);
}

static void write_task(const struct ctl *ctl, struct json_write *json, const struct ctl_task *task, uint32_t rank)
{
    bool gone = task->state == TASK_EXITED || task->state == TASK_REFUSED;

    json_write_object(json, NULL);
    json_write_i64(json, "rank", rank);
    json_write_text(json, "node", names_get(&ctl_registry(ctl)->node_names, task->node));
    json_write_array(json, "gpus");
    for (uint32_t g = 0; g < task->gpu_count; g++)
        json_write_i64(json, NULL, task->gpus[g]);
    json_write_close(json);
    if (task->part)
        json_write_i64(json, "part", task->part);
    json_write_text(json, "state", task_state_name((enum task_state)task->state));
    write_number(json, "exit_code", gone, task->exit);
    write_number(json, "signal", gone && task->signal, task->signal);
    json_write_bool(json, "oom", task->oom);
    write_text(json, "cause", task_cause_shown(task));
    write_time(json, "start_time", task->started);
    write_time(json, "end_time", task->ended);
    json_write_close(json);
}

static void write_attempt(const struct ctl *ctl, struct json_write *json, const struct ctl_attempt *attempt)
{
    usec_t ran = attempt->ended ? attempt->ran : attempt->started ? ctl_now(ctl) - attempt->started : 0;

    json_write_object(json, NULL);
    json_write_i64(json, "number", attempt->number);
    json_write_text(json, "state", phase_name(attempt->phase));
    write_time(json, "placed_time", attempt->placed);
    write_time(json, "start_time", attempt->started);
    write_time(json, "end_time", attempt->ended);
    json_write_double(json, "ran_seconds", (double)ran / (double)USEC_SEC);
    write_number(json, "exit_code", attempt->ended, attempt->exit);
    write_number(json, "signal", attempt->ended && attempt->signal, attempt->signal);
    write_text(json, "stop_kind", stop_cause_name((enum stop_cause)attempt->stop_cause));
    write_number(json, "stop_by", attempt->stop_by, attempt->stop_by);
    write_text(json, "refusal", attempt->refusal ? attempt->refusal : "");
    json_write_array(json, "tasks");
    for (uint32_t t = 0; t < attempt->task_count; t++)
        write_task(ctl, json, &attempt->tasks[t], t);
    json_write_close(json);
    json_write_close(json);
}

/* The type of the nodes that a part of it last had. */
static const char *part_type(const struct registry *registry, const struct ctl_attempt *attempt, uint32_t part)
{
    for (uint32_t t = 0; attempt && t < attempt->task_count; t++)
        if (attempt->tasks[t].part == part && attempt->tasks[t].node < registry->node_count)
            return registry->nodes[attempt->tasks[t].node].inventory.sku;
    return NULL;
}

void record_types(const struct registry *registry, const struct ctl_job *job, struct buf *out)
{
    uint32_t parts = job->spec->role_count ? roles_parts(job->spec) : 1;

    for (uint32_t part = 0; part < parts && parts > 1; part++) {
        const char *type = part_type(registry, attempt_last(job), part);

        buf_printf(out, "%s%s", part ? "+" : "", type ? type : roles_part_type(job->spec, part));
    }
}

/* Of the nodes it last ran on. */
static const char *type_of(const struct ctl *ctl, const struct ctl_job *job, struct buf *several)
{
    const struct ctl_attempt *attempt = job->attempt_count ? &job->attempts[job->attempt_count - 1] : NULL;
    const struct registry *registry = ctl_registry(ctl);
    const char *sku = NULL;

    if (attempt)
        record_types(registry, job, several);
    if (several->size)
        return several->data;

    if (job->wants.gpus && attempt && attempt->task_count && attempt->tasks[0].node < registry->node_count)
        sku = registry->nodes[attempt->tasks[0].node].inventory.sku;
    return sku;
}

bool record_used(const struct ctl_job *job, struct record_used *ret)
{
    const struct ctl_attempt *attempt = attempt_last(job);
    double samples = 0, sum = 0, squares = 0, variance;

    *ret = (struct record_used){ 0 };
    for (uint32_t t = 0; attempt && t < attempt->task_count; t++) {
        const struct ctl_task *task = &attempt->tasks[t];
        double n = task->used_samples, util = task->used_util / 100.0, dev = task->used_util_dev / 100.0;

        samples += n;
        sum += n * util;
        squares += n * (dev * dev + util * util);
        ret->memory_mib = task->used_memory_mib > ret->memory_mib ? task->used_memory_mib : ret->memory_mib;
    }
    if (samples == 0)
        return false;
    ret->utilisation = sum / samples;
    variance = squares / samples - ret->utilisation * ret->utilisation;
    ret->utilisation_dev = variance > 0 ? sqrt(variance) : 0.0;
    return true;
}

void record_write_used(struct json_write *json, const char *key, const struct ctl_job *job, int digits)
{
    struct record_used used;

    if (!record_used(job, &used)) {
        json_write_null(json, key);
        return;
    }
    json_write_object(json, key);
    write_real(json, "utilisation", digits, used.utilisation);
    write_real(json, "utilisation_dev", digits, used.utilisation_dev);
    json_write_i64(json, "memory_mib", used.memory_mib);
    json_write_close(json);
}

/* Of hundredths; null where it is not told. */
static void write_percent(struct json_write *json, const char *key, int digits, uint16_t hundredths)
{
    if (hundredths)
        write_real(json, key, digits, hundredths / 100.0);
    else
        json_write_null(json, key);
}

void record_write_predicted(struct json_write *json, const char *key, const struct ctl_job *job, int digits)
{
    const struct ctl_predicted *p = &job->predicted;

    if (!p->run && !p->memory_mib && !p->util) {
        json_write_null(json, key);
        return;
    }
    json_write_object(json, key);
    if (p->run)
        write_real(json, "run_seconds", digits, (double)p->run / (double)USEC_SEC);
    else
        json_write_null(json, "run_seconds");
    write_number(json, "memory_mib", p->memory_mib, p->memory_mib);
    write_percent(json, "utilisation", digits, p->util);
    write_percent(json, "utilisation_dev", digits, p->util_dev);
    write_number(json, "gpus_pay", p->gpus_pay, p->gpus_pay);
    json_write_close(json);
}

static const char *vc_of(const struct ctl *ctl, const struct ctl_job *job)
{
    const struct cluster_spec *cluster = ctl_cluster(ctl);

    return job->vc < cluster->vc_count ? names_get(&cluster->names, cluster->vcs[job->vc].name) : "";
}

static void write_head(const struct ctl *ctl, struct json_write *json, const struct ctl_job *job)
{
    CLEANUP_BUF struct buf types = BUF_INIT(1024);

    json_write_i64(json, "id", job->id);
    json_write_text(json, "name", job->spec->name ? job->spec->name : "");
    json_write_text(json, "user", names_get(&ctl_registry(ctl)->users, job->user));
    json_write_text(json, "vc", vc_of(ctl, job));
    json_write_i64(json, "priority", job->spec->priority);
    json_write_text(json, "state", phase_name(job->phase));
    json_write_text(json, "state_letters", phase_letters(job->phase));
    if (job->array_id) {
        json_write_object(json, "array");
        json_write_i64(json, "id", job->array_id);
        json_write_i64(json, "index", job->array_index);
        json_write_close(json);
    } else {
        json_write_null(json, "array");
    }
    json_write_i64(json, "gpus", jobspec_gpus(&job->wants));
    json_write_i64(json, "gpu_share", job->wants.share);
    write_text(json, "gpu_type", type_of(ctl, job, &types));
    json_write_i64(json, "lost_gpu_seconds", job->lost_usec / USEC_SEC);
    write_time(json, "submit_time", job->submit);
    write_time(json, "eligible_time", job->eligible);
    write_time(json, "start_time", job->last_start);
    write_time(json, "end_time", job->end);
}

void record_write(const struct ctl *ctl, const struct ctl_job *job, struct buf *out)
{
    bool over = phase_over(job->phase);
    struct json_write json;

    json_write_init(&json, out, false);
    json_write_object(&json, NULL);
    write_head(ctl, &json, job);
    json_write_i64(&json, "gpu_seconds", job->gpu_usec / USEC_SEC);
    json_write_i64(&json, "preemptions", job->preemptions);
    json_write_i64(&json, "failures", job->failures);
    write_number(&json, "exit_code", over, job->exit);
    write_number(&json, "signal", over && job->signal, job->signal);
    write_text(&json, "end_text", job->end_text);
    json_write_raw(&json, "spec", job->source->text, strlen(job->source->text));
    json_write_i64(&json, "uid", job->uid);
    json_write_i64(&json, "gid", job->gid);
    json_write_i64(&json, "version", (int64_t)job->version);
    write_time(&json, "last_checkpoint_time", job->last_ckpt);
    json_write_i64(&json, "submit_usec", job->submit);
    json_write_i64(&json, "end_usec", job->end);
    record_write_used(&json, "used", job, 0);
    record_write_predicted(&json, "predicted", job, 0);
    json_write_array(&json, "attempts");
    for (uint32_t a = 0; a < job->attempt_count; a++)
        write_attempt(ctl, &json, &job->attempts[a]);
    json_write_close(&json);
    json_write_close(&json);
}

/* One block for all texts, which begins with the record: the row outlives names and job. */
static int record_row(const struct ctl *ctl, const struct ctl_job *job, struct store_job *ret_row)
{
    const char *texts[] = { names_get(&ctl_registry(ctl)->users, job->user), vc_of(ctl, job),
                            job->spec->name ? job->spec->name : "" };
    struct buf block = BUF_INIT(RECORD_BYTES_MAX);
    size_t at[3];

    record_write(ctl, job, &block);
    for (size_t i = 0; i < 3; i++) {
        buf_char(&block, '\0');
        at[i] = block.size;
        buf_text(&block, texts[i]);
    }
    if (block.error) {
        buf_done(&block);
        return -ENOMEM;
    }
    *ret_row = (struct store_job){ .id = job->id,
                                   .submit = job->submit,
                                   .end = job->end,
                                   .user = block.data + at[0],
                                   .vc = block.data + at[1],
                                   .state = phase_name(job->phase),
                                   .name = block.data + at[2],
                                   .gpu_seconds = job->gpu_usec / USEC_SEC,
                                   .json = block.data };
    return 0;
}

void record_keep(struct record_rows *rows, const struct ctl *ctl, const struct ctl_job *job)
{
    void *block = rows->rows;
    int r = mem_grow(&block, &rows->capacity, rows->count + 1, (size_t)1 << 24, sizeof(*rows->rows));

    rows->rows = block;
    if (r == 0 && record_row(ctl, job, &rows->rows[rows->count]) == 0)
        rows->count++;
}

void record_rows_done(struct record_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++)
        mem_free((void *)(uintptr_t)rows->rows[i].json);
    mem_free(rows->rows);
    *rows = (struct record_rows){ 0 };
}
