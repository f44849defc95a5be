/* SPDX-License-Identifier: Apache-2.0 */
/* job_history.c - see job_history.h. A record is what job_record.c made of the job when it ended. */
#include "ctl/rest/common/job_history.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/daemon/server.h"
#include "ctl/log/batcher.h"
#include "ctl/log/entry_json.h"
#include "ctl/state/state_internal.h"
#include "wire/text/decimal.h"
#include "wire/text/duration.h"

enum { KEPT = 256 };

struct past {
    struct server *server;
    struct ctl_job *kept[KEPT];
    size_t next;
};

static usec_t time_of(const json_t *from, const char *key)
{
    const char *text = json_string_value(json_object_get(from, key));
    usec_t at;

    return text && instant_parse(text, strlen(text), &at) == 0 ? at : 0;
}

static int64_t number_of(const json_t *from, const char *key)
{
    return json_integer_value(json_object_get(from, key));
}

static void text_take(char *to, size_t size, const json_t *from, const char *key)
{
    const char *text = json_string_value(json_object_get(from, key));

    (void)snprintf(to, size, "%s", text ? text : "");
}

static enum phase_of_job phase_of(const json_t *from)
{
    const char *name = json_string_value(json_object_get(from, "state"));
    int phase = name ? phase_find(name) : -1;

    return phase < 0 ? PHASE_JOB_FAILED : (enum phase_of_job)phase;
}

/* Names are looked up, never made: their numbers are state. */
static uint32_t name_of(const struct names *names, const json_t *from, const char *key)
{
    const char *text = json_string_value(json_object_get(from, key));

    return text ? names_find(names, text, strlen(text)) : NAME_NONE;
}

static int task_read(const struct ctl *ctl, const json_t *from, struct ctl_task *task)
{
    const json_t *gpus = json_object_get(from, "gpus");
    const char *state = json_string_value(json_object_get(from, "state"));
    int known = state ? task_state_find(state) : -1;
    size_t count = json_array_size(gpus);

    task->node = name_of(&ctl->registry.node_names, from, "node");
    if (task->node >= ctl->registry.node_count || known < 0 || count > UINT16_MAX)
        return -ENOENT;
    task->gpus = mem_zalloc(count + 1, sizeof(*task->gpus));
    if (!task->gpus)
        return -ENOMEM;
    for (size_t g = 0; g < count; g++)
        task->gpus[task->gpu_count++] = (uint16_t)json_integer_value(json_array_get(gpus, g));
    task->state = (uint32_t)known;
    task->exit = (int)number_of(from, "exit_code");
    task->signal = (int)number_of(from, "signal");
    task->oom = json_is_true(json_object_get(from, "oom"));
    task->part = (uint8_t)number_of(from, "part");
    task->started = time_of(from, "start_time");
    task->ended = time_of(from, "end_time");
    text_take(task->cause_word, sizeof(task->cause_word), from, "cause");
    task->cause = (uint8_t)task_cause_find(task->cause_word);
    return 0;
}

static int attempt_read(const struct ctl *ctl, const json_t *from, struct ctl_job *job)
{
    const json_t *tasks = json_object_get(from, "tasks");
    struct ctl_attempt *attempt;
    int r = ctl_attempt_add(job);

    if (r < 0)
        return r;
    attempt = attempt_now(job);
    attempt->number = (uint32_t)number_of(from, "number");
    attempt->phase = phase_of(from);
    attempt->state = ATTEMPT_OVER;
    attempt->placed = time_of(from, "placed_time");
    attempt->started = time_of(from, "start_time");
    attempt->ended = time_of(from, "end_time");
    attempt->ran = (usec_t)(json_number_value(json_object_get(from, "ran_seconds")) * (double)USEC_SEC);
    attempt->exit = (int)number_of(from, "exit_code");
    attempt->signal = (int)number_of(from, "signal");
    attempt->stop_by = number_of(from, "stop_by");
    attempt->stop_cause = (uint8_t)stop_cause_find(json_string_value(json_object_get(from, "stop_kind")));
    if (json_is_string(json_object_get(from, "refusal")))
        attempt->refusal = mem_strdup(json_string_value(json_object_get(from, "refusal")));
    attempt->tasks = mem_zalloc(json_array_size(tasks) + 1, sizeof(*attempt->tasks));
    r = attempt->tasks ? 0 : -ENOMEM;
    for (size_t t = 0; r == 0 && t < json_array_size(tasks); t++)
        r = task_read(ctl, json_array_get(tasks, t), &attempt->tasks[attempt->task_count++]);
    return r;
}

static void job_fill(struct ctl_job *job, const json_t *record)
{
    const json_t *array = json_object_get(record, "array");

    job->id = number_of(record, "id");
    job->array_id = number_of(array, "id");
    job->array_index = (int32_t)number_of(array, "index");
    job->uid = (uint32_t)number_of(record, "uid");
    job->gid = (uint32_t)number_of(record, "gid");
    job->phase = phase_of(record);
    job->wants.gpus = job->wants.gpus_min = job->wants.gpus_max = (int32_t)number_of(record, "gpus");
    job->wants.share = (mgpu_t)number_of(record, "gpu_share");
    job->wants.priority = (int16_t)number_of(record, "priority");
    job->submit = number_of(record, "submit_usec");
    job->end = number_of(record, "end_usec");
    job->eligible = time_of(record, "eligible_time");
    job->first_start = job->last_start = time_of(record, "start_time");
    job->gpu_usec = number_of(record, "gpu_seconds") * USEC_SEC;
    job->lost_usec = number_of(record, "lost_gpu_seconds") * USEC_SEC;
    job->preemptions = (uint32_t)number_of(record, "preemptions");
    job->failures = (uint32_t)number_of(record, "failures");
    job->exit = (int)number_of(record, "exit_code");
    job->signal = (int)number_of(record, "signal");
    job->last_ckpt = time_of(record, "last_checkpoint_time");
    job->version = (uint64_t)number_of(record, "version");
    text_take(job->end_text, sizeof(job->end_text), record, "end_text");
}

static uint16_t hundredths(const json_t *from, const char *key)
{
    double value = json_number_value(json_object_get(from, key)) * 100 + 0.5;

    return (uint16_t)(value > 0 && value < UINT16_MAX ? value : 0);
}

/* What was expected of it; and what its GPUs did, of all tasks together with the first. */
static void figures_fill(struct ctl_job *job, const json_t *record)
{
    const json_t *used = json_object_get(record, "used"), *predicted = json_object_get(record, "predicted");
    struct ctl_attempt *last = job->attempt_count ? attempt_now(job) : NULL;

    if (json_is_object(predicted))
        job->predicted = (struct ctl_predicted){
            .run = (usec_t)(json_number_value(json_object_get(predicted, "run_seconds")) * (double)USEC_SEC + 0.5),
            .memory_mib = (uint32_t)number_of(predicted, "memory_mib"),
            .util = hundredths(predicted, "utilisation"),
            .util_dev = hundredths(predicted, "utilisation_dev"),
            .gpus_pay = (int32_t)number_of(predicted, "gpus_pay"),
        };
    if (json_is_object(used) && last && last->task_count) {
        last->tasks[0].used_samples = 1;
        last->tasks[0].used_util = hundredths(used, "utilisation");
        last->tasks[0].used_util_dev = hundredths(used, "utilisation_dev");
        last->tasks[0].used_memory_mib = (uint32_t)number_of(used, "memory_mib");
    }
}

struct ctl_job *past_read(const struct ctl *ctl, const json_t *record)
{
    const json_t *attempts = json_object_get(record, "attempts");
    const char *vc = json_string_value(json_object_get(record, "vc"));
    struct ctl_job *job = mem_zalloc(1, sizeof(*job));
    struct error err;
    char *spec;
    int r;

    if (!job)
        return NULL;
    job_fill(job, record);
    spec = entry_doc(json_object_get(record, "spec"));
    job->source = ctl_spec_new(spec, &err);
    mem_free(spec);
    job->user = name_of(&ctl->registry.users, record, "user");
    job->vc = vc ? cluster_vc(ctl, vc) : UINT32_MAX;
    r = job->source && job->id > 0 && job->user != NAME_NONE && job->vc < ctl->cluster.vc_count &&
                phase_over(job->phase)
            ? 0
            : -ENOENT;
    if (job->source) {
        job->spec = &job->source->s;
        if (job->spec->nodes > 0)
            job->wants.per_node = (uint16_t)(job->wants.gpus / job->spec->nodes);
    }
    for (size_t a = 0; r == 0 && a < json_array_size(attempts); a++)
        r = attempt_read(ctl, json_array_get(attempts, a), job);
    if (r < 0) {
        ctl_job_free(job);
        return NULL;
    }
    figures_fill(job, record);
    if (job->attempt_count)
        job->first_start = job->attempts[0].started;
    return job;
}

int past_new(struct server *server, struct past **ret_past)
{
    struct past *past = mem_zalloc(1, sizeof(*past));

    if (!past)
        return -ENOMEM;
    past->server = server;
    *ret_past = past;
    return 0;
}

void past_free(struct past *past)
{
    for (size_t i = 0; past && i < KEPT; i++)
        if (past->kept[i])
            ctl_job_free(past->kept[i]);
    mem_free(past);
}

const struct ctl_job *past_find(const struct past *past, int64_t id)
{
    for (size_t i = 0; past && i < KEPT; i++)
        if (past->kept[i] && past->kept[i]->id == id)
            return past->kept[i];
    return NULL;
}

const struct ctl_job *past_element(const struct past *past, int64_t array, int64_t index)
{
    for (size_t i = 0; past && i < KEPT; i++)
        if (past->kept[i] && past->kept[i]->array_id == array && past->kept[i]->array_index == index)
            return past->kept[i];
    return NULL;
}

static void keep(struct past *past, struct ctl_job *job)
{
    if (past->kept[past->next])
        ctl_job_free(past->kept[past->next]);
    past->kept[past->next] = job;
    past->next = (past->next + 1) % KEPT;
}

struct fetch {
    struct past *past;
    struct request *request;
    void (*again)(struct request *request);
    bool first; /* the first element of the array, to learn which indices there are */
};

static bool look(struct past *past, struct request *request, void (*again)(struct request *request), bool begins);

static void on_found(void *arg, json_t *items)
{
    struct fetch *fetch = arg;
    const json_t *record = json_array_get(items, 0);
    struct past *past = fetch->past;
    struct ctl_job *job = NULL;

    if (record && !past_find(past, number_of(record, "id")))
        job = past_read(batcher_ctl(past->server->batcher), record);
    if (job)
        keep(past, job);
    if (request_conn(fetch->request) && !(fetch->first && look(past, fetch->request, fetch->again, false)))
        fetch->again(fetch->request);
    request_drop(fetch->request);
    mem_free(fetch);
}

/* The number of the element with that index, 0: there is none. Elements have the numbers that follow the array's own,
 * in the order of their indices, which need not begin at 0 nor be without gaps; any of them knows all. */
static int64_t element_id(const struct ctl_job *first, int64_t index)
{
    for (size_t i = 0; i < first->spec->array_count; i++)
        if (first->spec->array[i] == index)
            return first->id + (int64_t)i;
    return 0;
}

/* The number of the job that is asked for, "17" or "4_2"; 0: it is none. ret_first: that of the array's first element,
 * which is to be known before. */
static int64_t asked(const struct past *past, const char *text, bool *ret_first)
{
    const struct registry *registry = server_book(past->server);
    const char *mark = strchr(text, '_');
    const struct ctl_job *first;
    int64_t id, index = -1;

    *ret_first = false;
    if (decimal_parse_i64(text, mark ? (size_t)(mark - text) : strlen(text), &id) < 0 || id <= 0 || id > INT64_MAX / 2)
        return 0;
    if (!mark)
        return id;
    if (decimal_parse_i64(mark + 1, strlen(mark + 1), &index) < 0 || index < 0 || index > INT32_MAX)
        return 0;
    first = registry_find(registry, id + 1);
    if (!first)
        first = past_find(past, id + 1);
    if (first)
        return first->array_id == id ? element_id(first, index) : 0;
    *ret_first = true;
    return id + 1;
}

/* begins: the array's first element may be looked for, if that is what it takes. */
static bool look(struct past *past, struct request *request, void (*again)(struct request *request), bool begins)
{
    const struct registry *registry = server_book(past->server);
    bool first;
    int64_t id = asked(past, request->params[0], &first);
    struct fetch *fetch;

    if (id == 0 || id >= registry->next_id || registry_find(registry, id) || past_find(past, id) || (first && !begins))
        return false;
    fetch = mem_zalloc(1, sizeof(*fetch));
    if (!fetch)
        return false;
    *fetch = (struct fetch){ past, request_hold(request), again, first };
    if (batcher_history_get(past->server->batcher, id, on_found, fetch) == 0)
        return true;
    request_drop(fetch->request);
    mem_free(fetch);
    return false;
}

bool past_fetch(struct past *past, struct request *request, void (*again)(struct request *request))
{
    return look(past, request, again, true);
}
