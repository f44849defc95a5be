/* SPDX-License-Identifier: Apache-2.0 */
/* registry.c - see registry.h: jobs by id, lists, and what is freed when.
 *
 * Jobs that are not over are kept in one array, ascending by id, which is the order they came in; so adding is
 * appending and finding is halving. Finished ones go into a ring; how they ended is remembered in a larger one, because
 * a job may be told to come after one that has long left the first.
 */
#include "ctl/state/registry.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/state/state_internal.h"
#include "wire/text/json_write.h"

#define FINISHED_BYTES ((size_t)128 << 20) /* of the submissions of finished jobs; the oldest go first */

/* The first place of the id or a greater one. */
static size_t live_position(const struct registry *registry, int64_t id)
{
    size_t low = 0, high = registry->live_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (registry->live_ids[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct ctl_job *live_find(const struct registry *registry, int64_t id)
{
    size_t at = live_position(registry, id);

    return at < registry->live_count && registry->live_ids[at] == id ? registry->live[at] : NULL;
}

/* The first that is not over, from the id on. */
static struct ctl_job *live_from(const struct registry *registry, int64_t id)
{
    size_t at = live_position(registry, id);

    while (at < registry->live_count && !registry->live[at])
        at++;
    return at < registry->live_count ? registry->live[at] : NULL;
}

struct ctl_job *registry_get(struct registry *registry, int64_t id)
{
    return live_find(registry, id);
}

struct ctl_job *registry_after(struct registry *registry, int64_t id)
{
    return live_from(registry, id + 1);
}

const struct ctl_job *registry_find(const struct registry *registry, int64_t id)
{
    const struct ctl_job *job = live_find(registry, id);

    for (uint32_t k = id_index_first(&registry->finished_index, id); !job && k != ID_INDEX_NONE;
         k = id_index_next(&registry->finished_index, k))
        if (registry->finished[k]->id == id)
            job = registry->finished[k];
    return job;
}

bool registry_array_live(const struct registry *registry, int64_t array_id)
{
    const struct ctl_job *next = live_from(registry, array_id + 1);

    /* Elements have the ids that follow the array's own. */
    return next && array_id > 0 && next->array_id == array_id;
}

const struct ctl_job *registry_element(const struct registry *registry, int64_t array_id, int64_t id)
{
    const struct ctl_job *next = live_from(registry, id);

    return next && next->array_id == array_id ? next : NULL;
}

const struct ctl_job *registry_array_last(const struct registry *registry, int64_t array_id)
{
    size_t at = live_position(registry, array_id + SUBMISSION_ARRAY_MAX + 1);

    while (at > 0 && registry->live_ids[at - 1] > array_id &&
           (!registry->live[at - 1] || registry->live[at - 1]->array_id != array_id))
        at--;
    return at > 0 && registry->live_ids[at - 1] > array_id ? registry->live[at - 1] : NULL;
}

size_t registry_array(const struct registry *registry, int64_t array_id, const struct ctl_job **out, size_t max)
{
    size_t count = 0;

    for (size_t at = live_position(registry, array_id + 1); at < registry->live_count && array_id > 0; at++) {
        if (!registry->live[at])
            continue;
        if (registry->live[at]->array_id != array_id)
            break;
        if (count < max)
            out[count] = registry->live[at];
        count++;
    }
    return count;
}

void registry_compact(struct registry *registry)
{
    size_t to = 0;

    if (registry->live_gaps == 0)
        return;
    while (registry->live[to])
        to++;
    for (size_t from = to; from < registry->live_count; from++) {
        if (!registry->live[from])
            continue;
        registry->live[to] = registry->live[from];
        registry->live_ids[to++] = registry->live_ids[from];
    }
    assert(to + registry->live_gaps == registry->live_count);
    registry->live_count = to;
    registry->live_gaps = 0;
}

const struct ctl_node *registry_node_find(const struct registry *registry, const char *name)
{
    uint32_t index = names_find(&registry->node_names, name, strlen(name));

    return index == NAME_NONE ? NULL : &registry->nodes[index];
}

int registry_init(struct registry *registry, const struct ctl_config *config)
{
    *registry =
        (struct registry){ .next_id = 1, .finished_capacity = config->finished_keep ? config->finished_keep : 1 };
    registry->live_capacity = config->jobs_max;
    registry->live = mem_zalloc(registry->live_capacity, sizeof(*registry->live));
    registry->live_ids = mem_zalloc(registry->live_capacity, sizeof(*registry->live_ids));
    registry->finished = mem_zalloc(registry->finished_capacity, sizeof(*registry->finished));
    registry->outcomes = mem_zalloc(REGISTRY_OUTCOMES, sizeof(*registry->outcomes));
    registry->keys = mem_zalloc(REGISTRY_KEYS, sizeof(*registry->keys));
    registry->key_first = mem_zalloc(REGISTRY_KEYS, sizeof(*registry->key_first));
    kept_init(&registry->kept);
    if (id_index_init(&registry->finished_index, registry->finished_capacity) < 0 ||
        id_index_init(&registry->outcome_index, REGISTRY_OUTCOMES) < 0)
        return -ENOMEM;
    return registry->live && registry->live_ids && registry->finished && registry->outcomes && registry->keys &&
                   registry->key_first
               ? 0
               : -ENOMEM;
}

void registry_key_link(struct registry *registry, size_t index)
{
    uint16_t *first = &registry->key_first[registry->keys[index].hash % REGISTRY_KEYS];

    registry->keys[index].next = *first;
    assert(index < REGISTRY_KEYS);
    *first = (uint16_t)(index + 1);
}

/* The job is about to be freed, and with it all lists. */
static void live_forget(struct registry *registry, struct ctl_job *job)
{
    if (!job)
        return;
    dependents_drop(&registry->dependents, &job->after);
    if (!job->source->array)
        return;
    dependents_drop(&registry->dependents, &job->source->array->after);
    job->source->array->turns = TREE_NONE;
}

void registry_done(struct registry *registry)
{
    for (size_t i = 0; i < registry->live_count; i++)
        live_forget(registry, registry->live[i]);
    dependents_done(&registry->dependents);
    for (size_t i = 0; i < registry->live_count; i++)
        ctl_job_free(registry->live[i]);
    for (size_t i = 0; registry->finished && i < registry->finished_capacity; i++)
        ctl_job_free(registry->finished[i]);
    for (size_t i = 0; i < registry->node_count; i++) {
        inventory_done(&registry->nodes[i].inventory);
        mem_free(registry->nodes[i].gpus);
    }
    mem_free(registry->live);
    mem_free(registry->live_ids);
    mem_free(registry->user);
    id_index_done(&registry->finished_index);
    id_index_done(&registry->outcome_index);
    mem_free(registry->finished);
    mem_free(registry->outcomes);
    mem_free(registry->keys);
    mem_free(registry->key_first);
    mem_free(registry->nodes);
    mem_free(registry->tokens);
    kept_done(&registry->kept);
    names_done(&registry->users);
    names_done(&registry->node_names);
}

/* What says which elements an array has may be long: it is kept once, however many submissions its elements have. */
static void elements_move(struct submission *to, struct submission *from)
{
    to->array = take(from->array);
    to->array_count = from->array_count;
    to->array_keys = take(from->array_keys);
    to->array_values = take(from->array_values);
    to->array_key_count = from->array_key_count;
    from->array_count = from->array_key_count = 0;
}

static void elements_show(struct ctl_spec *spec)
{
    const struct submission *own = &spec->array->elements;

    spec->s.array = own->array;
    spec->s.array_count = own->array_count;
    spec->s.array_keys = own->array_keys;
    spec->s.array_values = own->array_values;
    spec->s.array_key_count = own->array_key_count;
}

static int array_new(struct ctl_spec *spec)
{
    if (spec->s.array_count == 0)
        return 0;
    spec->array = mem_zalloc(1, sizeof(*spec->array));
    if (!spec->array)
        return -ENOMEM;
    spec->array->refs = 1;
    spec->array->turns = TREE_NONE;
    elements_move(&spec->array->elements, &spec->s);
    elements_show(spec);
    return 0;
}

static void array_drop(struct ctl_array *array)
{
    if (!array || --array->refs > 0)
        return;
    assert(!array->after);
    assert(array->turns == TREE_NONE);
    submission_done(&array->elements);
    mem_free(array);
}

struct ctl_array *ctl_array_hold(struct ctl_array *array)
{
    if (array)
        array->refs++;
    return array;
}

void ctl_array_drop(struct ctl_array *array)
{
    array_drop(array);
}

struct ctl_spec *ctl_spec_take(const char *text, struct submission *s)
{
    struct ctl_spec *spec = mem_zalloc(1, sizeof(*spec));

    if (!spec) {
        submission_done(s);
        return NULL;
    }
    spec->refs = 1;
    spec->s = *s;
    spec->text = entry_text(text);
    spec->bytes = strlen(text);
    if (array_new(spec) < 0 || !spec->text) {
        ctl_spec_drop(spec);
        return NULL;
    }
    return spec;
}

struct ctl_spec *ctl_spec_new(const char *text, struct error *err)
{
    struct ctl_spec *spec;
    struct submission s;

    if (!text) {
        (void)error_set(err, -EINVAL, "spec: expected a submission");
        return NULL;
    }
    if (submission_from_doc(text, strlen(text), &s, err) < 0)
        return NULL;
    spec = ctl_spec_take(text, &s);
    if (!spec)
        (void)error_set(err, -ENOMEM, "no memory for a job");
    return spec;
}

void ctl_spec_edit(struct ctl_spec *spec, const struct submission_edit *edit)
{
    char *text = submission_edit(spec->text, edit);

    if (!text)
        return;
    mem_free(spec->text);
    spec->text = text;
    spec->bytes = strlen(text);
}

void ctl_spec_drop(struct ctl_spec *spec)
{
    assert(!spec || spec->refs > 0);
    if (!spec || --spec->refs > 0)
        return;
    if (spec->array)
        elements_move(&(struct submission){ 0 }, &spec->s); /* they are the array's */
    array_drop(spec->array);
    submission_done(&spec->s);
    mem_free(spec->text);
    mem_free(spec);
}

void ctl_spec_share(struct ctl_spec *spec, const struct ctl_spec *other)
{
    if (spec->array == other->array || !other->array)
        return;
    assert(!spec->array || spec->array->inside == 0);
    array_drop(spec->array);
    spec->array = other->array;
    spec->array->refs++;
    elements_show(spec);
}

void text_fit(char *to, size_t size, const char *text)
{
    size_t at = 0, left = strlen(text), step;

    while (left > 0) {
        step = json_utf8_length(text + at, left);
        step = step ? step : 1;
        if (at + step >= size)
            break;
        at += step;
        left -= step;
    }
    memmove(to, text, at);
    to[at] = '\0';
}

void ctl_job_free(struct ctl_job *job)
{
    if (!job)
        return;
    for (uint32_t a = 0; a < job->attempt_count; a++) {
        for (uint32_t t = 0; t < job->attempts[a].task_count; t++)
            mem_free(job->attempts[a].tasks[t].gpus);
        mem_free(job->attempts[a].tasks);
        mem_free(job->attempts[a].role_ends);
        mem_free(job->attempts[a].refusal);
    }
    mem_free(job->attempts);
    ctl_spec_drop(job->source);
    mem_free(job);
}

int ctl_attempt_add(struct ctl_job *job)
{
    struct ctl_attempt *grown;

    assert(!attempt_live(attempt_of(job)));
    grown = mem_resize(job->attempts, job->attempt_count + 1, sizeof(*job->attempts));

    if (!grown)
        return -ENOMEM;
    job->attempts = grown;
    grown[job->attempt_count] =
        (struct ctl_attempt){ .number = job->attempt_count, .phase = PHASE_JOB_STARTING, .state = ATTEMPT_PLACED };
    job->attempt_count++;
    return 0;
}

/* There is a record of each user that has a number. */
static int user_room(struct registry *registry, uint32_t user)
{
    size_t had = registry->user_capacity;
    void *block = registry->user;
    int r = mem_grow(&block, &registry->user_capacity, user + (size_t)1, NAMES_MAX, sizeof(*registry->user));

    registry->user = block;
    if (r < 0)
        return r;
    for (size_t i = had; i < registry->user_capacity; i++)
        registry->user[i] = (struct ctl_user){ .gate = TREE_NONE };
    return 0;
}

void job_weigh(struct registry *registry, struct ctl_job *job, size_t shared)
{
    size_t bytes = job->source->bytes / (shared ? shared : 1) + 1;

    registry->user[job->user].bytes += bytes - job->bytes;
    job->bytes = bytes;
}

/* The job is new: ids only go up. */
int registry_add(struct ctl *ctl, struct ctl_job *job)
{
    struct registry *registry = &ctl->registry;

    if (registry->live_count == registry->live_capacity)
        registry_compact(registry);
    if (registry->live_count == registry->live_capacity || ctl->free_count == 0)
        return -ENOSPC;
    if (user_room(registry, job->user) < 0)
        return -ENOMEM;
    assert(registry->live_count == 0 || registry->live_ids[registry->live_count - 1] < job->id);
    job->index = ctl->free_index[--ctl->free_count];
    assert(job->index < ctl->config.jobs_max);
    assert(!ctl->by_index[job->index]);
    ctl->by_index[job->index] = job;
    registry->live_ids[registry->live_count] = job->id;
    registry->live[registry->live_count++] = job;
    registry->user[job->user].live++;
    job_weigh(registry, job, job->source->s.array_count);
    if (job->source->array)
        job->source->array->live++;
    return 0;
}

void registry_outcome_put(struct registry *registry, int64_t id, enum phase_of_job phase)
{
    size_t at = registry->outcome_next;

    if (registry->outcome_count == REGISTRY_OUTCOMES)
        id_index_remove(&registry->outcome_index, registry->outcomes[at].id, at);
    else
        registry->outcome_count++;
    registry->outcomes[at] = (struct ctl_outcome){ id, phase };
    id_index_put(&registry->outcome_index, id, at);
    registry->outcome_next = (at + 1) % REGISTRY_OUTCOMES;
}

/* An array ended well when all its elements did. */
static enum phase_of_job array_outcome(const struct registry *registry, const struct ctl_job *last)
{
    int64_t end = last->array_id + (int64_t)last->spec->array_count;

    for (int64_t id = last->array_id + 1; id <= end; id++) {
        enum phase_of_job phase = registry_outcome(registry, id);

        if (phase != PHASE_JOB_COUNT && phase != PHASE_JOB_COMPLETED)
            return PHASE_JOB_FAILED;
    }
    return PHASE_JOB_COMPLETED;
}

/* Nothing of it is in the lists of those that wait any more. */
static void live_leave(struct ctl *ctl, struct ctl_job *job)
{
    struct registry *registry = &ctl->registry;
    struct ctl_array *array = job->source->array;

    gate_queue_leave(ctl, job);
    user_count(ctl, job);
    assert(registry->user[job->user].live > 0);
    registry->user[job->user].live--;
    registry->user[job->user].bytes -= job->bytes;
    dependents_drop(&registry->dependents, &job->after);
    if (!array)
        return;
    assert(array->live > 0);
    if (--array->live == 0)
        dependents_drop(&registry->dependents, &array->after);
}

static void finished_drop(struct registry *registry)
{
    size_t at = (registry->finished_next + registry->finished_capacity - registry->finished_count) %
                registry->finished_capacity;
    struct ctl_job *oldest = take(registry->finished[at]);

    assert(registry->finished_count > 0);
    registry->finished_count--;
    registry->finished_bytes -= oldest->bytes;
    id_index_remove(&registry->finished_index, oldest->id, at);
    ctl_job_free(oldest);
}

/* The newest, however large it is, and as many before it as there is room for. */
static void finished_put(struct registry *registry, struct ctl_job *job)
{
    size_t at = registry->finished_next;

    while (registry->finished_count == registry->finished_capacity ||
           (registry->finished_count && registry->finished_bytes + job->bytes > FINISHED_BYTES))
        finished_drop(registry);
    registry->finished_count++;
    registry->finished_bytes += job->bytes;
    registry->finished[at] = job;
    id_index_put(&registry->finished_index, job->id, at);
    registry->finished_next = (at + 1) % registry->finished_capacity;
}

/* It is over: out of the list of those that are not, into the rings. */
void registry_retire(struct ctl *ctl, struct ctl_job *job)
{
    struct registry *registry = &ctl->registry;
    size_t at = live_position(registry, job->id);

    assert(at < registry->live_count && registry->live[at] == job);
    assert(phase_over(job->phase));
    assert(job->link == LINK_OUTSIDE);
    assert(ctl->by_index[job->index] == job);
    assert(ctl->free_count < ctl->config.jobs_max);
    /* The place stays empty until the batch is over: to close each gap at once would move the list each time. */
    registry->live[at] = NULL;
    registry->live_gaps++;
    live_leave(ctl, job);
    heap_clear(&ctl->timers, job->index);
    ctl->by_index[job->index] = NULL;
    ctl->free_index[ctl->free_count++] = job->index;
    finished_put(registry, job);
    registry_outcome_put(registry, job->id, job->phase);
    if (job->array_id && job->source->array->live == 0)
        registry_outcome_put(registry, job->array_id, array_outcome(registry, job));
}

enum phase_of_job registry_outcome(const struct registry *registry, int64_t id)
{
    for (uint32_t k = id_index_first(&registry->outcome_index, id); k != ID_INDEX_NONE;
         k = id_index_next(&registry->outcome_index, k))
        if (registry->outcomes[k].id == id)
            return registry->outcomes[k].phase;
    return PHASE_JOB_COUNT;
}
