/* SPDX-License-Identifier: Apache-2.0 */
/* book.c - see book.h: jobs by id, lists, and what is freed when.
 *
 * Jobs that are not over are kept in one array, ascending by id, which is the order they came in; so adding is
 * appending and finding is halving. Finished ones go into a ring; how they ended is remembered in a larger one, because
 * a job may be told to come after one that has long left the first.
 */
#include "ctl/book.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/part.h"
#include "wire/json_write.h"

static size_t live_position(const struct book *book, int64_t id)
{
    size_t low = 0, high = book->live_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (book->live[middle]->id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct book_job *book_get(struct book *book, int64_t id)
{
    size_t at = live_position(book, id);

    return at < book->live_count && book->live[at]->id == id ? book->live[at] : NULL;
}

struct book_job *book_after(struct book *book, int64_t id)
{
    size_t at = live_position(book, id + 1);

    return at < book->live_count ? book->live[at] : NULL;
}

const struct book_job *book_find(const struct book *book, int64_t id)
{
    size_t at = live_position(book, id);

    if (at < book->live_count && book->live[at]->id == id)
        return book->live[at];
    /* From the newest: what people ask for is what has just ended. */
    for (size_t i = 0; i < book->finished_count; i++) {
        size_t k = (book->finished_next + book->finished_capacity - 1 - i) % book->finished_capacity;

        if (book->finished[k]->id == id)
            return book->finished[k];
    }
    return NULL;
}

size_t book_array(const struct book *book, int64_t array_id, const struct book_job **out, size_t max)
{
    size_t count = 0;

    /* Elements have the ids that follow the array's own. */
    for (size_t at = live_position(book, array_id); at < book->live_count; at++)
        if (book->live[at]->array_id == array_id) {
            if (count < max)
                out[count] = book->live[at];
            count++;
        } else if (book->live[at]->id > array_id + SUBMISSION_ARRAY_MAX) {
            break;
        }
    return count;
}

const struct book_node *book_node_find(const struct book *book, const char *name)
{
    uint32_t index = names_find(&book->node_names, name, strlen(name));

    return index == NAME_NONE ? NULL : &book->nodes[index];
}

int book_init(struct book *book, const struct ctl_config *config)
{
    *book = (struct book){ .next_id = 1, .finished_capacity = config->finished_keep ? config->finished_keep : 1 };
    book->live_capacity = config->jobs_max;
    book->live = mem_zalloc(book->live_capacity, sizeof(*book->live));
    book->finished = mem_zalloc(book->finished_capacity, sizeof(*book->finished));
    book->outcomes = mem_zalloc(BOOK_OUTCOMES, sizeof(*book->outcomes));
    book->keys = mem_zalloc(BOOK_KEYS, sizeof(*book->keys));
    book->key_first = mem_zalloc(BOOK_KEYS, sizeof(*book->key_first));
    book->limits = json_object();
    book->secrets = json_object();
    book->hooks = json_array();
    book->choices = json_array();
    book->resvs = json_array();
    book->licenses = json_array();
    return book->live && book->finished && book->outcomes && book->keys && book->key_first && book->limits &&
                   book->secrets && book->hooks && book->choices && book->resvs && book->licenses
               ? 0
               : -ENOMEM;
}

void book_key_link(struct book *book, size_t index)
{
    uint16_t *first = &book->key_first[book->keys[index].hash % BOOK_KEYS];

    book->keys[index].next = *first;
    *first = (uint16_t)(index + 1);
}

void book_done(struct book *book)
{
    for (size_t i = 0; i < book->live_count; i++)
        book_job_free(book->live[i]);
    for (size_t i = 0; i < book->finished_count; i++)
        book_job_free(book->finished[i]);
    for (size_t i = 0; i < book->node_count; i++) {
        json_decref(book->nodes[i].inventory);
        json_decref(book->nodes[i].labels);
        mem_free(book->nodes[i].gpus);
    }
    mem_free(book->live);
    mem_free(book->finished);
    mem_free(book->outcomes);
    mem_free(book->keys);
    mem_free(book->key_first);
    mem_free(book->nodes);
    mem_free(book->tokens);
    json_decref(book->limits);
    json_decref(book->secrets);
    json_decref(book->hooks);
    json_decref(book->choices);
    json_decref(book->resvs);
    json_decref(book->licenses);
    names_done(&book->users);
    names_done(&book->node_names);
}

struct book_spec *book_spec_new(json_t *json, struct error *err)
{
    struct book_spec *spec = mem_zalloc(1, sizeof(*spec));

    if (!spec) {
        (void)error_set(err, -ENOMEM, "no memory for a job");
        return NULL;
    }
    if (submission_from_value(json, &spec->s, err) < 0) {
        mem_free(spec);
        return NULL;
    }
    spec->refs = 1;
    spec->json = json_incref(json);
    return spec;
}

struct book_spec *book_spec_take(json_t *json, struct submission *s)
{
    struct book_spec *spec = mem_zalloc(1, sizeof(*spec));

    if (!spec) {
        submission_done(s);
        return NULL;
    }
    spec->s = *s;
    spec->refs = 1;
    spec->json = json_incref(json);
    return spec;
}

void book_spec_drop(struct book_spec *spec)
{
    if (!spec || --spec->refs > 0)
        return;
    submission_done(&spec->s);
    json_decref(spec->json);
    mem_free(spec);
}

void book_words(char *to, size_t size, const char *text)
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

void book_job_free(struct book_job *job)
{
    if (!job)
        return;
    for (uint32_t a = 0; a < job->attempt_count; a++) {
        for (uint32_t t = 0; t < job->attempts[a].task_count; t++)
            mem_free(job->attempts[a].tasks[t].gpus);
        mem_free(job->attempts[a].tasks);
        json_decref(job->attempts[a].roles);
        mem_free(job->attempts[a].refusal);
    }
    mem_free(job->attempts);
    book_spec_drop(job->source);
    mem_free(job);
}

int book_attempt_add(struct book_job *job)
{
    struct book_attempt *grown = mem_resize(job->attempts, job->attempt_count + 1, sizeof(*job->attempts));

    if (!grown)
        return -ENOMEM;
    job->attempts = grown;
    grown[job->attempt_count] = (struct book_attempt){ .number = job->attempt_count, .phase = PHASE_JOB_STARTING };
    job->attempt_count++;
    return 0;
}

/* The job is new: ids only go up. */
int book_add(struct ctl *ctl, struct book_job *job)
{
    struct book *book = &ctl->book;

    if (book->live_count == book->live_capacity || ctl->free_count == 0)
        return -ENOSPC;
    assert(book->live_count == 0 || book->live[book->live_count - 1]->id < job->id);
    job->index = ctl->free_index[--ctl->free_count];
    ctl->by_index[job->index] = job;
    book->live[book->live_count++] = job;
    return 0;
}

static void outcome_put(struct book *book, int64_t id, enum phase_of_job phase)
{
    book->outcomes[book->outcome_next] = (struct book_outcome){ id, phase };
    book->outcome_next = (book->outcome_next + 1) % BOOK_OUTCOMES;
    if (book->outcome_count < BOOK_OUTCOMES)
        book->outcome_count++;
}

/* An array ended well when all its elements did. */
static enum phase_of_job array_outcome(const struct book *book, const struct book_job *last)
{
    int64_t end = last->array_id + (int64_t)last->spec->array_count;

    for (size_t i = 0; i < book->outcome_count; i++)
        if (book->outcomes[i].id > last->array_id && book->outcomes[i].id <= end &&
            book->outcomes[i].phase != PHASE_JOB_COMPLETED)
            return PHASE_JOB_FAILED;
    return PHASE_JOB_COMPLETED;
}

/* It is over: out of the list of those that are not, into the rings. */
void book_retire(struct ctl *ctl, struct book_job *job)
{
    struct book *book = &ctl->book;
    size_t at = live_position(book, job->id);

    assert(at < book->live_count && book->live[at] == job);
    memmove(&book->live[at], &book->live[at + 1], (book->live_count - at - 1) * sizeof(*book->live));
    book->live_count--;
    heap_clear(&ctl->timers, job->index);
    ctl->by_index[job->index] = NULL;
    ctl->free_index[ctl->free_count++] = job->index;
    if (book->finished_count == book->finished_capacity)
        book_job_free(book->finished[book->finished_next]);
    else
        book->finished_count++;
    book->finished[book->finished_next] = job;
    book->finished_next = (book->finished_next + 1) % book->finished_capacity;
    outcome_put(book, job->id, job->phase);
    if (job->array_id && book_array(book, job->array_id, NULL, 0) == 0)
        outcome_put(book, job->array_id, array_outcome(book, job));
}

enum phase_of_job book_outcome(const struct book *book, int64_t id)
{
    for (size_t i = 0; i < book->outcome_count; i++) {
        size_t k = (book->outcome_next + BOOK_OUTCOMES - 1 - i) % BOOK_OUTCOMES;

        if (book->outcomes[k].id == id)
            return book->outcomes[k].phase;
    }
    return PHASE_JOB_COUNT;
}
