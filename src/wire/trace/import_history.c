/* SPDX-License-Identifier: Apache-2.0 */
/* import_history.c - what a controller remembers of finished jobs (`muster history --json`) as a trace.
 *
 * A job's run time is that of the attempt that ended it and of those before it that saved their work (exit 85);
 * whatever an attempt lost is not work. Jobs that never ran are left out, with a note. Times begin at the first
 * submission.
 */
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/job/license.h"
#include "wire/job/roles.h"
#include "wire/job/submission.h"
#include "wire/text/csv.h"
#include "wire/text/json_read.h"
#include "wire/trace/import_formats.h"

enum { EXIT_SAVED = 85, TYPES_MAX = 32 };

struct reading {
    const char *file;
    struct trace *trace;
    struct import_notes *notes;
    uint32_t item; /* its number from 1, for messages */
    struct error *err;
};

static int wrong(const struct reading *in, const char *key, const json_t *got, const char *what)
{
    char path[80];

    (void)snprintf(path, sizeof(path), "items.%u.%s", in->item - 1, key);
    return json_expected(in->file, path, got, what, in->err);
}

static void note(const struct reading *in, const char *text)
{
    struct import_notes *notes = in->notes;
    size_t i = 0;

    while (i < notes->count && notes->notes[i].text != text)
        i++;
    if (i == IMPORT_NOTES_MAX)
        return;
    if (i == notes->count)
        notes->notes[notes->count++] = (struct import_note){ text, 0, in->item };
    notes->notes[i].count++;
}

static int whole(const struct reading *in, const json_t *item, const char *key, int64_t min, int64_t max, int64_t *ret)
{
    const json_t *value = json_object_get(item, key);
    char words[80];

    if (json_is_integer(value) && json_integer_value(value) >= min && json_integer_value(value) <= max) {
        *ret = json_integer_value(value);
        return 0;
    }
    (void)snprintf(words, sizeof(words), "a whole number from %lld to %lld", (long long)min, (long long)max);
    return wrong(in, key, value, words);
}

static int name_of(const struct reading *in, const json_t *item, const char *key, struct names *names, uint32_t *ret)
{
    const json_t *value = json_object_get(item, key);
    int r;

    if (!value || json_is_null(value) || json_string_length(value) == 0)
        return 0;
    if (!json_is_string(value))
        return wrong(in, key, value, "text");
    r = names_put(names, json_string_value(value), json_string_length(value), ret);
    return r < 0 ? error_set(in->err, r, "%s: no memory for names", in->file) : 0;
}

/* Microseconds of work: of the last attempt, and of earlier ones that ended by saving. 0: it never ran. */
static int work_of(const struct reading *in, const json_t *item, usec_t *ret)
{
    const json_t *attempts = json_object_get(item, "attempts"), *attempt;
    size_t count = json_array_size(attempts), i;
    double sum = 0;

    if (!json_is_array(attempts))
        return wrong(in, "attempts", attempts, "a list");
    json_array_foreach(attempts, i, attempt)
    {
        const json_t *ran = json_object_get(attempt, "ran_seconds");
        bool saved = json_integer_value(json_object_get(attempt, "exit_code")) == EXIT_SAVED;

        if (!json_is_number(ran) || json_number_value(ran) < 0 || json_number_value(ran) > 1e9)
            return wrong(in, "attempts.ran_seconds", ran, "seconds");
        if (i + 1 == count || saved)
            sum += json_number_value(ran);
    }
    *ret = (usec_t)(sum * (double)USEC_SEC + 0.5);
    /* One that began and ended within the same tick of the controller's clock did run. */
    if (*ret == 0 && count && json_is_string(json_object_get(json_array_get(attempts, count - 1), "start_time")))
        *ret = 1;
    return 0;
}

/* "H100|A100"; memory sizes ("40G..") are a cluster's to resolve, and leave the type open. */
static int types_of(const struct reading *in, const char *selector, struct jobspec *spec)
{
    while (*selector) {
        size_t length = strcspn(selector, "|");
        uint32_t type;
        int r;

        if (memmem(selector, length, "..", 2) || length == 0) {
            note(in, "taken for any type: the GPU was asked for by its memory");
            spec->sku_mask = 0;
            return 0;
        }
        r = names_put(&in->trace->skus, selector, length, &type);
        if (r < 0)
            return error_set(in->err, r, "%s: no memory for names", in->file);
        if (type >= TYPES_MAX)
            return error_set(in->err, -E2BIG, "%s: more than %d GPU types", in->file, TYPES_MAX);
        spec->sku_mask |= 1u << type;
        selector += length + (selector[length] == '|');
    }
    return 0;
}

/* GPUs on each node of a part: as many as its largest task has, where that divides them. */
static uint16_t part_each(const struct submission *s, uint32_t part)
{
    int32_t most = 1, gpus = (int32_t)roles_part_gpus(s, part);

    for (size_t r = 0; r < s->role_count; r++)
        if (roles_part(s, &s->roles[r]) == part && s->roles[r].gpus > most)
            most = s->roles[r].gpus;
    return (uint16_t)(gpus % most == 0 && most <= NODE_GPUS_MAX ? most : 1);
}

/* Roles on several types: what is beside the first. Where a type is a size of memory, all is taken for any type. */
static int sides_of(const struct reading *in, const struct submission *s, struct jobspec *spec)
{
    uint32_t parts = s->role_count && spec->sku_mask ? roles_parts(s) : 1;
    struct jobspec whole = *spec;

    for (uint32_t part = 1; part < parts; part++) {
        struct jobspec alone = { 0 };
        int r = types_of(in, roles_part_type(s, part), &alone);

        if (r < 0)
            return r;
        spec->gpus = spec->gpus_min = spec->gpus_max = (int32_t)roles_part_gpus(s, 0);
        spec->sides[spec->side_count++] = (struct gang_side){ .gpus = (int32_t)roles_part_gpus(s, part),
                                                              .sku_mask = alone.sku_mask,
                                                              .per_node = part_each(s, part) };
        if (alone.sku_mask == 0) {
            *spec = whole;
            spec->sku_mask = 0;
            return 0;
        }
    }
    return 0;
}

/* What was asked for, where the history tells: others' requests are not shown to everybody. */
static int request_of(const struct reading *in, const json_t *item, struct jobspec *spec)
{
    json_t *asked = json_object_get(item, "spec");
    struct submission s;
    int r;

    if (!json_is_object(asked)) {
        note(in, "request not shown: taken as rigid, of any GPU type and without a time limit");
        return 0;
    }
    r = submission_from_value(asked, &s, in->err);
    if (r < 0)
        return error_prefix(in->err, r, "%s: items.%u.spec", in->file, in->item - 1);
    spec->time_limit = spec->estimate = s.time;
    spec->retries = s.retries;
    if (s.gpu_share > 0 && s.gpu_share < MGPU_ONE && spec->gpus == 1)
        spec->share = s.gpu_share;
    if (s.deadline > spec->submit) {
        spec->deadlines[0] = (struct deadline){ s.deadline, 10 };
        spec->deadline_count = 1;
        spec->slo = SLO_SOFT;
    }
    if (s.gpu_selector)
        r = types_of(in, s.gpu_selector, spec);
    if (r == 0)
        r = sides_of(in, &s, spec);
    for (size_t i = 0; r == 0 && i < s.license_count; i++) {
        r = license_add(spec, &in->trace->licenses, s.licenses[i].key, strlen(s.licenses[i].key), license_count(&s, i));
        if (r < 0)
            r = error_set(in->err, r, "%s: items.%u.spec: licences: too many, or no memory", in->file, in->item - 1);
    }
    submission_done(&s);
    return r;
}

static int job_read(struct reading *in, const json_t *item)
{
    int64_t gpus = 0, priority = 0;
    struct trace_job job;
    int r;

    trace_job_init(&job);
    if (!json_is_object(item))
        return wrong(in, "", item, "an object");
    r = whole(in, item, "id", 0, INT64_MAX, &job.spec.id);
    if (r == 0)
        r = whole(in, item, "submit_usec", 0, INT64_MAX / 4, &job.spec.submit);
    if (r == 0)
        r = whole(in, item, "gpus", 0, GANG_GPUS_MAX, &gpus);
    if (r == 0)
        r = whole(in, item, "priority", PRIORITY_MIN, PRIORITY_MAX, &priority);
    if (r == 0)
        r = work_of(in, item, &job.truth.duration);
    if (r < 0)
        return r;
    if (gpus == 0 || job.truth.duration == 0) {
        note(in, gpus == 0 ? "left out: no GPU" : "left out: never ran");
        return 0;
    }
    job.spec.gpus = job.spec.gpus_min = job.spec.gpus_max = (int32_t)gpus;
    job.spec.priority = (int16_t)priority;
    job.spec.klass = (uint8_t)(priority < 0 ? CLASS_OPPORTUNISTIC : CLASS_GUARANTEED);
    r = name_of(in, item, "user", &in->trace->users, &job.spec.user);
    if (r == 0)
        r = name_of(in, item, "vc", &in->trace->vcs, &job.spec.vc);
    if (r == 0)
        r = request_of(in, item, &job.spec);
    if (r == 0 && trace_add(in->trace, &job) < 0)
        r = error_set(in->err, -ENOMEM, "%s: no memory for jobs", in->file);
    return r;
}

static void times_shift(struct trace *trace)
{
    usec_t first = trace->count ? trace->jobs[0].spec.submit : 0;

    for (size_t i = 0; i < trace->count; i++) {
        trace->jobs[i].spec.submit -= first;
        for (uint32_t d = 0; d < trace->jobs[i].spec.deadline_count; d++)
            trace->jobs[i].spec.deadlines[d].at -= first;
    }
}

static int ids_compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static int ids_check(const struct reading *in)
{
    const struct trace *trace = in->trace;
    int64_t *ids = mem_zalloc(trace->count, sizeof(*ids));
    int r = 0;

    if (!ids)
        return error_set(in->err, -ENOMEM, "%s: no memory", in->file);
    for (size_t i = 0; i < trace->count; i++)
        ids[i] = trace->jobs[i].spec.id;
    qsort(ids, trace->count, sizeof(*ids), ids_compare);
    for (size_t i = 1; i < trace->count && r == 0; i++)
        if (ids[i] == ids[i - 1])
            r = error_set(in->err, -EINVAL, "%s: job %lld is there twice", in->file, (long long)ids[i]);
    mem_free(ids);
    return r;
}

/* A trace's times have an end, also where each alone was believable. */
static int spans_check(const struct reading *in)
{
    for (size_t i = 0; i < in->trace->count; i++) {
        const struct jobspec *spec = &in->trace->jobs[i].spec;
        usec_t last = spec->deadline_count ? spec->deadlines[0].at : spec->submit;

        if (spec->submit > CSV_SPAN_MAX || last > CSV_SPAN_MAX || in->trace->jobs[i].truth.duration > CSV_SPAN_MAX)
            return error_set(in->err, -ERANGE, "%s: job %lld: expected times within a thousand years of each other",
                             in->file, (long long)spec->id);
    }
    return 0;
}

int import_history_read(const char *file, const struct bytes *bytes, struct trace *ret_trace,
                        struct import_notes *ret_notes, struct error *err)
{
    struct trace trace = { 0 };
    struct reading in = { file, &trace, ret_notes, 0, err };
    json_t *root = NULL, *items, *item;
    size_t i;
    int r = json_read(file, bytes->data, bytes->size, &root, err);

    *ret_notes = (struct import_notes){ 0 };
    if (r < 0)
        return r;
    items = json_is_array(root) ? root : json_object_get(root, "items");
    if (!json_is_array(items))
        r = json_expected(file, "items", items, "a list of jobs, as `muster history --json` prints it", err);
    json_array_foreach(items, i, item)
    {
        in.item = (uint32_t)i + 1;
        r = job_read(&in, item);
        if (r < 0)
            break;
    }
    json_decref(root);
    if (r == 0) {
        trace_sort(&trace);
        times_shift(&trace);
        r = spans_check(&in);
    }
    if (r == 0 && trace.count)
        r = ids_check(&in);
    if (r < 0) {
        trace_done(&trace);
        return r;
    }
    *ret_trace = trace;
    return 0;
}
