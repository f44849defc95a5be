/* SPDX-License-Identifier: Apache-2.0 */
/* submission_training.c - what a submission says of the training it does, as a trace can: policies plan by it, and
 * nothing else does. And deadlines that are worth less the later they are met. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/job/submission_internal.h"
#include "wire/text/decimal.h"
#include "wire/text/json_write.h"
#include "wire/text/suggest.h"

enum { MODEL_MAX = 63, DEADLINE_VALUE = 10, BATCH_MAX = 1 << 30, BANDWIDTH_MAX = 1 << 20 };

#define AT(field) offsetof(struct submission, field)
#define COUNT(table) (sizeof(table) / sizeof(table[0]))

static int read_model(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    const char *text = json_string_value(value);

    for (const char *c = text; c && *c; c++)
        if ((unsigned char)*c <= ' ' || *c == 127)
            return reader_fail(rd, "expected a name without blanks, such as resnet50");
    return read_text(rd, key, value);
}

/* A part of one, kept in thousandths. */
static int read_part(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    int64_t number = 0;
    char digits[64], shown[SHOWN_MAX];
    const char *text;
    int r = reader_text(rd, value, 32, digits, &text);

    if (r < 0)
        return r;
    if (decimal_parse(text, strlen(text), 1000, &number) < 0 || number < 0 || number > 1000)
        return reader_fail(rd, "expected a part from 0 to 1, got '%s'", suggest_shown(text, strlen(text), shown));
    *(int32_t *)(void *)((char *)rd->s + key->offset) = (int32_t)number;
    return 0;
}

static void write_part(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    int32_t number = *(const int32_t *)(const void *)((const char *)s + key->offset);

    if (number)
        json_write_double(out, key->name, number / 1e3);
}

static const struct submission_key training_keys[] = {
    { "bandwidth", read_i32, write_i32, AT(bandwidth), 1, BANDWIDTH_MAX, NULL },
    { "batch", read_i32, write_i32, AT(batch), 1, BATCH_MAX, NULL },
    { "gpu_memory", read_size, write_size, AT(gpu_memory), 0, 0, NULL },
    { "gpu_servers", read_i32, write_i32, AT(gpu_servers), 1, GANG_GPUS_MAX, NULL },
    { "launch", read_span, write_span, AT(launch_span), 0, 0, NULL },
    { "model", read_model, write_text, AT(model), 1, MODEL_MAX, NULL },
    { "save", read_span, write_span, AT(save_span), 0, 0, NULL },
    { "servers", read_i32, write_i32, AT(servers), 1, GANG_GPUS_MAX, NULL },
    { "skew", read_part, write_part, AT(skew_permille), 0, 0, NULL },
    { "utilisation", read_i32, write_i32, AT(utilisation), 1, 100, NULL },
};

int read_training(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    (void)key;
    return reader_object(rd, training_keys, COUNT(training_keys), value);
}

void write_training(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    if (!s->bandwidth && !s->batch && !s->gpu_memory && !s->gpu_servers && !s->launch_span && !s->model &&
        !s->save_span && !s->servers && !s->skew_permille && !s->utilisation)
        return;
    json_write_object(out, key->name);
    submission_write(out, training_keys, COUNT(training_keys), s);
    json_write_close(out);
}

/* [{at: 2026-01-31T18:30, value: 10}, {at: ..., value: 4}] */
int read_deadlines(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    struct submission *s = rd->s;
    usec_t before = 0;

    (void)key;
    s->deadline_count = 0;
    if (!json_is_array(value) || json_array_size(value) > DEADLINES_MAX)
        return reader_fail(rd, "expected a list of at most %d {at: WHEN, value: N}", DEADLINES_MAX);
    for (size_t i = 0; i < json_array_size(value); i++) {
        struct submission one = { 0 };
        struct submission_reader inner = *rd;
        static const struct submission_key parts[] = {
            { "at", read_instant, write_instant, AT(deadline), 0, 0, NULL },
            { "value", read_i32, write_i32, AT(batch), 1, DEADLINE_VALUE, NULL },
        };
        int r;

        inner.s = &one;
        r = reader_object(&inner, parts, COUNT(parts), json_array_get(value, i));
        inner.s = s;
        *rd = inner;
        if (r < 0)
            return r;
        if (one.batch == 0)
            one.batch = DEADLINE_VALUE;
        if (one.deadline <= before || (i && one.batch > s->deadlines[i - 1].value))
            return reader_fail(rd, "expected each later than the one before, and worth no more");
        s->deadlines[s->deadline_count++] = (struct deadline){ one.deadline, one.batch };
        before = one.deadline;
    }
    return 0;
}

void write_deadlines(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    static const struct submission_key at = { "at", NULL, NULL, AT(deadline), 0, 0, NULL };

    if (s->deadline_count == 0)
        return;
    json_write_array(out, key->name);
    for (int32_t i = 0; i < s->deadline_count; i++) {
        struct submission one = { .deadline = s->deadlines[i].at };

        json_write_object(out, NULL);
        write_instant(out, &at, &one);
        json_write_i64(out, "value", s->deadlines[i].value);
        json_write_close(out);
    }
    json_write_close(out);
}

int training_check(struct submission_reader *rd)
{
    const struct submission *s = rd->s;

    if (s->deadline && s->deadline_count)
        return reader_fail(rd, "give either a deadline, or several that are worth less the later they are met");
    if (s->klass && s->priority < 0)
        return reader_fail(rd, "class: auto is for jobs that are not opportunistic to begin with");
    if (s->gpu_servers && s->gpus && s->gpu_servers >= s->gpus)
        return reader_fail(rd, "training.gpu_servers: expected fewer than its GPUs");
    return 0;
}

/* The same number for the same name, wherever and whenever. */
static uint32_t model_number(const char *model)
{
    uint32_t hash = 2166136261u;

    for (; *model; model++)
        hash = (hash ^ (unsigned char)*model) * 16777619u;
    return hash & INT32_MAX;
}

void training_bind(const struct submission *s, struct jobspec *spec)
{
    uint64_t mib = s->gpu_memory >> 20;

    if (s->model)
        spec->model = model_number(s->model);
    spec->batch = (uint32_t)s->batch;
    spec->servers = s->servers;
    spec->gpu_servers = s->gpu_servers;
    spec->bandwidth = (uint32_t)s->bandwidth;
    spec->launch = s->launch_span;
    spec->save = s->save_span;
    spec->memory_mib = mib < UINT32_MAX ? (uint32_t)mib : UINT32_MAX;
    spec->utilisation = (uint16_t)s->utilisation;
    spec->skew_permille = (uint16_t)s->skew_permille;
    if (s->klass)
        spec->klass = CLASS_AUTO;
    for (int32_t i = 0; i < s->deadline_count; i++)
        spec->deadlines[spec->deadline_count++] = s->deadlines[i];
    if (s->deadline_count)
        spec->slo = s->deadline_count > 1 ? SLO_SOFT : SLO_STRICT;
}
