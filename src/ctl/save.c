/* SPDX-License-Identifier: Apache-2.0 */
/* save.c - the controller's state to bytes and back: the book as JSON, then the core's own snapshot.
 *
 * One table of fields a record serves both directions, so that they cannot drift apart. Zeros are left out. Jobs of an
 * array share their submission by number. What is not in the log (connections, beats) is not saved either.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/snap.h"
#include "ctl/part.h"
#include "wire/json_quick.h"

enum { SAVE_VERSION = 1, HEADER = 16 };

enum kind { I64, U64, U32, U16, U8, INT, FLAG, TEXT };

struct field {
    const char *name;
    size_t offset, size;
    enum kind kind;
};

#define F(type, member, how)                                                                                           \
    {                                                                                                                  \
#member, offsetof(struct type, member), sizeof(((struct type *)0)->member), how                                \
    }
#define END                                                                                                            \
    {                                                                                                                  \
        0                                                                                                              \
    }

static const struct field task_fields[] = {
    F(book_task, node, U32),      F(book_task, state, U32),         F(book_task, exit, INT),
    F(book_task, signal, INT),    F(book_task, oom, FLAG),          F(book_task, blame, U8),
    F(book_task, part, U8),       F(book_task, cause, TEXT),        F(book_task, started, I64),
    F(book_task, ended, I64),     F(book_task, used_samples, U32),  F(book_task, used_memory_mib, U32),
    F(book_task, used_util, U16), F(book_task, used_util_dev, U16), END,
};
static const struct field attempt_fields[] = {
    F(book_attempt, number, U32),       F(book_attempt, phase, INT),     F(book_attempt, prepared, FLAG),
    F(book_attempt, role_verdict, U32), F(book_attempt, role_exit, INT), F(book_attempt, role_signal, INT),
    F(book_attempt, placed, I64),       F(book_attempt, started, I64),   F(book_attempt, ended, I64),
    F(book_attempt, ran, I64),          F(book_attempt, exit, INT),      F(book_attempt, signal, INT),
    F(book_attempt, told_go, FLAG),     F(book_attempt, stopping, FLAG), F(book_attempt, warned, FLAG),
    F(book_attempt, ending, FLAG),      F(book_attempt, moves, FLAG),    F(book_attempt, stop_kind, TEXT),
    F(book_attempt, stop_by, I64),      F(book_attempt, stop_at, I64),   F(book_attempt, grace, I64),
    F(book_attempt, kept_until, I64),   F(book_attempt, port, U16),      END,
};
static const struct field job_fields[] = {
    F(book_job, id, I64),
    F(book_job, array_id, I64),
    F(book_job, array_index, INT),
    F(book_job, user, U32),
    F(book_job, vc, U32),
    F(book_job, uid, U32),
    F(book_job, gid, U32),
    F(book_job, phase, INT),
    F(book_job, gate, INT),
    F(book_job, held, FLAG),
    F(book_job, in_core, FLAG),
    F(book_job, suspended_by_user, FLAG),
    F(book_job, ends, FLAG),
    F(book_job, reenters, FLAG),
    F(book_job, orphan, FLAG),
    F(book_job, gave_up, FLAG),
    F(book_job, ends_as, INT),
    F(book_job, stop_by, I64),
    F(book_job, waits_old, FLAG),
    F(book_job, slot, U32),
    F(book_job, gen, U32),
    F(book_job, submit, I64),
    F(book_job, eligible, I64),
    F(book_job, first_start, I64),
    F(book_job, last_start, I64),
    F(book_job, end, I64),
    F(book_job, reason_since, I64),
    F(book_job, reason, INT),
    F(book_job, reason_needs, I64),
    F(book_job, reason_free, I64),
    F(book_job, after_met, U64),
    F(book_job, after_failed, U64),
    F(book_job, last_ckpt, I64),
    F(book_job, said_progress, I64),
    F(book_job, said_rate, I64),
    F(book_job, gpu_usec, I64),
    F(book_job, preemptions, U32),
    F(book_job, failures, U32),
    F(book_job, exit, INT),
    F(book_job, signal, INT),
    F(book_job, end_text, TEXT),
    F(book_job, version, U64),
    F(book_job, lost_usec, I64),
    F(book_job, predicted.run, I64),
    F(book_job, predicted.memory_mib, U32),
    F(book_job, predicted.util, U16),
    F(book_job, predicted.util_dev, U16),
    F(book_job, predicted.gpus_pay, INT),
    END,
};
static const struct field node_fields[] = {
    F(book_node, address, TEXT),
    F(book_node, agent, TEXT),
    F(book_node, boot, TEXT),
    F(book_node, version, TEXT),
    F(book_node, report_seq, U64),
    F(book_node, core_node, U32),
    F(book_node, joined, FLAG),
    F(book_node, silent, FLAG),
    F(book_node, lost, FLAG),
    F(book_node, drained, FLAG),
    F(book_node, forgotten, FLAG),
    F(book_node, drain_deadline, I64),
    F(book_node, drain_reason, TEXT),
    F(book_node, barred, I64),
    F(book_node, reboot, U32),
    F(book_node, joins, U32),
    F(book_node, refusals, U32),
    F(book_node, rest_until, I64),
    END,
};
static const struct field gpu_fields[] = {
    F(book_gpu, ok, FLAG), F(book_gpu, drained, FLAG), F(book_gpu, foreign, FLAG), F(book_gpu, reason, TEXT), END,
};
static const struct field token_fields[] = {
    F(book_token, id, TEXT),     F(book_token, hash, TEXT),  F(book_token, user, TEXT),
    F(book_token, role, TEXT),   F(book_token, scope, TEXT), F(book_token, expires, I64),
    F(book_token, created, I64), F(book_token, nodes, U32),  END,
};
static const struct field key_fields[] = {
    F(book_key, user, U32), F(book_key, hash, U64), F(book_key, key, TEXT), F(book_key, id, I64), END,
};

static int64_t field_read(const struct field *f, const void *at)
{
    switch (f->kind) {
    case I64:
        return *(const int64_t *)at;
    case U64:
        return (int64_t) * (const uint64_t *)at;
    case U32:
        return *(const uint32_t *)at;
    case U16:
        return *(const uint16_t *)at;
    case U8:
        return *(const uint8_t *)at;
    case INT:
        return *(const int *)at;
    case FLAG:
        return *(const bool *)at;
    case TEXT:
        break;
    }
    return 0;
}

static void field_write(const struct field *f, void *at, int64_t value)
{
    switch (f->kind) {
    case I64:
        *(int64_t *)at = value;
        break;
    case U64:
        *(uint64_t *)at = (uint64_t)value;
        break;
    case U32:
        *(uint32_t *)at = (uint32_t)value;
        break;
    case U16:
        *(uint16_t *)at = (uint16_t)value;
        break;
    case U8:
        *(uint8_t *)at = (uint8_t)value;
        break;
    case INT:
        *(int *)at = (int)value;
        break;
    case FLAG:
        *(bool *)at = value != 0;
        break;
    case TEXT:
        break;
    }
}

static json_t *save_fields(const struct field *fields, const void *record)
{
    json_t *out = json_object();

    for (const struct field *f = fields; f->name; f++) {
        const char *at = (const char *)record + f->offset;

        if (f->kind == TEXT && *at)
            (void)json_object_set_new(out, f->name, json_string(at));
        else if (f->kind != TEXT && field_read(f, at))
            (void)json_object_set_new(out, f->name, json_integer(field_read(f, at)));
    }
    return out;
}

static void load_fields(const struct field *fields, const json_t *json, void *record)
{
    for (const struct field *f = fields; f->name; f++) {
        const json_t *value = json_object_get(json, f->name);
        char *at = (char *)record + f->offset;

        if (f->kind == TEXT && json_is_string(value)) {
            size_t length = json_string_length(value);

            length = length < f->size ? length : f->size - 1;
            memcpy(at, json_string_value(value), length);
            at[length] = '\0';
        } else if (f->kind != TEXT) {
            field_write(f, at, json_integer_value(value));
        }
    }
}

static json_t *save_attempt(const struct book_attempt *attempt)
{
    json_t *out = save_fields(attempt_fields, attempt), *tasks = json_array();

    for (uint32_t t = 0; t < attempt->task_count; t++) {
        json_t *task = save_fields(task_fields, &attempt->tasks[t]), *gpus = json_array();

        for (uint32_t g = 0; g < attempt->tasks[t].gpu_count; g++)
            (void)json_array_append_new(gpus, json_integer(attempt->tasks[t].gpus[g]));
        (void)json_object_set_new(task, "gpus", gpus);
        (void)json_array_append_new(tasks, task);
    }
    (void)json_object_set_new(out, "tasks", tasks);
    if (attempt->roles)
        (void)json_object_set_new(out, "roles", json_deep_copy(attempt->roles));
    if (attempt->refusal)
        (void)json_object_set_new(out, "refusal", json_string(attempt->refusal));
    return out;
}

static json_t *save_jobs(const struct ctl *ctl, json_t *specs)
{
    json_t *jobs = json_array();
    const struct book_spec *last = NULL;

    for (size_t i = 0; i < ctl->book.live_count; i++) {
        const struct book_job *job = ctl->book.live[i];
        json_t *out = save_fields(job_fields, job), *attempts = json_array();

        if (job->source != last)
            (void)json_array_append(specs, job->source->json);
        last = job->source;
        (void)json_object_set_new(out, "wants", wants_json(&job->wants));
        (void)json_object_set_new(out, "spec", json_integer((json_int_t)json_array_size(specs) - 1));
        for (uint32_t a = 0; a < job->attempt_count; a++)
            (void)json_array_append_new(attempts, save_attempt(&job->attempts[a]));
        (void)json_object_set_new(out, "attempts", attempts);
        (void)json_array_append_new(jobs, out);
    }
    return jobs;
}

static json_t *save_names(const struct names *names)
{
    json_t *out = json_array();

    for (uint32_t i = 0; i < names->count; i++)
        (void)json_array_append_new(out, json_string(names_get(names, i)));
    return out;
}

static json_t *save_nodes(const struct book *book)
{
    json_t *out = json_array();

    for (size_t n = 0; n < book->node_count; n++) {
        const struct book_node *node = &book->nodes[n];
        json_t *one = save_fields(node_fields, node), *gpus = json_array();

        for (uint32_t g = 0; g < node->gpu_count; g++)
            (void)json_array_append_new(gpus, save_fields(gpu_fields, &node->gpus[g]));
        (void)json_object_set_new(one, "gpus", gpus);
        if (node->inventory)
            (void)json_object_set(one, "inventory", node->inventory);
        if (node->labels)
            (void)json_object_set(one, "labels", node->labels);
        (void)json_array_append_new(out, one);
    }
    return out;
}

static json_t *save_rings(const struct book *book, json_t **ret_keys)
{
    json_t *outcomes = json_array();

    *ret_keys = json_array();
    for (size_t i = 0; i < book->outcome_count; i++) {
        size_t k = (book->outcome_next + BOOK_OUTCOMES - book->outcome_count + i) % BOOK_OUTCOMES;

        (void)json_array_append_new(outcomes, json_integer(book->outcomes[k].id));
        (void)json_array_append_new(outcomes, json_integer(book->outcomes[k].phase));
    }
    for (size_t i = 0; i < book->key_count; i++) {
        size_t k = (book->key_next + BOOK_KEYS - book->key_count + i) % BOOK_KEYS;

        (void)json_array_append_new(*ret_keys, save_fields(key_fields, &book->keys[k]));
    }
    return outcomes;
}

json_t *save_book(const struct ctl *ctl)
{
    const struct book *book = &ctl->book;
    json_t *specs = json_array(), *jobs = save_jobs(ctl, specs), *tokens = json_array(), *ended = json_array(), *keys;
    json_t *outcomes = save_rings(book, &keys);

    for (size_t i = 0; i < book->token_count; i++)
        (void)json_array_append_new(tokens, save_fields(token_fields, &book->tokens[i]));
    for (int i = 0; i < PHASE_JOB_COUNT; i++)
        (void)json_array_append_new(ended, json_integer((json_int_t)book->ended[i]));
    return json_pack(
        "{s:O, s:O, s:O, s:O, s:O, s:O, s:i, s:I, s:I, s:I, s:I, s:I, s:b, s:O, s:o, s:o, s:o, s:o, s:o, s:o, "
        "s:o, s:o, s:o}",
        "limits", book->limits, "secrets", book->secrets, "hooks", book->hooks, "choices", book->choices,
        "reservations", book->resvs, "licenses", book->licenses, "version", SAVE_VERSION, "seq", (json_int_t)ctl->seq,
        "now", (json_int_t)ctl->now, "event", (json_int_t)ctl->event_id, "next_id", (json_int_t)book->next_id,
        "submitted", (json_int_t)book->submitted, "paused", book->paused, "settings", ctl->settings, "users",
        save_names(&book->users), "node_names", save_names(&book->node_names), "nodes", save_nodes(book), "specs",
        specs, "jobs", jobs, "tokens", tokens, "ended", ended, "outcomes", outcomes, "keys", keys);
}

static int load_attempts(struct book_job *job, const json_t *attempts)
{
    for (size_t a = 0; a < json_array_size(attempts); a++) {
        const json_t *from = json_array_get(attempts, a), *tasks = json_object_get(from, "tasks");
        struct book_attempt *attempt;
        size_t count = json_array_size(tasks);

        if (book_attempt_add(job) < 0)
            return -ENOMEM;
        attempt = attempt_now(job);
        load_fields(attempt_fields, from, attempt);
        attempt->roles = json_deep_copy(json_object_get(from, "roles"));
        if (json_object_get(from, "refusal"))
            attempt->refusal = mem_strdup(json_string_value(json_object_get(from, "refusal")));
        attempt->tasks = mem_zalloc(count + 1, sizeof(*attempt->tasks));
        if (!attempt->tasks)
            return -ENOMEM;
        for (size_t t = 0; t < count; t++) {
            struct book_task *task = &attempt->tasks[attempt->task_count++];
            const json_t *gpus = json_object_get(json_array_get(tasks, t), "gpus");

            load_fields(task_fields, json_array_get(tasks, t), task);
            task->gpus = mem_zalloc(json_array_size(gpus) + 1, sizeof(*task->gpus));
            if (!task->gpus)
                return -ENOMEM;
            for (size_t g = 0; g < json_array_size(gpus); g++)
                task->gpus[task->gpu_count++] = (uint16_t)json_integer_value(json_array_get(gpus, g));
        }
    }
    return 0;
}

static int load_jobs(struct ctl *ctl, const json_t *json, struct error *err)
{
    const json_t *jobs = json_object_get(json, "jobs"), *specs = json_object_get(json, "specs");
    struct book_spec *spec = NULL;
    int64_t last = -1;
    int r = 0;

    for (size_t i = 0; r == 0 && i < json_array_size(jobs); i++) {
        const json_t *from = json_array_get(jobs, i);
        int64_t number = json_integer_value(json_object_get(from, "spec"));
        struct book_job *job = mem_zalloc(1, sizeof(*job));

        if (number != last) {
            book_spec_drop(spec);
            spec = book_spec_new(json_array_get(specs, (size_t)number), err);
        }
        last = number;
        if (!job || !spec) {
            mem_free(job);
            r = err->code ? err->code : -ENOMEM;
            break;
        }
        load_fields(job_fields, from, job);
        job->source = spec;
        job->spec = &spec->s;
        spec->refs++;
        r = book_add(ctl, job);
        if (r < 0) {
            book_job_free(job);
            break;
        }
        if (job->in_core && (!ctl->core || job->slot >= ctl->config.jobs_max))
            r = error_set(err, -EBADMSG, "snapshot: job %lld is in a core that is not there", (long long)job->id);
        if (r == 0)
            r = load_attempts(job, json_object_get(from, "attempts"));
        wants_read(json_object_get(from, "wants"), &job->wants);
        if (r == 0 && job->in_core) {
            ctl->by_slot[job->slot] = job;
            spec->inside++;
        }
        if (r == 0)
            job_timer_set(ctl, job);
    }
    book_spec_drop(spec);
    return r;
}

static int load_names(struct names *names, const json_t *list)
{
    uint32_t index;
    int r = 0;

    for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));

        r = names_put(names, text ? text : "", strlen(text ? text : ""), &index);
    }
    return r;
}

static int load_nodes(struct ctl *ctl, const json_t *list)
{
    struct book *book = &ctl->book;
    size_t count = json_array_size(list);

    book->nodes = mem_zalloc(count + 1, sizeof(*book->nodes));
    if (!book->nodes)
        return -ENOMEM;
    book->node_capacity = count + 1;
    for (size_t n = 0; n < count; n++) {
        const json_t *from = json_array_get(list, n), *gpus = json_object_get(from, "gpus");
        struct book_node *node = &book->nodes[book->node_count++];

        load_fields(node_fields, from, node);
        node->name = (uint32_t)n;
        node->inventory = json_deep_copy(json_object_get(from, "inventory"));
        node->labels = json_deep_copy(json_object_get(from, "labels"));
        node->gpus = mem_zalloc(json_array_size(gpus) + 1, sizeof(*node->gpus));
        if (!node->gpus)
            return -ENOMEM;
        for (size_t g = 0; g < json_array_size(gpus); g++)
            load_fields(gpu_fields, json_array_get(gpus, g), &node->gpus[node->gpu_count++]);
        ctl->deadlines += node->drain_deadline != 0;
        ctl->deadlines += node->rest_until != 0;
        ctl->reboots += node->reboot == REBOOT_WANTED;
    }
    return 0;
}

static int load_rings(struct book *book, const json_t *json)
{
    const json_t *list = json_object_get(json, "outcomes"), *tokens = json_object_get(json, "tokens");
    const json_t *keys = json_object_get(json, "keys");

    for (size_t i = 0; i + 1 < json_array_size(list) && book->outcome_count < BOOK_OUTCOMES; i += 2)
        book->outcomes[book->outcome_count++] =
            (struct book_outcome){ json_integer_value(json_array_get(list, i)),
                                   (enum phase_of_job)json_integer_value(json_array_get(list, i + 1)) };
    book->outcome_next = book->outcome_count % BOOK_OUTCOMES;
    for (size_t i = 0; i < json_array_size(keys) && book->key_count < BOOK_KEYS; i++) {
        load_fields(key_fields, json_array_get(keys, i), &book->keys[book->key_count]);
        book_key_link(book, book->key_count++);
    }
    book->key_next = book->key_count % BOOK_KEYS;
    book->token_capacity = json_array_size(tokens) + 1;
    book->tokens = mem_zalloc(book->token_capacity, sizeof(*book->tokens));
    if (!book->tokens)
        return -ENOMEM;
    for (size_t i = 0; i < json_array_size(tokens); i++)
        load_fields(token_fields, json_array_get(tokens, i), &book->tokens[book->token_count++]);
    for (size_t i = 0; i < PHASE_JOB_COUNT; i++)
        book->ended[i] = (uint64_t)json_integer_value(json_array_get(json_object_get(json, "ended"), i));
    return 0;
}

/* Snapshots of before it was there do not have it. */
static void load_tree(json_t **tree, json_t *from)
{
    if (!from || json_typeof(from) != json_typeof(*tree))
        return;
    json_decref(*tree);
    *tree = json_deep_copy(from);
}

int load_book(struct ctl *ctl, const json_t *json, struct error *err)
{
    struct book *book = &ctl->book;
    int r = 0;

    if (json_integer_value(json_object_get(json, "version")) != SAVE_VERSION)
        return error_set(err, -EPROTONOSUPPORT, "snapshot: of another version");
    ctl->seq = (uint64_t)json_integer_value(json_object_get(json, "seq"));
    ctl->now = json_integer_value(json_object_get(json, "now"));
    ctl->event_id = (uint64_t)json_integer_value(json_object_get(json, "event"));
    book->next_id = json_integer_value(json_object_get(json, "next_id"));
    book->submitted = (uint64_t)json_integer_value(json_object_get(json, "submitted"));
    book->paused = json_is_true(json_object_get(json, "paused"));
    load_tree(&book->limits, json_object_get(json, "limits"));
    load_tree(&book->secrets, json_object_get(json, "secrets"));
    load_tree(&book->hooks, json_object_get(json, "hooks"));
    load_tree(&book->choices, json_object_get(json, "choices"));
    load_tree(&book->resvs, json_object_get(json, "reservations"));
    load_tree(&book->licenses, json_object_get(json, "licenses"));
    json_decref(ctl->settings);
    ctl->settings = json_deep_copy(json_object_get(json, "settings"));
    r = load_names(&book->users, json_object_get(json, "users"));
    if (r == 0)
        r = load_names(&book->node_names, json_object_get(json, "node_names"));
    if (r == 0)
        r = load_nodes(ctl, json_object_get(json, "nodes"));
    if (r == 0)
        r = load_rings(book, json);
    return r == 0 ? 0 : error_set(err, r, "snapshot: no memory");
}

static void save_core(void *arg, const void *data, size_t size)
{
    buf_put(arg, data, size);
}

int ctl_save(const struct ctl *ctl, struct buf *out, struct error *err)
{
    json_t *book = save_book(ctl);
    char *text = book ? json_text(book, NULL) : NULL;
    uint64_t size = text ? strlen(text) : 0;

    json_decref(book);
    if (!text)
        return error_set(err, -ENOMEM, "no memory for a snapshot");
    buf_put(out, &size, sizeof(size));
    buf_put(out, text, size);
    free(text); /* jansson's */
    if (ctl->core)
        core_save(ctl->core, save_core, out);
    return out->error ? error_set(err, out->error, "no memory for a snapshot") : 0;
}

int ctl_load(const struct ctl_config *config, const char *data, size_t size, struct ctl **ret_ctl, struct error *err)
{
    struct ctl *ctl = NULL;
    json_error_t where;
    json_t *json;
    uint64_t length = 0;
    int r;

    if (size >= sizeof(length))
        memcpy(&length, data, sizeof(length));
    if (size < sizeof(length) || length > size - sizeof(length))
        return error_set(err, -EBADMSG, "snapshot: cut short");
    json = json_loadb(data + sizeof(length), length, JSON_REJECT_DUPLICATES, &where);
    if (!json)
        return error_set(err, -EBADMSG, "snapshot: damaged at byte %d: %s", where.position, where.text);
    r = ctl_new(config, &ctl, err);
    if (r == 0)
        r = load_book(ctl, json, err);
    if (r == 0)
        r = cluster_restore(ctl, data + sizeof(length) + length, size - sizeof(length) - length, err);
    if (r == 0)
        r = load_jobs(ctl, json, err);
    json_decref(json);
    if (r < 0) {
        ctl_free(ctl);
        return r;
    }
    *ret_ctl = ctl;
    return 0;
}
