/* SPDX-License-Identifier: Apache-2.0 */
/* submission_keys.c - the keys of a submission, sorted, and those that are more than one field. muster-job(5) describes
 * each. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "wire/job/gpu_spec.h"
#include "wire/job/submission_internal.h"
#include "wire/job/topology.h"
#include "wire/text/decimal.h"
#include "wire/text/duration.h"
#include "wire/text/json_write.h"
#include "wire/text/suggest.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define AT(field) offsetof(struct submission, field)

static const char *const launch_words[] = { "once", "node", "task", NULL };
static const char *const preempt_words[] = { "requeue", "suspend", "checkpoint", "cancel", "never", NULL };
static const char *const runtime_words[] = { "none", "runc", "podman", "docker", "enroot", "apptainer", NULL };
static const char *const class_words[] = { "guaranteed", "auto", NULL };
static const char *const tier_words[] = { "premium", "standard", "basic", NULL };
static const char *const compat_words[] = { "slurm", "pai", NULL };

static const struct {
    const char *name;
    int priority;
} classes[] = {
    { "oppo", -1 },     { "low", 10 },   { "normal", 100 }, { "high", 500 },
    { "urgent", 1000 }, { "test", 100 }, { "prod", 500 },   { "crit", 1000 },
};

int priority_parse(const char *text, int *ret_priority)
{
    int64_t number;

    for (size_t i = 0; i < COUNT(classes); i++) {
        if (strcasecmp(classes[i].name, text) == 0) {
            *ret_priority = classes[i].priority;
            return 0;
        }
    }
    if (decimal_parse_i64(text, strlen(text), &number) < 0 || number < PRIORITY_MIN || number > PRIORITY_MAX)
        return -EINVAL;
    *ret_priority = (int)number;
    return 0;
}

const char *priority_class(int priority)
{
    if (priority < 0)
        return "oppo";
    return priority < 100 ? "low" : priority < 500 ? "normal" : priority < 1000 ? "high" : "urgent";
}

static int read_priority(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    const char *text;
    char number[64], shown[SHOWN_MAX];
    int r = reader_text(rd, value, 64, number, &text);

    (void)key;
    if (r < 0)
        return r;
    if (priority_parse(text, &rd->s->priority) < 0)
        return reader_fail(rd, "expected oppo, low, normal, high, urgent or a number from %d to %d, got '%s'",
                           PRIORITY_MIN, PRIORITY_MAX, suggest_shown(text, strlen(text), shown));
    return 0;
}

static void write_priority(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    if (s->priority == submission_defaults()->priority)
        return;
    for (size_t i = 0; i < 5; i++) {
        if (classes[i].priority == s->priority) {
            json_write_text(out, key->name, classes[i].name);
            return;
        }
    }
    json_write_i64(out, key->name, s->priority);
}

/* "4" or "2..8". */
static int read_nodes(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    const char *text, *dots;
    char number[64], shown[SHOWN_MAX];
    int64_t least, most;
    int r = reader_text(rd, value, 32, number, &text);

    (void)key;
    if (r < 0)
        return r;
    dots = strstr(text, "..");
    if (!dots)
        dots = strchr(text, '-'); /* as Slurm writes it */
    r = decimal_parse_i64(text, dots ? (size_t)(dots - text) : strlen(text), &least);
    most = least;
    if (r == 0 && dots) {
        const char *high = dots + (*dots == '.' ? 2 : 1);

        r = decimal_parse_i64(high, strlen(high), &most);
    }
    if (r < 0 || least < 1 || most < least || most > SUBMISSION_NODES_MAX)
        return reader_fail(rd, "expected a number of nodes such as 4 or 2..8, got '%s'",
                           suggest_shown(text, strlen(text), shown));
    rd->s->nodes = (int32_t)least;
    rd->s->nodes_max = (int32_t)most;
    return 0;
}

static void write_nodes(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    char text[32];

    if (s->nodes == 0)
        return;
    if (s->nodes == s->nodes_max) {
        json_write_i64(out, key->name, s->nodes);
        return;
    }
    (void)snprintf(text, sizeof(text), "%d..%d", s->nodes, s->nodes_max);
    json_write_text(out, key->name, text);
}

static int gpus_take(struct submission_reader *rd, json_t *value, bool per_node)
{
    struct gpu_spec spec = { 0 };
    const char *text;
    char number[64];
    int r = reader_text(rd, value, GPU_SELECTOR_MAX + 32, number, &text);

    if (r < 0)
        return r;
    if (rd->s->gpus || rd->s->no_gpus)
        return reader_fail(rd, "give either gpus, of the whole job, or per_node.gpu");
    if (strcmp(text, "0") == 0) {
        rd->s->no_gpus = true;
        return 0;
    }
    r = gpu_spec_parse(text, strlen(text), &spec, rd->err);
    if (r < 0) {
        rd->failed = true;
        return r;
    }
    rd->s->gpu_selector = spec.selector[0] ? mem_strdup(spec.selector) : NULL;
    if (spec.selector[0] && !rd->s->gpu_selector)
        return reader_memory(rd);
    rd->s->gpus = spec.count;
    rd->s->gpus_max = spec.count_max;
    rd->s->gpu_share = spec.share;
    rd->s->gpus_per_node = per_node;
    return 0;
}

static int read_gpus(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    (void)key;
    return gpus_take(rd, value, false);
}

static int read_node_gpus(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    (void)key;
    return gpus_take(rd, value, true);
}

static void gpus_write(struct json_write *out, const char *key, const struct submission *s)
{
    struct gpu_spec spec = { .count = s->gpus, .count_max = s->gpus_max, .share = s->gpu_share };
    struct buf text = BUF_INIT(GPU_SELECTOR_MAX + 64);

    if (s->gpu_selector)
        (void)snprintf(spec.selector, sizeof(spec.selector), "%s", s->gpu_selector);
    gpu_spec_put(&text, &spec);
    json_write_text(out, key, text.data ? text.data : "");
    if (text.error)
        out->out->error = text.error;
    buf_done(&text);
}

static void write_gpus(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    if (s->no_gpus)
        json_write_text(out, key->name, "0");
    if (s->gpus && !s->gpus_per_node)
        gpus_write(out, key->name, s);
}

static void write_node_gpus(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    if (s->gpus && s->gpus_per_node)
        gpus_write(out, key->name, s);
}

static const struct submission_key node_keys[] = {
    { "cpu", read_i32, write_i32, AT(cpus), 1, 1 << 16, NULL },
    { "gpu", read_node_gpus, write_node_gpus, 0, 0, 0, NULL },
    { "memory", read_size, write_size, AT(memory), 0, 0, NULL },
    { "shm", read_size, write_size, AT(shm), 0, 0, NULL },
    { "tmp", read_size, write_size, AT(tmp), 0, 0, NULL },
};

static int read_node(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    (void)key;
    return reader_object(rd, node_keys, COUNT(node_keys), value);
}

/* An object of a table, left out when it has nothing in it. */
static void object_write(struct json_write *out, const char *key, const struct submission_key *keys, size_t count,
                         const struct submission *s)
{
    struct json_write before = *out;
    size_t size = out->out->size, inside;

    json_write_object(out, key);
    inside = out->out->size;
    submission_write(out, keys, count, s);
    if (out->out->size > inside || out->out->error) {
        json_write_close(out);
        return;
    }
    *out = before;
    out->out->size = size;
}

static void write_node(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    object_write(out, key->name, node_keys, COUNT(node_keys), s);
}

static int read_grace_too(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    return read_span(rd, key, value);
}

static void write_nothing(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    (void)out, (void)key, (void)s; /* another key writes the field */
}

static const struct submission_key checkpoint_keys[] = {
    { "cmd", read_text, write_text, AT(ckpt_cmd), 0, 0, NULL },
    { "dir", read_text, write_text, AT(ckpt_dir), 0, 0, NULL },
    { "every", read_span, write_span, AT(ckpt_every), 0, 0, NULL },
    { "grace", read_grace_too, write_nothing, AT(grace), 0, 0, NULL },
    { "signal", read_signal, write_signal, AT(ckpt_signal), 0, 0, NULL },
};

static int read_checkpoint(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    (void)key;
    return reader_object(rd, checkpoint_keys, COUNT(checkpoint_keys), value);
}

static void write_checkpoint(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    object_write(out, key->name, checkpoint_keys, COUNT(checkpoint_keys), s);
}

static const struct submission_key parallel_keys[] = {
    { "pipeline", read_i32, write_i32, AT(pipeline), 1, UINT16_MAX, NULL },
    { "splice", read_i32, write_i32, AT(splice), 1, UINT16_MAX, NULL },
    { "tensor", read_i32, write_i32, AT(tensor), 1, UINT16_MAX, NULL },
};

static int read_parallel(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    (void)key;
    return reader_object(rd, parallel_keys, COUNT(parallel_keys), value);
}

static void write_parallel(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    object_write(out, key->name, parallel_keys, COUNT(parallel_keys), s);
}

static const struct submission_key emulate_keys[] = {
    { "exit", read_i32, write_i32, AT(emulate_exit), 0, 255, NULL },
    { "run", read_span, write_span, AT(emulate_run), 0, 0, NULL },
};

static int read_emulate(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    (void)key;
    return reader_object(rd, emulate_keys, COUNT(emulate_keys), value);
}

static void write_emulate(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    object_write(out, key->name, emulate_keys, COUNT(emulate_keys), s);
}

/* "socket:2": two whole sockets. */
static int read_cells(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    const char *text = json_string_value(value);
    uint8_t level;
    uint16_t count;

    if (!text || cells_parse(text, strlen(text), &level, &count) < 0)
        return reader_fail(rd, "expected LEVEL:COUNT such as socket:2; levels are group, socket and node");
    return read_text(rd, key, value);
}

static int read_topology_policy(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    const char *text = json_string_value(value);

    (void)key;
    if (!text || (strcmp(text, "must") != 0 && strcmp(text, "prefer") != 0))
        return reader_fail(rd, "expected must or prefer");
    rd->s->topo_must = strcmp(text, "must") == 0;
    return 0;
}

static void write_topology_policy(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    if (s->topo_must)
        json_write_text(out, key->name, "must");
}

static const struct submission_key topology_keys[] = {
    { "level", read_text, write_text, AT(topo_level), 0, 32, NULL },
    { "policy", read_topology_policy, write_topology_policy, 0, 0, 0, NULL },
};

/* {level: rack, policy: must} or "rack:must". */
static int read_topology(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    const char *text = json_string_value(value), *colon;

    (void)key;
    if (!text)
        return reader_object(rd, topology_keys, COUNT(topology_keys), value);
    colon = strchr(text, ':');
    if (colon && strcmp(colon, ":must") != 0 && strcmp(colon, ":prefer") != 0)
        return reader_fail(rd, "expected LEVEL, LEVEL:must or LEVEL:prefer");
    for (const char *c = text; c < (colon ? colon : text + strlen(text)); c++)
        if (!isalnum((unsigned char)*c) && *c != '-' && *c != '_')
            return reader_fail(rd, "expected a level such as node or rack");
    if (colon == text || !*text || (colon ? (size_t)(colon - text) : strlen(text)) > 32)
        return reader_fail(rd, "expected a level such as node or rack");
    mem_free(rd->s->topo_level);
    rd->s->topo_level = mem_strdup(text);
    if (!rd->s->topo_level)
        return reader_memory(rd);
    if (colon)
        rd->s->topo_level[colon - text] = '\0';
    rd->s->topo_must = colon && strcmp(colon, ":must") == 0;
    return 0;
}

static void write_topology(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    object_write(out, key->name, topology_keys, COUNT(topology_keys), s);
}

/* "[B:]SIGNAL@SECONDS", "SIGNAL@90s". */
static int read_warning(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    const char *text, *at;
    char number[64], shown[SHOWN_MAX];
    usec_t before = USEC_MIN;
    int signal, r = reader_text(rd, value, 64, number, &text);
    int64_t seconds;

    (void)key;
    if (r < 0)
        return r;
    if (strncasecmp(text, "B:", 2) == 0)
        return reader_fail(rd, "B: (the batch shell alone) is not supported: every task is warned");
    at = strchr(text, '@');
    r = signal_parse(text, at ? (size_t)(at - text) : strlen(text), &signal);
    if (r == 0 && at) {
        at++;
        if (decimal_parse_i64(at, strlen(at), &seconds) == 0 && seconds >= 0 && seconds <= 86400)
            before = seconds * USEC_SEC;
        else
            r = duration_parse(at, strlen(at), &before);
    }
    if (r < 0)
        return reader_fail(rd, "expected SIGNAL@SECONDS such as USR1@120, got '%s'",
                           suggest_shown(text, strlen(text), shown));
    rd->s->signal = signal;
    rd->s->signal_before = before;
    return 0;
}

static void write_warning(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    struct buf text = BUF_INIT(64);

    if (s->signal == 0)
        return;
    if (signal_text(s->signal))
        buf_text(&text, signal_text(s->signal));
    else
        buf_printf(&text, "%d", s->signal);
    buf_char(&text, '@');
    duration_put(&text, s->signal_before);
    json_write_text(out, key->name, text.data ? text.data : "");
    if (text.error)
        out->out->error = text.error;
    buf_done(&text);
}

static int read_retries(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    int64_t number = 0;
    int r = reader_i64(rd, value, 0, 255, &number);

    (void)key;
    if (r == 0)
        rd->s->retries = (uint8_t)number;
    return r;
}

static void write_retries(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    if (s->retries)
        json_write_i64(out, key->name, s->retries);
}

static int retry_add(struct submission_reader *rd, const char *text, size_t length)
{
    int64_t code;

    if (decimal_parse_i64(text, length, &code) < 0 || code < 1 || code > 255)
        return reader_fail(rd, "expected exit codes from 1 to 255");
    if (rd->s->retry_on_count == COUNT(rd->s->retry_on))
        return reader_fail(rd, "more than %zu exit codes", COUNT(rd->s->retry_on));
    rd->s->retry_on[rd->s->retry_on_count++] = (int)code;
    return 0;
}

static int read_retry_on(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    size_t count = json_is_array(value) ? json_array_size(value) : 1;

    (void)key;
    rd->s->retry_on_count = 0;
    for (size_t i = 0; i < count; i++) {
        const char *text;
        char number[64];
        int r = reader_text(rd, json_is_array(value) ? json_array_get(value, i) : value, 256, number, &text);

        for (; r == 0 && text; text = strchr(text, ',') ? strchr(text, ',') + 1 : NULL)
            r = retry_add(rd, text, strcspn(text, ","));
        if (r < 0)
            return r;
    }
    return 0;
}

static void write_retry_on(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    if (s->retry_on_count == 0)
        return;
    json_write_array(out, key->name);
    for (size_t i = 0; i < s->retry_on_count; i++)
        json_write_i64(out, NULL, s->retry_on[i]);
    json_write_close(out);
}

static const struct submission_key keys[] = {
    { "account", read_text, write_text, AT(account), 0, 255, NULL },
    { "after", read_after, write_after, 0, 0, 0, NULL },
    { "args", read_args, write_args, 0, 0, 0, NULL },
    { "array", read_array, write_array, 0, 0, 0, NULL },
    { "begin", read_instant, write_instant, AT(begin), 0, 0, NULL },
    { "cells", read_cells, write_text, AT(cells), 0, 64, NULL },
    { "checkpoint", read_checkpoint, write_checkpoint, 0, 0, 0, NULL },
    { "class", read_word, write_word, AT(klass), 0, 0, class_words },
    { "comment", read_text, write_text, AT(comment), 0, 0, NULL },
    { "compat", read_one_of, write_text, AT(compat), 0, 0, compat_words },
    { "constraint", read_text, write_text, AT(constraint), 0, 0, NULL },
    { "cpus_per_task", read_i32, write_i32, AT(cpus_per_task), 1, 1 << 16, NULL },
    { "deadline", read_instant, write_instant, AT(deadline), 0, 0, NULL },
    { "deadlines", read_deadlines, write_deadlines, 0, 0, 0, NULL },
    { "dir", read_text, write_text, AT(dir), 0, 0, NULL },
    { "emulate", read_emulate, write_emulate, 0, 0, 0, NULL },
    { "env", read_env, write_env, 0, 0, 0, NULL },
    { "error", read_text, write_text, AT(error), 0, 0, NULL },
    { "exclude", read_text, write_text, AT(exclude), 0, 0, NULL },
    { "exclusive", read_bool, write_bool, AT(exclusive), 0, 0, NULL },
    { "gang", read_gang, write_gang, 0, 0, 0, NULL },
    { "gpus", read_gpus, write_gpus, 0, 0, 0, NULL },
    { "grace", read_span, write_span, AT(grace), 0, 0, NULL },
    { "hold", read_bool, write_bool, AT(hold), 0, 0, NULL },
    { "image", read_text, write_text, AT(image), 0, 0, NULL },
    { "input", read_input, write_input, 0, 0, 0, NULL },
    { "launch", read_word, write_word, AT(launch), 0, 0, launch_words },
    { "licenses", read_licenses, write_licenses, 0, 0, 0, NULL },
    { "memory_per_gpu", read_size, write_size, AT(memory_per_gpu), 0, 0, NULL },
    { "idle_timeout", read_span, write_span, AT(idle_timeout), 0, 0, NULL },
    { "keep_on_fail", read_span, write_span, AT(keep_on_fail), 0, 0, NULL },
    { "min_runtime", read_span, write_span, AT(min_runtime), 0, 0, NULL },
    { "mounts", read_mounts, write_mounts, 0, 0, 0, NULL },
    { "name", read_text, write_text, AT(name), 0, 255, NULL },
    { "no_kill", read_bool, write_bool, AT(no_kill), 0, 0, NULL },
    { "nodelist", read_text, write_text, AT(nodelist), 0, 0, NULL },
    { "nodes", read_nodes, write_nodes, 0, 0, 0, NULL },
    { "notify", read_notify, write_notify, 0, 0, 0, NULL },
    { "output", read_text, write_text, AT(output), 0, 0, NULL },
    { "parallel", read_parallel, write_parallel, 0, 0, 0, NULL },
    { "per_node", read_node, write_node, 0, 0, 0, NULL },
    { "preempt", read_word, write_word, AT(preempt), 0, 0, preempt_words },
    { "priority", read_priority, write_priority, 0, 0, 0, NULL },
    { "progress", read_progress, write_progress, 0, 0, 0, NULL },
    { "requeue", read_bool, write_bool, AT(requeue), 0, 0, NULL },
    { "reservation", read_text, write_text, AT(reservation), 0, 255, NULL },
    { "retries", read_retries, write_retries, 0, 0, 0, NULL },
    { "retry_on", read_retry_on, write_retry_on, 0, 0, 0, NULL },
    { "roles", read_roles, write_roles, 0, 0, 0, NULL },
    { "run", read_text, write_text, AT(run), 1, SUBMISSION_BYTES_MAX, NULL },
    { "runtime", read_one_of, write_text, AT(runtime), 0, 0, runtime_words },
    { "secrets", read_secrets, write_secrets, 0, 0, 0, NULL },
    { "signal", read_warning, write_warning, 0, 0, 0, NULL },
    { "tags", read_tags, write_tags, 0, 0, 0, NULL },
    { "tasks", read_i32, write_i32, AT(tasks), 1, 1 << 20, NULL },
    { "tasks_per_node", read_i32, write_i32, AT(tasks_per_node), 1, 1 << 16, NULL },
    { "tier", read_word, write_word, AT(tier), 0, 0, tier_words },
    { "time", read_span, write_span, AT(time), 0, 0, NULL },
    { "time_min", read_span, write_span, AT(time_min), 0, 0, NULL },
    { "topology", read_topology, write_topology, 0, 0, 0, NULL },
    { "training", read_training, write_training, 0, 0, 0, NULL },
    { "vc", read_text, write_text, AT(vc), 0, 255, NULL },
};

const struct submission_key *submission_keys(size_t *ret_count)
{
    *ret_count = COUNT(keys);
    return keys;
}
