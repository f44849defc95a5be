/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_book.c - see snapshot_book.h. The keys of these documents are the names of the members that are saved now.
 */
#include "ctl/log/snapshot_book.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/log/entry_json.h"
#include "ctl/state/state_internal.h"
#include "wire/job/jobspec_json.h"

enum { BOOK_VERSION = 2 };

/* Numbers, flags and characters of a record; `prefix`: what names have before the key. Text of another type, and what
 * is not there, is nothing; of text there is as much as fits. */
static void fields_read(enum saved_kind kind, const json_t *from, const char *prefix, void *record)
{
    const struct field_list *list = saved_fields(kind);

    for (size_t i = 0; i < list->count; i++) {
        const struct entry_field *field = &list->fields[i];
        bool inside = strncmp(field->name, prefix, strlen(prefix)) == 0;
        const json_t *value = inside ? json_object_get(from, field->name + strlen(prefix)) : NULL;
        char *at = (char *)record + field->offset;

        if (field->type == FIELD_CHARS && json_is_string(value)) {
            size_t length = json_string_length(value);

            length = length < (size_t)field->most ? length : (size_t)field->most;
            memcpy(at, json_string_value(value), length);
            at[length] = '\0';
        } else if (field->type == FIELD_FLAG) {
            *(bool *)at = json_integer_value(value) != 0;
        } else if (field_is_number(field->type)) {
            (void)field_number_set(field->type, at, json_integer_value(value));
        }
    }
}

static int64_t number_of(const json_t *from, const char *key)
{
    return json_integer_value(json_object_get(from, key));
}

static bool flag_was(const json_t *from, const char *key)
{
    return number_of(from, key) != 0;
}

/* Snapshots of before attempts had states have flags of the job and of the attempt in their place. */
static enum attempt_state state_was(const json_t *job, const json_t *from, const struct ctl_attempt *attempt, bool last)
{
    bool phase_suspended = number_of(job, "phase") == PHASE_JOB_SUSPENDED;

    if (attempt->ended || !last)
        return attempt_gone(attempt) ? ATTEMPT_OVER : ATTEMPT_LEFT;
    if (flag_was(job, "waits_old"))
        return ATTEMPT_PLACED;
    if (flag_was(from, "prepared"))
        return ATTEMPT_GATED;
    if (flag_was(from, "stopping"))
        return flag_was(from, "moves") ? ATTEMPT_MOVING : ATTEMPT_STOPPING;
    if (attempt->kept_until)
        return ATTEMPT_KEPT;
    if (flag_was(from, "ending"))
        return ATTEMPT_ENDING;
    if (phase_suspended && flag_was(job, "suspended_by_user"))
        return ATTEMPT_PAUSED;
    if (attempt->stop_cause == STOP_CAUSE_SUSPEND)
        return phase_suspended ? ATTEMPT_SUSPENDED : flag_was(job, "orphan") ? ATTEMPT_ORPHANED : ATTEMPT_SUSPENDING;
    if (phase_suspended)
        return ATTEMPT_RESUMING;
    return attempt->phase == PHASE_JOB_RUNNING ? ATTEMPT_RUNNING
           : flag_was(from, "told_go")         ? ATTEMPT_GOING
                                               : ATTEMPT_LAUNCHED;
}

static enum core_link link_was(const json_t *job)
{
    return !flag_was(job, "in_core")                           ? LINK_OUTSIDE
           : flag_was(job, "ends") || flag_was(job, "gave_up") ? LINK_ENDING
           : flag_was(job, "reenters")                         ? LINK_REENTERING
                                                               : LINK_INSIDE;
}

static char *text_borrow(const json_t *text)
{
    return (char *)(uintptr_t)json_string_value(text);
}

static int task_put(const json_t *from, const struct ctl_task *task, struct buf *out)
{
    const json_t *gpus = json_object_get(from, "gpus");
    struct saved_task saved = { .task = *task, .cause = text_borrow(json_object_get(from, "cause")) };

    saved.gpus.items = mem_zalloc(json_array_size(gpus) + 1, sizeof(int64_t));
    if (!saved.gpus.items)
        return -ENOMEM;
    for (size_t g = 0; g < json_array_size(gpus); g++)
        saved.gpus.items[saved.gpus.count++] = json_integer_value(json_array_get(gpus, g));
    saved_put(out, SAVED_TASK, &saved);
    mem_free(saved.gpus.items);
    return 0;
}

/* {ROLE: {INDEX: [exit, signal]}} as numbers of tasks among those of all roles. */
static int ends_read(const json_t *roles, const json_t *spec, struct number_list *ret)
{
    struct submission s;
    int64_t first = 0;
    size_t count = 0;
    const char *key;
    json_t *end;

    if (json_object_size(roles) == 0 || submission_from_value((json_t *)(uintptr_t)spec, &s, NULL) < 0)
        return 0;
    for (size_t r = 0; r < s.role_count; r++)
        count += json_object_size(json_object_get(roles, s.roles[r].name));
    ret->items = mem_zalloc(count * 3 + 1, sizeof(int64_t));
    for (size_t r = 0; ret->items && r < s.role_count; r++) {
        json_object_foreach(json_object_get(roles, s.roles[r].name), key, end)
        {
            ret->items[ret->count++] = first + strtol(key, NULL, 10);
            ret->items[ret->count++] = json_integer_value(json_array_get(end, 0));
            ret->items[ret->count++] = json_integer_value(json_array_get(end, 1));
        }
        first += s.roles[r].count;
    }
    submission_done(&s);
    return ret->items ? 0 : -ENOMEM;
}

static int attempt_put(const json_t *job, const json_t *from, const json_t *spec, bool last, struct buf *out)
{
    const json_t *tasks = json_object_get(from, "tasks");
    struct saved_attempt saved = { .stop_kind = text_borrow(json_object_get(from, "stop_kind")) };
    struct ctl_attempt *attempt = &saved.attempt;
    int r = ends_read(json_object_get(from, "roles"), spec, &saved.role_ends);

    fields_read(SAVED_ATTEMPT, from, "attempt.", &saved);
    attempt->refusal = text_borrow(json_object_get(from, "refusal"));
    attempt->stop_cause = (uint8_t)stop_cause_find(saved.stop_kind);
    attempt->tasks = mem_zalloc(json_array_size(tasks) + 1, sizeof(*attempt->tasks));
    if (r < 0 || !attempt->tasks) {
        mem_free(attempt->tasks);
        mem_free(saved.role_ends.items);
        return -ENOMEM;
    }
    for (size_t t = 0; t < json_array_size(tasks); t++) {
        struct saved_task task = { 0 };

        fields_read(SAVED_TASK, json_array_get(tasks, t), "task.", &task);
        attempt->tasks[attempt->task_count++] = task.task;
    }
    if (!json_object_get(from, "state")) {
        attempt->state = (uint8_t)state_was(job, from, attempt, last);
        attempt->went = flag_was(from, "told_go");
        attempt->gang_ended = flag_was(from, "ending");
    }
    saved_put(out, SAVED_ATTEMPT, &saved);
    for (uint32_t t = 0; t < attempt->task_count && r == 0; t++)
        r = task_put(json_array_get(tasks, t), &attempt->tasks[t], out);
    mem_free(attempt->tasks);
    mem_free(saved.role_ends.items);
    return r;
}

static int job_put(const json_t *from, const json_t *spec, struct buf *out)
{
    const json_t *attempts = json_object_get(from, "attempts");
    struct ctl_job job = { 0 };
    struct jobspec wants = { 0 };
    int r = 0;

    fields_read(SAVED_JOB, from, "", &job);
    if (!json_object_get(from, "link"))
        job.link = (uint8_t)link_was(from);
    wants_read(json_object_get(from, "wants"), &wants);
    saved_put(out, SAVED_JOB, &job);
    saved_put_wants(out, &wants);
    for (size_t a = 0; a < json_array_size(attempts) && r == 0; a++)
        r = attempt_put(from, json_array_get(attempts, a), spec, a + 1 == json_array_size(attempts), out);
    return r;
}

/* A tree as an item that is a text; nothing: "{}". */
static int tree_put(struct buf *out, enum saved_kind kind, const json_t *tree)
{
    char *text = tree ? entry_doc(tree) : mem_strdup("{}");

    if (text)
        saved_put_text(out, kind, text);
    mem_free(text);
    return text ? 0 : -ENOMEM;
}

int snapshot_jobs(const json_t *registry, struct buf *out, struct error *err)
{
    const json_t *jobs = json_object_get(registry, "jobs"), *specs = json_object_get(registry, "specs");
    const json_t *spec = NULL;
    int64_t last = -1;
    int r = 0;

    for (size_t i = 0; i < json_array_size(jobs) && r == 0; i++) {
        const json_t *from = json_array_get(jobs, i);
        int64_t number = number_of(from, "spec");

        if (number != last) {
            spec = json_array_get(specs, (size_t)number);
            r = tree_put(out, SAVED_SPEC, spec);
        }
        last = number;
        if (r == 0)
            r = job_put(from, spec, out);
    }
    return r < 0 || out->error ? error_set(err, -ENOMEM, "no memory for a snapshot") : 0;
}

static int head_put(const json_t *registry, struct buf *out)
{
    const json_t *ended = json_object_get(registry, "ended"), *settings = json_object_get(registry, "settings");
    int64_t counts[PHASE_JOB_COUNT] = { 0 };
    struct saved_head head = { .seq = (uint64_t)number_of(registry, "seq"),
                               .event = (uint64_t)number_of(registry, "event"),
                               .submitted = (uint64_t)number_of(registry, "submitted"),
                               .now = number_of(registry, "now"),
                               .next_id = number_of(registry, "next_id"),
                               .paused = json_is_true(json_object_get(registry, "paused")),
                               .ended = { counts, PHASE_JOB_COUNT } };

    for (size_t i = 0; i < PHASE_JOB_COUNT; i++)
        counts[i] = json_integer_value(json_array_get(ended, i));
    head.settings = json_is_object(settings) ? entry_doc(settings) : mem_strdup("{}");
    if (head.settings)
        saved_put(out, SAVED_HEAD, &head);
    mem_free(head.settings);
    return head.settings ? 0 : -ENOMEM;
}

static void names_write(const json_t *names, enum saved_kind kind, struct buf *out)
{
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));

        saved_put_text(out, kind, name ? name : "");
    }
}

static int nodes_put(const json_t *nodes, struct buf *out)
{
    int r = 0;

    for (size_t n = 0; n < json_array_size(nodes) && r == 0; n++) {
        const json_t *from = json_array_get(nodes, n), *gpus = json_object_get(from, "gpus");
        struct ctl_node node = { 0 };

        fields_read(SAVED_NODE, from, "", &node);
        saved_put(out, SAVED_NODE, &node);
        r = tree_put(out, SAVED_INVENTORY, json_object_get(from, "inventory"));
        for (size_t g = 0; g < json_array_size(gpus); g++) {
            struct ctl_gpu gpu = { 0 };

            fields_read(SAVED_GPU, json_array_get(gpus, g), "", &gpu);
            saved_put(out, SAVED_GPU, &gpu);
        }
    }
    return r;
}

static void rings_put(const json_t *registry, struct buf *out)
{
    const json_t *outcomes = json_object_get(registry, "outcomes"), *tokens = json_object_get(registry, "tokens");
    const json_t *keys = json_object_get(registry, "keys");

    for (size_t i = 0; i < json_array_size(tokens); i++) {
        struct ctl_token token = { 0 };

        fields_read(SAVED_TOKEN, json_array_get(tokens, i), "", &token);
        saved_put(out, SAVED_TOKEN, &token);
    }
    for (size_t i = 0; i + 1 < json_array_size(outcomes); i += 2)
        saved_put(out, SAVED_OUTCOME,
                  &(struct ctl_outcome){ json_integer_value(json_array_get(outcomes, i)),
                                         (enum phase_of_job)json_integer_value(json_array_get(outcomes, i + 1)) });
    for (size_t i = 0; i < json_array_size(keys); i++) {
        struct ctl_key key = { 0 };

        fields_read(SAVED_KEY, json_array_get(keys, i), "", &key);
        saved_put(out, SAVED_KEY, &key);
    }
}

int snapshot_book(const json_t *registry, struct buf *out, struct error *err)
{
    int64_t version = number_of(registry, "version");
    int r;

    if (version < 1 || version > BOOK_VERSION)
        return error_set(err, -EPROTONOSUPPORT, "snapshot: of version %lld, this controller reads up to %d",
                         (long long)version, BOOK_VERSION);
    r = head_put(registry, out);
    names_write(json_object_get(registry, "users"), SAVED_USER, out);
    names_write(json_object_get(registry, "node_names"), SAVED_NODE_NAME, out);
    if (r == 0)
        r = nodes_put(json_object_get(registry, "nodes"), out);
    rings_put(registry, out);
    return r < 0 || out->error ? error_set(err, -ENOMEM, "no memory for a snapshot") : 0;
}

int snapshot_skus(const json_t *registry, struct record_list *skus)
{
    const json_t *list = json_object_get(registry, "skus");

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *pair = json_array_get(list, i);
        struct ctl_sku *sku = record_add(skus);

        if (!sku)
            return -ENOMEM;
        sku->name = entry_text(json_string_value(json_array_get(pair, 0)));
        sku->memory_mib = json_integer_value(json_array_get(pair, 1));
        if (!sku->name)
            sku->name = entry_text("");
    }
    return 0;
}
